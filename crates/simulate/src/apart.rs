//! Simulations in a process each: what came of one passes from the child by bytes.

use std::io;
use std::time::Duration;

use duality_runtime::apart;

use crate::decisions::{Decision, Kind};
use crate::driver::Outcome;
use crate::faults::Counts;

/// Runs a simulation in a process of its own.
pub(crate) fn run(simulation: impl FnOnce() -> Outcome) -> Outcome {
    let told = apart::run(|| encode(&simulation()));
    let lost = |error: io::Error| Outcome {
        hash: 0,
        time: Duration::ZERO,
        counts: Counts::default(),
        failure: Some(error.to_string()),
        story: Vec::new(),
        kept: Vec::new(),
    };
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    told.and_then(|told| Reader(&told).outcome().ok_or_else(cut)).unwrap_or_else(lost)
}

fn encode(outcome: &Outcome) -> Vec<u8> {
    let Outcome { hash, time, counts, failure, story, kept } = outcome;
    let mut bytes = Vec::new();
    let mut number = |number: u64| bytes.extend(number.to_le_bytes());
    number(*hash);
    number(crate::faults::nanoseconds(*time));
    counts.each().into_iter().for_each(|(_, count)| number(count));
    number(kept.len() as u64);
    for Decision { kind, bound, drawn, hash } in kept {
        [*kind as u64, *bound, *drawn, *hash].into_iter().for_each(&mut number);
    }
    let texts = failure.iter().chain(story);
    number(u64::from(failure.is_some()));
    number(texts.clone().count() as u64);
    for text in texts {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// What is left to decode. Each part is `None` if bytes are missing.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn outcome(mut self) -> Option<Outcome> {
        let (hash, time) = (self.number()?, Duration::from_nanos(self.number()?));
        let mut counts = Counts::default();
        for (_, count) in counts.each_mut() {
            *count = self.number()?;
        }
        let kept = (0..self.number()?).map(|_| self.decision()).collect::<Option<_>>()?;
        let fails = self.number()? == 1;
        let mut story = (0..self.number()?).map(|_| self.text()).collect::<Option<Vec<_>>>()?;
        let failure = (fails && !story.is_empty()).then(|| story.remove(0));
        Some(Outcome { hash, time, counts, failure, story, kept })
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn decision(&mut self) -> Option<Decision> {
        let kind = *Kind::ALL.get(self.number()? as usize)?;
        let (bound, drawn, hash) = (self.number()?, self.number()?, self.number()?);
        Some(Decision { kind, bound, drawn, hash })
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
