//! A network in memory: TCP's order, ends, resets, refusals and back-pressure, with latencies,
//! partitions, and packets that are sent again.
//!
//! ```text
//!   send ─▶ wire of the peer's end: packets in order ─ latency ─▶ received ─▶ receive
//!              └─ cut off, or the host is down: again after 0.2 s, 0.4 s, … ─▶ ETIMEDOUT
//! ```
//!
//! Nothing here depends on addresses of memory, on numbers of descriptors or on the order of a hash
//! table. Sockets are walked in the order in which they were made.

mod calls;
pub(crate) mod clock;
mod connection;
mod datagrams;
mod disk;
mod groups;
mod links;
mod readiness;
pub(crate) mod story;
mod unix;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;

use duality_poller::{Direction, Token};

use self::clock::Clock;
use self::connection::Connection;
use self::datagrams::{Datagrams, Flying};
use self::disk::Disk;
use self::links::Links;
pub(crate) use self::story::Story;
use self::unix::{Name, Unix};
use crate::decisions::{Decisions, Kind};
use crate::faults::{Counts, Faults, Profile, Threading};

/// Noon of 1 January 2030: the time of day at which simulations begin, in nanoseconds since 1970.
pub(crate) const EPOCH: u64 = 1_893_499_200_000_000_000;

/// The first port that the kernel gives out.
const FIRST_PORT: u16 = 40_000;

/// An error of a system call.
fn refused(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// A socket of a host.
struct Socket {
    host: usize,
    files: Vec<File>,
    kind: SocketKind,
}

enum SocketKind {
    Listener(Listener),
    Connection(Connection),
    Datagrams(Datagrams),
    Unix(Unix),
}

struct Listener {
    address: SocketAddr,
    /// Only the host itself reaches it: a listener at a loopback address.
    is_local: bool,
    backlog: usize,
    queue: VecDeque<u64>,
    /// Whether shutdown(2) has ended it: once its queue is empty, accept(2) fails.
    is_shut: bool,
}

/// A descriptor of a socket, and the tokens that wait for it.
struct File {
    descriptor: RawFd,
    /// For each direction: what waits, once at most in each queue of events.
    armed: [Vec<Armed>; 2],
}

/// What waits for a direction of a descriptor: a token in a queue of events.
#[derive(Clone, Copy)]
struct Armed {
    queue: usize,
    token: Token,
    is_due: bool,
    /// Whether it goes on waiting after an event.
    is_edge: bool,
}

/// The state of a host that the network knows.
pub(crate) struct HostState {
    pub(crate) name: String,
    pub(crate) is_up: bool,
    /// The limit of descriptors.
    pub(crate) most_files: usize,
    pub(crate) files: usize,
    pub(crate) clock: Clock,
    next_port: u16,
    /// Its queues of events that its loops have not been told of. The first one is that of a host
    /// which is a loop.
    due: Vec<VecDeque<(Token, Direction, RawFd)>>,
}

/// See the [module](self).
pub(crate) struct Network {
    /// Nanoseconds since the beginning.
    pub(crate) now: u64,
    pub(crate) decisions: Decisions,
    pub(crate) profile: Profile,
    pub(crate) hosts: Vec<HostState>,
    pub(crate) counts: Counts,
    pub(crate) story: Story,
    /// How often a task was chosen by priority.
    pub(crate) choices: u64,
    sockets: BTreeMap<u64, Socket>,
    listeners: BTreeMap<SocketAddr, u64>,
    /// The sockets for datagrams.
    bound: BTreeMap<SocketAddr, u64>,
    flying: Flying,
    /// The Unix sockets that a host has given a name.
    unix_names: BTreeMap<(usize, Name), u64>,
    /// Only looked up, never walked.
    files: HashMap<RawFd, u64>,
    /// When a wire's first packet arrives: the time, an order among equals, the socket.
    arrivals: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// When a peer that takes nothing is looked at: the time, the socket.
    looks: BinaryHeap<Reverse<(u64, u64)>>,
    /// The ends of cuts: from a host to another one.
    cuts: BTreeMap<(usize, usize), u64>,
    links: Links,
    /// Until when the link from a host to another one is busy.
    busy: BTreeMap<(usize, usize), u64>,
    next_socket: u64,
    next_arrival: u64,
    disks: Vec<Disk>,
    /// How kernel threads of hosts run, once there are any.
    threading: Option<Threading>,
    /// Whether a program has told of a sync since the last look.
    has_seen_sync: bool,
}

/// The address of a host.
pub(crate) fn address_of(host: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, (host / 250) as u8, (host % 250) as u8 + 1))
}

