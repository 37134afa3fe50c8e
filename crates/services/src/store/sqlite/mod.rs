//! The store in a file of SQLite. No other module uses rusqlite.
//!
//! ```text
//!   any number of processes, each:
//!     calls ──> one writer's turn ──┐
//!     calls ──> four readers' turns ┴──> offload ──> the file, its write-ahead log, its lock
//! ```
//!
//! SQLite has one writer at a time. Within a process, writers queue in order, without a helper
//! thread each. Between processes, the lock of the file decides. The lock has no queue, so a
//! process tries repeatedly (see [`pause`]). A task waits for the lock, not a helper thread,
//! because file reads need the helpers too. A child must not use a connection of its parent after
//! fork(2) (<https://www.sqlite.org/howtocorrupt.html>, 2.7). So the first call of a process opens
//! its connection. The [`guard`] checks whether the file is still whole.

mod create;
mod guard;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duality_runtime::task;
use duality_runtime::time::{self, Duration};
use duality_runtime::visibility;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use self::guard::{Guard, LogIdentity, Sight, Unfit};
use self::watch::Watch;
use super::pool::{NoTurn, Pool};
use super::{Failed, Remark, Synchronous, Visit};
use crate::client::Client;

/// The most connections that read at a time. More would only use descriptors.
const READERS: usize = 4;

/// The size of the write-ahead log, in bytes, at which writers wait until the log has been emptied.
/// If writers pause now and then, SQLite itself keeps the log at a quarter of this.
const LONGEST_LOG: u64 = 16 << 20;

/// How long emptying the log may wait for users of the log.
const EMPTYING: Duration = Duration::from_secs(1);

/// A store in a file.
pub(super) struct Sqlite {
    /// An absolute path, which does not depend on the working directory and has no special meaning
    /// to SQLite.
    path: PathBuf,
    guard: Guard,
    synchronous: Synchronous,
    /// The longest wait for a turn, and then for the lock.
    limit: Duration,
    writer: Pool<Opened>,
    readers: Pool<Opened>,
}

/// A connection after its first read.
struct Opened {
    connection: Connection,
    log: LogIdentity,
    /// The number of looks through the file when the connection was opened.
    looks: u64,
}

/// How a call accesses the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// A call under way. It keeps its connection between attempts.
struct Job<W> {
    sqlite: Arc<Sqlite>,
    access: Access,
    opened: Option<Opened>,
    work: W,
    /// Bytes in the log after the work.
    log: u64,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl Sqlite {
    fn new(path: &Path, synchronous: Synchronous, limit: Duration) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let guard = Guard::new(&path);
        let (writer, readers) = (Pool::new(1, None), Pool::new(READERS, None));
        Ok(Self { path, guard, synchronous, limit, writer, readers })
    }

    /// Counts a visitor and reads the newest remarks, in one transaction.
    pub(super) async fn visit(
        self: &Arc<Self>,
        newest: usize,
        client: Client<'_>,
    ) -> Result<Visit, Failed> {
        self.call(Access::Write, client, move |connection| {
            // The transaction is not deferred. A deferred one that reads first cannot write after
            // another process has written.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let visitors: i64 = transaction
                .prepare_cached("UPDATE visitors SET count = count + 1 RETURNING count")?
                .query_one((), |row| row.get(0))?;
            let remarks = transaction
                .prepare_cached("SELECT guest, text FROM remarks ORDER BY number DESC LIMIT ?")?
                .query_map([newest as i64], |row| {
                    Ok(Remark { guest: row.get(0)?, text: row.get(1)? })
                })?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            transaction.commit()?;
            Ok(Visit { visitors: visitors.unsigned_abs(), remarks })
        })
        .await
    }

    pub(super) async fn add_remark(
        self: &Arc<Self>,
        remark: &Remark,
        client: Client<'_>,
    ) -> Result<(), Failed> {
        let remark = remark.clone();
        self.call(Access::Write, client, move |connection| {
            connection
                .prepare_cached("INSERT INTO remarks (guest, text) VALUES (?, ?)")?
                .execute(params![remark.guest, remark.text])?;
            Ok(())
        })
        .await
    }

    pub(super) async fn add_entry(
        self: &Arc<Self>,
        name: &str,
        number: &str,
        client: Client<'_>,
    ) -> Result<(), Failed> {
        let (name, number) = (name.to_owned(), number.to_owned());
        self.call(Access::Write, client, move |connection| {
            connection
                .prepare_cached("INSERT OR REPLACE INTO phone (name, number) VALUES (?, ?)")?
                .execute(params![name, number])?;
            Ok(())
        })
        .await
    }

