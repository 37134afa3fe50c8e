//! The terms of the model, in the order of their subtraction.

use super::costs::{Carrier, Missing};
use super::counts::{Counts, Operation};
use crate::record::UnitCosts;

/// Operations with one cause.
#[derive(Debug, PartialEq, Eq)]
pub struct Term {
    /// The term's name in tables.
    pub name: &'static str,
    /// The term's name in a sentence: `creation is 41 % of …`.
    pub about: &'static str,
    /// The letter in bars of text.
    pub letter: char,
    /// The colour of bars on a page, from Paul Tol's "bright", "muted" and "vibrant" schemes.
    pub colour: &'static str,
    /// The operations.
    pub operations: &'static [Operation],
}

/// All terms. The first four are Demsky's own. His object inflation is left out, because nothing
/// here has it. He added the fifth for serial echo. Servers of today need the rest.
pub const TERMS: [Term; 11] = [
    Term {
        name: "creation",
        about: "processes, threads and tasks that begin",
        letter: 'C',
        colour: "#cc6677",
        operations: &[Operation::Process, Operation::Thread, Operation::Task],
    },
    Term {
        name: "switches",
        about: "turns that a loop gives to its tasks",
        letter: 'T',
        colour: "#ddaa33",
        operations: &[Operation::Turn],
    },
    Term {
        name: "locks",
        about: "locks that are taken, and waited for",
        letter: 'L',
        colour: "#117733",
        operations: &[Operation::Lock, Operation::LockWait],
    },
    Term {
        name: "conditions",
        about: "waits until another task or thread tells something",
        letter: 'N',
        colour: "#999933",
        operations: &[Operation::ConditionWait, Operation::ThreadWoken],
    },
    Term {
        name: "poller",
        about: "rounds of a loop's poller, and their events",
        letter: 'P',
        colour: "#4477aa",
        operations: &[Operation::Round, Operation::Watched, Operation::Event],
    },
    Term {
        name: "calls",
        about: "entries into the kernel, attempts in vain, registrations, options",
        letter: 'S',
        colour: "#aa4499",
        operations: &[
            Operation::Attempt,
            Operation::InVain,
            Operation::Registration,
            Operation::OtherCall,
        ],
    },
    Term {
        name: "kernel switches",
        about: "the kernel's switches to another thread or process, or to rest and back",
        letter: 'K',
        colour: "#882255",
        operations: &[Operation::KernelSwitch, Operation::Rest, Operation::Interruption],
    },
    Term {
        name: "helpers",
        about: "work that a loop gives to helper threads",
        letter: 'H',
        colour: "#44aa99",
        operations: &[Operation::Offload],
    },
    Term {
        name: "stores",
        about: "a store's file, which each process opens for itself",
        letter: 'D',
        colour: "#ee7733",
        operations: &[Operation::StoreOpened],
    },
    Term {
        name: "page faults",
        about: "pages of memory that a process or thread uses for the first time",
        letter: 'F',
        colour: "#332288",
        operations: &[Operation::PageFault],
    },
    Term {
        name: "wakes",
        about: "replies that wake a client, which sleeps on another processor",
        letter: 'W',
        colour: "#bbbbbb",
        operations: &[Operation::Wake],
    },
];

impl Term {
    /// The time that the term takes of a request, in microseconds.
    ///
    /// # Errors
    ///
    /// [`Missing`] if the unit cost of an occurring operation is unknown.
    pub(super) fn microseconds(
        &self,
        counts: &Counts,
        carrier: Carrier,
        costs: &UnitCosts,
    ) -> Result<f64, Missing> {
        let mut nanoseconds = 0.0;
        let watched = counts.watched();
        for &operation in self.operations {
            let count = counts[operation];
            // An operation that does not take place needs no price. This machine may not be able to
            // measure it.
            if count > 0.0 {
                nanoseconds += count * costs.price(operation, carrier, watched)?;
            }
        }
        Ok(nanoseconds / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_of_one_term() {
        for operation in Operation::ALL {
            let terms = TERMS.iter().filter(|term| term.operations.contains(&operation));
            assert_eq!(terms.count(), 1, "{}", operation.name());
        }
    }

    #[test]
    fn letters_and_colours_tell_terms_apart() {
        for (index, term) in TERMS.iter().enumerate() {
            for other in &TERMS[..index] {
                assert!(term.letter != other.letter && term.colour != other.colour);
            }
        }
    }
}
