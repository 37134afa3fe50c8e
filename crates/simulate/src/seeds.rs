//! Many seeds of one test: runs them, checks that each is determined, and tells a failure.

use std::fmt;
use std::future::Future;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::apart;
use crate::decisions::first_difference;
use crate::driver::{self, Outcome, Plan};
use crate::faults::{Counts, Faults};
use crate::net::{Ending, Net};
use crate::outside;
use crate::shared::{Task, Waits};
use crate::shrink::{self, Shrunk};
use crate::violation::Violation;

/// The seeds `range` of a test, such as `0..500`. See the [crate](crate) for an example.
///
/// The environment variable `DUALITY_SEED` has one seed run, and `DUALITY_SEEDS` so many.
///
/// # Panics
///
/// If the range has no seed: such a test cannot fail.
#[must_use = "call run"]
pub fn seeds(range: impl RangeBounds<u64>) -> Seeds {
    let first = match range.start_bound() {
        Bound::Included(&first) => Some(first),
        Bound::Excluded(&before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let last = match range.end_bound() {
        Bound::Included(&last) => Some(last),
        Bound::Excluded(&after) => after.checked_sub(1),
        Bound::Unbounded => Some(u64::MAX),
    };
    let range = first.zip(last).filter(|(first, last)| first <= last);
    let (first, last) = range.expect("seeds: the range has no seed, so the test cannot fail");
    Seeds {
        first,
        count: (last - first).saturating_add(1),
        plan: Plan {
            seed: 0,
            faults: Faults::ALL,
            waits: Waits::Suspend,
            limit: Duration::from_secs(24 * 3600),
            turns: 2_000_000,
            script: None,
            keeps: false,
            tells: None,
            is_apart: false,
            worker: 0,
        },
        check: Check::Twice,
        again: Arc::new(|seed| format!("DUALITY_SEED={seed}, with the same cargo test")),
        is_shrunk: true,
        watch: None,
    }
}

/// How the determinism of a seed is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Never,
    /// A second run must take the same decisions and send the same bytes.
    Twice,
    /// So must a run with the other form of waiting.
    BothWaits,
}

/// The seeds of a test, and how they are run.
#[must_use = "call run"]
pub struct Seeds {
    first: u64,
    count: u64,
    plan: Plan,
    check: Check,
    again: Arc<dyn Fn(u64) -> String + Send + Sync>,
    is_shrunk: bool,
    watch: Option<Arc<dyn Fn(u64) + Send + Sync>>,
}

impl fmt::Debug for Seeds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, count, .. } = self;
        let mut shown = formatter.debug_struct("Seeds");
        shown.field("first", first).field("count", count).finish_non_exhaustive()
    }
}

/// What came of seeds that all passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// The number of seeds.
    pub seeds: u64,
    /// The virtual time of all simulations together, those of checks included.
    pub time: Duration,
    /// What happened, of one simulation for each seed.
    pub counts: Counts,
    /// All hashes in one, which is the same wherever the seeds are run.
    pub hash: u64,
}

/// A seed that failed.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The virtual time of the failure.
    pub time: Duration,
    /// Why it failed, in one line.
    pub why: String,
    /// The failure made small.
    pub shrunk: Option<Shrunk>,
    again: String,
}

type Test = Arc<dyn Fn(Net) -> Task + Send + Sync>;

fn boxed<F, T>(test: T) -> Test
where
    T: Fn(Net) -> F + Send + Sync + 'static,
    F: Future<Output: Ending> + 'static,
{
    let test = Arc::new(test);
    Arc::new(move |net| {
        let test = test.clone();
        Box::pin(async move { test(net).await.into_result() })
    })
}

impl Seeds {
    /// Limits the virtual time of a seed (a day otherwise). A seed that reaches it fails.
    pub fn lasting(mut self, limit: Duration) -> Self {
        self.plan.limit = limit;
        self
    }

    /// Limits the turns of a seed (two million otherwise). A seed that reaches them fails.
    pub fn turns(mut self, most: u64) -> Self {
        self.plan.turns = most;
        self
    }

