//! What the live page of a trial shows: candidates, their shares and figures, and which one leads.

use std::collections::BTreeMap;

use super::event::{Event, Heading, Measured, Standing, Told};
use super::{Glance, text};
use crate::format::{bytes, duration, grouped, percent};
use crate::live::{Bar, Cell, Figure, Row, State, Table};

/// The largest excess that a bar shows: the double of the best.
const WIDEST: f64 = 1.0;

/// What is known of a trial.
#[derive(Debug, Default)]
pub struct Shown {
    heading: Option<Box<Heading>>,
    glance: Glance,
    /// The candidates that take no more connections, with the reason.
    out: BTreeMap<String, String>,
    /// What happened last.
    last: String,
    /// The finding.
    found: Option<String>,
    is_over: bool,
}

impl Shown {
    /// Takes note of an event.
    pub fn hear(&mut self, told: &Told) {
        match &told.event {
            Event::Began(heading) => self.heading = Some(heading.clone()),
            Event::Out { candidate, reason } => {
                self.out.insert(candidate.clone(), text::because(reason));
            }
            Event::Decided(verdict) => self.found = Some(text::sentence(verdict)),
            Event::Ended => self.is_over = true,
            _ => {}
        }
        self.last = text::line(told);
    }

    /// Takes note of a look at the candidates.
    pub fn look(&mut self, glance: &Glance) {
        self.glance = glance.clone();
    }

    /// The page.
    pub fn state(&self) -> State {
        let Some(heading) = &self.heading else {
            return State { title: "trial".to_owned(), now: self.last.clone(), ..State::default() };
        };
        let requests: u64 = self.glance.measured.values().map(|one| one.requests).sum();
        let rows = heading.candidates.iter().map(|candidate| Row {
            name: match candidate.name == candidate.architecture {
                true => candidate.name.clone(),
                false => format!("{} ({})", candidate.name, candidate.architecture),
            },
            cells: self.cells(&candidate.name, candidate.share),
        });
        let columns = [
            "candidate",
            "share",
            "processor time",
            "requests",
            "failed",
            "connections",
            "99 %",
            "memory",
            "state",
        ];
        let candidates = Table {
            title: "Candidates".to_owned(),
            caption:
                "Processor time for a request: of the first one as it is, of the others above \
                      the first one's, with an interval. An interval holds at all looks together."
                    .to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        };
        let leader = self.glance.standings.first();
        State {
            title: format!("trial of {} at {}", heading.service, heading.address),
            now: self.found.clone().unwrap_or_else(|| self.last.clone()),
            over: self.is_over,
            figures: vec![
                Figure::new("requests", grouped(requests as f64)),
                Figure::new("leads", leader.map_or("–", |leader| &leader.candidate)),
                Figure::new(
                    "takes connections",
                    self.glance.selected.as_deref().unwrap_or("by lot"),
                ),
            ],
            tables: vec![candidates],
            ..State::default()
        }
    }

    fn cells(&self, name: &str, share: f64) -> Vec<Cell> {
        let measured = self.glance.measured.get(name).copied().unwrap_or_default();
        let standing = self.glance.standings.iter().position(|one| one.candidate == name);
        let cost = match standing {
            None => Cell::plain("–"),
            Some(0) => {
                let cost = measured.cost().map_or("–".to_owned(), duration);
                Cell { tone: "best", ..Cell::plain(cost) }
            }
            Some(place) => behind(&self.glance.standings[place]),
        };
        let state = match (self.out.get(name), self.glance.selected.as_deref() == Some(name)) {
            (Some(reason), _) => Cell { tone: "out", ..Cell::plain(format!("out: {reason}")) },
            (None, true) => Cell { tone: "strong", ..Cell::plain("has its turn") },
            (None, false) => Cell::plain("waits"),
        };
        let Measured { requests, failed, connections_open, p99_us, memory_bytes, .. } = measured;
        let is_known =
            |text: String, is_known: bool| if is_known { text } else { "–".to_owned() };
        vec![
            Cell { bar: Some(Bar::of(share)), ..Cell::plain(percent(share)) },
            cost,
            Cell::plain(grouped(requests as f64)),
            Cell::plain(grouped(failed as f64)),
            Cell::plain(grouped(connections_open as f64)),
            Cell::plain(p99_us.map_or("–".to_owned(), duration)),
            Cell::plain(is_known(bytes(memory_bytes as f64), memory_bytes > 0)),
            state,
        ]
    }
}

