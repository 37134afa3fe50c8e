//! The stores of the guestbook and the phone book: an SQLite file, or Redis.
//!
//! ```text
//!   guestbook, phone ─> Store ─> sqlite   a file that each process opens, calls through `offload`
//!                            └─> redis    connections of each loop, in whichever world
//!   chat ────────────> Channel ─> redis  the same, and a subscription for each loop
//! ```
//!
//! A [`Store`] is made before the architecture starts its processes, threads and loops. Before its
//! first call, it keeps nothing open. So each process has its own descriptors, as SQLite demands,
//! and each loop its own connections. A write that returns `Ok` has been *kept*: it survives `kill
//! -9` of this process. [`Location`] says which other failures it survives. Every other result is
//! [`Unavailable`], after which the write may or may not have been kept. The next call tries anew,
//! so a store that comes back needs no restart of the server. The operator needs the cause, so it
//! goes to standard error, and the store's return too. There are at most two such lines in ten
//! seconds.

mod channel;
mod location;
mod pool;
pub(crate) mod redis;
mod report;
#[cfg_attr(not(feature = "sqlite"), path = "no_sqlite.rs")]
mod sqlite;

use std::fmt;
use std::sync::Arc;

use duality_runtime::block_on;
use duality_runtime::time::Duration;

use crate::client::Client;

pub use channel::{Channel, Subscription};
pub use location::{Location, Synchronous};
pub use redis::Epoch;

use redis::Redis;
use report::Reports;
use sqlite::Sqlite;

/// The most remarks that one visit reads.
pub const MOST_REMARKS: usize = 200;

/// The most bytes in a remark, guest and text together, or in an entry. More bytes get
/// [`Unavailable`], so that the bytes of a visit have a bound too.
pub const LONGEST_REMARK: usize = 16 << 10;

/// The least stack of a task that uses a store, in bytes.
pub const STACK: usize = 64 * 1024;

/// A store; clones are the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared<Kind>>,
}

/// A guest's entry in the guestbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The guest's name.
    pub guest: String,
    /// The guest's text.
    pub text: String,
}

/// The result of a visit to the guestbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The number of visitors, this one included.
    pub visitors: u64,
    /// The newest remarks, newest first.
    pub remarks: Vec<Remark>,
}

/// The options of a store. [`Default`] gives the value named at each field.
#[derive(Clone, Debug)]
pub struct Options {
    /// How a visit talks to Redis (pipelined).
    pub redis_calls: RedisCalls,
    /// The most connections to Redis of each loop, or of each process without loops (64).
    pub redis_connections: usize,
    /// How long connecting to Redis may take (1 s).
    pub connect_limit: Duration,
    /// How long Redis may take to reply (2 s).
    pub reply_limit: Duration,
    /// How long a call waits for its turn, that is, for a connection to Redis or for SQLite's lock
    /// (20 s).
    pub turn_limit: Duration,
}

/// How a visit talks to Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisCalls {
    /// One round trip: INCR and LRANGE in one write.
    #[default]
    Pipelined,
    /// Three round trips, as in ZeroHTTPd: LRANGE, INCR with an ignored reply, and GET, which reads
    /// the number. So visitors at the same time may see the same number. This mode waits as often
    /// as ZeroHTTPd.
    Separate,
}

impl RedisCalls {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::Pipelined, Self::Separate];

    /// The name in flags and plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::Separate => "separate",
        }
    }
}

/// There is no such store, or it cannot be set up as described. The message has the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store {place}: {why}")]
pub struct InvalidStore {
    place: String,
    why: String,
}

/// The call failed, or its outcome is unknown. The message says why in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store {place} is unavailable: {why}")]
pub struct Unavailable {
    place: String,
    why: String,
}

/// Why a call has no result.
enum Failed {
    /// Its client has left, whatever the store does.
    ClientLeft,
    /// The store failed, for this reason.
    Store(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Store(why)
    }
}

