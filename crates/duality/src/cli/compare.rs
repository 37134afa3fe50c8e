//! `duality compare`.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, slice};

use duality_lab::ask::budget;
use duality_lab::ask::settings::{Misfit, Settings, parse_duration};
use duality_lab::ask::variant::Choice;
use duality_lab::format::in_shell;
use duality_lab::measure as lab;
use duality_lab::measure::experiment::Experiment;
use duality_lab::measure::store::Store;
use duality_lab::measure::{Clock, Finished, Stage};
use duality_lab::record::results::Results;
use duality_lab::record::{Cell, Outcome, Records};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::render::text::TERMINAL;
use duality_lab::tell::report::RawLines;
use duality_lab::tell::{data, report};
use duality_runtime::log;

use super::binary::{Binary, BinaryFlags, Words};
use super::flags::replay::ReplayFlags;
use super::{
    ClientFlags, ConstraintFlags, Failure, HostFlags, SetupFlags, Tuning, experiment, explain,
    flag, for_terminal, heading, load, prices, print,
};
use crate::catalogue::Catalogue;

/// The flags about our own servers. The flags of a server of the user's own must name them too:
/// clap would drop the requirement of `--binary`.
const NOT_OF_A_BINARY: [&str; 5] = ["subject", "architectures", "peers", "store", "baseline"];

