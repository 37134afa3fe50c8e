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
use std::sync::atomic::{self, AtomicBool};

use duality_poller::Token;
use rustix::event::{EventfdFlags, eventfd};

use self::shim::{AtomicPtr, Ordering};
use super::waker::TaskName;

#[cfg(all(test, loom))]
use loom::sync::atomic as shim;
#[cfg(not(all(test, loom)))]
use std::sync::atomic as shim;

/// How many loops one process can have alive at a time.
pub(crate) const LANES: usize = 1024;

/// What other kernel threads ask of a loop.
pub(crate) enum Message {
    Wake(TaskName),
    /// A descriptor that this loop watches is no longer wanted: forget it, then close it.
    Close(Token, OwnedFd),
}

static TABLE: [OnceLock<Lane>; LANES] = [const { OnceLock::new() }; LANES];

struct Lane {
    taken: AtomicBool,
    inbox: Inbox<Message>,
    bell: OwnedFd,
}

/// A lane in the hands of its loop; given back on drop.
pub(crate) struct Claim {
    number: u16,
    lane: &'static Lane,
}

/// Takes the first free lane.
pub(crate) fn claim() -> io::Result<Claim> {
    for (number, place) in TABLE.iter().enumerate() {
        let lane = match place.get() {
            Some(lane) => lane,
            None => {
                let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
                let taken = AtomicBool::new(false);
                // Another thread may have been quicker; then its lane is as good as ours.
                place.get_or_init(|| Lane { taken, inbox: Inbox::new(), bell })
            }
        };
        if !lane.taken.swap(true, atomic::Ordering::AcqRel) {
            return Ok(Claim { number: number as u16, lane });
        }
    }
    Err(io::Error::other(format!("more than {LANES} event loops in one process")))
}

/// Asks the loop that `name` belongs to, if it is alive, to wake the task.
pub(crate) fn wake(name: TaskName) {
    send(name.lane(), Message::Wake(name));
}

/// Sends a message to the loop of a lane; it is dropped when that loop is gone.
pub(crate) fn send(lane: u16, message: Message) {
    if let Some(lane) = TABLE[usize::from(lane)].get()
        && lane.taken.load(atomic::Ordering::Acquire)
        && lane.inbox.push(message)
    {
        lane.ring();
    }
}

/// Interrupts the wait of the loop of a lane.
pub(crate) fn ring(lane: u16) {
    if let Some(lane) = TABLE[usize::from(lane)].get() {
        lane.ring();
    }
}

/// Interrupts the wait of every loop of this process. Async-signal-safe.
pub(crate) fn ring_all() {
    for lane in TABLE.iter().filter_map(OnceLock::get) {
        lane.ring();
    }
}

impl Lane {
    fn ring(&self) {
        // It can only fail when the counter is full, and then the loop is as good as awake.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Claim {
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Becomes readable when messages (or a drain) wait.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.lane.bell.as_fd()
    }

    /// Silences the bell, then takes what has come in, oldest first.
    pub(crate) fn take(&self) -> Vec<Message> {
        let _ = rustix::io::read(&self.lane.bell, &mut [0u8; 8]);
        self.lane.inbox.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.take();
        self.lane.taken.store(false, atomic::Ordering::Release);
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
// SAFETY: as above; `push` and `take` may be called from any threads at once.
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
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Whoever finds the inbox empty rings; so after the last ring nothing may be left behind.
    #[test]
    fn loom_no_message_is_lost_and_each_batch_is_announced() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::new());
            let pushers: Vec<_> = [1, 2]
                .map(|value| {
                    let inbox = inbox.clone();
                    thread::spawn(move || usize::from(inbox.push(value)))
                })
                .into();
            let early = inbox.take();
            let rings: usize = pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum();
            let late = inbox.take();
            assert_eq!(early.len() + late.len(), 2);
            let batches = usize::from(!early.is_empty()) + usize::from(!late.is_empty());
            assert_eq!(rings, batches);
        });
    }
}
