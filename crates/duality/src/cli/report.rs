//! `duality report`: reads earlier results, and compares two runs.

use std::path::PathBuf;
use std::{fs, io};

use duality_lab::names::choose_from;
use duality_lab::page::write_whole;
use duality_lab::record::Heading;
use duality_lab::tell::answer::Answer;
use duality_lab::tell::answers::plan::{self as index, Index};
use duality_lab::tell::answers::runs;
use duality_lab::tell::comparison::Comparison;
use duality_lab::tell::comparison::data::{Runs, VERSION};
use duality_lab::tell::data;
use duality_lab::tell::render::html::html;
use duality_lab::tell::render::text::{WIDE, text};
use duality_lab::tell::report::markdown::{self, Table};
use duality_lab::tell::share::{CardFile, Share};
use duality_runtime::log;
use serde_json::json;

use super::builds;
use super::compare::Shown;
use super::flags;
use super::live;
use super::runs::{Found, Run, unwritten};
use super::{ConstraintFlags, Failure, Party, for_terminal, heading, print, regimes};

/// The version of the form in which the experiments of a plan are data.
const OF_A_PLAN: u32 = 1;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  duality report results.jsonl
      the answer of a run again, and its page in report.html
  duality report results --tables
      all its tables, warnings and reasons
  duality report results --current threads
      whether a change from threads pays, and all figures beside those of
      threads
  duality report results --slo p99=5ms --memory 200MB
      which architecture is best of those that keep both, of what was measured
      before
  duality report results --card card.md
      the headline, the map, the machine, the command and a hash of the data,
      to paste into a pull request; card.svg and card.png are pictures of it
  duality report before after --out change.html
      two runs compared, cell by cell: of one experiment, or of one plan
  duality report before after --fail-on-regression=10
      for CI: exit code 1, and a line for each, when replies were wrong, a
      server failed, or something got worse and even the interval of its ratio
      misses 1 by more than 10 %. Give runs at
      least 5 repeats: of 3, only differences above a tenth can be told from
      chance (docs/method.md)")]
pub(super) struct Arguments {
    /// A run, or two to compare: a directory that `compare` wrote, or the results.jsonl in it
    #[arg(required = true, num_args = 1..=2, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page to write, or of a plan the directory for its pages [default: report.html, or beside
    /// the plan's results]
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
    #[command(flatten)]
    constraints: ConstraintFlags,
    /// Percent within which two subjects are level, if that is sure [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = super::explain::margin, help_heading = heading::RECOMMENDATION)]
    margin: Option<f64>,
    /// Print all tables, warnings and reasons instead of one screen
    #[arg(long, conflicts_with = "json")]
    tables: bool,
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
    /// Print tables as Markdown, and write no page: rate, mean, p99, load, slope, cpu, memory,
    /// switches
    #[arg(long, value_delimiter = ',', value_name = "TABLE,…", conflicts_with_all = ["out", "json", "card"])]
    markdown: Vec<Table>,
    /// Write the answer on a card, too: .md to paste into a pull request, .svg, or .png (needs
    /// Chromium)
    #[arg(long, value_name = "FILE")]
    card: Option<CardFile>,
    /// Open the page in a browser: the one that $BROWSER names, or else the one of xdg-open
    #[arg(long, conflicts_with = "markdown")]
    open: bool,
    /// Exit with code 1 when the second run, or a build, is worse by more than this, in percent
    /// [default: 5]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "5", value_parser = flags::percent, value_name = "PERCENT")]
    fail_on_regression: Option<f64>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let [path] = arguments.runs.as_slice()
        && let Some(directory) = regimes::run_at(path)
    {
        if arguments.card.is_some() {
            return Err(Failure::misuse("--card is of `compare`: it has no map of regimes"));
        }
        return match arguments.markdown.as_slice() {
            [] => regimes::show(directory, arguments.out.clone()).map(|page| {
                if arguments.open {
                    live::open_file(&page);
                }
            }),
            which => regimes::tables(directory, which),
        };
    }
    let runs = arguments.runs.iter().map(|path| Run::read(path));
    let runs = runs.collect::<Result<Vec<Run>, Failure>>()?;
    match runs.as_slice() {
        [_, _] if !arguments.markdown.is_empty() => {
            Err(Failure::misuse("--markdown gives the tables of one run: name one"))
        }
        [_, _] if arguments.open && arguments.out.is_none() => {
            Err(Failure::misuse("--open: two runs have a page only if --out names it"))
        }
        [_, _] if arguments.card.is_some() => {
            Err(Failure::misuse("--card shows one run: name one"))
        }
        [run] if arguments.card.is_some() && run.experiments.len() > 1 => Err(Failure::misuse(
            format!("--card shows one experiment: name a directory in {}", run.path.display()),
        )),
        [_, _] if arguments.constraints.current().is_some() => {
            Err(Failure::misuse("--current is asked of one run: leave it out, or name one run"))
        }
        [before, after] if arguments.constraints.constraints().is_none() => {
            compare_runs(before, after, arguments)
        }
        [_, _] => Err(Failure::misuse(
            "--slo and --memory are asked of one run: leave them out, or name one run",
        )),
        [run] if run.has_builds() && arguments.constraints.current().is_some() => {
            Err(Failure::misuse("--current: builds are compared with the first one: leave it out"))
        }
        [run] if !arguments.markdown.is_empty() => tables(run, &arguments.markdown),
        [run] if arguments.fail_on_regression.is_none() || run.has_builds() => show(run, arguments),
        _ => Err(Failure::misuse(
            "--fail-on-regression compares two runs, or the builds of one: name both",
        )),
    }
}

