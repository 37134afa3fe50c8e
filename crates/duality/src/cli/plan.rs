//! `duality compare PLAN.toml`: the experiments of a plan, one after the other. Also `duality plan
//! new`. docs/plans.md describes plans.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use duality_lab::ask::budget;
use duality_lab::ask::file::{self, Entry, Plan};
use duality_lab::ask::settings::{self, Misfit, Part, Setting, Settings};
use duality_lab::live::Page;
use duality_lab::measure::experiment::Experiment;
use duality_lab::measure::peers;
use duality_lab::measure::{Clock, Finished, seconds_missing};
use duality_lab::record::{Design, Origin, Peer};
use duality_lab::tell::answers::plan::{self as index, Index};
use duality_runtime::log;

use super::compare::Shown;
use super::live::LiveFlags;
use super::{
    Blame, Failure, Party, Tuning, compare, experiment, explain, flag, load, paragraph, prices,
    print, resumed,
};
use crate::catalogue::Catalogue;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write a plan to begin with, in which every key is explained
    New {
        /// The file, which must not be there yet; without it, standard output
        #[arg(value_name = "PLAN.toml")]
        file: Option<PathBuf>,
    },
}

/// A plan that can be run unchanged.
const NEW: &str = include_str!("new_plan.toml");

/// [`NEW`], and an explanation of every key of an experiment.
fn new() -> String {
    let mut text =
        format!("{NEW}\n# Every key of an experiment: its type, its default, and what it is.\n");
    for part in Part::ALL {
        text += &format!("#\n# {}:\n", part.heading());
        let indent = format!("#   {:<16} ", "");
        for Setting { key, kind, default, about, .. } in of_part(part) {
            text += &paragraph(
                &format!("#   {key:<16} "),
                &indent,
                &format!("{}; {default}", kind.in_plan()),
            );
            text += &paragraph(&indent, &indent, about);
        }
    }
    text
}

fn of_part(part: Part) -> impl Iterator<Item = &'static Setting> {
    settings::ALL.iter().filter(move |setting| setting.part == part)
}

pub(super) fn write(arguments: &Arguments) -> Result<(), Failure> {
    let Command::New { file } = &arguments.command;
    let Some(path) = file else { return print(&new()) };
    let shown = path.display();
    let failure = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::misuse(format!("{shown}: is there already: choose another name"))
        }
        _ => Failure::new(Party::Machine, format!("{shown}: {error}")),
    };
    let mut file = File::create_new(path).map_err(failure)?;
    file.write_all(new().as_bytes()).map_err(failure)?;
    log::tell(format_args!(
        "wrote {shown}: `duality compare {shown} --check` says what it would measure"
    ));
    Ok(())
}

/// The flags of the command line, which override every experiment of the plan.
pub(super) struct Flags {
    pub(super) settings: Settings,
    pub(super) tuning: Tuning,
    /// The limit on the time of the whole plan.
    pub(super) budget: Option<Duration>,
    /// The output for each experiment.
    pub(super) shown: Shown<'static>,
    pub(super) live: LiveFlags,
}

impl Flags {
    /// The limit on the time of the whole plan.
    fn limit(&self, plan: &Plan) -> Option<Duration> {
        self.budget.or(plan.budget.map(|(budget, _)| budget))
    }
}

pub(super) fn run(
    catalogue: &Catalogue,
    path: &Path,
    flags: &Flags,
    out: &Path,
    resume: bool,
) -> Result<(), Failure> {
    let (plan, experiments) = read(catalogue, path, flags)?;
    let how = How { out, resume, limit: flags.limit(&plan), shown: flags.shown, live: flags.live };
    carry_out(&plan, experiments, &how)
}

/// How the experiments of a plan are run.
pub(super) struct How<'a> {
    /// The directory of the results.
    pub(super) out: &'a Path,
    pub(super) resume: bool,
    /// The limit on the time of all experiments.
    pub(super) limit: Option<Duration>,
    /// The output for each experiment.
    pub(super) shown: Shown<'a>,
    pub(super) live: LiveFlags,
}

