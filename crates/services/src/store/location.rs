//! The location of a store, as text: `sqlite:PATH` or `redis://HOST:PORT`.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use super::InvalidStore;

/// The default port of Redis.
const REDIS_PORT: u16 = 6379;

/// The location of a store.
///
/// Written `sqlite:PATH`, `sqlite:PATH?synchronous=full`, or
/// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`. In the last form, `%` and two hexadecimal
/// digits stand for a byte of user or password. Write an IPv6 address in brackets. `Display` and
/// `Debug` show `***` in place of a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file of SQLite, on a local file system. Its write-ahead log (`PATH-wal`) and the log's
    /// index (`PATH-shm`) are beside it. Any number of processes can share the file.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The failures that an acknowledged write survives.
        synchronous: Synchronous,
    },
    /// A Redis server. A kept write survives the end of this process. Redis's configuration decides
    /// which writes survive the end of Redis. With `appendonly yes` and `appendfsync always`, all
    /// writes survive. With `appendfsync everysec` (the default), the writes of about the last two
    /// seconds are lost, even by a `kill -9` of Redis alone. Without `appendonly`, only the writes
    /// in the last snapshot survive.
    Redis {
        /// The name or address.
        host: String,
        /// The port.
        port: u16,
        /// The number of the database (SELECT).
        database: u32,
        /// The user, of Redis 6 and later, if there is a password (AUTH).
        user: Option<String>,
        /// The password, if there is one (AUTH).
        password: Option<String>,
    },
}

/// The failures that an acknowledged write to SQLite survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The end of this process, also by `kill -9`: the kernel has the write. A loss of power or a
    /// crash of the kernel may lose the newest writes, but does not damage the file.
    #[default]
    Normal,
    /// A loss of power too, because each write waits for the disk (`fsync(2)`).
    Full,
}

impl Location {
    /// The SQLite file at `path`, with the default durability.
    #[must_use]
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self::Sqlite { path: path.into(), synchronous: Synchronous::default() }
    }

    /// The same place, with acknowledged writes that survive a loss of power
    /// ([`Synchronous::Full`]).
    ///
    /// # Errors
    ///
    /// The location is a Redis. Its configuration decides, and its replies do not show the
    /// durability.
    pub fn durable(self) -> Result<Self, InvalidStore> {
        match self {
            Self::Sqlite { path, .. } => Ok(Self::Sqlite { path, synchronous: Synchronous::Full }),
            Self::Redis { .. } => Err(InvalidStore {
                place: format!("`{self}`"),
                why: "Redis decides itself what survives a power cut: leave --durable out and configure \
                      `appendonly yes` and `appendfsync always` there, or use sqlite:PATH"
                    .to_owned(),
            }),
        }
    }
}

impl FromStr for Location {
    type Err = InvalidStore;

