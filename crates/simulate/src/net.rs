//! What a test does with its simulation: hosts, partitions, crashes, drains.

use std::fmt;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::decisions::Kind;
use crate::faults::{Faults, nanoseconds};
use crate::machine::lock;
use crate::network::address_of;
use crate::shared::{Main, Order, Shared, Waits};
use crate::violation::Violation;

/// How the main of a host ends: with nothing, or with a result.
pub trait Ending {
    /// The failure in words.
    ///
    /// # Errors
    ///
    /// If it is one.
    fn into_result(self) -> Result<(), Violation>;
}

impl Ending for () {
    fn into_result(self) -> Result<(), Violation> {
        Ok(())
    }
}

impl<T, E: fmt::Display> Ending for Result<T, E> {
    fn into_result(self) -> Result<(), Violation> {
        self.map(drop).map_err(|error| error.to_string().into())
    }
}

/// The simulation, for its test. Clones are handles to the same one.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Shared>,
}

impl fmt::Debug for Net {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Net {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a host, which runs `main`: its code as it ships. After a restart, it runs `main` again.
    ///
    /// # Panics
    ///
    /// If there is a host of this name.
    pub fn host<F>(&self, name: &str, main: impl Fn() -> F + Send + Sync + 'static) -> Host
    where
        F: Future<Output: Ending> + 'static,
    {
        self.add(name, self.shared.waits, false, main)
    }

    /// Adds a host with a test's own code, such as a client. Its tasks are state machines, whatever
    /// those of other hosts are.
    ///
    /// # Panics
    ///
    /// If there is a host of this name.
    pub fn client<F>(&self, name: &str, main: impl Fn() -> F + Send + Sync + 'static) -> Host
    where
        F: Future<Output: Ending> + 'static,
    {
        self.add(name, Waits::Suspend, false, main)
    }

    /// As [`host`](Self::host), for code that may panic: a panic ends its task, and is no failure.
    ///
    /// # Panics
    ///
    /// If there is a host of this name.
    pub fn host_that_may_panic<F>(
        &self,
        name: &str,
        main: impl Fn() -> F + Send + Sync + 'static,
    ) -> Host
    where
        F: Future<Output: Ending> + 'static,
    {
        self.add(name, self.shared.waits, true, main)
    }

    fn add<F>(
        &self,
        name: &str,
        waits: Waits,
        may_panic: bool,
        main: impl Fn() -> F + Send + Sync + 'static,
    ) -> Host
    where
        F: Future<Output: Ending> + 'static,
    {
        let main = Main::Task(Arc::new(move || {
            let running = main();
            Box::pin(async move { running.await.into_result() })
        }));
        self.add_main(name, waits, may_panic, main)
    }

    /// Adds a host that is a program of kernel threads. `main` runs on the first one, and waits in
    /// place. It starts others by the runtime's `task::thread`, as an architecture does. The seed
    /// decides which thread goes on. After a restart, it runs `main` again.
    ///
    /// # Panics
    ///
    /// If there is a host of this name.
    pub fn program<E: Ending>(
        &self,
        name: &str,
        main: impl Fn() -> E + Send + Sync + 'static,
    ) -> Host {
        let main = Main::Thread(Arc::new(move || main().into_result()));
        self.add_main(name, Waits::Suspend, false, main)
    }

    fn add_main(&self, name: &str, waits: Waits, may_panic: bool, main: Main) -> Host {
        let index = {
            let mut net = lock(&self.shared.network);
            assert!(
                net.host_named(name).is_none(),
                "there is a host {name:?}: choose another name"
            );
            net.add_host(name)
        };
        self.shared.order(Order::Start { host: index, main, waits, may_panic });
        Host { shared: self.shared.clone(), index }
    }

    fn index(&self, name: &str) -> usize {
        let found = lock(&self.shared.network).host_named(name);
        found.unwrap_or_else(|| panic!("no host is called {name:?}: add it with Net::host"))
    }

    /// A host that was added before.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn named(&self, name: &str) -> Host {
        Host { shared: self.shared.clone(), index: self.index(name) }
    }

    /// Cuts two hosts off from each other. Packets between them are lost, and sent again.
    #[must_use = "a partition has a length: for_(…), or until_healed()"]
    pub fn partition(&self, one: &str, other: &str) -> Partition<'_> {
        let (one, other) = (self.index(one), self.index(other));
        Partition { net: self, ways: vec![(one, other), (other, one)] }
    }

    /// Cuts one direction: packets of `from` do not reach `to`.
    #[must_use = "a partition has a length: for_(…), or until_healed()"]
    pub fn partition_one_way(&self, from: &str, to: &str) -> Partition<'_> {
        Partition { net: self, ways: vec![(self.index(from), self.index(to))] }
    }

    /// Holds all packets between two hosts, those on their way included, until
    /// [`release`](Self::release). No packet is lost or sent again, and no kernel gives up.
    pub fn hold(&self, one: &str, other: &str) {
        self.hold_one_way(one, other);
        self.hold_one_way(other, one);
    }

    /// Holds the packets of one direction.
    pub fn hold_one_way(&self, from: &str, to: &str) {
        let (from, to) = (self.index(from), self.index(to));
        lock(&self.shared.network).hold(from, to);
    }

    /// Has all packets arrive that are held between two hosts.
    pub fn release(&self, one: &str, other: &str) {
        let (one, other) = (self.index(one), self.index(other));
        let mut net = lock(&self.shared.network);
        net.release(one, other);
        net.release(other, one);
    }

