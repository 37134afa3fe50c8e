//! Checks that acknowledged entries are kept: kills a server or its store with `kill -9`, under
//! clients that add entries.
//!
//! Each client numbers its entries, and makes one after the other. So a client knows of each entry
//! whether it is acknowledged, refused, or in doubt. At the end, the store has each acknowledged
//! entry once, and each other entry at most once. All entries of a client are in their order.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duality_lab::random::SplitMix64;
use duality_lab::{AtFile as _, Blame as _, Party};

use super::{PATIENCE, Result, Settings, wrong};
use crate::Redis;

const CLIENTS: usize = 8;

/// The least number of acknowledged entries between two kills.
const BETWEEN: usize = 50;

/// The default architectures: one of each world, and one with several processes.
const ARCHITECTURES: [&str; 4] = ["prefork", "threads", "uthreads", "epoll"];

/// The killed process, and the store of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The server, with its store in a file.
    ServerOnSqlite,
    /// The server, with its store in Redis.
    ServerOnRedis,
    /// Redis; the server is never killed.
    Redis,
}

/// The numbers of entries, by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The service acknowledged the entry.
    pub acknowledged: usize,
    /// The store was unavailable.
    pub refused: usize,
    /// The connection broke before a reply.
    pub cut_off: usize,
}

/// Kills each victim under each architecture `count` times. Prints a line for each, and returns the
/// number of findings.
pub fn run(settings: &Settings, count: usize) -> usize {
    let mut random = SplitMix64::new(settings.seed);
    let named = settings.architectures.iter().map(String::as_str);
    let architectures: Vec<_> = named.collect();
    let architectures = match architectures.as_slice() {
        [] => &ARCHITECTURES[..],
        named => named,
    };
    let mut broken = 0;
    for architecture in architectures {
        for service in ["phone", "guestbook"] {
            for victim in [Victim::ServerOnSqlite, Victim::ServerOnRedis, Victim::Redis] {
                let title = format!("{architecture} {service}: {count} kills of {victim:?}");
                match kill(&settings.server, architecture, service, victim, count, &mut random) {
                    Ok(tally) => println!("{title:<60} {tally:?}  ok"),
                    Err(finding) => {
                        broken += 1;
                        println!("{title:<60} FOUND\n    {finding}");
                    }
                }
            }
        }
    }
    broken
}

/// Kills a victim `count` times under clients of a service, then looks for the entries.
///
/// # Errors
///
/// Names entries that were lost, doubled, out of order or never answered.
///
/// # Panics
///
/// Fails too if a server or Redis cannot be started, or if a client gets a reply outside the
/// protocol.
pub fn kill(
    program: &Path,
    architecture: &str,
    service: &str,
    victim: Victim,
    count: usize,
    random: &mut SplitMix64,
) -> Result<Tally> {
    let directory = tempfile::tempdir().blame(Party::Machine)?;
    let book = directory.path().join("store.sqlite");
    let mut redis = (victim != Victim::ServerOnSqlite).then(|| Redis::start(directory.path()));
    let store = match &redis {
        Some(redis) => format!("redis://{}", redis.address()),
        None => format!("sqlite:{}", book.display()),
    };
    let start = |listen: &str| Server::start(program, architecture, service, &store, listen);
    // Clients connect from 127.0.0.1, so the server has another address. Otherwise a client could
    // be connected to itself while no server listens on the ephemeral port, and would take the
    // port.
    let mut server = start("127.0.0.2:0")?;
    let scene = Scene::new(service, server.address);
    let entries = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let scene = &scene;
                    move || scene.client(number)
                })
            })
            .collect();
        let killed = (0..count).try_for_each(|_| {
            scene.progress()?;
            thread::sleep(Duration::from_millis(random.below(50)));
            match (victim, &mut redis) {
                (Victim::Redis, Some(redis)) => redis.restart(directory.path(), || {}),
                _ => {
                    let address = server.address.to_string();
                    server.kill();
                    server = start(&address)?;
                }
            }
            Ok(())
        });
        let outcome = killed.and_then(|()| scene.progress());
        scene.is_over.store(true, Ordering::Relaxed);
        let entries: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        outcome.map(|()| entries)
    })?;
    server.kill();
    let kept = match (service, &redis) {
        ("guestbook", Some(redis)) => remarks_in_redis(&redis.ask("LRANGE duality:remarks 0 -1")),
        (_, Some(redis)) => entries_in_redis(&redis.ask("HKEYS duality:phone")),
        ("guestbook", None) => in_file(&book, "SELECT text FROM remarks ORDER BY number"),
        (_, None) => in_file(&book, "SELECT name FROM phone"),
    };
    let mut tally = Tally::default();
    for (number, entries) in entries.into_iter().enumerate() {
        let entries =
            entries.map_err(|_| wrong(format_args!("client {number} got a wrong reply")))?;
        compare(number, &entries, &kept, service == "guestbook", &mut tally)?;
    }
    Ok(tally)
}

/// A client's knowledge of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Refused,
    CutOff,
}

/// The state that the clients share.
struct Scene {
    is_guestbook: bool,
    address: SocketAddr,
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
}

