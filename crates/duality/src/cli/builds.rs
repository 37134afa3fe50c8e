//! `duality compare --binary old=./a --binary new=./b`: builds of one program, compared with the
//! first.
//!
//! A command with `{port}` is any server, and a build is then a peer. Other commands are programs
//! of Duality. They are compared under each architecture of `-a`, and this program starts them as
//! it starts itself.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use duality_lab::ask::settings::{Settings, parse_command};
use duality_lab::ask::variant::Choice;
use duality_lab::judge::builds::Change;
use duality_lab::judge::verdict::Told;
use duality_lab::measure::experiment::Experiment;
use duality_lab::measure::last_words;
use duality_lab::record::{Build, Built, Peer};
use duality_lab::tell::answer::Answer;
use duality_runtime::log;

use super::binary::{self, Way};
use super::flags::BuildFlags;
use super::versions::{self, Version, is_name};
use super::{Blame, Failure, Party, Tuning};
use crate::catalogue::Catalogue;
use crate::run;

/// The architecture of builds, unless others are asked for: that of `duality serve`.
const USUAL: &str = "epoll";

/// A program of Duality lists its services within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a command of `--binary` may stand for, with `--versions`.
const PROGRAM: &str = "{program}";

/// The builds of a program.
pub(super) struct Builds {
    builds: Vec<Build>,
    /// Whether the builds are no programs of Duality.
    are_foreign: bool,
    /// Whether the programs are there, and can be asked.
    are_built: bool,
    /// The directory of the results, if `--versions` has built the programs in it.
    out: Option<PathBuf>,
}

/// The name and the command of `--binary NAME=COMMAND`. `None` without a name.
pub(super) fn named(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| is_name(name))
}

impl Builds {
    /// The builds that `--binary` and `--versions` name. `None` if they name none.
    pub(super) fn of_flags(
        commands: &[String],
        flags: &BuildFlags,
        out: &Path,
        is_check: bool,
    ) -> Result<Option<Self>, Failure> {
        match (flags.versions.as_slice(), commands) {
            ([], []) => Ok(None),
            ([], [one]) if named(one).is_none() => Ok(None),
            ([], commands) => Self::of_commands(commands).map(Some),
            (_, []) => Self::of_versions(flags, None, out, is_check).map(Some),
            (_, [template]) => {
                Self::of_versions(flags, Some(template.as_str()), out, is_check).map(Some)
            }
            (_, _) => Err(Failure::misuse(
                "--binary: with --versions, give at most one, such as \"{program} {port}\"",
            )),
        }
    }

    /// The builds that `--binary` names, each with its command.
    fn of_commands(commands: &[String]) -> Result<Self, Failure> {
        let build = |text: &String| {
            let (name, command) = named(text).ok_or_else(|| {
                Failure::misuse(format!(
                    "--binary: `{text}` has no name: of several, name each, as in \
                     --binary old=./a --binary new=./b"
                ))
            })?;
            let command =
                parse_command(command).blame_at(Party::User, format_args!("--binary {name}"))?;
            Ok(Build { name: name.to_owned(), command, commit: None })
        };
        Self::new(commands.iter().map(build).collect::<Result<_, Failure>>()?, true)
    }

    /// Builds `versions` into the folder `out`, or only names what would be built.
    fn of_versions(
        flags: &BuildFlags,
        template: Option<&str>,
        out: &Path,
        is_check: bool,
    ) -> Result<Self, Failure> {
        let BuildFlags { versions, cargo, .. } = flags;
        let words = template.map(parse_command).transpose().blame_at(Party::User, "--binary")?;
        let words = words.unwrap_or_else(|| vec![PROGRAM.to_owned()]);
        if !words.iter().any(|word| word.contains(PROGRAM)) {
            return Err(Failure::misuse(
                "--binary: with --versions, {program} is what was built: put it into the command",
            ));
        }
        distinct(versions.iter().map(|version| version.name.as_str()))?;
        let cargo =
            cargo.as_deref().map(parse_command).transpose().blame_at(Party::User, "--cargo")?;
        let programs = versions::build(versions, &cargo.unwrap_or_default(), out, is_check)?;
        let build = |(version, made): (&Version, versions::Made)| Build {
            name: version.name.clone(),
            command: words.iter().map(|word| word.replace(PROGRAM, &made.program)).collect(),
            commit: Some(made.commit),
        };
        let builds = Self::new(versions.iter().zip(programs).map(build).collect(), !is_check)?;
        Ok(Self { out: Some(out.to_owned()), ..builds })
    }

