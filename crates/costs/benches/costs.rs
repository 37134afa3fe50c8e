//! `cargo bench -p duality-costs [NAME…]`: measures the costs of `duality model --costs` by the
//! functions of that command.
//!
//! Each measurement runs in its own process. So with `--measure` this program measures a subject of
//! ours, as `duality model --measure` does.

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
    // `cargo bench` adds `--bench`. Without it (`cargo test --benches`), a quick look is enough.
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
