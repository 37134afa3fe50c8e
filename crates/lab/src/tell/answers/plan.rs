//! The index of a plan's reports: the plan's question, and a part for each experiment. Each part
//! has the experiment's answer in words, its rates, and the link to its report.
//!
//! The report of the experiment NAME is expected at NAME/report.html beside the index.

use std::io;
use std::path::Path;

use crate::ask::file::Plan;
use crate::format::{self, bytes, grouped};
use crate::judge::rows::{Figures, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::Verdict;
use crate::page::write_whole;
use crate::record::{Clients, Design, Heading, Origin};
use crate::tell::answer::Answer;
use crate::tell::render::html::html;
use crate::tell::render::text::TERMINAL;
use crate::tell::report::command;
use crate::tell::screen::fit;
use crate::tell::sheet::{Cell, Form, Manner, Part, Sheet, Table, Tone, Words, left, right};

/// An index that grows as experiments end.
pub struct Index {
    title: String,
    source: String,
    /// The experiment that ended first. All experiments run on one machine.
    first: Option<Heading>,
    entries: Vec<Entry>,
}

/// An experiment.
#[derive(Default)]
struct Entry {
    name: String,
    description: String,
    /// Whether the experiment has results.
    ended: bool,
    partial: Option<String>,
    /// The best set at the busiest load, and the subjects that are worse for sure.
    best: String,
    worse: String,
    recommendation: Vec<String>,
    rates: Table,
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
            partial: summary.partial().map(|partial| partial.to_string()),
            best: best(summary),
            worse: worse(summary),
            recommendation: [&*recommendation.headline]
                .into_iter()
                .chain(recommendation.all_sentences())
                .map(str::to_owned)
                .collect(),
            rates: rates(summary),
        };
        match self.entries.iter_mut().find(|entry| entry.name == name) {
            Some(entry) => *entry = ended,
            None => self.entries.push(ended),
        }
    }

    /// The page.
    pub fn sheet(&self) -> Sheet {
        let Self { title, source, first, entries } = self;
        let mut sheet = Sheet::new(title);
        let machine = first.iter().map(|Heading { duality, started_at, machine, .. }| {
            let (cpu, cpus, kernel) = (&machine.cpu, machine.cpus, &machine.kernel);
            format!("Duality {duality} · {started_at} · {cpu}, {cpus} CPUs · {kernel}")
        });
        let source = (!source.is_empty()).then(|| format!("From {source}"));
        sheet.add_only(Form::Page, source.into_iter().chain(machine).map(Part::note));
        if entries.len() > 1 {
            sheet.add_only(
                Form::Page,
                [
                    Part::heading("The answers side by side"),
                    Part::note("At the busiest load of each experiment."),
                    Part::Table(side_by_side(entries)),
                ],
            );
        }
        entries.iter().for_each(|entry| entry.add_to(&mut sheet));
        sheet
    }

    /// The answers side by side, for a terminal: a line for each experiment that has ended.
    pub fn digest(&self) -> String {
        let ended = || self.entries.iter().filter(|entry| entry.ended);
        let width =
            ended().map(|entry| entry.name.len()).max().unwrap_or(0).max("experiment".len());
        let mut text =
            format!("{:width$}  best at the busiest load, and what is worse\n", "experiment");
        for Entry { name, best, worse, .. } in ended() {
            let worse = if worse.is_empty() { String::new() } else { format!("; {worse}") };
            let line = format!("{name:width$}  {best}{worse}");
            text += &fit(&line, TERMINAL);
            text.push('\n');
        }
        text
    }

    /// Writes the page to `path`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_whole(path, &html(&self.sheet()))
    }
}

/// The words for an experiment without results.
const NOT_YET: &str = "not run yet";

impl Entry {
    fn add_to(&self, sheet: &mut Sheet) {
        let Self { name, description, ended, partial, recommendation, rates, .. } = self;
        let partial = match ended {
            true => partial.clone(),
            false => Some(NOT_YET.to_owned()),
        };
        let heading = [Part::heading(name.clone()), Part::note(description.clone())];
        sheet.add_only(Form::Page, heading.into_iter().chain(partial.map(label)));
        let mut sentences = recommendation.iter().cloned();
        let answer = sentences.next().map(Part::Answer);
        sheet.add_only(Form::Page, answer.into_iter().chain(sentences.map(Part::sentence)));
        if *ended {
            let rate = "Requests/s, median ± half of its 95 % interval.".to_owned();
            let text = "“!” marks a warning: see the full report.".to_owned();
            let link = Part::Link { text, to: format!("{name}/report.html") };
            sheet.add_only(Form::Page, [Part::note(rate), link, Part::Table(rates.clone())]);
        }
    }
}

/// A label that warns.
fn label(text: String) -> Part {
    Part::Sentence(Words::of(Manner::Label, text))
}