#[derive(clap::Args)]
#[command(after_long_help = include_str!("compare_examples.txt"))]
pub(super) struct Arguments {
    /// The service (see `duality services`), or a plan: a file called PLAN.toml, which flags
    /// override
    #[arg(value_name = "SERVICE|PLAN.toml")]
    pub(super) subject: Option<String>,
    /// A server given by its command line, with {port} in it, instead of a service, measured
    /// natively and by `duality run` (docs/run.md)
    ///
    /// The server runs in this working directory. --cores, --stack-size and --tick go to `duality
    /// run`. At each number of connections, the report answers whether to run it so: yes, no, or
    /// unknown.
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = NOT_OF_A_BINARY,
        help_heading = heading::BINARY
    )]
    binary: Option<String>,
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
    /// A command that makes the load, with {port} and maybe {connections} in it, for protocols that
    /// `duality load` does not speak
    ///
    /// The command is run once for each measurement. It makes its requests, prints `requests
    /// NUMBER`, and ends. It may also print `seconds NUMBER`, `errors NUMBER`, `p50_us NUMBER` and
    /// `p99_us NUMBER`. An exit status other than 0 fails the measurement. docs/run.md has all
    /// names, and examples/load/ has commands for memcached, Redis and MariaDB.
    #[arg(long, value_name = "COMMAND", value_parser = Words::parse, help_heading = heading::BINARY)]
    load_command: Option<Words>,
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
        conflicts_with_all = ["path", "load_command"],
        conflicts_with_all = NOT_OF_A_BINARY,
        help_heading = heading::BINARY
    )]
    url: Option<String>,
    #[command(flatten)]
    clients: ClientFlags,
    #[command(flatten)]
    pub(super) replay: ReplayFlags,
    /// Architectures to compare, such as threads,epoll; without it, all
    #[arg(short, long, value_delimiter = ',', value_name = "A,B,…", display_order = 0)]
    architectures: Option<Vec<String>>,
    /// Peers: servers that are not ours, measured beside the architectures
    ///
    /// Ready-made: nginx, lighttpd, apache-prefork, apache-worker, apache-event; for relay: nginx,
    /// haproxy. `cargo xtask peers` builds st, pth and pthreads. A plan can define others.
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", display_order = 0)]
    peers: Option<Vec<String>>,
    /// Subject of which the figures in --tables are also multiples: an architecture or a peer
    /// [default: --current, or the only peer]
    #[arg(long, value_name = "NAME", help_heading = heading::RECOMMENDATION)]
    pub(super) baseline: Option<String>,
    /// Do not measure an architecture twice, as a control that shows the effect of chance
    /// (docs/method.md)
    #[arg(long, help_heading = heading::MEASURING)]
    no_control: bool,
    /// Numbers of connections that are open at once [default: 1,10,100,1000, or those that the
    /// service supports]
    #[arg(short, long, value_delimiter = ',', value_name = "N,…", display_order = 0)]
    concurrency: Option<Vec<usize>>,
    /// Each connection carries several requests (the default)
    #[arg(long, conflicts_with = "close", help_heading = heading::CLIENTS)]
    keep_alive: bool,
    /// Number of measurements of each cell, each with a fresh server [default: 3]
    #[arg(long, help_heading = heading::MEASURING)]
    repeats: Option<usize>,
    /// Blocks of slices in each session; 0 measures one server after the other [default: such that
    /// the whole takes about two minutes]
    ///
    /// In a block all servers of a session are driven in turn. Blocks follow the windows.
    #[arg(long, value_name = "N", help_heading = heading::MEASURING)]
    blocks: Option<usize>,
    /// Length of each cell's measurement, before the blocks [default: 120ms; without blocks, such
    /// that the whole takes about two minutes]
    #[arg(long, value_parser = parse_duration, help_heading = heading::MEASURING)]
    window: Option<Duration>,
    /// Warm-up before each measurement [default: 80ms; without blocks, a fifth of a cell's share of
    /// the time]
    #[arg(long, value_parser = parse_duration, help_heading = heading::MEASURING)]
    warm_up: Option<Duration>,
    /// Limit on the whole time, such as 10m; a longer run tells smaller differences apart
    ///
    /// Blocks fill the time. An experiment that does not fit gets fewer blocks (at least 15 in
    /// all), then shorter windows (at least 0.5 s). Then it gets fewer repeats (at least 3). If an
    /// experiment takes longer than its time, it stops, and --resume continues it.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", help_heading = heading::MEASURING)]
    pub(super) budget: Option<Duration>,
    #[command(flatten)]
    constraints: ConstraintFlags,
    /// Percent within which two subjects are level, if that is sure [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = super::explain::margin, help_heading = heading::RECOMMENDATION)]
    margin: Option<f64>,
    /// Processors of the servers, such as 0 or 0,2; with --client-cpus [default: the first]
    #[arg(long, value_delimiter = ',', value_name = "CPU,…", requires = "client_cpus", help_heading = heading::MEASURING)]
    server_cpus: Option<Vec<usize>>,
    /// Processors of the load generator [default: those that share no core with the server's]
    #[arg(long, value_delimiter = ',', value_name = "CPU,…", requires = "server_cpus", help_heading = heading::MEASURING)]
    client_cpus: Option<Vec<usize>>,
    #[command(flatten)]
    hosts: HostFlags,
    /// The path that the client asks for [default: / of http, /guestbook of guestbook]
    #[arg(long, help_heading = heading::SERVICE)]
    path: Option<String>,
    /// Servers and clients of http speak TLS 1.3, with a certificate for this experiment
    /// (docs/tls.md)
    #[arg(long, conflicts_with_all = ["binary", "load_command", "host"], help_heading = heading::SERVICE)]
    tls: bool,
    /// Clients speak HTTP/2 to an application of axum, hyper or tonic (docs/axum.md)
    #[arg(long, conflicts_with_all = ["binary", "load_command"], help_heading = heading::CLIENTS)]
    http2: bool,
    #[command(flatten)]
    setup: SetupFlags,
    /// Where `guestbook` and `phone` keep their data [default: sqlite]
    ///
    /// sqlite and redis begin a new store for each cell. sqlite:PATH and redis://HOST:PORT are
    /// stores that exist.
    #[arg(long, value_name = "STORE", help_heading = heading::SERVICE)]
    store: Option<Store>,
    /// Seed of the order of the cells; without it, the time
    #[arg(long, help_heading = heading::MEASURING)]
    seed: Option<u64>,
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
    pub(super) tuning: Tuning,
}

