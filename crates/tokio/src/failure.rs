//! Tells whether the client or the application ended a connection.

use std::error::Error;
use std::io::{self, ErrorKind};

/// Translates the end of a connection of hyper into the result that architectures expect.
///
/// Some clients break off, take too long, or send bytes that are not HTTP. In these cases the
/// application has not failed. Hyper itself answers bytes that are not HTTP.
pub(crate) fn of_connection(ended: Result<(), Box<dyn Error + Send + Sync>>) -> io::Result<()> {
    let Err(error) = ended else { return Ok(()) };
    if let Some(hyper) = error.downcast_ref::<hyper::Error>() {
        if hyper.is_parse() {
            return Ok(());
        }
        if hyper.is_incomplete_message() || hyper.is_canceled() || hyper.is_closed() {
            return Err(io::Error::new(ErrorKind::ConnectionReset, error));
        }
        if is_of_the_clients_http2(hyper) {
            return Err(io::Error::new(ErrorKind::ConnectionAborted, in_full(&*error)));
        }
        if hyper.is_timeout() {
            return Err(io::Error::new(ErrorKind::TimedOut, in_full(&*error)));
        }
    }
    let kind = cause(&*error).map_or(ErrorKind::Other, io::Error::kind);
    let kind = if kind == ErrorKind::UnexpectedEof { ErrorKind::ConnectionReset } else { kind };
    Err(io::Error::new(kind, in_full(&*error)))
}

/// Whether a client has left the protocol of HTTP/2, or has ended the connection by its rules.
fn is_of_the_clients_http2(error: &hyper::Error) -> bool {
    let http2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let reason = http2.and_then(h2::Error::reason);
    reason.is_some_and(|reason| reason != h2::Reason::INTERNAL_ERROR)
}

/// The first error of the system among an error and its causes.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// An error with its causes, in one line.
pub(crate) fn in_full(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_leaves_is_told_from_a_failure_of_the_application() {
        let kind = |kind: ErrorKind| {
            of_connection(Err(Box::new(io::Error::from(kind)))).unwrap_err().kind()
        };
        assert_eq!(kind(ErrorKind::ConnectionReset), ErrorKind::ConnectionReset);
        assert_eq!(kind(ErrorKind::UnexpectedEof), ErrorKind::ConnectionReset);
        let own = of_connection(Err("the application has a bug".into())).unwrap_err();
        assert_eq!(own.kind(), ErrorKind::Other);
        assert_eq!(own.to_string(), "the application has a bug");
    }
}