    fn new(builds: Vec<Build>, are_built: bool) -> Result<Self, Failure> {
        distinct(builds.iter().map(|build| build.name.as_str()))?;
        let is_foreign = |build: &&Build| build.command.iter().any(|word| word.contains("{port}"));
        let are_foreign = builds.iter().any(|build| is_foreign(&build));
        let mut missing = builds.iter().filter(|build| are_foreign && !is_foreign(build));
        if let Some(Build { name, .. }) = missing.next() {
            return Err(Failure::misuse(format!(
                "--binary {name}: the server is not told where to listen: put {{port}} into the \
                 command, as for the others"
            )));
        }
        for Build { name, command, .. } in builds.iter().filter(|_| are_built) {
            if run::find(command[0].as_ref()).is_none_or(|path| !path.exists()) {
                let program = &command[0];
                return Err(Failure::misuse(format!(
                    "--binary {name}: {program}: no such program: build it, or correct its path"
                )));
            }
        }
        Ok(Self { builds, are_foreign, are_built, out: None })
    }

    /// Whether the builds are no programs of Duality.
    pub(super) fn are_foreign(&self) -> bool {
        self.are_foreign
    }

    /// Refuses programs that do not have the service, before anything is measured.
    ///
    /// A service of the user's own is measured by its program, which knows what to ask it. So if
    /// only the builds have the service, the last one goes on in place of this program.
    pub(super) fn check(&self, catalogue: &Catalogue, asked: Option<&str>) -> Result<(), Failure> {
        if self.are_foreign || !self.are_built {
            return Ok(());
        }
        let service = asked.unwrap_or(catalogue.default_name());
        let mut own = None;
        for build in &self.builds {
            let services = services(build)?;
            if services.iter().any(|known| known == service) {
                continue;
            }
            match (services.as_slice(), asked) {
                ([only], None) if catalogue.own().is_none() => own = Some(only.clone()),
                _ => {
                    return Err(Failure::misuse(format!(
                        "--binary {}: it has no service {service}: choose from {}",
                        build.name,
                        services.join(", ")
                    )));
                }
            }
        }
        match (own, self.builds.last()) {
            (Some(service), Some(Build { name, command, .. })) => {
                log::tell(format_args!("{name} measures its own service {service}"));
                Err(versions::go_on(&self.builds, command, self.out.as_deref()))
            }
            _ => Ok(()),
        }
    }

    /// Has `settings` compare the builds. Returns those that are no programs of Duality.
    pub(super) fn put_into(
        &self,
        settings: &mut Settings,
        url: Option<&str>,
        tuning: Tuning,
    ) -> Result<Vec<Peer>, Failure> {
        settings.repeats.get_or_insert(binary::SESSIONS);
        // A second process of the first build would be one more, and each session has its own.
        settings.control = Some(false);
        if !self.are_foreign {
            settings.architectures = Some(self.choices(settings));
            return Ok(Vec::new());
        }
        if let Some(option) = tuning.given().first() {
            let name = option.split('=').next().unwrap_or(option);
            return Err(Failure::misuse(format!(
                "{name}: this flag is for programs of Duality: put the server's own option into \
                 its command"
            )));
        }
        settings.service = Some("http".to_owned());
        settings.architectures = Some(Vec::new());
        if let Some((_, path)) = url.map(binary::page_of).transpose()? {
            settings.path = Some(path);
        }
        let here = std::env::current_dir().blame_at(Party::Machine, "the working directory")?;
        let peer = |Build { name, command, .. }: &Build| {
            let way = Way { name, command: command.clone(), environment: [].into() };
            binary::peer(way, &here)
        };
        settings.peers = Some(self.builds.iter().map(|build| build.name.clone()).collect());
        Ok(self.builds.iter().map(peer).collect())
    }

