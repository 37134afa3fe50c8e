//! The heads of requests and replies: read, and written anew for the next hop, without I/O.
//!
//! Fields that concern one connection end here (RFC 9110, section 7.6.1). All other fields pass as
//! they came. The framing is written anew from its meaning, so the next server cannot read a
//! message that this one has not read.

use std::io::Write;
use std::mem::MaybeUninit;

use duality_runtime::net::TcpStream;
use httparse::Header;

use super::flow::Framed;
use super::limits::Forwarded;
use crate::http::{
    self, Codings, Framing, HEADER_FIELDS, Persistence, Raw, Unread, content_length,
    has_bare_line_feed,
    status::{self, Status},
};

/// The name of this program in `Via`.
const PSEUDONYM: &str = "duality";

/// The fields that concern one connection, apart from those that `Connection` names.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The fields that `Connection` cannot remove, because they frame or address the message.
const NOT_REMOVABLE: [&str; 2] = ["content-length", "host"];

/// The one protocol that a connection may switch to. Others, such as `h2c`, would get requests past
/// this program's rules.
const SWITCHED_TO: &[u8] = b"websocket";

/// The client's address, as `X-Forwarded-For` has it, the address that the client asked, and what
/// becomes of the fields that say so.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) client: String,
    pub(super) here: String,
    pub(super) is_secure: bool,
    pub(super) forwarded: Forwarded,
}

impl Ends {
    /// The ends of a client's connection.
    pub(super) fn of(stream: &TcpStream, forwarded: Forwarded) -> Self {
        let client = stream.peer_addr().map(|address| address.ip().to_canonical().to_string());
        let here = stream.local_addr().map(|address| address.to_string());
        let unknown = || "unknown".to_owned();
        Self {
            client: client.unwrap_or_else(|_| unknown()),
            here: here.unwrap_or_else(|_| unknown()),
            is_secure: stream.is_encrypted(),
            forwarded,
        }
    }
}

/// A request, as far as its exchange depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The bytes of the head that the client sent.
    pub(super) length: usize,
    /// The reply has no body.
    pub(super) is_head: bool,
    /// The request may be sent again, because twice has the effect of once (RFC 9110, 9.2.2).
    pub(super) is_idempotent: bool,
    /// The client speaks HTTP/1.0, and so knows neither chunks nor interim replies.
    pub(super) is_old: bool,
    /// The client may wait for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
    /// The client asks for a WebSocket.
    pub(super) upgrades: bool,
    pub(super) body: Framing,
    pub(super) persistence: Persistence,
}

impl Request {
    /// Whether it may be sent to a second upstream, after the first one has closed without a reply.
    pub(super) fn is_repeatable(&self) -> bool {
        self.is_idempotent && self.body == Framing::NONE
    }
}

/// Reads the head of a request, and appends to `output` the head for an upstream.
///
/// # Errors
///
/// The head is not whole, or bad. The output is unchanged.
pub(super) fn read_request(
    bytes: &[u8],
    ends: &Ends,
    output: &mut Vec<u8>,
) -> Result<Request, Unread> {
    http::read(bytes, |raw| {
        let target = origin_form(&raw)?;
        let body = raw.finished.body;
        let upgrades = raw.method == "GET"
            && raw.minor_version > 0
            && body == Framing::NONE
            && switches_protocol(raw.fields);
        write_request(&raw, target, ends, upgrades, output);
        Ok(Request {
            length: raw.head.len(),
            is_head: raw.method == "HEAD",
            is_idempotent: matches!(raw.method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE"),
            is_old: raw.minor_version == 0,
            expects_continue: raw.finished.expects_continue,
            upgrades,
            body,
            persistence: raw.finished.persistence,
        })
    })
}

/// The target as an upstream takes it. `CONNECT` and `TRACE` are not relayed: the one asks for a
/// tunnel, and the other shows the fields that this program adds.
fn origin_form<'b>(raw: &Raw<'_, 'b>) -> Result<&'b str, &'static Status> {
    match (raw.method, raw.target) {
        ("CONNECT" | "TRACE", _) => Err(&status::NOT_IMPLEMENTED),
        ("OPTIONS", "*") => Ok("*"),
        (_, target) if target.starts_with('/') => Ok(target),
        (method, target) => match http::split_absolute(target) {
            Some((scheme, _, path)) if scheme.eq_ignore_ascii_case("http") => match path {
                "" if method == "OPTIONS" => Ok("*"),
                // A path must stand before the query.
                path if path.starts_with('/') => Ok(path),
                "" => Ok("/"),
                _ => Err(&status::BAD_REQUEST),
            },
            Some((scheme, _, _)) if scheme.eq_ignore_ascii_case("https") => {
                Err(&status::MISDIRECTED_REQUEST)
            }
            _ => Err(&status::BAD_REQUEST),
        },
    }
}

