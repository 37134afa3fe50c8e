//! The link to an agent: a launcher's process, and lines over its standard streams.
//!
//! One thread reads the agent's answers, and hands each answer to its caller. Another thread tells
//! the agent every 2 s that this side is alive. This thread gives the host up after 10 s of
//! silence.
//!
//! The link first sends one line, a script for the shell that the launcher starts. The script looks
//! for this program in the user's cache on the host, by its hash. If the program is missing, the
//! script asks for it, and this side sends it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::launcher::Launcher;
use super::protocol::{Answer, BEAT, LONGEST_LINE, Order, SILENCE, UNASKED, VERSION};
use crate::failure::{Blame, Failure, Party};
use crate::format::sha256;
use crate::measure::peers::find;
use crate::measure::spawn::{last_words, log_file, read_log};
use crate::record::{HERE, Machine};

/// The version of this program.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// The time that a host has until its agent says hello. This time includes the sending of the
/// program.
const REACHING: Duration = Duration::from_secs(120);
/// The time that a living agent has to carry out an order.
const PATIENCE: Duration = Duration::from_secs(60);
/// The lines that the script prints to ask for the program, and before the agent begins.
const SEND: &str = "duality: send";
const READY: &str = "duality: ready";

/// A link to the agent of a host. When the link is dropped, the agent ends all processes that it
/// started.
pub(super) struct Link {
    host: String,
    launched: Child,
    shared: Arc<Shared>,
    next: AtomicU64,
    machine: Machine,
}

/// The answers of an order that has been sent.
pub(super) struct Answers {
    number: u64,
    answers: Receiver<Answer>,
    shared: Arc<Shared>,
}

/// The state that the threads of a link share.
struct Shared {
    host: String,
    /// `None` once the link is being closed.
    orders: Mutex<Option<ChildStdin>>,
    pending: Mutex<Pending>,
    heard: Mutex<Instant>,
    /// The launcher's process group, until this side waits for its end.
    group: Mutex<Option<Pid>>,
    /// The error output of the launcher.
    complaints: File,
}

#[derive(Default)]
struct Pending {
    waiting: BTreeMap<u64, Sender<Answer>>,
    lost: Option<Failure>,
}

