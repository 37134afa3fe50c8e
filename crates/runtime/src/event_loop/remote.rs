//! The door of a loop for everybody else: wakes, and descriptors to close, from other kernel threads.
//!
//! Each loop holds a *lane* for its life: a place in a table of the process, with a stack of messages
//! (Treiber 1986) that others push to without a lock and the loop takes whole, and an eventfd that
//! interrupts the loop's wait. Only the push that finds the stack empty writes to the eventfd. Lanes
//! are never freed, only taken again by later loops, so that a waker that outlived its loop finds a
//! lane at the worst, and never freed memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU16;

use duality_poller::Token;
use rustix::event::{EventfdFlags, eventfd};

use self::shim::{AtomicBool, AtomicPtr, Ordering};
use super::waker::TaskName;

#[cfg(all(test, loom))]
use loom::sync::atomic as shim;
#[cfg(not(all(test, loom)))]
use std::sync::atomic as shim;

/// One more than there can be loops alive in a process: they have numbers from 1.
pub(crate) const LANES: usize = 1024;

/// What other kernel threads ask of a loop.
pub(crate) enum Message {
    Wake(TaskName),
    /// A descriptor that this loop watches is no longer wanted: forget it, then close it. For any other loop the token
    /// means something else, and there is nothing to do but the close.
    Close(LoopId, Token, OwnedFd),
}

/// One loop among those that the process has had. A number comes again after 65,536 loops on its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopId {
    lane: u16,
    /// How many loops had the lane before it.
    term: u16,
}

static TABLE: [OnceLock<Lane>; LANES] = [const { OnceLock::new() }; LANES];

struct Lane<B = OwnedFd> {
    taken: AtomicBool,
    /// Loops that have had it. Only who takes the lane changes it.
    terms: AtomicU16,
    inbox: Inbox<Message>,
    bell: B,
}

/// What interrupts a loop's wait: an eventfd, and in the model a counter.
trait Interrupt {
    fn ring(&self);
    fn silence(&self);
}

/// A lane in the hands of its loop; given back on drop.
pub(crate) struct Claim {
    id: LoopId,
    lane: &'static Lane,
}

/// Takes the first free lane.
pub(crate) fn claim() -> io::Result<Claim> {
    for (number, place) in TABLE.iter().enumerate().skip(1) {
        let lane = match place.get() {
            Some(lane) => lane,
            None => {
                let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
                // Another thread may have been quicker; then its lane is as good as ours.
                place.get_or_init(|| Lane::new(bell))
            }
        };
        if !lane.taken.swap(true, Ordering::AcqRel) {
            let term = lane.terms.fetch_add(1, Ordering::Relaxed);
            return Ok(Claim { id: LoopId { lane: number as u16, term }, lane });
        }
    }
    Err(io::Error::other(format!("more than {} event loops in one process", LANES - 1)))
}

/// Asks the loop that `name` belongs to, if it is alive, to wake the task.
#[inline(never)]
pub(crate) fn wake(name: TaskName) {
    send(name.lane(), Message::Wake(name));
}

/// Has a loop forget a descriptor that it watches, and closes it.
pub(crate) fn close(watcher: LoopId, token: Token, descriptor: OwnedFd) {
    send(watcher.lane, Message::Close(watcher, token, descriptor));
}

/// Sends a message to the loop of a lane; it is dropped when that loop is gone.
fn send(lane: u16, message: Message) {
    if let Some(lane) = TABLE[usize::from(lane)].get() {
        lane.send(message);
    }
}

/// Interrupts the wait of the loop of a lane.
pub(crate) fn ring(lane: u16) {
    if let Some(lane) = TABLE[usize::from(lane)].get() {
        lane.bell.ring();
    }
}

/// Interrupts the wait of every loop of this process. Async-signal-safe.
pub(crate) fn ring_all() {
    for lane in TABLE.iter().filter_map(OnceLock::get) {
        lane.bell.ring();
    }
}

impl Interrupt for OwnedFd {
    fn ring(&self) {
        // It can only fail when the counter is full, and then the loop is as good as awake.
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }

    fn silence(&self) {
        let _ = rustix::io::read(self, &mut [0u8; 8]);
    }
}

impl<B: Interrupt> Lane<B> {
    /// A lane that is free.
    fn new(bell: B) -> Self {
        let (taken, terms) = (AtomicBool::new(false), AtomicU16::new(0));
        Self { taken, terms, inbox: Inbox::new(), bell }
    }

    fn send(&self, message: Message) {
        if self.taken.load(Ordering::Acquire) && self.inbox.push(message) {
            self.bell.ring();
        }
    }

    /// In this order: who finds the inbox empty after it was taken rings again, and that is not silenced.
    fn take(&self) -> Vec<Message> {
        self.bell.silence();
        self.inbox.take()
    }
}

impl Claim {
    pub(crate) fn id(&self) -> LoopId {
        self.id
    }

    pub(crate) fn number(&self) -> u16 {
        self.id.lane
    }

    /// Becomes readable when messages (or a drain) wait.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.lane.bell.as_fd()
    }

    /// Silences the bell, then takes what has come in, oldest first.
    pub(crate) fn take(&self) -> Vec<Message> {
        self.lane.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.take();
        self.lane.taken.store(false, Ordering::Release);
    }
}

