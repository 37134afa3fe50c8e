//! The `duality` command: see `duality --help`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    duality::cli::main(None)
}