impl Link {
    /// Reaches a host. `program` is the path of Duality's program there. Without a path, the link
    /// sends this program.
    ///
    /// # Errors
    ///
    /// The error tells in one line why the host could not be reached.
    pub(super) fn open(
        host: &str,
        launcher: &Launcher,
        program: Option<&str>,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Party::Machine, error).at(format_args!("host {host}"))
        };
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = match host {
            HERE => agent_here(&own),
            _ if find(launcher.program()).is_none() => {
                let program = launcher.program();
                let problem = format!("host {host}: {program}: no such program; install it");
                return Err(Failure::misuse(problem));
            }
            _ => launcher.command(host),
        };
        let (complaints, errors) = log_file().map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        let mut launched = command.spawn().map_err(|error| {
            let place = format!("host {host}: cannot start {}", launcher.program());
            Failure::new(Party::Machine, error).at(place)
        })?;
        let orders = launched.stdin.take().expect("it is piped");
        let answers = launched.stdout.take().expect("it is piped");
        let shared = Arc::new(Shared {
            host: host.to_owned(),
            orders: Mutex::new(Some(orders)),
            pending: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            group: Mutex::new(Some(Pid::from_child(&launched))),
            complaints,
        });
        let (hello, greeting) = mpsc::channel();
        shared.pending().waiting.insert(UNASKED, hello);
        let (noise, lines) = mpsc::channel();
        let reader = Arc::clone(&shared);
        let spawned = thread::Builder::new().name(format!("from {host}"));
        spawned.spawn(move || reader.read(answers, &noise)).map_err(failed)?;
        let mut link = Self {
            host: host.to_owned(),
            launched,
            shared,
            next: AtomicU64::new(UNASKED + 1),
            machine: Machine::default(),
        };
        if host != HERE {
            link.bring(&own, program, &lines)?;
        }
        link.machine = link.greet(&greeting)?;
        let watched = Arc::downgrade(&link.shared);
        let spawned = thread::Builder::new().name(format!("watch {host}"));
        spawned.spawn(move || watch(&watched)).map_err(failed)?;
        Ok(link)
    }

    /// Turns the shell on the host into the agent.
    fn bring(
        &self,
        own: &Path,
        program: Option<&str>,
        lines: &Receiver<String>,
    ) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new(Party::Machine, error).at(own.display());
        let Some(program) = program else {
            let bytes = fs::read(own).map_err(failed)?;
            let hash = sha256(&bytes);
            self.shared.write(script(&hash, bytes.len()).as_bytes())?;
            if self.await_line(lines, &[SEND, READY])? == SEND {
                self.shared.write(&bytes)?;
                self.await_line(lines, &[READY])?;
            }
            return Ok(());
        };
        let program = shlex::try_quote(program)
            .map_err(|_| Failure::misuse("its program's name has a zero in it"))
            .map_err(|failure| failure.at(format_args!("host {}", self.host)))?;
        self.shared.write(format!("echo '{READY}'; exec {program} agent\n").as_bytes())?;
        self.await_line(lines, &[READY]).map(|_| ())
    }

    /// Waits for one of some lines. Other lines are a greeting of the host.
    fn await_line(
        &self,
        lines: &Receiver<String>,
        expected: &[&'static str],
    ) -> Result<&'static str, Failure> {
        let until = Instant::now() + REACHING;
        loop {
            let line = lines.recv_timeout(until.saturating_duration_since(Instant::now()));
            match line {
                Ok(line) => {
                    if let Some(found) = expected.iter().find(|known| line.trim() == **known) {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.late()),
                Err(RecvTimeoutError::Disconnected) => return Err(self.reason()),
            }
        }
    }

    /// Reads the agent's first line.
    fn greet(&self, greeting: &Receiver<Answer>) -> Result<Machine, Failure> {
        let host = &self.host;
        match greeting.recv_timeout(REACHING) {
            Ok(Answer::Hello { version, duality, machine }) => {
                admit(host, version, &duality).map(|()| *machine)
            }
            Ok(other) => Err(self.odd(&other)),
            Err(RecvTimeoutError::Timeout) => Err(self.late()),
            Err(RecvTimeoutError::Disconnected) => Err(self.reason()),
        }
    }

    fn late(&self) -> Failure {
        let seconds = REACHING.as_secs();
        Failure::new(Party::Machine, format!("host {}: no agent after {seconds} s", self.host))
    }

    /// The reason why the agent is gone.
    fn reason(&self) -> Failure {
        self.lost().unwrap_or_else(|| is_lost(&self.host))
    }

    /// The reason why the host is lost, if it is lost.
    pub(super) fn lost(&self) -> Option<Failure> {
        self.shared.pending().lost.clone()
    }

    /// The name of the host.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The description of the host.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The error for an answer that does not fit its order.
    pub(super) fn odd(&self, answer: &Answer) -> Failure {
        let failure = match answer {
            Answer::Failed(failure) => failure.clone(),
            other => Failure::new(Party::Machine, format!("it answered something else: {other:?}")),
        };
        failure.at(format_args!("host {}", self.host))
    }

    /// Sends an order. The returned object receives the answers, until the host is lost.
    pub(super) fn order(&self, order: &Order) -> Result<Answers, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answers) = mpsc::channel();
        {
            let mut pending = self.shared.pending();
            if let Some(lost) = &pending.lost {
                return Err(lost.clone());
            }
            pending.waiting.insert(number, answered);
        }
        let answers = Answers { number, answers, shared: Arc::clone(&self.shared) };
        self.shared.say(number, order)?;
        Ok(answers)
    }

    /// Sends an order without waiting for an answer.
    pub(super) fn tell(&self, order: &Order) -> Result<(), Failure> {
        self.shared.say(UNASKED, order)
    }

    /// Sends an order, and waits for its only answer.
    pub(super) fn ask(&self, order: &Order) -> Result<Answer, Failure> {
        let answers = self.order(order)?;
        answers.next(PATIENCE)?.ok_or_else(|| {
            let seconds = PATIENCE.as_secs();
            Failure::new(Party::Machine, format!("host {}: no answer after {seconds} s", self.host))
        })
    }

    /// Sends an order, and waits until it has been carried out.
    pub(super) fn done(&self, order: &Order) -> Result<(), Failure> {
        match self.ask(order)? {
            Answer::Done => Ok(()),
            other => Err(self.odd(&other)),
        }
    }
}

