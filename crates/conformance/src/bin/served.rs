//! The `duality` command, built for the tests of this crate.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    duality::cli::main(None)
}
