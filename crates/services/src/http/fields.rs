//! The combined meaning of a request's header fields (RFC 9110, RFC 9112). The fields determine
//! whether the connection stays, how the body is framed, and which conditions apply.

use duality_runtime::drain;
use httparse::Header;

use super::{
    authority::split_authority,
    conditional::Conditions,
    grammar::number,
    status::{self, Status},
    target,
};

/// Whether the connection stays after the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The connection stays open: the default in HTTP/1.1.
    Implied,
    /// The connection stays open at the request of an HTTP/1.0 client. The reply must announce it.
    Announced,
    /// The connection ends.
    Close,
}

impl Persistence {
    /// Unchanged, or `Close` if the server drains. Call it just before the reply is written.
    #[must_use]
    #[inline]
    pub fn unless_draining(self) -> Self {
        if drain::requested() { Persistence::Close } else { self }
    }
}

/// How the body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body has so many bytes.
    Length(u64),
    /// The body comes in chunks that mark its end.
    Chunked,
}

impl Framing {
    /// There is no body.
    pub const NONE: Framing = Framing::Length(0);
}

/// Whether a field of this name tells of the client behind a relay. An underscore counts as a
/// hyphen, because gateways by environment variables cannot tell them apart.
pub(crate) fn is_on_behalf(name: &[u8]) -> bool {
    const EXACT: [&[u8]; 2] = [b"forwarded", b"x-real-ip"];
    const BEGINNING: &[u8] = b"x-forwarded-";
    let is = |(byte, known): (&u8, &u8)| match byte {
        b'_' => *known == b'-',
        byte => byte.eq_ignore_ascii_case(known),
    };
    let begins_like = |known: &[u8]| name.len() >= known.len() && name.iter().zip(known).all(is);
    begins_like(BEGINNING)
        || EXACT.iter().any(|known| name.len() == known.len() && begins_like(known))
}

/// The header fields that matter here, collected one after the other.
#[derive(Default)]
pub(super) struct Fields<'b> {
    host: Option<&'b [u8]>,
    has_content_type: bool,
    content_length: Option<u64>,
    codings: Codings,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    expects_other: bool,
    conditions: Conditions<'b>,
}

/// The combined meaning of the header fields.
pub(crate) struct Finished<'b> {
    pub(crate) persistence: Persistence,
    pub(crate) body: Framing,
    pub(crate) expects_continue: bool,
    pub(super) conditions: Conditions<'b>,
}

