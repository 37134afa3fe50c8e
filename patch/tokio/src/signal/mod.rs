//! Signals.

#[expect(unsafe_code, reason = "a signal's handler is installed by an unsafe call")]
mod handler;
pub mod unix;

use std::io;

/// Waits for the next Ctrl-C (SIGINT). From the first call on, the signal ends the process no
/// longer.
///
/// # Errors
///
/// If no descriptor is left.
pub async fn ctrl_c() -> io::Result<()> {
    unix::signal(unix::SignalKind::interrupt())?.recv().await;
    Ok(())
}