/// Runs the experiments of a plan, one after the other.
pub(super) fn carry_out(
    plan: &Plan,
    mut experiments: Vec<Experiment>,
    how: &How<'_>,
) -> Result<(), Failure> {
    let How { out, resume, .. } = *how;
    let mut lengths = Vec::new();
    for (entry, experiment) in plan.experiments.iter().zip(&mut experiments) {
        let records = compare::prepare(&out.join(&entry.name), experiment, resume)?;
        lengths.push(seconds_missing(experiment, &records));
    }
    compare::writable(out)?;
    announce(plan, &experiments);
    log::tell(format_args!("results in {}", out.display()));
    let interrupted = load::on_interrupt()?;
    how.live.beside(|page| {
        measure(plan, experiments, &lengths, how, Clock::new(&interrupted, how.limit), page)
    })
}

/// Measures the experiments of a plan that take `lengths` seconds, and tells their answers.
fn measure(
    plan: &Plan,
    mut experiments: Vec<Experiment>,
    lengths: &[f64],
    how: &How<'_>,
    clock: Clock<'_>,
    page: Option<&Page>,
) -> Result<(), Failure> {
    let How { out, resume, shown, live, .. } = *how;
    // The folder and its programs are removed after the measurements.
    let programs = tempfile::tempdir().blame_at(Party::Machine, "a folder for programs")?;
    build(&mut experiments, programs.path());
    prices::find(&mut experiments, clock);
    let index_path = out.join("index.html");
    let mut index = Index::new(plan, experiments.iter().map(|experiment| &experiment.design));
    let mut late = Vec::new();
    for (place, (entry, experiment)) in plan.experiments.iter().zip(&experiments).enumerate() {
        let folder = out.join(&entry.name);
        print(&index::heading(&entry.name, &experiment.design))?;
        compare::announce(experiment);
        let own = clock.share(lengths[place], lengths[place..].iter().sum());
        let finished = compare::measure(experiment, &folder, resume, own, page.cloned())?;
        let Finished { complete, out_of_time, .. } = finished;
        index.add(&entry.name, &compare::tell(&finished, &folder, shown)?);
        index.write(&index_path).blame_at(Party::Machine, index_path.display())?;
        if let Some(page) = page {
            page.lead_to(&index_path);
        }
        if out_of_time {
            log::tell(format_args!("{}: its share of the budget was spent", entry.name));
            late.push(entry.name.as_str());
        } else if !complete {
            return Err(Failure::new(
                Party::Interruption,
                format!(
                    "interrupted in the experiment {}: go on with `{}`",
                    entry.name,
                    resumed::command_to_resume(&experiment.command, out),
                ),
            ));
        }
    }
    if plan.experiments.len() > 1 && !shown.tables {
        print(&format!("\n{}", index.digest()))?;
    }
    log::tell(format_args!("index of the reports: {}", index_path.display()));
    live.open_report(&index_path);
    if late.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Party::Interruption,
        format!(
            "the budget was spent before the end of {}: go on with `{}`",
            late.join(", "),
            resumed::command_to_resume(&experiments[0].command, out),
        ),
    ))
}

/// Builds the programs of the peers that need a build. Peers that cannot be built are unavailable.
fn build(experiments: &mut [Experiment], folder: &Path) {
    let all = experiments.iter().flat_map(|experiment| &experiment.design.peers);
    let failed = peers::build(all, folder);
    for experiment in experiments {
        folder.clone_into(&mut experiment.programs);
        let Design { peers, concurrency, .. } = &experiment.design;
        for Peer { name, .. } in peers {
            let Some(why) = failed.get(name) else { continue };
            let cells = concurrency.iter().map(|&count| ((name.clone(), count), why.clone()));
            experiment.unavailable.extend(cells);
        }
    }
}

/// Explains the measurements of a plan, without measuring.
pub(super) fn check(catalogue: &Catalogue, path: &Path, flags: &Flags) -> Result<(), Failure> {
    let (plan, experiments) = read(catalogue, path, flags)?;
    explain_all(&plan, &experiments)
}

/// Explains the measurements of these experiments of a plan.
pub(super) fn explain_all(plan: &Plan, experiments: &[Experiment]) -> Result<(), Failure> {
    announce(plan, experiments);
    let lines = plan.experiments.iter().zip(experiments).map(|(entry, experiment)| {
        let heading = index::heading(&entry.name, &experiment.design);
        format!("{}\n{}", heading.trim_end(), explain::explain(experiment))
    });
    print(&lines.collect::<String>())
}