    fn from_str(written: &str) -> Result<Self, InvalidStore> {
        let location = if written.contains(char::is_control) {
            Err("it has a control character")
        } else if let Some(file) = written.strip_prefix("sqlite:") {
            parse_sqlite(file)
        } else if let Some(server) = written.strip_prefix("redis://") {
            parse_redis(server)
        } else {
            Err("write sqlite:PATH or redis://HOST:PORT")
        };
        // The error does not repeat text that may hold a password.
        location.map_err(|why| {
            let place = written.rsplit_once('@').map_or(written, |(_, place)| place);
            let place = format!("`{}`", place.replace(char::is_control, "\u{fffd}"));
            InvalidStore { place, why: why.to_owned() }
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path, synchronous } => {
                write!(formatter, "sqlite:{}", path.display())?;
                match synchronous {
                    Synchronous::Normal => Ok(()),
                    Synchronous::Full => formatter.write_str("?synchronous=full"),
                }
            }
            Self::Redis { host, port, database, user, password } => {
                formatter.write_str("redis://")?;
                if password.is_some() {
                    let user = user.as_deref().unwrap_or_default();
                    write!(formatter, "{}:***@", percent_encoded(user))?;
                }
                match host.contains(':') {
                    true => write!(formatter, "[{host}]:{port}")?,
                    false => write!(formatter, "{host}:{port}")?,
                }
                if *database != 0 {
                    write!(formatter, "/{database}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

fn parse_sqlite(file: &str) -> Result<Location, &'static str> {
    let (path, synchronous) = match file.split_once('?') {
        None | Some((_, "synchronous=normal")) => {
            (file.split('?').next().unwrap_or(file), Synchronous::Normal)
        }
        Some((path, "synchronous=full")) => (path, Synchronous::Full),
        Some(_) => return Err("after `?` only synchronous=full or synchronous=normal is known"),
    };
    // These names have a special meaning in SQLite. Here they would be names of files.
    if path.eq_ignore_ascii_case(":memory:") {
        return Err(
            "a store in memory ends with its process, and processes share a store: name a file, as in \
             sqlite:/dev/shm/store.sqlite, which is in memory too",
        );
    }
    if path.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
        return Err("SQLite's file: URIs are not read: name the file, as in sqlite:PATH");
    }
    if path.starts_with("//") && !path.starts_with("///") {
        return Err("write sqlite:PATH, without two slashes before the path");
    }
    if path.is_empty() {
        return Err("name the file: sqlite:PATH");
    }
    if path.ends_with('/') {
        return Err("this is a directory: name a file in it");
    }
    Ok(Location::Sqlite { path: path.into(), synchronous })
}

fn parse_redis(server: &str) -> Result<Location, &'static str> {
    let (credentials, place) = match server.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, server),
    };
    let (user, password) = match credentials.map(|credentials| credentials.split_once(':')) {
        None => (None, None),
        Some(None) => return Err("write :PASSWORD or USER:PASSWORD before `@`"),
        Some(Some((user, password))) => {
            const ENCODING: &str = "user or password is not percent-encoded UTF-8";
            let user = percent_decoded(user).ok_or(ENCODING)?;
            let password = percent_decoded(password).ok_or(ENCODING)?;
            (Some(user).filter(|user| !user.is_empty()), Some(password))
        }
    };
    let (place, database) = match place.split_once('/') {
        None | Some((_, "")) => (place.trim_end_matches('/'), 0),
        Some((place, database)) => {
            (place, database.parse().map_err(|_| "write the number of a database after `/`")?)
        }
    };
    let (host, port) = parse_address(place)?;
    Ok(Location::Redis { host: host.to_owned(), port, database, user, password })
}

/// Splits `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn parse_address(place: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = match place.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or("the bracket is not closed")?;
            host.parse::<Ipv6Addr>().map_err(|_| "put an IPv6 address into the brackets")?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err("write :PORT after the bracket");
            }
            (host, port)
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err("name the host: redis://HOST:PORT");
    }
    let port =
        match port {
            None => REDIS_PORT,
            Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or(
                "the port is a number from 1 to 65535 (write an IPv6 address in brackets)",
            )?,
        };
    Ok((host, port))
}