/// The calls of a store for one client, from [`Store::on_behalf_of`]. They do the same as those of
/// the [`Store`], and also return [`Unavailable`] within a second after the client has left.
#[derive(Clone, Copy)]
pub struct Calls<'s> {
    shared: &'s Shared<Kind>,
    client: Client<'s>,
}

struct Shared<K> {
    /// The location, as errors name it.
    place: String,
    kind: K,
    reports: Reports,
}

enum Kind {
    Sqlite(Arc<Sqlite>),
    Redis(Redis),
}

impl Store {
    /// Sets up a store. A missing SQLite file is made, with its tables. A present one is read to
    /// its end, and must be whole. The file is closed again. The name of a Redis host is resolved,
    /// but Redis need not run yet.
    ///
    /// The function is not `async`: call it before there are tasks and child processes, which share
    /// the store's state.
    ///
    /// # Errors
    ///
    /// [`InvalidStore`], which names the place and the remedy.
    pub fn new(location: &Location, options: Options) -> Result<Self, InvalidStore> {
        let place = location.to_string();
        let shared = match location {
            Location::Sqlite { path, synchronous } => {
                let sqlite = Sqlite::create(path, *synchronous, options.turn_limit);
                Shared::new(place, sqlite.map(|sqlite| Kind::Sqlite(Arc::new(sqlite))))
            }
            Location::Redis { host, port, database, user, password } => {
                let credentials = (user.as_deref(), password.as_deref());
                let redis = Redis::new((host, *port), *database, credentials, options);
                Shared::new(place, redis.map(Kind::Redis))
            }
        };
        Ok(Self { shared: Arc::new(shared?) })
    }

    /// Finds out whether the store answers, and tells the operator if it does not. Call it before
    /// the first client comes. An SQLite file has answered in [`new`](Store::new).
    ///
    /// The function is not `async`, and part of the set-up. Nothing stays open.
    ///
    /// # Errors
    ///
    /// [`Unavailable`], after telling the operator. A store that comes later is used.
    pub fn reach(&self) -> Result<(), Unavailable> {
        match &self.shared.kind {
            Kind::Sqlite(_) => Ok(()),
            Kind::Redis(redis) => self.shared.reporting(block_on(redis.reach())),
        }
    }

    /// The same calls for `client`, which may leave before they end.
    #[must_use]
    pub fn on_behalf_of<'s>(&'s self, client: Client<'s>) -> Calls<'s> {
        Calls { shared: &self.shared, client }
    }

    /// Counts a visitor, and reads the `newest` remarks (at most [`MOST_REMARKS`]).
    ///
    /// # Errors
    ///
    /// [`Unavailable`]; the visitor may have been counted nevertheless.
    pub async fn visit(&self, newest: usize) -> Result<Visit, Unavailable> {
        self.on_behalf_of(Client::NONE).visit(newest).await
    }

    /// Adds a remark. `Ok` means that the remark is kept.
    ///
    /// # Errors
    ///
    /// [`Unavailable`]; the remark may have been kept nevertheless, unless it was longer than
    /// [`LONGEST_REMARK`].
    pub async fn add_remark(&self, remark: &Remark) -> Result<(), Unavailable> {
        self.on_behalf_of(Client::NONE).add_remark(remark).await
    }

    /// Enters a number under a name, in place of an earlier one. `Ok` means that the entry is kept.
    ///
    /// # Errors
    ///
    /// [`Unavailable`]; the entry may have been kept nevertheless, unless it was longer than
    /// [`LONGEST_REMARK`].
    pub async fn add_entry(&self, name: &str, number: &str) -> Result<(), Unavailable> {
        self.on_behalf_of(Client::NONE).add_entry(name, number).await
    }

    /// The number under a name, if there is one.
    ///
    /// # Errors
    ///
    /// [`Unavailable`].
    pub async fn find_entry(&self, name: &str) -> Result<Option<String>, Unavailable> {
        self.on_behalf_of(Client::NONE).find_entry(name).await
    }
}