/// Announces a plan's question, its length, and the programs that it starts.
fn announce(plan: &Plan, experiments: &[Experiment]) {
    let length: Duration = experiments.iter().map(Experiment::length).sum();
    log::tell(format_args!(
        "{}\n{} experiment{}, about {:.0} s",
        plan.title,
        experiments.len(),
        if experiments.len() == 1 { "" } else { "s" },
        length.as_secs_f64(),
    ));
    // Peers of a plan can be any command, so the user must see these commands.
    for peer in &plan.peers {
        let Peer { name, command, build, .. } = peer;
        if !build.is_empty() {
            log::tell(format_args!("the peer {name} is made by the command {build:?}"));
        }
        log::tell(format_args!("the peer {name} is the command {command:?}"));
    }
}

/// Reads a plan and checks every experiment.
fn read(
    catalogue: &Catalogue,
    path: &Path,
    flags: &Flags,
) -> Result<(Plan, Vec<Experiment>), Failure> {
    let mut text = String::new();
    // One byte above the limit lets the parser notice that the plan is too long.
    File::open(path)
        .and_then(|opened| opened.take(file::LARGEST as u64 + 1).read_to_string(&mut text))
        .blame_at(Party::User, path.display())?;
    let plan = file::parse(&text)
        .map_err(|problem| Failure::misuse(format!("{}:{problem}", path.display())))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let limit = flags.limit(&plan);
    let mut experiments = Vec::new();
    for entry in &plan.experiments {
        let share = limit.map(|limit| budget::aim(limit, plan.experiments.len()));
        experiments.push(make(catalogue, &plan, entry, directory, flags, share).map_err(
            |misfit| {
                if flags.settings.said().any(|key| key == misfit.key) {
                    let Misfit { key, problem } = misfit;
                    let problem = format!("{problem} (experiment {})", entry.name);
                    return flag(Misfit::new(key, problem));
                }
                let problem = entry.problem(&misfit);
                Failure::misuse(format!("{}:{problem}", path.display()))
            },
        )?);
    }
    if let Some(limit) = limit {
        budget::fit(&mut experiments, limit).map_err(|problem| {
            match (flags.budget, plan.budget) {
                (None, Some((_, position))) => {
                    Failure::misuse(format!("{}:{position}: budget: {problem}", path.display()))
                }
                _ => flag(Misfit::new("budget", problem)),
            }
        })?;
    }
    Ok((plan, experiments))
}

/// The lab's experiment for an experiment of a plan in `directory`.
fn make(
    catalogue: &Catalogue,
    plan: &Plan,
    entry: &Entry,
    directory: &Path,
    flags: &Flags,
    share: Option<Duration>,
) -> Result<Experiment, Misfit> {
    let mut written = entry.settings.clone();
    let Settings { root, templates, trace, .. } = &mut written;
    for path in [root, templates, trace].into_iter().flatten() {
        *path = directory.join(&*path);
    }
    let settings = flags.settings.clone().or(written);
    let peers: Vec<Peer> = plan.peers.iter().map(|peer| peer.beside(directory)).collect();
    let experiment = experiment::of(catalogue, &settings, &flags.tuning, &peers, share)?;
    Ok(Experiment { origin: Some(origin(plan, entry)), ..experiment })
}

