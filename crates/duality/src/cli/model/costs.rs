//! Unit costs: the table of `--costs`, and the costs that a model needs.

use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

use duality_architectures::usage;
use duality_costs::json::json;
use duality_costs::run::{self, Effort, Peers, Plan, Row};
use duality_costs::{ALL, Cost, Owner, Reading, Trouble, Unit, measure, table};
use duality_lab::model::{NEEDED, UnitCosts};
use duality_lab::names::choose_from;
use duality_runtime::log;

use super::super::{Blame, Failure, Party, print};
use super::Arguments;

/// The effort for a model's unit costs: about ten seconds.
pub(super) const EFFORT: Effort =
    Effort { batches: 30, batch: Duration::from_millis(2), memory_batches: 0, parked: 0 };

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
    let plan = plan(chosen(arguments.only.as_deref())?, effort, peers, &["--measure"], None)?;
    run::pin();
    let (mut done, all) = (0, plan.costs.len());
    let rows = run::run(&plan, |name| {
        done += 1;
        log::tell(format_args!("measuring {name} ({done} of {all})"));
    });
    print(&if arguments.json { json(&rows).to_string() } else { table::text(&rows) })?;
    let missing = missing(&rows);
    let Some((name, why)) = missing.first() else { return Ok(()) };
    Err(Failure::new(
        Party::Machine,
        format!("{} of {all} costs were not measured; of {name}: {why}", missing.len()),
    ))
}

/// The costs without a figure of any subject, each with the first reason.
fn missing(rows: &[Row]) -> Vec<(&'static str, &str)> {
    let missing = rows.iter().filter(|row| row.cells.iter().all(|cell| cell.outcome.is_err()));
    let lines = missing.filter_map(|row| {
        let reason = row.cells.first()?.outcome.as_ref().err()?;
        Some((row.cost.name, reason.as_str()))
    });
    lines.collect()
}

/// Measures the unit costs of a model. With [`Effort::QUICK`] this takes some two seconds, so that
/// a comparison can do it before its cells. The measurement takes no longer than `limit`.
///
/// # Errors
///
/// If this program cannot be found for another start, or the measurement takes longer.
pub(in crate::cli) fn unit_costs(
    effort: Effort,
    limit: Option<Duration>,
) -> Result<UnitCosts, Failure> {
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    log::tell(format_args!("measuring unit costs"));
    let is_needed = |cost: &&Cost| NEEDED.iter().any(|needed| cost.is_called(needed));
    let plan = plan(
        ALL.iter().filter(is_needed).collect(),
        effort,
        Peers::Nobody,
        &["--own-time", "--measure"],
        until,
    )?;
    // The measurement has its own kernel thread, because it is bound to one processor. The code
    // after it is not bound.
    let rows = thread::scope(|scope| -> Result<_, Failure> {
        let measured = thread::Builder::new().spawn_scoped(scope, || {
            run::pin();
            run::run(&plan, |_| {})
        });
        let measured =
            measured.blame_at(Party::Machine, "cannot start a thread for the unit costs")?;
        Ok(measured.join().expect("measuring does not panic"))
    })?;
    if let Some(limit) = limit.filter(|_| until.is_some_and(|until| Instant::now() >= until)) {
        let seconds = limit.as_secs_f64().ceil();
        let problem = format!(
            "measuring unit costs takes longer than {seconds} s here: end what else runs, and measure again"
        );
        return Err(Failure::new(Party::Machine, problem));
    }
    let missing = missing(&rows);
    if let Some((name, why)) = missing.first().filter(|_| missing.len() == rows.len()) {
        return Err(Failure::new(
            Party::Machine,
            format!("no unit cost can be measured; of {name}: {why}"),
        ));
    }
    UnitCosts::read(&json(&rows)).blame(Party::Machine)
}

/// A plan with subjects of our own, which these flags of `model` measure.
fn plan(
    costs: Vec<&'static Cost>,
    effort: Effort,
    peers: Peers,
    flags: &[&str],
    until: Option<Instant>,
) -> Result<Plan, Failure> {
    let executable =
        std::env::current_exe().blame_at(Party::Machine, "cannot find this program")?;
    let mut own: Vec<OsString> = vec![executable.into(), "model".into()];
    own.extend(flags.iter().map(OsString::from));
    Ok(Plan { costs, effort, own, peers, until })
}

/// The costs that `only` names, in the order of the table. Without `only`, all costs.
fn chosen(only: Option<&[String]>) -> Result<Vec<&'static Cost>, Failure> {
    let Some(only) = only else { return Ok(ALL.iter().collect()) };
    if let Some(name) = only.iter().find(|name| !ALL.iter().any(|cost| cost.is_called(name))) {
        let mut groups: Vec<&str> = ALL.iter().map(Cost::group).collect();
        groups.dedup();
        let remedy = choose_from(name, groups);
        return Err(Failure::misuse(format!("--only: there is no cost `{name}`: {remedy}")));
    }
    Ok(ALL.iter().filter(|cost| only.iter().any(|name| cost.is_called(name))).collect())
}

/// Measures in this process, and prints the line. Reports the process's own time only, if asked.
pub(super) fn answer(question: &[String], own_time: bool) -> Result<(), Failure> {
    let [subject, cost, count] = question else {
        return Err(Failure::misuse("--measure takes a subject, a cost and a count"));
    };
    let count: u64 = count
        .parse()
        .map_err(|_| Failure::misuse(format!("--measure: `{count}` is no number of times")))?;
    let (start, used) = (Instant::now(), usage::of_this_process().cpu_us);
    let reading = measure(subject, cost, count);
    let share = Duration::from_micros(usage::of_this_process().cpu_us - used)
        .div_duration_f64(start.elapsed().max(Duration::from_micros(1)));
    match reading {
        // The other costs do this themselves.
        Ok(reading) if own_time && is_of_a_world(cost) => {
            // All work is on one processor, which never rests meanwhile. So time that this process
            // did not use was used by other processes. A model rests on processor time, because a
            // server's figures do.
            let total = reading.total as f64 * share.clamp(0.0, 1.0);
            print(&Reading { total: (total as u64).max(1), ..reading }.line(cost))
        }
        Ok(reading) => print(&reading.line(cost)),
        Err(Trouble::Unavailable(why)) => print(&format!("unavailable {why}")),
        Err(unknown) => Err(Failure::misuse(format!("--measure: {unknown}"))),
    }
}

fn is_of_a_world(name: &str) -> bool {
    let mut times = ALL.iter().filter(|cost| cost.unit == Unit::Nanoseconds);
    times.any(|cost| cost.name == name && cost.owner() == Owner::Worlds)
}