fn behind(standing: &Standing) -> Cell {
    let share = |excess: f64| (excess / WIDEST).clamp(0.0, 1.0);
    let text = format!("{:+.0} % {}", 100.0 * standing.excess, text::ends(standing.interval));
    let bar = standing.interval.map(|interval| Bar {
        from: share(interval.low),
        to: share(interval.high),
        mark: Some(share(standing.excess)),
    });
    Cell { text, bar, ..Cell::default() }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Reason, VERSION};
    use super::super::{By, Candidate, Then};
    use super::*;
    use crate::measure::machine;
    use crate::statistics::Interval;

    fn told(event: Event) -> Told {
        Told { at_s: 1.0, event }
    }

    fn heading() -> Heading {
        let candidate = |name: &str| Candidate {
            name: name.to_owned(),
            architecture: name.to_owned(),
            share: 0.5,
        };
        Heading {
            version: VERSION,
            duality: String::new(),
            started_at: String::new(),
            service: "http".to_owned(),
            address: "127.0.0.1:8080".to_owned(),
            candidates: ["epoll", "threads"].map(candidate).to_vec(),
            server_arguments: Vec::new(),
            by: By::Slot,
            slot_s: 2.0,
            budget_s: 60.0,
            then: Then::Serve,
            promise: 0.05,
            margin: 0.05,
            seed: 1,
            machine: machine::describe(),
        }
    }

    /// A trial of `epoll` and `threads` after a look.
    fn shown() -> Shown {
        let mut shown = Shown::default();
        shown.hear(&told(Event::Began(Box::new(heading()))));
        let measured = Measured { requests: 100, cpu_us: 5_000, ..Measured::default() };
        let names = ["epoll", "threads"].map(str::to_owned);
        let standing = |candidate: &String, excess, interval| Standing {
            candidate: candidate.clone(),
            excess,
            interval,
        };
        shown.look(&Glance {
            standings: vec![
                standing(&names[0], 0.0, None),
                standing(&names[1], 0.4, Some(Interval { low: 0.1, high: 0.7 })),
            ],
            measured: names.clone().map(|name| (name, measured)).into(),
            selected: Some(names[0].clone()),
        });
        shown
    }

    #[test]
    fn it_is_shown_which_candidate_leads_and_by_how_much() {
        let state = shown().state();
        assert_eq!(state.figures[0].value, "200");
        assert_eq!(state.figures[1].value, "epoll");
        let [first, second] = &state.tables[0].rows[..] else { panic!("{state:?}") };
        assert_eq!((first.cells[1].text.as_str(), first.cells[1].tone), ("50.0 µs", "best"));
        assert_eq!(second.cells[1].text, "+40 % (10 to 70 %)");
        let bar = second.cells[1].bar.unwrap();
        assert_eq!((bar.from, bar.to, bar.mark), (0.1, 0.7, Some(0.4)));
    }

    #[test]
    fn what_is_out_has_its_reason_and_the_end_is_shown() {
        let mut shown = shown();
        let reason = Reason::Errors { share: 0.1, limit: 0.005 };
        shown.hear(&told(Event::Out { candidate: "threads".to_owned(), reason }));
        let state = shown.state();
        let last = state.tables[0].rows[1].cells.last().unwrap();
        assert!(last.text.starts_with("out: 10") && last.tone == "out", "{last:?}");
        assert!(!state.over);
        shown.hear(&told(Event::Ended));
        assert!(shown.state().over);
    }

    #[test]
    fn before_the_trial_has_begun_the_page_says_so() {
        assert_eq!(Shown::default().state().title, "trial");
    }
}
