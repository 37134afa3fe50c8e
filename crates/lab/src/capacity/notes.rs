//! The sentences of a prediction: what it leaves out, which limits are exceeded, and what must be
//! measured instead.

use super::forms::{self, Prediction};
use super::limits::{self, Kind, Limit};
use super::{Capacity, Subject, command};
use crate::failure::Failure;
use crate::format::{connections_of, grouped, listed, percent};

/// Notes on the predictions, one or two sentences each.
pub(crate) fn notes(capacity: &Capacity) -> Vec<String> {
    let Capacity { question, subjects, load, .. } = capacity;
    let asked = question.connections as u64;
    let mut notes = Vec::new();
    let left_out =
        |one: &Subject| (!one.left_out.is_empty()).then(|| connections_of(&one.left_out));
    for (names, at) in grouped_by(subjects, left_out) {
        notes.push(format!("! Not sound, and left out: {names} at {at}."));
    }
    for (names, why) in
        grouped_by(subjects, |one| one.processor_time.as_ref().err().map(Failure::to_string))
    {
        notes.push(format!("! {names}: not predicted: {why}."));
    }
    for (names, kind) in exceeded(subjects, asked) {
        let consequence = match kind {
            Kind::Workers => "further connections wait for a worker",
            Kind::AcceptQueue => "further connections are dropped, and try again after a second",
            Kind::Memory => "further connections do not fit into memory",
            _ => "further connections are not accepted",
        };
        notes.push(format!("! {}: {names}: {consequence}. Raise {}.", kind.name(), kind.remedy()));
    }
    let fits = |one: &Subject| limits::fit(one.limits.as_deref().unwrap_or_default());
    if subjects.iter().any(|one| fits(one) < asked as f64) {
        notes.push("CPU/req and memory are those of the connections that fit.".to_owned());
    }
    if !load.is_empty() {
        let list = |say: fn(&Limit) -> String| listed(&load.iter().map(say).collect::<Vec<_>>());
        notes.push(format!(
            "! Load: one host with one address has {}: use more hosts, or raise {}.",
            list(|limit| format!("{} {}", grouped(limit.connections as f64), limit.kind.name())),
            list(|limit| limit.kind.remedy().to_owned()),
        ));
    }
    for (names, why) in
        grouped_by(subjects, |one| one.memory.as_ref().err().map(Failure::to_string))
    {
        notes.push(format!("No memory of {names}: {why}."));
    }
    let is_assumed = |one: &&Subject| one.memory.as_ref().is_ok_and(|memory| !memory.is_open_known);
    if subjects.iter().any(|one| is_assumed(&one)) {
        notes.push(
            "These results do not say how many connections servers had open. Memory assumes that \
             each had as many as it accepts."
                .to_owned(),
        );
    }
    for (names, why) in
        grouped_by(subjects, |one| one.limits.as_ref().err().map(Failure::to_string))
    {
        notes.push(format!("No limits of {names}: {why}."));
    }
    notes
}

/// The subjects that need a measurement.
fn wide(capacity: &Capacity) -> Vec<(&str, &Prediction)> {
    let found = capacity.subjects.iter().filter_map(|one| {
        let time = one.processor_time.as_ref().ok()?;
        time.is_wide().then_some((one.name.as_str(), time))
    });
    found.collect()
}

/// A sentence that says that the forms differ. `None` if they agree.
pub(crate) fn wide_note(capacity: &Capacity) -> Option<String> {
    let names: Vec<String> = wide(capacity)
        .iter()
        .map(|(name, time)| format!("{name} ({})", percent(time.spread())))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "! {}: the two forms differ by more than {}. Measure instead of predicting:",
            listed(&names),
            percent(forms::WIDE)
        )
    })
}

/// The command that measures those subjects, for a shell. Empty if there are none. The command asks
/// for no more connections than the servers and one load host can have.
pub(crate) fn measuring_words(capacity: &Capacity) -> Vec<String> {
    let wide = wide(capacity);
    let names: Vec<&str> = wide.iter().map(|(name, _)| *name).collect();
    let load = limits::fit(&capacity.load);
    let most = wide.iter().map(|(_, time)| time.connections).fold(load, f64::min);
    match names.is_empty() {
        true => Vec::new(),
        false => command::to_measure(&capacity.heading, &names, most as usize),
    }
}

/// The subjects with a limit below the number in question, by limit: `pool 100 and prefork 100`.
fn exceeded(subjects: &[Subject], asked: u64) -> Vec<(String, Kind)> {
    let mut kinds: Vec<Kind> = subjects
        .iter()
        .flat_map(|one| one.limits.iter().flatten())
        .filter(|limit| limit.connections < asked)
        .map(|limit| limit.kind)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sentence = |kind: Kind| {
        let own = subjects.iter().filter_map(|one| {
            let limit = one.limits.iter().flatten().find(|limit| limit.kind == kind)?;
            let most = limit.connections;
            (most < asked).then(|| format!("{} {}", one.name, grouped(most as f64)))
        });
        (listed(&own.collect::<Vec<_>>()), kind)
    };
    kinds.into_iter().map(sentence).collect()
}

/// The subjects of each note, grouped by note.
fn grouped_by(
    subjects: &[Subject],
    say: impl Fn(&Subject) -> Option<String>,
) -> Vec<(String, String)> {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for subject in subjects {
        let Some(what) = say(subject) else { continue };
        match groups.iter_mut().find(|(_, known)| *known == what) {
            Some((names, _)) => names.push(&subject.name),
            None => groups.push((vec![&subject.name], what)),
        }
    }
    groups.into_iter().map(|(names, what)| (listed(&names), what)).collect()
}
