//! Predicts the cost of more connections than were measured.
//!
//! ```text
//!   results ── points.rs ─▶ points ── forms.rs ──▶ processor time of a request, and its interval
//!                                 └── memory.rs ─▶ memory, and its interval
//!   machine, footprint ───────────── limits.rs ──▶ how many connections fit: arithmetic, no fit
//!   processor time, a rate ───────── hosts.rs ───▶ processors and hosts
//!   few connections, many ────────── check.rs ───▶ how far off predictions are
//! ```
//!
//! Two forms extend the processor time of a request: a *constant*, and a straight line over the
//! *logarithm* of the connections. Both forms go through the largest numbers of connections that
//! were measured. The prediction is the mean of the two forms, and its interval contains both. For
//! short requests, the prediction adds the cost of cache misses from earlier runs ([`forms`]).
//!
//! The method comes from a comparison of forms on the kept runs. docs/capacity.md has the figures.
//! Straight lines over the connections were off by 57 % and more. Gunther's Universal Scalability
//! Law (1993) has a coherency term, which a closed loop cannot tell from noise. The memory of a
//! server is a line over the connections that are *open at the server*. The slope of this line
//! means nothing where connections come and go.

mod check;
mod command;
pub mod forms;
pub mod hosts;
mod json;
pub mod limits;
mod memory;
pub(crate) mod notes;
mod points;
#[cfg(test)]
mod tests;

use crate::ask::resolve::{Architecture, Program};
use crate::ask::variant::Choice;
use crate::failure::{Blame, Failure, Party};
use crate::format::{connections_of, grouped};
use crate::record::{Design, Heading, Records};

pub use check::{Accuracy, Check, Checked, check};
pub use json::{Checks, Predictions, VERSION, json, json_of_check};
pub use memory::Memory;
pub use points::Point;

use forms::Prediction;
use hosts::Need;
use limits::Limit;
use points::Measurements;

/// A question to results.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The number of connections that are open at once.
    pub connections: usize,
    /// The subjects in question. Empty means all.
    pub subjects: Vec<String>,
    /// Requests a second that the servers must answer.
    pub rate: Option<f64>,
    /// Processors of a host. The default is the number of the machine of the results.
    pub processors: Option<usize>,
    /// The number of hosts.
    pub hosts: Option<usize>,
    /// The share of its processors that a host may use, above 0 and at most 1.
    pub utilisation: f64,
}

impl Question {
    /// A question about the number of connections alone.
    pub fn of(connections: usize) -> Self {
        let (rate, processors, hosts) = (None, None, None);
        Self { connections, subjects: Vec::new(), rate, processors, hosts, utilisation: 1.0 }
    }
}

/// The reason why a question has no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The load generator could not do its work, or nothing was measured.
    #[error(
        "it has no sound cell to predict from: `duality report` says why; measure again on a \
         quieter machine"
    )]
    NothingSound,
    /// No subject was measured at two numbers of connections.
    #[error(
        "it has only {0}, and a prediction needs two numbers of connections of which one is twice \
         the other: measure again with `--concurrency 100,1000`"
    )]
    OneNumber(String),
    /// A check has too few numbers of connections to predict from.
    #[error(
        "up to {from} connections it has only {found}, and a prediction needs two numbers of \
         connections of which one is twice the other: choose more by `--check=N`"
    )]
    OneNumberUpTo {
        /// The most connections that predictions use.
        from: String,
        /// The numbers of connections in the results.
        found: String,
    },
    /// The number of connections in question was measured.
    #[error(
        "{asked} connections are not beyond the {measured} that were measured: ask for more by \
         --connections, or read what was measured with `duality report`"
    )]
    Measured {
        /// The number of connections in question.
        asked: String,
        /// The largest measured number of connections.
        measured: String,
    },
    /// Nothing was measured beyond the numbers that predictions use.
    #[error(
        "nothing was measured beyond {0} connections, so there is nothing to check: measure again \
         with `--concurrency 100,1000,10000`"
    )]
    NothingToCheck(String),
    /// A subject that the results do not have.
    #[error("there is no architecture `{name}` in it: choose from {all}")]
    NoSubject {
        /// The name in question.
        name: String,
        /// All subjects of the results.
        all: String,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::misuse(error)
    }
}

/// Predictions from results for a number of connections that was not measured.
#[derive(Debug)]
pub struct Capacity {
    /// The measured experiment.
    pub heading: Heading,
    /// The question.
    pub question: Question,
    /// The subjects in the order of the results.
    pub subjects: Vec<Subject>,
    /// The limits of a host that makes the load.
    pub load: Vec<Limit>,
}

/// The prediction for an architecture or a peer.
#[derive(Debug)]
pub struct Subject {
    /// The name.
    pub name: String,
    /// The measurements of the subject, at rising numbers of connections.
    pub points: Vec<Point>,
    /// The numbers of connections at which the subject's cells are not sound.
    pub left_out: Vec<usize>,
    /// The processor time of a request in microseconds, or the reason why the time cannot be
    /// predicted.
    pub processor_time: Result<Prediction, Failure>,
    /// The memory of the server in bytes, or the reason why memory cannot be predicted.
    pub memory: Result<Memory, Failure>,
    /// The limits on the number of connections, the lowest first, or the reason why they are not
    /// known.
    pub limits: Result<Vec<Limit>, Failure>,
    /// The processors and hosts that the rate takes.
    pub need: Option<Need>,
}