impl Answers {
    /// The next answer. `None` if no answer comes within `limit`.
    pub(super) fn next(&self, limit: Duration) -> Result<Option<Answer>, Failure> {
        let Self { answers, shared, .. } = self;
        match answers.recv_timeout(limit) {
            Ok(Answer::Failed(failure)) => Err(failure.at(format_args!("host {}", shared.host))),
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let lost = shared.pending().lost.clone();
                Err(lost.unwrap_or_else(|| is_lost(&shared.host)))
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.shared.pending().waiting.remove(&self.number);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        /// The time that an agent has to end the processes that it started.
        const ENDING: Duration = Duration::from_secs(6);
        // The end of the orders ends the agent, and its end ends the launcher.
        self.shared.close();
        let until = Instant::now() + ENDING;
        while matches!(self.launched.try_wait(), Ok(None)) {
            if Instant::now() > until || self.lost().is_some() {
                self.shared.kill();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // From here on, the number may belong to another process.
        *self.shared.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.launched.wait();
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, number: u64, order: &Order) -> Result<(), Failure> {
        let line = serde_json::to_string(&(number, order));
        let line = line.blame_at(Party::Machine, format_args!("host {}", self.host))?;
        self.write(format!("{line}\n").as_bytes())
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match orders.as_mut() {
            Some(orders) => orders.write_all(bytes).and_then(|()| orders.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        drop(orders);
        written.map_err(|error| {
            self.lose(&error.to_string());
            self.pending().lost.clone().unwrap_or_else(|| is_lost(&self.host))
        })
    }

    fn close(&self) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Ends the launcher, and all processes that it started on this machine.
    fn kill(&self) {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = *group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Reads answers until there are no more. Other lines go to `noise`.
    fn read(&self, answers: ChildStdout, noise: &Sender<String>) {
        let mut answers = BufReader::new(answers);
        loop {
            let mut line = Vec::new();
            match answers.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            match serde_json::from_slice::<(u64, Answer)>(&line) {
                Ok((_, Answer::Beat)) => {}
                Ok((number, answer)) => {
                    // The caller may have stopped waiting.
                    if let Some(waiting) = self.pending().waiting.get(&number) {
                        let _ = waiting.send(answer);
                    }
                }
                // A greeting of the host, or a line of the script.
                Err(_) => {
                    let _ = noise.send(String::from_utf8_lossy(&line).into_owned());
                }
            }
        }
        self.lose("its agent has ended");
    }

    /// Gives the host up, and tells all waiting callers.
    fn lose(&self, because: &str) {
        let errors = read_log(&self.complaints);
        let last = last_words(&errors).map_or(String::new(), |line| format!(": {line}"));
        let mut pending = self.pending();
        pending.lost.get_or_insert_with(|| {
            let problem = format!("host {} is lost: {because}{last}", self.host);
            Failure::new(Party::Machine, problem)
        });
        pending.waiting.clear();
    }
}

fn is_lost(host: &str) -> Failure {
    Failure::new(Party::Machine, format!("host {host} is lost"))
}

/// Tells the agent that this side is alive. Gives the host up if the host is silent for too long.
fn watch(shared: &Weak<Shared>) {
    loop {
        thread::sleep(BEAT);
        let Some(shared) = shared.upgrade() else { return };
        if shared.pending().lost.is_some() {
            return;
        }
        let heard = *shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.elapsed() > SILENCE {
            shared.lose(&format!("nothing was heard for {} s", SILENCE.as_secs()));
            // A caller may be stuck in a pipe that nothing reads.
            shared.kill();
            return;
        }
        // A thread that holds the lock is sending a line, which also shows that this side is alive.
        if let Ok(mut orders) = shared.orders.try_lock()
            && let (Some(orders), Ok(line)) =
                (orders.as_mut(), serde_json::to_string(&(UNASKED, Order::Beat)))
        {
            let _ = orders.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// An agent on this machine: a process like those on other hosts.
fn agent_here(own: &Path) -> Command {
    let mut command = Command::new(own);
    command.arg("agent");
    command
}

/// Refuses the agent of another version. Figures of two versions are not one run's, even if the
/// protocol is one.
fn admit(host: &str, protocol: u32, program: &str) -> Result<(), Failure> {
    let remedy = "leave out --host-program, or install this version there";
    match (program == OWN, protocol == VERSION) {
        (true, true) => Ok(()),
        (true, false) => {
            let problem = format!(
                "host {host}: its program is another build of Duality {OWN}, whose protocol is \
                 {protocol} and not {VERSION}"
            );
            Err(Failure::misuse(problem).remedy(remedy))
        }
        (false, _) => {
            let problem = format!("host {host}: its program is Duality {program}, this one {OWN}");
            Err(Failure::misuse(problem).remedy(remedy))
        }
    }
}

/// One line for a shell: find the program of this hash in the user's cache, or ask for its bytes,
/// and become its agent. Several hosts may share the cache, so the script does not replace an
/// existing copy. Copies of other versions go after a week.
fn script(hash: &str, bytes: usize) -> String {
    format!(
        "{{ umask 077; d=${{XDG_CACHE_HOME:-$HOME/.cache}}/duality; \
         mkdir -p \"$d\" 2>/dev/null || {{ d=${{TMPDIR:-/tmp}}/duality-$(id -u); mkdir -p \"$d\"; }}; \
         [ -O \"$d\" ] || {{ echo \"$d is not mine\" >&2; exit 1; }}; \
         f=$d/agent-{hash}; \
         find \"$d\" -name 'agent-*' -type f -mtime +7 -exec rm -f {{}} + 2>/dev/null; \
         is() {{ [ \"$(sha256sum 2>/dev/null < \"$1\" | cut -c1-64)\" = {hash} ]; }}; \
         if ! is \"$f\"; then echo '{SEND}'; head -c {bytes} > \"$f.$$\" && is \"$f.$$\" || \
         {{ echo 'the program did not arrive whole' >&2; exit 1; }}; \
         chmod 700 \"$f.$$\"; ln \"$f.$$\" \"$f\" 2>/dev/null || is \"$f\" || mv \"$f.$$\" \"$f\"; \
         rm -f \"$f.$$\"; else touch \"$f\"; fi; \
         echo '{READY}'; exec \"$f\" agent; }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_version_is_refused() {
        assert_eq!(admit("far", VERSION, OWN), Ok(()));
        // The protocol alone does not say that figures can be compared.
        let older = admit("far", VERSION, "0.0.7").unwrap_err().to_string();
        assert!(older.contains("far") && older.contains("0.0.7") && older.contains(OWN), "{older}");
        let other = admit("far", VERSION + 1, OWN).unwrap_err().to_string();
        assert!(other.contains("another build") && other.contains("install"), "{other}");
        assert!(admit("far", VERSION + 1, "0.0.7").is_err());
    }
}
