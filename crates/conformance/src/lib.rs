//! Servers for the tests of this crate, and [`soak`]. Processes and sockets are real, and all waits
//! are bounded.

#![forbid(unsafe_code)]

#[path = "../../runtime/tests/all/kept_port/mod.rs"]
mod kept_port;
pub mod mid_load;
pub mod programs;
mod redis;
pub mod soak;

pub use duality_architectures as architectures;
pub use kept_port::KeptPort;
pub use redis::Redis;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use duality_architectures::{Architecture, Options};
use duality_lab::record::{Cell, Measured, Obstacle, Outcome};
use rustix::process::{Pid, Signal, kill_process};

/// The time after which a wait has failed. Everything that works takes less. Beside `sync(2)` in a
/// loop, a Redis that writes through takes more than 20 seconds to start.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// A server process. Dropping it kills the process.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts `command` and waits until the server prints its address.
    ///
    /// # Panics
    ///
    /// Panics if the server prints no address.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("the server listens");
        Self { address: address.parse().unwrap(), child }
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process identifier of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a connection. Each wait on it lasts at most [`PATIENCE`].
    ///
    /// # Panics
    ///
    /// Panics if the server does not accept the connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends `request`, ends the sending side, and returns all bytes up to the end.
    ///
    /// # Panics
    ///
    /// Panics if the connection breaks.
    pub fn ask(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        reply
    }

    /// Opens a connection for whole lines.
    ///
    /// # Panics
    ///
    /// Panics if the server does not accept the connection.
    pub fn talk(&self) -> Conversation {
        Conversation { stream: BufReader::new(self.connect()) }
    }

    /// Sends a signal to the server.
    ///
    /// # Panics
    ///
    /// Panics if the process is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether the process has ended. Does not wait.
    ///
    /// # Panics
    ///
    /// Panics if the state of the process is unknown.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The server's complaints on standard error from now on. [`wait`](Self::wait) then returns no
    /// complaints.
    ///
    /// # Panics
    ///
    /// Panics on a second call.
    pub fn complaints(&mut self) -> Complaints {
        let errors = BufReader::new(self.child.stderr.take().expect("asked for once"));
        let (line, lines) = channel();
        // The thread ends with the server, or with the test.
        thread::spawn(move || {
            let mut texts = errors.lines().map_while(Result::ok).filter(|text| is_complaint(text));
            texts.try_for_each(|text| line.send(text))
        });
        Complaints { lines }
    }

    /// Waits for the process to end. Returns its status, and its complaints on standard error.
    ///
    /// # Panics
    ///
    /// Panics if the process does not end.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = eventually("the server ends", || self.child.try_wait().unwrap());
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut said).unwrap();
        }
        (status, said.split_inclusive('\n').filter(|line| is_complaint(line)).collect())
    }
}

/// Whether a line reports a problem of the server. The line about a machine without io_uring, on
/// which user-level threads use epoll, is no complaint: another test covers that line.
fn is_complaint(line: &str) -> bool {
    !line.starts_with("uthreads on epoll: the kernel refuses uring")
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a server writes to standard error.
pub struct Complaints {
    lines: Receiver<String>,
}

impl Complaints {
    /// The next line.
    ///
    /// # Panics
    ///
    /// Panics if no line comes within [`PATIENCE`]. The message names `what` was expected.
    pub fn next(&self, what: &str) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// The remaining lines of a server that has ended.
    pub fn rest(self) -> impl Iterator<Item = String> {
        self.lines.into_iter()
    }
}

/// A connection that carries lines.
pub struct Conversation {
    stream: BufReader<TcpStream>,
}

impl Conversation {
    /// Sends `text` as it is.
    ///
    /// # Panics
    ///
    /// Panics if the connection breaks.
    pub fn say(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The next line, without its end. Empty at the end of the connection.
    ///
    /// # Panics
    ///
    /// Panics if the connection breaks, or if no line comes within [`PATIENCE`].
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    /// Ends the sending side.
    ///
    /// # Panics
    ///
    /// Panics if the connection has broken.
    pub fn finish(&mut self) {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Sends a line and returns the line that comes back.
    ///
    /// # Panics
    ///
    /// Panics where [`say`](Self::say) and [`hear`](Self::hear) do.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(&format!("{line}\n"));
        self.hear()
    }
}

/// Calls `look` again and again until it returns a value, for at most [`PATIENCE`].
///
/// # Panics
///
/// Panics if `look` returns no value in that time.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        thread::yield_now();
    }
}

