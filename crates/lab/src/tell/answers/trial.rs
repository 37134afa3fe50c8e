//! A trial of servers on live traffic: the finding or the standing, the course of the intervals,
//! and each candidate's measurements and events.

use crate::format::{bytes, duration, grouped};
use crate::tell::chart::Chart;
use crate::tell::chart::bands::{Band, Bands};
use crate::tell::sheet::{Figure, Form, Part, Sheet, Table, Watch, left, right};
use crate::trial::Candidate;
use crate::trial::event::{Block, Event, Heading, Measured, Told, Verdict};
use crate::trial::text;

/// The colours of candidates in the chart (Okabe and Ito), which colour-blind readers can tell
/// apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The sheet of the events so far. Its page follows the trial until the end.
pub fn sheet(told: &[Told]) -> Sheet {
    let events = || told.iter().map(|one| &one.event);
    let heading = events().find_map(|event| match event {
        Event::Began(heading) => Some(&**heading),
        _ => None,
    });
    let verdict = events().find_map(|event| match event {
        Event::Decided(verdict) => Some(&**verdict),
        _ => None,
    });
    let blocks: Vec<&Block> = events()
        .filter_map(|event| match event {
            Event::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    let has_ended = events().any(|event| *event == Event::Ended);
    let of = heading.map_or(("", ""), |one| (one.service.as_str(), one.address.as_str()));
    let mut sheet = Sheet::new(format!("Trial of {} at {}", of.0, of.1));
    sheet.watch = Some(if has_ended { Watch::HasEnded } else { Watch::GoesOn });
    if let Some(verdict) = verdict {
        decided(&mut sheet, verdict);
    }
    let latest = told.iter().rev().find(|one| matches!(one.event, Event::Block(_))).map(text::line);
    let answer = verdict.map(text::sentence).or(latest);
    let answer = answer.unwrap_or_else(|| "The first block is under way.".to_owned());
    sheet.add_only(Form::Page, [Part::Answer(answer)]);
    course(&mut sheet, heading, &blocks);
    candidates(&mut sheet, heading, told, &blocks, verdict);
    happened(&mut sheet, heading, told);
    sheet
}

/// The answer on a terminal: the finding, and a row for each candidate.
fn decided(sheet: &mut Sheet, verdict: &Verdict) {
    let above = |name: &String| {
        match verdict.standings.iter().position(|standing| standing.candidate == *name) {
            Some(0) => "best".to_owned(),
            Some(place) => {
                let standing = &verdict.standings[place];
                format!("{:+.0} % {}", 100.0 * standing.excess, text::ends(standing.interval))
            }
            None if verdict.out.contains(name) => "out".to_owned(),
            // Too few blocks counted to compare it.
            None => "–".to_owned(),
        }
    };
    let row = |(name, one): (&String, &Measured)| {
        let name_first = [name.clone()].into_iter();
        name_first.chain(figures(one)).chain([above(name)]).collect()
    };
    let columns = ["requests", "CPU/req", "failed", "p99"].map(right);
    let columns = [left("candidate")].into_iter().chain(columns).chain([left("above the best")]);
    let blocks = format!("{} blocks", grouped(verdict.blocks as f64));
    for part in [
        Part::sentence(format!("{}.", text::sentence(verdict))),
        Part::Table(Table::new(columns, verdict.measured.iter().map(row))),
        Part::sentence(blocks),
    ] {
        sheet.add_only(Form::Terminal, [part]);
    }
}

/// Requests, processor time, failures and p99 of a candidate.
fn figures(one: &Measured) -> [String; 4] {
    [
        grouped(one.requests as f64),
        one.cost().map_or("–".to_owned(), duration),
        grouped((one.failed + one.refused) as f64),
        one.p99_us.map_or("–".to_owned(), |time| format!("≤ {}", duration(time))),
    ]
}

/// The intervals of all candidates except the best at the end.
fn course(sheet: &mut Sheet, heading: Option<&Heading>, blocks: &[&Block]) {
    let best = blocks.iter().rev().find_map(|block| block.standings.first());
    let all = heading.map_or(&[][..], |heading| &heading.candidates);
    let others: Vec<(&Candidate, &'static str)> = all
        .iter()
        .zip(COLOURS.iter().copied().cycle())
        .filter(|(candidate, _)| best.is_none_or(|best| best.candidate != candidate.name))
        .collect();
    let band = |(candidate, colour): &(&Candidate, &'static str)| {
        let point = |(at, block): (usize, &&Block)| {
            let mut standings = block.standings.iter();
            let own = standings.find(|standing| standing.candidate == candidate.name)?;
            Some((at, own.excess, own.interval?))
        };
        Band { colour, points: blocks.iter().enumerate().filter_map(point).collect() }
    };
    let bands = Bands {
        about: "Processor time above the best, with intervals, by block".to_owned(),
        blocks: blocks.len(),
        bands: others.iter().map(band).collect(),
    };
    let key = others.iter().map(|(one, colour)| ((*colour).to_owned(), one.name.clone()));
    sheet.add_only(
        Form::Page,
        [
            Part::heading("Processor time above the best"),
            Part::note(
                "The line is the estimate, and the band its interval, after each block. All bands \
                 together hold the true values at all times, except with the promised probability. \
                 A candidate is out once its band is above the dashed line. The axis goes from \
                 −50 % to +150 %.",
            ),
            Part::Figure(Figure::new("", Chart::Bands(bands), Vec::new())),
            Part::Key(key.collect()),
        ],
    );
}

/// The measurements of each candidate: at the end of the whole trial, before that of the last
/// block.
fn candidates(
    sheet: &mut Sheet,
    heading: Option<&Heading>,
    told: &[Told],
    blocks: &[&Block],
    verdict: Option<&Verdict>,
) {
    let measured = verdict.map(|verdict| &verdict.measured);
    let measured = measured.or(blocks.last().map(|block| &block.measured));
    let row = |candidate: &Candidate| {
        let out = told.iter().find_map(|one| match &one.event {
            Event::Out { candidate: out, reason } if *out == candidate.name => Some(reason),
            _ => None,
        });
        let one = measured.and_then(|all| all.get(&candidate.name));
        let memory = one.map(|one| one.memory_bytes as f64).filter(|held| *held > 0.0);
        let memory = memory.map_or("–".to_owned(), bytes);
        let figures = one.map_or_else(|| std::array::from_fn(|_| "–".to_owned()), figures);
        let state = out.map_or("in".to_owned(), |why| format!("out: {}", text::because(why)));
        let names = [candidate.name.clone(), candidate.architecture.clone()].into_iter();
        names.chain(figures).chain([memory, state]).collect()
    };
    let figures = ["requests", "processor time a request", "failed", "p99", "memory"].map(right);
    let columns = [left("candidate"), left("architecture")].into_iter().chain(figures);
    let rows = heading.into_iter().flat_map(|heading| &heading.candidates).map(row);
    let table = Table::new(columns.chain([left("state")]), rows);
    sheet.add_only(Form::Page, [Part::heading("Candidates"), Part::Table(table)]);
}

/// All events except the blocks, and what the trial is of.
fn happened(sheet: &mut Sheet, heading: Option<&Heading>, told: &[Told]) {
    let events = told.iter().filter(|one| !matches!(one.event, Event::Block(_)));
    let rows = events.map(|one| vec![format!("{:.1} s", one.at_s), text::line(one)]);
    let machine = heading.map(|heading| &heading.machine);
    let machine = machine.map_or(String::new(), |one| {
        format!(" on {}, {} processors, {}", one.cpu, one.cpus, one.kernel)
    });
    let started = heading.map_or("", |heading| &heading.started_at);
    sheet.add_only(
        Form::Page,
        [
            Part::heading("What happened"),
            Part::Table(Table::new([left(""), left("")], rows)),
            Part::note(format!(
                "Begun at {started}{machine}. The data are in trial.jsonl beside this page."
            )),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Interval;
    use crate::tell::render::html::html;
    use crate::tell::render::text as forms;
    use crate::trial::event::{Finding, Standing};

    fn summary(verdict: &Verdict) -> String {
        let event = Event::Decided(Box::new(verdict.clone()));
        forms::text(&sheet(&[Told { at_s: 1.0, event }]), forms::TERMINAL)
    }

    fn verdict() -> Verdict {
        let measured = |requests, cpu_us| Measured {
            requests,
            cpu_us,
            p99_us: Some(1024.0),
            ..Measured::default()
        };
        Verdict {
            finding: Finding::Winner { candidate: "epoll".into() },
            serving: Some("epoll".into()),
            blocks: 9,
            measured: [
                ("epoll".to_owned(), measured(10_000, 600_000)),
                ("threads".to_owned(), measured(9_000, 700_000)),
            ]
            .into(),
            standings: vec![
                Standing { candidate: "epoll".into(), excess: 0.0, interval: None },
                Standing {
                    candidate: "threads".into(),
                    excess: 0.3,
                    interval: Some(Interval { low: 0.12, high: 0.51 }),
                },
            ],
            out: Vec::new(),
        }
    }

    #[test]
    fn the_answer_has_the_finding_and_a_row_for_each_candidate() {
        let text = summary(&verdict());
        let begin = "epoll takes least processor time: 60.0 µs a request; epoll goes on serving.\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("+30 % (12 to 51 %)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_trial_without_traffic_says_so_and_takes_no_candidate_for_out() {
        let mut silent = verdict();
        silent.standings.clear();
        silent.measured.values_mut().for_each(|one| *one = Measured::default());
        for (finding, told) in [
            (
                Finding::OutOfTime,
                "the budget is spent, and no request came; epoll goes on serving.",
            ),
            (Finding::Interrupted, "interrupted before any request came; epoll goes on serving."),
        ] {
            silent.finding = finding;
            let text = summary(&silent);
            assert!(text.starts_with(told), "{text}");
            assert!(!text.contains(" out"), "{text}");
        }
    }

    #[test]
    fn only_a_candidate_that_takes_no_more_connections_is_shown_as_out() {
        let mut verdict = verdict();
        verdict.standings.clear();
        verdict.out = vec!["threads".to_owned()];
        let text = summary(&verdict);
        let row = |name| text.lines().rfind(|line| line.starts_with(name)).unwrap();
        assert!(row("threads").ends_with("  out"), "{text}");
        assert!(row("epoll  ").ends_with("  –"), "{text}");
    }

    #[test]
    fn names_are_escaped_and_the_page_follows_until_the_end() {
        let event = Event::Drained { candidate: "<b>".into() };
        let mut parts = vec![Told { at_s: 1.0, event }];
        let page = html(&sheet(&parts));
        assert!(page.contains("&lt;b&gt; has drained") && page.contains("http-equiv=\"refresh\""));
        parts.push(Told { at_s: 2.0, event: Event::Ended });
        assert!(!html(&sheet(&parts)).contains("http-equiv=\"refresh\""));
    }
}
