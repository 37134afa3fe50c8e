//! What code that asks the machine itself is told during a simulation: the time, random bytes, and
//! the addresses of hosts.
//!
//! Code of the runtime asks its loop. Other code calls `clock_gettime(2)`, `getrandom(2)` and
//! `getaddrinfo(3)`. A program that defines these symbols, as the crate `duality-outside` does,
//! answers them by these functions.

mod object;

use std::cell::{Cell, RefCell};
use std::hash::RandomState;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use duality_runtime::{machine, threads};

pub use self::object::join_object;
use crate::decisions::Random;
use crate::machine::{SharedNetwork, lock};
use crate::network::{EPOCH, Network, address_of};

/// What the generator of devices differs by from others of the seed.
const DEVICES: u64 = 0xDE71_CE00_DE71_CE00;

thread_local! {
    /// The time of the simulation of this kernel thread. `u64::MAX` outside of simulations.
    static TIME: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The nanoseconds since 1970, as the running host has them.
    static DAY: Cell<u64> = const { Cell::new(EPOCH) };
    /// The generator of random bytes. It is not that of the decisions: a program that asks for more
    /// bytes does not move them.
    static RANDOM: RefCell<Option<Random>> = const { RefCell::new(None) };
    /// The generator of what `/dev/urandom` gives. Libraries such as SQLite read it once in a
    /// process, which must not move the other bytes of that simulation alone.
    static DEVICE: RefCell<Option<Random>> = const { RefCell::new(None) };
    /// The hosts, for their names.
    static NETWORK: RefCell<Option<SharedNetwork>> = const { RefCell::new(None) };
    /// What the running turn asked for, and no simulation has.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
    /// The panic of the running turn.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The nanoseconds since the simulation of this kernel thread began, by the clock of the running
/// host. `None` without one.
#[must_use]
pub fn elapsed() -> Option<u64> {
    let time = TIME.get();
    (time != u64::MAX).then_some(time)
}

/// The nanoseconds since 1970, by the clock of the running host.
#[must_use]
pub fn time_of_day() -> Option<u64> {
    elapsed().map(|_| DAY.get())
}

/// Fills `bytes` from the seed. False without a simulation.
#[must_use]
pub fn fill_random(bytes: &mut [u8]) -> bool {
    RANDOM.with(|random| fill(random, bytes))
}

/// Fills `bytes` as a device of random bytes does. False without a simulation.
#[must_use]
pub fn fill_from_device(bytes: &mut [u8]) -> bool {
    DEVICE.with(|random| fill(random, bytes))
}

fn fill(random: &RefCell<Option<Random>>, bytes: &mut [u8]) -> bool {
    match random.try_borrow_mut() {
        Ok(mut random) => random.as_mut().is_some_and(|random| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
            }
            true
        }),
        Err(_) => false,
    }
}

/// The address of the simulated host of this name.
#[must_use]
pub fn look_up(name: &str) -> Option<IpAddr> {
    let network = NETWORK.with_borrow(Clone::clone)?;
    let found = lock(&network).host_named(name);
    found.map(address_of)
}

/// The number of the process that the running host is. `None` outside of simulations, and for the
/// test's own host, which makes files by that number.
#[must_use]
pub fn process_id() -> Option<u32> {
    elapsed()?;
    machine::process_id()
}

/// How many processors the running host has. A host that is a loop has one.
#[must_use]
pub fn processors() -> Option<usize> {
    elapsed()?;
    Some(threads::here().map_or(1, |threads| threads.processors()))
}

/// Has a simulated kernel thread sleep. False on a host that is a loop, which cannot.
#[must_use]
pub fn sleep(duration: Duration) -> bool {
    let Some(threads) = threads::here() else { return false };
    let end = threads.now().checked_add(duration);
    while end.is_none_or(|end| threads.now() < end) {
        threads::wait(&*threads, "a sleep", &|| false, end);
    }
    true
}

/// What a kernel thread gets of the simulation that starts it.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    elapsed: u64,
    day: u64,
    seed: u64,
}

/// What a kernel thread inherits that the running host starts. `None` outside of simulations.
#[must_use]
pub fn inherit() -> Option<Inherited> {
    let mut seed = [0; 8];
    let elapsed = elapsed().filter(|_| fill_random(&mut seed))?;
    Some(Inherited { elapsed, day: DAY.get(), seed: u64::from_le_bytes(seed) })
}

/// Begins a kernel thread with what it has inherited: time stands, and random bytes are the seed's.
pub fn adopt(inherited: Inherited) {
    begin(inherited.seed);
    set_time(inherited.elapsed, inherited.day);
}

/// fsync(2) of a file or folder. `None` if it is on no disk of a simulated host, and needs a real
/// sync.
#[must_use]
pub fn sync(path: &Path) -> Option<io::Result<()>> {
    with_network(|network| network.sync(path))?
}

/// How many bytes of a write of `count` bytes a file takes: all of them, unless it is on the disk
/// of a simulated host.
///
/// # Errors
///
/// If that disk has no room.
pub fn write(path: &Path, count: usize) -> io::Result<usize> {
    with_network(|network| network.write(path, count)).unwrap_or(Ok(count))
}

/// Calls `operation` with the network, unless the simulation itself is at work on it.
fn with_network<T>(operation: impl FnOnce(&mut Network) -> T) -> Option<T> {
    let network = NETWORK.try_with(|network| network.borrow().clone()).ok()??;
    match network.try_lock() {
        Ok(mut network) => Some(operation(&mut network)),
        Err(_) => None,
    }
}

/// Fails the simulation, since code has asked for something that no simulation has.
pub fn refuse(why: String) {
    REFUSED.with_borrow_mut(|refused| _ = refused.get_or_insert(why));
}

pub(crate) fn take_refused() -> Option<String> {
    REFUSED.take()
}

/// Has names looked up among the hosts of a simulation.
pub(crate) fn name_hosts(network: &SharedNetwork) {
    NETWORK.set(Some(network.clone()));
}

pub(crate) fn begin(seed: u64) {
    set_time(0, EPOCH);
    RANDOM.set(Some(Random::new(!seed)));
    DEVICE.set(Some(Random::new(seed.rotate_left(32) ^ DEVICES)));
    // `std` draws the keys of a thread's maps once. It draws them now, and not for the first map: a
    // static variable may have that map in the first simulation of a process alone.
    let _ = RandomState::new();
    PANIC.take();
}

pub(crate) fn set_time(elapsed: u64, day: u64) {
    TIME.set(elapsed);
    DAY.set(day);
}

pub(crate) fn end() {
    TIME.set(u64::MAX);
    RANDOM.set(None);
    DEVICE.set(None);
    NETWORK.set(None);
}

/// Has panics on kernel threads that simulate kept, and not printed.
pub(crate) fn keep_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if elapsed().is_none() {
                return before(panic);
            }
            let text = panic.payload();
            let text = text.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.payload().downcast_ref::<&str>().copied());
            let place = panic.location().map_or(String::new(), |place| format!(" ({place})"));
            let line = format!("{}{place}", text.unwrap_or("a panic"));
            PANIC.with_borrow_mut(|kept| _ = kept.get_or_insert(line));
        }));
    });
}

/// Calls `body` outside of the simulation: it sees the machine's clock and threads.
pub(crate) fn unobserved<R>(body: impl FnOnce() -> R) -> R {
    let time = TIME.replace(u64::MAX);
    let result = body();
    TIME.set(time);
    result
}

pub(crate) fn take_panic() -> Option<String> {
    PANIC.take()
}