/// The lines of a load's standard error that are about the server. The result leaves out the
/// warnings of a load that is too short for figures on a busy machine.
pub fn complaints_of_load(said: &str) -> Vec<&str> {
    let is_busy = |line: &&str| {
        line.contains("the figures are invalid")
            || line.contains("requests that were due were answered")
            || line.contains("requests of the piece were answered")
    };
    said.lines().filter(|line| !is_busy(line)).collect()
}

/// The figures of a cell. `None`, and a line about the skip, if its window had no reply because the
/// machine was busy. The time of a window must decide no test.
///
/// # Panics
///
/// Panics if the cell has no figures for another reason.
pub fn figures(cell: &Cell) -> Option<&Measured> {
    match &cell.outcome {
        Outcome::Measured(figures) => return Some(figures),
        Outcome::Unavailable { reason, obstacle: Obstacle::Silence } => {
            skip(format_args!("{} at {}: {reason}", cell.subject, cell.concurrency));
        }
        other => panic!("{} at {}: {other:?}", cell.subject, cell.concurrency),
    }
    None
}

/// Reports that a test is skipped here, with the reason, past the captured output. `cargo xtask
/// test` counts these lines.
pub fn skip(reason: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Whether this machine can run a server of these arguments. If it cannot, the test of this server
/// is skipped. The reason is printed once for all tests of a program, past their captured output.
///
/// # Panics
///
/// Panics if the architecture is unknown.
pub fn runs_here(architecture: &[&str]) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Some(reason) = lack(architecture) else { return true };
    if SAID.lock().unwrap().insert(reason.clone()) {
        let name = architecture[0];
        skip(format_args!("{name} and the like: {reason}"));
    }
    false
}

/// The names of the architectures for which `are_such` holds, in the order of their registry.
/// Leaves out the architectures that this machine cannot run ([`runs_here`]).
pub fn architectures_that(are_such: impl Fn(&dyn Architecture) -> bool) -> Vec<&'static str> {
    let such = duality_architectures::ALL.iter().filter(|architecture| are_such(**architecture));
    such.map(|architecture| architecture.name()).filter(|name| runs_here(&[name])).collect()
}

/// The reason why this machine cannot run a server of these arguments, if there is one.
///
/// # Panics
///
/// Panics if the architecture is unknown.
pub fn lack(architecture: &[&str]) -> Option<String> {
    let (name, flags) = architecture.split_first().expect("an architecture has a name");
    let mut options = Options::default();
    if let Some(poller) = flags.iter().find_map(|flag| flag.strip_prefix("--poller=")) {
        options.poller = Some(poller.parse().expect("it is a poller"));
    }
    architecture_called(name).unavailable(&options)
}

/// The architecture of this name.
///
/// # Panics
///
/// Panics if there is no such architecture.
pub fn architecture_called(name: &str) -> &'static dyn Architecture {
    duality_architectures::find(name).expect("it is an architecture")
}

/// Calls a macro with the name of a module and the arguments of `serve`. Does so for each
/// architecture of the registry, and for variants that differ in more than a number. Use it for
/// services that are also written by hand.
#[macro_export]
macro_rules! for_every_architecture {
    ($body:ident) => {
        $crate::for_every_architecture_of_straight_line_code!($body);
        $crate::architectures::for_each_by_hand!($body);
        $body! { handwritten_two_cores ["handwritten", "--cores=2"] }
    };
}

/// Like `for_every_architecture`, for each architecture that carries services of straight-line
/// code. All services are such code.
#[macro_export]
macro_rules! for_every_architecture_of_straight_line_code {
    ($body:ident) => {
        $crate::architectures::for_each_of_straight_line_code!($body);
        $body! { prefork_of_eight ["prefork", "--workers=8"] }
        $body! { pool_accept ["pool", "--workers=8", "--hand-over=accept"] }
        $body! { pool_of_eight ["pool", "--workers=8", "--hand-over=list"] }
        $body! { pool_without_accept_queue ["pool", "--workers=8", "--accept-queue=0"] }
        $body! { uthreads_without_accept_queue ["uthreads", "--accept-queue=0", "--disk-helpers=1"] }
        $body! { uthreads_two_cores ["uthreads", "--cores=2"] }
        $body! { uthreads_on_epoll ["uthreads", "--poller=epoll"] }
        $body! { epoll_two_cores ["epoll", "--cores=2"] }
        $body! { epoll_prefers_accept ["epoll", "--prefer=accept", "--disk=inline", "--busy-poll=100us"] }
        $body! { gcd_serial ["gcd", "--gcd-queues=serial"] }
        $body! { workpool_that_admits_few ["workpool-fifo", "--workers=64", "--admit=64"] }
        $body! { uring_without_accept_queue ["uring", "--accept-queue=0"] }
        $body! { uring_two_cores ["uring", "--cores=2"] }
    };
}