fn percent_decoded(written: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let mut value = 0;
                for &digit in digits {
                    value = value * 16 + char::from(digit).to_digit(16)?;
                }
                u8::try_from(value).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redis(host: &str, port: u16, database: u32) -> Location {
        Location::Redis { host: host.into(), port, database, user: None, password: None }
    }

    #[test]
    fn locations_are_read_as_they_are_written() {
        for (written, location) in [
            ("sqlite:book.db", Location::sqlite("book.db")),
            ("sqlite:/var/lib/a b.db?synchronous=normal", Location::sqlite("/var/lib/a b.db")),
            (
                "sqlite:/x?synchronous=full",
                Location::Sqlite { path: "/x".into(), synchronous: Synchronous::Full },
            ),
            ("redis://localhost", redis("localhost", 6379, 0)),
            ("redis://localhost/", redis("localhost", 6379, 0)),
            ("redis://10.0.0.7:7000/3", redis("10.0.0.7", 7000, 3)),
            ("redis://[::1]", redis("::1", 6379, 0)),
            ("redis://[::1]:7000", redis("::1", 7000, 0)),
        ] {
            let parsed: Location = written.parse().unwrap();
            assert!(parsed == location, "{written}: {parsed}");
            // The shown text is parsed as the same location.
            assert!(parsed.to_string().parse::<Location>().unwrap() == location, "{parsed}");
        }
    }

    #[test]
    fn only_what_promises_it_is_durable() {
        let durable = |written: &str| written.parse::<Location>().unwrap().durable();
        assert_eq!(durable("sqlite:x").unwrap().to_string(), "sqlite:x?synchronous=full");
        assert_eq!(
            durable("sqlite:x?synchronous=normal").unwrap().to_string(),
            "sqlite:x?synchronous=full"
        );
        let refused = durable("redis://:secret@host").unwrap_err().to_string();
        assert!(refused.contains("appendfsync always") && !refused.contains("secret"), "{refused}");
    }

    #[test]
    fn passwords_are_decoded_and_not_shown() {
        let written = "redis://ann:s%40cr:et@host:1/2";
        let location: Location = written.parse().unwrap();
        let Location::Redis { user, password, .. } = &location else { panic!("{location}") };
        assert_eq!(user.as_deref(), Some("ann"));
        assert_eq!(password.as_deref(), Some("s@cr:et"));
        assert_eq!(location.to_string(), "redis://ann:***@host:1/2");
        assert_eq!(format!("{location:?}"), "redis://ann:***@host:1/2");

        let location: Location = "redis://:secret@host".parse().unwrap();
        assert_eq!(location.to_string(), "redis://:***@host:6379");
        let error = "redis://:secret@host:port".parse::<Location>().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    /// The fuzz target location found this case: a user could add a line, or another user, to the
    /// shown text.
    #[test]
    fn what_is_shown_can_be_read_again() {
        let location: Location = "redis://a%0Ab%3A%40:secret@host".parse().unwrap();
        assert_eq!(location.to_string(), "redis://a%0Ab%3A%40:***@host:6379");
        let again: Location = location.to_string().parse().unwrap();
        assert!(matches!(again, Location::Redis { user: Some(user), .. } if user == "a\nb:@"));
    }

    #[test]
    fn what_is_no_location_is_refused_in_one_line() {
        for (written, expected) in [
            ("", "write sqlite:PATH or redis://HOST:PORT"),
            ("book.db", "write sqlite:PATH or redis://HOST:PORT"),
            ("sqlite:", "name the file"),
            ("sqlite:?synchronous=full", "name the file"),
            ("sqlite:x?mode=ro", "only synchronous=full"),
            ("sqlite::memory:", "sqlite:/dev/shm/store.sqlite"),
            ("sqlite::MEMORY:?synchronous=full", "sqlite:/dev/shm/store.sqlite"),
            ("sqlite:file::memory:", "file: URIs are not read"),
            ("sqlite:file:x?mode=memory&cache=shared", "only synchronous=full"),
            ("sqlite:FILE:x", "file: URIs are not read"),
            ("sqlite://", "without two slashes"),
            ("sqlite://var/lib/x", "without two slashes"),
            ("sqlite:/var/lib/", "a directory"),
            ("redis://", "name the host"),
            ("redis://:6379", "name the host"),
            ("redis://host:0", "the port"),
            ("redis://host:65536", "the port"),
            ("redis://::1", "name the host"),
            ("redis://[::1", "bracket"),
            ("redis://[host]", "IPv6"),
            ("redis://[::1]7", ":PORT"),
            ("redis://host/x", "number of a database"),
            ("redis://user@host", ":PASSWORD"),
            ("redis://:%zz@host", "percent-encoded"),
            ("redis://:%ff@host", "percent-encoded"),
            ("sqlite:a\nb", "control character"),
        ] {
            let error = written.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains(expected), "{written}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(written in "(sqlite:|redis://)?[a-z0-9:@/%?.=\\[\\]\u{e9}]{0,24}") {
            if let Ok(location) = written.parse::<Location>() {
                let shown = location.to_string();
                prop_assert!(shown.starts_with("sqlite:") || shown.starts_with("redis://"));
            }
        }
    }
}