impl Subject {
    /// The lowest limit.
    pub fn first_limit(&self) -> Option<&Limit> {
        self.limits.as_ref().ok()?.first()
    }
}

/// Answers a question about capacity from the results of an experiment. `program` is an error, with
/// its reason, if this program lacks the measured service.
///
/// # Errors
///
/// An [`Error`] tells which question has no answer, and the remedy.
pub fn predict(
    heading: &Heading,
    records: &Records,
    program: Result<&dyn Program, &str>,
    question: &Question,
) -> Result<Capacity, Error> {
    let measured = points::all(heading, records, &chosen(&heading.design, &question.subjects)?);
    assert_pair(&measured, Error::OneNumber)?;
    let most = most_connections(&measured);
    if question.connections <= most {
        return Err(Error::Measured {
            asked: grouped(question.connections as f64),
            measured: grouped(most as f64),
        });
    }
    let subjects = measured
        .into_iter()
        .map(|measured| subject(heading, program, question, measured))
        .collect();
    Ok(Capacity {
        heading: heading.clone(),
        question: question.clone(),
        subjects,
        load: limits::of_load(heading, question.connections),
    })
}

fn subject(
    heading: &Heading,
    program: Result<&dyn Program, &str>,
    question: &Question,
    measured: Measurements,
) -> Subject {
    let Measurements { subject: name, points, left_out } = measured;
    let design = &heading.design;
    let facts = facts(design, &name, program);
    let architecture = facts.as_ref().ok().map(|(_, architecture)| architecture);
    let at = question.connections as f64;
    let limits = facts.as_ref().map_err(Clone::clone).map(|(program, architecture)| {
        limits::of_server(heading, architecture, |limit| program.admitted(limit))
    });
    // Connections beyond a hard limit are never open.
    let fit = limits.as_ref().map_or(at, |limits| limits::fit(limits).min(at));
    let processor_time = forms::processor_time(&points, fit);
    let memory = memory::predict(design, &points, architecture, fit);
    let mut limits = limits;
    if let (Ok(limits), Ok(memory)) = (&mut limits, &memory) {
        limits.extend(limits::of_memory(memory, heading.machine.memory_bytes));
        limits::sort(limits);
    }
    let need = processor_time.as_ref().ok().and_then(|time| {
        hosts::need(time, question, question.processors.unwrap_or(heading.machine.cpus))
    });
    Subject { name, points, left_out, processor_time, memory, limits, need }
}

/// The architecture with the set-up of its server in the results, or the reason why the subject is
/// unknown.
fn facts<'a>(
    design: &Design,
    name: &str,
    program: Result<&'a dyn Program, &str>,
) -> Result<(&'a dyn Program, Architecture), Failure> {
    if design.peers.iter().any(|peer| peer.name == name) {
        return Err(Failure::new(Party::Subject, "a peer's limits are its own"));
    }
    let program = program.blame(Party::User)?;
    let (architecture, arguments) = design.server_of(name);
    let choice = Choice { name: name.to_owned(), architecture, options: arguments.to_vec() };
    Ok((program, program.architecture(&choice).blame(Party::User)?))
}

/// The subjects that are asked about.
fn chosen(design: &Design, asked: &[String]) -> Result<Vec<String>, Error> {
    let all: Vec<&str> = design.subjects().collect();
    if let Some(name) = asked.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(Error::NoSubject { name: name.clone(), all: all.join(", ") });
    }
    let is_asked = |name: &&str| asked.is_empty() || asked.iter().any(|one| one == name);
    Ok(all.into_iter().filter(is_asked).map(str::to_owned).collect())
}

fn most_connections(measured: &[Measurements]) -> usize {
    let all = measured.iter().flat_map(|one| &one.points);
    all.map(|point| point.connections).max().unwrap_or(0)
}

/// Asserts that some subject has the two points that a prediction needs. `too_few` makes the error
/// from the numbers of connections in the results.
fn assert_pair(measured: &[Measurements], too_few: impl Fn(String) -> Error) -> Result<(), Error> {
    if measured.iter().any(|one| points::last_two(&one.points).is_some()) {
        return Ok(());
    }
    let mut numbers: Vec<usize> =
        measured.iter().flat_map(|one| &one.points).map(|point| point.connections).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Err(match numbers.as_slice() {
        [] => Error::NothingSound,
        some => too_few(connections_of(some)),
    })
}

/// The heading of an experiment on every page and table: the service, and the behaviour of clients.
pub(crate) fn title(heading: &Heading) -> String {
    let Design { service, keep_alive, clients, .. } = &heading.design;
    let mut title = service.clone();
    if !keep_alive {
        title += ", a connection for each request";
    }
    title += heading.design.protocols();
    if clients.pattern != "closed" {
        title += &format!(", pattern {}", clients.pattern);
    }
    match heading.plan.as_ref().map(|plan| plan.experiment.as_str()) {
        Some(experiment) if experiment != service => format!("{experiment} ({title})"),
        _ => title,
    }
}
