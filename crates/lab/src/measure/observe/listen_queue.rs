//! Finds out whether the listen queue, and not the server, was the limit of a cell.
//!
//! ```text
//! client: connect ──SYN──▶ queue of the listener: at most the backlog, and one ──accept──▶ server
//!            ▲                      │ full: the kernel drops the SYN and says nothing
//!            └── again after 1, 3, 7 … s (RFC 6298) ◀─┘
//! ```
//!
//! If the queue is the limit, most connections wait for a timer of the client's kernel, and only a
//! few make requests. Kerneis & Chroboczek found this effect in 2009. The measured load of their
//! servers stayed near 130 at any offered load, because `somaxconn` was 128. The median latency
//! does not show the effect, and the mean becomes irregular.
//!
//! `length` asks the kernel how long the queue is, for any server. `judge` is the diagnosis, a
//! function of figures alone.

use std::net::SocketAddr;

use duality_load::{Listeners, Report};

use crate::format::{connections, grouped};
use crate::record::ListenQueue;

/// If anything was dropped, a retransmission held up each request that took this long. Linux waits
/// at least this long before a retransmission. Kerneis's outliers were those of "200 ms or more".
const PAUSE_US: f64 = 200_000.0;

/// The figures of a cell that the diagnosis uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// The number of connections that were to be open at once.
    pub(crate) offered: usize,
    /// Whether a connection carries several requests, one after another.
    pub(crate) keep_alive: bool,
    /// As in [`ListenQueue`].
    pub(crate) length: u64,
    /// As in [`ListenQueue`].
    pub(crate) prompt_load: f64,
    /// The median latency in microseconds.
    pub(crate) median_us: f64,
    /// Connection requests that the kernel dropped at a full queue.
    pub(crate) overflows: u64,
}

/// Whether the queue was the limit. All these conditions must hold:
///
/// - Each request has a connection of its own. Where connections stay, nothing empties a full
///   queue, and a longer queue would not empty either.
///
/// - Most connections are missing: neither in service nor in the queue.
///
/// - The missing connections wait for a retransmission: each has been dropped at least once. Most
///   requests are quick, so the server is not slow.
pub(crate) fn judge(figures: &Figures) -> bool {
    let Figures { offered, keep_alive, length, prompt_load, median_us, overflows } = *figures;
    let offered = offered as f64;
    // The kernel admits one connection more than the backlog.
    let missing = offered - prompt_load.max(length as f64 + 1.0);
    !keep_alive && missing > offered / 2.0 && overflows as f64 >= missing && median_us < PAUSE_US
}

/// The queue of a cell with this `report`, at `address`. `None` if the kernel does not report the
/// queue's length.
pub(crate) fn examine(report: &Report, length: Option<u64>) -> Option<ListenQueue> {
    let latencies = report.latencies().ok()?;
    let prompt = latencies.iter_recorded().map(|recorded| {
        let nanoseconds = recorded.value_iterated_to() as f64;
        let is_prompt = nanoseconds < PAUSE_US * 1e3;
        if is_prompt { nanoseconds * recorded.count_since_last_iteration() as f64 } else { 0.0 }
    });
    let figures = Figures {
        offered: report.connections,
        keep_alive: report.keep_alive,
        length: length?,
        prompt_load: prompt.sum::<f64>() / 1e9 / report.window_seconds,
        median_us: report.latency_us.p50,
        overflows: report.listen_overflows,
    };
    let Figures { length, prompt_load, .. } = figures;
    // In an open loop, few connections in use prove nothing.
    let was_limit = report.open_loop.is_none() && prompt_load.is_finite() && judge(&figures);
    Some(ListenQueue { length, prompt_load, was_limit })
}

impl ListenQueue {
    /// The diagnosis in words, if the queue was the limit. `is_peer` chooses the remedy.
    pub(crate) fn warning(&self, report: &Report, is_peer: bool) -> Option<String> {
        let remedy = if is_peer { "the backlog of its configuration" } else { "--backlog" };
        self.was_limit.then(|| {
            format!(
                "The listen queue is the limit: the measured load, but for what a dropped connection held up, is stuck \
                 at {:.0} of {}, where the queue holds {}; the kernel dropped {} connection requests during the run. \
                 Raise {remedy} (and net.core.somaxconn).",
                self.prompt_load.max(1.0),
                connections(report.connections),
                grouped(self.length as f64),
                grouped(report.listen_drops.max(report.listen_overflows) as f64),
            )
        })
    }
}

/// The length of the queue of the listener at `address`, as the kernel reports it. If several
/// listeners share a port, the sum of their queues. `None` if the kernel does not report it.
pub(crate) fn length(address: SocketAddr) -> Option<u64> {
    Listeners::at(address).ok().map(|listeners| listeners.queue).filter(|length| *length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand clients without keep-alive and a queue of ten, as measured.
    const STUCK: Figures = Figures {
        offered: 1000,
        keep_alive: false,
        length: 10,
        prompt_load: 4.2,
        median_us: 478.0,
        overflows: 7353,
    };

    #[test]
    fn a_queue_of_ten_is_the_limit_of_a_thousand_connections() {
        assert!(judge(&STUCK));
        assert!(judge(&Figures { offered: 100, overflows: 617, ..STUCK }));
        assert!(judge(&Figures { prompt_load: 11.0, ..STUCK }));
        // Kerneis's figures, before tuning.
        assert!(judge(&Figures { length: 128, prompt_load: 130.0, median_us: 50e3, ..STUCK }));
    }

    #[test]
    fn it_is_not_the_limit_without_each_of_the_signs() {
        for (sign, figures) in [
            ("nothing was dropped", Figures { overflows: 0, ..STUCK }),
            ("a few were dropped, and hundreds are missing", Figures { overflows: 300, ..STUCK }),
            ("all can wait in the queue", Figures { length: 4096, ..STUCK }),
            ("most are in service", Figures { prompt_load: 700.0, ..STUCK }),
            ("the server is slow", Figures { median_us: 3e6, ..STUCK }),
            ("its places are the limit", Figures { keep_alive: true, ..STUCK }),
            ("nothing more was offered", Figures { offered: 10, ..STUCK }),
        ] {
            assert!(!judge(&figures), "{sign}");
        }
    }
}
