//! Where the lead changes from one architecture to another as load grows.

use schemars::JsonSchema;
use serde::Serialize;

use super::leads;
use crate::format::grouped;
use crate::judge::summary::Summary;
use crate::judge::verdict::Verdict;

/// A change of the lead from one architecture to another as load grows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Crossover {
    /// The architecture that is better at the lower load.
    pub from: String,
    /// The architecture that is better at the higher load.
    pub to: String,
    /// The highest measured number of connections at which the first was better.
    pub above: usize,
    /// The lowest measured number at which the second was better.
    pub below: usize,
}

/// A subject that is certainly better at one load, and another at the next load at which some
/// subjects can be told apart.
pub(in crate::tell) fn crossovers(summary: &Summary) -> Vec<Crossover> {
    let mut verdicts: Vec<&Verdict> =
        summary.verdicts.iter().filter(|verdict| verdict.tells_apart()).collect();
    verdicts.sort_by_key(|verdict| verdict.concurrency);
    let change = |pair: &[&Verdict]| {
        let [lower, higher] = pair else { return None };
        let (from, to) = (lower.standings.first()?, higher.standings.first()?);
        let changes = !leads(higher, &from.subject) && !leads(lower, &to.subject);
        changes.then(|| Crossover {
            from: from.subject.clone(),
            to: to.subject.clone(),
            above: lower.concurrency,
            below: higher.concurrency,
        })
    };
    verdicts.windows(2).filter_map(change).collect()
}

impl Crossover {
    /// The change of the lead, in words.
    pub(in crate::tell) fn tell(&self, summary: &Summary) -> String {
        let Self { from, to, above, below } = self;
        let (above, below) = (grouped(*above as f64), summary.at(*below));
        format!("The lead passes from {from} to {to} between {above} and {below}.")
    }
}
