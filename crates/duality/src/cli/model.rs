//! `duality model`: what tasks cost in each world, and beside other packages.

use std::path::PathBuf;

use duality_costs::run::{self, Effort, Plan};
use duality_costs::{ALL, Cost, Trouble, measure, table};

use super::{Failure, print};

#[derive(clap::Args)]
#[command(after_help = "\
Costs, in ns each; memory in bytes for each task:
  spawn       a task that does nothing: started, run and joined
  switch      a round trip: two tasks wake each other, and wait
  yield       letting another task run, with 2 tasks (yield-2) and 1,000 (yield-1000)
  lock        a lock that nobody else wants
  contended   a lock that goes to and fro between two tasks, each of which waits while it has it
  condition   a round trip: two tasks tell each other by a condition
  call        a plain call (call-plain), and one of an async function that need not wait (call-converted)
  poller      a round of select, poll, … with 50, 1,000 and 15,000 registered, of which one is ready
  memory      a parked task

Columns: block (kernel threads), park (user-level threads) and suspend (state machines) are ours. The peers (State
Threads, GNU Pth, pthreads, Go) are there once `cargo xtask peers` has built them. All is measured on one
processor, in batches that alternate between the columns; a figure has half of its 95 % interval beside it. Ratios
of one run mean more than figures of two: a machine's speed changes.

Examples:
  duality model --costs                     the whole table, in about two minutes
  duality model --costs --quick             a look, in some seconds
  duality model --costs --only switch,spawn
  duality model --costs --json > costs.json")]
pub(super) struct Arguments {
    /// Measure the unit costs that a model is made of
    #[arg(long)]
    costs: bool,
    /// Measure only these, by name or group, such as switch,yield-2,poller
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", requires = "costs")]
    only: Option<Vec<String>>,
    /// Measure briefly: for a look, not for figures
    #[arg(long, requires = "costs")]
    quick: bool,
    /// Where the peers' programs are [default: target/peers, where `cargo xtask peers` puts them]
    #[arg(long, value_name = "DIR", requires = "costs")]
    peers: Option<PathBuf>,
    /// Print JSON (format version 1)
    #[arg(long, requires = "costs")]
    json: bool,
    /// Answer for one of our own subjects, as a peer's program does (peers/README.md)
    #[arg(long, hide = true, num_args = 3, value_names = ["SUBJECT", "COST", "COUNT"])]
    measure: Option<Vec<String>>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(question) = &arguments.measure {
        return answer(question);
    }
    if !arguments.costs {
        return Err(Failure::misuse(
            "a model fitted to an experiment comes with a later version; `duality model --costs` measures the unit costs that it will stand on",
        ));
    }
    if let Some(folder) = arguments.peers.as_ref().filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(Failure::misuse(format!(
            "--peers: {folder} is no directory; `cargo xtask peers` makes target/peers"
        )));
    }
    let executable = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let plan = Plan {
        costs: chosen(arguments.only.as_deref())?,
        effort: if arguments.quick { Effort::QUICK } else { Effort::FULL },
        own: vec![executable.into(), "model".into(), "--measure".into()],
        peers: arguments.peers.clone(),
    };
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
fn answer(question: &[String]) -> Result<(), Failure> {
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
