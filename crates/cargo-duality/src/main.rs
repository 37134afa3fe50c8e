//! `cargo duality`: what Duality can do for a workspace of cargo. See `cargo duality --help`.
//!
//! ```text
//!   check-tokio    workspace ─▶ copy with the patch ─▶ cargo check ─▶ report
//! ```
//!
//! It is a package of its own, so that a user of tokio need not compile the measuring tools.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its result")]
#![forbid(unsafe_code)]

mod cargo;
mod check;
mod copy;
mod failure;
mod json;
mod messages;
mod patch;
mod remedies;
mod report;
mod scan;
/// The checker of schemas/, which the command `duality` tests its own output with.
#[cfg(test)]
#[path = "../../duality/tests/all/schema/mod.rs"]
mod schema;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

/// Ask what Duality can do for the workspace of cargo in this folder.
#[derive(Parser)]
#[command(
    name = "cargo-duality",
    bin_name = "cargo duality",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say whether this workspace works with the crate named tokio of Duality
    CheckTokio(check::Arguments),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, such as /usr/local/share/man/man1
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    // cargo gives the name of its subcommand as the first argument.
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "duality") {
        arguments.remove(1);
    }
    let command = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments.command,
        Err(error) => return explain(&error),
    };
    let ended = match command {
        Command::CheckTokio(arguments) => check::run(&arguments),
        Command::Manual { folder } => manual(&folder),
    };
    ended.unwrap_or_else(|failure| {
        eprintln!("cargo duality: {failure}");
        ExitCode::from(match failure {
            Failure::Misuse(_) => 2,
            Failure::Failed(_) => 1,
        })
    })
}

/// Prints help if it was requested. Otherwise prints one line that names the mistake.
fn explain(error: &clap::Error) -> ExitCode {
    let is_asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_asked_for {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let mistake = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    eprintln!("cargo duality: {mistake} (see --help)");
    ExitCode::from(2)
}

/// Writes a page for the command and one for each of its commands.
fn manual(folder: &std::path::Path) -> Result<ExitCode, Failure> {
    let unwritten = |error| Failure::failed(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(unwritten)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(unwritten)?;
    Ok(ExitCode::SUCCESS)
}