impl Arguments {
    /// The experiment that the flags describe.
    pub(super) fn settings(&self) -> Settings {
        let clients = self.clients.settings();
        let mut settings = Settings {
            close: clients.close.or(self.keep_alive.then_some(false)),
            architectures: self
                .architectures
                .as_ref()
                .map(|names| names.iter().map(Choice::plain).collect()),
            peers: self.peers.clone(),
            load_command: self.load_command.clone().map(|Words(words)| words),
            control: self.no_control.then_some(false),
            concurrency: self.concurrency.clone(),
            repeats: self.repeats,
            blocks: self.blocks,
            warm_up: self.warm_up,
            window: self.window,
            seed: self.seed,
            path: self.path.clone(),
            tls: self.tls.then_some(true),
            http2: self.http2.then_some(true),
            store: self.store.clone(),
            server_cpus: self.server_cpus.clone(),
            client_cpus: self.client_cpus.clone(),
            constraints: self.constraints.constraints(),
            current: self.constraints.current().map(str::to_owned),
            margin: self.margin,
            ..clients
        };
        self.replay.put_into(&mut settings);
        self.hosts.put_into(&mut settings);
        self.setup.put_into(&mut settings);
        settings
    }

    /// The server given by its command line.
    fn binary(&self, command: &str) -> Result<Binary, Failure> {
        Binary::new(&BinaryFlags {
            command,
            compiled: self.compiled.as_deref(),
            url: self.url.as_deref(),
            tuning: self.tuning,
            tick: self.tick,
        })
    }

