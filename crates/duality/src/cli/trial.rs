//! `duality trial`: candidates side by side on live traffic.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use duality_architectures::{Architecture, find};
use duality_lab::Mistake;
use duality_lab::ask::settings::{parse_bytes, parse_duration, parse_slo};
use duality_lab::judge::sequential::{PROMISE, Rule};
use duality_lab::live::Page;
use duality_lab::tell::answers;
use duality_lab::tell::journal::Journal;
use duality_lab::tell::render::text::{TERMINAL, text};
use duality_lab::trial::event::{Event, Told};
use duality_lab::trial::shown::Shown;
use duality_lab::trial::{self, By, Candidate, Glance, Limits, Listeners, Setup, Then};
use duality_load::Slo;
use duality_runtime::log;
use duality_runtime::net::{Choice, ListenerGroup, number_of_listen_fds};
use duality_services::store::Location;
use indicatif::{ProgressBar, ProgressStyle};

use super::flags::address::listen_address;
use super::flags::settings::{Service, SettingFlags};
use super::live::LiveFlags;
use super::{Blame, Failure, Party, Tuning, flag, heading, load, print, serve};
use crate::catalogue::{Catalogue, Listed};
use crate::setup;

/// The most candidates: each takes a share of the traffic, and all pairs are compared.
const MOST: usize = 16;
/// The shortest slot. The trial looks at each server a few times in a slot.
const SHORTEST_SLOT: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  duality trial http --root site --candidates epoll,threads --listen :8080
  duality trial echo --candidates epoll,pool --share pool=10% --slo p99=50ms
  duality trial http --candidates a=epoll,b=epoll --budget 10m --then exit
  duality trial http --candidates epoll,threads --live --open")]
