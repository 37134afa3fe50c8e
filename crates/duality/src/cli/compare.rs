//! `duality compare` and `duality report`.

use super::Failure;
use crate::catalogue::Catalogue;

#[derive(clap::Args)]
pub(super) struct Arguments {}

#[derive(clap::Args)]
pub(super) struct ReportArguments {}

pub(super) fn run(_catalogue: &Catalogue, _arguments: &Arguments) -> Result<(), Failure> {
    Ok(())
}

pub(super) fn report(_arguments: &ReportArguments) -> Result<(), Failure> {
    Ok(())
}
