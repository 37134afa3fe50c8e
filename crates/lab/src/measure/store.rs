//! The store of an experiment's servers: a fresh one for each cell, or an existing one.
//!
//! A fresh store makes cells comparable, because a guestbook that has grown answers more slowly.
//! The fresh store is in a temporary directory and ends with the cell.

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::failure::{Failure, Party};
use crate::measure::no_server::NoServer;
use crate::measure::peers::find;
use crate::measure::spawn;

/// The longest time that redis-server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of attempts to find a port, since another process may take a free port first.
const ATTEMPTS: usize = 3;
/// The reason why Redis may be missing.
const NEEDS_REDIS: &str = "needs redis-server: apt-get install redis-server";

/// The store in which servers keep their data. `Display` writes a store as users do, but hides
/// passwords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Store {
    /// A new SQLite file for each cell.
    Sqlite,
    /// A new `redis-server` for each cell: started by the lab, on loopback, without writes to disk.
    Redis,
    /// An existing store: `sqlite:PATH` or `redis://HOST:PORT`, as the server takes it. An existing
    /// store keeps the data of earlier cells.
    At(String),
}

/// The error: the text names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no store is called `{0}`: choose sqlite, redis, sqlite:PATH or redis://HOST:PORT")]
pub struct InvalidStore(String);

impl FromStr for Store {
    type Err = InvalidStore;

    fn from_str(text: &str) -> Result<Self, InvalidStore> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "redis" => Ok(Self::Redis),
            url if url.starts_with("sqlite:") || url.starts_with("redis://") => {
                Ok(Self::At(url.to_owned()))
            }
            other => Err(InvalidStore(other.to_owned())),
        }
    }
}

impl TryFrom<String> for Store {
    type Error = InvalidStore;

    fn try_from(text: String) -> Result<Self, InvalidStore> {
        text.parse()
    }
}

impl From<Store> for String {
    /// The store as it was read, with its password.
    fn from(store: Store) -> Self {
        match store {
            Store::At(url) => url,
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite => formatter.write_str("sqlite"),
            Self::Redis => formatter.write_str("redis"),
            Self::At(url) => match (url.split_once("//"), url.rsplit_once('@')) {
                (Some(("redis:", _)), Some((_, host))) => {
                    write!(formatter, "redis://***@{host}")
                }
                _ => formatter.write_str(url),
            },
        }
    }
}

impl Store {
    /// A warning about the store for readers of the results. `client_cpus` are the load
    /// generator's.
    pub(crate) fn describe(&self, client_cpus: &[usize]) -> String {
        match self {
            Self::Sqlite => {
                format!("a new SQLite file in {} for each cell", env::temp_dir().display())
            }
            Self::Redis => {
                let place = match client_cpus {
                    [] => "not pinned".to_owned(),
                    cpus => format!("on the load generator's CPUs ({})", join(cpus)),
                };
                let version = redis_version().unwrap_or_else(|| "none installed".to_owned());
                format!(
                    "a new redis-server for each cell, {place}, writing nothing to disk: {version}"
                )
            }
            Self::At(_) => format!("{self}, which all cells share"),
        }
    }

    /// Makes the store of a cell, for servers on this machine.
    pub(crate) fn open(&self, client_cpus: &[usize]) -> Result<OpenStore, NoServer> {
        self.open_for(&Reach::Machine, client_cpus).map(|(store, _)| store)
    }

    /// Makes the store of a cell. Also returns the port, if the store listens.
    pub(crate) fn open_for(
        &self,
        reach: &Reach,
        client_cpus: &[usize],
    ) -> Result<(OpenStore, u16), NoServer> {
        let failed = |error: io::Error| Failure::new(Party::Store, error).at("cannot make a store");
        match self {
            Self::At(url) => Ok((OpenStore::at(url.clone()), 0)),
            Self::Sqlite => {
                let directory = temporary().map_err(failed)?;
                let url = format!("sqlite:{}", directory.path().join("cell.sqlite").display());
                Ok((OpenStore { _directory: Some(directory), ..OpenStore::at(url) }, 0))
            }
            Self::Redis => {
                let directory = temporary().map_err(failed)?;
                let (redis, address) = start_redis(&directory, client_cpus, reach)?;
                let url = format!("redis://{address}");
                let store = OpenStore {
                    redis: Some(redis),
                    _directory: Some(directory),
                    ..OpenStore::at(url)
                };
                Ok((store, address.port()))
            }
        }
    }
}

/// The machines from which a store is reached.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// From this machine alone.
    Machine,
    /// From other hosts: the store listens on all addresses, and asks for a password.
    Network {
        /// All addresses of a family.
        listen: IpAddr,
        /// Each store gets a new password.
        password: String,
    },
}

impl Reach {
    /// A store that other hosts reach.
    pub(crate) fn network(listen: IpAddr) -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let password = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self::Network { listen, password })
    }

    /// The address at which the store listens.
    fn listen(&self) -> IpAddr {
        match self {
            Self::Machine => Ipv4Addr::LOCALHOST.into(),
            Self::Network { listen, .. } => *listen,
        }
    }

    /// The password that the store asks for, if it asks for one.
    pub(crate) fn password(&self) -> Option<&str> {
        match self {
            Self::Machine => None,
            Self::Network { password, .. } => Some(password),
        }
    }
}

/// The store of a cell. Dropping this value ends a store that was made for the cell.
pub(crate) struct OpenStore {
    url: String,
    redis: Option<Redis>,
    elsewhere: Option<Box<dyn Elsewhere>>,
    _directory: Option<TempDir>,
}

