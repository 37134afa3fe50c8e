//! The store in a file of SQLite: the one place that knows rusqlite.
//!
//! ```text
//!   any number of processes, each:
//!     calls ──> one writer's turn ──┐
//!     calls ──> four readers' turns ┴──> offload ──> the file, its write-ahead log, its lock
//! ```
//!
//! SQLite has one writer at a time, whatever we do. Within a process writers queue for the one turn, in
//! order and without a helper thread each; between processes the lock of the file decides, which has no
//! queue and has to be asked for again and again (see [`pause`]). A connection belongs to the process
//! that opened it and must not be carried across fork(2)
//! (<https://www.sqlite.org/howtocorrupt.html>, 2.7), so the first call of a process opens it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duality_runtime::task;
use duality_runtime::time::{Duration, Instant};
use duality_runtime::visibility;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::pool::Pool;
use super::{Remark, Synchronous, Visit};

/// What marks a file as ours (`PRAGMA application_id`): "Dual" in ASCII.
const APPLICATION: i32 = 0x4475_616c;

/// Read transactions run beside each other; more than a few gain nothing but descriptors.
const READERS: usize = 4;

/// Bytes in the write-ahead log at which writers have to wait until it has been emptied. SQLite keeps it
/// at a quarter of this by itself while writers pause now and then.
const LONGEST_LOG: i64 = 16 << 20;

