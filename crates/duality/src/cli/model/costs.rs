//! Unit costs: the table of `--costs`, and those that a model needs.

use std::thread;
use std::time::Duration;

use duality_costs::run::{self, Effort, Peers, Plan};
use duality_costs::{ALL, Cost, Trouble, measure, table};
use duality_lab::model::{NEEDED, UnitCosts};

use super::super::{Failure, print};
use super::Arguments;

/// How well a model's unit costs are measured: in about ten seconds.
pub(super) const EFFORT: Effort =
    Effort { batches: 7, batch: Duration::from_millis(10), memory_batches: 0, parked: 0 };

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let peers = match &arguments.peers {
        Some(folder) if !folder.is_dir() => {
            let folder = folder.display();
            return Err(Failure::misuse(format!(
                "--peers: {folder} is no directory; `cargo xtask peers` makes target/peers"
            )));
        }
        Some(folder) => Peers::In(folder.clone()),
        None => Peers::Built,
    };
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let plan = plan(chosen(arguments.only.as_deref())?, effort, peers)?;
    run::pin();
    let (mut done, all) = (0, plan.costs.len());
    let rows = run::run(&plan, |name| {
        done += 1;
        eprintln!("measuring {name} ({done} of {all})");
    });
    if arguments.json {
        return print(&table::json(&rows).to_string());
    }
    print(&table::text(&rows))
}

/// Measures the unit costs that a model is made of; by [`Effort::QUICK`] in some two seconds, so that a comparison can do
/// it at its end.
///
/// # Errors
///
/// When this program cannot be found, to be started again.
pub(in crate::cli) fn unit_costs(effort: Effort) -> Result<UnitCosts, Failure> {
    eprintln!("measuring unit costs");
    let is_needed = |cost: &&Cost| NEEDED.iter().any(|needed| cost.is_called(needed));
    let plan = plan(ALL.iter().filter(is_needed).collect(), effort, Peers::Nobody)?;
    // A kernel thread of its own, for it is bound to one processor, and what follows is not.
    let rows = thread::scope(|scope| {
        let measured = scope.spawn(|| {
            run::pin();
            run::run(&plan, |_| {})
        });
        measured.join().expect("measuring does not panic")
    });
    UnitCosts::read(&table::json(&rows)).map_err(Failure::failed)
}

fn plan(costs: Vec<&'static Cost>, effort: Effort, peers: Peers) -> Result<Plan, Failure> {
    let executable = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let own = vec![executable.into(), "model".into(), "--measure".into()];
    Ok(Plan { costs, effort, own, peers })
}

/// The costs that `only` names, in the order of the table; all of them without it.
fn chosen(only: Option<&[String]>) -> Result<Vec<&'static Cost>, Failure> {
    let Some(only) = only else { return Ok(ALL.iter().collect()) };
    if let Some(name) = only.iter().find(|name| !ALL.iter().any(|cost| cost.is_called(name))) {
        let mut groups: Vec<&str> = ALL.iter().map(Cost::group).collect();
        groups.dedup();
        let groups = groups.join(", ");
        return Err(Failure::misuse(format!(
            "--only: there is no cost `{name}`: choose of {groups}"
        )));
    }
    Ok(ALL.iter().filter(|cost| only.iter().any(|name| cost.is_called(name))).collect())
}

/// Measures in this process, and prints the line.
pub(super) fn answer(question: &[String]) -> Result<(), Failure> {
    let [subject, cost, count] = question else {
        return Err(Failure::misuse("--measure takes a subject, a cost and a count"));
    };
    let count: u64 = count
        .parse()
        .map_err(|_| Failure::misuse(format!("--measure: `{count}` is no number of times")))?;
    match measure(subject, cost, count) {
        Ok(reading) => print(&reading.line(cost)),
        Err(Trouble::Unavailable(why)) => print(&format!("unavailable {why}")),
        Err(unknown) => Err(Failure::misuse(format!("--measure: {unknown}"))),
    }
}
