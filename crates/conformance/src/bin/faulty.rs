//! A plain HTTP server on one thread with a fault of one's choice, which a lab must find.
//! `scripts/planted.py truths` lets `duality compare` look for each fault.
//!
//! ```text
//! faulty PORT [FAULT=VALUE]…        faulty 8080 wrong-every=10000
//! ```

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
use rustix::time::{ClockId, clock_gettime};

/// The faults, each 0 where it is not planted.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// Nanoseconds of processor time for each request.
    spin_ns: u64,
    /// The same for each open connection, so that many connections cost more.
    spin_each_ns: u64,
    /// The same for every second request, at random.
    spin_half_ns: u64,
    /// The same in the first seconds of the server.
    spin_cold_ns: u64,
    cold_s: u64,
    /// The same for each second that the server has lived.
    spin_drift_ns: u64,
    /// A byte of one reply in so many is wrong, from so many seconds on.
    wrong_every: u64,
    wrong_after_s: u64,
    /// One reply in so many is cut short, and the connection closed.
    cut_every: u64,
    /// One reply in so many says that it is shorter than it is.
    lie_every: u64,
    /// One reply in so many has the status 500.
    error_every: u64,
    /// The server stops for so many milliseconds every so many seconds.
    stop_ms: u64,
    stop_every_s: u64,
    /// One reply in so many is late by so many microseconds.
    late_us: u64,
    late_every: u64,
    /// Bytes that are never given back, for each request and at the start.
    leak: u64,
    hold: u64,
    /// The length of the accept queue; 4,096 if it is 0.
    backlog: u64,
    /// The server aborts, or answers no more, after so many requests.
    crash_after: u64,
    hang_after: u64,
}

impl Faults {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut faults = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').ok_or("write FAULT=VALUE")?;
            let value = value.parse().map_err(|_| format!("{value} is no number"))?;
            *faults.named(name).ok_or_else(|| format!("there is no fault {name}"))? = value;
        }
        Ok(faults)
    }

    fn named(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "spin-ns" => &mut self.spin_ns,
            "spin-each-ns" => &mut self.spin_each_ns,
            "spin-half-ns" => &mut self.spin_half_ns,
            "spin-cold-ns" => &mut self.spin_cold_ns,
            "cold-s" => &mut self.cold_s,
            "spin-drift-ns" => &mut self.spin_drift_ns,
            "wrong-every" => &mut self.wrong_every,
            "wrong-after-s" => &mut self.wrong_after_s,
            "cut-every" => &mut self.cut_every,
            "lie-every" => &mut self.lie_every,
            "error-every" => &mut self.error_every,
            "stop-ms" => &mut self.stop_ms,
            "stop-every-s" => &mut self.stop_every_s,
            "late-us" => &mut self.late_us,
            "late-every" => &mut self.late_every,
            "leak" => &mut self.leak,
            "hold" => &mut self.hold,
            "backlog" => &mut self.backlog,
            "crash-after" => &mut self.crash_after,
            "hang-after" => &mut self.hang_after,
            _ => return None,
        })
    }
}

/// A server, and what it has done so far.
struct Server {
    faults: Faults,
    begun: Instant,
    stopped: Instant,
    requests: u64,
    connections: HashMap<u64, (TcpStream, Vec<u8>)>,
    leaked: Vec<Vec<u8>>,
    dice: u64,
}

const BODY: &str = "<!doctype html><title>planted</title><p>The same page for each request.";

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let faults = Faults::parse(arguments).map_err(io::Error::other)?;
    let listener = listener(port, if faults.backlog == 0 { 4096 } else { faults.backlog as i32 })?;
    let now = Instant::now();
    let mut server = Server {
        faults,
        begun: now,
        stopped: now,
        requests: 0,
        connections: HashMap::new(),
        leaked: vec![vec![1; faults.hold as usize]],
        dice: 1,
    };
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in &events {
            match event.data.u64() {
                u64::MAX => server.accept(&listener, poll.as_fd())?,
                name => server.serve(name),
            }
        }
    }
}