    /// Sets the latency of packets between two hosts, from the least to the most. It also holds in
    /// the liveness phase.
    ///
    /// # Panics
    ///
    /// If the most is below the least.
    pub fn set_latency(&self, one: &str, other: &str, range: RangeInclusive<Duration>) {
        assert!(!range.is_empty(), "the most latency is below the least: swap them");
        let latency = (nanoseconds(*range.start()), nanoseconds(*range.end()));
        let (one, other) = (self.index(one), self.index(other));
        let mut net = lock(&self.shared.network);
        net.set_latency(one, other, latency);
        net.set_latency(other, one, latency);
    }

    /// Ends all partitions, and releases all packets that are held.
    pub fn heal(&self) {
        lock(&self.shared.network).heal();
    }

    /// Begins the liveness phase: faults end, as with [`heal`](Self::heal). From now on, everything
    /// must recover.
    pub fn calm(&self) {
        lock(&self.shared.network).calm();
    }

    /// The faults that the simulation may have.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.shared.faults
    }

    /// A number below `bound`, which the seed decides. 0 must be the tame choice.
    #[must_use]
    pub fn draw(&self, bound: u64) -> u64 {
        lock(&self.shared.network).draw(Kind::Test, bound)
    }

    /// A duration below `most`, which the seed decides.
    #[must_use]
    pub fn draw_time(&self, most: Duration) -> Duration {
        Duration::from_nanos(self.draw(nanoseconds(most)))
    }

    /// Whether something with this chance in a hundred happens.
    #[must_use]
    pub fn chance(&self, percent: u64) -> bool {
        percent > 0 && self.draw(100) >= 100 - percent.min(100)
    }

    /// Adds a line to the story.
    pub fn tell(&self, line: impl fmt::Display) {
        lock(&self.shared.network).tell(|_| line.to_string());
    }

    /// Ends the simulation as failed, from any host. The first failure counts.
    pub fn fail(&self, why: impl fmt::Display) {
        self.shared.order(Order::Fail(why.to_string()));
    }
}

/// A partition that has no length yet.
#[derive(Debug)]
pub struct Partition<'n> {
    net: &'n Net,
    ways: Vec<(usize, usize)>,
}

impl Partition<'_> {
    /// Lasts for `time`.
    pub fn for_(self, time: Duration) {
        let mut net = lock(&self.net.shared.network);
        let until = net.now + nanoseconds(time);
        for (from, to) in self.ways {
            net.cut(from, to, until);
        }
    }

    /// Lasts until [`Net::heal`] or [`Net::calm`].
    pub fn until_healed(self) {
        let mut net = lock(&self.net.shared.network);
        for (from, to) in self.ways {
            net.cut(from, to, u64::MAX);
        }
    }
}

/// A host of a simulation.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    index: usize,
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Host").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Host {
    /// The host's address. Other hosts also reach it as `NAME:PORT`.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        address_of(self.index)
    }

    /// The address of a port of the host.
    #[must_use]
    pub fn port(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(), port)
    }

    /// Waits until the host's main has ended. A host that crashes or starts again begins anew.
    ///
    /// # Errors
    ///
    /// The failure of the main, in words.
    pub async fn ended(&self) -> Result<(), Violation> {
        poll_fn(|context| {
            self.shared.with_end(self.index, |end| match &end.outcome {
                Some(outcome) => Poll::Ready(outcome.clone()),
                None => {
                    end.waiters.push(context.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Whether the host's main has ended, since the last start.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.with_end(self.index, |end| end.outcome.is_some())
    }

    /// The host loses its power, before its next turn. Its peers learn nothing.
    pub fn crash(&self) -> Crash<'_> {
        self.shared.order(Order::Crash { host: self.index });
        Crash { host: self }
    }

    /// Starts the host again now, if it is down.
    pub fn restart_if_down(&self) {
        self.shared.order(Order::Restart { host: self.index, after: Duration::ZERO });
    }

    /// Asks the host to drain, as SIGTERM does.
    pub fn drain(&self) {
        self.shared.order(Order::Drain { host: self.index });
    }

    /// Makes a folder the host's disk: a crash rolls it back to what was synced. False without the
    /// crate `duality-outside`, which tells of syncs: then a crash loses nothing.
    ///
    /// # Errors
    ///
    /// If the folder cannot be used.
    pub fn keeps(&self, folder: &Path) -> io::Result<bool> {
        let probe = folder.join("duality-sync");
        // Is told by `duality-outside`, if the program has it.
        File::create(&probe)?.sync_data()?;
        std::fs::remove_file(probe)?;
        lock(&self.shared.network).add_disk(self.index, folder)
    }

    /// The number of tasks on the host, its main among them.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.shared.with_end(self.index, |end| end.tasks)
    }

    /// The number of sockets that the host has open.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        lock(&self.shared.network).open_files(self.index)
    }

    /// The number of descriptors of connections that the host has open.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.shared.network).open_connections(self.index)
    }

    /// Limits the number of sockets that the host has open (1,024 otherwise).
    pub fn limit_descriptors(&self, most: usize) {
        lock(&self.shared.network).hosts[self.index].most_files = most;
    }
}

/// A host that crashes.
#[derive(Debug)]
pub struct Crash<'h> {
    host: &'h Host,
}

impl Crash<'_> {
    /// The host starts again after `time`. Without this, it stays down.
    pub fn restart_after(self, time: Duration) {
        let host = self.host.index;
        self.host.shared.order(Order::Restart { host, after: time });
    }
}
