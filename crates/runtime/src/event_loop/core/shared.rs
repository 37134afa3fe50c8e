//! A descriptor that several simulated sockets share, and so one that stays open.

use std::os::fd::BorrowedFd;

use duality_poller::Token;

use super::Core;

impl Core {
    /// Ends the watch of one socket, as [`Core::close`] does, and leaves the descriptor open.
    #[cold]
    pub(crate) fn unwatch(&self, descriptor: BorrowedFd<'_>, token: Token) {
        self.poller.borrow_mut().forget(descriptor, token);
        self.sources.borrow_mut().remove(token);
        self.gathered.forget_descriptor(token);
    }
}
