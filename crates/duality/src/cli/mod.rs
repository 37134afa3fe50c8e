//! The command line. Standard output carries results, and standard error carries progress and
//! errors. Exit code 2 means misuse, 1 means failure.

mod agent;
mod binary;
mod builds;
mod capacity;
mod cc;
mod compare;
mod experiment;
mod explain;
mod flags;
mod graph;
mod injection;
pub mod list;
mod live;
mod load;
mod model;
pub mod on_paper;
mod plan;
mod preloaded;
mod prices;
mod privileges;
mod question;
mod record;
mod regimes;
mod report;
mod resumed;
mod run;
mod runs;
mod serve;
mod shell;
mod signals;
mod simulate;
mod trace;
mod trial;
mod versions;
mod what_ifs;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::num::{ParseFloatError, ParseIntError};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

pub(crate) use flags::Tuning;
use flags::{ConstraintFlags, heading};

use duality_architectures::common::children;
use duality_lab::names::is_near;
use duality_lab::tell::render::text::TERMINAL;
use duality_lab::tell::screen::folded;
use duality_lab::units::{NO_NUMBER, no_whole};
use duality_runtime::log;
use rustix::process::{Resource, getrlimit};

use crate::Service;
use crate::catalogue::Catalogue;
pub use crate::failure::Failure;
pub(crate) use crate::failure::{Blame, Party, flag};

/// Run one network service under every server architecture, and measure which is best.
#[derive(Parser)]
#[command(
    name = "duality",
    version,
    arg_required_else_help = true,
    args_override_self = true,
    after_help = "\
Start with `duality compare`: in about three minutes it shows which architecture
serves the built-in web server best on this machine, and writes a report to open
in a browser."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a service under one architecture
    Serve(Box<serve::Arguments>),
    /// Make load on a server, and report what it did
    Load(Box<load::Arguments>),
    /// Measure a service under many architectures, and recommend one
    Compare(Box<compare::Arguments>),
    /// Try architectures on live traffic, and go on with the best
    Trial(Box<trial::Arguments>),
    /// Write plans, which say what to compare
    Plan(plan::Arguments),
    /// Write the report of a run measured before, or compare two runs
    Report(report::Arguments),
    /// Predict what more connections or a higher rate would take, from runs measured before
    Capacity(capacity::Arguments),
    /// Make a trace of how clients behaved from a server's logs, or show one
    Trace(trace::Arguments),
    /// Make a trace of live traffic, from its packets or as a proxy
    Record(record::Arguments),
    /// Run a service in a simulated world, with faults, by seeds that come back
    Simulate(simulate::Arguments),
    /// Draw where a service may wait, and what it does in between, from a real run
    Graph(Box<graph::Arguments>),
    /// Split the time of a request by what architectures do, and measure what that costs (--costs)
    Model(model::Arguments),
    /// Run an unmodified program with its threads as user-level threads
    Run(run::Arguments),
    /// Compile threaded C into an event-driven program, as a drop-in for `cc`
    Cc(cc::Arguments),
    /// Compile threaded C++ into an event-driven program, as a drop-in for `c++`
    #[command(name = "c++")]
    Cxx(cc::Arguments),
    /// List the architectures, and what they can and cannot carry
    Architectures(list::Arguments),
    /// List the services
    Services(list::Arguments),
    /// Print what a shell needs to complete this command's flags
    Completions(shell::Completions),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual(shell::Manual),
    /// Carry out what a comparison asks of this host, over standard input and output
    #[command(hide = true)]
    Agent,
}

/// Runs the command line of this process, for Duality's own services or the user's.
pub fn main(own: Option<Service>) -> ExitCode {
    /// A stack that is large enough to read the command line.
    const STACK: usize = 2 << 20;
    let limit = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    if limit >= STACK as u64 {
        return run_command(own);
    }
    // A server may fork without this thread, which waits for the other thread.
    children::helper();
    // `ulimit -s 64` applies to the program that `run` becomes. Such a small stack would end this
    // command.
    let ended = thread::Builder::new().stack_size(STACK).spawn(|| run_command(own));
    ended.map_or_else(
        |error| {
            log::tell(format_args!("duality: the stack is small (ulimit -s), and {error}"));
            ExitCode::FAILURE
        },
        |thread| thread.join().unwrap_or(ExitCode::FAILURE),
    )
}