/// The place of an experiment in its plan.
pub(super) fn origin(plan: &Plan, entry: &Entry) -> Origin {
    let before = plan.experiments.iter().take_while(|other| other.name != entry.name);
    Origin {
        title: plan.title.clone(),
        source: plan.source.clone(),
        experiment: entry.name.clone(),
        number: 1 + before.count(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use duality_lab::regimes::plan::is_of_regimes;

    use super::super::regimes;
    use super::*;

    fn flags() -> Flags {
        Flags {
            settings: Settings::default(),
            tuning: Tuning::default(),
            budget: None,
            shown: Shown::default(),
            live: LiveFlags::default(),
        }
    }

    fn refused(text: &str, flags: &Flags) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        let failure = read(&Catalogue::BuiltIn, &path, flags).err().unwrap().to_string();
        assert!(!failure.contains('\n'), "{failure}");
        failure.replace(&format!("{}:", path.display()), "")
    }

    #[test]
    fn the_plans_that_ship_are_right_and_short() {
        let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans"));
        let mut count = 0;
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            // A folder there has the recordings that plans replay.
            if path.is_dir() {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let length: Duration = if is_of_regimes(&text) {
                regimes::read(&Catalogue::BuiltIn, &path, &text).unwrap().length()
            } else {
                let (_, experiments) = read(&Catalogue::BuiltIn, &path, &flags()).unwrap();
                experiments.iter().map(Experiment::length).sum()
            };
            let limit = Duration::from_secs(15 * 60);
            assert!(length < limit, "{}: {length:?}", path.display());
            count += 1;
        }
        assert!(count >= 4);
    }

    #[test]
    fn a_new_plan_is_right_with_and_without_its_examples() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new.toml");
        for text in [new(), new().replace("#: ", "")] {
            fs::write(&path, text).unwrap();
            let (plan, experiments) = read(&Catalogue::BuiltIn, &path, &flags()).unwrap();
            assert!(experiments.len() >= 3 && plan.title.ends_with('?'));
        }
    }

    #[test]
    fn a_new_plan_and_the_guide_explain_every_key_and_no_other() {
        let text = new();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let joined = text.lines().map(|line| line.trim_start_matches('#').trim());
        let joined = joined.collect::<Vec<_>>().join(" ");
        let guide = include_str!("../../../../docs/plans.md");
        for Setting { key, about, .. } in settings::ALL {
            assert!(text.contains(&format!("\n#   {key} ")) && joined.contains(about), "{key}");
            assert!(guide.contains(&format!("`{key}`")), "docs/plans.md lacks the key {key}");
        }
        let (_, table) = guide.split_once("In each `[[experiment]]`:").unwrap();
        let rows = table.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
        let cells = rows.filter_map(|row| row.split('|').nth(1));
        for key in cells.flat_map(|cell| cell.split(',')).map(|key| key.trim().trim_matches('`')) {
            let is_known = settings::ALL.iter().any(|setting| setting.key == key);
            assert!(is_known || key == "name", "docs/plans.md has the key {key}, which is none");
        }
    }

    #[test]
    fn a_misfit_is_told_where_it_was_written() {
        let chat = "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'chat'\n";
        for (key, message) in [
            ("service = 'gopher'", "3:11: service: there is no service `gopher`"),
            ("store = 'sqlite'", "3:9: store: the service `http` keeps nothing"),
            ("templates = 'x'", "3:13: templates: the service `http` has no templates"),
            ("path = 'x'", "3:8: path: a path begins with a slash"),
            ("architectures = ['magic']", "3:17: architectures: there is no architecture `magic`"),
            ("redis-calls = 'few'", "3:15: redis-calls: there is no `few`"),
            ("server-arguments = ['--listen=x']", "3:20: server-arguments: unexpected"),
            ("server-arguments = ['--workers=0']", "3:20: server-arguments: invalid"),
        ] {
            let text = format!("title = 'a'\n[defaults]\n{key}\n[[experiment]]\nname = 'b'");
            let failure = refused(&text, &flags());
            assert!(failure.starts_with(message), "{failure}");
        }
        let failure = refused(&format!("{chat}concurrency = [1]"), &flags());
        assert!(failure.starts_with("2:1: chat needs at least 2"), "{failure}");
    }

    #[test]
    fn a_budget_that_is_too_short_is_refused_where_it_was_written() {
        let text = "title = 'a'\nbudget = '2s'\n[[experiment]]\nname = 'b'";
        let failure = refused(text, &flags());
        assert!(failure.starts_with("2:10: budget: 3 repeats"), "{failure}");
        let flags = Flags { budget: Some(Duration::from_secs(1)), ..flags() };
        assert!(refused(text, &flags).starts_with("--budget: 3 repeats"));
    }

    #[test]
    fn variants_have_options_and_places_of_their_own() {
        let text = "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'chat'\nconcurrency = [50]\n\
                    server-arguments = ['--workers=60', '--cores=2']\narchitectures = ['pool',\n\
                    { name = 'few', architecture = 'pool', options = ['--workers=5'] }]";
        let plan = file::parse(text).unwrap();
        let entry = &plan.experiments[0];
        let experiment =
            make(&Catalogue::BuiltIn, &plan, entry, Path::new(""), &flags(), None).unwrap();
        assert_eq!(experiment.design.architectures, ["pool", "few"]);
        let (architecture, arguments) = experiment.design.server_of("few");
        assert_eq!(architecture, "pool");
        for argument in ["--workers=5", "--cores=2"] {
            assert!(arguments.contains(&argument.to_owned()), "{arguments:?}");
        }
        assert!(experiment.design.server_of("pool").1.contains(&"--workers=60".to_owned()));
        let why = |name: &str| experiment.unavailable.get(&(name.to_owned(), 50));
        assert_eq!(why("pool"), None);
        assert!(why("few").unwrap().contains("5 workers hold at most 5 of 50"));
        for (choice, message) in [
            ("{ name = 'epoll', architecture = 'pool' }", "is an architecture as it is"),
            ("{ name = 'x', architecture = 'magic' }", "there is no architecture `magic`"),
            ("{ name = 'x', architecture = 'pool', options = ['--listen=y'] }", "x: unexpected"),
        ] {
            let text =
                format!("title = 'a'\n[[experiment]]\nname = 'b'\narchitectures = [{choice}]");
            let failure = refused(&text, &flags());
            assert!(failure.starts_with("4:17: architectures: "), "{failure}");
            assert!(failure.contains(message), "{failure}");
        }
    }

    #[test]
    fn processors_are_named_for_both_sides_or_none() {
        for (lines, message) in [
            ("server-cpus = [0]", "4:15: server-cpus: name the client-cpus"),
            (
                "server-cpus = [99999]\nclient-cpus = [1]",
                "4:15: server-cpus: processor 99999 is not available",
            ),
        ] {
            let text = format!("title = 'a'\n[[experiment]]\nname = 'b'\n{lines}");
            assert!(refused(&text, &flags()).starts_with(message), "{}", refused(&text, &flags()));
        }
    }

    #[test]
    fn flags_override_the_plan_and_are_told_as_flags() {
        let flags = Flags {
            settings: Settings { path: Some("/x".into()), ..Settings::default() },
            ..flags()
        };
        let text = "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'echo'";
        let failure = refused(text, &flags);
        assert!(failure.starts_with("--path: the service `echo` has no pages"), "{failure}");
        assert!(failure.ends_with("(experiment b)"), "{failure}");

        let text = "title = 'a'\n[[experiment]]\nname = 'b'\npath = '/y'\nroot = 'z'\n\
                    server-arguments = ['--workers=3', '--cores=2']";
        let plan = file::parse(text).unwrap();
        let flags = Flags { tuning: Tuning::parse(&["--workers=4".into()]).unwrap(), ..flags };
        let directory = tempfile::tempdir().unwrap();
        let make = || {
            let (entry, path) = (&plan.experiments[0], directory.path());
            make(&Catalogue::BuiltIn, &plan, entry, path, &flags, None)
        };
        let root = directory.path().join("z");
        let misfit = make().err().unwrap();
        assert!(
            misfit.key == "root" && misfit.problem.to_string().contains(&*root.to_string_lossy())
        );
        fs::create_dir(&root).unwrap();
        let experiment = make().unwrap();
        assert_eq!(experiment.design.path, "/x");
        let root = format!("--root={}", root.display());
        for argument in ["--workers=4", "--cores=2", &root] {
            assert!(
                experiment.design.server_arguments.contains(&argument.to_owned()),
                "{argument}"
            );
        }
        assert_eq!(experiment.origin.unwrap().experiment, "b");
    }

    #[test]
    fn what_cannot_be_carried_is_known_before_anything_starts() {
        let text = "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'game'\n\
                    architectures = ['fork', 'pool', 'epoll']\nserver-arguments = ['--workers=50']";
        let plan = file::parse(text).unwrap();
        let directory = Path::new("");
        let experiment =
            make(&Catalogue::BuiltIn, &plan, &plan.experiments[0], directory, &flags(), None)
                .unwrap();
        assert_eq!(experiment.design.concurrency, [10, 100, 1000]);
        let why = |name: &str, count| experiment.unavailable.get(&(name.to_owned(), count));
        assert_eq!(why("epoll", 1000), None);
        assert_eq!(why("pool", 10), None);
        assert!(why("pool", 100).unwrap().contains("50 workers hold at most 50 of 100"));
        assert!(why("fork", 10).unwrap().contains("shared memory"));
        // epoll, its control, and pool at 10, three times each.
        assert_eq!(experiment.tried(), 3 * (3 + 3 + 1));
    }
}