pub(super) struct Arguments {
    /// The service (see `duality services`)
    service: Option<String>,
    /// The architectures that are tried, two at least, such as epoll,threads; NAME=ARCHITECTURE
    /// gives one another name
    #[arg(short, long, required = true, value_delimiter = ',', value_name = "A,B,…", value_parser = candidate)]
    candidates: Vec<(String, String)>,
    /// Where clients connect; port 0 takes a free one
    #[arg(short, long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: SocketAddr,
    #[command(flatten)]
    setup: SettingFlags<Service>,
    /// Where `guestbook` and `phone` keep what they are told: sqlite:PATH or redis://HOST:PORT
    #[arg(long, value_name = "STORE")]
    store: Option<Location>,
    /// Acknowledge a write to the store once the disk has it
    #[arg(long)]
    durable: bool,
    /// How long a candidate gets all new connections, before another one does
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = slot)]
    slot: Duration,
    /// Hand out connections in slots of time, or each by lot
    #[arg(long, value_enum, default_value_t = ByFlag::Slot)]
    by: ByFlag,
    /// The share of new connections that a candidate gets, such as uring=10%; the others have equal
    /// shares of the rest
    #[arg(long, value_delimiter = ',', value_name = "NAME=10%", value_parser = share)]
    share: Vec<(String, f64)>,
    /// A candidate is out if it does not keep this, such as p99=50ms
    #[arg(long, value_name = "PERCENTILE=LIMIT", value_parser = parse_slo)]
    slo: Option<Slo>,
    /// A candidate is out if a larger share of its requests fails
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = percent)]
    // As `MOST_FAILED`, which a test checks.
    max_errors: f64,
    /// A candidate is out if it takes more memory, such as 2G
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_memory: Option<u64>,
    /// How long to compare, if nothing is decided before
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse_duration)]
    budget: Duration,
    /// Candidates that differ by less are level, and end the trial
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = percent)]
    margin: f64,
    /// At the end, the best goes on serving, or all drain
    #[arg(long, value_enum, default_value_t = ThenFlag::Serve)]
    then: ThenFlag,
    /// Print what happens as lines of JSON (docs/trial.md)
    #[arg(long)]
    json: bool,
    /// Keep what happens in DIR/trial.jsonl, and a page that follows it in DIR/report.html
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    live: LiveFlags,
    /// The seed of the order of slots [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    tuning: Tuning,
    /// Processors that all candidates run on, such as 0 or 0,2
    #[arg(long, value_delimiter = ',', value_name = "CPU,…", help_heading = heading::SERVER)]
    cpus: Vec<usize>,
    /// Seconds that a candidate may take to drain, before its connections are cut off
    #[arg(long, default_value_t = 30, value_name = "SECONDS", help_heading = heading::LIMITS)]
    drain_limit: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ByFlag {
    Slot,
    Connection,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ThenFlag {
    Serve,
    Exit,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let setup = setup_of(catalogue, arguments)?;
    if number_of_listen_fds() > 0 {
        return Err(Failure::new(
            Party::Machine,
            "LISTEN_FDS: a trial needs a listener for each candidate, which it makes itself: start \
             it without socket activation",
        ));
    }
    let address = arguments.listen;
    let backlog = arguments.tuning.options().backlog;
    let group = ListenerGroup::bind(address, setup.candidates.len(), backlog)
        .map_err(|error| serve::cannot_listen(address, &error))?;
    let journal = arguments.out.as_deref().map(Journal::create).transpose();
    let journal = journal.blame(Party::User)?;
    let interrupted = load::on_interrupt()?;
    arguments.live.or_open().beside(|page| {
        let mut audience = Audience::new(arguments.json, journal, page.cloned());
        let done = trial::run(&setup, &KernelGroup(group), &mut audience, &interrupted);
        audience.finish();
        done?;
        audience.failure.map_or(Ok(()), Err)
    })
}

/// The set-up from the arguments, after checks.
fn setup_of(catalogue: &Catalogue, arguments: &Arguments) -> Result<Setup, Failure> {
    let name = arguments.service.as_deref().unwrap_or(catalogue.default_name());
    let setup = duality_services::Setup {
        store: arguments.store.clone(),
        durable: arguments.durable,
        ..arguments.setup.setup().map_err(flag)?
    };
    let listed = catalogue.look_up(name, &setup).map_err(flag)?;
    setup::check_files(&setup).map_err(flag)?;
    let tuning = arguments.tuning.suited_to(&listed);
    tuning.check(&listed).map_err(flag)?;
    // Candidates are processes, like those of prefork.
    let processes = find("prefork").map(|one| one.about().gives);
    if let Some(reason) = processes.and_then(|given| listed.missing_from(given)) {
        return Err(Failure::new(Party::Machine, format!("{name} on trial: {reason}")));
    }
    let candidates = candidates(arguments)?;
    for Candidate { name, architecture, .. } in &candidates {
        let architecture = catalogue.architecture(architecture).blame(Party::User)?;
        suits(architecture, &listed, arguments).blame_at(Party::Machine, format_args!("{name}"))?;
    }
    let mut server_arguments = [tuning.to_arguments(), setup::to_arguments(&setup)].concat();
    server_arguments.extend(arguments.store.as_ref().map(|store| format!("--store={store}")));
    server_arguments.extend(arguments.durable.then(|| "--durable".to_owned()));
    server_arguments.push(format!("--drain-limit={}", arguments.drain_limit));
    if !arguments.cpus.is_empty() {
        let cpus: Vec<String> = arguments.cpus.iter().map(usize::to_string).collect();
        server_arguments.push(format!("--cpus={}", cpus.join(",")));
    }
    let program = std::env::current_exe().blame_at(Party::Machine, "cannot find this program")?;
    Ok(Setup {
        program,
        service: name.to_owned(),
        candidates,
        server_arguments,
        slot: arguments.slot,
        by: match arguments.by {
            ByFlag::Slot => By::Slot,
            ByFlag::Connection => By::Connection,
        },
        limits: Limits {
            slo: arguments.slo,
            max_errors: arguments.max_errors,
            max_memory: arguments.max_memory,
        },
        budget: arguments.budget,
        then: match arguments.then {
            ThenFlag::Serve => Then::Serve,
            ThenFlag::Exit => Then::Exit,
        },
        rule: Rule { promise: PROMISE, margin: arguments.margin },
        seed: arguments.seed.unwrap_or_else(seed),
    })
}

/// The candidates with their shares.
fn candidates(arguments: &Arguments) -> Result<Vec<Candidate>, Failure> {
    let misuse = |problem: String| Failure::misuse(problem);
    let given = &arguments.candidates;
    let names: BTreeSet<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
    if given.len() < 2 {
        let problem =
            "--candidates: one candidate is no trial: give two at least, such as a=epoll,b=threads";
        return Err(misuse(problem.to_owned()));
    }
    if given.len() > MOST {
        return Err(misuse(format!("--candidates: give {MOST} at most")));
    }
    if names.len() < given.len() {
        let problem =
            "--candidates: two have the same name: give other names, such as a=epoll,b=epoll";
        return Err(misuse(problem.to_owned()));
    }
    if let Some((unknown, _)) = arguments.share.iter().find(|(name, _)| !names.contains(&**name)) {
        return Err(misuse(format!("--share: {unknown} is no candidate")));
    }
    let share = |name: &str| {
        let given = arguments.share.iter().rev().find(|(of, _)| of == name);
        given.map(|(_, share)| *share)
    };
    let fixed: Vec<f64> = given.iter().filter_map(|(name, _)| share(name)).collect();
    let (sum, others) = (fixed.iter().sum::<f64>(), given.len() - fixed.len());
    let is_whole = (sum - 1.0).abs() < 1e-9;
    if sum > 1.0 + 1e-9 || (others > 0 && is_whole) || (others == 0 && !is_whole) {
        let remedy = match others {
            0 => "make the shares 100 % together",
            _ => "leave a share for the other candidates",
        };
        return Err(misuse(format!("--share: {:.0} % in all: {remedy}", 100.0 * sum)));
    }
    let equal = (1.0 - sum) / others.max(1) as f64;
    let candidate = |(name, architecture): &(String, String)| Candidate {
        name: name.clone(),
        architecture: architecture.clone(),
        share: share(name).unwrap_or(equal),
    };
    Ok(given.iter().map(candidate).collect())
}

/// Whether a candidate can serve here and be measured.
fn suits(
    architecture: &dyn Architecture,
    listed: &Listed,
    arguments: &Arguments,
) -> Result<(), Mistake> {
    if !architecture.about().gives.straight_line {
        return Err("it does not count its requests: choose another architecture".into());
    }
    listed
        .refusal(architecture)
        .or_else(|| architecture.unavailable(&arguments.tuning.options()))
        .map_or(Ok(()), |reason| Err(reason.into()))
}

/// The sockets of the trial, among which the kernel chooses.
struct KernelGroup(ListenerGroup);

impl Listeners for KernelGroup {
    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn listener(&self, candidate: usize) -> BorrowedFd<'_> {
        self.0.listener(candidate)
    }

    fn has_connections(&self, candidate: usize) -> bool {
        self.0.has_connections(candidate)
    }

    fn choose(&self, candidate: usize) -> io::Result<()> {
        self.0.choose(Choice::One(candidate))
    }

    fn draw(&self, weights: &[u32]) -> io::Result<()> {
        self.0.choose(Choice::AtRandom(weights))
    }

    fn close_to_newcomers(&self) -> io::Result<()> {
        self.0.close_to_newcomers()
    }
}

