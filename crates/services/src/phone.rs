//! The phone service: a telephone book with entries to add and to find.
//!
//! Each request is a line, and each reply is a line, in the order of the requests. A client may
//! send many requests before it reads. A line ends with LF, and a CR before the LF is dropped.
//! Replies end with LF.
//!
//! ```text
//! → ADD NAME NUMBER          NAME: 1 to 64 bytes of printable UTF-8 without spaces
//! ← ADDED NAME NUMBER        NUMBER: 1 to 32 of 0 to 9 + - ( ) .
//! → FIND NAME
//! ← FOUND NAME NUMBER        or, if there is none: NONE NAME
//! → anything else
//! ← ERROR what is wrong
//! ```
//!
//! `ADD` replaces an earlier number. The reply `ADDED` means that the entry is kept in the
//! [`Store`]: the entry survives `kill -9` (with `--durable`, a power cut too). If the store is
//! unavailable, the reply is `ERROR the store is unavailable`, and the connection goes on. The
//! entry may have been kept nevertheless. A client that leaves while its request waits for the
//! store frees its place within a second.
//!
//! The reply to a line longer than 256 bytes begins with `ERROR`, and then the connection ends.
//! After 60 seconds of silence, the connection ends without a reply.

use std::{io, time::Duration};

use duality_runtime::{
    net::{Line, Lines, TcpStream},
    task,
};

use crate::{
    Entry, Setting,
    client::Client,
    line::{PATIENCE, bound_patience, linger},
    shared,
    store::{self, Calls, Store, Unavailable},
};

/// The phone service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "phone",
    summary: "keeps telephone numbers and finds them again",
    protocol: "lines of text, see docs/protocols.md",
    open: |setup| {
        let phone =
            Phone::new(setup.open_store(ENTRY.name)?).serving_half_closed(setup.half_closed);
        Ok(shared(phone, |phone, stream| async move { phone.serve(stream).await }))
    },
    settings: &[Setting::Store, Setting::Durable, Setting::HalfClosed],
    keeps: true,
    stack: store::STACK,
    ..Entry::PLAIN
};

/// The most bytes in a request line.
const LONGEST: usize = 256;

/// Bytes in the longest name.
const LONGEST_NAME: usize = 64;

/// Bytes in the longest number.
const LONGEST_NUMBER: usize = 32;

/// The time that a client may stay silent.
const SILENCE: Duration = Duration::from_secs(60);

/// The phone service; clones share the store.
#[derive(Clone)]
pub struct Phone {
    store: Store,
    serves_half_closed: bool,
}

impl Phone {
    /// A service that keeps its entries in `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, serves_half_closed: false }
    }

    /// The same service, which waits for its store also on behalf of clients that have shut down
    /// their sending side, if `serves`. Otherwise they count as clients that have left, if a wait
    /// takes half a second.
    #[must_use]
    pub fn serving_half_closed(self, serves: bool) -> Self {
        Self { serves_half_closed: serves, ..self }
    }

    /// Answers the requests of one connection.
    ///
    /// Each reply leaves before the next request is read. So a kept entry is acknowledged at once,
    /// even if later requests take long.
    ///
    /// # Errors
    ///
    /// The connection broke, or the client took nothing of a reply for too long.
    pub async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        bound_patience(&mut stream, PATIENCE)?;
        let mut lines = Lines::new(LONGEST);
        loop {
            task::stage("phone: request").await;
            match lines.next(&mut stream).await? {
                Line::Text(line) => {
                    stream.begin_request();
                    task::stage("phone: look up").await;
                    let client = Client::of(&stream, self.serves_half_closed);
                    let reply = reply(line, self.store.on_behalf_of(client)).await;
                    if reply.is_none() && client.has_left() {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    let reply = reply.unwrap_or_else(|| "ERROR the store is unavailable\n".into());
                    task::stage("phone: reply").await;
                    stream.write_all(reply.as_bytes()).await?;
                    stream.end_request();
                }
                Line::TooLong => {
                    stream.write_all(b"ERROR a line is at most 256 bytes\n").await?;
                    linger(&mut stream).await;
                    return Ok(());
                }
                Line::End => return Ok(()),
            }
        }
    }
}

/// The reply to a line. `None` without the store.
async fn reply(line: &[u8], store: Calls<'_>) -> Option<String> {
    let replied = match parse(line) {
        Err(wrong) => return Some(format!("ERROR {wrong}\n")),
        Ok(Request::Add { name, number }) => add(store, name, number).await,
        Ok(Request::Find { name }) => find(store, name).await,
    };
    replied.ok()
}