/// A stack that anyone pushes to and its owner takes whole.
struct Inbox<T> {
    top: AtomicPtr<Node<T>>,
}

struct Node<T> {
    value: T,
    below: *mut Node<T>,
}

impl<T> Inbox<T> {
    fn new() -> Self {
        Self { top: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Adds a message; true when the inbox was empty, so that the owner must be told.
    fn push(&self, value: T) -> bool {
        let node = Box::into_raw(Box::new(Node { value, below: std::ptr::null_mut() }));
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is ours until the exchange below publishes it.
            unsafe { (*node).below = top };
            match self.top.compare_exchange_weak(top, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all messages, oldest first.
    fn take(&self) -> Vec<T> {
        let mut node = self.top.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut messages = Vec::new();
        while !node.is_null() {
            // SAFETY: the swap made the chain ours alone, and each node came from `Box::into_raw`.
            let taken = unsafe { Box::from_raw(node) };
            node = taken.below;
            messages.push(taken.value);
        }
        messages.reverse();
        messages
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.take();
    }
}

// SAFETY: messages move from the pushing threads to the taking one, and are never shared.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: `push` and `take` change the inbox by one atomic operation each, so that any threads may call them at once; a message
// is moved in by one and out by one.
unsafe impl<T: Send> Sync for Inbox<T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_the_order_they_went_in() {
        let inbox = Inbox::new();
        assert!(inbox.push(1), "the first push finds it empty");
        assert!(!inbox.push(2));
        assert_eq!(inbox.take(), [1, 2]);
        assert!(inbox.push(3), "it is empty again");
    }

    #[test]
    fn a_lane_is_taken_by_one_loop_at_a_time() {
        let (first, second) = (claim().unwrap(), claim().unwrap());
        assert_ne!(first.number(), second.number());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// What a waker has done before it wakes; the woken task must see it.
    #[derive(Default)]
    struct Deeds([UnsafeCell<bool>; 2]);

    // SAFETY: loom fails the model where two threads are at a cell at once, or one looks without having been told.
    unsafe impl Sync for Deeds {}
    // SAFETY: its cells are booleans, which belong to no thread.
    unsafe impl Send for Deeds {}

    impl Deeds {
        fn doing(&self, index: usize) {
            // SAFETY: nobody else is at the cell, or loom fails the model here.
            self.0[index].with_mut(|deed| unsafe { *deed = true });
        }

        fn are_seen(&self, index: usize) {
            // SAFETY: nobody writes to the cell meanwhile, or loom fails the model here.
            assert!(self.0[index].with(|deed| unsafe { *deed }));
        }
    }

    /// An eventfd(2) and a poller that waits for it: asleep for as long as the counter is 0.
    #[derive(Default)]
    struct Counter {
        count: Mutex<u64>,
        rung: Condvar,
    }

    impl Interrupt for Counter {
        fn ring(&self) {
            *self.count.lock().unwrap() += 1;
            self.rung.notify_one();
        }

        fn silence(&self) {
            *self.count.lock().unwrap() = 0;
        }
    }

    impl Counter {
        fn wait(&self) {
            let mut count = self.count.lock().unwrap();
            while *count == 0 {
                count = self.rung.wait(count).unwrap();
            }
        }
    }

    fn name(task: u32) -> TaskName {
        TaskName::first(1).of(0, task)
    }

    /// Whoever finds the inbox empty rings; so after the last ring nothing may be left behind.
    #[test]
    fn loom_no_message_is_lost_and_each_batch_is_announced() {
        loom::model(|| {
            let (inbox, deeds) = (Arc::new(Inbox::new()), Arc::new(Deeds::default()));
            let pushers: Vec<_> = [0, 1]
                .map(|value| {
                    let (inbox, deeds) = (inbox.clone(), deeds.clone());
                    thread::spawn(move || {
                        deeds.doing(value);
                        usize::from(inbox.push(value))
                    })
                })
                .into();
            let early = inbox.take();
            early.iter().for_each(|&value| deeds.are_seen(value));
            let rings: usize = pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum();
            let late = inbox.take();
            assert_eq!(early.len() + late.len(), 2);
            let batches = usize::from(!early.is_empty()) + usize::from(!late.is_empty());
            assert_eq!(rings, batches);
        });
    }

    /// A loop that sleeps whenever it has taken what there was hears of every wake. A lost one shows as a deadlock.
    #[test]
    fn loom_a_loop_asleep_in_its_poller_hears_every_wake() {
        let mut model = loom::model::Builder::new();
        // All interleavings are too many; two threads that are interrupted once each lose a wake where it can be lost.
        model.preemption_bound = Some(2);
        model.check(|| {
            let lane = Arc::new(Lane::new(Counter::default()));
            lane.taken.store(true, Ordering::Relaxed);
            let deeds = Arc::new(Deeds::default());
            let wakers = [0, 1].map(|task| {
                let (lane, deeds) = (lane.clone(), deeds.clone());
                thread::spawn(move || {
                    deeds.doing(task as usize);
                    lane.send(Message::Wake(name(task)));
                })
            });
            let mut awaited = 2;
            while awaited > 0 {
                lane.bell.wait();
                for message in lane.take() {
                    let Message::Wake(name) = message else { unreachable!("nothing is closed") };
                    deeds.are_seen(name.slot() as usize);
                    awaited -= 1;
                }
            }
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
        });
    }
}
