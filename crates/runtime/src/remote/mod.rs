//! How other kernel threads reach a loop: they wake its tasks, and make it close descriptors.
//!
//! ```text
//!   other kernel threads                          the loop's kernel thread
//!   wake, close ──▶ inbox: ▢─▶▢─▶▢ ─────────────▶ take: all messages at once
//!        └── was it empty? ──▶ eventfd ─────────▶ poller.wait returns
//!   interrupt_all (a drain, a survey) ─▶ eventfd
//! ```
//!
//! Each loop owns an *inbox* for its life. The inbox is an entry of a table of the process, with a
//! stack of messages (Treiber 1986). An eventfd interrupts the loop's wait. Other threads push
//! messages without a lock, and the loop takes all messages at once. Only the push that finds the
//! stack empty writes to the eventfd. Inboxes are never freed, but later loops reuse them. So at
//! worst, a waker that outlives its loop finds the inbox of a later loop. The waker never finds
//! freed memory.
//!
//! This module is below the loop. So draining and surveys, which interrupt loops, need not know the
//! type of a loop.

mod name;
pub mod wakeup;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU16;

use duality_poller::Token;
use rustix::event::{EventfdFlags, eventfd};

pub(crate) use self::name::TaskName;
use self::shim::{AtomicBool, AtomicPtr, Ordering};

#[cfg(all(test, loom))]
use loom::sync::atomic as shim;
#[cfg(not(all(test, loom)))]
use std::sync::atomic as shim;

/// The size of the table: the most loops alive in a process, plus one, because their numbers begin
/// with 1.
const LOOPS: usize = 1024;

/// A message of another kernel thread to a loop.
pub(crate) enum Message {
    Wake(TaskName),
    /// Forget a descriptor that this loop watches, then close it. A loop of another id watches
    /// nothing under this token, and only closes the descriptor.
    Close(LoopId, Token, OwnedFd),
}

/// A loop among all loops that the process has had. An id is used again after 65,536 loops with the
/// same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopId {
    number: u16,
    /// The number of earlier loops with the same number.
    generation: u16,
}

/// The inbox of each loop, at the index of the loop's number.
static TABLE: [OnceLock<Inbox>; LOOPS] = [const { OnceLock::new() }; LOOPS];

struct Inbox<E = OwnedFd> {
    is_owned: AtomicBool,
    /// The number of loops that have had the inbox. Only the loop that takes the inbox changes this
    /// count.
    generations: AtomicU16,
    messages: MessageStack<Message>,
    event: E,
}

/// The object that interrupts a loop's wait: an eventfd, and in the model a counter.
trait Interrupt {
    fn signal(&self);
    fn clear(&self);
}

/// The inbox of a loop, as the loop owns it. Dropping this value gives the inbox back.
pub(crate) struct OwnInbox {
    id: LoopId,
    inbox: &'static Inbox,
}

/// Takes the first inbox that no loop has.
pub(crate) fn take_inbox() -> io::Result<OwnInbox> {
    for (number, entry) in TABLE.iter().enumerate().skip(1) {
        let inbox = match entry.get() {
            Some(inbox) => inbox,
            None => {
                let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
                // Another thread may have been faster. Then its inbox serves as well.
                entry.get_or_init(|| Inbox::new(event))
            }
        };
        if !inbox.is_owned.swap(true, Ordering::AcqRel) {
            let generation = inbox.generations.fetch_add(1, Ordering::Relaxed);
            return Ok(OwnInbox { id: LoopId { number: number as u16, generation }, inbox });
        }
    }
    Err(io::Error::other(format!("more than {} event loops in one process", LOOPS - 1)))
}

/// Asks the loop of `name`, if it is alive, to wake the task.
#[inline(never)]
pub(crate) fn wake(name: TaskName) {
    send(name.loop_number(), Message::Wake(name));
}

/// Has a loop end the watch of a descriptor, and closes the descriptor.
pub(crate) fn close(watcher: LoopId, token: Token, descriptor: OwnedFd) {
    send(watcher.number, Message::Close(watcher, token, descriptor));
}