fn listener(port: u16, backlog: i32) -> io::Result<TcpListener> {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&made, true)?;
    bind(&made, &std::net::SocketAddr::from(([127, 0, 0, 1], port)))?;
    listen(&made, backlog)?;
    let listener = TcpListener::from(made);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Server {
    fn accept(
        &mut self,
        listener: &TcpListener,
        poll: std::os::fd::BorrowedFd<'_>,
    ) -> io::Result<()> {
        // One connection a round: a short queue then overflows, as it does in a busy server.
        let Ok((stream, _)) = listener.accept() else { return Ok(()) };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let name = stream.as_raw_fd() as u64;
        epoll::add(poll, &stream, epoll::EventData::new_u64(name), epoll::EventFlags::IN)?;
        self.connections.insert(name, (stream, Vec::new()));
        Ok(())
    }

    fn serve(&mut self, name: u64) {
        let Some((mut stream, mut bytes)) = self.connections.remove(&name) else { return };
        let mut piece = [0; 8192];
        let is_open = match stream.read(&mut piece) {
            Ok(0) => false,
            Ok(count) => {
                bytes.extend(&piece[..count]);
                self.answer_all(&mut stream, &mut bytes)
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if is_open {
            self.connections.insert(name, (stream, bytes));
        }
    }

    /// Answers the whole requests among the bytes. Returns whether the connection stays.
    fn answer_all(&mut self, stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
        while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            bytes.drain(..end + 4);
            let Some((reply, is_whole)) = self.answer() else { return true };
            let is_sent = stream.write_all(&reply).is_ok();
            if !is_sent || !is_whole || head.contains("connection: close") {
                return false;
            }
        }
        bytes.len() < 8192
    }

    /// The reply, and whether it is whole. `None` if there is none.
    fn answer(&mut self) -> Option<(Vec<u8>, bool)> {
        let faults = self.faults;
        self.requests += 1;
        let number = self.requests;
        let every = |period: u64| period > 0 && number.is_multiple_of(period);
        if faults.crash_after > 0 && number >= faults.crash_after {
            std::process::abort();
        }
        if faults.hang_after > 0 && number >= faults.hang_after {
            return None;
        }
        self.take_time(every(faults.late_every));
        if faults.leak > 0 {
            self.leaked.push(vec![1; faults.leak as usize]);
        }
        let status = if every(faults.error_every) { "500 Oops" } else { "200 OK" };
        let length = BODY.len() - if every(faults.lie_every) { 3 } else { 0 };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut reply = [head.as_bytes(), BODY.as_bytes()].concat();
        let is_late_enough = self.begun.elapsed() >= Duration::from_secs(faults.wrong_after_s);
        if every(faults.wrong_every) && is_late_enough {
            let last = reply.len() - 5;
            reply[last] ^= 1;
        }
        let is_cut = every(faults.cut_every);
        reply.truncate(reply.len() - if is_cut { 10 } else { 0 });
        Some((reply, !is_cut))
    }

    /// Spends the processor time and the time that the faults ask for.
    fn take_time(&mut self, is_late: bool) {
        let faults = self.faults;
        let age = self.begun.elapsed();
        // Xorshift (Marsaglia 2003).
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let mut spin = faults.spin_ns + faults.spin_each_ns * self.connections.len() as u64;
        spin += if self.dice & 1 == 1 { faults.spin_half_ns } else { 0 };
        spin += if age.as_secs() < faults.cold_s { faults.spin_cold_ns } else { 0 };
        spin += (faults.spin_drift_ns as f64 * age.as_secs_f64()) as u64;
        let until = processor_time() + Duration::from_nanos(spin);
        while spin > 0 && processor_time() < until {}
        if is_late {
            std::thread::sleep(Duration::from_micros(faults.late_us));
        }
        let period = Duration::from_secs(faults.stop_every_s);
        if !period.is_zero() && self.stopped.elapsed() >= period {
            std::thread::sleep(Duration::from_millis(faults.stop_ms));
            self.stopped = Instant::now();
        }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
