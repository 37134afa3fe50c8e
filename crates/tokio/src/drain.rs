//! The drain of the process or of one server, as a runtime of tokio's learns it.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::pin;

use duality_runtime::drain;
use duality_runtime::wakeup::Wakeup;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// Tells an acceptor to stop.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the acceptor must stop.
    pub(crate) async fn requested(&mut self) {
        // Without the thread that watches for a drain, there is nothing to go on for.
        let _ = self.0.wait_for(|stops| *stops).await;
    }
}

/// Runs `body` on the runtime that this is called on, and tells it of a drain. The kernel thread
/// must be one of the server's own: a drain may concern one server alone.
///
/// # Errors
///
/// Those of `body`, and a lack of descriptors.
pub(crate) async fn told_of_drains<F>(body: impl FnOnce(Stop) -> F) -> io::Result<()>
where
    F: Future<Output = io::Result<()>>,
{
    let wakeup = AsyncFd::with_interest(Inbox(Wakeup::new()?), Interest::READABLE)?;
    let (tell, stop) = watch::channel(false);
    let mut body = pin!(body(Stop(stop)));
    tokio::select! {
        ended = body.as_mut() => return ended,
        drained = requested(&wakeup) => drained?,
    }
    tell.send_replace(true);
    body.await
}

async fn requested(wakeup: &AsyncFd<Inbox>) -> io::Result<()> {
    // A drain that was requested before there was a wakeup has sent none.
    let mut is_over = drain::requested_before_wakeup();
    while !is_over {
        wakeup.readable().await?.clear_ready();
        wakeup.get_ref().0.clear();
        is_over = drain::requested();
    }
    Ok(())
}

struct Inbox(Wakeup);

impl AsRawFd for Inbox {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
