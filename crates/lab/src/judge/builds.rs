//! What changed from the first build of a program to each other build, under each architecture and
//! at each number of connections.

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::alternatives::{Alternative, Told};
use crate::judge::faults::Fault;
use crate::judge::rounds::Metric;
use crate::judge::summary::Summary;
use crate::judge::verdict::{Cause, Finding, Verdict};
use crate::record::Built;

/// A build at a number of connections, beside the first build under the same architecture.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// The name of the subject.
    pub subject: String,
    /// The name of the build.
    pub build: String,
    /// The name of the first build.
    pub base: String,
    /// The architecture of both. `None` for a server that is not ours.
    pub architecture: Option<String>,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// What decides.
    pub metric: Metric,
    /// The difference between the two builds. `None` if they could not be compared.
    pub compared: Option<Alternative>,
    /// The reason why the two builds were not compared, or only a large difference would be seen.
    pub cause: Option<Cause>,
    /// The faults of the build.
    pub faults: Vec<Fault>,
    /// The faults of the first build.
    pub base_faults: Vec<Fault>,
}

impl Change {
    /// What the comparison says.
    pub fn told(&self) -> Told {
        self.compared.as_ref().map_or(Told::Unknown, |one| one.change)
    }

    /// The first fault that the first build does not have. A wrong reply always counts.
    pub fn new_fault(&self) -> Option<Fault> {
        let is_new = |fault: &Fault| {
            fault.is_always_fatal()
                || !self.base_faults.contains(fault) && !fault.is_of_measurement()
        };
        self.faults.iter().copied().find(is_new)
    }

    /// Whether the build is worse for sure by more than a share, or has a new fault.
    pub fn is_regression(&self, share: f64) -> bool {
        let is_worse = |one: &Alternative| one.change == Told::Worse && one.low > share;
        self.new_fault().is_some() || self.compared.as_ref().is_some_and(is_worse)
    }

    /// Whether a regression of this share would have been told from none.
    pub fn would_show(&self, share: f64) -> bool {
        let is_fine = |one: &Alternative| (one.high - one.low) / 2.0 <= share;
        let is_sound = matches!(self.cause, None | Some(Cause::Coarse));
        is_sound && self.compared.as_ref().is_some_and(is_fine)
    }
}

/// All changes, architecture by architecture. Empty if the experiment does not compare builds.
pub fn changes(summary: &Summary) -> Vec<Change> {
    let Some(builds) = &summary.builds else { return Vec::new() };
    let of_group = |group: &[Built]| -> Vec<Change> {
        let (base, others) = group.split_first().expect("a group has a base");
        let of = |built: &Built| {
            summary.verdicts.iter().map(|verdict| change(summary, base, built, verdict)).collect()
        };
        others.iter().flat_map::<Vec<Change>, _>(of).collect()
    };
    builds.groups().flat_map(of_group).collect()
}

fn change(summary: &Summary, base: &Built, built: &Built, verdict: &Verdict) -> Change {
    let found = verdict.alternatives.iter().find(|one| one.subject == built.subject);
    let compared = found.map(|one| match verdict.can_tell(one) {
        true => one.clone(),
        false => Alternative { change: Told::Unknown, ..one.clone() },
    });
    let cause = match &verdict.finding {
        Finding::Withheld { cause } => Some(cause),
        _ => verdict.imprecise.as_ref(),
    };
    let is_sure = compared.as_ref().is_some_and(|one| one.change.is_sure());
    let faults = |subject: &str| {
        let row = summary.of_subject(subject).find(|row| row.concurrency == verdict.concurrency);
        row.map(|row| summary.faults(row)).unwrap_or_default()
    };
    Change {
        subject: built.subject.clone(),
        build: built.build.clone(),
        base: base.build.clone(),
        architecture: built.architecture.clone(),
        concurrency: verdict.concurrency,
        metric: verdict.metric,
        cause: cause.filter(|_| !is_sure).cloned(),
        compared,
        faults: faults(&built.subject),
        base_faults: faults(&base.subject),
    }
}