impl Network {
    pub(crate) fn new(mut decisions: Decisions, faults: Faults, story: Story) -> Self {
        let profile = Profile::drawn(faults, &mut decisions);
        let mut network = Self {
            now: 0,
            decisions,
            profile,
            hosts: Vec::new(),
            counts: Counts::default(),
            story,
            choices: 0,
            sockets: BTreeMap::new(),
            listeners: BTreeMap::new(),
            bound: BTreeMap::new(),
            flying: Flying::new(),
            unix_names: BTreeMap::new(),
            files: HashMap::new(),
            arrivals: BinaryHeap::new(),
            looks: BinaryHeap::new(),
            cuts: BTreeMap::new(),
            links: Links::default(),
            busy: BTreeMap::new(),
            next_socket: 0,
            next_arrival: 0,
            disks: Vec::new(),
            threading: None,
            has_seen_sync: false,
        };
        network.tell(|_| format!("this seed: {profile:?}"));
        network
    }

    /// Draws a decision. One that is not tame is told.
    pub(crate) fn draw(&mut self, kind: Kind, bound: u64) -> u64 {
        let index = self.decisions.count();
        let drawn = self.decisions.draw(kind, bound);
        if drawn > 0 {
            self.story
                .decided(self.now, || format!("decision {index}: {kind} ({drawn} of {bound})"));
        }
        drawn
    }

    pub(crate) fn happens(&mut self, kind: Kind, per_thousand: u64) -> bool {
        self.decisions.happens(kind, per_thousand)
    }

    /// How kernel threads run in this seed: drawn when the first one starts, so that seeds without
    /// threads stay what they are.
    pub(crate) fn threading(&mut self) -> Threading {
        if let Some(threading) = self.threading {
            return threading;
        }
        let threading = Threading::drawn(&mut self.decisions);
        self.tell(|_| format!("threads: {threading:?}"));
        *self.threading.insert(threading)
    }

    /// Adds a line to the story.
    pub(crate) fn tell(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.story.is_told() {
            let line = line(self);
            self.story.add(self.now, line);
        }
    }

    // Hosts.

    pub(crate) fn add_host(&mut self, name: &str) -> usize {
        self.hosts.push(HostState {
            name: name.into(),
            is_up: true,
            most_files: 1024,
            files: 0,
            clock: Clock::default(),
            next_port: FIRST_PORT,
            due: vec![VecDeque::new()],
        });
        self.hosts.len() - 1
    }

