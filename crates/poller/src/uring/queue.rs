//! The two queues that are shared with the kernel: requests go in, completions come out.
//!
//! The safe face of the ring: each request is made from what it needs, and its memory is proved to live
//! for long enough here, in one place.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::buffers::Buffers;
use super::sends::{Flight, Sends};

/// Requests that fit into the submission queue; one more makes room by a system call.
const REQUESTS: u32 = 1024;
/// Completions that fit into the completion queue; the kernel keeps what does not.
const COMPLETIONS: u32 = 8192;
/// MSG_WAITALL of send(2), which rustix has for receiving alone.
const WAIT_ALL: u32 = 0x100;
/// The one group of provided buffers.
const GROUP: u16 = 0;

/// The submission and the completion queue, with the memory that requests in them refer to.
pub(super) struct Queue {
    ring: IoUring,
    /// Where the kernel puts what is received.
    pub(super) buffers: Buffers,
    /// What the kernel sends.
    pub(super) sends: Sends,
    /// Requests whose last completion has not come.
    under_way: usize,
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
    /// The connection that an accept has completed with; of no other request.
    pub(super) fn into_descriptor(self) -> Result<OwnedFd, Errno> {
        // SAFETY: the result of an accept is a new descriptor, and the completion, its only owner, ends here.
        self.result.map(|number| unsafe { OwnedFd::from_raw_fd(number as i32) })
    }
}

impl Queue {
    /// Sets up a ring that only this kernel thread uses.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            // Completions are worked on when this thread asks for them, and not in between.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(REQUESTS)?;
        let buffers = Buffers::new()?;
        let (address, entries) = buffers.ring();
        // SAFETY: `Buffers` keeps its ring mapped until it is dropped, which is after the io_uring: `drop`
        // below sees to it.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(address, entries, GROUP, 0)?;
        }
        Ok(Self { ring, buffers, sends: Sends::default(), under_way: 0 })
    }

    /// Accepts connections one after the other.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>, name: u64) {
        let flags = SocketFlags::CLOEXEC.bits() as i32;
        self.begin(opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build(), name);
    }

    /// Receives what comes, each time into a provided buffer.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, name: u64) {
        let flags = RecvFlags::empty().bits() as i32;
        let request = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).flags(flags);
        self.begin(request.build(), name);
    }

    /// Sends what is in `flight`.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        flight: Flight,
        flags: SendFlags,
        name: u64,
    ) {
        // The kernel goes on until all is sent.
        let flags = ((flags | SendFlags::NOSIGNAL).bits() | WAIT_ALL) as i32;
        // The memory: `Sends` neither moves nor frees it before `landed`, which follows the completion.
        let (address, length) = self.sends.memory(flight);
        let request = opcode::Send::new(Fd(socket.as_raw_fd()), address, length).flags(flags);
        self.begin(request.build(), name);
    }

    /// Reports once when `descriptor` is ready.
    pub(super) fn poll(&mut self, descriptor: BorrowedFd<'_>, what: PollFlags, name: u64) {
        let request = opcode::PollAdd::new(
            Fd(descriptor.as_raw_fd()),
            i32::from(what.bits()).cast_unsigned(),
        )
        .build();
        self.begin(request, name);
    }

    /// Ends the request of this name, which may have ended already.
    pub(super) fn cancel(&mut self, name: u64) {
        let request = opcode::AsyncCancel::new(name).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&request);
    }

    /// Closes `descriptor` after all that was asked for before has begun, and so refers to its file.
    pub(super) fn close(&mut self, descriptor: OwnedFd) {
        let request = opcode::Close::new(Fd(descriptor.into_raw_fd())).build();
        self.push(&request.flags(squeue::Flags::SKIP_SUCCESS));
    }

    /// Passes all requests to the kernel, which begins them now.
    pub(super) fn submit(&mut self) {
        // Another error than EINTR, EAGAIN and EBUSY (which pass) would be a wrong use of the ring.
        while let Err(error) = self.ring.submit() {
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            let passes = matches!(code, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY));
            assert!(passes, "io_uring_enter: {error}");
        }
    }

    /// Passes all requests to the kernel and waits for a completion, for `timeout` at most. Returns early
    /// when a signal comes.
    pub(super) fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let ready = !self.ring.completion().is_empty();
        let outcome = match timeout {
            Some(Duration::ZERO) => self.ring.submit(),
            _ if ready => self.ring.submit(),
            None => self.ring.submit_and_wait(1),
            Some(limit) => {
                let limit = Timespec::from(limit);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        match outcome.map_err(|error| error.raw_os_error().map(Errno::from_raw_os_error)) {
            // BUSY and AGAIN: completions are to be taken before more can be asked for.
            Ok(_) | Err(Some(Errno::INTR | Errno::TIME | Errno::BUSY | Errno::AGAIN)) => Ok(()),
            Err(Some(error)) => Err(error.into()),
            Err(None) => unreachable!("io_uring_enter fails with a number"),
        }
    }

    /// The next completion that is there.
    pub(super) fn next(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let more = cqueue::more(entry.flags());
        let result = u32::try_from(entry.result());
        Some(Completion {
            name: entry.user_data(),
            result: result.map_err(|_| Errno::from_raw_os_error(-entry.result())),
            buffer: cqueue::buffer_select(entry.flags()),
            more,
        })
    }

    /// The last completion of a request has come.
    pub(super) fn ended(&mut self) {
        self.under_way -= 1;
    }

    /// Whether some request has not completed.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Ends all requests; each completes before long.
    pub(super) fn cancel_all(&mut self) {
        self.submit();
        // An error says that there was none.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
    }

    fn begin(&mut self, request: squeue::Entry, name: u64) {
        self.under_way += 1;
        self.push(&request.user_data(name));
    }

    fn push(&mut self, request: &squeue::Entry) {
        // SAFETY: the memory that a request refers to is the kernel's until it has completed: `Buffers` and
        // `Sends` keep it mapped and let nobody at it, and `drop` waits for all requests. Descriptors that
        // have been closed make requests fail, and no worse.
        while unsafe { self.ring.submission().push(request) }.is_err() {
            self.submit();
        }
    }
}
