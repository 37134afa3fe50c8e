//! The index of a plan's reports: the plan's question, and a part for each experiment. Each part
//! has the experiment's answer in words, its rates, and the link to its report.
//!
//! The report of the experiment NAME is expected at NAME/report.html beside the index.

use std::io;
use std::path::Path;

use minijinja::context;
use serde::Serialize;

use super::table::command;
use crate::ask::file::Plan;
use crate::format::{self, connections};
use crate::judge::rows::{Figures, Row};
use crate::page::{page, write_whole};
use crate::record::{Clients, Design, Heading, Origin};
use crate::tell::answer::Answer;
use crate::tell::summary::Summary;

/// An index that grows as experiments end.
pub struct Index {
    title: String,
    source: String,
    /// The experiment that ended first. All experiments run on one machine.
    first: Option<Heading>,
    entries: Vec<Entry>,
}

/// An experiment.
#[derive(Default, Serialize)]
struct Entry {
    name: String,
    description: String,
    /// Whether the experiment has results.
    ended: bool,
    partial: Option<String>,
    recommendation: Vec<String>,
    concurrency: Vec<String>,
    lines: Vec<Line>,
}

/// The rates of an architecture.
#[derive(Serialize)]
struct Line {
    subject: String,
    cells: Vec<Rate>,
}

#[derive(Serialize)]
struct Rate {
    text: String,
    /// The reason why there is no rate.
    why: Option<String>,
}

impl Index {
    /// The index of a plan with these designs, before any of its experiments has ended.
    pub fn new<'a>(plan: &Plan, designs: impl Iterator<Item = &'a Design>) -> Self {
        let entries = plan.experiments.iter().zip(designs).map(|(experiment, design)| Entry {
            name: experiment.name.clone(),
            description: describe(design),
            ..Entry::default()
        });
        Self {
            title: plan.title.clone(),
            source: plan.source.clone(),
            first: None,
            entries: entries.collect(),
        }
    }

    /// The index of earlier experiments, which the caller [adds](Self::add) in the order of the
    /// page.
    pub fn of(origin: &Origin) -> Self {
        let Origin { title, source, .. } = origin.clone();
        Self { title, source, first: None, entries: Vec::new() }
    }

    /// The experiment called `name` has ended, or has been cut short.
    pub fn add(&mut self, name: &str, answer: &Answer<'_>) {
        let Answer { heading, summary, recommendation, .. } = answer;
        self.first.get_or_insert_with(|| Heading::clone(heading));
        let ended = Entry {
            name: name.to_owned(),
            description: describe(&heading.design),
            ended: true,
            partial: summary.partial(),
            recommendation: recommendation.all_sentences().cloned().collect(),
            concurrency: summary.concurrency.iter().map(|&count| connections(count)).collect(),
            lines: lines(summary),
        };
        match self.entries.iter_mut().find(|entry| entry.name == name) {
            Some(entry) => *entry = ended,
            None => self.entries.push(ended),
        }
    }

    /// The page.
    pub fn render(&self) -> String {
        page(
            include_str!("index.html.jinja"),
            context! {
                title => self.title,
                source => self.source,
                first => self.first,
                entries => self.entries,
            },
        )
    }

    /// Writes the page to `path`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_whole(path, &self.render())
    }
}

/// The text above the tables of the experiment called `name` on the terminal.
pub fn heading(name: &str, design: &Design) -> String {
    let heading = format!("{name}: {}", describe(design));
    let line = "=".repeat(heading.chars().count());
    format!("\n{heading}\n{line}")
}

/// The description of an experiment, in a few words.
fn describe(design: &Design) -> String {
    let store = design.store.as_ref().map_or(String::new(), |store| format!(", store {store}"));
    if let Some(words) = &design.load_command {
        return format!("{}, loaded by {}", design.service, command(words));
    }
    let connections = match design.keep_alive {
        true => "connections that stay",
        false => "a connection for each request",
    };
    let Clients { pattern, arrivals, .. } = &design.clients;
    let arrivals = arrivals.as_ref().map_or(String::new(), |arrivals| format!(" ({arrivals})"));
    let crowd = design.clients.crowd().map_or(String::new(), |crowd| format!(", beside {crowd}"));
    format!("{}{store}, {pattern} clients{arrivals}, {connections}{crowd}", design.service)
}

fn lines(summary: &Summary) -> Vec<Line> {
    let line = |name: &String| Line {
        subject: summary.label(name),
        cells: summary.of_subject(name).map(rate).collect(),
    };
    summary.subjects.iter().map(line).collect()
}

fn rate(row: &Row) -> Rate {
    match &row.figures {
        Figures::Measured(medians) => {
            let mark = match (medians.invalid, row.warnings.is_empty()) {
                (true, _) => " ✗",
                (false, false) => " !",
                (false, true) => "",
            };
            Rate { text: format::rate(medians.requests_per_second) + mark, why: None }
        }
        Figures::Missing { what, reason } => {
            Rate { text: (*what).to_owned(), why: Some(reason.clone()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::file;
    use crate::record::design::tests::design;
    use crate::record::results::tests::heading;
    use crate::record::{Cell, Outcome, Records};

    #[test]
    fn each_experiment_has_its_place_whether_it_ended_or_not() {
        let plan = "title = 'A <b>question</b>'\n[[experiment]]\nname = 'one'\n\
                    [[experiment]]\nname = 'two'";
        let plan = file::parse(plan).unwrap();
        let mut index = Index::new(&plan, [design(), design()].iter());
        assert_eq!(index.render().matches("not run yet").count(), 2);
        let heading = heading();
        let cell = Cell {
            subject: "epoll".into(),
            concurrency: 10,
            repeat: 0,
            started_at: String::new(),
            outcome: Outcome::Unavailable { reason: "no <epoll>".into() },
        };
        let records = Records { cells: vec![cell], blocks: vec![] };
        index.add("one", &Answer::of(&heading, &records));
        let page = index.render();
        assert_eq!(page.matches("not run yet").count(), 1);
        assert!(page.contains("one/report.html") && !page.contains("two/report.html"));
        assert!(page.contains("title=\"no &lt;epoll&gt;\">unavailable"), "{page}");
        assert!(page.contains("A &lt;b&gt;question") && !page.contains("<b>question"));
    }
}
