//! `duality compare`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fs, io, slice};

use duality_lab::ask::budget;
use duality_lab::ask::settings::{Misfit, Settings, parse_duration};
use duality_lab::format::in_shell;
use duality_lab::live::Page;
use duality_lab::measure as lab;
use duality_lab::measure::experiment::Experiment;
use duality_lab::measure::{Clock, Finished, Stage};
use duality_lab::names::choose_from;
use duality_lab::record::results::Results;
use duality_lab::record::{Cell, Outcome, Records};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::report::RawLines;
use duality_lab::tell::{data, report};
use duality_runtime::log;

use super::binary::{Binary, BinaryFlags};
use super::builds::{self, Builds};
use super::flags::BuildFlags;
use super::flags::settings::{All, SettingFlags};
use super::live::LiveFlags;
use super::resumed::command_to_resume;
use super::{
    Blame, ConstraintFlags, Failure, Party, Tuning, experiment, explain, flag, for_terminal,
    heading, load, prices, print, terminal_width,
};
use crate::catalogue::Catalogue;

/// The flags about our own servers. The flags of a server of the user's own must name them too:
/// clap would drop the requirement of `--binary`.
const NOT_OF_A_BINARY: [&str; 7] =
    ["subject", "architectures", "peers", "store", "baseline", "tls", "http2"];

/// Why a flag about servers of ours is refused.
const FOREIGN: &str = "the commands have {port}, so they are no programs of Duality";

/// The flags that builds decide.
const NOT_OF_BUILDS: [&str; 4] = ["peers", "baseline", "current", "hosts"];

#[derive(clap::Args)]
#[command(after_long_help = include_str!("compare_examples.txt"))]
pub(super) struct Arguments {
    /// The service (see `duality services`), or a plan: a file called PLAN.toml, which flags
    /// override
    #[arg(value_name = "SERVICE|PLAN.toml")]
    pub(super) subject: Option<String>,
    /// A server, as a command with {port}, measured natively and by `duality run` (docs/run.md); or
    /// several builds, each with its name
    ///
    /// The server runs in this working directory. --cores, --stack-size and --tick go to `duality
    /// run`. At each number of connections, the report answers whether to run it so: yes, no, or
    /// unknown.
    ///
    /// `--binary old=./a --binary new=./b` compares builds of one program of Duality under the
    /// architectures of -a. With {port} in their commands, it compares builds of any server. The
    /// report answers whether a build is slower or faster than the first (docs/ci.md).
    #[arg(long, value_name = "[NAME=]COMMAND", help_heading = heading::BINARY)]
    binary: Vec<String>,
    #[command(flatten)]
    builds: BuildFlags,
    /// The same server as `duality cc` compiled it, with {port}: measured as a third way to run it
    /// (docs/cc.md)
    ///
    /// Build the server twice, once by your compiler and once by CC="duality cc", and name both.
    /// --cores and --tick set its DUALITY_CORES and DUALITY_TICK. Without --cores, it has a kernel
    /// thread for each processor of --server-cpus.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "binary",
        conflicts_with_all = NOT_OF_A_BINARY,
        help_heading = heading::BINARY
    )]
    compiled: Option<String>,
    /// Processor time after which `duality run`, or a compiled program, gives another thread its
    /// turn [default: 10ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = super::run::parse_time,
        requires = "binary",
        conflicts_with_all = NOT_OF_A_BINARY,
        help_heading = heading::BINARY
    )]
    tick: Option<Duration>,
    /// Requests of the clients of --binary, such as http://127.0.0.1:{port}/page [default: /]
    ///
    /// With https, clients trust every certificate (docs/tls.md).
    #[arg(
        long,
        value_name = "URL",
        requires = "binary",
        conflicts_with_all = ["path", "load-command"],
        conflicts_with_all = NOT_OF_A_BINARY,
        help_heading = heading::BINARY
    )]
    url: Option<String>,
    /// Subject of which the figures in --tables are also multiples: an architecture or a peer
    /// [default: --current, or the only peer]
    #[arg(long, value_name = "NAME", help_heading = heading::RECOMMENDATION)]
    pub(super) baseline: Option<String>,
    #[command(flatten)]
    settings: SettingFlags<All>,
    /// Also measure what would change the answer: twice the users, bursts, no keep-alive, slow
    /// clients
    ///
    /// Five experiments then share the time. The last lines say what each of them answers
    /// (docs/replay.md).
    #[arg(long, requires = "trace", conflicts_with_all = ["bunch", "client-rate", "binary", "versions"], help_heading = heading::CLIENTS)]
    pub(super) what_ifs: bool,
    /// Each connection carries several requests (the default)
    #[arg(long, conflicts_with = "close", help_heading = heading::CLIENTS)]
    keep_alive: bool,
    /// Limit on the whole time, such as 10m; a longer run tells smaller differences apart
    ///
    /// Blocks fill the time. An experiment that does not fit gets fewer blocks (at least 15 in
    /// all), then shorter windows (at least 0.5 s). Then it gets fewer repeats (at least 3). If an
    /// experiment takes longer than its time, it stops, and --resume continues it.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", help_heading = heading::MEASURING)]
    pub(super) budget: Option<Duration>,
    #[command(flatten)]
    constraints: ConstraintFlags,
    /// The directory for results.jsonl, report.html and summary.json [default: a new
    /// duality-results-TIME]
    ///
    /// Each experiment of a plan has a directory with its name there.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only explain what would be measured, what is unavailable and why, and how long it takes
    #[arg(long, conflicts_with_all = ["out", "resume"])]
    pub(super) check: bool,
    /// Print all tables, warnings and reasons instead of one screen
    #[arg(long)]
    pub(super) tables: bool,
    /// Continue the experiment in --out
    #[arg(long, requires = "out", help_heading = heading::MEASURING)]
    pub(super) resume: bool,
    #[command(flatten)]
    pub(super) live: LiveFlags,
    #[command(flatten)]
    pub(super) tuning: Tuning,
}

