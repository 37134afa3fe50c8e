//! `soak`: `cargo xtask soak` runs this program after it has built an instrumented server. Exit
//! code 1 means that the soak found a fault.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use duality_conformance::soak::{Settings, kills, plan, run};
use duality_lab::{Blame as _, Failure, Party};

/// Runs servers under clients that make random mistakes
#[derive(Parser)]
struct Arguments {
    /// The minutes of all rounds together
    #[arg(long, default_value_t = 24.0)]
    minutes: f64,
    /// The seed of the clients' choices [default: the time of day]
    #[arg(long)]
    seed: Option<u64>,
    /// Runs only these architectures, in all their variants
    #[arg(long, value_delimiter = ',')]
    architectures: Vec<String>,
    /// Runs only these services
    #[arg(long, value_delimiter = ',')]
    services: Vec<String>,
    /// Instead of rounds, kills the server or its store so many times, and looks for acknowledged
    /// entries
    #[arg(long, conflicts_with = "minutes")]
    kills: Option<usize>,
    /// The duality command; without it, the rounds are only listed
    #[arg(long)]
    server: Option<PathBuf>,
    /// The folder of logs and stores
    #[arg(long, default_value = "target/soak/logs")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match soak(Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("soak: {problem}");
            ExitCode::from(problem.party.exit_code())
        }
    }
}

/// The number of rounds that found a fault.
fn soak(arguments: Arguments) -> Result<usize, Failure> {
    let duration =
        Duration::try_from_secs_f64(arguments.minutes * 60.0).blame_at(Party::User, "--minutes")?;
    let Some(server) = arguments.server else {
        let rounds = plan(&arguments.architectures, &arguments.services)?;
        rounds.iter().for_each(|round| println!("{round}"));
        return Ok(0);
    };
    let settings = Settings {
        server,
        folder: arguments.folder,
        duration,
        seed: arguments.seed.unwrap_or_else(time_of_day),
        architectures: arguments.architectures,
        services: arguments.services,
    };
    let broken = match arguments.kills {
        Some(count) => kills::run(&settings, count),
        None => run(&settings)?,
    };
    if broken > 0 {
        println!("\nsomething was found in {broken} of the rounds");
    }
    Ok(broken)
}

fn time_of_day() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}
