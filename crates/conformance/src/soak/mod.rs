//! A soak: servers built with AddressSanitizer, under clients that break off, stall, overflow and
//! send garbage at random. Other clients make right requests, and check every reply. docs/soak.md
//! says how to run it.
//!
//! ```text
//!   rounds ── one after the other ──▶ a fresh server, `variant` × `service`
//!                                        ▲ ▲ ▲      SIGUSR1 now and then, SIGTERM at the end
//!   60 clients ──────────────────────────┘ │ │      each draws its next act from `kinds`:
//!        right: the reply is checked ──────┘ │      a wrong one is a finding
//!        faults: anything may happen ────────┘
//! ```
//!
//! The choices follow the seed, but their timing does not.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

mod chat;
mod client;
mod faults;
pub mod kills;
mod kinds;
mod question;
mod right;
mod rounds;
mod server;
mod wire;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use duality_lab::random::SplitMix64;
use duality_lab::{AtFile, Failure, Party};
use rustix::process::Signal;

use client::{Client, Scene};
use rounds::Round;
use server::Server;

/// The time that a right request waits for its reply. A silent client holds a worker of a pool for
/// one or two seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time that a server may take to end.
const DRAIN: Duration = Duration::from_secs(40);
const CLIENTS: usize = 60;
/// The shortest round that is worth a server's start and end.
const SHORTEST_ROUND: Duration = Duration::from_secs(3);

/// The settings of a soak.
pub struct Settings {
    /// The `duality` command, instrumented or not.
    pub server: PathBuf,
    /// The folder of logs and stores.
    pub folder: PathBuf,
    /// The time of all rounds together.
    pub duration: Duration,
    /// The seed of the clients' choices.
    pub seed: u64,
    /// The architectures to run, by name. Empty means all.
    pub architectures: Vec<String>,
    /// The services to run, by name. Empty means all.
    pub services: Vec<String>,
}

/// The party of a mistake in the settings is the user. The party of a finding is the subject: the
/// server.
type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// A finding.
fn wrong(what: impl std::fmt::Display) -> Failure {
    Failure::new(Party::Subject, what)
}

/// The rounds of these names, in words. Without a name, all rounds.
///
/// # Errors
///
/// Fails if a name is unknown.
pub fn plan(architectures: &[String], services: &[String]) -> Result<Vec<String>> {
    let (rounds, _) = rounds::chosen(architectures, services)?;
    Ok(rounds.into_iter().map(title).collect())
}

/// Runs the rounds one after the other. Prints a line for each, and returns the number of rounds
/// with a finding.
///
/// # Errors
///
/// Fails if a name is unknown, or if a folder cannot be made.
pub fn run(settings: &Settings) -> Result<usize> {
    let (rounds, unable) = rounds::chosen(&settings.architectures, &settings.services)?;
    std::fs::create_dir_all(&settings.folder).at_file(settings.folder.display())?;
    unable.iter().for_each(|reason| println!("skipped: {reason}"));
    let possible = (settings.duration.as_secs() / SHORTEST_ROUND.as_secs()).max(1) as usize;
    let count = rounds.len().min(possible);
    println!(
        "{count} rounds of {}, {CLIENTS} clients, seed {}, logs in {}",
        rounds.len(),
        settings.seed,
        settings.folder.display()
    );
    let end = Instant::now() + settings.duration;
    let mut counts = vec![0; kinds::ALL.len()];
    let mut broken = 0;
    let mut around = Duration::ZERO;
    for (number, round) in rounds.into_iter().take(count).enumerate() {
        let start = Instant::now();
        // Later servers should start and end in the same time as earlier servers.
        let share = end.saturating_duration_since(start) / (count - number) as u32;
        let share = share.saturating_sub(around / (number as u32).max(1));
        let seed = SplitMix64::new(settings.seed.wrapping_add(number as u64));
        let outcome = soak(settings, round, share, seed);
        around += start.elapsed().saturating_sub(share);
        outcome.counts.iter().zip(&mut counts).for_each(|(one, all)| *all += one);
        let (right, faults) = kinds::right_and_faults(&outcome.counts);
        println!(
            "{:>3}/{count} {:>5.1} s  {:<42} {right:>6} right {faults:>6} faults {:>5} MiB  {}",
            number + 1,
            start.elapsed().as_secs_f64(),
            title(round),
            outcome.peak_mebibytes,
            if outcome.findings.is_empty() { "ok" } else { "FOUND" }
        );
        // Later errors follow from the first errors.
        outcome.findings.iter().take(3).for_each(|finding| println!("    {finding}"));
        broken += usize::from(!outcome.findings.is_empty());
    }
    println!();
    for (kind, count) in kinds::ALL.iter().zip(counts) {
        println!("{:<28} {count:>8}", kind.name);
    }
    Ok(broken)
}

fn title(round: Round) -> String {
    format!("{} {}", round.variant.join(" "), round.service.name())
}

/// The outcome of a round.
#[derive(Default)]
struct Outcome {
    counts: Vec<u64>,
    peak_mebibytes: u64,
    findings: Vec<Failure>,
}

fn soak(settings: &Settings, round: Round, share: Duration, mut random: SplitMix64) -> Outcome {
    let mut server = match Server::start(&settings.server, round, &settings.folder) {
        Ok(server) => server,
        Err(finding) => return Outcome { findings: vec![finding], ..Outcome::default() },
    };
    let scene = Scene::new(server.address(), round.service, kinds::ALL.len());
    // Half of the servers get the signal to end while they are busy, and owe no reply from then on.
    let is_ended_busy = random.below(2) == 0;
    let mut early = None;
    let peak_mebibytes = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client =
                Client { scene: &scene, random: SplitMix64::new(random.below(u64::MAX)) };
            scope.spawn(move || kinds::run(&mut client));
        }
        disturb(&mut server, round, &scene, Instant::now() + share, &mut random);
        let peak_mebibytes = server.peak_mebibytes();
        early = server.ended();
        if is_ended_busy {
            scene.drain();
            server.signal(Signal::TERM);
            // For some time the clients meet a draining server, and then no server.
            thread::sleep(Duration::from_millis(random.below(300)));
        }
        scene.finish();
        peak_mebibytes
    });
    let mut findings = scene.findings();
    findings.extend(early.map(|status| wrong(format_args!("it ended by itself: {status}"))));
    if !is_ended_busy {
        findings.extend(server.forgets_its_clients(PATIENCE).err());
        server.signal(Signal::TERM);
    }
    findings.extend(server.ends(DRAIN).err());
    Outcome { counts: scene.counts(), peak_mebibytes, findings }
}

/// Waits until `end`, until a finding, or until the server ends. Asks for a dump of all tasks now
/// and then.
fn disturb(
    server: &mut Server,
    round: Round,
    scene: &Scene,
    end: Instant,
    random: &mut SplitMix64,
) {
    const STEP: Duration = Duration::from_millis(50);
    while Instant::now() < end && !scene.is_over() && server.ended().is_none() {
        if round.tells_of_tasks() && random.below(20) == 0 {
            server.signal(Signal::USR1);
        }
        thread::sleep(STEP);
    }
}
