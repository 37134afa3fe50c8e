//! `duality model`: the causes of a request's time, and the cost of each alone.

mod costs;
mod workloads;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use duality_costs::run::Effort;
use duality_lab::ask::settings::parse_duration;
use duality_lab::model::{self, Check, Model, UnitCosts, Workload};
use duality_lab::page::write_whole;
use duality_lab::record::results;
use duality_lab::tell::answers;
use duality_lab::tell::render::html::html;
use duality_lab::tell::render::text::{WIDE, text};
use duality_lab::tell::sheet::Sheet;

pub(super) use costs::unit_costs;

use duality_runtime::log;

use super::{Blame, Failure, Party, for_terminal, load, print};
use crate::catalogue::Catalogue;

/// The flags about a model. The flags of unit costs must conflict with these flags, because clap
/// does not require `--costs` where it would conflict.
const NOT_OF_COSTS: [&str; 10] = [
    "out",
    "results",
    "service",
    "architectures",
    "concurrency",
    "predict",
    "check",
    "repeats",
    "window",
    "unit_costs",
];

#[derive(clap::Args)]
#[command(after_help = "\
The model (Demsky 2001) splits the server's processor time for a request into
work that every architecture does alike (t_independent), and this architecture's
own work. Its own work is the count of each operation, times the cost of the
operation. The server counts; a micro-benchmark measures the costs. If the model
is right, t_independent is the same under every architecture. The table says how
well the model holds, term by term, and which architectures deviate.
docs/model.md says how to read it.

Workloads, which --service chooses by their names, or all of a service by its
own:
  echo-limited, echo-long, echo-short, echo-serial, time, chat, quote,
  http-short, http-long, game, phone, guestbook

Unit costs (--costs), in ns each; memory in bytes for each task:
  spawn       a task that does nothing: started, run and joined
  switch      a round trip: two tasks wake each other, and wait
  alternate   a round trip: two tasks take turns, by the cheapest way that there
              is (yields, in all worlds)
  yield       letting another task run, with 2 tasks (yield-2) and 1,000
              (yield-1000)
  lock        a lock that no other task wants
  contended   a lock that goes to and fro between two tasks, each of which waits
              while it has it
  condition   a round trip: two tasks tell each other by a condition
  call        a plain call (call-plain), and a call of an async function that
              need not wait (call-converted)
  offload     work that does nothing, done by a helper thread (in place under
              block)
  kernel      what the kernel takes: a system call (-call), one in vain
              (-in-vain), poll(2) (-poll), a registration with epoll
              (-register), a switch (-switch, and between processes
              -switch-process), a process (-process), a page of memory that a
              child copies (-fault), waking a thread that sleeps on another
              processor (-wake), being woken from there, while others run here
              (-woken), or after the processor has rested (-rest), a store's
              file that a process opens (-store)
  poller      a round of select, poll, … with 50, 1,000 and 15,000 registered,
              of which one is ready; with 50 that are all ready (-full)
  memory      a parked task

Columns: block (kernel threads), park (user-level threads) and suspend (state
machines) are ours. `cargo xtask peers` builds the peers (State Threads, GNU
Pth, pthreads, Go). All are measured on one processor, in batches that alternate
between the columns. Beside each figure stands half of its 95 % interval. Ratios
of one run mean more than figures of two: a machine's speed changes.

Examples:
  duality model
      every workload at 50 connections, in about four minutes
  duality model --quick
      a first look, in less than one minute
  duality model --service http --out model
      two workloads, and the page model/model.html
  duality model --service http -c 50,1000 --check 200,5000
      predict loads that the model was not made from, and measure them
  duality model duality-results-…/results.jsonl
      of what `duality compare` has measured
  duality model --costs
      the unit costs alone, in about two minutes
  duality model --costs --only switch,spawn
      only these two
  duality model --costs --json > costs.json
      for later: duality model --unit-costs costs.json …")]
