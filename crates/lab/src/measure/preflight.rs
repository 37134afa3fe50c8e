//! Preflight: each subject starts and is asked once, before anything is measured. So a program that
//! dies ends the run in a second, and not after all of its cells.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duality_load::{Crowd, Options, Pattern, Stop};

use super::experiment::Experiment;
use super::no_server::NoServer;
use super::server::Server;
use super::stage::Stage;
use crate::failure::{Failure, Party};
use crate::record::CellKey;

/// How long the one reply may take. A slower server is measured all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts each subject and asks it once. Returns what a reader should know of subjects that answer
/// otherwise than they should. They are measured, since the answer says why they are no choice.
///
/// # Errors
///
/// The subject that does not start, or that dies when it is asked, with its last line.
pub fn preflight(
    experiment: &Experiment,
    interrupted: &AtomicBool,
    stage: &Stage,
) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for key in subjects(experiment) {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        match try_once(experiment, &key, interrupted, stage) {
            Ok(Some(problem)) => warnings.push(format!("{}: {problem}", key.subject)),
            // A subject that is not available here has cells that say so.
            Ok(None) | Err(NoServer::Unavailable(_)) => {}
            Err(NoServer::Failed(failure)) => {
                let remedy = "nothing was measured; mend it or leave it out";
                return Err(failure.at(&key.subject).remedy(remedy));
            }
        }
    }
    Ok(warnings)
}

/// A cell of each subject, those first that are not ours. The control is its original.
fn subjects(experiment: &Experiment) -> Vec<CellKey> {
    let design = &experiment.design;
    let is_ours = |name: &str| design.architectures.iter().any(|own| own == name);
    let mut names: Vec<&str> = design.subjects().collect();
    names.sort_by_key(|name| is_ours(name));
    let key = |name: &str| {
        let keys = design.concurrency.iter().map(|&concurrency| CellKey {
            repeat: 0,
            subject: name.to_owned(),
            concurrency,
        });
        keys.filter(|key| experiment.why_unavailable(key).is_none())
            .min_by_key(|key| key.concurrency)
    };
    names.into_iter().filter_map(key).collect()
}

/// Starts a server and asks it. Returns its problem, if it lives and has one.
fn try_once(
    experiment: &Experiment,
    key: &CellKey,
    interrupted: &AtomicBool,
    stage: &Stage,
) -> Result<Option<String>, NoServer> {
    let store = stage.store(experiment)?;
    let mut server = stage.server(experiment, key, store.as_ref())?;
    let design = &experiment.design;
    // Other hosts and other commands make their loads themselves. A recording is no one request.
    let can_ask =
        design.topology.is_none() && design.load_command.is_none() && experiment.replay.is_none();
    if !can_ask {
        return Ok(None);
    }
    let one = CellKey { concurrency: 1, ..key.clone() };
    let load = experiment.load(server.address(), &one)?;
    let load = Options {
        pattern: Pattern::Closed,
        connections: 1,
        crowd: Crowd::default(),
        stop: Stop::Requests(1),
        warm_up: Duration::ZERO,
        reply_timeout: PATIENCE,
        ..load
    };
    let problem = match duality_load::run(&load, &mut (), interrupted) {
        Ok(report) if report.requests > 0 => return Ok(None),
        Ok(report) => report.errors.keys().next().map_or("no reply".to_owned(), Clone::clone),
        Err(error) => error.to_string(),
    };
    match died(&mut *server) {
        Some(words) => Err(NoServer::Failed(Failure::new(Party::Subject, words))),
        None => Ok(Some(format!("asked once, it gave no right reply: {problem}"))),
    }
}

/// What a server said last, if it has died.
fn died(server: &mut dyn Server) -> Option<String> {
    let error = server.counters(false).err()?;
    Some(server.last_words(Some(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::experiment::tests::experiment;
    use crate::record::{Peer, Stop as Signal};

    /// A server that answers something that is no HTTP, in a language that every Debian has.
    const SERVER: &str = "use IO::Socket::INET;
        my $s = IO::Socket::INET->new(LocalAddr => $ARGV[0], Listen => 5, ReuseAddr => 1) or die 'no';
        $| = 1; print \"up and running\\n\"; while (my $c = $s->accept) { print $c \"hello\"; close $c; }";

    fn peer(name: &str, command: &[&str], start_seconds: f64) -> Peer {
        Peer {
            name: name.into(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            build: vec![],
            configuration: String::new(),
            environment: [].into(),
            ready: Some("up and running".into()),
            ask: String::new(),
            start_seconds,
            stop: Signal::Term,
            folder: None,
            remedy: String::new(),
        }
    }

    fn tried(peers: Vec<Peer>) -> Result<Vec<String>, Failure> {
        let mut experiment = experiment();
        experiment.design.architectures.clear();
        experiment.design.peers = peers;
        let stage = Stage::set(&experiment).unwrap();
        preflight(&experiment, &AtomicBool::new(false), &stage)
    }

    #[test]
    fn a_program_that_dies_is_named_with_its_last_line() {
        let dies =
            peer("mine", &["sh", "-c", "echo first >&2; echo no such table >&2; exit 3"], 20.0);
        let message = tried(vec![dies]).unwrap_err().to_string();
        assert!(message.starts_with("mine: ") && message.contains("no such table"), "{message}");
        assert!(message.contains("nothing was measured") && !message.contains('\n'), "{message}");
    }

    #[test]
    fn one_that_never_listens_is_named_after_its_time() {
        let message = tried(vec![peer("mine", &["sleep", "60"], 0.05)]).unwrap_err().to_string();
        assert!(message.contains("it does not listen after 0.05 s"), "{message}");
    }

    #[test]
    fn one_that_answers_wrongly_is_told_of_and_measured() {
        let wrong = peer("mine", &["perl", "-e", SERVER, "{host}:{port}"], 20.0);
        let warnings = tried(vec![wrong]).unwrap();
        assert!(warnings.len() == 1 && warnings[0].starts_with("mine: asked once"), "{warnings:?}");
    }

    #[test]
    fn subjects_that_are_not_ours_come_first_and_the_control_not_at_all() {
        let mut experiment = experiment();
        experiment.design.peers = vec![peer("mine", &["true"], 1.0)];
        experiment.add_control();
        experiment.unavailable.insert(("threads".into(), 1), "no".into());
        let keys = subjects(&experiment);
        let names: Vec<(&str, usize)> =
            keys.iter().map(|key| (key.subject.as_str(), key.concurrency)).collect();
        assert_eq!(names, [("mine", 1), ("threads", 10), ("epoll", 1)]);
    }
}