/// Sends a message to the loop with this number. Drops the message if there is no such loop.
fn send(number: u16, message: Message) {
    if let Some(inbox) = TABLE[usize::from(number)].get() {
        inbox.send(message);
    }
}

/// Interrupts the wait of a loop, if it is alive. A later loop of the same number is not disturbed:
/// it may be one of another simulation.
fn interrupt(id: LoopId) {
    let inbox = TABLE[usize::from(id.number)].get();
    if let Some(inbox) = inbox.filter(|inbox| inbox.is_of(id)) {
        inbox.event.signal();
    }
}

/// Interrupts the wait of every loop of this process. Async-signal-safe.
pub(crate) fn interrupt_all() {
    for inbox in TABLE.iter().filter_map(OnceLock::get) {
        inbox.event.signal();
    }
}

impl Interrupt for OwnedFd {
    fn signal(&self) {
        // The write can only fail if the counter is full, and then the loop will wake anyway.
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(self, &mut [0u8; 8]);
    }
}

impl<E: Interrupt> Inbox<E> {
    /// An inbox that no loop has.
    fn new(event: E) -> Self {
        let (is_owned, generations) = (AtomicBool::new(false), AtomicU16::new(0));
        Self { is_owned, generations, messages: MessageStack::new(), event }
    }

    /// Whether the loop has the inbox now.
    fn is_of(&self, id: LoopId) -> bool {
        let generation = self.generations.load(Ordering::Relaxed).wrapping_sub(1);
        generation == id.generation && self.is_owned.load(Ordering::Acquire)
    }

    fn send(&self, message: Message) {
        if self.is_owned.load(Ordering::Acquire) && self.messages.push(message) {
            self.event.signal();
        }
    }

    /// Clear the event first. A sender that finds the stack empty after the take signals again, and
    /// that signal must not be cleared.
    fn take(&self) -> Vec<Message> {
        self.event.clear();
        self.messages.take()
    }
}

impl OwnInbox {
    pub(crate) fn id(&self) -> LoopId {
        self.id
    }

    /// The number of the loop.
    pub(crate) fn number(&self) -> u16 {
        self.id.number
    }

    /// The eventfd, which is readable when messages wait, and when the loop's wait is interrupted.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.inbox.event.as_fd()
    }

    /// Whether messages wait.
    pub(crate) fn has_messages(&self) -> bool {
        !self.inbox.messages.is_empty()
    }

    /// Clears the event, then takes the messages, oldest first.
    pub(crate) fn take(&self) -> Vec<Message> {
        self.inbox.take()
    }
}

impl Drop for OwnInbox {
    fn drop(&mut self) {
        self.take();
        self.inbox.is_owned.store(false, Ordering::Release);
    }
}

/// A stack to which any thread pushes. The stack's owner takes all messages at once.
struct MessageStack<T> {
    top: AtomicPtr<Node<T>>,
}

struct Node<T> {
    value: T,
    below: *mut Node<T>,
}