impl OpenStore {
    /// An existing store.
    fn at(url: String) -> Self {
        Self { url, redis: None, elsewhere: None, _directory: None }
    }

    /// A store on another host.
    pub(crate) fn elsewhere(url: String, store: Box<dyn Elsewhere>) -> Self {
        Self { elsewhere: Some(store), ..Self::at(url) }
    }

    /// The address of the store, in the form that the server takes.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The number of the store's process, if it has one of its own on this machine.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.redis.as_ref().map(|redis| redis.0.id())
    }

    /// The failure of the store since it was opened, if there was one.
    pub(crate) fn problem(&mut self) -> Option<String> {
        if let Some(store) = &mut self.elsewhere {
            return store.problem();
        }
        let ended = self.redis.as_mut()?.0.try_wait().ok()??;
        Some(format!("redis-server ended on its own ({ended})"))
    }
}

/// A store on another host. The store ends when this value is dropped.
pub(crate) trait Elsewhere: Send {
    /// The failure of the store since it was opened, if there was one.
    fn problem(&mut self) -> Option<String>;
}

/// A `redis-server` that the lab started.
struct Redis(Child);

impl Drop for Redis {
    fn drop(&mut self) {
        // The data of this store are not worth keeping.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn temporary() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("duality-cell-").tempdir()
}

/// Starts a `redis-server` and waits until it answers.
fn start_redis(
    directory: &TempDir,
    cpus: &[usize],
    reach: &Reach,
) -> Result<(Redis, SocketAddr), NoServer> {
    let failed = |error: io::Error| Failure::new(Party::Store, error).at("redis-server");
    if find("redis-server").is_none() {
        return Err(NoServer::Unavailable(NEEDS_REDIS.to_owned()));
    }
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let address = free_address(reach.listen()).map_err(failed)?;
        let path = directory.path().join("redis.log");
        let log = File::create(&path).map_err(failed)?;
        let mut command = redis_command(directory, cpus, address, reach, log).map_err(failed)?;
        let mut redis = match command.spawn() {
            Ok(child) => Redis(child),
            Err(error) => return Err(failed(error).into()),
        };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(redis.0.try_wait(), Ok(None)) {
            if answers(address) {
                return Ok((redis, address));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let output = fs::read_to_string(path).unwrap_or_default();
        last = output.lines().next_back().unwrap_or("it said nothing").to_owned();
    }
    Err(Failure::new(Party::Store, format!("redis-server does not answer: {last}")).into())
}

fn redis_command(
    directory: &TempDir,
    cpus: &[usize],
    address: SocketAddr,
    reach: &Reach,
    log: File,
) -> io::Result<Command> {
    let mut command = spawn::command("redis-server", "KILL");
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    if let Some(password) = reach.password() {
        command.args(["--requirepass", password]);
    }
    command.args(["--appendonly", "no", "--save", "", "--daemonize", "no"]);
    command.arg("--dir").arg(directory.path());
    if !cpus.is_empty() {
        let cpus = join(cpus);
        // Names with a hyphen came with Redis 7.2. The names here work from 6.0 on.
        command.args(["--server_cpulist", &cpus, "--bio_cpulist", &cpus]);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

/// An address that was free just now.
fn free_address(ip: IpAddr) -> io::Result<SocketAddr> {
    TcpListener::bind((ip, 0))?.local_addr()
}

/// Whether a Redis server answers there. An answer that asks for a password also counts.
fn answers(address: SocketAddr) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        Ok(&reply == b"+PONG\r\n" || &reply == b"-NOAUTH")
    };
    ask().unwrap_or(false)
}

fn redis_version() -> Option<String> {
    let output = Command::new("redis-server").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace()
        .find_map(|word| word.strip_prefix("v="))
        .map(|version| format!("version {version}"))
}

fn join(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    cpus.join(",")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::measure::machine;

    #[test]
    fn stores_are_read_and_written_alike() {
        for text in ["sqlite", "redis", "sqlite:/tmp/x", "redis://127.0.0.1:6379"] {
            assert_eq!(text.parse::<Store>().unwrap().to_string(), text);
        }
        assert!("postgres://x".parse::<Store>().unwrap_err().to_string().contains("redis://"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let store: Store = "redis://me:p@ss@127.0.0.1:6379/2".parse().unwrap();
        assert_eq!(store.to_string(), "redis://***@127.0.0.1:6379/2");
        assert!(!store.describe(&[]).contains("p@ss"));
    }

    #[test]
    fn a_fresh_file_is_in_a_directory_that_goes_with_the_cell() {
        let store = Store::Sqlite.open(&[]).unwrap_or_else(|_| panic!("no store"));
        let path = PathBuf::from(store.url().strip_prefix("sqlite:").unwrap());
        assert!(!path.exists() && path.parent().unwrap().is_dir());
        drop(store);
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn a_fresh_redis_answers_and_ends_with_the_cell() {
        let mut store = match Store::Redis.open(&machine::split_cpus().1) {
            Ok(store) => store,
            Err(NoServer::Unavailable(reason)) => {
                assert_eq!(reason, NEEDS_REDIS);
                eprintln!("not tried: no redis-server on PATH");
                return;
            }
            Err(NoServer::Failed(reason)) => panic!("{reason}"),
        };
        let address: SocketAddr = store.url().strip_prefix("redis://").unwrap().parse().unwrap();
        assert!(answers(address));
        assert_eq!(store.problem(), None);
        drop(store);
        assert!(!answers(address));
    }
}
