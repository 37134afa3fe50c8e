//! The page of a trial: the finding or the standing, the course of the intervals, and each
//! candidate's measurements and events. The page reloads itself until the trial has ended.

use std::fmt::Write;
use std::io;
use std::path::Path;

use minijinja::context;
use serde::Serialize;

use super::event::{Block, Event, Heading, Standing, Told};
use super::text;
use crate::format::{bytes, duration, grouped};
use crate::page::{page, write_whole};

/// The colours of candidates in the chart (Okabe and Ito), which colour-blind readers can tell
/// apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The size of the chart, and the range of its axis.
const SIZE: (f64, f64) = (640.0, 220.0);
const REACH: (f64, f64) = (-0.5, 1.5);

/// Writes the page of the events so far.
pub(super) fn write(path: &Path, told: &[Told]) -> io::Result<()> {
    write_whole(path, &render(told))
}

/// A candidate's interval over the blocks, as paths of SVG.
#[derive(Serialize)]
struct Band {
    name: String,
    colour: &'static str,
    area: String,
    line: String,
}

fn render(told: &[Told]) -> String {
    let heading = told.iter().find_map(|one| match &one.event {
        Event::Began(heading) => Some(&**heading),
        _ => None,
    });
    let blocks: Vec<&Block> = told
        .iter()
        .filter_map(|one| match &one.event {
            Event::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    let verdict = told.iter().find_map(|one| match &one.event {
        Event::Decided(verdict) => Some(verdict),
        _ => None,
    });
    let has_ended = told.iter().any(|one| one.event == Event::Ended);
    let happened: Vec<(String, String)> = told
        .iter()
        .filter(|one| !matches!(one.event, Event::Block(_)))
        .map(|one| (format!("{:.1} s", one.at_s), text::line(one)))
        .collect();
    let latest = blocks
        .last()
        .map(|block| text::line(&Told { at_s: 0.0, event: Event::Block((*block).clone()) }));
    let machine = heading.map(|heading| &heading.machine);
    page(
        include_str!("trial.html.jinja"),
        context! {
            service => heading.map_or("", |heading| &heading.service),
            address => heading.map_or("", |heading| &heading.address),
            started_at => heading.map_or("", |heading| &heading.started_at),
            machine => machine.map(|one| format!("{}, {} processors, {}", one.cpu, one.cpus, one.kernel)),
            refresh => !has_ended,
            sentence => verdict.map(|verdict| text::sentence(verdict)).or(latest),
            rows => heading.map(|heading| rows(heading, told, &blocks)),
            bands => heading.map(|heading| bands(heading, &blocks)),
            zero => height(0.0),
            width => SIZE.0,
            tall => SIZE.1,
            happened => happened,
        },
    )
}

/// The measurements of each candidate: at the end of the whole trial, before that of the last
/// block.
fn rows(heading: &Heading, told: &[Told], blocks: &[&Block]) -> Vec<Vec<String>> {
    let measured = told.iter().find_map(|one| match &one.event {
        Event::Decided(verdict) => Some(&verdict.measured),
        _ => None,
    });
    let measured = measured.or(blocks.last().map(|block| &block.measured));
    let row = |candidate: &super::Candidate| {
        let out = told.iter().find_map(|one| match &one.event {
            Event::Out { candidate: out, reason } if *out == candidate.name => {
                Some(text::because(reason))
            }
            _ => None,
        });
        let one = measured.and_then(|all| all.get(&candidate.name)).copied().unwrap_or_default();
        vec![
            candidate.name.clone(),
            candidate.architecture.clone(),
            grouped(one.requests as f64),
            duration(one.cost().unwrap_or(0.0)),
            grouped((one.failed + one.refused) as f64),
            one.p99_us.map_or("–".to_owned(), |time| format!("≤ {}", duration(time))),
            if one.memory_bytes > 0 { bytes(one.memory_bytes as f64) } else { "–".to_owned() },
            out.map_or("in".to_owned(), |why| format!("out: {why}")),
        ]
    };
    heading.candidates.iter().map(row).collect()
}

/// The intervals of all candidates except the best at the end.
fn bands(heading: &Heading, blocks: &[&Block]) -> Vec<Band> {
    let best = blocks.iter().rev().find_map(|block| block.standings.first());
    let step = SIZE.0 / blocks.len().max(2) as f64;
    let band = |(place, candidate): (usize, &super::Candidate)| {
        let found: Vec<(f64, &Standing)> = blocks
            .iter()
            .enumerate()
            .filter_map(|(at, block)| {
                let mut standings = block.standings.iter();
                let own = standings.find(|standing| standing.candidate == candidate.name)?;
                Some(((at as f64 + 0.5) * step, own))
            })
            .filter(|(_, standing)| standing.interval.is_some())
            .collect();
        let highs = found.iter().map(|(x, one)| (*x, one.interval.map_or(0.0, |one| one.high)));
        let lows = found.iter().map(|(x, one)| (*x, one.interval.map_or(0.0, |one| one.low)));
        Band {
            name: candidate.name.clone(),
            colour: COLOURS[place % COLOURS.len()],
            area: points(highs.chain(lows.rev())),
            line: points(found.iter().map(|(x, one)| (*x, one.excess))),
        }
    };
    let others = heading.candidates.iter().enumerate();
    others
        .filter(|(_, candidate)| best.is_none_or(|best| best.candidate != candidate.name))
        .map(band)
        .collect()
}

fn points(of: impl Iterator<Item = (f64, f64)>) -> String {
    of.fold(String::new(), |mut text, (x, excess)| {
        // Writing to a string does not fail.
        let _ = write!(text, "{x:.1},{:.1} ", height(excess));
        text
    })
}

/// The height of a value in the chart.
fn height(excess: f64) -> f64 {
    let (low, high) = REACH;
    SIZE.1 * (high - excess.clamp(low, high)) / (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_the_page_follows_until_the_end() {
        let event = Event::Drained { candidate: "<b>".into() };
        let mut told = vec![Told { at_s: 1.0, event }];
        let page = render(&told);
        assert!(page.contains("&lt;b&gt; has drained") && page.contains("http-equiv=\"refresh\""));
        told.push(Told { at_s: 2.0, event: Event::Ended });
        assert!(!render(&told).contains("http-equiv=\"refresh\""));
    }

    #[test]
    fn the_chart_keeps_within_its_size() {
        assert_eq!((height(9.0), height(-9.0)), (0.0, SIZE.1));
        assert_eq!(points([(1.0, 1.5)].into_iter()), "1.0,0.0 ");
    }
}