    /// The experiment of a command without a plan file.
    fn experiment(
        &self,
        catalogue: &Catalogue,
        mut settings: Settings,
    ) -> Result<Experiment, Failure> {
        let whole = self.budget.map(|limit| budget::aim(limit, 1));
        let experiment = match &self.binary {
            None => experiment::of(catalogue, &settings, &self.tuning, &[], whole),
            Some(command) => {
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
            let problem = format!("{name} is not compared: choose from {}", names.join(", "));
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
        given.extend(self.tuning.given());
        let Some(first) = given.first() else { return Ok(()) };
        let name = first.split('=').next().unwrap_or(first);
        Err(Failure::misuse(format!(
            "{name}: a plan of regimes has only --out, --resume and --check: set the rest in {} \
             (docs/plans.md)",
            file.display()
        )))
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
    let mut experiment = arguments.experiment(catalogue, settings)?;
    if arguments.check {
        return print(&explain::explain(&experiment));
    }
    prepare(&out, &mut experiment, arguments.resume)?;
    announce(&experiment);
    log::tell(format_args!("results in {}", out.display()));
    let interrupted = load::on_interrupt()?;
    let clock = Clock::new(&interrupted, arguments.budget);
    prices::find(slice::from_mut(&mut experiment), clock);
    let finished = measure(&experiment, &out, arguments.resume, clock)?;
    let shown =
        Shown { tables: arguments.tables, baseline: arguments.baseline.as_deref(), asked: "" };
    tell(&finished, &out, shown)?;
    if finished.complete {
        return something_measured(&finished);
    }
    let Records { cells, blocks } = &finished.records;
    let blocks = match finished.heading.design.blocks {
        0 => String::new(),
        _ if blocks.len() == 1 => ", and 1 block".to_owned(),
        _ => format!(", and {} blocks", blocks.len()),
    };
    Err(Failure::failed(format!(
        "{} after {} of {} cells{blocks}: go on with `{}`",
        if finished.out_of_time { "the budget was spent" } else { "interrupted" },
        cells.len(),
        experiment.cells(),
        command_to_resume(&experiment.command, &out),
    )))
}

/// The command line that continues `out`, quoted for a shell. The command line is the given one
/// with `--resume`.
pub(super) fn command_to_resume(given: &[String], out: &Path) -> String {
    // After `--`, words are not flags.
    let end = given.iter().position(|word| word == "--").unwrap_or(given.len());
    let (flags, rest) = given.split_at(end);
    let mut words = flags.to_vec();
    let names_directory =
        |word: &String| word == "--out" || word.starts_with("--out=") || word.starts_with("-o");
    if !flags.iter().any(names_directory) {
        words.extend(["--out".to_owned(), out.display().to_string()]);
    }
    if !flags.iter().any(|word| word == "--resume") {
        words.push("--resume".to_owned());
    }
    words.extend_from_slice(rest);
    // Only a NUL cannot be quoted, and no argument contains one.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

/// Refuses a directory that cannot be written, or that holds other results, before any measurement.
/// A resumed plan gets its original seed and timing. Returns the records so far.
pub(super) fn prepare(
    out: &Path,
    experiment: &mut Experiment,
    resume: bool,
) -> Result<Records, Failure> {
    let begun = Results::begun(out, &experiment.design);
    let records = match begun.map_err(|error| Failure::misuse(error.to_string()))? {
        None => Records::default(),
        Some(_) if !resume => {
            let problem = "holds results already: go on by --resume, or choose another --out";
            return Err(Failure::misuse(format!("{} {problem}", out.display())));
        }
        Some((design, records)) => {
            experiment.design = design;
            records
        }
    };
    writable(out)?;
    Ok(records)
}

/// Makes the directory `out` if it does not exist, and checks that files can be created in it.
pub(super) fn writable(out: &Path) -> Result<(), Failure> {
    fs::create_dir_all(out).and_then(|()| tempfile::tempfile_in(out)).map(drop).map_err(|error| {
        let problem = "choose a directory that can be written";
        Failure::misuse(format!("--out: {}: {error}: {problem}", out.display()))
    })
}

/// Fails if no cell was measured, with the reason of the first cell.
fn something_measured(finished: &Finished) -> Result<(), Failure> {
    let cells = &finished.records.cells;
    let reason = |cell: &Cell| match &cell.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed { reason } | Outcome::Unavailable { reason } => Some(reason.clone()),
    };
    if cells.iter().any(|cell| reason(cell).is_none()) {
        return Ok(());
    }
    let first = cells.iter().find_map(reason).unwrap_or_default();
    Err(Failure::failed(format!("nothing was measured: {first}")))
}

/// Prints the experiments that follow.
pub(super) fn announce(experiment: &Experiment) {
    let design = &experiment.design;
    let told = format!(
        "comparing {} at {}, {} each: {} cells, about {:.0} s",
        design.compared(),
        design.counted().several(&design.concurrency),
        if design.repeats == 1 { "once".to_owned() } else { format!("{} times", design.repeats) },
        experiment.cells(),
        experiment.length().as_secs_f64(),
    );
    for line in [told].iter().chain(&experiment.degraded).chain(&experiment.economies) {
        log::tell(for_terminal(line.clone(), &io::stderr()));
    }
}

/// Measures the cells that `out` lacks.
pub(super) fn measure(
    experiment: &Experiment,
    out: &Path,
    resume: bool,
    clock: Clock<'_>,
) -> Result<Finished, Failure> {
    let stage = Stage::set(experiment).map_err(Failure::failed)?;
    lab::compare(experiment, out, resume, clock, &stage)
        .map_err(|error| Failure::failed(error.to_string()))
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
                answer.render_screen(page, &more, terminal_width())
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
        .map_err(|error| Failure::failed(format!("{}: {error}", page.display())))?;
    let path = out.join("summary.json");
    fs::write(&path, data::summary(&answer).to_string() + "\n")
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    shown.print(&answer, &page, out)?;
    Ok(answer)
}

/// The columns of the terminal, or the usual number of them.
fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.unwrap_or(TERMINAL).max(20)
}

fn fresh_directory() -> PathBuf {
    let now = lab::now().replace(['-', ':', 'Z'], "").replace('T', "-");
    PathBuf::from(format!("duality-results-{now}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_resumes_is_the_one_that_was_given() {
        let words = |line: &str| shlex::split(line).unwrap();
        let out = Path::new("a b");
        for (given, added) in [
            ("duality compare aa.toml --out aa --budget=90s", "--resume"),
            ("./duality compare -oaa --resume", ""),
            ("duality compare --budget 90s", "--out 'a b' --resume"),
            ("duality compare --binary \"./it's {port}\" -o x", "--resume"),
        ] {
            let told = command_to_resume(&words(given), out);
            assert_eq!(words(&told), [words(given), words(added)].concat(), "{told}");
        }
        let told = command_to_resume(&words("duality compare -- echo"), Path::new("x"));
        assert_eq!(told, "duality compare --out x --resume -- echo");
    }
}