async fn add(store: Calls<'_>, name: &str, number: &str) -> Result<String, Unavailable> {
    store.add_entry(name, number).await?;
    Ok(format!("ADDED {name} {number}\n"))
}

async fn find(store: Calls<'_>, name: &str) -> Result<String, Unavailable> {
    Ok(match store.find_entry(name).await? {
        // The same rules apply to entries that other programs have put into the store.
        Some(number) if is_number(&number) => format!("FOUND {name} {number}\n"),
        _ => format!("NONE {name}\n"),
    })
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'l> {
    Add { name: &'l str, number: &'l str },
    Find { name: &'l str },
}

/// Reads a line, without its end.
///
/// # Errors
///
/// The line is wrong, as the message says.
pub(crate) fn parse(line: &[u8]) -> Result<Request<'_>, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "a line is UTF-8")?;
    let mut words = line.split(' ');
    let request = match (words.next(), words.next(), words.next(), words.next()) {
        (Some("ADD"), Some(name), Some(number), None) => Request::Add { name, number },
        (Some("FIND"), Some(name), None, None) => Request::Find { name },
        _ => return Err("a request is ADD NAME NUMBER or FIND NAME"),
    };
    let (Request::Add { name, .. } | Request::Find { name }) = request;
    if !is_name(name) {
        return Err("a name is 1 to 64 bytes, all printable");
    }
    match request {
        Request::Add { number, .. } if !is_number(number) => {
            Err("a number is 1 to 32 of 0123456789+-().")
        }
        request => Ok(request),
    }
}

/// No kind of white space is allowed, so that every reader sees one word.
fn is_name(word: &str) -> bool {
    (1..=LONGEST_NAME).contains(&word.len())
        && !word.contains(|character: char| character.is_control() || character.is_whitespace())
}

fn is_number(word: &str) -> bool {
    (1..=LONGEST_NUMBER).contains(&word.len())
        && word.bytes().all(|byte| b"0123456789+-().".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_understood() {
        for (line, request) in [
            ("ADD ann 1", Request::Add { name: "ann", number: "1" }),
            ("ADD Zoë +44-(0)1.2", Request::Add { name: "Zoë", number: "+44-(0)1.2" }),
            ("FIND ADD", Request::Find { name: "ADD" }),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok(request), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let (name, number) = ("x".repeat(LONGEST_NAME), "1".repeat(LONGEST_NUMBER));
        assert!(parse(format!("ADD {name} {number}").as_bytes()).is_ok());
        for (line, expected) in [
            ("", "a request"),
            ("ADD", "a request"),
            ("ADD ann", "a request"),
            ("ADD ann 1 2", "a request"),
            ("ADD  ann 1", "a request"),
            ("ADD  1", "a name"),
            ("add ann 1", "a request"),
            ("FIND", "a request"),
            ("FIND ann ", "a request"),
            ("FIND ", "a name"),
            ("FIND a\tb", "a name"),
            ("FIND a\0", "a name"),
            ("FIND a\u{a0}b", "a name"),
            ("FIND a\u{2028}b", "a name"),
            ("ADD ann 1a", "a number"),
            ("ADD ann ", "a number"),
            (&format!("FIND {name}x"), "a name"),
            (&format!("FIND {}ë", &name[1..]), "a name"),
            (&format!("ADD ann {number}1"), "a number"),
        ] {
            let wrong = parse(line.as_bytes()).unwrap_err();
            assert!(wrong.starts_with(expected), "{line:?}: {wrong}");
        }
        assert_eq!(parse(b"FIND \xff"), Err("a line is UTF-8"));
    }

    proptest! {
        #[test]
        fn what_is_well_formed_is_understood(
            name in "[^\\s\\pC]{1,16}",
            number in "[-0-9+().]{1,32}",
        ) {
            let line = format!("ADD {name} {number}");
            prop_assert_eq!(
                parse(line.as_bytes()),
                Ok(Request::Add { name: &name, number: &number })
            );
            let line = format!("FIND {name}");
            prop_assert_eq!(parse(line.as_bytes()), Ok(Request::Find { name: &name }));
        }

        /// Any line is either refused, or is the text of the parsed request.
        #[test]
        fn a_line_is_refused_or_taken_at_its_word(
            line in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "(ADD |FIND |.{0,3})[a-z\u{e9}\u{a0} ]{0,5} ?[0-9a ]{0,4}".prop_map(String::into_bytes),
            ],
        ) {
            if let Ok(request) = parse(&line) {
                let text = match request {
                    Request::Add { name, number } => format!("ADD {name} {number}"),
                    Request::Find { name } => format!("FIND {name}"),
                };
                prop_assert_eq!(text.as_bytes(), &line[..]);
            }
        }
    }
}