/// Whether the fields ask for the switch to a WebSocket, or grant it (RFC 6455, section 4).
fn switches_protocol(fields: &[Header<'_>]) -> bool {
    let mut wanted = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("upgrade"));
    let is_one = wanted.next().is_some_and(|field| field.value.eq_ignore_ascii_case(SWITCHED_TO));
    let is_option = || options(fields).any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    is_one && wanted.next().is_none() && is_option()
}

fn write_request(
    raw: &Raw<'_, '_>,
    target: &str,
    ends: &Ends,
    upgrades: bool,
    output: &mut Vec<u8>,
) {
    append(output, &[raw.method.as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\n"]);
    let named = Named::of(raw.fields);
    let (mut has_host, mut has_scheme) = (false, false);
    for field in raw.fields.iter().filter(|field| named.passes(field.name)) {
        has_host |= field.name.eq_ignore_ascii_case("host");
        if passes_on_behalf(field.name, ends.forwarded) {
            has_scheme |= field.name.eq_ignore_ascii_case("x-forwarded-proto");
            append_field(output, field);
        }
    }
    if !has_host {
        append(output, &[b"Host: ", ends.here.as_bytes(), b"\r\n"]);
    }
    if raw.finished.body == Framing::Chunked {
        output.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if upgrades {
        append(output, &[b"Connection: upgrade\r\nUpgrade: ", SWITCHED_TO, b"\r\n"]);
    }
    output.extend_from_slice(b"X-Forwarded-For: ");
    if ends.forwarded == Forwarded::Append {
        for field in raw.fields.iter().filter(|field| is_forwarded_for(field)) {
            append(output, &[field.value, b", "]);
        }
    }
    append(output, &[ends.client.as_bytes(), b"\r\n"]);
    if !has_scheme {
        let scheme: &[u8] = if ends.is_secure { b"https" } else { b"http" };
        append(output, &[b"X-Forwarded-Proto: ", scheme, b"\r\n"]);
    }
    let version = if raw.minor_version == 0 { b"1.0" } else { b"1.1" };
    append(output, &[b"Via: ", version, b" ", PSEUDONYM.as_bytes(), b"\r\n\r\n"]);
}

fn is_forwarded_for(field: &Header<'_>) -> bool {
    field.name.eq_ignore_ascii_case("x-forwarded-for") && !field.value.is_empty()
}

/// Whether a field passes as it came, if it names the origin of the request.
///
/// Gateways by environment variables read `X_Forwarded_For` as `X-Forwarded-For`. So a name with an
/// underscore never passes: its value would stand beside this program's, or instead of it.
fn passes_on_behalf(name: &str, forwarded: Forwarded) -> bool {
    if !http::is_on_behalf(name.as_bytes()) {
        return true;
    }
    forwarded == Forwarded::Append
        && !name.contains('_')
        && !name.eq_ignore_ascii_case("x-forwarded-for")
}

fn append(output: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| output.extend_from_slice(piece));
}

fn append_field(output: &mut Vec<u8>, field: &Header<'_>) {
    append(output, &[field.name.as_bytes(), b": ", field.value, b"\r\n"]);
}

/// The names in `Connection`, apart from the options that nearly every message has.
struct Named<'h, 'b> {
    fields: &'h [Header<'b>],
    any: bool,
}

impl<'h, 'b> Named<'h, 'b> {
    fn of(fields: &'h [Header<'b>]) -> Self {
        let is_usual = |option: &[u8]| {
            ["close", "keep-alive"]
                .iter()
                .any(|usual| option.eq_ignore_ascii_case(usual.as_bytes()))
        };
        let any = options(fields).any(|option| !is_usual(option));
        Self { fields, any }
    }

    /// Whether a field goes on to the next hop.
    fn passes(&self, name: &str) -> bool {
        let is = |known: &&str| name.eq_ignore_ascii_case(known);
        if HOP_BY_HOP.iter().any(&is) {
            return false;
        }
        !self.any
            || NOT_REMOVABLE.iter().any(is)
            || !options(self.fields).any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The options of all `Connection` fields.
fn options<'h>(fields: &'h [Header<'_>]) -> impl Iterator<Item = &'h [u8]> {
    fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("connection"))
        .flat_map(|field| field.value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
}

/// An upstream's reply, as far as its exchange depends on it.
#[derive(Debug)]
pub(super) struct Reply {
    /// The bytes of the head that the upstream sent.
    pub(super) length: usize,
    pub(super) code: u16,
    pub(super) body: Framed,
    /// Whether the upstream keeps its connection after this reply.
    pub(super) upstream_stays: bool,
    /// Whether the client's connection stays. `output` has said so.
    pub(super) persistence: Persistence,
    /// The body ends where the upstream closes, and the client gets it in chunks. So the client can
    /// tell the end from a cut, with TLS too.
    pub(super) gets_chunks: bool,
    /// The upstream switches to the protocol that the client has asked for.
    pub(super) switches: bool,
}

impl Reply {
    /// Whether the final reply follows (RFC 9110, section 15.2).
    pub(super) fn is_interim(&self) -> bool {
        self.code < 200 && !self.switches
    }
}

/// Reads the head of a reply to `request`, and appends to `output` the head for the client, if the
/// client understands it. `None` if the head is not whole. `persistence` is this side's wish.
///
/// # Errors
///
/// The head is malformed, or its framing is in doubt.
pub(super) fn read_reply(
    bytes: &[u8],
    request: &Request,
    persistence: Persistence,
    output: &mut Vec<u8>,
) -> Result<Option<Reply>, Malformed> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADER_FIELDS];
    let mut raw = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut raw, bytes, &mut room);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Malformed),
    };
    let (Some(code), Some(minor_version)) = (raw.code, raw.version) else {
        return Err(Malformed);
    };
    let fields: &[Header<'_>] = raw.headers;
    let switches = code == 101 && request.upgrades && switches_protocol(fields);
    // No other switch of protocols was asked for.
    if has_bare_line_feed(&bytes[..length]) || code < 100 || (code == 101 && !switches) {
        return Err(Malformed);
    }
    let is_option =
        |known: &str| options(fields).any(|option| option.eq_ignore_ascii_case(known.as_bytes()));
    let body = framing(fields, code, minor_version, request.is_head)?;
    let upstream_stays = match minor_version {
        0 => is_option("keep-alive"),
        _ => !is_option("close"),
    };
    let has_end = matches!(body, Framed::Length(_));
    let persistence = if request.is_old && !has_end { Persistence::Close } else { persistence };
    let reply = Reply {
        length,
        code,
        upstream_stays: upstream_stays && !body.ends_by_close(),
        persistence,
        gets_chunks: body.ends_by_close() && !request.is_old,
        switches,
        body,
    };
    if !(reply.is_interim() && request.is_old) {
        write_reply(&reply, raw.reason.unwrap_or_default(), fields, request.is_old, output);
    }
    Ok(Some(reply))
}

