//! Processes of the rig: commands that set the rig up, daemons on its hosts, and the end of all
//! processes.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::rig::Rig;
use crate::tools;

/// The pause between two checks of another process.
const PAUSE: Duration = Duration::from_millis(20);

/// The time for a daemon to be ready, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// The time for a process to end after SIGTERM, and again after SIGKILL.
const END: Duration = Duration::from_secs(5);

/// Runs a line of words without spaces within, and returns the output.
pub(crate) fn run(line: &str) -> Result<String, String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    tools::run(Command::new(place(program)).args(words))
        .map_err(|problem| format!("`{line}`: {problem}"))
}

/// The path of a program. A path or an unknown name stays unchanged.
fn place(program: &str) -> String {
    let found = tools::find(program);
    found.map_or_else(|| program.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// A process on a host that stays until the rig is removed.
pub(crate) struct Daemon {
    child: Child,
    name: String,
    log: String,
}

impl Daemon {
    /// Starts `program` on `host`. The program sees `host` as its host name. `arguments` have no
    /// spaces within. The output goes to `NAME-HOST.log` in the rig's folder.
    pub(crate) fn start(
        rig: &Rig,
        host: &str,
        name: &str,
        program: &str,
        arguments: &str,
    ) -> Result<Self, String> {
        let log = rig.path(&format!("{name}-{host}.log"));
        let outputs = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (output, errors) = outputs.map_err(|error| format!("cannot write {log}: {error}"))?;
        // A new session keeps the daemon alive when this terminal closes. `ip netns exec` would
        // hide the control groups beneath a new /sys; `nsenter --net` does not.
        let child = Command::new("setsid")
            .args(["nsenter", &format!("--net=/run/netns/{host}"), "--"])
            .args(["unshare", "--uts", "--", "sh", "-c", "hostname \"$0\" && exec \"$@\"", host])
            .arg(place(program))
            .args(arguments.split(' '))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot run setsid: {error}"))?;
        Ok(Self { child, name: format!("{name} of {host}"), log })
    }

    /// Waits until `ready` returns true. `ready` gets the output of the daemon, and is called again
    /// and again.
    pub(crate) fn wait(mut self, ready: impl Fn(&str) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + START;
        loop {
            let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            if ended || Instant::now() > deadline {
                let how = if ended { "ended" } else { "is not ready" };
                let last = said.trim_end().lines().last().unwrap_or("it gave no reason");
                return Err(format!("{} {how}: {last}", self.name));
            }
            if ready(&said) {
                return Ok(());
            }
            sleep(PAUSE);
        }
    }
}

/// The processes on a host, such as `sshd 4711`.
pub(crate) fn names(host: &str) -> Result<Vec<String>, String> {
    let name = |id: &String| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
        Some(format!("{} {id}", name.trim()))
    };
    Ok(ids(host)?.iter().filter_map(name).collect())
}

/// The processes of a namespace, from the kernel.
fn ids(namespace: &str) -> Result<Vec<String>, String> {
    let said = run(&format!("ip netns pids {namespace}"))?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Waits until `done` returns true, or until the time for the end of a process is over.
pub(crate) fn until(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + END;
    loop {
        if done() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        sleep(PAUSE);
    }
}

/// Ends every process in a namespace of the rig, also processes that daemons or a user started.
pub(crate) fn end_all(rig: &Rig) -> Result<(), String> {
    let all = || {
        let lists: Result<Vec<_>, _> = rig.namespaces().iter().map(|name| ids(name)).collect();
        lists.map(|lists| lists.concat())
    };
    if all()?.contains(&std::process::id().to_string()) {
        return Err("this shell is on one of the hosts: leave the host first".into());
    }
    for signal in ["TERM", "KILL"] {
        let gone = until(|| {
            let Ok(left) = all() else { return false };
            // The list is read again each time, since an ending process can have started another
            // process. A process that has ended in between is no failure.
            if !left.is_empty() {
                let mut kill = Command::new("sh");
                let _ = tools::run(kill.args(["-c", "kill -s \"$0\" \"$@\"", signal]).args(&left));
            }
            left.is_empty()
        });
        if gone {
            return Ok(());
        }
    }
    Err(format!("these processes do not end: {}", all()?.join(", ")))
}
