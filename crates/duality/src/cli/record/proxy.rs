//! A proxy that notes when bytes pass, and stores none of them.
//!
//! ```text
//!   client ◀───▶ task: client to server ───▶ server        both tasks of a connection note in
//!          ◀──── task: server to client ◀───▶              one recorder, on one kernel thread
//! ```
//!
//! A task reads only after its earlier bytes have been written. So a slow end slows the other end,
//! as without a proxy.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::{Input, ListenOptions, TcpListener, TcpStream};
use duality_runtime::{log, task, time};
use duality_trace::recorder::Recorder;

use crate::cli::serve::{cannot_listen, take_all_descriptors};
use crate::cli::{Failure, Party};

/// The most bytes of a direction that the other end has not taken.
const BUFFER: usize = 1 << 16;
/// The interval between checks for the end of the recording.
const TICK: Duration = Duration::from_millis(50);
/// The time for which a proxy without descriptors accepts no connections.
const PAUSE: Duration = Duration::from_millis(100);

/// Microseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The state that all connections share.
struct Shared {
    recorder: Mutex<Recorder>,
    /// Connections that found no server.
    failed: AtomicU64,
}

/// A connection. When both directions have ended, the recorder notes the end of the connection.
struct Connection {
    number: u64,
    shared: Arc<Shared>,
    /// The time at which the first direction ended, or 0.
    ended: AtomicU64,
}

/// The direction of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// Passes connections on until `interrupted` or for `duration`. Returns the recorder, and the
/// number of connections that found no server.
pub(super) fn run(
    listen: SocketAddr,
    to: SocketAddr,
    duration: Option<Duration>,
    recorder: Recorder,
    interrupted: Arc<AtomicBool>,
) -> Result<(Recorder, u64), Failure> {
    let unable =
        |error: io::Error| Failure::new(Party::Machine, format!("cannot start the proxy: {error}"));
    take_all_descriptors();
    let opened = Kind::Epoll.open().and_then(|poller| EventLoop::new(poller, LoopWorld::Suspend));
    let listener = TcpListener::bind(listen, &ListenOptions::default())
        .map_err(|error| cannot_listen(listen, &error))?;
    let address = listener.local_addr().map_err(unable)?;
    log::tell(format_args!("recording on {address}, for the server at {to}; Ctrl-C ends it"));
    let recorder = Mutex::new(recorder);
    let shared = Arc::new(Shared { recorder, failed: AtomicU64::new(0) });
    let mut event_loop = opened.map_err(unable)?;
    let accepting = accept(listener, to, shared.clone());
    let all = shared.clone();
    event_loop
        .run(async move {
            // The loop drops this task at the end.
            let _acceptor = task::spawn(accepting)?;
            let end = duration.and_then(|duration| Instant::now().checked_add(duration));
            let is_over = || {
                interrupted.load(Ordering::Relaxed)
                    || end.is_some_and(|end| Instant::now() >= end)
                    || all.recorder().is_full()
            };
            while !is_over() {
                time::sleep(TICK).await;
            }
            Ok(())
        })
        .map_err(unable)?;
    let failed = shared.failed.load(Ordering::Relaxed);
    // The tasks that shared it ended with the loop.
    let recorder = std::mem::replace(&mut *shared.recorder(), Recorder::new(0));
    Ok((recorder, failed))
}

/// Accepts connections, each with two tasks.
async fn accept(mut listener: TcpListener, to: SocketAddr, shared: Arc<Shared>) {
    let mut has_told = false;
    loop {
        let begun = match listener.accept().await {
            Ok((client, _)) => begin(client, to, shared.clone()),
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            if !std::mem::replace(&mut has_told, true) {
                log::tell(format_args!("a connection is not accepted: {error}; raise ulimit -n"));
            }
            time::sleep(PAUSE).await;
        }
    }
}

/// Starts the tasks of a connection.
fn begin(client: TcpStream, to: SocketAddr, shared: Arc<Shared>) -> io::Result<()> {
    task::spawn(async move {
        // A client that finds no server sees the end of its connection.
        let Ok(server) = TcpStream::connect(to).await else {
            shared.failed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let number = shared.recorder().open();
        let connection = Arc::new(Connection { number, shared, ended: AtomicU64::new(0) });
        if let Err(error) = connection.clone().start(client, server).await {
            log::tell(format_args!("a connection ends early: {error}; raise ulimit -n"));
        }
    })
    .map(drop)
}

impl Shared {
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Passes bytes on in both directions, and runs one of them in this task.
    async fn start(
        self: Arc<Self>,
        mut client: TcpStream,
        mut server: TcpStream,
    ) -> io::Result<()> {
        let (to_client, from_server) = (client.try_clone()?, server.try_clone()?);
        let back = self.clone();
        task::spawn(async move {
            back.pass(from_server, to_client, Direction::ToClient).await;
        })?;
        self.pass(client, server, Direction::ToServer).await;
        Ok(())
    }

    /// Passes bytes on in one direction until its end. Passes the end on too.
    async fn pass(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
        let mut input = Input::new(BUFFER);
        let ended = loop {
            match from.fill(&mut input).await {
                Ok(0) => break to.shutdown(Shutdown::Write).await,
                Ok(count) => {
                    if direction == Direction::ToServer {
                        self.shared.recorder().client(self.number, now(), count);
                    }
                    if let Err(error) = to.write_all(input.unused()).await {
                        break Err(error);
                    }
                    if direction == Direction::ToClient {
                        self.shared.recorder().server(self.number, now(), count);
                    }
                    input.consume(count);
                }
                Err(error) => break Err(error),
            }
        };
        if ended.is_err() {
            // One end is gone, so the other task ends.
            let _ = from.shutdown(Shutdown::Both).await;
            let _ = to.shutdown(Shutdown::Both).await;
        }
        let time = now();
        let first = self.ended.swap(time as u64, Ordering::Relaxed);
        if first > 0 {
            self.shared.recorder().close(self.number, first as i64);
        }
    }
}