    pub(super) async fn find_entry(
        self: &Arc<Self>,
        name: &str,
        client: Client<'_>,
    ) -> Result<Option<String>, Failed> {
        let name = name.to_owned();
        self.call(Access::Read, client, move |connection| {
            connection
                .prepare_cached("SELECT number FROM phone WHERE name = ?")?
                .query_one([&name], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Does `work`, which is at most one transaction, without holding up other tasks. The call
    /// tries again while another process has the lock, until the limit has passed or the client has
    /// left. An attempt under way ends first: it takes no longer than the disk.
    async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        access: Access,
        client: Client<'_>,
        work: impl FnMut(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Failed> {
        let pool = match access {
            Access::Read => &self.readers,
            Access::Write => &self.writer,
        };
        let checkout = pool.check_out(self.limit, client).await.map_err(|none| match none {
            NoTurn::Late => Failed::Store("no turn came in time: it is overloaded".to_owned()),
            NoTurn::ClientLeft => Failed::ClientLeft,
        })?;
        let mut job = Job { sqlite: self.clone(), access, opened: checkout.take(), work, log: 0 };
        let start = time::now();
        let mut watch = Watch::new(client);
        let result = loop {
            let outcome;
            (outcome, job) = task::offload(move || (job.attempt(), job)).await;
            match outcome {
                Err(failure) if failure.is_busy() && time::since(start) < self.limit => {
                    if watch.has_left() {
                        break Err(Failed::ClientLeft);
                    }
                    time::sleep(pause(time::since(start))).await;
                }
                outcome => break outcome.map_err(|failure| Failed::Store(failure.to_string())),
            }
        };
        if job.log >= LONGEST_LOG {
            job = job.empty_log().await;
        }
        if let Some(opened) = job.opened {
            checkout.put(opened);
        }
        result
    }

    fn open(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        let synchronous = match self.synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        Ok(connection)
    }

    /// Opens the file, and its log.
    fn opened(&self) -> Result<Opened, Failure> {
        let looks = self.guard.looks();
        let connection = self.open(OpenFlags::empty())?;
        // The first read opens the log.
        let _: i64 = connection.pragma_query_value(None, "schema_version", |row| row.get(0))?;
        visibility::store_opened();
        Ok(Opened { connection, log: self.guard.log_identity()?, looks })
    }

    /// A new connection, after it has looked through the whole file.
    fn looked_through(&self, sight: &Sight) -> Result<Opened, Failure> {
        let start = time::now();
        let looked = self.opened().and_then(|opened| match create::flaw(&opened.connection)? {
            None => Ok(opened),
            Some(flaw) => {
                opened.abandon();
                Err(Unfit::Damaged(flaw).into())
            }
        });
        // A busy file, or a disk that fails, says nothing of the file: the next look is soon.
        if looked.as_ref().err().is_none_or(Failure::shows_damage) {
            self.guard.looked(sight, time::since(start), looked.is_ok());
        }
        looked.map(|opened| Opened { looks: self.guard.looks(), ..opened })
    }
}

impl<T, W: FnMut(&mut Connection) -> rusqlite::Result<T>> Job<W> {
    /// Does the work once. While the file is unfit or busy, the connection stays. After any other
    /// error the connection is dropped, and the next call opens a new one.
    fn attempt(&mut self) -> Result<T, Failure> {
        let guard = &self.sqlite.guard;
        let before = guard.see()?;
        if self.access == Access::Write && guard.asks_for_a_look(&before) {
            let fresh = self.sqlite.looked_through(&before)?;
            self.opened.replace(fresh).into_iter().for_each(Opened::abandon);
        }
        let mut opened = match self.opened.take() {
            Some(opened) if opened.looks == guard.looks() => opened,
            stale => {
                stale.into_iter().for_each(Opened::abandon);
                self.sqlite.opened()?
            }
        };
        let result = (self.work)(&mut opened.connection).map_err(Failure::from);
        match &result {
            Ok(_) if self.access == Access::Write => self.log = guard.kept(&before, opened.log)?,
            Err(failure) if failure.is_suspicious() => {
                guard.suspect();
                opened.abandon();
                return result;
            }
            _ => {}
        }
        if result.as_ref().err().is_none_or(Failure::is_busy) {
            self.opened = Some(opened);
        }
        result
    }
}

impl Opened {
    /// Closes the connection to a file that may not be whole. The last connection of a healthy file
    /// moves the log's content into the file, and deletes the log.
    fn abandon(self) {
        // If this fails, the close moves the log's content into the file, as usual.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

impl<W: Send + 'static> Job<W> {
    /// Empties a long log.
    ///
    /// SQLite moves the log's pages into the file every thousand pages. It starts the log anew when
    /// all pages have been moved. If writers never pause, that never happens, and the log keeps
    /// growing. So the writers sometimes have to wait. If the log cannot be emptied, another
    /// process is emptying it, or the next writer will.
    async fn empty_log(mut self) -> Self {
        let start = time::now();
        loop {
            let is_empty;
            (is_empty, self) = task::offload(move || (self.try_to_empty_log(), self)).await;
            if is_empty || time::since(start) >= EMPTYING {
                return self;
            }
            time::sleep(pause(time::since(start))).await;
        }
    }

    /// True if no further attempt is needed.
    fn try_to_empty_log(&mut self) -> bool {
        let Some(opened) = self.opened.take() else { return true };
        let guard = &self.sqlite.guard;
        let Ok(before) = guard.see() else { return true };
        // SQLite reports success in a row.
        let busy: rusqlite::Result<i64> =
            opened.connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0));
        let _ = guard.kept(&before, opened.log);
        self.opened = Some(opened);
        !matches!(busy, Ok(1))
    }
}

impl Failure {
    fn is_busy(&self) -> bool {
        // Includes all variants of busy, also while SQLite recovers the log after a crash.
        matches!(self, Self::Sqlite(error) if is_busy(error))
    }

    /// Whether the file may be damaged.
    fn is_suspicious(&self) -> bool {
        self.shows_damage() || self.code() == Some(ErrorCode::SystemIoFailure)
    }

    /// Whether the file is damaged.
    fn shows_damage(&self) -> bool {
        matches!(self, Self::Unfit(Unfit::Damaged(_)))
            || matches!(self.code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            Self::Unfit(_) => None,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// The pause before the next attempt to take the lock, after a wait of the given length.
///
/// A writer that has waited long asks more often than a newcomer, except for the newcomer's quick
/// second attempt. SQLite's own handler does the opposite, so newcomers overtake old waiters. With
/// SQLite's handler, some of a hundred processes still waited after five seconds.
fn pause(waited: Duration) -> Duration {
    let most = match waited.as_millis() {
        0..2 => Duration::from_micros(300),
        2..200 => Duration::from_millis(20),
        _ => Duration::from_millis(1),
    };
    // The clock's last digits serve as random numbers, which keep processes out of step.
    let chance = waited.subsec_nanos() % 1024;
    most * chance / 1024
}

#[cfg(test)]
mod tests {
    use duality_runtime::block_on;
    use tempfile::TempDir;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const NONE: Client<'_> = Client::NONE;

    fn sqlite(directory: &TempDir, synchronous: Synchronous) -> Arc<Sqlite> {
        Arc::new(Sqlite::create(&directory.path().join("store.db"), synchronous, LIMIT).unwrap())
    }

    #[test]
    fn a_full_disk_is_an_error_until_there_is_room() {
        let directory = TempDir::new().unwrap();
        let sqlite = sqlite(&directory, Synchronous::Normal);
        let remark = Remark { guest: "ann".into(), text: "x".repeat(10_000) };
        block_on(async {
            sqlite.visit(0, NONE).await.ok().unwrap();
            let checkout = sqlite.writer.check_out(LIMIT, NONE).await.ok().unwrap();
            let opened = checkout.take().unwrap();
            // SQLite returns the same error for a file that must not grow. The least limit that
            // SQLite accepts is the file's present size.
            opened.connection.pragma_update(None, "max_page_count", 1).unwrap();
            checkout.put(opened);
            sqlite.add_entry("ann", "1", NONE).await.ok().unwrap();
            let error = sqlite.add_remark(&remark, NONE).await.err();
            let is_full = |why: &String| why.contains("full");
            assert!(matches!(error, Some(Failed::Store(why)) if is_full(&why)));
            // The failure dropped the connection, and with it the limit.
            sqlite.add_remark(&remark, NONE).await.ok().unwrap();
            assert_eq!(sqlite.visit(5, NONE).await.ok().unwrap().remarks, [remark]);
            assert_eq!(sqlite.find_entry("ann", NONE).await.ok().unwrap().as_deref(), Some("1"));
        });
    }

    #[test]
    fn writes_are_as_durable_as_the_location_says() {
        for (synchronous, expected) in [(Synchronous::Normal, 1), (Synchronous::Full, 2)] {
            let directory = TempDir::new().unwrap();
            let sqlite = sqlite(&directory, synchronous);
            let connection = sqlite.open(OpenFlags::empty()).unwrap();
            let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
            let level: i32 = pragma("synchronous").unwrap();
            assert_eq!(level, expected);
        }
    }
}
