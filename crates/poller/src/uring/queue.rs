//! The two queues that are shared with the kernel: requests go in, completions come out.
//!
//! This is the safe interface of the ring. Each method makes a request from typed parts. This file
//! alone proves that the memory of a request lives long enough. The memory is in [`Buffers`] and
//! [`Sends`]. The kernel may use it until the last completion of the last request. [`Queue`] counts
//! requests, and its drop waits for them. Memory that the kernel does not give back is leaked.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::buffers::Buffers;
use super::sends::{Flight, Sends};

/// Requests that fit into the submission queue. A further request first submits these by a system
/// call.
const REQUESTS: u32 = 1024;
/// Completions that fit into the completion queue. The kernel keeps the others.
const COMPLETIONS: u32 = 8192;
/// MSG_WAITALL of send(2), which rustix has for receiving alone.
const WAIT_ALL: u32 = 0x100;
/// The one group of provided buffers.
const GROUP: u16 = 0;

/// How long the end of a ring waits for the kernel to end cancelled requests. Usually the kernel
/// takes microseconds.
const LAST: Duration = Duration::from_secs(2);
/// How long the end of a ring waits for requests that were cancelled by name. Then the kernel
/// cancels all others.
const BY_NAME: Duration = Duration::from_millis(20);
/// The pause before requests are submitted again if the kernel had no memory for them.
const PAUSE: Duration = Duration::from_millis(1);

/// The submission and the completion queue, with the memory that requests in them refer to.
pub(super) struct Queue {
    ring: IoUring,
    /// Where the kernel puts received bytes. Only the drop frees it.
    pub(super) buffers: ManuallyDrop<Buffers>,
    /// The bytes that the kernel sends. Only the drop frees it.
    pub(super) sends: ManuallyDrop<Sends>,
    /// Requests without their last completion.
    under_way: usize,
    /// Completions that were taken to make room for others, the oldest first.
    taken: VecDeque<Completion>,
}

/// One completion.
pub(super) struct Completion {
    /// The name of its request.
    pub(super) name: u64,
    pub(super) result: Result<u32, Errno>,
    /// The buffer that was filled.
    pub(super) buffer: Option<u16>,
    /// The request goes on and will complete again.
    pub(super) more: bool,
}

impl Completion {
    fn of(entry: &cqueue::Entry) -> Self {
        let result = u32::try_from(entry.result());
        Self {
            name: entry.user_data(),
            result: result.map_err(|_| Errno::from_raw_os_error(-entry.result())),
            buffer: cqueue::buffer_select(entry.flags()),
            more: cqueue::more(entry.flags()),
        }
    }

    /// The connection that an accept has completed with.
    ///
    /// # Safety
    ///
    /// The completion is one of [`Queue::accept`]. The result of another request is no descriptor.
    pub(super) unsafe fn into_descriptor(self) -> Result<OwnedFd, Errno> {
        // SAFETY: the result of an accept is a new descriptor, and the completion, its only owner,
        // ends here.
        self.result.map(|number| unsafe { OwnedFd::from_raw_fd(number as i32) })
    }
}

