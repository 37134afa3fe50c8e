//! The limits that a recommended architecture must keep: flags of `compare` and of `report`.

use duality_lab::format::in_shell;
use duality_lab::record::{Constraints, kept_memory, kept_slo};
use duality_load::Slo;

use super::heading;

#[derive(clap::Args)]
pub(in crate::cli) struct ConstraintFlags {
    /// Recommend only architectures that keep this latency, such as p99=5ms; may be given several
    /// times
    #[arg(long, value_name = "PERCENTILE=LIMIT", value_parser = kept_slo, help_heading = heading::RECOMMENDATION)]
    slo: Vec<Slo>,
    /// Recommend only architectures that keep this limit of peak memory, such as 200MB
    #[arg(long, value_name = "BYTES", value_parser = kept_memory, help_heading = heading::RECOMMENDATION)]
    memory: Option<u64>,
    /// Subject that runs today: an architecture, a peer, or a way to run --binary
    ///
    /// The answer says whether a change from this subject pays, and all figures are compared with
    /// its figures.
    #[arg(long, value_name = "NAME")]
    current: Option<String>,
}

impl ConstraintFlags {
    /// The subject that runs today, if the flags name it.
    pub(in crate::cli) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// These flags in the form of a command line, each after a space.
    pub(in crate::cli) fn typed(&self) -> String {
        let slos = self.slo.iter().map(|slo| format!(" --slo {slo}"));
        let memory = self.memory.map(|bytes| format!(" --memory {bytes}B"));
        let current = self.current.as_deref().map(|name| format!(" --current {}", in_shell(name)));
        slos.chain(memory).chain(current).collect()
    }

    /// The limits of the flags, if there are any.
    pub(in crate::cli) fn constraints(&self) -> Option<Constraints> {
        let constraints = Constraints { slo: self.slo.clone(), memory: self.memory };
        (!constraints.is_empty()).then_some(constraints)
    }
}