impl<'b> Fields<'b> {
    /// Reads all fields.
    pub(super) fn read(headers: &[Header<'b>]) -> Result<Fields<'b>, &'static Status> {
        let mut fields = Fields::default();
        for header in headers {
            fields.take(header.name, header.value)?;
        }
        Ok(fields)
    }

    fn take(&mut self, name: &str, value: &'b [u8]) -> Result<(), &'static Status> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        // Most fields do not matter here, and the length rules most of them out.
        match name.len() {
            4 if is("host") => {
                let earlier = self.host.replace(value);
                if earlier.is_some() || split_authority(value).is_none() {
                    return Err(&status::BAD_REQUEST);
                }
            }
            6 if is("expect") => {
                let is_continue = value.eq_ignore_ascii_case(b"100-continue");
                self.expects_continue |= is_continue;
                self.expects_other |= !is_continue;
            }
            10 if is("connection") => self.take_connection(value),
            12 if is("content-type") => {
                // If a field comes twice, frameworks differ in which value counts.
                let earlier = std::mem::replace(&mut self.has_content_type, true);
                if earlier {
                    return Err(&status::BAD_REQUEST);
                }
            }
            14 if is("content-length") => {
                // The standard also lets a server merge equal values. But an honest client sends
                // one.
                let length = content_length(value).ok_or(&status::BAD_REQUEST)?;
                let earlier = self.content_length.replace(length);
                if earlier.is_some() {
                    return Err(&status::BAD_REQUEST);
                }
            }
            17 if is("transfer-encoding") => self.codings.take(value),
            // A gateway may take these names for the framing, because it turns fields into
            // environment variables (RFC 3875, section 4.1.18).
            14 if is("content_length") => return Err(&status::BAD_REQUEST),
            17 if is("transfer_encoding") => return Err(&status::BAD_REQUEST),
            5 | 8 | 13 | 17 | 19 => self.conditions.take(name, value),
            _ => {}
        }
        Ok(())
    }

    fn take_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Combines the fields of a request for `target`.
    pub(super) fn finish(
        self,
        minor_version: u8,
        target: &str,
    ) -> Result<Finished<'b>, &'static Status> {
        // RFC 9112, section 3.2.2: the host in a target counts, and the client must repeat it in
        // `Host`. If the two hosts differ, implementations that read only one of them see different
        // requests.
        let host_is_right = match self.host {
            None => minor_version == 0,
            Some(host) => target::agrees(target, host),
        };
        if !host_is_right {
            return Err(&status::BAD_REQUEST);
        }
        let body = match (self.codings, self.content_length) {
            (Codings::None, length) => Framing::Length(length.unwrap_or(0)),
            // RFC 9112, section 6.1: in both cases the framing of the message is in doubt.
            (_, Some(_)) => return Err(&status::BAD_REQUEST),
            _ if minor_version == 0 => return Err(&status::BAD_REQUEST),
            (codings, None) => codings.framing()?,
        };
        // HTTP/1.0 has no expectations (RFC 9110, section 10.1.1).
        if self.expects_other && minor_version > 0 {
            return Err(&status::EXPECTATION_FAILED);
        }
        let persistence = match minor_version {
            _ if self.close => Persistence::Close,
            0 if self.keep_alive => Persistence::Announced,
            0 => Persistence::Close,
            _ => Persistence::Implied,
        };
        Ok(Finished {
            persistence,
            body,
            expects_continue: self.expects_continue && minor_version > 0,
            conditions: self.conditions,
        })
    }
}

/// The codings of `Transfer-Encoding`: one list, even if several fields hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Codings {
    #[default]
    None,
    /// `chunked` alone.
    Chunked,
    /// Other codings, after which `chunked` may come.
    Others,
    /// Other codings, then `chunked`.
    OthersThenChunked,
    /// Any other combination.
    Doubtful,
}

impl Codings {
    /// Adds a field's value to the list.
    pub(crate) fn take(&mut self, value: &[u8]) {
        for coding in value.split(|&byte| byte == b',') {
            let coding = coding.trim_ascii();
            *self = match *self {
                _ if coding.is_empty() => Codings::Doubtful,
                Codings::None if coding.eq_ignore_ascii_case(b"chunked") => Codings::Chunked,
                Codings::Others if coding.eq_ignore_ascii_case(b"chunked") => {
                    Codings::OthersThenChunked
                }
                Codings::None | Codings::Others => Codings::Others,
                _ => Codings::Doubtful,
            };
        }
    }

    /// How a body is framed. RFC 9112, section 6.3: if the last coding is not chunked, the end of
    /// the body is unknown. Other codings before it are legal, but not supported here.
    fn framing(self) -> Result<Framing, &'static Status> {
        match self {
            Codings::None => Ok(Framing::NONE),
            Codings::Chunked => Ok(Framing::Chunked),
            Codings::OthersThenChunked => Err(&status::NOT_IMPLEMENTED),
            Codings::Others | Codings::Doubtful => Err(&status::BAD_REQUEST),
        }
    }
}

/// The length in a field. The standard allows zeros before the number, but clients do not write
/// them. Some implementations call `strtol(3)` with base 0, which reads `010` as 8. Behind such a
/// proxy, the last two bytes of a body would begin the next request.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    if matches!(value, [b'0', _, ..]) { None } else { number(value) }
}
