//! The store in Redis: our own I/O, in any world, around a codec without I/O.
//!
//! ```text
//!   a loop, or a process of the block world ("group"):
//!     calls ─> a checkout (64) ─> an idle connection that is still good, or a new one ─> exchange
//!                     ▲                                                                  │
//!                     └────────── put back after whole replies, dropped otherwise ◀──────┘
//! ```
//!
//! Connections stay in the group that opened them. So a stream stays on its loop, and no connection
//! is open before a fork.
//!
//! **Repeated commands.** An idle connection may turn out to be closed. Then a command that can be
//! repeated without harm is sent once more on a new connection. These commands are LRANGE, HGET,
//! GET, and HSET of the same value. INCR and LPUSH are not repeated, because they may have been
//! executed. A repetition could count a visitor or keep a remark twice. Their callers get
//! [`Unavailable`](super::Unavailable). Such failures are rare, because an idle connection is
//! checked before it is used.
//!
//! **While Redis is away.** A connection may be refused, closed at once, or answered by something
//! that is not Redis. Then the group opens no further connections for [`REST`]. Calls use the idle
//! connections, and fail at once if there are none. If a reply does not come in time, all calls of
//! the group fail at once for [`REST`]. So a dead Redis costs neither a storm of connections nor
//! one time-out per request.
//!
//! **Between servers.** PUBLISH is one of the commands that must not be executed twice. A
//! subscription has its own connection.
//!
//! The keys are `duality:visitors` (a number), `duality:remarks` (a list, newest first), and
//! `duality:phone` (a hash from names to numbers). An element of the list is the length of the
//! guest's name in bytes, a colon, the name, and the text. Other elements are skipped.

pub(crate) mod codec;
mod connection;
mod epoch;
mod subscription;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use duality_runtime::net::TcpStream;
use duality_runtime::select;
use duality_runtime::time::{self, Duration, Instant, sleep, timeout};
use rustix::io::Errno;

use self::codec::{Malformed, Reply, decode_remark, encode_remark, number, push_command, text};
use self::connection::Connection;
pub use self::epoch::Epoch;
pub(super) use self::subscription::Subscription;
use super::pool::{Checkout, NoTurn, Pool};
use super::{Failed, Options, RedisCalls, Remark, Visit};
use crate::client::Client;
use crate::per_loop::PerLoop;

const VISITORS: &[u8] = b"duality:visitors";
const REMARKS: &[u8] = b"duality:remarks";
const PHONE: &[u8] = b"duality:phone";

/// The pause before the next attempt after Redis was unreachable.
const REST: Duration = Duration::from_millis(100);

/// How long a connection is idle before it is closed.
const IDLE: Duration = Duration::from_secs(60);

/// How long a call waits if no descriptor is left for a connection.
const PAUSE: Duration = Duration::from_millis(5);

/// A store in Redis.
pub(super) struct Redis {
    addresses: Vec<SocketAddr>,
    /// The first commands on a connection.
    greeting: Commands,
    options: Options,
    groups: PerLoop<Group>,
}

/// The state that the tasks of one loop share, or the tasks of a process without loops.
struct Group {
    pool: Pool<Connection>,
    /// Makes every call fail for a while, after Redis did not reply in time.
    exchanges: Rested,
    /// Prevents new connections for a while, after one could not be opened.
    connects: Rested,
}

/// A kind of access that pauses for a while after it found Redis unavailable.
#[derive(Default)]
struct Rested(Mutex<Option<Rest>>);

/// The pause, and its reason.
struct Rest {
    until: Instant,
    why: String,
}

