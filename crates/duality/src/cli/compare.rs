//! `duality compare` and `duality report`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duality_lab::plan::Plan;
use duality_lab::plan::settings::{Settings, parse_duration};
use duality_lab::report::RawLines;
use duality_lab::report::markdown::Table;
use duality_lab::run::Finished;
use duality_lab::store::Store;
use duality_lab::summary::Summary;
use duality_lab::{report as page, results, run as lab};

use super::{
    ClientFlags, Failure, Setup, Tuning, experiment, explain, flag, load, pages, plan, print,
};
use crate::catalogue::Catalogue;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The service (see `duality services`), or a plan: a file called PLAN.toml, which flags override
    #[arg(value_name = "SERVICE|PLAN.toml")]
    subject: Option<String>,
    #[command(flatten)]
    clients: ClientFlags,
    /// Which architectures, such as threads,epoll; without it, all
    #[arg(short, long, value_delimiter = ',', value_name = "A,B,…")]
    architectures: Option<Vec<String>>,
    /// Servers that are not ours, measured beside them: nginx, lighttpd, apache-prefork, apache-worker, apache-event; st, pth and pthreads, which `cargo xtask peers` builds; and those that the plan defines
    #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
    peers: Option<Vec<String>>,
    /// How many connections are open at once [default: 1,10,100,1000, or those that the service can do with]
    #[arg(short, long, value_delimiter = ',', value_name = "N,…")]
    concurrency: Option<Vec<usize>>,
    /// Each connection carries request after request (the default)
    #[arg(long, conflicts_with = "close")]
    keep_alive: bool,
    /// How often each cell is measured, each time with a fresh server [default: 3]
    #[arg(long)]
    repeats: Option<usize>,
    /// How long each cell is measured; without it, chosen so that the whole takes about two minutes
    #[arg(long, value_parser = parse_duration)]
    window: Option<Duration>,
    /// What is dropped before each measurement
    #[arg(long, value_parser = parse_duration)]
    warm_up: Option<Duration>,
    /// The path that the client asks for [default: / of http, /guestbook of guestbook]
    #[arg(long)]
    path: Option<String>,
    #[command(flatten)]
    setup: Setup,
    /// Where `guestbook` and `phone` keep what they are told: a new one for each cell (sqlite, redis), or one that is there (sqlite:PATH, redis://HOST:PORT) [default: sqlite]
    #[arg(long, value_name = "STORE")]
    store: Option<Store>,
    /// Decides the order of the cells; without it, the time
    #[arg(long)]
    seed: Option<u64>,
    /// Where results.jsonl and report.html go, those of a plan each in a directory of the experiment's name; without it, a new directory duality-results-TIME
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only explain what would be measured, what is unavailable and why, and how long it takes
    #[arg(long, conflicts_with_all = ["out", "resume"])]
    check: bool,
    /// Go on with what --out has begun
    #[arg(long, requires = "out")]
    resume: bool,
    #[command(flatten)]
    tuning: Tuning,
}

#[derive(clap::Args)]
pub(super) struct ReportArguments {
    /// Results files that `compare` wrote, of one experiment; or the directory of a run, whose pages are written anew, a plan's index among them
    #[arg(required = true, value_name = "RESULTS|DIR")]
    results: Vec<PathBuf>,
    /// The page to write; of a directory, each has its place [default: report.html]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print tables as Markdown, and write no page: rate, mean, p99, load, slope, cpu, memory, switches
    #[arg(long, value_delimiter = ',', value_name = "TABLE,…", conflicts_with = "out")]
    markdown: Vec<Table>,
}

impl Arguments {
    /// What the flags ask for.
    fn settings(&self) -> Settings {
        let clients = self.clients.settings();
        let mut settings = Settings {
            close: clients.close.or(self.keep_alive.then_some(false)),
            architectures: self.architectures.clone(),
            peers: self.peers.clone(),
            concurrency: self.concurrency.clone(),
            repeats: self.repeats,
            warm_up: self.warm_up,
            window: self.window,
            seed: self.seed,
            path: self.path.clone(),
            store: self.store.clone(),
            ..clients
        };
        self.setup.put_into(&mut settings);
        settings
    }

    /// The plan file that is meant, if one is.
    fn plan(&self) -> Option<&Path> {
        let path = Path::new(self.subject.as_ref()?);
        path.extension().is_some_and(|extension| extension == "toml").then_some(path)
    }
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let out = arguments.out.clone().unwrap_or_else(fresh_directory);
    let mut settings = arguments.settings();
    if let Some(file) = arguments.plan() {
        let flags = plan::Flags { settings, tuning: arguments.tuning };
        if arguments.check {
            return plan::check(catalogue, file, &flags);
        }
        return plan::run(catalogue, file, &flags, &out, arguments.resume);
    }
    settings.service.clone_from(&arguments.subject);
    let plan = experiment::plan(catalogue, &settings, &arguments.tuning, &[]).map_err(flag)?;
    if arguments.check {
        return print(&explain::explain(&plan));
    }
    announce(&plan);
    eprintln!("results in {}", out.display());
    let interrupted = load::on_interrupt()?;
    let finished = measure(&plan, &out, arguments.resume, &interrupted)?;
    eprintln!("report: {}", out.join("report.html").display());
    if finished.complete {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "interrupted after {} of {} cells: go on with `compare … --out {} --resume`",
        finished.cells.len(),
        plan.cells(),
        out.display()
    )))
}

pub(super) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let ReportArguments { results, out, markdown } = arguments;
    if !markdown.is_empty() {
        return results.iter().try_for_each(|run| pages::tables(run, markdown));
    }
    if out.is_none() && results.iter().all(|path| path.is_dir()) {
        return results.iter().try_for_each(|run| pages::rebuild(run));
    }
    let (experiment, cells) =
        results::read(results).map_err(|error| Failure::misuse(error.to_string()))?;
    let out = out.as_deref().unwrap_or(Path::new("report.html"));
    RawLines::read(results)
        .and_then(|raw| page::write(out, &experiment, &cells, &raw))
        .map_err(|error| Failure::failed(format!("{}: {error}", out.display())))?;
    print(&Summary::of(&experiment, &cells).render_text())?;
    eprintln!("report: {}", out.display());
    Ok(())
}

/// Says what is going to be measured.
pub(super) fn announce(plan: &Plan) {
    let connections: Vec<String> = plan.design.concurrency.iter().map(usize::to_string).collect();
    eprintln!(
        "comparing {} at {} connections, {} each: {} cells, about {:.0} s",
        plan.design.compared(),
        connections.join(", "),
        if plan.design.repeats == 1 {
            "once".to_owned()
        } else {
            format!("{} times", plan.design.repeats)
        },
        plan.cells(),
        plan.length().as_secs_f64(),
    );
}

/// Measures what `out` does not have yet, writes the report there, and prints the tables.
pub(super) fn measure(
    plan: &Plan,
    out: &Path,
    resume: bool,
    interrupted: &AtomicBool,
) -> Result<Finished, Failure> {
    let finished = lab::compare(plan, out, resume, interrupted)
        .map_err(|error| Failure::failed(error.to_string()))?;
    let path = out.join("report.html");
    RawLines::read(&[out.join("results.jsonl")])
        .and_then(|raw| page::write(&path, &finished.experiment, &finished.cells, &raw))
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    print(&Summary::of(&finished.experiment, &finished.cells).render_text())?;
    Ok(finished)
}

fn fresh_directory() -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    PathBuf::from(format!("duality-results-{now}"))
}
