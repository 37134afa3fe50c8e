//! `cargo bench -p duality-costs [NAME…]`: what `duality model --costs` measures, by the same
//! functions.
//!
//! Measurements run in processes of their own; so this program answers, when it is called with
//! `--measure`, for our own subjects, as `duality model --measure` does.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its result")]

use std::process::ExitCode;

use duality_costs::run::{self, Effort, Peers, Plan};
use duality_costs::{ALL, Trouble, measure, table};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, subject, cost, count] = &arguments[..]
        && flag == "--measure"
    {
        let reading = measure(subject, cost, count.parse().unwrap_or(1));
        match reading {
            Ok(reading) => println!("{}", reading.line(cost)),
            Err(Trouble::Unavailable(why)) => println!("unavailable {why}"),
            Err(unknown) => {
                eprintln!("costs: {unknown}");
                return ExitCode::from(2);
            }
        }
        return ExitCode::SUCCESS;
    }
    // cargo adds `--bench`; without it (`cargo test --benches`) a look is enough.
    let effort = if arguments.iter().any(|argument| argument == "--bench") {
        Effort::FULL
    } else {
        Effort::QUICK
    };
    let names: Vec<&String> = arguments.iter().filter(|name| !name.starts_with('-')).collect();
    let costs = ALL
        .iter()
        .filter(|cost| names.is_empty() || names.iter().any(|name| cost.is_called(name)))
        .collect();
    let executable = std::env::current_exe().expect("a running program has a path");
    let own = vec![executable.into(), "--measure".into()];
    run::pin();
    let rows = run::run(&Plan { costs, effort, own, peers: Peers::Built, until: None }, |name| {
        eprintln!("measuring {name}");
    });
    print!("{}", table::text(&rows));
    ExitCode::SUCCESS
}
