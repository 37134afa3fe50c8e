//! `duality compare --binary`: a server given by its command line, run natively, on user-level
//! threads, and as `duality cc` compiled it.
//!
//! The subjects are [`Way`]s to run one server. A further way is one more entry of
//! [`Binary::ways`].

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use duality_lab::ask::settings::{Settings, parse_command};
use duality_lab::measure::experiment::Experiment;
use duality_lab::record::{Peer, Stop, Ways};
use duality_runtime::log;

use super::{Blame, Failure, Party, Tuning};
use crate::run::{self, Program, Verdict};

/// The time limit for the server to begin to listen.
const START_SECONDS: f64 = 20.0;

/// Few subjects leave time for more sessions of fresh servers, which a verdict needs.
const SESSIONS: usize = 8;

/// The flags of `duality compare` that `duality run` has too.
const OF_RUN: [&str; 2] = ["--cores", "--stack-size"];

/// The subject that is the unchanged program.
const NATIVE: &str = "native";

/// The other subjects, each with its question.
const RUN: (&str, &str) = ("duality-run", "Should you run it by `duality run`?");
const COMPILED: (&str, &str) = ("duality-cc", "Should you convert it by `duality cc`?");

/// The variable with the number of kernel threads of a compiled program. The runtime of `duality
/// cc` reads it.
const CORES: &str = "DUALITY_CORES";

/// The variable with the length of a turn, in microseconds. The runtime of `duality cc` reads it.
const TICK: &str = "DUALITY_TICK";

/// A mark that the runtime of `duality cc` leaves in a program, even without symbols.
const MARK: &[u8] = b"duality_engine_entry";

/// The description of a server by the flags of the command line.
pub(super) struct BinaryFlags<'a> {
    /// The command that starts the server.
    pub(super) command: &'a str,
    /// The command that starts the same server, compiled by `duality cc`.
    pub(super) compiled: Option<&'a str>,
    /// The request of the server's clients.
    pub(super) url: Option<&'a str>,
    pub(super) tuning: Tuning,
    pub(super) tick: Option<Duration>,
}

/// A server given by its command line.
pub(super) struct Binary {
    words: Vec<String>,
    /// The command of the same server as `duality cc` compiled it.
    compiled: Option<Vec<String>>,
    /// The page that clients ask for, by TLS or without.
    page: Option<(bool, String)>,
    /// Arguments of `duality run` before the program.
    options: Vec<String>,
    /// The environment of the compiled program.
    environment: BTreeMap<String, String>,
}

/// A way to run the server.
struct Way {
    /// The name of the subject in results.
    name: &'static str,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl Binary {
    /// The server that the command line describes.
    ///
    /// # Errors
    ///
    /// Fails if a command or a flag makes no sense, or the program cannot run on user-level
    /// threads.
    pub(super) fn new(flags: &BinaryFlags<'_>) -> Result<Self, Failure> {
        let words = command("--binary", flags.command)?;
        check(&words[0])?;
        let compiled = flags.compiled.map(|text| command("--compiled", text)).transpose()?;
        if let Some(compiled) = &compiled {
            check_compiled(compiled, &words)?;
        }
        let BinaryFlags { url, tuning, tick, .. } = *flags;
        Ok(Self {
            words,
            compiled,
            page: url.map(page_of).transpose()?,
            options: options(tuning, tick)?,
            environment: environment(tuning, tick),
        })
    }

    /// Has `settings` compare the ways to run the server, and returns them as peers.
    ///
    /// # Errors
    ///
    /// Fails if this program or the working directory cannot be found.
    pub(super) fn put_into(&self, settings: &mut Settings) -> Result<Vec<Peer>, Failure> {
        settings.service = Some("http".to_owned());
        settings.architectures = Some(Vec::new());
        settings.repeats.get_or_insert(SESSIONS);
        if let Some((_, path)) = &self.page {
            settings.path = Some(path.clone());
        }
        let here = env::current_dir().blame_at(Party::Machine, "the working directory")?;
        let cpus = settings.server_cpus.as_ref().map_or(1, Vec::len);
        let peers: Vec<Peer> = self.ways(cpus)?.into_iter().map(|way| peer(way, &here)).collect();
        settings.peers = Some(peers.iter().map(|peer| peer.name.clone()).collect());
        Ok(peers)
    }

    /// The ways to run the server on `cpus` processors, in the order in which they are shown.
    fn ways(&self, cpus: usize) -> Result<Vec<Way>, Failure> {
        let this = env::current_exe().blame_at(Party::Machine, "this program's own file")?;
        let run = [this.to_string_lossy().into_owned(), "run".to_owned()];
        let run = [&run[..], &self.options, &["--".to_owned()], &self.words].concat();
        let nothing = BTreeMap::new;
        let native = Way { name: NATIVE, command: self.words.clone(), environment: nothing() };
        let run = Way { name: RUN.0, command: run, environment: nothing() };
        let compiled = self.compiled.as_ref().map(|command| Way {
            name: COMPILED.0,
            command: command.clone(),
            environment: self.environment_on(cpus),
        });
        Ok([native, run].into_iter().chain(compiled).collect())
    }

