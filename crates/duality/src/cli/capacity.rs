//! `duality capacity`: predicts the cost of more connections, and of a rate, from earlier runs.

use std::path::PathBuf;

use duality_lab::Mistake;
use duality_lab::ask::resolve::Program;
use duality_lab::capacity::{self, Capacity, Check, Error, Question};
use duality_lab::page::write_whole;
use duality_lab::tell::answers::capacity::{sheet, sheet_of_check};
use duality_lab::tell::render::html::html;
use duality_lab::tell::render::text::{TERMINAL, text};
use duality_lab::tell::sheet::Sheet;
use duality_runtime::log;

use super::runs::{Found, Run, unwritten};
use super::{Failure, experiment, print};
use crate::catalogue::Catalogue;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  duality compare http --concurrency 100,1000 --out run
  duality capacity run
      processor time, memory and first limit of each at 15,000 connections
  duality capacity run --connections 1000000 --rate 2e6 --processors 64
      and how many processors and hosts two million requests a second take
  duality capacity run --rate 2e6 --processors 64 --hosts 2
      and whether two hosts are enough
  duality capacity run --out capacity.html
      a page with what was measured and what is predicted in one chart
  duality compare plans/capacity.toml --out check
  duality capacity check --check
      how far off predictions from 1,000 connections are from what was measured

Predictions assume that processors add up, as with a process for each.
docs/capacity.md says how good predictions are, and where they fail.")]
pub(super) struct Arguments {
    /// Runs to predict from: directories that `compare` wrote, or the results.jsonl in them
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Predict for this many connections, open at once at one server
    #[arg(short, long, value_name = "N", default_value_t = 15_000, value_parser = connections)]
    connections: usize,
    /// Only these architectures or peers [default: all that were measured]
    #[arg(short, long, value_delimiter = ',', value_name = "A,B,…")]
    architectures: Vec<String>,
    /// Requests a second that must be answered, such as 1e6
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Processors of a host [default: those of the measured machine]
    #[arg(long, value_name = "N", requires = "rate", value_parser = at_least_one)]
    processors: Option<usize>,
    /// Tell how many hosts the rate takes; with a number, whether this number is enough
    #[arg(long, value_name = "N", requires = "rate", num_args = 0..=1, value_parser = at_least_one)]
    hosts: Option<Option<usize>>,
    /// Share of its processors that a host may use
    #[arg(long, value_name = "PERCENT", requires = "rate", default_value = "70", value_parser = percent)]
    utilisation: f64,
    /// Predict from at most this many connections, and compare with the measurements [default:
    /// 1000]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1000", value_name = "N", value_parser = connections, conflicts_with_all = ["connections", "rate"])]
    check: Option<usize>,
    /// Write a page with charts
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let runs = arguments.results.iter().map(|path| Run::read(path));
    let runs = runs.collect::<Result<Vec<Run>, Failure>>()?;
    let experiments: Vec<Found> = runs.into_iter().flat_map(|run| run.experiments).collect();
    match arguments.check {
        Some(from) => check(catalogue, arguments, &experiments, from),
        None => predict(catalogue, arguments, &experiments),
    }
}

fn predict(
    catalogue: &Catalogue,
    arguments: &Arguments,
    experiments: &[Found],
) -> Result<(), Failure> {
    let question = Question {
        connections: arguments.connections,
        subjects: arguments.architectures.clone(),
        rate: arguments.rate,
        processors: arguments.processors,
        hosts: arguments.hosts.flatten(),
        utilisation: arguments.utilisation,
    };
    let all: Vec<Capacity> = answered(catalogue, experiments, |found, program| {
        let (heading, records) = &found.results;
        capacity::predict(heading, records, program, &question)
    })?;
    tell(arguments, &sheet(&all), || capacity::json(&all).to_string())
}

fn check(
    catalogue: &Catalogue,
    arguments: &Arguments,
    experiments: &[Found],
    from: usize,
) -> Result<(), Failure> {
    let all: Vec<Check> = answered(catalogue, experiments, |found, program| {
        let (heading, records) = &found.results;
        capacity::check(heading, records, program, from, &arguments.architectures)
    })?;
    tell(arguments, &sheet_of_check(&all), || capacity::json_of_check(&all).to_string())
}

/// Writes the page, if one is wanted, and prints the answer.
fn tell(
    arguments: &Arguments,
    sheet: &Sheet,
    json: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.out {
        write_whole(path, &html(sheet)).map_err(|error| unwritten(path, &error))?;
        log::tell(format_args!("page: {}", path.display()));
    }
    match arguments.json {
        true => print(&json()),
        false => print(&text(sheet, TERMINAL)),
    }
}

/// The answers of those experiments that have one. If there are several experiments, those without
/// an answer are named, and are no failure.
fn answered<T>(
    catalogue: &Catalogue,
    experiments: &[Found],
    answer: impl Fn(&Found, Result<&dyn Program, &str>) -> Result<T, Error>,
) -> Result<Vec<T>, Failure> {
    let (mut answers, mut refused) = (Vec::new(), Vec::new());
    for found in experiments {
        let program = experiment::of_results(catalogue, &found.results.0.design)
            .map_err(|mistake| mistake.to_string());
        let program = program.as_ref().map(|program| program as &dyn Program);
        match answer(found, program.map_err(String::as_str)) {
            Ok(one) => answers.push(one),
            Err(error) => refused.push(format!("{}: {error}", found.file.display())),
        }
    }
    if answers.is_empty() {
        let first = refused.into_iter().next();
        return Err(Failure::misuse(first.unwrap_or_else(|| "no experiment".to_owned())));
    }
    refused.iter().for_each(|why| log::tell(format_args!("left out: {why}")));
    Ok(answers)
}

/// More connections than any server has. Beyond this limit, arithmetic says nothing.
const MOST: usize = 1_000_000_000;

fn connections(text: &str) -> Result<usize, Mistake> {
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("give a whole number from 1 to {MOST}").into())
}

fn at_least_one(text: &str) -> Result<usize, Mistake> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "give a whole number from 1 to 1000000".into())
}

fn rate(text: &str) -> Result<f64, Mistake> {
    let rate = text.parse::<f64>().ok().filter(|rate| (1e-3..=1e15).contains(rate));
    rate.ok_or_else(|| "give requests a second, such as 20000 or 1e6".into())
}

/// A share, from a percentage.
fn percent(text: &str) -> Result<f64, Mistake> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| (1.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "give a percentage from 1 to 100".into())
}