impl Queue {
    /// Sets up a ring that only this kernel thread uses.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            // The kernel works on completions only when this thread enters it.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(REQUESTS)?;
        let buffers = Buffers::new()?;
        let (address, entries) = buffers.ring();
        // From here on the queue's drop decides when the buffers are freed.
        let queue = Self {
            ring,
            buffers: ManuallyDrop::new(buffers),
            sends: ManuallyDrop::default(),
            under_way: 0,
            taken: VecDeque::new(),
        };
        // SAFETY: the mapping of the buffers' ring has that address and so many entries. The kernel
        // reads the mapping only for a request that receives. While there is such a request, the
        // drop does not unmap it.
        unsafe {
            queue.ring.submitter().register_buf_ring_with_flags(address, entries, GROUP, 0)?;
        }
        Ok(queue)
    }

    /// Accepts connections one after the other.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>, name: u64) {
        let flags = SocketFlags::CLOEXEC.bits() as i32;
        self.begin(opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build(), name);
    }

    /// Receives bytes as they come, each time into a provided buffer.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, name: u64) {
        let flags = RecvFlags::empty().bits() as i32;
        let request = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).flags(flags);
        self.begin(request.build(), name);
    }

    /// Sends the bytes of `flight`.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, flight: Flight, name: u64) {
        // With this flag the kernel goes on until all bytes are sent.
        let flags = (SendFlags::NOSIGNAL.bits() | WAIT_ALL) as i32;
        // `Sends` neither moves nor frees the memory before `landed`, which follows the completion.
        let (address, length) = self.sends.memory(flight);
        let request = opcode::Send::new(Fd(socket.as_raw_fd()), address, length).flags(flags);
        self.begin(request.build(), name);
    }

    /// Reports when `descriptor` is ready: once, or each time that it becomes ready.
    pub(super) fn poll(
        &mut self,
        descriptor: BorrowedFd<'_>,
        what: PollFlags,
        each_time: bool,
        name: u64,
    ) {
        let what = i32::from(what.bits()).cast_unsigned();
        let request = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), what).multi(each_time);
        self.begin(request.build(), name);
    }

    /// Ends the request of this name, which may have ended already.
    pub(super) fn cancel(&mut self, name: u64) {
        let request = opcode::AsyncCancel::new(name).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&request);
    }

    /// Closes `descriptor` after all earlier requests have begun, so that they refer to its file.
    pub(super) fn close(&mut self, descriptor: OwnedFd) {
        let request = opcode::Close::new(Fd(descriptor.into_raw_fd())).build();
        self.push(&request.flags(squeue::Flags::SKIP_SUCCESS));
    }

    /// Passes all requests to the kernel, which begins them now.
    ///
    /// # Panics
    ///
    /// If the kernel refuses, which means a wrong use of the ring.
    pub(super) fn submit(&mut self) {
        self.try_submit().unwrap_or_else(|error| panic!("io_uring_enter: {error}"));
    }

    fn try_submit(&mut self) -> io::Result<()> {
        while let Err(error) = self.ring.submit() {
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // The completion queue is full, or memory is lacking.
                Some(Errno::BUSY | Errno::AGAIN) => self.make_room(),
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the present completions, to be handed out later. If there are none, the kernel lacks
    /// memory, so this thread waits a little.
    fn make_room(&mut self) {
        let before = self.taken.len();
        self.taken.extend(self.ring.completion().map(|entry| Completion::of(&entry)));
        if self.taken.len() == before {
            let _ = poll(&mut [], Some(&PAUSE.try_into().expect("a millisecond is a time")));
        }
    }

    /// Passes all requests to the kernel and waits for a completion, for `timeout` at most. Returns
    /// early when a signal comes.
    pub(super) fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let ready = !self.taken.is_empty() || !self.ring.completion().is_empty();
        let outcome = match timeout {
            Some(Duration::ZERO) => self.ring.submit(),
            _ if ready => self.ring.submit(),
            None => self.ring.submit_and_wait(1),
            Some(limit) => {
                let limit = Timespec::from(limit);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        let Err(error) = outcome else { return Ok(()) };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR | Errno::TIME) => Ok(()),
            Some(Errno::BUSY | Errno::AGAIN) => {
                self.make_room();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// The next completion, if there is one.
    pub(super) fn next(&mut self) -> Option<Completion> {
        if let Some(completion) = self.taken.pop_front() {
            return Some(completion);
        }
        self.ring.completion().next().map(|entry| Completion::of(&entry))
    }

    /// The last completion of a request has come.
    pub(super) fn ended(&mut self) {
        self.under_way -= 1;
    }

    /// Waits for the completions of all requests, and passes each to `complete`, which calls
    /// [`ended`](Self::ended) for it. Requests that have not been cancelled by name are cancelled
    /// after a while.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or does not end the requests in time. Some requests then stay under
    /// way.
    pub(super) fn end_all(
        &mut self,
        mut complete: impl FnMut(&mut Self, Completion),
    ) -> io::Result<()> {
        self.try_submit()?;
        let start = Instant::now();
        let mut all_cancelled = false;
        while self.under_way > 0 {
            let left = LAST.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !all_cancelled && start.elapsed() >= BY_NAME {
                all_cancelled = true;
                // An error says that there was no request to cancel.
                let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
            }
            let wait = if all_cancelled { left } else { left.min(BY_NAME) };
            self.submit_and_wait(Some(wait))?;
            while let Some(completion) = self.next() {
                complete(self, completion);
            }
        }
        Ok(())
    }

    fn begin(&mut self, request: squeue::Entry, name: u64) {
        self.under_way += 1;
        self.push(&request.user_data(name));
    }

    fn push(&mut self, request: &squeue::Entry) {
        // SAFETY: a request that refers to memory is made by `receive` or `send`, and counted by
        // `begin`. Its memory is in `buffers` and `sends`. Neither of them moves, frees or changes
        // the memory before the last completion. The drop frees it only while no request is under
        // way.
        while unsafe { self.ring.submission().push(request) }.is_err() {
            self.submit();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // The memory is leaked: the kernel may use it for as long as the process lives.
            return;
        }
        // SAFETY: this is the drop, so `buffers` and `sends` are not used again, and no request
        // refers to them.
        unsafe {
            ManuallyDrop::drop(&mut self.buffers);
            ManuallyDrop::drop(&mut self.sends);
        }
    }
}