impl Arguments {
    /// The experiment that the flags describe.
    pub(super) fn settings(&self) -> Settings {
        let given = self.settings.settings();
        Settings {
            close: given.close.or(self.keep_alive.then_some(false)),
            constraints: self.constraints.constraints(),
            current: self.constraints.current().map(str::to_owned),
            ..given
        }
    }

    /// The server given by its command line.
    fn binary(&self, command: &str) -> Result<Binary, Failure> {
        self.refuse(NOT_OF_A_BINARY, "--binary: a server of your own decides that")?;
        Binary::new(&BinaryFlags {
            command,
            compiled: self.compiled.as_deref(),
            url: self.url.as_deref(),
            tuning: self.tuning,
            tick: self.tick,
        })
    }

    /// Refuses flags and arguments that another flag excludes.
    fn refuse<const COUNT: usize>(&self, keys: [&str; COUNT], why: &str) -> Result<(), Failure> {
        let settings = self.settings();
        let mut given = settings.said().collect::<Vec<&str>>();
        given.extend(self.subject.as_ref().map(|_| "subject"));
        given.extend(self.baseline.as_ref().map(|_| "baseline"));
        match given.into_iter().find(|key| keys.contains(key)) {
            None => Ok(()),
            Some("subject") => Err(Failure::misuse(format!("{why}: leave the service out"))),
            Some(key) => Err(flag(Misfit::new(key, format!("leave it out: {why}")))),
        }
    }