/// An upstream's message that cannot be relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// How the body of a reply is framed (RFC 9112, section 6.3).
fn framing(
    fields: &[Header<'_>],
    code: u16,
    minor_version: u8,
    to_head: bool,
) -> Result<Framed, Malformed> {
    let mut codings = Codings::default();
    let mut length = None;
    for field in fields {
        if field.name.eq_ignore_ascii_case("transfer-encoding") {
            codings.take(field.value);
        } else if field.name.eq_ignore_ascii_case("content-length") {
            let value = content_length(field.value).ok_or(Malformed)?;
            if length.replace(value).is_some() {
                return Err(Malformed);
            }
        }
    }
    let has_none = to_head || code < 200 || code == 204 || code == 304;
    match (codings, length) {
        (Codings::None, _) if has_none => Ok(Framed::NONE),
        (Codings::None, Some(length)) => Ok(Framed::Length(length)),
        (Codings::None, None) => Ok(Framed::UntilEnd),
        // Both together are how replies are split.
        (Codings::Chunked, None) if minor_version > 0 => {
            Ok(if has_none { Framed::NONE } else { Framed::new(Framing::Chunked) })
        }
        _ => Err(Malformed),
    }
}

fn write_reply(
    reply: &Reply,
    reason: &str,
    fields: &[Header<'_>],
    to_old: bool,
    output: &mut Vec<u8>,
) {
    write!(output, "HTTP/1.1 {} {reason}\r\n", reply.code).expect("a vector takes every byte");
    let named = Named::of(fields);
    for field in fields.iter().filter(|field| named.passes(field.name)) {
        append_field(output, field);
    }
    if reply.switches {
        append(output, &[b"Connection: upgrade\r\nUpgrade: ", SWITCHED_TO, b"\r\n\r\n"]);
        return;
    }
    if reply.is_interim() {
        output.extend_from_slice(b"\r\n");
        return;
    }
    if reply.gets_chunks || (matches!(reply.body, Framed::Chunks(_)) && !to_old) {
        output.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    output.extend_from_slice(match reply.persistence {
        Persistence::Implied => b"\r\n",
        Persistence::Announced => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    });
}