/// Commands that are sent in one write.
#[derive(Default)]
struct Commands {
    bytes: Vec<u8>,
    count: usize,
    /// Whether one of the commands must not be executed twice.
    once: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the host cannot be found: {0}: check its name")]
    Unknown(io::Error),
    #[error("it cannot be reached: {0}")]
    Unreached(io::Error),
    #[error("it broke the connection: {0}")]
    Gone(io::Error),
    #[error("it did not reply in time")]
    Late,
    #[error("its reply {0}")]
    Confused(&'static str),
    #[error("it refused: {0}")]
    Refused(String),
    #[error("no connection came free in time: it is overloaded")]
    Crowded,
    /// The client that the call was made for has left.
    #[error("the client has left")]
    ClientLeft,
    #[error("it failed a moment ago: {0}")]
    Resting(String),
}

/// Whether no descriptor was left.
fn lacks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl Redis {
    /// A store in the Redis at `host` and `port`, which need not run yet.
    pub(super) fn new(
        (host, port): (&str, u16),
        database: u32,
        (user, password): (Option<&str>, Option<&str>),
        options: Options,
    ) -> Result<Self, Fault> {
        let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(Fault::Unknown)?.collect();
        let mut greeting = Commands::default();
        match (user, password) {
            (_, None) => {}
            (None, Some(password)) => greeting.push(&[b"AUTH", password.as_bytes()]),
            (Some(user), Some(password)) => {
                greeting.push(&[b"AUTH", user.as_bytes(), password.as_bytes()]);
            }
        }
        if database != 0 {
            greeting.push(&[b"SELECT", database.to_string().as_bytes()]);
        }
        Ok(Self { addresses, greeting, options, groups: PerLoop::default() })
    }

    pub(super) async fn visit(&self, newest: usize, client: Client<'_>) -> Result<Visit, Failed> {
        let mut count = Commands::once(&[b"INCR", VISITORS]);
        // LRANGE includes its end, and -1 is the last element.
        let last = newest.saturating_sub(1).to_string();
        let range: &[&[u8]] = match newest {
            0 => &[b"LRANGE", REMARKS, b"1", b"0"],
            _ => &[b"LRANGE", REMARKS, b"0", last.as_bytes()],
        };
        let (visitors, remarks) = match self.options.redis_calls {
            RedisCalls::Pipelined => {
                count.push(range);
                self.call(&count, client, |[visitors, remarks]| {
                    Some((number(&visitors)?, elements(remarks)?))
                })
                .await?
            }
            RedisCalls::Separate => {
                let range = Commands::repeatable(range);
                let remarks = self.call(&range, client, |[remarks]| elements(remarks)).await?;
                self.call(&count, client, |[visitors]| number(&visitors)).await?;
                let read_back = Commands::repeatable(&[b"GET", VISITORS]);
                (self.call(&read_back, client, |[visitors]| number(&visitors)).await?, remarks)
            }
        };
        Ok(Visit { visitors, remarks })
    }

    pub(super) async fn add_remark(
        &self,
        remark: &Remark,
        client: Client<'_>,
    ) -> Result<(), Failed> {
        let element = encode_remark(remark);
        let push = Commands::once(&[b"LPUSH", REMARKS, element.as_bytes()]);
        self.call(&push, client, |[length]| number(&length)).await.map(|_| ())
    }

    pub(super) async fn add_entry(
        &self,
        name: &str,
        phone: &str,
        client: Client<'_>,
    ) -> Result<(), Failed> {
        let set = Commands::repeatable(&[b"HSET", PHONE, name.as_bytes(), phone.as_bytes()]);
        self.call(&set, client, |[added]| number(&added)).await.map(|_| ())
    }

    pub(super) async fn find_entry(
        &self,
        name: &str,
        client: Client<'_>,
    ) -> Result<Option<String>, Failed> {
        let find = Commands::repeatable(&[b"HGET", PHONE, name.as_bytes()]);
        self.call(&find, client, |[phone]| text(phone)).await
    }

    /// Adds one to the number at `key`, and returns it with the epoch in which Redis did so.
    pub(super) async fn count(&self, key: &[u8]) -> Result<(Epoch, u64), Failed> {
        let mut count = Commands::once(epoch::QUESTION);
        count.push(&[b"INCR", key]);
        self.call(&count, Client::NONE, |[answer, count]| {
            Some((Epoch::of(answer)?, number(&count)?))
        })
        .await
    }

    /// Sets the text at `key`, unless there is one.
    pub(super) async fn offer(&self, key: &[u8], text: &[u8]) -> Result<bool, Failed> {
        let set = Commands::once(&[b"SET", key, text, b"NX"]);
        self.call(&set, Client::NONE, |[reply]| match reply {
            Reply::SimpleString(_) => Some(true),
            Reply::Null => Some(false),
            _ => None,
        })
        .await
    }

    /// Removes and returns the text at `key`, if there is one.
    pub(super) async fn take_offer(&self, key: &[u8]) -> Result<Option<String>, Failed> {
        self.call(&Commands::once(&[b"GETDEL", key]), Client::NONE, |[reply]| text(reply)).await
    }

    /// Publishes a message, and returns how many subscribers get it.
    pub(super) async fn publish(&self, channel: &[u8], message: &[u8]) -> Result<u64, Failed> {
        let publish = Commands::once(&[b"PUBLISH", channel, message]);
        self.call(&publish, Client::NONE, |[receivers]| number(&receivers)).await
    }

    /// Subscribes to the channel that has this `name` in the epoch of the connection.
    pub(super) async fn subscribe(
        &self,
        name: &(dyn Fn(&Epoch) -> String + Sync),
    ) -> Result<(Epoch, Subscription), Failed> {
        let group = self.group();
        let subscribing = async {
            group.exchanges.is_over()?;
            group.connects.is_over()?;
            let mut connection = self.connect(Client::NONE).await?;
            let epoch = Epoch::ask(&mut connection).await?;
            let subscription = connection.subscribe(name(&epoch).as_bytes()).await?;
            Ok((epoch, subscription))
        };
        group.settle(subscribing.await)
    }

    /// Makes one exchange of `COUNT` commands. `read` finds the result in the replies, or returns
    /// `None` if they are of other kinds than it expects.
    async fn call<T, const COUNT: usize>(
        &self,
        commands: &Commands,
        client: Client<'_>,
        read: fn([Reply; COUNT]) -> Option<T>,
    ) -> Result<T, Failed> {
        let group = self.group();
        group.settle(self.call_in(&group, commands, client, read).await)
    }

    async fn call_in<T, const COUNT: usize>(
        &self,
        group: &Group,
        commands: &Commands,
        client: Client<'_>,
        read: fn([Reply; COUNT]) -> Option<T>,
    ) -> Result<T, Fault> {
        group.exchanges.is_over()?;
        let turn = group.pool.check_out(self.options.turn_limit, client).await;
        let checkout = turn.map_err(|none| match none {
            NoTurn::Late => Fault::Crowded,
            NoTurn::ClientLeft => Fault::ClientLeft,
        })?;
        // Another call may have found Redis unavailable while this one waited.
        group.exchanges.is_over()?;
        let (connection, replies) = self.exchange(group, &checkout, commands, client).await?;
        // An error is a complete reply too, so the connection stays good.
        if let Some(refusal) = replies.iter().find_map(refusal) {
            checkout.put(connection);
            return Err(refusal);
        }
        let replies = replies.try_into().ok().and_then(read);
        let value = replies.ok_or(Fault::Confused("is of another kind than was asked for"))?;
        checkout.put(connection);
        Ok(value)
    }

    /// Exchanges commands for replies, if possible on an idle connection that is still good.
    async fn exchange(
        &self,
        group: &Group,
        checkout: &Checkout<'_, Connection>,
        commands: &Commands,
        client: Client<'_>,
    ) -> Result<(Connection, Vec<Reply>), Fault> {
        let give_up = time::now() + self.options.connect_limit;
        loop {
            while let Some(mut connection) = checkout.take() {
                if !connection.is_quiet() {
                    continue;
                }
                match connection.exchange(&commands.bytes, commands.count, client).await {
                    Ok(replies) => return Ok((connection, replies)),
                    // Redis closed the connection between the check and the command. The other idle
                    // connections will be closed too.
                    Err(Fault::Gone(_)) if !commands.once => break,
                    Err(fault) => return Err(fault),
                }
            }
            group.connects.is_over()?;
            match self.connect(client).await {
                // Only descriptors are lacking. Another call may put back its connection, or close
                // a file.
                Err(Fault::Unreached(error)) if lacks(&error) && time::now() < give_up => {
                    sleep(PAUSE).await;
                }
                connected => {
                    let exchanged = async {
                        let mut connection = connected?;
                        let replies =
                            connection.exchange(&commands.bytes, commands.count, client).await?;
                        Ok((connection, replies))
                    };
                    let exchanged: Result<_, Fault> = exchanged.await;
                    // A client that has left says nothing of Redis.
                    if let Err(fault) = &exchanged
                        && !matches!(fault, Fault::ClientLeft)
                    {
                        group.connects.rest(fault.to_string());
                    }
                    return exchanged;
                }
            }
        }
    }

    /// Checks whether Redis answers, on a new connection that is closed again.
    pub(super) async fn reach(&self) -> Result<(), Failed> {
        let ping = Commands::repeatable(&[b"PING"]);
        let asking = async {
            let mut connection = self.connect(Client::NONE).await?;
            let replies = connection.exchange(&ping.bytes, ping.count, Client::NONE).await?;
            replies.iter().find_map(refusal).map_or(Ok(()), Err)
        };
        asking.await.map_err(|fault: Fault| Failed::Store(fault.to_string()))
    }

    async fn connect(&self, client: Client<'_>) -> Result<Connection, Fault> {
        let mut refused = io::ErrorKind::AddrNotAvailable.into();
        for &address in &self.addresses {
            let connecting = timeout(self.options.connect_limit, TcpStream::connect(address));
            let connected = match client.may_leave() {
                true => select! {
                    connected = connecting => connected,
                    () = client.leaves() => return Err(Fault::ClientLeft),
                },
                false => connecting.await,
            };
            match connected.unwrap_or_else(|elapsed| Err(elapsed.into())) {
                Ok(stream) => return self.greet(stream, client).await,
                Err(error) => refused = error,
            }
        }
        Err(Fault::Unreached(refused))
    }

    async fn greet(&self, stream: TcpStream, client: Client<'_>) -> Result<Connection, Fault> {
        let mut connection =
            Connection::new(stream, self.options.reply_limit).map_err(Fault::Unreached)?;
        if self.greeting.count > 0 {
            let greeting = &self.greeting;
            let replies = connection.exchange(&greeting.bytes, greeting.count, client).await?;
            if let Some(refusal) = replies.iter().find_map(refusal) {
                return Err(refusal);
            }
        }
        Ok(connection)
    }

    fn group(&self) -> Arc<Group> {
        self.groups.here(|| {
            let pool = Pool::new(self.options.redis_connections, Some(IDLE));
            let (exchanges, connects) = (Rested::default(), Rested::default());
            Group { pool, exchanges, connects }
        })
    }
}

impl Group {
    /// Starts a pause of the group if Redis was unavailable.
    fn settle<T>(&self, result: Result<T, Fault>) -> Result<T, Failed> {
        match &result {
            Err(fault @ Fault::Late) => self.exchanges.rest(fault.to_string()),
            Err(fault @ (Fault::Unreached(_) | Fault::Confused(_))) => {
                self.connects.rest(fault.to_string());
            }
            _ => {}
        }
        result.map_err(|fault| match fault {
            Fault::ClientLeft => Failed::ClientLeft,
            fault => Failed::Store(fault.to_string()),
        })
    }
}

impl Rested {
    /// Fails during a pause.
    fn is_over(&self) -> Result<(), Fault> {
        let mut rest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*rest {
            None => Ok(()),
            Some(now) if time::now() < now.until => Err(Fault::Resting(now.why.clone())),
            Some(_) => {
                *rest = None;
                Ok(())
            }
        }
    }

    fn rest(&self, why: String) {
        let rest = Rest { until: time::now() + REST, why };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }
}

impl Commands {
    /// One command that may be executed twice.
    fn repeatable(words: &[&[u8]]) -> Self {
        let mut commands = Self::default();
        commands.push(words);
        commands
    }

    /// One command that must not be executed twice.
    fn once(words: &[&[u8]]) -> Self {
        Self { once: true, ..Self::repeatable(words) }
    }

    fn push(&mut self, words: &[&[u8]]) {
        push_command(&mut self.bytes, words);
        self.count += 1;
    }
}

impl Fault {
    fn from_exchange(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Gone(error),
        }
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Confused(malformed.0)
    }
}

fn refusal(reply: &Reply) -> Option<Fault> {
    match reply {
        Reply::Error(text) => Some(Fault::Refused(text.clone())),
        _ => None,
    }
}

fn elements(reply: Reply) -> Option<Vec<Remark>> {
    let Reply::Array(elements) = reply else { return None };
    let remark = |element| match element {
        Reply::BulkString(bytes) => decode_remark(&bytes),
        _ => None,
    };
    Some(elements.into_iter().filter_map(remark).collect())
}