    pub(crate) fn host_named(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    pub(crate) fn name(&self, host: usize) -> &str {
        &self.hosts[host].name
    }

    /// The clock of a host: its speed is that of the machine, and each start sets its time of day.
    fn set_clock(&mut self, host: usize, is_first: bool) {
        let Profile { skew, drift, .. } = self.profile;
        let clock = self.hosts[host].clock;
        let drift = if is_first { self.draw_around(drift) } else { clock.drift };
        let skew = self.draw_around(skew);
        self.hosts[host].clock = Clock { skew, drift };
        if drift != 0 || skew != 0 {
            self.counts.wrong_clocks += 1;
            let day = skew as f64 / 1e9;
            self.tell(|net| {
                let name = net.name(host);
                format!("! the clock of {name} is wrong by {day:+.3} s, and by {drift:+} µs each s")
            });
        }
    }

    /// A number from `-most` to `most`. The tame one is 0.
    fn draw_around(&mut self, most: u64) -> i64 {
        let drawn = self.draw(Kind::Clock, 2 * most + u64::from(most > 0)) as i64;
        if drawn % 2 == 1 { drawn / 2 + 1 } else { -(drawn / 2) }
    }

    /// The connections and listeners that a host has open.
    pub(crate) fn open_files(&self, host: usize) -> usize {
        self.hosts[host].files
    }

    /// The descriptors of connections that a host has open.
    pub(crate) fn open_connections(&self, host: usize) -> usize {
        let own = self.sockets.values().filter(|socket| socket.host == host);
        let own = own.filter(|socket| matches!(socket.kind, SocketKind::Connection(_)));
        own.map(|socket| socket.files.len()).sum()
    }

    /// Has packets from one host to another one lost until then.
    pub(crate) fn cut(&mut self, from: usize, to: usize, until: u64) {
        self.counts.partitions += 1;
        self.decisions.note(until ^ ((from as u64) << 40) ^ ((to as u64) << 50));
        self.tell(|net| format!("✂ {} cannot reach {}", net.name(from), net.name(to)));
        self.cuts.insert((from, to), until);
    }

    /// Ends all cuts, and releases all packets that are held.
    pub(crate) fn heal(&mut self) {
        self.release_all();
        if !self.cuts.is_empty() {
            self.tell(|_| "all partitions end".to_owned());
            self.cuts.clear();
        }
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until| self.now < *until)
    }

    /// The liveness phase: faults end.
    pub(crate) fn calm(&mut self) {
        self.profile = self.profile.calm();
        self.heal();
        self.tell(|_| "faults have ended".to_owned());
    }

    /// A host loses its power: all its sockets are gone, without a word to their peers.
    pub(crate) fn crash(&mut self, host: usize) {
        self.counts.crashes += 1;
        self.decisions.note(0xDEAD ^ host as u64);
        self.tell(|net| format!("☠ {} crashes", net.name(host)));
        self.hosts[host].is_up = false;
        self.stop(host);
    }

    /// Takes a host's sockets, before its tasks are dropped. What their destructors send is lost.
    pub(crate) fn stop(&mut self, host: usize) {
        let own = self.sockets.iter().filter(|(_, socket)| socket.host == host);
        let own: Vec<u64> = own.map(|(number, _)| *number).collect();
        for number in own {
            self.lose(number);
        }
        self.hosts[host].due = vec![VecDeque::new()];
        self.hosts[host].files = 0;
    }

    /// A program has ended: the kernel closes what is left, such as sockets in static variables.
    pub(crate) fn exit(&mut self, host: usize) {
        let own = self.sockets.values().filter(|socket| socket.host == host);
        let files = own.flat_map(|socket| &socket.files).map(|file| file.descriptor);
        let left: Vec<RawFd> = files.collect();
        left.into_iter().for_each(|descriptor| self.closed(descriptor));
        self.hosts[host].due = vec![VecDeque::new()];
    }

    pub(crate) fn start(&mut self, host: usize, is_first: bool) {
        self.hosts[host].is_up = true;
        self.decisions.note(0xBEE ^ host as u64);
        let word = if is_first { "starts" } else { "starts again" };
        self.tell(|net| format!("{} {word}", net.name(host)));
        // The test's own clock is right.
        if host > 0 {
            self.set_clock(host, is_first);
        }
    }

    // Sockets.

    fn insert(&mut self, host: usize, kind: SocketKind) -> u64 {
        self.next_socket += 1;
        self.sockets.insert(self.next_socket, Socket { host, files: Vec::new(), kind });
        self.next_socket
    }

    fn take_port(&mut self, host: usize) -> u16 {
        // Ports come round, as those of a kernel do.
        let port = self.hosts[host].next_port;
        self.hosts[host].next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        port
    }

    fn connection(&self, number: u64) -> Option<&Connection> {
        match &self.sockets.get(&number)?.kind {
            SocketKind::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    fn connection_mut(&mut self, number: u64) -> Option<&mut Connection> {
        match &mut self.sockets.get_mut(&number)?.kind {
            SocketKind::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    fn listener_mut(&mut self, number: u64) -> Option<&mut Listener> {
        match &mut self.sockets.get_mut(&number)?.kind {
            SocketKind::Listener(listener) => Some(listener),
            _ => None,
        }
    }
}