impl Scene {
    fn new(service: &str, address: SocketAddr) -> Self {
        let (acknowledged, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { is_guestbook: service == "guestbook", address, acknowledged, is_over }
    }

    /// Waits until some more entries have been acknowledged.
    fn progress(&self) -> Result {
        let wanted = self.acknowledged.load(Ordering::Relaxed) + BETWEEN;
        let deadline = Instant::now() + PATIENCE;
        while self.acknowledged.load(Ordering::Relaxed) < wanted {
            if Instant::now() > deadline {
                return Err(wrong(format_args!("the service did not recover within {PATIENCE:?}")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Makes one entry after the other. Returns the fate of each.
    fn client(&self, number: usize) -> Vec<Fate> {
        let mut fates = Vec::new();
        let mut connection = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let fate = self.add(&mut connection, &name(number, fates.len()));
            let fate = fate.unwrap_or_else(|_| {
                connection = None;
                thread::sleep(Duration::from_millis(5));
                Fate::CutOff
            });
            if fate == Fate::Acknowledged {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            fates.push(fate);
        }
        fates
    }

    fn add(&self, connection: &mut Option<BufReader<TcpStream>>, name: &str) -> io::Result<Fate> {
        let stream = match connection {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                connection.insert(BufReader::new(stream))
            }
        };
        if !self.is_guestbook {
            stream.get_mut().write_all(format!("ADD {name} 12345\n").as_bytes())?;
            let reply = line(stream)?;
            if reply == format!("ADDED {name} 12345\n") {
                return Ok(Fate::Acknowledged);
            }
            assert_eq!(reply, "ERROR the store is unavailable\n");
            return Ok(Fate::Refused);
        }
        let form = format!("guest-name=a&guest-remarks={name}");
        let head = format!(
            "POST /guestbook HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n",
            form.len()
        );
        stream.get_mut().write_all((head + &form).as_bytes())?;
        let status = line(stream)?;
        let (mut length, mut closes) = (0, false);
        loop {
            let field = line(stream)?.to_ascii_lowercase();
            match field.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("connection", value)) => closes = value == "close",
                Some(_) => {}
                None => break,
            }
        }
        stream.read_exact(&mut vec![0; length])?;
        if closes {
            *connection = None;
        }
        match status.get(..13) {
            Some("HTTP/1.1 303 ") => Ok(Fate::Acknowledged),
            Some("HTTP/1.1 503 ") => Ok(Fate::Refused),
            _ => panic!("{status}"),
        }
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    if line.ends_with('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn name(client: usize, number: usize) -> String {
    format!("c{client}e{number}")
}

/// Compares a client's entries with the store, in the store's order if it has one.
fn compare(
    client: usize,
    fates: &[Fate],
    kept: &[String],
    is_ordered: bool,
    tally: &mut Tally,
) -> Result {
    let prefix = format!("c{client}e");
    let numbers = kept.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse::<usize>().ok());
    let numbers: Vec<_> = numbers.collect();
    if is_ordered && !numbers.is_sorted() {
        return Err(wrong(format_args!("the entries of client {client} are out of order")));
    }
    let mut times = BTreeMap::new();
    numbers.into_iter().for_each(|number| *times.entry(number).or_insert(0) += 1);
    for (number, fate) in fates.iter().enumerate() {
        match (fate, times.get(&number).copied().unwrap_or(0)) {
            (Fate::Acknowledged, 0) => {
                return Err(wrong("was acknowledged and is lost").at(name(client, number)));
            }
            (_, 0 | 1) => {}
            (_, times) => {
                let what = format_args!("is there {times} times");
                return Err(wrong(what).at(name(client, number)));
            }
        }
        match fate {
            Fate::Acknowledged => tally.acknowledged += 1,
            Fate::Refused => tally.refused += 1,
            Fate::CutOff => tally.cut_off += 1,
        }
    }
    Ok(())
}

fn in_file(book: &Path, question: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(book).unwrap();
    let mut statement = connection.prepare(question).unwrap();
    let rows = statement.query_map((), |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// The oldest remark comes first. An element is the length of the guest's name, a colon, the name,
/// and the text.
fn remarks_in_redis(reply: &[u8]) -> Vec<String> {
    let mut remarks = entries_in_redis(reply);
    remarks.reverse();
    remarks.into_iter().filter_map(|line| line.strip_prefix("1:a").map(str::to_owned)).collect()
}

fn entries_in_redis(reply: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(reply).split("\r\n").map(str::to_owned).collect()
}

/// The server. Dropping it kills the process.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(
        program: &Path,
        architecture: &str,
        service: &str,
        store: &str,
        listen: &str,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", service, "--store", store, "--listen", listen]);
        command.args(["--architecture", architecture]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().at_file(program.display())?;
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        let _ = BufReader::new(output).read_line(&mut line);
        match line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok()) {
            Some(address) => Ok(Self { child, address }),
            None => Err(wrong(format_args!("it does not listen: {:?}", child.wait()))),
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_doubled_or_out_of_order_is_found() {
        use Fate::{Acknowledged, CutOff, Refused};
        let fates = [Acknowledged, CutOff, Acknowledged, Refused];
        let compared = |kept: &[usize]| {
            let mut tally = Tally::default();
            let kept: Vec<_> = kept.iter().map(|number| name(7, *number)).collect();
            compare(7, &fates, &kept, true, &mut tally).map(|()| tally)
        };
        let tally = Tally { acknowledged: 2, refused: 1, cut_off: 1 };
        assert_eq!(compared(&[0, 2]), Ok(tally));
        assert_eq!(compared(&[0, 1, 2, 3]), Ok(tally));
        assert!(
            compared(&[0, 1])
                .unwrap_err()
                .to_string()
                .contains("c7e2: was acknowledged and is lost")
        );
        assert!(
            compared(&[0, 1, 1, 2]).unwrap_err().to_string().contains("c7e1: is there 2 times")
        );
        assert!(compared(&[0, 2, 1]).unwrap_err().to_string().contains("out of order"));
    }
}