    /// The environment of the compiled program, which has as many kernel threads as `duality run`,
    /// unless the caller's environment sets a number.
    fn environment_on(&self, cpus: usize) -> BTreeMap<String, String> {
        let mut environment = self.environment.clone();
        if env::var_os(CORES).is_none() {
            environment.entry(CORES.to_owned()).or_insert_with(|| cpus.to_string());
        }
        environment
    }

    /// A plan with the question about the ways to run the server. If a load command speaks the
    /// program's own protocol, the service has the program's name.
    pub(super) fn asking(&self, mut experiment: Experiment) -> Experiment {
        if experiment.design.load_command.is_some() {
            let name = Path::new(&self.words[0]).file_name().unwrap_or_default();
            experiment.design.service = name.to_string_lossy().into_owned();
        }
        // Such a server brings its own certificate.
        experiment.design.tls = self.page.as_ref().is_some_and(|(tls, _)| *tls);
        let asked = [Some(RUN), self.compiled.as_ref().map(|_| COMPILED)].into_iter().flatten();
        let questions = asked.map(|(name, question)| (name.to_owned(), question.to_owned()));
        let questions = questions.collect();
        experiment.design.ways = Some(Ways { native: NATIVE.to_owned(), questions });
        experiment
    }
}

/// The words of a command that a flag gives, which must tell the server where to listen.
fn command(flag: &str, text: &str) -> Result<Vec<String>, Failure> {
    let words = parse_command(text).blame_at(Party::User, format_args!("{flag}"))?;
    if !text.contains("{port}") {
        return Err(Failure::misuse(format!(
            "{flag}: the server is not told where to listen: put {{port}} into the command"
        )));
    }
    Ok(words)
}

/// The arguments of `duality run` before the program.
fn options(tuning: Tuning, tick: Option<Duration>) -> Result<Vec<String>, Failure> {
    let mut options = tuning.given();
    let name = |option: &String| option.split('=').next().unwrap_or_default().to_owned();
    if let Some(other) = options.iter().map(name).find(|name| !OF_RUN.contains(&name.as_str())) {
        return Err(Failure::misuse(format!(
            "{other}: this flag is for Duality's own servers: leave it out, or put the server's \
             own option into --binary"
        )));
    }
    options.extend(tick.map(|tick| format!("--tick={}us", tick.as_micros())));
    Ok(options)
}

/// The tuning of a compiled program, as the environment of its runtime. The threads of a compiled
/// program have no stacks.
fn environment(tuning: Tuning, tick: Option<Duration>) -> BTreeMap<String, String> {
    let given = tuning.given();
    let cores = given.iter().find_map(|option| option.strip_prefix("--cores="));
    let cores = cores.map(|cores| (CORES.to_owned(), cores.to_owned()));
    let tick = tick.map(|tick| (TICK.to_owned(), tick.as_micros().to_string()));
    cores.into_iter().chain(tick).collect()
}

/// Refuses a program that `duality run` would refuse, before anything is measured.
fn check(name: &str) -> Result<(), Failure> {
    if let Some(reason) = run::unsupported() {
        return Err(Failure::misuse(reason));
    }
    let path = run::find(name.as_ref()).filter(|path| path.exists()).ok_or_else(|| {
        let remedy = "install it, or give its path";
        Failure::misuse(format!("--binary: {name}: no such program; {remedy}"))
    })?;
    let program = Program::open(path)?;
    match program.verdict()? {
        Verdict::Works => Ok(()),
        Verdict::Refused(reason) => Err(Failure::misuse(format!("--binary: {reason}"))),
    }
}

/// Refuses a compiled program that is missing or is the native one. Warns if it does not look like
/// a program of `duality cc`.
fn check_compiled(compiled: &[String], native: &[String]) -> Result<(), Failure> {
    let name = &compiled[0];
    let refused = |problem: String| Err(Failure::misuse(format!("--compiled: {problem}")));
    let Some(path) = run::find(name.as_ref()).filter(|path| path.exists()) else {
        return refused(format!(
            "{name}: no such program: build it by CC=\"duality cc\" (docs/cc.md)"
        ));
    };
    if compiled == native {
        return refused(
            "it is the command of --binary: name the program that `duality cc` made".to_owned(),
        );
    }
    // A file that cannot be read causes an error when it is started. A program that starts another
    // one may have no mark.
    let program = fs::read(&path).unwrap_or_default();
    if program.starts_with(b"\x7fELF") && !program.windows(MARK.len()).any(|part| part == MARK) {
        log::tell(format_args!(
            "--compiled: {name} lacks the runtime of `duality cc`, and is measured natively, \
             unless it starts a program that has the runtime"
        ));
    }
    Ok(())
}

