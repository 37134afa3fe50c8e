//! The set-up of the file: makes or checks the file.
//!
//! A file is made under another name, and moved into its place when it is whole. So an empty file
//! in that place was truncated, and is refused. Otherwise it would silently become an empty book.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use duality_runtime::time::{Duration, Instant};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::{CWD, FileType, RenameFlags};
use rustix::io::Errno;

use super::guard::Unfit;
use super::{Sqlite, Synchronous, is_busy, pause};

/// The mark of our files (`PRAGMA application_id`): "Dual" in ASCII.
const APPLICATION: i32 = 0x4475_616c;

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

/// The number of tables in the schema.
const TABLES: i64 = 3;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum Refused {
    #[error("the file belongs to another program: name another file")]
    Foreign,
    #[error("the file is no SQLite database: restore it from a copy, or name another file")]
    NoDatabase,
    #[error("the file is damaged: {0}: restore it from a copy, or name another file")]
    Damaged(String),
    #[error(
        "the file is empty, which a store never is: restore it from a copy, or delete it and its log, \
         {}, to begin anew", .0.display()
    )]
    Empty(PathBuf),
    #[error(
        "the file is gone, but not its log: restore it from a copy, or delete {} to begin anew", .0.display()
    )]
    Gone(PathBuf),
    #[error("SQLite can keep no write-ahead log beside the file: name a file on a local disk")]
    NoLog,
    #[error("{0}: name a file in a directory that is there and can be written, on a local disk")]
    Sqlite(rusqlite::Error),
    #[error("{0}: name a file in a directory that is there and can be written, on a local disk")]
    System(Errno),
    #[error("{0}")]
    Path(#[from] io::Error),
    #[error("{0}")]
    Unfit(#[from] Unfit),
}

impl Sqlite {
    /// Makes the file if it does not exist, and closes it again. Reads all of an existing file,
    /// which must be whole.
    pub(in super::super) fn create(
        path: &Path,
        synchronous: Synchronous,
        limit: Duration,
    ) -> Result<Self, Refused> {
        let sqlite = Self::new(path, synchronous, limit)?;
        sqlite.set_up()?;
        sqlite.guard.begin()?;
        Ok(sqlite)
    }

    fn set_up(&self) -> Result<(), Refused> {
        match rustix::fs::stat(&self.path) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_size == 0 => {
                Err(Refused::Empty(self.guard.log().to_owned()))
            }
            Err(Errno::NOENT) if rustix::fs::stat(self.guard.log()).is_ok() => {
                Err(Refused::Gone(self.guard.log().to_owned()))
            }
            Err(Errno::NOENT) => self.make(),
            _ => self.patiently(|| self.examine()),
        }
    }

    /// Makes the file under another name, and moves it to its place, unless another process did so
    /// first.
    fn make(&self) -> Result<(), Refused> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let suffix = format!("-new-{}-{}", process::id(), MADE.fetch_add(1, Relaxed));
        let temporary = with_suffix(&self.path, &suffix);
        let moved = fill(&temporary).and_then(|()| {
            let flags = RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(CWD, &temporary, CWD, &self.path, flags)
                .map_err(Refused::System)
        });
        if moved.is_err() {
            // Some of these files may not exist.
            for suffix in ["", "-wal", "-shm", "-journal"] {
                let _ = rustix::fs::unlink(with_suffix(&temporary, suffix));
            }
        }
        match moved {
            Err(Refused::System(Errno::EXIST)) => self.patiently(|| self.examine()),
            moved => moved,
        }
    }

    /// Finds out whether the file is ours and whole. A database without tables becomes ours.
    fn examine(&self) -> Result<(), Refused> {
        let mut connection = self.open(OpenFlags::empty())?;
        // A refused file and its log stay unchanged.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // One transaction: otherwise another process could change the file between the two queries.
        let view = connection.transaction()?;
        let application: i32 = view.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 =
            view.query_one("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        if application == APPLICATION {
            if let Some(flaw) = flaw(&view)? {
                return Err(Refused::Damaged(flaw));
            }
        } else if tables > 0 {
            return Err(Refused::Foreign);
        }
        view.finish()?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        if application != APPLICATION {
            make_ours(&mut connection)?;
        }
        Ok(connection.close().map_err(|(_, error)| error)?)
    }

    /// Repeats `work`, which is at most one transaction, while another process has the lock, until
    /// the limit. Call it only in the set-up, before there are tasks.
    fn patiently(&self, mut work: impl FnMut() -> Result<(), Refused>) -> Result<(), Refused> {
        let start = Instant::now();
        loop {
            match work() {
                Err(Refused::Sqlite(error)) if is_busy(&error) && start.elapsed() < self.limit => {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "in the set-up, where it holds up no task"
                    )]
                    std::thread::sleep(pause(start.elapsed()));
                }
                worked => return worked,
            }
        }
    }
}

/// Makes a new file, with all of a store in it.
fn fill(path: &Path) -> Result<(), Refused> {
    let mut connection = Connection::open(path)?;
    make_ours(&mut connection)?;
    // The close empties the log too, and then deletes it, but it hides that the disk was full.
    let _busy: i64 =
        connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
    Ok(connection.close().map_err(|(_, error)| error)?)
}

fn make_ours(connection: &mut Connection) -> Result<(), Refused> {
    let mut change = connection.prepare("PRAGMA journal_mode = WAL")?;
    // Through all rows: the change is committed after the last one, and may fail there.
    let modes =
        change.query_map((), |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    drop(change);
    if modes != ["wal"] {
        return Err(Refused::NoLog);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.execute_batch(SCHEMA)?;
    Ok(transaction.commit()?)
}

/// Reads a whole file of ours, and returns its damage, if there is any.
pub(super) fn flaw(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let look = || -> rusqlite::Result<Option<String>> {
        let found: String = connection.query_one("PRAGMA quick_check(1)", (), |row| row.get(0))?;
        let tables: i64 = connection.query_one(
            "SELECT count(*) FROM sqlite_schema WHERE name IN ('visitors', 'remarks', 'phone')",
            (),
            |row| row.get(0),
        )?;
        Ok(match (found.as_str(), tables) {
            ("ok", TABLES) => None,
            ("ok", _) => Some("it lacks a table".into()),
            _ => Some(found),
        })
    };
    match look() {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(Some(error.to_string()))
        }
        looked => looked,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NoDatabase,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged(error.to_string()),
            _ => Self::Sqlite(error),
        }
    }
}
