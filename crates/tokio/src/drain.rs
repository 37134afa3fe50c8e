//! Tells a runtime of tokio of the drain of the process or of one server.

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
        // Without the thread that watches for a drain, the acceptor must stop too.
        let _ = self.0.wait_for(|stops| *stops).await;
    }
}

/// Runs `body` on the runtime that this function is called on, and tells `body` of a drain. The
/// kernel thread must belong to the server: a drain may concern one server alone.
///
/// # Errors
///
/// Returns the errors of `body`. Fails when no descriptor is left.
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
    // A drain that was requested before the wakeup existed has sent no wakeup.
    if drain::requested_before_wakeup() {
        return Ok(());
    }
    let look = || {
        wakeup.clear();
        if drain::requested() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
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
        // A dropped acceptor closes its connections, too.
        let _ = self.0.wait_for(|closes| *closes).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duality_runtime::drain::Scope;
    use tokio::time::timeout;

    use super::*;
    use crate::runtimes;

    /// A kernel thread may begin its runtime after the signal.
    #[test]
    fn a_drain_before_the_runtime_is_told() {
        let scope = Scope::new();
        scope.request();
        let drained = scope.enter(|| {
            runtimes::current_thread().unwrap().block_on(async {
                let drained = told_of_drains(async move |mut stop| {
                    stop.requested().await;
                    Ok(())
                });
                timeout(Duration::from_secs(20), drained).await
            })
        });
        drained.expect("it is told").unwrap();
    }
}