/// How long emptying the log may wait for those that use it.
const EMPTYING: Duration = Duration::from_secs(1);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS visitors (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        count INTEGER NOT NULL
    ) STRICT;
    INSERT OR IGNORE INTO visitors VALUES (1, 0);
    CREATE TABLE IF NOT EXISTS remarks (
        number INTEGER PRIMARY KEY,
        guest TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS phone (
        name TEXT PRIMARY KEY,
        number TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// A store in a file.
pub(super) struct Sqlite {
    /// Absolute, so that a change of directory does not change it, and no special name to SQLite.
    path: PathBuf,
    /// The write-ahead log beside it.
    log: PathBuf,
    synchronous: Synchronous,
    /// How long to wait for a turn, and again for the lock.
    limit: Duration,
    writer: Pool<Opened>,
    readers: Pool<Opened>,
}

/// A connection, and which file it was opened to.
struct Opened {
    connection: Connection,
    file: FileIdentity,
}

/// The device and the inode.
type FileIdentity = (u64, u64);

impl Sqlite {
    /// Makes the file and its tables, as far as they are not there, and closes it.
    pub(super) fn create(
        path: &Path,
        synchronous: Synchronous,
        limit: Duration,
    ) -> Result<Self, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        let log = log.into();
        let sqlite = Self {
            path,
            log,
            synchronous,
            limit,
            writer: Pool::new(1),
            readers: Pool::new(READERS),
        };
        match sqlite.patiently(|| sqlite.create_tables()) {
            Ok(true) => Ok(sqlite),
            Ok(false) => Err("the file belongs to another program: name another file".into()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                Err("the file is no SQLite database: name another file".into())
            }
            Err(error) => Err(format!(
                "{error}: name a file in a directory that is there and can be written, on a local disk"
            )),
        }
    }

    /// Counts a visitor and reads the newest remarks, in one transaction.
    pub(super) async fn visit(self: &Arc<Self>, newest: usize) -> Result<Visit, String> {
        self.call(
            |sqlite| &sqlite.writer,
            move |connection| {
                // Deferred, a transaction that reads first cannot become a writer once another has written.
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
            },
        )
        .await
    }

    pub(super) async fn add_remark(self: &Arc<Self>, remark: &Remark) -> Result<(), String> {
        let remark = remark.clone();
        self.call(
            |sqlite| &sqlite.writer,
            move |connection| {
                connection
                    .prepare_cached("INSERT INTO remarks (guest, text) VALUES (?, ?)")?
                    .execute(params![remark.guest, remark.text])?;
                Ok(())
            },
        )
        .await
    }

    pub(super) async fn add_entry(
        self: &Arc<Self>,
        name: &str,
        number: &str,
    ) -> Result<(), String> {
        let (name, number) = (name.to_owned(), number.to_owned());
        self.call(
            |sqlite| &sqlite.writer,
            move |connection| {
                connection
                    .prepare_cached("INSERT OR REPLACE INTO phone (name, number) VALUES (?, ?)")?
                    .execute(params![name, number])?;
                Ok(())
            },
        )
        .await
    }

    pub(super) async fn find_entry(self: &Arc<Self>, name: &str) -> Result<Option<String>, String> {
        let name = name.to_owned();
        self.call(
            |sqlite| &sqlite.readers,
            move |connection| {
                connection
                    .prepare_cached("SELECT number FROM phone WHERE name = ?")?
                    .query_one([&name], |row| row.get(0))
                    .optional()
            },
        )
        .await
    }

    /// Does `work` on a connection of `pool`, where it holds up no other task.
    async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        pool: fn(&Self) -> &Pool<Opened>,
        mut work: impl FnMut(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let turn = pool(self).turn(self.limit).await;
        let turn = turn.ok_or("no turn came in time: it is overloaded")?;
        let (idle, sqlite) = (turn.take(), self.clone());
        let worked: rusqlite::Result<_> = task::offload(move || {
            let mut opened = sqlite.opened(idle)?;
            let result = sqlite.patiently(|| work(&mut opened.connection))?;
            // What was done is done, whether or not the log could be emptied after it.
            let _ = sqlite.bound_log(&opened.connection);
            Ok((result, opened))
        })
        .await;
        // After an error the connection is gone: a new one is as good as the file is.
        let (result, opened) = worked.map_err(|error| error.to_string())?;
        turn.put(opened);
        Ok(result)
    }

    /// The idle connection, if the path still leads to its file; else a new one. Who writes into a file
    /// that has been deleted or replaced under a connection keeps nothing.
    fn opened(&self, idle: Option<Opened>) -> rusqlite::Result<Opened> {
        let file = self.identity();
        match idle {
            Some(opened) if Some(opened.file) == file => Ok(opened),
            _ => {
                let connection = self.patiently(|| self.open(OpenFlags::empty()))?;
                visibility::store_opened();
                // That it could be opened and has gone since is for the next call to see.
                Ok(Opened { connection, file: file.unwrap_or_default() })
            }
        }
    }

    fn identity(&self) -> Option<FileIdentity> {
        let stat = rustix::fs::stat(&self.path).ok()?;
        Some((stat.st_dev, stat.st_ino))
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

    /// Makes what is not there; false when the file is a database of somebody else's.
    fn create_tables(&self) -> rusqlite::Result<bool> {
        let mut connection = self.open(OpenFlags::SQLITE_OPEN_CREATE)?;
        // In one transaction, or another process could make it between the one look and the other.
        let view = connection.transaction()?;
        let application: i32 = view.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 =
            view.query_one("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        view.finish()?;
        if application != APPLICATION && tables > 0 {
            return Ok(false);
        }
        let _: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.execute_batch(SCHEMA)?;
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(true)
    }

    /// Repeats `work`, which is one transaction or less, while another process has the lock, for as long
    /// as the limit allows.
    fn patiently<T>(&self, mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let start = Instant::now();
        loop {
            match work() {
                Err(error) if is_busy(&error) && start.elapsed() < self.limit => {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "in the set-up or offloaded, where it holds up no other task"
                    )]
                    std::thread::sleep(pause(start.elapsed()));
                }
                worked => return worked,
            }
        }
    }

    /// Empties the log if it has grown long.
    ///
    /// SQLite moves the log's pages into the file every thousand pages, and starts the log anew when it
    /// finds that all have been moved. Under writers that never rest it never finds that, and the log
    /// grows for as long as they go on; so now and then they have to wait.
    fn bound_log(&self, connection: &Connection) -> rusqlite::Result<()> {
        let length = rustix::fs::stat(&self.log).map_or(0, |stat| stat.st_size);
        if length < LONGEST_LOG {
            return Ok(());
        }
        connection.busy_timeout(EMPTYING)?;
        // Whether it could be done is in a row of its own. If not, somebody else is at it, or the next
        // writer will be.
        let _: rusqlite::Result<i64> =
            connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0));
        connection.busy_timeout(Duration::ZERO)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    // Every variant of it: also that of the log's being recovered after a crash.
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// How long to wait before asking for the lock again, having waited for so long.
///
/// SQLite's own handler asks ever more seldom, so that whoever has waited long loses to those that have
/// just come: of a hundred processes some were still waiting after five seconds. Here the newcomers,
/// after a quick second attempt, are the ones that ask seldom.
fn pause(waited: Duration) -> Duration {
    let most = match waited.as_millis() {
        0..2 => Duration::from_micros(300),
        2..200 => Duration::from_millis(20),
        _ => Duration::from_millis(1),
    };
    // The clock's last digits are as good as random, and keep processes out of step.
    let chance = waited.subsec_nanos() % 1024;
    most * chance / 1024
}

#[cfg(test)]
mod tests {
    use duality_runtime::block_on;
    use tempfile::TempDir;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn sqlite(directory: &TempDir, synchronous: Synchronous) -> Arc<Sqlite> {
        Arc::new(Sqlite::create(&directory.path().join("store.db"), synchronous, LIMIT).unwrap())
    }

    #[test]
    fn a_full_disk_is_an_error_until_there_is_room() {
        let directory = TempDir::new().unwrap();
        let sqlite = sqlite(&directory, Synchronous::Normal);
        let remark = Remark { guest: "ann".into(), text: "x".repeat(10_000) };
        block_on(async {
            sqlite.visit(0).await.unwrap();
            let turn = sqlite.writer.turn(LIMIT).await.unwrap();
            let opened = turn.take().unwrap();
            // SQLite has the same error for a file that it may not let grow. It takes the size that the file
            // has for the least limit.
            opened.connection.pragma_update(None, "max_page_count", 1).unwrap();
            turn.put(opened);
            sqlite.add_entry("ann", "1").await.unwrap();
            let error = sqlite.add_remark(&remark).await.unwrap_err();
            assert!(error.contains("full"), "{error}");
            // The failure took the connection, and with it the limit.
            sqlite.add_remark(&remark).await.unwrap();
            assert_eq!(sqlite.visit(5).await.unwrap().remarks, [remark]);
            assert_eq!(sqlite.find_entry("ann").await.unwrap().as_deref(), Some("1"));
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
