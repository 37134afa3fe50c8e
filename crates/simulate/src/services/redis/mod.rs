//! A Redis on a simulated host, of the commands that Duality's services use.
//!
//! ```text
//!   reader of a connection ─ command ─▶ Redis ─ bytes of each client ─▶ writers ─▶ connections
//! ```

#[cfg(test)]
mod against_redis;
mod commands;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::sync::Notify;
use duality_runtime::task;
use duality_services::Setup;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

use self::commands::Redis;
use super::Days;
use crate::violation::Violation;

/// The port of a Redis.
const PORT: u16 = 6379;

/// A Redis that runs.
struct Running {
    redis: Arc<Mutex<Redis>>,
    /// The writers of its clients.
    writers: Mutex<BTreeMap<u64, Arc<Notify>>>,
    /// The bytes that may wait for a client. One that takes them too slowly is cut off.
    most_output: usize,
}

/// A connection that leaves when it is dropped.
struct Connected {
    running: Arc<Running>,
    number: u64,
    writer: Arc<Notify>,
}

impl Days {
    /// Adds the host `redis`, and returns the set-up of servers that use it. The seed decides
    /// whether its data survive a crash, as they do with `appendfsync always`.
    pub(super) fn redis(&self) -> Result<Setup, Violation> {
        let keeps = self.net.draw(2) == 0;
        let most_output = [32 << 20, 4 << 10][self.net.draw(2) as usize];
        let (redis, shared) = (Arc::<Mutex<Redis>>::default(), self.shared.clone());
        let host = self.net.host("redis", move || {
            lock(&redis).start(keeps);
            shared.losses.fetch_add(usize::from(!keeps), Ordering::Relaxed);
            serve(redis.clone(), most_output)
        });
        let store = format!("redis://{}", host.port(PORT));
        let location = store.parse().map_err(|error| format!("{store}: {error}"))?;
        Ok(Setup { store: Some(location), ..Setup::default() })
    }
}

async fn serve(redis: Arc<Mutex<Redis>>, most_output: usize) -> io::Result<()> {
    let running = Arc::new(Running { redis, writers: Mutex::default(), most_output });
    let address = ([0, 0, 0, 0], PORT).into();
    let mut listener = TcpListener::bind(address, &ListenOptions::default())?;
    loop {
        // Whatever accept refuses, the next connection may be had.
        let Ok((stream, _)) = listener.accept().await else {
            task::yield_now().await;
            continue;
        };
        let connected = Connected::new(&running);
        // A client without a task is cut off.
        let _ = task::spawn(async move { read(connected, stream).await });
    }
}

impl Connected {
    fn new(running: &Arc<Running>) -> Self {
        let (running, writer) = (running.clone(), Arc::new(Notify::new()));
        let number = lock(&running.redis).join();
        lock(&running.writers).insert(number, writer.clone());
        Self { running, number, writer }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        lock(&self.running.redis).leave(self.number);
        lock(&self.running.writers).remove(&self.number);
        self.writer.notify_one();
    }
}

/// Executes the commands of a client, until it leaves.
async fn read(connected: Connected, mut stream: TcpStream) -> io::Result<()> {
    let Connected { running, number, writer } = &connected;
    let output = stream.try_clone()?;
    task::spawn(write(running.clone(), *number, writer.clone(), output))?;
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => input.extend(&buffer[..count]),
        }
        while let Some((words, length)) = command(&input)? {
            input.drain(..length);
            running.execute(*number, &words);
        }
    }
}

/// Writes to a client, until it leaves.
async fn write(running: Arc<Running>, number: u64, own: Arc<Notify>, mut stream: TcpStream) {
    loop {
        let Some(bytes) = lock(&running.redis).take_output(number) else { break };
        if bytes.is_empty() {
            own.notified().await;
        } else if stream.write_all(&bytes).await.is_err() {
            break;
        }
    }
    // Ends the reader too.
    let _ = stream.shutdown(std::net::Shutdown::Both).await;
}

impl Running {
    /// Executes a command, and wakes the writers of those that are to get something.
    fn execute(&self, client: u64, words: &[Vec<u8>]) {
        let mut redis = lock(&self.redis);
        redis.execute(client, words);
        let waiting: Vec<(u64, usize)> = redis.waiting().collect();
        for (number, bytes) in waiting {
            if bytes > self.most_output {
                redis.leave(number);
            }
            if let Some(writer) = lock(&self.writers).get(&number) {
                writer.notify_one();
            }
        }
    }
}

/// The words of the command at the beginning of `input`, and its length.
fn command(input: &[u8]) -> io::Result<Option<(Vec<Vec<u8>>, usize)>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let Some((frame, length)) = decode(input).map_err(|_| invalid())? else { return Ok(None) };
    let OwnedFrame::Array(words) = frame else { return Err(invalid()) };
    let words = words.into_iter().map(|word| match word {
        OwnedFrame::BulkString(word) => Ok(word),
        _ => Err(invalid()),
    });
    Ok(Some((words.collect::<io::Result<_>>()?, length)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