    /// Sets which faults seeds may have.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.plan.faults = faults;
        self
    }

    /// Sets how the tasks of [`Net::host`] wait.
    pub fn waits(mut self, waits: Waits) -> Self {
        self.plan.waits = waits;
        self
    }

    /// Runs each seed once, without the check of determinism.
    pub fn once(mut self) -> Self {
        self.check = Check::Never;
        self
    }

    /// Runs each seed with both forms of waiting, which must take the same decisions.
    pub fn in_both_waits(mut self) -> Self {
        self.check = Check::BothWaits;
        self
    }

    /// Runs each simulation in a process of its own, so that static variables begin anew. Programs
    /// on the crate named tokio need it: the genuine tokio counts in one.
    pub fn apart(mut self) -> Self {
        self.plan.is_apart = true;
        self
    }

    /// Leaves a failing seed as it is.
    pub fn unshrunk(mut self) -> Self {
        self.is_shrunk = false;
        self
    }

    /// Sets the line that a failure tells the user to type.
    pub fn again(mut self, line: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        self.again = Arc::new(line);
        self
    }

    /// Calls `watch` after each seed that passes, with the number of seeds that have passed. Seeds
    /// run on several kernel threads, and so does `watch`.
    pub fn watched(mut self, watch: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Runs `test` with each seed.
    ///
    /// # Panics
    ///
    /// With the story of the first seed that fails. Also inside of a simulation, if `DUALITY_SEED`
    /// or `DUALITY_SEEDS` is no number, and if the latter is 0.
    pub fn run<F, T>(self, test: T) -> Tally
    where
        T: Fn(Net) -> F + Send + Sync + 'static,
        F: Future<Output: Ending> + 'static,
    {
        self.try_run(test).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// As [`run`](Self::run), with the failure as a value.
    ///
    /// # Errors
    ///
    /// The first seed that fails.
    pub fn try_run<F, T>(mut self, test: T) -> Result<Tally, Box<Failure>>
    where
        T: Fn(Net) -> F + Send + Sync + 'static,
        F: Future<Output: Ending> + 'static,
    {
        let test = boxed(test);
        let inside = "a simulation inside another: run it from a thread that simulates nothing";
        assert!(outside::elapsed().is_none(), "{inside}");
        if let Some(seed) = number("DUALITY_SEED") {
            (self.first, self.count) = (seed, 1);
        } else if let Some(count) = number("DUALITY_SEEDS") {
            assert!(count > 0, "DUALITY_SEEDS: no seed is run with 0");
            self.count = count.min((u64::MAX - self.first).saturating_add(1));
        }
        let (tally, failed) = self.run_all(&test);
        match failed {
            None => Ok(tally),
            Some((seed, bad)) => Err(Box::new(self.tell(seed, bad, &test))),
        }
    }

    /// One seed, told: its lines, and its failure if it fails. `with_decisions`, each decision that
    /// is not tame is a line too.
    ///
    /// # Errors
    ///
    /// The failure, as it is.
    pub fn trace<F, T>(
        &self,
        seed: u64,
        with_decisions: bool,
        test: T,
    ) -> (Vec<String>, Result<(), Violation>)
    where
        T: Fn(Net) -> F + Send + Sync + 'static,
        F: Future<Output: Ending> + 'static,
    {
        let test = boxed(test);
        let plan = Plan { seed, tells: Some(with_decisions), ..self.plan.clone() };
        let outcome = simulate(&plan, &test);
        (outcome.story, outcome.failure.map_or(Ok(()), |why| Err(why.into())))
    }

    fn run_all(&self, test: &Test) -> (Tally, Option<(u64, Bad)>) {
        let next = AtomicU64::new(0);
        let end = AtomicU64::new(self.count);
        let found: Mutex<(Tally, Option<(u64, Bad)>)> = Mutex::default();
        let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        thread::scope(|scope| {
            let (next, end, found) = (&next, &end, &found);
            for worker in 0..workers {
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= end.load(Ordering::Relaxed) {
                            return;
                        }
                        let plan = Plan { seed: self.first + index, worker, ..self.plan.clone() };
                        let outcome = self.run_one(&plan, test);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        match outcome {
                            Ok(tally) => {
                                found.0.add(&tally);
                                self.watch.iter().for_each(|watch| watch(found.0.seeds));
                            }
                            Err(bad) => {
                                end.fetch_min(index, Ordering::Relaxed);
                                if found.1.as_ref().is_none_or(|(other, _)| plan.seed < *other) {
                                    found.1 = Some((plan.seed, bad));
                                }
                            }
                        }
                    }
                });
            }
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_one(&self, plan: &Plan, test: &Test) -> Result<Tally, Bad> {
        let outcome = simulate(plan, test);
        if let Some(why) = outcome.failure {
            return Err(Bad::Fails { why, time: outcome.time });
        }
        let mut tally = Tally {
            seeds: 1,
            time: outcome.time,
            counts: outcome.counts,
            hash: outcome.hash.rotate_left((plan.seed % 64) as u32),
        };
        let other = match self.check {
            Check::Never => return Ok(tally),
            Check::Twice => plan.clone(),
            Check::BothWaits => Plan { waits: Waits::Park, ..plan.clone() },
        };
        let second = simulate(&other, test);
        tally.time += second.time;
        if second.hash == outcome.hash && second.failure.is_none() {
            return Ok(tally);
        }
        // Again, with all decisions kept, to find the first difference.
        let keep = |plan: &Plan| simulate(&Plan { keeps: true, ..plan.clone() }, test);
        let (one, two) = (keep(plan), keep(&other));
        let runs = match self.check {
            Check::BothWaits => "state machines and stacks take different decisions",
            _ => "two runs of one seed differ: something outside of the simulation decides",
        };
        let first = first_difference(&one.kept, &two.kept);
        let failure = two.failure.map_or(String::new(), |why| format!("; the second fails: {why}"));
        Err(Bad::Differs { why: format!("{runs}; {first}{failure}"), time: one.time })
    }

    /// Makes a failure small, and tells it.
    fn tell(&self, seed: u64, bad: Bad, test: &Test) -> Failure {
        let again = (self.again)(seed);
        match bad {
            Bad::Differs { why, time } => Failure { seed, time, why, shrunk: None, again },
            Bad::Fails { why, time } => {
                let plan = Plan { seed, ..self.plan.clone() };
                let run = |plan: &Plan| simulate(plan, test);
                let shrunk = self.is_shrunk.then(|| shrink::shrink(&plan, &why, run));
                Failure { seed, time, why, shrunk, again }
            }
        }
    }
}

enum Bad {
    Fails { why: String, time: Duration },
    Differs { why: String, time: Duration },
}

/// The number in an environment variable.
///
/// # Panics
///
/// If it is none.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} is no number of a seed")))
}

/// Runs a simulation on a kernel thread of its own, since `std` numbers the hash maps of a thread.
fn simulate(plan: &Plan, test: &Test) -> Outcome {
    // Before a fork: the child would wait for ever if another thread panics meanwhile.
    outside::keep_panics();
    match plan.is_apart {
        true => apart::run(|| simulate_here(plan, test)),
        false => simulate_here(plan, test),
    }
}

fn simulate_here(plan: &Plan, test: &Test) -> Outcome {
    let (plan, test) = (plan.clone(), test.clone());
    let simulation = thread::Builder::new().name("simulation".into()).stack_size(4 << 20);
    let started = simulation.spawn(move || driver::run(&plan, move |net| test(net)));
    let joined = started.expect("this machine has room for one more thread").join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.time += other.time;
        self.counts.add(&other.counts);
        // The order in which seeds end differs.
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, time, why, shrunk, again } = self;
        writeln!(formatter, "seed {seed} fails after {:.3} s: {why}", time.as_secs_f64())?;
        if let Some(shrunk) = shrunk {
            write!(formatter, "{shrunk}")?;
        }
        write!(formatter, "again: {again}")
    }
}

impl std::error::Error for Failure {}