/// The tables and pages of a run.
fn show(run: &Run, arguments: &Arguments) -> Result<(), Failure> {
    let of_plan = run.is_of_plan();
    let origin = run.experiments.iter().find_map(|found| found.results.0.plan.as_ref());
    let mut index = origin.filter(|_| of_plan).map(Index::of);
    let mut summaries = Vec::new();
    let mut judged = Ok(());
    let margin = arguments.margin.map(|percent| format!(" --margin {percent}"));
    let asked = arguments.constraints.typed() + &margin.unwrap_or_default();
    for found in &run.experiments {
        let (heading, records) = &found.results;
        let constraints = arguments.constraints.constraints();
        let constraints = constraints.unwrap_or_else(|| heading.constraints.clone());
        let current = current(arguments.constraints.current(), heading)?;
        let margin = arguments.margin.map(|percent| percent / 100.0).or(heading.margin);
        let heading = Heading { constraints, current, margin, ..heading.clone() };
        let page = match &arguments.out {
            Some(out) if of_plan => {
                let directory = out.join(found.directory().file_name().unwrap_or_default());
                fs::create_dir_all(&directory).map_err(|error| unwritten(&directory, &error))?;
                directory.join("report.html")
            }
            Some(out) => out.clone(),
            None if run.path.is_dir() => found.directory().join("report.html"),
            None => PathBuf::from("report.html"),
        };
        let answer = Answer::of(&heading, records);
        found.write_page(&page, &answer)?;
        if arguments.open && !of_plan {
            live::open_file(&page);
        }
        if let Some(card) = &arguments.card {
            let written = Share::of(&answer, &found.file).and_then(|share| card.write(&share));
            written.map_err(|error| unwritten(card.path(), &error))?;
            log::tell(format_args!("card: {}", card.path().display()));
        }
        if arguments.json {
            summaries.push(data::summary(&answer));
            log::tell(format_args!("report: {}", page.display()));
        } else {
            if of_plan {
                print(&index::heading(found.name().unwrap_or_default(), &heading.design))?;
            }
            let shown = Shown { tables: arguments.tables, baseline: None, asked: &asked };
            let run_path = if of_plan { found.directory() } else { &run.path };
            shown.print(&answer, &page, run_path)?;
        }
        if let (Some(index), Some(name)) = (&mut index, found.name()) {
            index.add(name, &answer);
        }
        if let Some(percent) = arguments.fail_on_regression {
            judged = judged.and(builds::judge(&answer, percent / 100.0));
        }
    }
    if let Some(index) = index {
        if run.experiments.len() > 1 && !arguments.tables && !arguments.json {
            print(&format!("\n{}", index.digest()))?;
        }
        let path = arguments.out.as_ref().unwrap_or(&run.path).join("index.html");
        index.write(&path).map_err(|error| unwritten(&path, &error))?;
        if arguments.open {
            live::open_file(&path);
        }
        log::tell(format_args!("index of the reports: {}", path.display()));
    }
    match summaries.as_slice() {
        [] => {}
        [one] => print(&one.to_string())?,
        all => print(&json!({ "version": OF_A_PLAN, "experiments": all }).to_string())?,
    }
    judged
}

/// The subject that runs today: the one that this command line names, or else the results' own.
fn current(named: Option<&str>, heading: &Heading) -> Result<Option<String>, Failure> {
    let Some(name) = named else { return Ok(heading.current.clone()) };
    let subjects: Vec<&str> = heading.design.subjects().collect();
    if subjects.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    let remedy = choose_from(name, subjects);
    Err(Failure::misuse(format!("--current: {name} was not measured: {remedy}")))
}

/// Tables of a run's experiments, as Markdown.
fn tables(run: &Run, which: &[Table]) -> Result<(), Failure> {
    let text = run.experiments.iter().map(|found| {
        let (heading, records) = &found.results;
        let title = match found.name() {
            Some(name) if run.experiments.len() > 1 => format!("### {name}\n\n"),
            _ => String::new(),
        };
        title + &markdown::tables(heading, records, which)
    });
    print(&text.collect::<String>())
}