    /// Each build under each architecture that is asked for.
    fn choices(&self, settings: &Settings) -> Vec<Choice> {
        let asked = settings.architectures.clone();
        let asked = asked.unwrap_or_else(|| vec![Choice::plain(USUAL)]);
        let under = |choice: &Choice| {
            let names = self.builds.iter().map(|build| match asked.len() {
                1 => build.name.clone(),
                _ => format!("{} {}", choice.name, build.name),
            });
            let variant = |name| Choice { name, ..choice.clone() };
            names.map(variant).collect::<Vec<Choice>>()
        };
        asked.iter().flat_map(under).collect()
    }

    /// The experiment with the question about builds.
    pub(super) fn asking(&self, mut experiment: Experiment, url: Option<&str>) -> Experiment {
        let design = &mut experiment.design;
        if self.are_foreign && design.load_command.is_some() {
            let program = Path::new(&self.builds[0].command[0]).file_name().unwrap_or_default();
            design.service = program.to_string_lossy().into_owned();
        }
        if self.are_foreign {
            // Such a server brings its own certificate.
            design.tls = url.is_some_and(|url| url.starts_with("https:"));
        }
        let named = self.builds.iter().cycle();
        let built = |(subject, build): (&str, &Build)| Built {
            subject: subject.to_owned(),
            build: build.name.clone(),
            architecture: (!self.are_foreign).then(|| design.server_of(subject).0),
        };
        let subjects = design.subjects().zip(named).map(built).collect();
        design.builds = Some(duality_lab::record::Builds { builds: self.builds.clone(), subjects });
        experiment
    }
}

/// Refuses fewer than two builds, and two of one name.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let names: Vec<&str> = names.collect();
    if names.len() < 2 {
        return Err(Failure::misuse(format!(
            "{}: one build is nothing to compare: name another one, as in --binary old=./a \
             --binary new=./b",
            names.first().unwrap_or(&"--binary")
        )));
    }
    let twice = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name));
    match twice {
        None => Ok(()),
        Some((_, name)) => {
            Err(Failure::misuse(format!("{name}: two builds have this name: choose another")))
        }
    }
}

/// The services that a program of Duality lists.
fn services(build: &Build) -> Result<Vec<String>, Failure> {
    let Build { name, command, .. } = build;
    let whole = command.join(" ");
    let mut errors = tempfile::tempfile().blame_at(Party::Machine, "a file for errors")?;
    let listed =
        list(command, &errors).blame_at(Party::User, format_args!("--binary {name}: {whole}"))?;
    let names = || {
        let list: serde_json::Value = serde_json::from_str(&listed).ok()?;
        let names = list["services"].as_array()?.iter();
        names.map(|one| one["name"].as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    };
    names().ok_or_else(|| {
        let mut said = Vec::new();
        // What it said is a help, and may be missing.
        let _ = errors.rewind().and_then(|()| errors.take(MOST).read_to_end(&mut said));
        let said = last_words(&String::from_utf8_lossy(&said));
        let said = said.map_or(String::new(), |line| format!(" (it says: {line})"));
        Failure::misuse(format!(
            "--binary {name}: {whole} is no program of Duality{said}: tell the server where to \
             listen, by {{port}} in its command"
        ))
    })
}

/// The most bytes of errors that are looked at.
const MOST: u64 = 64 << 10;

/// What a program prints for `services --json`, with its errors in a file. A program that is a
/// server does not end.
fn list(command: &[String], errors: &File) -> std::io::Result<String> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .args(["services", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.try_clone()?)
        .spawn()?;
    let deadline = Instant::now() + PATIENCE;
    // The list fits into a pipe.
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut text)?;
    Ok(text)
}