impl Calls<'_> {
    /// See [`Store::visit`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::visit`].
    pub async fn visit(&self, newest: usize) -> Result<Visit, Unavailable> {
        let (newest, client) = (newest.min(MOST_REMARKS), self.client);
        self.shared.reporting(match &self.shared.kind {
            Kind::Sqlite(sqlite) => sqlite.visit(newest, client).await,
            Kind::Redis(redis) => redis.visit(newest, client).await,
        })
    }

    /// See [`Store::add_remark`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::add_remark`].
    pub async fn add_remark(&self, remark: &Remark) -> Result<(), Unavailable> {
        self.shared.fits(&remark.guest, &remark.text)?;
        self.shared.reporting(match &self.shared.kind {
            Kind::Sqlite(sqlite) => sqlite.add_remark(remark, self.client).await,
            Kind::Redis(redis) => redis.add_remark(remark, self.client).await,
        })
    }

    /// See [`Store::add_entry`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::add_entry`].
    pub async fn add_entry(&self, name: &str, number: &str) -> Result<(), Unavailable> {
        self.shared.fits(name, number)?;
        self.shared.reporting(match &self.shared.kind {
            Kind::Sqlite(sqlite) => sqlite.add_entry(name, number, self.client).await,
            Kind::Redis(redis) => redis.add_entry(name, number, self.client).await,
        })
    }

    /// See [`Store::find_entry`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::find_entry`].
    pub async fn find_entry(&self, name: &str) -> Result<Option<String>, Unavailable> {
        self.shared.reporting(match &self.shared.kind {
            Kind::Sqlite(sqlite) => sqlite.find_entry(name, self.client).await,
            Kind::Redis(redis) => redis.find_entry(name, self.client).await,
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            redis_calls: RedisCalls::default(),
            redis_connections: 64,
            connect_limit: Duration::from_secs(1),
            reply_limit: Duration::from_secs(2),
            // In this time, one Redis can serve fifteen thousand guests that come at once.
            turn_limit: Duration::from_secs(20),
        }
    }
}

impl<K> Shared<K> {
    fn new(place: String, kind: Result<K, impl fmt::Display>) -> Result<Self, InvalidStore> {
        match kind {
            Ok(kind) => Ok(Self { place, kind, reports: Reports::new() }),
            Err(why) => Err(InvalidStore { place, why: one_line(&why.to_string()) }),
        }
    }

    /// Turns a failure into [`Unavailable`], and tells the operator if the store's state has
    /// changed.
    fn reporting<T>(&self, result: Result<T, impl Into<Failed>>) -> Result<T, Unavailable> {
        match result.map_err(Into::into) {
            Ok(value) => {
                self.reports.succeeded(&self.place);
                Ok(value)
            }
            // This says nothing of the store.
            Err(Failed::ClientLeft) => Err(self.unavailable("the client has left")),
            Err(Failed::Store(why)) => {
                let unavailable = self.unavailable(&why);
                self.reports.failed(&unavailable);
                Err(unavailable)
            }
        }
    }

    fn unavailable(&self, why: &str) -> Unavailable {
        Unavailable { place: self.place.clone(), why: one_line(why) }
    }

    fn fits(&self, one: &str, other: &str) -> Result<(), Unavailable> {
        match one.len() + other.len() {
            ..=LONGEST_REMARK => Ok(()),
            length => {
                let why = format!("{length} bytes are more than the {LONGEST_REMARK} it takes");
                Err(self.unavailable(&why))
            }
        }
    }
}

/// A reason as the end of one line. Another program may have worded part of it.
fn one_line(why: &str) -> String {
    /// Room for any reason of ours, a path in it included.
    const CHARACTERS: usize = 400;
    why.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(CHARACTERS)
        .collect()
}
