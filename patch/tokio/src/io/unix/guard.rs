//! What a wait for an [`AsyncFd`] returns, and its errors.

use std::fmt;
use std::io;

use super::{AsyncFd, Ready};

macro_rules! guard {
    ($(#[$about:meta])* $guard:ident, $reference:ty) => {
        $(#[$about])*
        pub struct $guard<'a, T> {
            of: $reference,
            ready: Ready,
        }

        impl<'a, T> $guard<'a, T> {
            pub(super) fn new(of: $reference, ready: Ready) -> Self {
                Self { of, ready }
            }

            /// Nothing: each wait asks the kernel.
            pub fn clear_ready(&mut self) {}

            /// Forgets this readiness. The next wait asks the kernel all the same.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                self.ready = self.ready - ready;
            }

            /// Nothing: each wait asks the kernel.
            pub fn retain_ready(&mut self) {}

            /// What the descriptor is ready for.
            #[must_use]
            pub fn ready(&self) -> Ready {
                self.ready
            }
        }

        impl<T> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = formatter.debug_struct(stringify!($guard));
                shown.field("ready", &self.ready).finish_non_exhaustive()
            }
        }
    };
}

guard! {
    /// What an [`AsyncFd`] is ready for.
    AsyncFdReadyGuard, &'a AsyncFd<T>
}

guard! {
    /// What an [`AsyncFd`] is ready for, with exclusive access to it.
    AsyncFdReadyMutGuard, &'a mut AsyncFd<T>
}

impl<'a, T> AsyncFdReadyGuard<'a, T> {
    /// Calls `operation` once.
    ///
    /// # Errors
    ///
    /// If the operation returns `WouldBlock`.
    pub fn try_io<R>(
        &mut self,
        operation: impl FnOnce(&'a AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        unless_blocking(operation(self.of))
    }

    /// The watched descriptor.
    #[must_use]
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.of
    }

    /// The object with the descriptor.
    #[must_use]
    pub fn get_inner(&self) -> &'a T {
        &self.of.inner
    }
}

impl<T> AsyncFdReadyMutGuard<'_, T> {
    /// Calls `operation` once.
    ///
    /// # Errors
    ///
    /// If the operation returns `WouldBlock`.
    pub fn try_io<R>(
        &mut self,
        operation: impl FnOnce(&mut AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        unless_blocking(operation(self.of))
    }

    /// The watched descriptor.
    #[must_use]
    pub fn get_ref(&self) -> &AsyncFd<T> {
        self.of
    }

    /// The watched descriptor.
    pub fn get_mut(&mut self) -> &mut AsyncFd<T> {
        self.of
    }

    /// The object with the descriptor.
    #[must_use]
    pub fn get_inner(&self) -> &T {
        &self.of.inner
    }

    /// The object with the descriptor.
    pub fn get_inner_mut(&mut self) -> &mut T {
        &mut self.of.inner
    }
}

fn unless_blocking<R>(outcome: io::Result<R>) -> Result<io::Result<R>, TryIoError> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(TryIoError(())),
        other => Ok(other),
    }
}

/// The operation would have blocked.
#[derive(Debug)]
pub struct TryIoError(());

/// An object that cannot be watched, with the reason.
pub struct AsyncFdRegisterError<T> {
    pub(super) inner: T,
    pub(super) cause: io::Error,
}

/// The former name of [`AsyncFdRegisterError`].
#[doc(hidden)]
#[deprecated(note = "use `AsyncFdRegisterError` instead")]
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

impl<T> AsyncFdRegisterError<T> {
    /// The object, and the reason.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdRegisterError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(formatter)
    }
}

impl<T> fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, formatter)
    }
}

impl<T> std::error::Error for AsyncFdRegisterError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> Self {
        error.cause
    }
}
