//! The drain of the process or of one server, as a runtime of tokio's learns it.

use std::future::Future;
use std::io;
use std::pin::pin;

use duality_runtime::drain;
use duality_runtime::wakeup::Wakeup;
use tokio::sync::watch;

use crate::readable::Readable;

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
    let wakeup = Wakeup::new()?;
    let readable = Readable::watch(&wakeup)?;
    let (tell, stop) = watch::channel(false);
    let mut body = pin!(body(Stop(stop)));
    tokio::select! {
        ended = body.as_mut() => return ended,
        drained = requested(&wakeup, &readable) => drained?,
    }
    tell.send_replace(true);
    body.await
}

async fn requested(wakeup: &Wakeup, readable: &Readable) -> io::Result<()> {
    // A drain that was requested before there was a wakeup has sent none.
    let mut is_over = drain::requested_before_wakeup();
    let look = || {
        wakeup.clear();
        match std::mem::replace(&mut is_over, false) || drain::requested() {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    };
    readable.attempt(look).await
}

/// Tells a connection that it must close.
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    pub(crate) fn new(is_closing: watch::Receiver<bool>) -> Self {
        Self(is_closing)
    }

    /// Waits until the connection must close.
    pub(crate) async fn requested(mut self) {
        // A door that has gone closes its connections, too.
        let _ = self.0.wait_for(|closes| *closes).await;
    }
}
