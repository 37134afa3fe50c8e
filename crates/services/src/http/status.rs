//! The statuses this service answers with, other than 200 and 206, and what it says with each.

/// A status: its code, its reason phrase, and a sentence for the person who reads the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) explanation: &'static str,
}

impl Status {
    const fn new(code: u16, reason: &'static str, explanation: &'static str) -> Self {
        Status { code, reason, explanation }
    }
}

pub(super) const MOVED_PERMANENTLY: Status =
    Status::new(301, "Moved Permanently", "This is a directory; its address ends with a slash.");
pub(super) const NOT_MODIFIED: Status = Status::new(304, "Not Modified", "");
pub(super) const BAD_REQUEST: Status =
    Status::new(400, "Bad Request", "The request is not well-formed HTTP.");
pub(super) const FORBIDDEN: Status =
    Status::new(403, "Forbidden", "The server may not read this, or does not serve what it is.");
pub(super) const NOT_FOUND: Status =
    Status::new(404, "Not Found", "There is nothing by this name.");
pub(super) const METHOD_NOT_ALLOWED: Status =
    Status::new(405, "Method Not Allowed", "Files can be asked for by GET and HEAD only.");
pub(super) const REQUEST_TIMEOUT: Status =
    Status::new(408, "Request Timeout", "The request took too long to arrive.");
pub(super) const PRECONDITION_FAILED: Status =
    Status::new(412, "Precondition Failed", "The file has changed.");
pub(super) const CONTENT_TOO_LARGE: Status = Status::new(
    413,
    "Content Too Large",
    "The body of the request is longer than the server reads.",
);
pub(super) const URI_TOO_LONG: Status =
    Status::new(414, "URI Too Long", "The address is longer than the server reads.");
pub(super) const RANGE_NOT_SATISFIABLE: Status =
    Status::new(416, "Range Not Satisfiable", "The file ends before the range that was asked for.");
pub(super) const FIELDS_TOO_LARGE: Status = Status::new(
    431,
    "Request Header Fields Too Large",
    "The request has more or longer header fields than the server reads.",
);
pub(super) const INTERNAL_SERVER_ERROR: Status =
    Status::new(500, "Internal Server Error", "The server could not read this file.");
pub(super) const NOT_IMPLEMENTED: Status =
    Status::new(501, "Not Implemented", "The server does not know this method or transfer coding.");
pub(super) const SERVICE_UNAVAILABLE: Status = Status::new(
    503,
    "Service Unavailable",
    "The server is short of descriptors or memory; try again.",
);
pub(super) const VERSION_NOT_SUPPORTED: Status =
    Status::new(505, "HTTP Version Not Supported", "The server speaks HTTP/1.0 and HTTP/1.1.");