/// The verdict for CI: fails if a build is worse for sure by more than a share, or has a new fault.
///
/// # Errors
///
/// Misuse if such a regression could not have been told.
pub(super) fn judge(answer: &Answer<'_>, share: f64) -> Result<(), Failure> {
    let said = &answer.recommendation;
    let percent = 100.0 * share;
    if said.builds.iter().any(|one| one.is_regression(share)) {
        let told = said.headline.trim_end_matches('.');
        return Err(Failure::new(
            Party::Subject,
            format!("a build is worse by more than {percent} %: {told}"),
        ));
    }
    let is_blind = |one: &&Change| !one.would_show(share) && one.told() != Told::Better;
    match said.builds.iter().find(is_blind) {
        None => Ok(()),
        Some(one) => Err(Failure::misuse(format!(
            "--fail-on-regression: a change of {percent} % could not have been told of {} at {}: \
             measure longer (--budget), or ask for a larger change",
            one.subject,
            answer.summary.at(one.concurrency)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(commands: &[&str]) -> Result<Builds, String> {
        let commands: Vec<String> = commands.iter().map(|text| (*text).to_owned()).collect();
        Builds::of_commands(&commands).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_build_has_a_name_before_its_command() {
        assert_eq!(named("old=./a --x=1"), Some(("old", "./a --x=1")));
        assert_eq!(named("./a --x=1"), None);
        assert_eq!(named("./a"), None);
        assert_eq!(named("=./a"), None);
    }

    #[test]
    fn builds_that_cannot_be_compared_are_refused() {
        for (commands, told) in [
            (&["old=/bin/sh"][..], "one build is nothing to compare"),
            (&["old=/bin/sh", "/bin/sh"], "has no name"),
            (&["old=/bin/sh", "old=/bin/cat"], "two builds have this name"),
            (&["old=/bin/sh {port}", "new=/bin/sh"], "put {port} into the command"),
            (&["old=/bin/sh", "new=/no/such/program"], "no such program"),
            (&["old=/bin/sh", "new='"], "a quote is not closed"),
        ] {
            let refused = given(commands).err().expect("a misuse");
            assert!(refused.contains(told) && !refused.contains('\n'), "{refused}");
        }
    }

    #[test]
    fn a_program_of_duality_is_compared_under_each_architecture() {
        let builds = given(&["old=/bin/sh", "new=/bin/cat"]).unwrap();
        let of = |asked: Option<&[&str]>| {
            let architectures =
                asked.map(|all| all.iter().map(|&one| Choice::plain(one)).collect());
            let mut settings = Settings { architectures, ..Settings::default() };
            builds.put_into(&mut settings, None, Tuning::default()).unwrap();
            let choices = settings.architectures.unwrap().into_iter();
            choices.map(|choice| (choice.name, choice.architecture)).collect::<Vec<_>>()
        };
        let pair = |name: &str, architecture: &str| (name.to_owned(), architecture.to_owned());
        assert_eq!(of(None), [pair("old", "epoll"), pair("new", "epoll")]);
        let several = of(Some(&["epoll", "threads"]));
        assert_eq!(several[1..3], [pair("epoll new", "epoll"), pair("threads old", "threads")]);
    }

    #[test]
    fn a_server_of_another_kind_is_a_peer() {
        let builds = given(&["old=/bin/sh -c '{port}'", "new=/bin/cat {port}"]).unwrap();
        let mut settings = Settings::default();
        let url = Some("http://127.0.0.1:{port}/x");
        let peers = builds.put_into(&mut settings, url, Tuning::default()).unwrap();
        assert_eq!(peers[0].command, ["/bin/sh", "-c", "{port}"]);
        assert_eq!(settings.peers.unwrap(), ["old", "new"]);
        assert_eq!(settings.path.as_deref(), Some("/x"));
    }

    #[test]
    fn a_program_that_lists_no_services_is_no_program_of_duality() {
        let build = |command: &[&str]| Build {
            name: "old".to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            commit: None,
        };
        let told = services(&build(&["/bin/echo"])).expect_err("a misuse").to_string();
        assert!(told.contains("is no program of Duality") && told.contains("{port}"), "{told}");
        let angry = "echo first >&2; printf 'no such \\033[1mflag\\n' >&2; exit 3";
        let told = services(&build(&["/bin/sh", "-c", angry])).expect_err("a misuse").to_string();
        assert!(told.contains("(it says: no such  [1mflag)"), "{told}");
        let told = services(&build(&["/no/such"])).expect_err("a misuse").to_string();
        assert!(told.contains("/no/such") && told.contains("No such file"), "{told}");
        let list = r#"echo '{"services":[{"name":"shout"}]}'"#;
        let names = services(&build(&["/bin/sh", "-c", list])).unwrap();
        assert_eq!(names, ["shout"]);
    }
}