/// Compares two runs.
fn compare_runs(before: &Run, after: &Run, arguments: &Arguments) -> Result<(), Failure> {
    let (pairs, alone) = matched(before, after);
    let comparisons = pairs
        .iter()
        .map(|(one, other)| {
            let (heading, records) = &other.results;
            let margin = arguments.margin.map(|percent| percent / 100.0).or(heading.margin);
            let other = (Heading { margin, ..heading.clone() }, records.clone());
            Comparison::of(&one.results, &other).map_err(|error| {
                let name = one.name().map_or(String::new(), |name| format!("experiment {name}: "));
                Failure::misuse(format!("{name}{error}"))
            })
        })
        .collect::<Result<Vec<Comparison>, Failure>>()?;
    let (first, second) = (before.path.display(), after.path.display());
    if comparisons.iter().all(|comparison| comparison.pairs.is_empty()) {
        return Err(Failure::misuse(format!(
            "{first} and {second} have no measured cell in common: name two runs of the same experiment"
        )));
    }
    let regressions: Vec<String> = arguments.fail_on_regression.map_or(Vec::new(), |percent| {
        comparisons.iter().flat_map(|comparison| comparison.regressions(percent)).collect()
    });
    let names = [first.to_string(), second.to_string()];
    let sheet = runs::sheet([&names[0], &names[1]], &comparisons, &alone);
    if arguments.json {
        let asked = arguments.fail_on_regression.is_some();
        let difference = Runs {
            version: VERSION,
            before: before.path.clone(),
            after: after.path.clone(),
            experiments: comparisons.iter().map(Comparison::data).collect(),
            unmatched_experiments: alone,
            regressions: asked.then(|| regressions.clone()),
        };
        let difference = serde_json::to_value(difference).expect("it is plain data");
        print(&difference.to_string())?;
    } else {
        print(&for_terminal(text(&sheet, WIDE), &io::stdout()))?;
    }
    if let Some(path) = &arguments.out {
        write_whole(path, &html(&sheet)).map_err(|error| unwritten(path, &error))?;
        if arguments.open {
            live::open_file(path);
        }
        log::tell(format_args!("page: {}", path.display()));
    }
    let Some(percent) = arguments.fail_on_regression else { return Ok(()) };
    judge(&comparisons, &regressions, percent)
}

/// The experiments that both runs have, and the names of experiments in only one run. If each run
/// has a single experiment, the two belong together whatever their names.
fn matched<'a>(before: &'a Run, after: &'a Run) -> (Vec<(&'a Found, &'a Found)>, Vec<String>) {
    if let ([one], [other]) = (before.experiments.as_slice(), after.experiments.as_slice()) {
        return (vec![(one, other)], Vec::new());
    }
    let counterpart = |run: &'a Run, one: &Found| {
        run.experiments.iter().find(|other| one.name().is_some() && other.name() == one.name())
    };
    let pairs = before.experiments.iter().filter_map(|one| Some((one, counterpart(after, one)?)));
    let lone = |run: &'a Run, other: &'a Run| {
        let lone = run.experiments.iter().filter(move |one| counterpart(other, one).is_none());
        lone.map(move |one| one.directory().display().to_string())
    };
    (pairs.collect(), lone(before, after).chain(lone(after, before)).collect())
}

/// The verdict for CI.
fn judge(comparisons: &[Comparison], regressions: &[String], percent: f64) -> Result<(), Failure> {
    if regressions.is_empty() && !comparisons.iter().any(Comparison::is_sure_of_anything) {
        return Err(Failure::misuse(
            "--fail-on-regression: one run measured a cell only once, so nothing can be told from \
             chance: measure with --repeats 5",
        ));
    }
    let mut unknown = comparisons.iter().flat_map(|one| &one.faults).filter(|one| one.is_blind);
    if regressions.is_empty()
        && let Some(first) = unknown.next()
    {
        return Err(Failure::misuse(format!(
            "--fail-on-regression: {}; measure the second run again",
            first.told
        )));
    }
    let blind: Vec<String> =
        comparisons.iter().flat_map(|comparison| comparison.too_unsure_for(percent)).collect();
    if regressions.is_empty()
        && let [first, rest @ ..] = blind.as_slice()
    {
        let more =
            if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
        return Err(Failure::misuse(format!(
            "--fail-on-regression: these runs could not have shown a change of {percent} %: \
             {first}{more}; measure both with more --repeats, or ask for a larger change"
        )));
    }
    for regression in regressions {
        log::tell(format_args!("regression: {regression}"));
    }
    if let Some(faults) = runs::first_line(comparisons) {
        return Err(Failure::new(Party::Subject, faults));
    }
    match regressions.len() {
        0 => Ok(()),
        1 => {
            Err(Failure::new(Party::Subject, format!("1 figure is worse by more than {percent} %")))
        }
        many => Err(Failure::new(
            Party::Subject,
            format!("{many} figures are worse by more than {percent} %"),
        )),
    }
}