    /// The builds that `--binary NAME=COMMAND` and `--versions` give, if they give any.
    fn builds(&self, catalogue: &Catalogue, out: &Path) -> Result<Option<Builds>, Failure> {
        let Some(builds) = Builds::of_flags(&self.binary, &self.builds, out, self.check)? else {
            return self.builds.refuse_without_builds().map(|()| None);
        };
        builds.check(catalogue, self.subject.as_deref())?;
        self.refuse(NOT_OF_BUILDS, "builds are compared with the first one, on this machine")?;
        if builds.are_foreign() {
            self.refuse(["subject", "architectures", "store", "tls", "http2"], FOREIGN)?;
        } else if self.url.is_some() {
            return Err(Failure::misuse(
                "--url: for programs of Duality, give the service and --path",
            ));
        }
        let of_ways = [("--compiled", self.compiled.is_some()), ("--tick", self.tick.is_some())];
        match of_ways.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(Failure::misuse(format!(
                "{name}: leave it out: builds are not compared with `duality run` or `duality cc`"
            ))),
            None => Ok(Some(builds)),
        }
    }

    /// The experiment of a command without a plan file.
    fn experiment(
        &self,
        catalogue: &Catalogue,
        mut settings: Settings,
        builds: Option<&Builds>,
    ) -> Result<Experiment, Failure> {
        let whole = self.budget.map(|limit| budget::aim(limit, 1));
        let experiment = match (builds, self.binary.first()) {
            (Some(builds), _) => {
                let peers = builds.put_into(&mut settings, self.url.as_deref(), self.tuning)?;
                let experiment = experiment::of(catalogue, &settings, &self.tuning, &peers, whole);
                experiment.map(|experiment| builds.asking(experiment, self.url.as_deref()))
            }
            (None, None) => experiment::of(catalogue, &settings, &self.tuning, &[], whole),
            (None, Some(command)) => {
                let binary = self.binary(command)?;
                let peers = binary.put_into(&mut settings)?;
                // The tuning applies to `duality run`, and not to servers of ours.
                let tuning = Tuning::default();
                let experiment = experiment::of(catalogue, &settings, &tuning, &peers, whole);
                experiment.map(|experiment| binary.asking(experiment))
            }
        };
        let mut experiment = experiment.map_err(flag)?;
        if let Some(limit) = self.budget {
            budget::fit(slice::from_mut(&mut experiment), limit)
                .map_err(|problem| flag(Misfit::new("budget", problem)))?;
        }
        if let Some(name) = &self.baseline
            && !experiment.design.subjects().any(|subject| subject == name)
        {
            let names: Vec<&str> = experiment.design.subjects().collect();
            let problem = format!("{name} is not compared: {}", choose_from(name, names));
            return Err(flag(Misfit::new("baseline", problem)));
        }
        Ok(experiment)
    }

    /// Refuses flags that a plan of regimes does not have.
    pub(super) fn refuse_for_regimes(&self, file: &Path) -> Result<(), Failure> {
        let mut given: Vec<String> = self.settings().said().map(|key| format!("--{key}")).collect();
        given.extend(self.budget.map(|_| "--budget".to_owned()));
        given.extend(self.baseline.as_ref().map(|_| "--baseline".to_owned()));
        given.extend(self.tables.then(|| "--tables".to_owned()));
        given.extend(self.live.given());
        given.extend(self.tuning.given());
        let Some(first) = given.first() else { return Ok(()) };
        let name = first.split('=').next().unwrap_or(first);
        Err(Failure::misuse(format!(
            "{name}: a plan of regimes has only --out, --resume and --check: set the rest in {} \
             (docs/plans.md)",
            file.display()
        )))
    }

    /// Refuses flags that name servers, for a plan.
    pub(super) fn refuse_binaries_for_plan(&self) -> Result<(), Failure> {
        match self.binary.is_empty() && self.builds.versions.is_empty() {
            true => Ok(()),
            false => Err(Failure::misuse(
                "--binary and --versions: a plan names its servers by [[peer]]: leave them out",
            )),
        }
    }

    /// The plan file that the command names, if it names one.
    pub(super) fn plan(&self) -> Option<&Path> {
        let path = Path::new(self.subject.as_ref()?);
        path.extension().is_some_and(|extension| extension == "toml").then_some(path)
    }

    /// The directory of the results.
    pub(super) fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(fresh_directory)
    }
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let out = arguments.out();
    let mut settings = arguments.settings();
    settings.service.clone_from(&arguments.subject);
    settings.race.get_or_insert(true);
    if !arguments.builds.versions.is_empty() && !arguments.check {
        refuse_results(&out, arguments.resume)?;
    }
    let interrupted = load::on_interrupt()?;
    let builds = arguments.builds(catalogue, &out)?;
    let mut experiment = arguments.experiment(catalogue, settings, builds.as_ref())?;
    if arguments.check {
        return print(&explain::explain(&experiment));
    }
    prepare(&out, &mut experiment, arguments.resume)?;
    announce(&experiment);
    log::tell(format_args!("results in {}", out.display()));
    arguments.live.beside(|page| carry_out(arguments, experiment, &out, &interrupted, page))
}