/// Prints the events of a trial, and keeps them.
struct Audience {
    json: bool,
    journal: Option<Journal>,
    /// A line that shows the standing, on a terminal.
    live: Option<ProgressBar>,
    /// A page in a browser, and what it shows.
    page: Option<(Page, Shown)>,
    /// The reason why an event was not kept or printed.
    failure: Option<Failure>,
}

impl Audience {
    fn new(json: bool, journal: Option<Journal>, page: Option<Page>) -> Self {
        let live = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
            ProgressBar::new_spinner().with_style(style.expect("the template is right"))
        });
        let page = page.map(|page| (page, Shown::default()));
        Self { json, journal, live, page, failure: None }
    }

    /// Prints a line above the live line.
    fn say(&self, text: &str) {
        match &self.live {
            Some(live) => live.suspend(|| log::tell(format_args!("{text}"))),
            None => log::tell(format_args!("{text}")),
        }
    }

    /// Prints a result.
    fn print(&mut self, text: &str) {
        let printed = match &self.live {
            Some(live) => live.suspend(|| print(text)),
            None => print(text),
        };
        self.note(printed);
    }

    /// Reports the first failure. The trial goes on, for its clients.
    fn note(&mut self, done: Result<(), Failure>) {
        if let Err(problem) = done
            && self.failure.is_none()
        {
            self.say(&format!("the trial goes on, but {problem}"));
            self.failure = Some(problem);
        }
    }

    /// Removes the live line.
    fn finish(&self) {
        if let Some(live) = &self.live {
            live.finish_and_clear();
        }
    }
}