pub(super) struct Arguments {
    /// Results of `duality compare` to make the model of, instead of measuring
    #[arg(value_name = "RESULTS", conflicts_with_all = ["service", "architectures", "concurrency", "check", "repeats", "window"])]
    results: Vec<PathBuf>,
    /// Workloads, by name or by service [default: all]
    #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
    service: Option<Vec<String>>,
    /// Architectures [default: all that count their operations]
    #[arg(short, long, value_delimiter = ',', value_name = "A,B,…")]
    architectures: Option<Vec<String>>,
    /// Numbers of connections that the model is made from [default: 50]
    #[arg(short, long, value_delimiter = ',', value_name = "N,…")]
    concurrency: Option<Vec<usize>>,
    /// Predict for this many connections
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    predict: Vec<usize>,
    /// Predict for this many connections, and measure them as well
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    check: Vec<usize>,
    /// Number of measurements of each cell [default: 2]
    #[arg(long)]
    repeats: Option<usize>,
    /// Length of the measurement of each cell [default: 600ms]
    #[arg(long, value_parser = parse_duration)]
    window: Option<Duration>,
    /// Unit costs that `duality model --costs --json` has written [default: they are measured
    /// first]
    #[arg(long, value_name = "FILE")]
    unit_costs: Option<PathBuf>,
    /// Directory of model.html, model.json, and each workload's results.jsonl [default: none]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure only the unit costs: those of the model, others, and those of peers
    #[arg(long, conflicts_with_all = NOT_OF_COSTS)]
    costs: bool,
    /// Measure only these unit costs, by name or group, such as switch,yield-2,poller
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", requires = "costs", conflicts_with_all = NOT_OF_COSTS)]
    only: Option<Vec<String>>,
    /// Measure briefly: for a look, not for figures
    #[arg(long)]
    quick: bool,
    /// Folder of the peers' programs [default: target/peers, where `cargo xtask peers` puts them]
    #[arg(long, value_name = "DIR", requires = "costs", conflicts_with_all = NOT_OF_COSTS)]
    peers: Option<PathBuf>,
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
    /// Answer for one of our own subjects, as a peer's program does (peers/README.md)
    #[arg(long, hide = true, num_args = 3, value_names = ["SUBJECT", "COST", "COUNT"])]
    measure: Option<Vec<String>>,
    /// … without the processor time that other processes took meanwhile
    #[arg(long, hide = true, requires = "measure")]
    own_time: bool,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    if let Some(question) = &arguments.measure {
        return costs::answer(question, arguments.own_time);
    }
    if arguments.costs {
        return costs::run(arguments);
    }
    let known = arguments.unit_costs.as_deref().map(read_costs).transpose()?;
    let model = if arguments.results.is_empty() {
        measured(catalogue, arguments, known)?
    } else {
        of_results(arguments, known)?
    };
    let sheet = answers::model::sheet(&model);
    if let Some(out) = &arguments.out {
        write(out, &model, &sheet)?;
    }
    if arguments.json {
        print(&model::json(&model).to_string())
    } else {
        print(&for_terminal(text(&sheet, WIDE), &io::stdout()))
    }
}

/// The model of workloads that are measured now.
fn measured(
    catalogue: &Catalogue,
    arguments: &Arguments,
    known: Option<UnitCosts>,
) -> Result<Model, Failure> {
    let experiments = workloads::experiments(catalogue, arguments)?;
    if let Some(out) = &arguments.out {
        workloads::assert_unused(out, &experiments)?;
    }
    workloads::announce(&experiments);
    let interrupted = load::on_interrupt()?;
    let costs = costs_or_measure(arguments, known)?;
    let (mut workloads, mut checks) = (Vec::new(), Vec::new());
    workloads::measure(&experiments, arguments.out.as_deref(), &interrupted, |name, finished| {
        let all = model::workloads(name, &finished.heading, &finished.records.cells, &costs)
            .blame(Party::Load)?;
        let to_check = |workload: &Workload| arguments.check.contains(&workload.connections);
        let (checked, known): (Vec<Workload>, Vec<Workload>) = all.into_iter().partition(to_check);
        checks.extend(predictions(arguments, &known, &checked, &costs)?);
        workloads.extend(known);
        Ok(())
    })?;
    Ok(Model { costs, workloads, checks })
}

/// The model of results of `compare`.
fn of_results(arguments: &Arguments, known: Option<UnitCosts>) -> Result<Model, Failure> {
    let (heading, records) = results::read(&arguments.results)?;
    let costs = costs_or_measure(arguments, known)?;
    let workloads = model::workloads(&heading.design.service, &heading, &records.cells, &costs)
        .blame(Party::Load)?;
    if workloads.iter().all(|workload| workload.subjects.is_empty()) {
        let file = arguments.results[0].display();
        return Err(Failure::misuse(format!(
            "{file}: no server in it has counted its operations: measure again with this version"
        )));
    }
    let checks = predictions(arguments, &workloads, &[], &costs)?;
    Ok(Model { costs, workloads, checks })
}

/// The wanted predictions, and their measurements.
fn predictions(
    arguments: &Arguments,
    known: &[Workload],
    measured: &[Workload],
    costs: &UnitCosts,
) -> Result<Vec<Check>, Failure> {
    let mut all = Vec::new();
    for &connections in arguments.predict.iter().chain(&arguments.check) {
        all.extend(model::predict(known, connections, costs).blame(Party::Load)?);
    }
    model::check(&mut all, measured);
    Ok(all)
}

fn costs_or_measure(arguments: &Arguments, known: Option<UnitCosts>) -> Result<UnitCosts, Failure> {
    let effort = if arguments.quick { Effort::QUICK } else { costs::EFFORT };
    known.map_or_else(|| unit_costs(effort, None), Ok)
}

fn read_costs(path: &Path) -> Result<UnitCosts, Failure> {
    let place = format!("--unit-costs: {}", path.display());
    let text = fs::read_to_string(path).blame_at(Party::User, &place)?;
    let json = serde_json::from_str(&text).blame_at(Party::User, &place)?;
    UnitCosts::read(&json).blame_at(Party::User, &place)
}

fn write(out: &Path, model: &Model, sheet: &Sheet) -> Result<(), Failure> {
    let (page, json) = (out.join("model.html"), out.join("model.json"));
    let failure = |path: &Path, error: std::io::Error| {
        Failure::new(Party::Machine, format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(out).map_err(|error| failure(out, error))?;
    fs::write(&json, format!("{}\n", model::json(model))).map_err(|error| failure(&json, error))?;
    write_whole(&page, &html(sheet)).map_err(|error| failure(&page, error))?;
    log::tell(format_args!("model: {}", page.display()));
    Ok(())
}
