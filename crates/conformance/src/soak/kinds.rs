//! The registry of the ways in which a client behaves, with the weight of each in the random
//! choice.

use std::io;

use super::client::Client;
use super::{Result, faults, right};

/// A way in which a client behaves.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The weight of the kind in the random choice.
    weight: u64,
    act: Act,
}

enum Act {
    /// A right request. The client checks the reply, and an error is a finding.
    Right(fn(&mut Client<'_>) -> Result),
    /// A fault of the client. Its connection may end in any way.
    Fault(fn(&mut Client<'_>) -> io::Result<()>),
}

use Act::{Fault, Right};

/// Every kind: first the right requests, then the faults.
pub(super) const ALL: &[Kind] = &[
    kind("kept alive", 16, Right(right::kept_alive)),
    kind("half close after a request", 8, Right(right::half_closed)),
    kind("pipelined", 8, Right(right::pipelined)),
    kind("in pieces", 8, Right(right::in_pieces)),
    kind("burst of 200", 1, Right(right::burst)),
    kind("left at once", 4, Fault(faults::leave_at_once)),
    kind("silent", 2, Fault(faults::silent)),
    kind("reset before a request", 4, Fault(faults::reset_before)),
    kind("reset within a request", 6, Fault(faults::reset_within)),
    kind("reset after a request", 6, Fault(faults::reset_after)),
    kind("reset within a reply", 6, Fault(faults::reset_in_reply)),
    kind("half close within a request", 4, Fault(faults::half_close_within)),
    kind("garbage", 5, Fault(faults::garbage)),
    kind("head too large", 2, Fault(faults::head_too_large)),
    kind("body too large", 2, Fault(faults::body_too_large)),
    kind("slow reader", 2, Fault(faults::slow_reader)),
    kind("reads nothing", 2, Fault(faults::reads_nothing)),
];

const fn kind(name: &'static str, weight: u64, act: Act) -> Kind {
    Kind { name, weight, act }
}

/// Behaves in one way after the other, until the round is over.
pub(super) fn run(client: &mut Client<'_>) {
    let weights: u64 = ALL.iter().map(|kind| kind.weight).sum();
    while !client.scene.is_over() {
        let mut drawn = client.random.below(weights);
        let chosen = ALL.iter().position(|kind| match drawn.checked_sub(kind.weight) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        let chosen = chosen.expect("what is drawn is less than all weights");
        match ALL[chosen].act {
            Right(act) => match act(client) {
                Ok(()) => {}
                Err(finding) => client.scene.find(finding.at(ALL[chosen].name)),
            },
            Fault(act) => drop(act(client)),
        }
        // A fault at a server that is about to end, or has ended, proves nothing.
        if !client.scene.is_draining() {
            client.scene.count(chosen);
        }
    }
}

/// The numbers of right requests and of faults among `counts`, which are in the order of [`ALL`].
pub(super) fn right_and_faults(counts: &[u64]) -> (u64, u64) {
    let sum = |is_right: bool| {
        let of_one = |(kind, count): (&Kind, &u64)| {
            if matches!(kind.act, Right(_)) == is_right { *count } else { 0 }
        };
        ALL.iter().zip(counts).map(of_one).sum()
    };
    (sum(true), sum(false))
}
