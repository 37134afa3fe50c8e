//! Simulates services:
//! `services NAME|all SEEDS [once|both] [legal] [tls] [servers=3]
//! [architecture=pool]`. For the soak of
//! `cargo xtask simulate`.

use std::process::ExitCode;
use std::time::Instant;

use duality_architectures::{Architecture, find};
use duality_outside as _;
use duality_runtime::log;
use duality_simulate::services::{ALL, Size};
use duality_simulate::{Faults, Waits, seeds};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, count, options @ ..] = words.as_slice() else {
        log::tell(
            "usage: services NAME|all SEEDS [once] [both] [legal] [tls] [servers=3] [architecture=pool]",
        );
        return ExitCode::from(2);
    };
    let has = |word: &str| options.iter().any(|option| option == word);
    let Ok(count) = count.parse() else {
        log::tell(format_args!("{count:?} is no number of seeds"));
        return ExitCode::from(2);
    };
    let servers = options.iter().find_map(|option| option.strip_prefix("servers="));
    let Ok(servers) = servers.unwrap_or("1").parse() else {
        log::tell("servers=3: the number of servers");
        return ExitCode::from(2);
    };
    let architecture = options.iter().find_map(|option| option.strip_prefix("architecture="));
    let architecture = architecture.and_then(find).map(Architecture::name);
    let size = Size { servers, architecture, tls: has("tls"), ..Size::default() };
    let mut code = ExitCode::SUCCESS;
    for simulation in ALL.iter().filter(|one| name == "all" || one.name == name) {
        let begin = Instant::now();
        let mut run = seeds(0..count);
        if has("legal") {
            run = run.faults(Faults::LEGAL);
        }
        if has("once") {
            run = run.once();
        }
        if has("both") {
            run = run.in_both_waits();
        }
        let name = simulation.name;
        if has("trace") {
            let waits = if has("park") { Waits::Park } else { Waits::Suspend };
            let (story, ended) = run.waits(waits).trace(count, true, simulation.run(size));
            story.iter().for_each(log::tell);
            log::tell(format_args!("{ended:?}"));
            continue;
        }
        match run.try_run(simulation.run(size)) {
            Ok(tally) => {
                let (hours, took) = (tally.time.as_secs_f64() / 3600.0, begin.elapsed());
                log::tell(format_args!(
                    "{name}: {} seeds in {took:.1?}, {hours:.1} virtual hours ({:.0} a minute), hash {:016x}",
                    tally.seeds,
                    hours / (took.as_secs_f64() / 60.0),
                    tally.hash
                ));
                log::tell(format_args!("  {}", tally.counts));
            }
            Err(failure) => {
                log::tell(format_args!("{name}: {failure}"));
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