/// Measures an experiment, and tells its answer.
fn carry_out(
    arguments: &Arguments,
    mut experiment: Experiment,
    out: &Path,
    interrupted: &AtomicBool,
    page: Option<&Page>,
) -> Result<(), Failure> {
    let clock = Clock::new(interrupted, arguments.budget);
    prices::find(slice::from_mut(&mut experiment), clock);
    let finished = measure(&experiment, out, arguments.resume, clock, page.cloned())?;
    let shown =
        Shown { tables: arguments.tables, baseline: arguments.baseline.as_deref(), asked: "" };
    let answer = tell(&finished, out, shown)?;
    let report = out.join("report.html");
    arguments.live.open_report(&report);
    if let Some(page) = page {
        page.lead_to(&report);
    }
    let threshold = arguments.builds.threshold(finished.heading.margin());
    if finished.complete {
        something_measured(&finished)?;
        return threshold.map_or(Ok(()), |share| builds::judge(&answer, share));
    }
    let told = incomplete(&experiment, &finished, out);
    if let Some(page) = page {
        page.say(told.clone());
    }
    match threshold {
        Some(share) => {
            log::tell(format_args!("{told}"));
            builds::judge(&answer, share)
        }
        None if answer.summary.is_answered() => {
            log::tell(format_args!("{told}"));
            Ok(())
        }
        None => Err(Failure::new(Party::Interruption, told)),
    }
}

/// How far an experiment came that was cut short, and how to go on.
fn incomplete(experiment: &Experiment, finished: &Finished, out: &Path) -> String {
    let Records { cells, blocks } = &finished.records;
    let blocks = match finished.heading.design.blocks {
        0 => String::new(),
        _ if blocks.len() == 1 => ", and 1 block".to_owned(),
        _ => format!(", and {} blocks", blocks.len()),
    };
    format!(
        "{} after {} of {} cells{blocks}: go on with `{}`",
        if finished.out_of_time { "the budget was spent" } else { "interrupted" },
        cells.len(),
        experiment.cells(),
        command_to_resume(&experiment.command, out),
    )
}

/// Refuses a directory that cannot be written, or that holds other results, before any measurement.
/// A resumed plan gets its original seed and timing. Returns the records so far.
pub(super) fn prepare(
    out: &Path,
    experiment: &mut Experiment,
    resume: bool,
) -> Result<Records, Failure> {
    let begun = Results::begun(out, &experiment.design);
    let records = match begun? {
        None => Records::default(),
        Some(_) if !resume => return Err(occupied(out)),
        Some((design, records)) => {
            experiment.design = design;
            records
        }
    };
    writable(out)?;
    Ok(records)
}

/// Refuses a directory with results before anything is built.
fn refuse_results(out: &Path, resume: bool) -> Result<(), Failure> {
    match out.join("results.jsonl").exists() && !resume {
        true => Err(occupied(out)),
        false => writable(out),
    }
}

fn occupied(out: &Path) -> Failure {
    let problem = "holds results already: go on by --resume, or choose another --out";
    Failure::misuse(format!("{} {problem}", out.display()))
}