impl trial::Audience for Audience {
    fn hear(&mut self, event: &Told) {
        if let Some(journal) = &mut self.journal {
            let kept = journal.add(event).blame_at(Party::Machine, "cannot keep records");
            self.note(kept);
        }
        if let Some((page, shown)) = &mut self.page {
            shown.hear(event);
            page.publish(shown.state());
        }
        // The live line already shows the event.
        let is_shown = self.live.is_some() && matches!(event.event, Event::Block(_));
        if self.json {
            let line = serde_json::to_string(event).expect("an event is plain data");
            return self.print(&line);
        }
        if let Event::Began(heading) = &event.event {
            self.print(&format!("listening on {}", heading.address));
        }
        if !is_shown {
            self.say(&trial::line(event));
        }
        if let Event::Decided(_) = &event.event {
            let sheet = answers::trial::sheet(std::slice::from_ref(event));
            self.print(&text(&sheet, TERMINAL));
        }
    }

    fn glance(&mut self, glance: &Glance) {
        if let Some(live) = &self.live {
            live.set_message(glance.line());
            live.tick();
        }
        if let Some((page, shown)) = &mut self.page {
            shown.look(glance);
            page.publish(shown.state());
        }
    }
}

/// A candidate: `epoll`, or `name=epoll`.
fn candidate(text: &str) -> Result<(String, String), Mistake> {
    let (name, architecture) = text.split_once('=').unwrap_or((text, text));
    let (name, architecture) = (name.trim(), architecture.trim());
    let is_long = name.chars().count() > 40;
    if name.is_empty() || architecture.is_empty() || is_long || name.chars().any(char::is_control) {
        return Err("give an architecture, or NAME=ARCHITECTURE with a short name".into());
    }
    Ok((name.to_owned(), architecture.to_owned()))
}

fn slot(text: &str) -> Result<Duration, Mistake> {
    let slot = parse_duration(text)?;
    let is_possible = (SHORTEST_SLOT..=Duration::from_secs(3600)).contains(&slot);
    if is_possible { Ok(slot) } else { Err("give a time from 50ms to 60m".into()) }
}

/// A share with its percent sign, above zero.
fn percent(text: &str) -> Result<f64, Mistake> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let is_share = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
    number.filter(is_share).map(|percent| percent / 100.0).ok_or("give a share such as 0.5%".into())
}

/// `name=10%`.
fn share(text: &str) -> Result<(String, f64), Mistake> {
    let (name, share) = text.split_once('=').ok_or("give a share such as uring=10%")?;
    Ok((name.trim().to_owned(), percent(share)?))
}

/// A seed from the clock.
fn seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use duality_lab::judge::faults::MOST_FAILED;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The candidates of a command line with their shares, or the error about them.
    fn shares(line: &str) -> Result<Vec<(String, f64)>, Mistake> {
        let words = ["trial", "http"].into_iter().chain(line.split_whitespace());
        let parsed = CommandLine::try_parse_from(words).map_err(|error| error.to_string())?;
        let found = candidates(&parsed.arguments).map_err(|failure| failure.to_string())?;
        Ok(found.into_iter().map(|one| (one.name, one.share)).collect())
    }

    #[test]
    fn shares_are_equal_but_for_those_that_are_given() {
        let found = shares("--candidates a=epoll,b=epoll,pool --share pool=10%").unwrap();
        let expected = [("a", 0.45), ("b", 0.45), ("pool", 0.1)];
        for ((name, share), (expected, least)) in found.iter().zip(expected) {
            assert!(name == expected && (share - least).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(shares("-c epoll,pool").unwrap()[1], ("pool".to_owned(), 0.5));
    }

    #[test]
    fn a_trial_takes_out_what_a_comparison_excludes() {
        let words = ["trial", "http", "--candidates", "epoll,pool"];
        let parsed = CommandLine::try_parse_from(words).unwrap();
        assert_eq!(parsed.arguments.max_errors, MOST_FAILED);
    }

    #[test]
    fn what_is_no_trial_is_told_the_remedy() {
        for (line, problem) in [
            ("--candidates epoll", "give two at least"),
            ("--candidates epoll,epoll", "two have the same name"),
            ("--candidates epoll,pool --share uring=10%", "uring is no candidate"),
            ("--candidates epoll,pool --share epoll=100%", "leave a share"),
            ("--candidates epoll,pool --share epoll=10%,pool=10%", "make the shares 100 %"),
            ("--candidates epoll,pool --share epoll=0%", "give a share such as"),
            ("--candidates epoll,=pool", "NAME=ARCHITECTURE"),
            ("--candidates epoll,pool --slot 1ms", "from 50ms to 60m"),
        ] {
            let message = shares(line).unwrap_err().to_string();
            assert!(message.contains(problem), "{line}: {message}");
        }
    }
}
