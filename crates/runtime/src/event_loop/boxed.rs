//! The future of a task, in a box.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future in a box, as what a loop runs is.
pub type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The same, for a future that stays on its kernel thread.
pub(crate) struct LocalFuture(Pin<Box<dyn Future<Output = ()>>>);

/// Makes a [`BoxedFuture`] of a future.
pub fn boxed_future(future: impl Future<Output = ()> + Send + 'static) -> BoxedFuture {
    Box::pin(future)
}

/// Makes a [`LocalFuture`] of a future.
pub(crate) fn local_future(future: impl Future<Output = ()> + 'static) -> LocalFuture {
    LocalFuture(Box::pin(future))
}

impl LocalFuture {
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }

    /// Where the future is.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        (&raw const *self.0).addr()
    }
}

impl From<BoxedFuture> for LocalFuture {
    #[inline]
    fn from(future: BoxedFuture) -> Self {
        Self(future)
    }
}
