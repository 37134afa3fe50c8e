//! A trial in words: a line for each event, the standing, and the finding.

use std::collections::BTreeMap;

use super::By;
use super::event::{
    Block, Dropped, Event, Finding, Heading, Measured, Reason, Standing, Told, Verdict,
};
use crate::format::{bytes, duration, grouped, listed, percent};
use crate::statistics::Interval;

/// The event in one line.
pub fn line(event: &Told) -> String {
    match &event.event {
        Event::Began(heading) => begun(heading),
        Event::Block(block) => block_line(block),
        Event::Out { candidate, reason } => {
            format!("{candidate} takes no more connections: {}", because(reason))
        }
        Event::Kept { candidate, reason } => {
            format!("{candidate} stays, as the last one, though {}", because(reason))
        }
        Event::Restarted { candidate, how } => format!("{candidate} {how}: started again"),
        Event::Drained { candidate } => format!("{candidate} has drained"),
        Event::Heir { candidate, architecture } => {
            format!("{candidate}: {architecture} answers what is left in its queue")
        }
        Event::Said { candidate, line } => format!("{candidate}: {line}"),
        Event::Decided(verdict) => sentence(verdict),
        Event::Ended => "all servers have drained".to_owned(),
    }
}

fn begun(heading: &Heading) -> String {
    let names: Vec<&str> = heading.candidates.iter().map(|one| one.name.as_str()).collect();
    let how = match heading.by {
        By::Slot => format!("slots of {}", duration(heading.slot_s * 1e6)),
        By::Connection => "each connection by lot".to_owned(),
    };
    format!("{} at {}: {}, {how}", heading.service, heading.address, listed(&names))
}

fn block_line(block: &Block) -> String {
    let standing = if block.standings.is_empty() {
        "nothing to compare yet".to_owned()
    } else {
        standings(&block.standings, &block.measured)
    };
    let note = match block.dropped {
        None => "",
        Some(Dropped::WarmUp) => " (warm-up)",
        Some(Dropped::Disturbed) => " (dropped: a server was started in it)",
    };
    format!("block {}{note}: {standing}", block.number)
}

/// The standing in a line, for a display. An arrow stands before the candidate that gets new
/// connections.
pub(super) fn glance(
    found: &[Standing],
    measured: &BTreeMap<String, Measured>,
    selected: Option<&str>,
) -> String {
    let requests: u64 = measured.values().map(|one| one.requests).sum();
    let turn = selected.map_or(String::new(), |name| format!("▸ {name} · "));
    let standing = match found {
        [] => "nothing to compare yet".to_owned(),
        found => standings(found, measured),
    };
    format!("{turn}{} requests · {standing}", grouped(requests as f64))
}

/// `epoll 61.2 µs, threads +31 % (12 to 54 %)`.
fn standings(found: &[Standing], measured: &BTreeMap<String, Measured>) -> String {
    let one = |(place, standing): (usize, &Standing)| {
        let cost = measured.get(&standing.candidate).and_then(Measured::cost);
        let name = &standing.candidate;
        match place {
            0 => format!("{name} {}", duration(cost.unwrap_or(0.0))),
            _ => format!("{name} {:+.0} % {}", 100.0 * standing.excess, ends(standing.interval)),
        }
    };
    found.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

/// The ends of an interval of shares: `(-3 to 12 %)`.
pub(crate) fn ends(interval: Option<Interval>) -> String {
    interval.map_or("(not bounded yet)".to_owned(), |Interval { low, high }| {
        format!("({:.0} to {:.0} %)", 100.0 * low, 100.0 * high)
    })
}

/// The reason why a candidate is out, as the end of a sentence.
pub(crate) fn because(reason: &Reason) -> String {
    match reason {
        Reason::Errors { share, limit } => {
            format!("{} of its requests failed (limit {})", percent(*share), percent(*limit))
        }
        Reason::Slow { share, percentile, limit_us } => format!(
            "{} of its requests took longer than {} (limit of {percentile})",
            percent(*share),
            duration(*limit_us)
        ),
        Reason::Stuck { seconds } => {
            format!("connections waited, and it accepted none for {seconds:.1} s")
        }
        Reason::Silent { requests, seconds } => format!(
            "it read {requests} requests and answered none for {seconds:.1} s, while another one \
             answered"
        ),
        Reason::Memory { bytes: used, limit } => {
            format!("it takes {} of memory (limit {})", bytes(*used as f64), bytes(*limit as f64))
        }
        Reason::Died { how } => format!("its server {how}"),
        Reason::Behind { best, interval } => format!(
            "it takes {:.0} to {:.0} % more processor time than {best}",
            100.0 * interval.low,
            100.0 * interval.high
        ),
        Reason::NotChosen => "the trial has ended".to_owned(),
    }
}

/// The finding in a sentence.
pub(crate) fn sentence(verdict: &Verdict) -> String {
    let found = match &verdict.finding {
        Finding::Winner { candidate } => {
            let cost = verdict.measured.get(candidate).and_then(Measured::cost);
            let cost = duration(cost.unwrap_or(0.0));
            format!("{candidate} takes least processor time: {cost} a request")
        }
        Finding::Level { candidates } => format!("{} are level", listed(candidates)),
        Finding::LastOne { candidate } => format!("{candidate} is the only one left"),
        Finding::OutOfTime if verdict.nothing_came() => {
            "the budget is spent, and no request came".to_owned()
        }
        Finding::Interrupted if verdict.nothing_came() => {
            "interrupted before any request came".to_owned()
        }
        Finding::OutOfTime => "the budget is spent, and nothing is sure".to_owned(),
        Finding::Interrupted => "interrupted, and nothing is sure".to_owned(),
    };
    match &verdict.serving {
        Some(serving) => format!("{found}; {serving} goes on serving"),
        None => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_that_is_out_has_its_reason() {
        let reason = Reason::Errors { share: 0.012, limit: 0.005 };
        let event = Event::Out { candidate: "threads".into(), reason };
        let text = line(&Told { at_s: 1.0, event });
        let expected =
            "threads takes no more connections: 1.2 % of its requests failed (limit 0.5 %)";
        assert_eq!(text, expected);
    }
}