/// Whether the server speaks TLS, and the path, of `http://127.0.0.1:{port}/path`.
fn page_of(url: &str) -> Result<(bool, String), Failure> {
    let secure = url.strip_prefix("https:").map(|rest| (true, rest));
    let plain = url.strip_prefix("http:").map(|rest| (false, rest));
    let place = secure.or(plain);
    let page = place.and_then(|(tls, rest)| Some((tls, rest.strip_prefix("//127.0.0.1:{port}")?)));
    let (tls, path) = match page {
        Some((tls, "")) => (tls, "/"),
        Some((tls, path)) if path.starts_with('/') => (tls, path),
        _ => {
            return Err(Failure::misuse(format!(
                "--url: {url}: write http://127.0.0.1:{{port}}/ and the path"
            )));
        }
    };
    if tls && !cfg!(feature = "rustls") {
        return Err(Failure::misuse(format!(
            "--url: {url}: this program was built without TLS: build it with `--features rustls`"
        )));
    }
    Ok((tls, path.to_owned()))
}

/// A way as a peer that runs in the folder `here`, where relative paths of the command line lie.
fn peer(way: Way, here: &Path) -> Peer {
    Peer {
        name: way.name.to_owned(),
        command: way.command,
        build: Vec::new(),
        configuration: String::new(),
        environment: way.environment,
        ready: None,
        ask: String::new(),
        start_seconds: START_SECONDS,
        stop: Stop::Term,
        folder: Some(here.to_owned()),
        remedy: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use duality_lab::Mistake;

    use super::*;

    fn flags(command: &str) -> BinaryFlags<'_> {
        BinaryFlags { command, compiled: None, url: None, tuning: Tuning::default(), tick: None }
    }

    fn binary(command: &str) -> Result<Binary, Failure> {
        Binary::new(&flags(command))
    }

    fn tuning(given: &[&str]) -> Result<Tuning, Mistake> {
        Tuning::parse(&given.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_url_gives_its_path() {
        let page = |url| page_of(url).ok();
        assert_eq!(page("http://127.0.0.1:{port}/a?b"), Some((false, "/a?b".to_owned())));
        assert_eq!(page("http://127.0.0.1:{port}"), Some((false, "/".to_owned())));
        let secure = cfg!(feature = "rustls").then(|| (true, "/".to_owned()));
        assert_eq!(page("https://127.0.0.1:{port}/"), secure);
        assert_eq!(page("http://example.org/"), None);
        assert_eq!(page("ftp://127.0.0.1:{port}/"), None);
    }

    #[test]
    fn a_command_names_the_port() {
        assert!(binary("/bin/sh -c true").is_err());
        assert!(binary("/bin/sh 'open {port}").is_err());
        let mut settings = Settings::default();
        let binary = binary("/bin/sh -c 'serve {port}'").expect("right");
        let peers = binary.put_into(&mut settings).expect("two");
        assert_eq!(peers[0].command, ["/bin/sh", "-c", "serve {port}"]);
        assert_eq!(peers[1].command[1..], ["run", "--", "/bin/sh", "-c", "serve {port}"]);
        assert_eq!(settings.peers.expect("two"), ["native", "duality-run"]);
    }

    #[test]
    fn a_compiled_program_is_the_third_way() {
        let native = "/bin/sh -c 'serve {port}'";
        let with =
            |compiled| Binary::new(&BinaryFlags { compiled: Some(compiled), ..flags(native) });
        for (compiled, problem) in [
            ("/bin/sh", "put {port}"),
            ("/no/such/server-cc {port}", "no such program"),
            (native, "is the command of --binary"),
        ] {
            let refused = with(compiled).err().expect("a misuse").to_string();
            assert!(refused.starts_with("--compiled: ") && refused.contains(problem), "{refused}");
        }
        let mut settings = Settings { server_cpus: Some(vec![0, 1, 2]), ..Settings::default() };
        let compiled = "/bin/sh -c 'serve-cc {port}'";
        let peers = with(compiled).expect("right").put_into(&mut settings).expect("three");
        assert_eq!(settings.peers.expect("three"), ["native", "duality-run", "duality-cc"]);
        assert_eq!(peers[2].command, ["/bin/sh", "-c", "serve-cc {port}"]);
        assert_eq!(peers[2].environment[CORES], "3");
        let tuned = Binary::new(&BinaryFlags {
            compiled: Some(compiled),
            tuning: tuning(&["--cores=2", "--stack-size=64K"]).expect("right"),
            tick: Some(Duration::from_millis(2)),
            ..flags(native)
        });
        let peers = tuned.expect("right").put_into(&mut Settings::default()).expect("three");
        assert_eq!(peers[2].environment[CORES], "2");
        assert_eq!(peers[2].environment[TICK], "2000");
        assert!(peers[0].environment.is_empty() && peers[1].environment.is_empty());
    }

    #[test]
    fn options_of_run_are_passed_on_and_others_refused() {
        let right = tuning(&["--cores=2", "--stack-size=64K"]).expect("right");
        let tick = Some(Duration::from_millis(2));
        let given = options(right, tick).expect("right");
        assert_eq!(given, ["--cores=2", "--stack-size=65536", "--tick=2000us"]);
        assert_eq!(options(Tuning::default(), None).expect("right"), [""; 0]);
        let wrong = options(tuning(&["--workers=3"]).expect("right"), None).unwrap_err();
        assert!(wrong.to_string().starts_with("--workers: "), "{wrong}");
    }
}