impl<T> MessageStack<T> {
    fn new() -> Self {
        Self { top: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Adds a message. Returns true if the stack was empty, so that the owner must be told.
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

    fn is_empty(&self) -> bool {
        self.top.load(Ordering::Acquire).is_null()
    }

    /// Takes all messages, oldest first.
    fn take(&self) -> Vec<T> {
        let mut node = self.top.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut messages = Vec::new();
        while !node.is_null() {
            // SAFETY: after the swap the chain is ours alone, and each node came from
            // `Box::into_raw`.
            let taken = unsafe { Box::from_raw(node) };
            node = taken.below;
            messages.push(taken.value);
        }
        messages.reverse();
        messages
    }
}

impl<T> Drop for MessageStack<T> {
    fn drop(&mut self) {
        self.take();
    }
}

// SAFETY: messages move from the pushing threads to the taking one, and are never shared.
unsafe impl<T: Send> Send for MessageStack<T> {}
// SAFETY: `push` and `take` change the stack by one atomic operation each, so any threads may call
// them at once. A message is moved in by one and out by one.
unsafe impl<T: Send> Sync for MessageStack<T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_the_order_they_went_in() {
        let messages = MessageStack::new();
        assert!(messages.push(1), "the first push finds it empty");
        assert!(!messages.push(2));
        assert_eq!(messages.take(), [1, 2]);
        assert!(messages.push(3), "it is empty again");
    }

    #[test]
    fn an_inbox_is_taken_by_one_loop_at_a_time() {
        let (first, second) = (take_inbox().unwrap(), take_inbox().unwrap());
        assert_ne!(first.number(), second.number());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// The stores of a waker before the wake. The woken task must see these stores.
    #[derive(Default)]
    struct Deeds([UnsafeCell<bool>; 2]);

    // SAFETY: loom fails the model if two threads are at a cell at once, or a thread looks without
    // a signal.
    unsafe impl Sync for Deeds {}
    // SAFETY: the cells are booleans, which belong to no thread.
    unsafe impl Send for Deeds {}

    impl Deeds {
        fn doing(&self, index: usize) {
            // SAFETY: no other thread is at the cell, or loom fails the model here.
            self.0[index].with_mut(|deed| unsafe { *deed = true });
        }

        fn are_seen(&self, index: usize) {
            // SAFETY: no thread writes to the cell meanwhile, or loom fails the model here.
            assert!(self.0[index].with(|deed| unsafe { *deed }));
        }
    }

    /// An eventfd(2) and a poller that waits for it: asleep for as long as the counter is 0.
    #[derive(Default)]
    struct Counter {
        count: Mutex<u64>,
        signalled: Condvar,
    }

    impl Interrupt for Counter {
        fn signal(&self) {
            *self.count.lock().unwrap() += 1;
            self.signalled.notify_one();
        }

        fn clear(&self) {
            *self.count.lock().unwrap() = 0;
        }
    }

    impl Counter {
        fn wait(&self) {
            let mut count = self.count.lock().unwrap();
            while *count == 0 {
                count = self.signalled.wait(count).unwrap();
            }
        }
    }

    fn name(task: u32) -> TaskName {
        TaskName::first(1).of(0, task)
    }

    /// The push that finds the stack empty signals. So after the last signal, no message may be
    /// left behind.
    #[test]
    fn loom_no_message_is_lost_and_each_batch_is_announced() {
        loom::model(|| {
            let (messages, deeds) = (Arc::new(MessageStack::new()), Arc::new(Deeds::default()));
            let pushers: Vec<_> = [0, 1]
                .map(|value| {
                    let (messages, deeds) = (messages.clone(), deeds.clone());
                    thread::spawn(move || {
                        deeds.doing(value);
                        usize::from(messages.push(value))
                    })
                })
                .into();
            let early = messages.take();
            early.iter().for_each(|&value| deeds.are_seen(value));
            let signals: usize = pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum();
            let late = messages.take();
            assert_eq!(early.len() + late.len(), 2);
            let batches = usize::from(!early.is_empty()) + usize::from(!late.is_empty());
            assert_eq!(signals, batches);
        });
    }

    /// A loop that sleeps after it has taken all messages notices every wake. A lost wake shows as
    /// a deadlock.
    #[test]
    fn loom_a_loop_asleep_in_its_poller_hears_every_wake() {
        let mut model = loom::model::Builder::new();
        // Not all interleavings can be tried. Two threads that are interrupted once each can
        // already lose a wake.
        model.preemption_bound = Some(2);
        model.check(|| {
            let inbox = Arc::new(Inbox::new(Counter::default()));
            inbox.is_owned.store(true, Ordering::Relaxed);
            let deeds = Arc::new(Deeds::default());
            let wakers = [0, 1].map(|task| {
                let (inbox, deeds) = (inbox.clone(), deeds.clone());
                thread::spawn(move || {
                    deeds.doing(task as usize);
                    inbox.send(Message::Wake(name(task)));
                })
            });
            let mut awaited = 2;
            while awaited > 0 {
                inbox.event.wait();
                for message in inbox.take() {
                    let Message::Wake(name) = message else { unreachable!("nothing is closed") };
                    deeds.are_seen(name.slot() as usize);
                    awaited -= 1;
                }
            }
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
        });
    }
}
