//! The same commands for this Redis and for the real one: the same replies, byte for byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use redis_protocol::resp2::types::OwnedFrame;
use tempfile::TempDir;

use super::command;
use super::commands::{Redis, append};

/// Bounds each wait for the real server.
const EVER: Duration = Duration::from_secs(30);

/// The clients of a case.
const CLIENTS: usize = 3;

/// A real server, at a socket in a directory of its own.
struct Real {
    directory: TempDir,
    process: Child,
}

impl Real {
    fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory can be made");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket", "socket", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (cargo xtask tools)");
        Self { directory, process }
    }

    fn connect(&self) -> UnixStream {
        let path: PathBuf = self.directory.path().join("socket");
        let start = Instant::now();
        loop {
            match UnixStream::connect(&path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(EVER)).expect("the limit is valid");
                    return stream;
                }
                Err(error) => assert!(start.elapsed() < EVER, "{}: {error}", path.display()),
            }
            thread::yield_now();
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A word, most often one that means something.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "a",
        "b",
        "c",
        "0",
        "1",
        "-1",
        "2",
        "-2",
        "15",
        "16",
        "007",
        "+1",
        " 1",
        "-0",
        "NX",
        "nx",
        "9223372036854775807",
        "9223372036854775806",
        "-9223372036854775808",
        "1.5",
        "",
    ];
    prop_oneof![9 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "[ -~]{0,60}"]
}

/// A step: a client sends a command, most often with as many words as it takes.
fn step() -> impl Strategy<Value = (usize, Vec<String>)> {
    let commands = [
        ("GET", 1),
        ("getdel", 1),
        ("HGET", 2),
        ("HSET", 3),
        ("INCR", 1),
        ("LPUSH", 2),
        ("LRANGE", 3),
        ("PING", 1),
        ("PUBLISH", 2),
        ("SELECT", 1),
        ("SET", 2),
        ("SET", 3),
        ("Subscribe", 1),
        ("GRAB", 2),
    ];
    let command = prop::sample::select(commands.to_vec());
    let odd = prop_oneof![8 => Just(None), 2 => (0..6_usize).prop_map(Some)];
    (0..CLIENTS, command, odd, prop::collection::vec(word(), 6)).prop_map(
        |(client, (name, count), odd, words)| {
            let rest = words.into_iter().take(odd.unwrap_or(count));
            (client, std::iter::once(name.to_owned()).chain(rest).collect())
        },
    )
}

fn encoded(words: &[String]) -> Vec<u8> {
    let words = words.iter().map(|word| OwnedFrame::BulkString(word.clone().into_bytes()));
    let frame = OwnedFrame::Array(words.collect());
    let mut bytes = Vec::new();
    append(&mut bytes, &frame);
    bytes
}

/// Runs the steps in both. After each one, every client gets the same bytes.
fn compare(real: &Real, steps: &[(usize, Vec<String>)]) -> Result<(), TestCaseError> {
    let mut streams: Vec<UnixStream> = (0..CLIENTS).map(|_| real.connect()).collect();
    let mut own = Redis::default();
    let numbers: Vec<u64> = streams.iter().map(|_| own.join()).collect();
    let mut flush = real.connect();
    flush.write_all(b"FLUSHALL\r\n")?;
    flush.read_exact(&mut [0; 5])?;
    // At the end, each client asks once more, so that superfluous bytes are seen.
    let last = (0..CLIENTS).map(|client| (client, vec!["PING".to_owned(), "end".to_owned()]));
    for (client, words) in steps.iter().cloned().chain(last) {
        let bytes = encoded(&words);
        streams[client].write_all(&bytes)?;
        let (words, length) = command(&bytes)?.expect("the command is whole");
        prop_assert_eq!(length, bytes.len());
        own.execute(numbers[client], &words);
        for (number, stream) in numbers.iter().zip(&mut streams) {
            let expected = own.take_output(*number).unwrap_or_default();
            let mut got = vec![0; expected.len()];
            let mut filled = 0;
            while filled < got.len() {
                let count = stream.read(&mut got[filled..])?;
                prop_assert!(count > 0, "the real one closes");
                filled += count;
                // A shorter reply is seen at once, not after a time limit.
                prop_assert_eq!(text(&got[..filled]), text(&expected[..filled]));
            }
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_same_commands_get_the_same_replies() {
    let real = Real::start();
    let config =
        ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let steps = prop::collection::vec(step(), 0..60);
    if let Err(error) = runner.run(&steps, |steps| compare(&real, &steps)) {
        panic!("{error}");
    }
}