/// Makes the directory `out` if it does not exist, and checks that files can be created in it.
pub(super) fn writable(out: &Path) -> Result<(), Failure> {
    fs::create_dir_all(out).and_then(|()| tempfile::tempfile_in(out)).map(drop).map_err(|error| {
        Failure::misuse(format!("--out: {}: {error}", out.display()))
            .remedy("choose a directory that can be written")
    })
}

/// Fails if no cell was measured, with the reason of the first cell.
fn something_measured(finished: &Finished) -> Result<(), Failure> {
    let cells = &finished.records.cells;
    let reason = |cell: &Cell| match &cell.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed { reason } | Outcome::Unavailable { reason, .. } => Some(reason.clone()),
    };
    if cells.iter().any(|cell| reason(cell).is_none()) {
        return Ok(());
    }
    let first = cells.iter().find_map(reason).unwrap_or_default();
    Err(Failure::new(Party::Subject, first).at("nothing was measured"))
}

/// Prints the experiments that follow.
pub(super) fn announce(experiment: &Experiment) {
    let design = &experiment.design;
    let summary = format!(
        "comparing {} at {}, {} each: {} cells, about {:.0} s",
        design.compared(),
        design.counted().several(&design.concurrency),
        if design.repeats == 1 { "once".to_owned() } else { format!("{} times", design.repeats) },
        experiment.cells(),
        experiment.length().as_secs_f64(),
    );
    for line in [summary].iter().chain(&experiment.degraded).chain(&experiment.economies) {
        log::tell(for_terminal(line.clone(), &io::stderr()));
    }
}

/// Measures the cells that `out` lacks. A `page` shows what is known so far.
pub(super) fn measure(
    experiment: &Experiment,
    out: &Path,
    resume: bool,
    clock: Clock<'_>,
    page: Option<Page>,
) -> Result<Finished, Failure> {
    let stage = Stage::set(experiment)?;
    let warnings = lab::preflight(experiment, clock.interrupted(), &stage)?;
    warnings.into_iter().for_each(|line| log::tell(for_terminal(line, &io::stderr())));
    lab::compare(experiment, out, resume, clock, &stage, page).blame(Party::Machine)
}

/// The parts of an answer to print.
#[derive(Clone, Copy, Default)]
pub(super) struct Shown<'a> {
    /// Whether to print all tables instead of one screen.
    pub(super) tables: bool,
    /// The subject that the figures in the tables are also multiples of.
    pub(super) baseline: Option<&'a str>,
    /// The flags with which `duality report` prints the same answer, each after a space.
    pub(super) asked: &'a str,
}

impl Shown<'_> {
    /// Prints the answer of an experiment. The experiment's results are in `run`, and its report is
    /// `page`.
    pub(super) fn print(self, answer: &Answer<'_>, page: &Path, run: &Path) -> Result<(), Failure> {
        print(&match self.tables {
            true => for_terminal(answer.render_text(self.baseline), &io::stdout()),
            false => {
                let run = in_shell(&run.display().to_string());
                let more = format!("duality report {run} --tables{}", self.asked);
                answer.render_screen(page, &more, terminal_width(&io::stdout()))
            }
        })
    }
}

/// Writes report.html and summary.json into `out`, and prints the answer.
pub(super) fn tell<'f>(
    finished: &'f Finished,
    out: &Path,
    shown: Shown<'_>,
) -> Result<Answer<'f>, Failure> {
    let answer = Answer::of(&finished.heading, &finished.records);
    let page = out.join("report.html");
    RawLines::read(&[out.join("results.jsonl")])
        .and_then(|raw| report::write(&page, &answer, &raw))
        .blame_at(Party::Machine, page.display())?;
    let path = out.join("summary.json");
    fs::write(&path, data::summary(&answer).to_string() + "\n")
        .blame_at(Party::Machine, path.display())?;
    shown.print(&answer, &page, out)?;
    Ok(answer)
}

fn fresh_directory() -> PathBuf {
    let now = lab::now().replace(['-', ':', 'Z'], "").replace('T', "-");
    PathBuf::from(format!("duality-results-{now}"))
}
