//! `duality agent`: the command that a launcher starts on a host of a comparison.

use std::io;

use duality_lab::measure::hosts::agent;

use super::{Blame, Failure, Party};

/// Carries out orders until they end. Before it returns, it ends all processes that it started.
pub(super) fn run() -> Result<(), Failure> {
    agent::run(io::stdin(), io::stdout()).blame_at(Party::Machine, "agent: an order cannot be read")
}