fn run_command(own: Option<Service>) -> ExitCode {
    let command = match parse() {
        Ok(command) => command,
        Err(error) => return explain(&error),
    };
    let catalogue = own.map_or(Catalogue::BuiltIn, |service| Catalogue::Own(Box::new(service)));
    let result = match command {
        Command::Serve(arguments) => serve::run(&catalogue, &arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Compare(arguments) => question::answer(&catalogue, &arguments),
        Command::Trial(arguments) => trial::run(&catalogue, &arguments),
        Command::Plan(arguments) => plan::write(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Capacity(arguments) => capacity::run(&catalogue, &arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&catalogue, &arguments),
        Command::Graph(arguments) => graph::run(&catalogue, &arguments),
        Command::Model(arguments) => model::run(&catalogue, &arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Cc(arguments) | Command::Cxx(arguments) => return end(cc::run(&arguments)),
        Command::Architectures(arguments) => list::architectures(&catalogue, &arguments),
        Command::Services(arguments) => list::services(&catalogue, &arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Manual(arguments) => shell::manual(&arguments),
        Command::Agent => agent::run(),
    };
    end(result.map(|()| ExitCode::SUCCESS))
}

/// The exit code of a command, and the error message of a failure.
fn end(result: Result<ExitCode, Failure>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(failure) => {
            log::tell(format_args!("duality: {failure}"));
            ExitCode::from(failure.party.exit_code())
        }
    }
}

/// Reads the command line. `run` and `cc` stand before the start of another program, so they are
/// looked for first: to describe all commands takes a millisecond. The arguments of `cc` and `c++`
/// are a compiler's, which clap could not read.
fn parse() -> Result<Command, clap::Error> {
    if cc::is_asked_for() {
        return Ok(Command::Cc(cc::Arguments::of_process()));
    }
    if std::env::args_os().nth(1).is_some_and(|command| command == "run") {
        let arguments = std::env::args_os().skip(1);
        return run::Alone::try_parse_from(arguments).map(|alone| Command::Run(alone.arguments));
    }
    let words = resumed::words(std::env::args_os().collect());
    Arguments::try_parse_from(words).map(|arguments| arguments.command)
}

/// The text for `stream`: on a terminal, its sentences are folded.
pub(crate) fn for_terminal(text: String, stream: &impl IsTerminal) -> String {
    if stream.is_terminal() { folded(&text) } else { text }
}

/// The columns of a terminal, or the usual number of them.
fn terminal_width(stream: &impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.unwrap_or(TERMINAL).max(20)
}

/// Writes text to standard output. If its reader has gone (`| head`), the rest is dropped.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match writeln!(anstream::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Party::Machine, error).at("standard output"))
        }
        _ => Ok(()),
    }
}

/// A paragraph in lines of 80 columns. The first line begins with `first`, and further lines with
/// `rest`.
pub(crate) fn paragraph(first: &str, rest: &str, text: &str) -> String {
    // A flag is not broken at its hyphens.
    let splitter = textwrap::WordSplitter::NoHyphenation;
    let options = textwrap::Options::new(80).word_splitter(splitter).break_words(false);
    textwrap::fill(text, options.initial_indent(first).subsequent_indent(rest)) + "\n"
}

