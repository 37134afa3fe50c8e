//! `duality compare PLAN.toml` for a plan of regimes of load, and `duality report` of its results.

use std::env;
use std::path::{Path, PathBuf};

use duality_lab::ask::variant::Choice;
use duality_lab::page::write_whole;
use duality_lab::regimes::plan::Plan;
use duality_lab::regimes::record::{self, FILE};
use duality_lab::regimes::run;
use duality_lab::regimes::summary::Summary;
use duality_lab::tell::answers;
use duality_lab::tell::render::html::html;
use duality_lab::tell::render::markdown::table_markdown;
use duality_lab::tell::render::text::{WIDE, text};
use duality_lab::tell::report::markdown::Table;
use duality_runtime::log;
use duality_services::Setup;

use super::{Blame, Failure, Party, Tuning, compare, load, print, resumed};
use crate::catalogue::Catalogue;

/// A call of `compare` with such a plan.
pub(super) struct Invocation<'r> {
    /// The file of the plan.
    pub(super) file: &'r Path,
    /// The content.
    pub(super) text: &'r str,
    /// The directory of the results.
    pub(super) out: &'r Path,
    pub(super) resume: bool,
    /// Whether to only explain the measurements.
    pub(super) check: bool,
}

/// Measures the plan, and prints the report.
pub(super) fn measure(catalogue: &Catalogue, invocation: &Invocation<'_>) -> Result<(), Failure> {
    let Invocation { file, text, out, resume, check } = *invocation;
    let plan = read(catalogue, file, text)?;
    let summary = format!(
        "{} subjects under {} regimes, repeats: {}; {} cells, {:.0} s where servers keep up",
        plan.subjects.len(),
        plan.regimes.len(),
        plan.repeats,
        plan.cells(),
        plan.length().as_secs_f64(),
    );
    if check {
        return print(&summary);
    }
    if out.join(FILE).exists() && !resume {
        let problem = "holds results already: go on by --resume, or choose another --out";
        return Err(Failure::misuse(format!("{} {problem}", out.display())));
    }
    compare::writable(out)?;
    let program = env::current_exe().map_err(|error| {
        Failure::new(Party::Machine, format!("cannot find this program: {error}"))
    })?;
    log::tell(format_args!("{summary}; results in {}", out.display()));
    let interrupted = load::on_interrupt()?;
    let is_done = run::run(&plan, &program, out, resume, &interrupted)?;
    show(out, None)?;
    if is_done {
        return Ok(());
    }
    let given: Vec<String> = env::args().collect();
    let command = resumed::command_to_resume(&given, out);
    Err(Failure::new(Party::Interruption, "interrupted")
        .remedy(format_args!("go on with `{command}`")))
}

/// Reads a plan and checks that its architectures exist.
pub(super) fn read(catalogue: &Catalogue, file: &Path, text: &str) -> Result<Plan, Failure> {
    let plan = Plan::read(text).blame_at(Party::User, file.display())?;
    catalogue
        .look_up(&plan.service, &Setup::default())
        .map_err(|misfit| Failure::misuse(misfit.problem).at(misfit.key).at(file.display()))?;
    for Choice { name, architecture, options } in &plan.subjects {
        let known = catalogue.architecture(architecture).map(drop);
        known
            .and_then(|()| Tuning::parse(options).map(drop))
            .blame_at(Party::User, format_args!("{}: subjects: {name}", file.display()))?;
    }
    Ok(plan)
}

/// Whether the path is a run of regimes: its directory, or the file in this directory.
pub(super) fn run_at(path: &Path) -> Option<&Path> {
    if path.join(FILE).exists() {
        return Some(path);
    }
    path.parent().filter(|_| path.file_name().is_some_and(|name| name == FILE))
}

/// Prints tables of a run as Markdown.
pub(super) fn tables(directory: &Path, which: &[Table]) -> Result<(), Failure> {
    let (heading, cells) = record::read(directory)?;
    let summary = Summary::of(&heading, &cells);
    let tables = which.iter().map(|table| {
        let table = answers::regimes::tabled(&summary, *table).ok_or_else(|| {
            Failure::misuse("--markdown: a run of regimes has the tables rate, cpu and p99")
        });
        table.map(|table| table_markdown(&table))
    });
    print(&tables.collect::<Result<Vec<String>, Failure>>()?.join("\n"))
}

/// Prints the results of a run, and writes its page.
pub(super) fn show(directory: &Path, page: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let (heading, cells) = record::read(directory)?;
    let page = page.unwrap_or_else(|| directory.join("report.html"));
    let sheet = answers::regimes::sheet(&Summary::of(&heading, &cells));
    write_whole(&page, &html(&sheet)).blame_at(Party::Machine, page.display())?;
    print(&text(&sheet, WIDE))?;
    log::tell(format_args!("report: {}", page.display()));
    Ok(page)
}
