//! The cost of an operation under an architecture. The cost combines unit costs of `duality model
//! --costs` so that nothing is counted twice.
//!
//! A benchmark never measures one operation alone. Starting and joining a task takes two turns as
//! well. Starting and joining a thread takes a switch of the kernel as well. But turns and switches
//! are counted, and have prices of their own. So the model subtracts them, and the rest is the
//! price of the start. No price is below zero.

use std::collections::BTreeMap;

use crate::Mistake;
use crate::record::{self, UnitCosts, World};
use serde_json::Value;

use super::counts::Operation;

/// The unit costs that a model needs, by name or group, as `duality model --costs --only` takes
/// them.
pub const NEEDED: &[&str] =
    &["spawn", "yield-2", "lock", "contended", "condition", "offload", "kernel", "poller"];

/// The numbers of descriptors with which a poller's round is measured. In each round, one of them
/// is ready.
const WATCHED: [usize; 3] = [50, 1000, 15_000];
/// The number of ready descriptors in a round of `poller-full`, which watches as many.
const FULL: f64 = 50.0;

/// A unit cost with an interval wider than this share of it counts as unknown.
const WIDEST: f64 = 0.5;

/// An unknown unit cost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the unit cost {cost} of {subject} is not known here: measure it when the machine is quieter, by `duality model --costs \
     --json`"
)]
pub struct Missing {
    cost: String,
    subject: &'static str,
}

/// The way in which an architecture carries tasks, as far as prices depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The group of unit costs for the architecture's spawns, turns, locks and conditions.
    world: World,
    /// Whether a connection has its own process, and so its own address space.
    processes: bool,
    /// Whether other kernel threads may run while one waits.
    beside_others: bool,
    /// The poller of its loops. Empty without loops.
    poller: &'static str,
}

/// The pollers with unit costs of their rounds.
const POLLERS: [&str; 4] = ["select", "poll", "epoll", "uring"];

impl Carrier {
    /// The carrier that the results name. `None` if nothing is counted, or if its poller or runtime
    /// has no unit costs.
    pub fn of(recorded: &record::Carrier) -> Option<Self> {
        if recorded.foreign.is_some() {
            return None;
        }
        let priced = |name: &str| POLLERS.into_iter().find(|poller| *poller == name);
        Some(Self {
            world: recorded.world?,
            processes: recorded.processes,
            beside_others: recorded.beside_others,
            poller: recorded.poller.as_deref().map_or(Some(""), priced)?,
        })
    }

    fn has_ring(self) -> bool {
        self.poller == "uring"
    }
}

impl UnitCosts {
    /// Reads the JSON of `duality model --costs --json`.
    ///
    /// # Errors
    ///
    /// The error, in one line.
    pub fn read(json: &Value) -> Result<Self, Mistake> {
        if json["version"] != 1 {
            return Err(
                "no unit costs of version 1: write them by `duality model --costs --json`".into()
            );
        }
        let mut all: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for row in json["costs"].as_array().into_iter().flatten() {
            let Some(cost) = row["cost"].as_str() else { continue };
            for cell in row["subjects"].as_array().into_iter().flatten() {
                let figure = cell["ns"].as_f64().filter(|ns| ns.is_finite() && *ns >= 0.0);
                // Files of earlier versions, and files of a single batch, have no interval.
                let width =
                    cell["high"].as_f64().zip(cell["low"].as_f64()).map(|(high, low)| high - low);
                let figure =
                    figure.filter(|ns| width.is_none_or(|width| width <= WIDEST * ns.max(1.0)));
                if let (Some(subject), Some(ns)) = (cell["subject"].as_str(), figure) {
                    all.entry(cost.to_owned()).or_default().insert(subject.to_owned(), ns);
                }
            }
        }
        Ok(UnitCosts(all))
    }

    /// The cost of an operation under an architecture, in nanoseconds, when its poller watches so
    /// many descriptors.
    ///
    /// # Errors
    ///
    /// [`Missing`] if one of its unit costs is unknown.
    pub fn price(
        &self,
        operation: Operation,
        carrier: Carrier,
        watched: f64,
    ) -> Result<f64, Missing> {
        let Carrier { world, poller, .. } = carrier;
        let of_world = |cost: &str| self.figure(cost, world.name());
        let kernel = |cost: &str| self.figure(cost, "kernel");
        let is_block = world == World::Block;
        let price = match operation {
            Operation::Process => kernel("kernel-process")? - kernel("kernel-switch-process")?,
            Operation::Thread => self.figure("spawn", "block")? - kernel("kernel-switch")?,
            // In the block world, a task is a thread or a process, and is counted as a thread or a
            // process.
            Operation::Task | Operation::Turn | Operation::Offload if is_block => 0.0,
            Operation::Task => of_world("spawn")? - 2.0 * of_world("yield-2")?,
            Operation::Turn => of_world("yield-2")?,
            Operation::Lock => of_world("lock")?,
            // The benchmark of this operation yields twice, and waits once.
            Operation::LockWait => {
                of_world("contended")? - of_world("lock")? - 3.0 * of_world("yield-2")?
            }
            Operation::ConditionWait if is_block => self.kernel_condition()?,
            Operation::ConditionWait => of_world("condition")? / 2.0 - of_world("yield-2")?,
            // A pool's threads are kernel threads in every world.
            Operation::ThreadWoken => self.kernel_condition()?,
            // Nothing polls, and nothing is registered.
            Operation::Round | Operation::Watched | Operation::Event if is_block => 0.0,
            Operation::Registration if is_block => 0.0,
            // The price of a round without descriptors. `Watched` has the price of descriptors.
            Operation::Round => self.round(poller, 0.0)? - self.event(poller)?,
            Operation::Watched if watched <= 0.0 => 0.0,
            Operation::Watched => {
                (self.round(poller, watched)? - self.round(poller, 0.0)?) / watched
            }
            Operation::Event => self.event(poller)?,
            Operation::Registration if poller == "epoll" => kernel("kernel-register")?,
            Operation::Registration => 0.0,
            // A ring's attempts look into memory, and the system call of a ring is the round.
            Operation::Attempt | Operation::InVain if carrier.has_ring() => 0.0,
            Operation::Attempt => kernel("kernel-call")?,
            Operation::InVain => kernel("kernel-in-vain")? - kernel("kernel-call")?,
            Operation::OtherCall if is_block => kernel("kernel-poll")?,
            Operation::OtherCall => kernel("kernel-call")?,
            Operation::StoreOpened => kernel("kernel-store")?,
            Operation::PageFault => kernel("kernel-fault")?,
            // On a machine of one processor, no other one sleeps.
            Operation::Wake => kernel("kernel-wake").unwrap_or(0.0),
            Operation::Rest => self.rest(carrier)?,
            Operation::KernelSwitch => self.switch(carrier)?,
            // If a task waits alone, its wake-up interrupts no other task.
            Operation::Interruption if !carrier.beside_others => self.rest(carrier)?,
            Operation::Interruption => self.interruption(carrier)?,
            // The kernel switches there and back, and then a round reports the event to the loop.
            Operation::Offload => {
                of_world("offload")?
                    - of_world("yield-2")?
                    - 2.0 * kernel("kernel-switch")?
                    - self.round("epoll", 1.0)?
            }
        };
        Ok(price.max(0.0))
    }

    /// A kernel thread's wait at a condition variable, without the switch.
    fn kernel_condition(&self) -> Result<f64, Missing> {
        Ok(self.figure("condition", "block")? / 2.0 - self.figure("kernel-switch", "kernel")?)
    }

    /// A switch of the kernel to another process or thread that carries tasks.
    fn switch(&self, carrier: Carrier) -> Result<f64, Missing> {
        let cost = if carrier.processes { "kernel-switch-process" } else { "kernel-switch" };
        self.figure(cost, "kernel")
    }

    /// A wait after which the processor rests. If there are other tasks, the next task to run is
    /// another one. On a machine of one processor, no other processor wakes it.
    fn rest(&self, carrier: Carrier) -> Result<f64, Missing> {
        let switch = self.switch(carrier)?;
        let beyond = switch - self.figure("kernel-switch", "kernel")?;
        Ok(self.figure("kernel-rest", "kernel").map_or(switch, |rest| rest + beyond.max(0.0)))
    }

    /// A wait that ends with the interruption of another task. With one processor, there is no such
    /// interruption.
    fn interruption(&self, carrier: Carrier) -> Result<f64, Missing> {
        let switch = self.switch(carrier)?;
        let thread = self.figure("kernel-switch", "kernel")?;
        let woken = self.figure("kernel-woken", "kernel").unwrap_or(thread);
        Ok(switch + (woken - thread).max(0.0))
    }

    /// The price of a round with one event. Prices are interpolated between measured rounds, and
    /// extrapolated from the last two.
    fn round(&self, poller: &'static str, watched: f64) -> Result<f64, Missing> {
        let at = |count: usize| self.figure(&format!("poller-{count}"), poller);
        let [few, some, many] = WATCHED;
        // Some machines do not allow 15,000 descriptors.
        let (from, to) = match watched > some as f64 && at(many).is_ok() {
            true => (some, many),
            false => (few, some),
        };
        let share = (watched - from as f64) / (to as f64 - from as f64);
        Ok((at(from)? + (at(to)? - at(from)?) * share).max(0.0))
    }

    /// A further event of a round.
    fn event(&self, poller: &'static str) -> Result<f64, Missing> {
        let full = self.figure("poller-full", poller)?;
        let one = self.figure("poller-50", poller)?;
        Ok(((full - one) / (FULL - 1.0)).max(0.0))
    }

    fn figure(&self, cost: &str, subject: &'static str) -> Result<f64, Missing> {
        let found = self.0.get(cost).and_then(|subjects| subjects.get(subject));
        found.copied().ok_or_else(|| Missing { cost: cost.to_owned(), subject })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Unit costs such that every price is a round number.
    pub(in crate::model) fn round_costs() -> UnitCosts {
        let mut all = vec![
            ("spawn", "block", 9_000.0),
            ("lock", "block", 20.0),
            ("contended", "block", 3_020.0),
            ("yield-2", "block", 500.0),
            ("condition", "block", 4_000.0),
            ("kernel-call", "kernel", 100.0),
            ("kernel-poll", "kernel", 200.0),
            ("kernel-in-vain", "kernel", 300.0),
            ("kernel-register", "kernel", 800.0),
            ("kernel-switch", "kernel", 1_000.0),
            ("kernel-switch-process", "kernel", 1_500.0),
            ("kernel-process", "kernel", 81_500.0),
            ("kernel-fault", "kernel", 500.0),
            ("kernel-store", "kernel", 300_000.0),
            ("kernel-wake", "kernel", 4_000.0),
            ("kernel-woken", "kernel", 3_000.0),
        ];
        for world in ["park", "suspend", "reactor"] {
            all.extend([
                ("spawn", world, 200.0),
                ("yield-2", world, 50.0),
                ("lock", world, 20.0),
                ("contended", world, 200.0),
                ("condition", world, 120.0),
                ("offload", world, 5_000.0),
            ]);
        }
        for poller in POLLERS {
            all.extend([
                ("poller-50", poller, 500.0),
                ("poller-1000", poller, 1_450.0),
                ("poller-15000", poller, 15_450.0),
                ("poller-full", poller, 5_400.0),
            ]);
        }
        UnitCosts::from(all)
    }

    /// The carrier of an architecture.
    pub(in crate::model) fn carrier(name: &str, arguments: &[String]) -> Option<Carrier> {
        Carrier::of(&record::Carrier::in_older_results(name, arguments)?)
    }

    fn price(operation: Operation, architecture: &str, watched: f64) -> f64 {
        let carrier = carrier(architecture, &[]).unwrap();
        round_costs().price(operation, carrier, watched).unwrap()
    }

    #[test]
    fn what_is_counted_elsewhere_is_taken_off() {
        assert_eq!(price(Operation::Thread, "threads", 50.0), 8_000.0);
        assert_eq!(price(Operation::Process, "fork", 50.0), 80_000.0);
        assert_eq!(price(Operation::Task, "epoll", 50.0), 100.0);
        assert_eq!(price(Operation::Task, "threads", 50.0), 0.0);
        assert_eq!(price(Operation::KernelSwitch, "prefork", 50.0), 1_500.0);
        assert_eq!(price(Operation::LockWait, "threads", 50.0), 1_500.0);
        assert_eq!(price(Operation::Interruption, "threads", 50.0), 3_000.0);
        assert_eq!(price(Operation::Interruption, "prefork", 50.0), 3_500.0);
        assert_eq!(price(Operation::Interruption, "iterative", 50.0), 1_000.0);
        assert_eq!(price(Operation::ThreadWoken, "uthreads", 50.0), 1_000.0);
        assert_eq!(price(Operation::Attempt, "uring", 50.0), 0.0);
    }

    #[test]
    fn a_round_costs_more_the_more_are_watched() {
        for (watched, ns) in [(50.0, 400.0), (525.0, 875.0), (1000.0, 1350.0), (8000.0, 8350.0)] {
            let all = price(Operation::Round, "poll", watched)
                + watched * price(Operation::Watched, "poll", watched);
            assert!((all - ns).abs() < 1e-6, "{watched}");
        }
    }

    #[test]
    fn architectures_without_counts_have_no_prices() {
        for name in ["handwritten", "nginx", ""] {
            assert_eq!(carrier(name, &[]), None);
        }
        let chosen = carrier("uthreads", &["--poller=poll".into()]).unwrap();
        assert_eq!(chosen.poller, "poll");
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = UnitCosts::default();
        let carrier = carrier("threads", &[]).unwrap();
        let missing = none.price(Operation::Thread, carrier, 1.0).unwrap_err().to_string();
        assert!(missing.contains("spawn of block") && missing.lines().count() == 1, "{missing}");
    }

    #[test]
    fn the_json_of_costs_is_read_whatever_else_is_in_it() {
        let json = json!({ "version": 1, "costs": [
            { "cost": "lock", "unit": "ns", "subjects": [
                { "subject": "park", "ns": 12.5, "batches": [12.5] },
                { "subject": "go", "unavailable": "not built" },
            ]},
            { "cost": "memory", "unit": "bytes", "subjects": [{ "subject": "park", "bytes": 4096 }] },
            "nonsense",
        ]});
        assert_eq!(UnitCosts::read(&json).unwrap(), UnitCosts::from([("lock", "park", 12.5)]));
        assert!(UnitCosts::read(&json!([])).unwrap_err().to_string().contains("--costs --json"));
    }
}
