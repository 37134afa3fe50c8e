//! The statuses of replies, and the texts of refusals.

/// A status: its code, its reason phrase, and a sentence for the reader of the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Status {
    /// Three digits (RFC 9110, section 15).
    pub code: u16,
    /// The text after the code in the status line.
    pub reason: &'static str,
    /// The text of a refusal's page. Empty if there is no such page.
    pub explanation: &'static str,
}

impl Status {
    const fn new(code: u16, reason: &'static str, explanation: &'static str) -> Self {
        Status { code, reason, explanation }
    }

    /// Whether the server has failed. An unknown method or version (501, 505) is not a failure.
    #[must_use]
    pub fn is_a_failure(&self) -> bool {
        self.code >= 500 && ![501, 505].contains(&self.code)
    }
}

/// 200 OK.
pub const OK: Status = Status::new(200, "OK", "");
/// 301 Moved Permanently.
pub const MOVED_PERMANENTLY: Status =
    Status::new(301, "Moved Permanently", "This is a directory; its address ends with a slash.");
/// 303 See Other.
pub const SEE_OTHER: Status =
    Status::new(303, "See Other", "It is done; the result is at another address.");
/// 304 Not Modified.
pub const NOT_MODIFIED: Status = Status::new(304, "Not Modified", "");
/// 400 Bad Request.
pub const BAD_REQUEST: Status =
    Status::new(400, "Bad Request", "The request is not well-formed HTTP.");
/// 403 Forbidden.
pub const FORBIDDEN: Status = Status::new(
    403,
    "Forbidden",
    "The server may not read this file, or does not serve files of its kind.",
);
/// 404 Not Found.
pub const NOT_FOUND: Status = Status::new(404, "Not Found", "There is nothing by this name.");
/// 405 Method Not Allowed.
pub const METHOD_NOT_ALLOWED: Status =
    Status::new(405, "Method Not Allowed", "This address does not offer the method.");
/// 408 Request Timeout.
pub const REQUEST_TIMEOUT: Status =
    Status::new(408, "Request Timeout", "The request took too long to arrive.");
/// 412 Precondition Failed.
pub const PRECONDITION_FAILED: Status =
    Status::new(412, "Precondition Failed", "The file has changed.");
/// 413 Content Too Large.
pub const CONTENT_TOO_LARGE: Status = Status::new(
    413,
    "Content Too Large",
    "The body of the request is longer than the server reads.",
);
/// 414 URI Too Long.
pub const URI_TOO_LONG: Status =
    Status::new(414, "URI Too Long", "The address is longer than the server reads.");
/// 415 Unsupported Media Type.
pub const UNSUPPORTED_MEDIA_TYPE: Status = Status::new(
    415,
    "Unsupported Media Type",
    "The body of the request is not of a type that this address takes.",
);
/// 416 Range Not Satisfiable.
pub const RANGE_NOT_SATISFIABLE: Status =
    Status::new(416, "Range Not Satisfiable", "The file ends before the range that was asked for.");
/// 417 Expectation Failed.
pub const EXPECTATION_FAILED: Status = Status::new(
    417,
    "Expectation Failed",
    "The server does not support what the field Expect asks for.",
);
/// 421 Misdirected Request.
pub const MISDIRECTED_REQUEST: Status = Status::new(
    421,
    "Misdirected Request",
    "The address is for https, but this connection has no TLS.",
);
/// 422 Unprocessable Content.
pub const UNPROCESSABLE_CONTENT: Status = Status::new(422, "Unprocessable Content", "");
/// 431 Request Header Fields Too Large.
pub const FIELDS_TOO_LARGE: Status = Status::new(
    431,
    "Request Header Fields Too Large",
    "The request has more or longer header fields than the server reads.",
);
/// 500 Internal Server Error.
pub const INTERNAL_SERVER_ERROR: Status =
    Status::new(500, "Internal Server Error", "The server failed to make this page.");
/// 501 Not Implemented.
pub const NOT_IMPLEMENTED: Status =
    Status::new(501, "Not Implemented", "The server does not know this method or transfer coding.");
/// 502 Bad Gateway.
pub const BAD_GATEWAY: Status =
    Status::new(502, "Bad Gateway", "The server behind this one cannot be reached, or failed.");
/// 503 Service Unavailable.
pub const SERVICE_UNAVAILABLE: Status =
    Status::new(503, "Service Unavailable", "The server cannot answer at the moment; try again.");
/// 504 Gateway Timeout.
pub const GATEWAY_TIMEOUT: Status =
    Status::new(504, "Gateway Timeout", "The server behind this one took too long to answer.");
/// 505 HTTP Version Not Supported.
pub const VERSION_NOT_SUPPORTED: Status =
    Status::new(505, "HTTP Version Not Supported", "The server speaks HTTP/1.0 and HTTP/1.1.");