fn side_by_side(entries: &[Entry]) -> Table {
    let row = |entry: &Entry| {
        let best = if entry.ended { &entry.best } else { NOT_YET };
        let name = Cell { to: format!("#{}", entry.name), ..entry.name.clone().into() };
        vec![name, best.to_owned().into(), entry.worse.clone().into()]
    };
    let columns = [left("Experiment"), left("Best set"), left("Worse for sure")];
    Table::new(columns, entries.iter().map(row))
}

/// The text above the tables of the experiment called `name` on the terminal.
pub fn heading(name: &str, design: &Design) -> String {
    let heading = fit(&format!("{name}: {}", describe(design)), TERMINAL);
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
    let connections = format!("{connections}{}", design.protocols());
    if let Some(recording) = &design.recording {
        let bunch = recording.bunch.map(|bunch| format!(", {bunch} users at the same time"));
        let rate =
            recording.client_rate.map(|rate| format!(", clients of {}/s", bytes(rate as f64)));
        let changed: String = bunch.into_iter().chain(rate).collect();
        let users = design.concurrency.iter().map(|users| grouped(*users as f64));
        let users = users.collect::<Vec<_>>().join(", ");
        let (service, trace) = (&design.service, &recording.trace);
        return format!("{service}, {users} times the users of {trace}, {connections}{changed}");
    }
    let Clients { pattern, arrivals, .. } = &design.clients;
    let arrivals = arrivals.as_ref().map_or(String::new(), |arrivals| format!(" ({arrivals})"));
    let crowd = design.clients.crowd().map_or(String::new(), |crowd| format!(", beside {crowd}"));
    format!("{}{store}, {pattern} clients{arrivals}, {connections}{crowd}", design.service)
}

/// The verdict at the busiest load that has one.
fn busiest(summary: &Summary) -> Option<&Verdict> {
    summary.verdicts.iter().max_by_key(|verdict| verdict.concurrency)
}

fn best(summary: &Summary) -> String {
    match busiest(summary).filter(|verdict| !verdict.is_withheld()) {
        None => "no verdict".to_owned(),
        Some(verdict) => {
            let names: Vec<&str> = verdict.leaders().map(|one| one.subject.as_str()).collect();
            match names.len() {
                0 => "all level".to_owned(),
                _ => names.join(", "),
            }
        }
    }
}

fn worse(summary: &Summary) -> String {
    let excluded = busiest(summary).into_iter().flat_map(Verdict::excluded);
    let parts = excluded.map(|one| format!("{} +{:.0} %", one.subject, 100.0 * one.behind));
    parts.collect::<Vec<_>>().join(", ")
}

/// The rates of each subject at each load, with the reasons for those that are missing.
fn rates(summary: &Summary) -> Table {
    let loads = summary.concurrency.iter().map(|&count| right(summary.at(count)));
    let row = |name: &String| {
        [summary.label(name).into()].into_iter().chain(summary.of_subject(name).map(rate)).collect()
    };
    let rows: Vec<Vec<Cell>> = summary.subjects.iter().map(row).collect();
    Table::new([left("Architecture")].into_iter().chain(loads), rows)
}

fn rate(row: &Row) -> Cell {
    match &row.figures {
        Figures::Measured(medians) => {
            let mark = match (medians.invalid, row.warnings.is_empty()) {
                (true, _) => " ✗",
                (false, false) => " !",
                (false, true) => "",
            };
            Cell::from(format::rate(medians.requests_per_second) + mark)
        }
        Figures::Missing { state, reason } => {
            Cell { note: reason.clone(), tone: Tone::Soft, ..state.to_string().into() }
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
        // Each experiment has a row among the answers, and a part of its own.
        assert_eq!(html(&index.sheet()).matches("not run yet").count(), 4);
        let heading = heading();
        let cell = Cell {
            subject: "epoll".into(),
            concurrency: 10,
            repeat: 0,
            started_at: String::new(),
            outcome: Outcome::lacking("no <epoll>"),
        };
        let records = Records { cells: vec![cell], blocks: vec![] };
        index.add("one", &Answer::of(&heading, &records));
        let page = html(&index.sheet());
        assert_eq!(page.matches("not run yet").count(), 2);
        assert!(page.contains("href=\"one&#x2f;report.html") && !page.contains("two&#x2f;"));
        assert!(page.contains("unavailable<small class=\"soft\">no &lt;epoll&gt;<"), "{page}");
        assert!(page.contains("A &lt;b&gt;question") && !page.contains("<b>question"));
        let digest = index.digest();
        assert_eq!(digest.lines().nth(1), Some("one         no verdict"), "{digest}");
        assert_eq!(digest.lines().count(), 2, "{digest}");
    }
}