/// Prints help if it was requested. Otherwise prints one line that names the mistake.
fn explain(error: &clap::Error) -> ExitCode {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if asked {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    log::tell(format_args!("duality: {} (see --help)", in_one_line(error)));
    ExitCode::from(2)
}

/// The mistake that clap found. It is the first paragraph. The second may be a hint, and the rest
/// is usage.
fn in_one_line(error: &clap::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        let plain = match (source.downcast_ref::<ParseIntError>(), source.is::<ParseFloatError>()) {
            (Some(error), _) => Some(no_whole(error)),
            (None, is_number) => is_number.then_some(NO_NUMBER),
        };
        if let Some(plain) = plain {
            text = text.replace(&source.to_string(), plain);
        }
    }
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.trim_start_matches('-')),
        _ => None,
    };
    let unknown = given(ContextKind::InvalidArg);
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    // clap's measure of likeness takes --quiet for --budget.
    let is_far = unknown
        .zip(given(ContextKind::SuggestedArg))
        .is_some_and(|(given, known)| !is_near(given, known));
    let is_told = |paragraph: &&str| {
        let is_usage = paragraph.starts_with("Usage:") || paragraph.starts_with("For more");
        let is_wrong_tip = is_unknown && is_far && paragraph.contains("tip: ");
        !is_usage && !is_wrong_tip
    };
    let lines: Vec<&str> = text
        .split("\n\n")
        .filter(is_told)
        .flat_map(str::lines)
        .map(|line| line.trim().trim_start_matches("error: "))
        .filter(|line| !line.is_empty())
        .collect();
    // A line that ends in a colon begins a list.
    let message = lines.join("; ").replace(":; ", ": ");
    match unknown.filter(|name| is_unknown && ["quiet", "q", "silent", "s"].contains(name)) {
        Some(_) => format!("{message}; progress goes to standard error: add 2>/dev/null"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// clap wraps the text that it lays out itself. Text that is laid out by hand must fit.
    #[test]
    fn help_that_is_laid_out_by_hand_fits_80_columns() {
        let mut commands = vec![Arguments::command(), run::Alone::command()];
        let mut texts = vec![cc::HELP.to_owned()];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let ends = [command.get_after_help(), command.get_after_long_help()];
            texts.extend(ends.into_iter().flatten().map(ToString::to_string));
        }
        assert!(texts.len() >= 7, "the texts of load, report, graph, model and others");
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// Every command with its path, from the tree that clap reads.
    fn all_commands() -> Vec<(Vec<String>, clap::Command)> {
        let mut left = vec![(vec!["duality".to_owned()], Arguments::command())];
        let mut all = Vec::new();
        while let Some((path, command)) = left.pop() {
            left.extend(
                command
                    .get_subcommands()
                    .map(|one| ([&path[..], &[one.get_name().to_owned()]].concat(), one.clone())),
            );
            all.push((path, command));
        }
        all
    }

    /// What no user should have to read.
    const INTERNAL: [&str; 7] = [
        "invalid digit",
        "invalid float",
        "cannot parse integer",
        "number too large to fit",
        "number would be zero",
        "ParseIntError",
        "Os {",
    ];

    #[test]
    fn a_value_that_makes_no_sense_is_told_in_one_line_with_its_flag() {
        let huge = "9".repeat(30);
        let (mut tried, mut refused) = (0, 0);
        for (path, command) in all_commands() {
            let with_value = |arg: &&clap::Arg| arg.get_action().takes_values();
            for arg in command.get_arguments().filter(with_value) {
                let Some(flag) = arg.get_long() else { continue };
                for value in ["x", "-1", "1e99", "", huge.as_str()] {
                    let given = format!("--{flag}={value}");
                    let words = path.iter().cloned().chain([given.clone()]);
                    tried += 1;
                    let Err(error) = Arguments::try_parse_from(words) else { continue };
                    let told = in_one_line(&error);
                    assert!(!told.contains('\n'), "{path:?} {given}: {told}");
                    let internal = INTERNAL.iter().find(|words| told.contains(**words));
                    assert_eq!(internal, None, "{path:?} {given}: {told}");
                    let is_of_value = [ErrorKind::ValueValidation, ErrorKind::InvalidValue]
                        .contains(&error.kind());
                    let is_named = told.contains(&format!("--{flag}")) && told.contains(value);
                    assert!(!is_of_value || is_named, "{path:?} {given}: {told}");
                    refused += usize::from(is_of_value);
                }
            }
        }
        assert!(tried > 500 && refused > 200, "{refused} of {tried}");
    }

    #[test]
    fn a_mistyped_flag_is_named_and_one_that_is_far_is_not() {
        let told = |words: &str| {
            let words = words.split(' ');
            in_one_line(&Arguments::try_parse_from(words).err().expect("no such flag"))
        };
        assert!(told("duality compare --budgat=9s").contains("'--budget'"));
        let quiet = told("duality compare --quiet");
        assert!(!quiet.contains("budget") && quiet.contains("2>/dev/null"), "{quiet}");
    }

    /// The commands in the blocks of a page's shell examples, each with its place.
    fn commands_of(page: &std::path::Path) -> Vec<(String, Vec<String>)> {
        let text = std::fs::read_to_string(page).unwrap().replace("\\\n", " ");
        let mut found = Vec::new();
        let mut is_shell = false;
        for (number, line) in text.lines().enumerate() {
            if let Some(kind) = line.strip_prefix("```") {
                is_shell = !is_shell && ["sh", "console", ""].contains(&kind);
                continue;
            }
            let line = line.strip_prefix("$ ").unwrap_or(line);
            if !is_shell || !line.starts_with("duality ") || line.contains('…') {
                continue;
            }
            let words = shlex::split(line).unwrap_or_else(|| panic!("{line}"));
            let end = words.iter().position(|word| {
                ["|", "&&", "&", ">", "2>", ";", "#"].contains(&word.as_str())
                    || word.starts_with("2>")
            });
            let words = words[..end.unwrap_or(words.len())].to_vec();
            found.push((format!("{}:{}", page.display(), number + 1), words));
        }
        found
    }

    /// Each command that a page shows is one that can be typed.
    #[test]
    fn the_commands_of_all_pages_are_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![root.join("README.md"), root.join("runs/README.md")];
        let mut folders = vec![root.join("docs")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "md") {
                    pages.push(path);
                }
            }
        }
        let commands: Vec<_> = pages.iter().flat_map(|page| commands_of(page)).collect();
        assert!(commands.len() > 60, "{} commands", commands.len());
        for (place, words) in commands {
            match words.get(1).map(String::as_str) {
                Some("cc" | "c++") => {}
                Some("run") => {
                    let parsed = run::Alone::try_parse_from(&words[1..]);
                    assert!(parsed.is_ok(), "{place}: {words:?}: {:?}", parsed.err());
                }
                _ => match Arguments::try_parse_from(&words) {
                    Ok(_) => {}
                    Err(error) if !error.use_stderr() => {}
                    Err(error) => panic!("{place}: {words:?}: {error}"),
                },
            }
        }
    }
}
