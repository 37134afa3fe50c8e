//! Flags of `compare` about builds of one program.

use duality_lab::Mistake;

use super::heading;
use crate::cli::Failure;
use crate::cli::versions::{Version, version};

#[derive(clap::Args)]
pub(in crate::cli) struct BuildFlags {
    /// Revisions of this git repository, each with its name: build both and compare them, as by
    /// --binary
    ///
    /// `old=main,new=.` compares the branch main with the working tree. `cargo build --release`
    /// builds the package in this directory (--cargo adds to it). A server that is no program of
    /// Duality also needs --binary "{program} {port}".
    #[arg(
        long,
        value_name = "NAME=REV,…",
        value_delimiter = ',',
        value_parser = version,
        help_heading = heading::BINARY
    )]
    pub(in crate::cli) versions: Vec<Version>,
    /// Arguments of `cargo build` for --versions, such as "--bin shop --features tls"
    #[arg(
        long,
        value_name = "ARGUMENTS",
        requires = "versions",
        allow_hyphen_values = true,
        help_heading = heading::BINARY
    )]
    pub(in crate::cli) cargo: Option<String>,
    /// Exit with code 1 when a build is worse for sure by more than this, in percent [default:
    /// --margin, or 5]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_parser = percent,
        value_name = "PERCENT",
        help_heading = heading::BINARY
    )]
    #[expect(clippy::option_option, reason = "clap: no flag, a flag, a flag with a value")]
    fail_on_regression: Option<Option<f64>>,
}

impl BuildFlags {
    /// The share by which a build may be worse, if the exit code depends on it.
    pub(in crate::cli) fn threshold(&self, margin: f64) -> Option<f64> {
        self.fail_on_regression.map(|given| given.map_or(margin, |percent| percent / 100.0))
    }

    /// Refuses `--fail-on-regression` where no builds are compared.
    pub(in crate::cli) fn refuse_without_builds(&self) -> Result<(), Failure> {
        match self.fail_on_regression {
            None => Ok(()),
            Some(_) => Err(Failure::misuse(
                "--fail-on-regression: name two builds, as in --binary old=./a --binary new=./b, \
                 or compare two runs by `duality report`",
            )),
        }
    }
}

/// Reads a share in percent.
pub(in crate::cli) fn percent(text: &str) -> Result<f64, Mistake> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .ok_or_else(|| "give a percentage such as 5, from 0 to 1000".into())
}
