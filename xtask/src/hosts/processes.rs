//! Processes of the rig: commands that set it up, daemons on its hosts, and the end of all.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::rig::Rig;
use crate::tools;

/// Between two looks at what another process does.
const PAUSE: Duration = Duration::from_millis(20);

/// For a daemon to be ready, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// For a process to end after SIGTERM, and again after SIGKILL.
const END: Duration = Duration::from_secs(5);

/// Runs a line of words that have no spaces, and returns what it prints.
pub(crate) fn run(line: &str) -> Result<String, String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    tools::run(Command::new(place(program)).args(words))
        .map_err(|problem| format!("`{line}`: {problem}"))
}

/// Where a program is; a path or an unknown name stays as it is.
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
    /// Starts `program` on `host`, which is also the host name that it sees. `arguments` have no
    /// spaces within. What it says goes to `NAME-HOST.log` in the rig's folder.
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
        // A session of its own keeps it alive when this terminal closes. `ip netns exec` would
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

    /// Waits until `ready`, which is asked again and again; it gets what the daemon has said.
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

/// What runs on a host, such as `sshd 4711`.
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

/// Waits until `done`, or for as long as a process may take to end.
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

/// Ends every process in a namespace of the rig, also those that its daemons or a user started.
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
            // Again each time: a process that is ending can have started another one. One that
            // has ended in between is no failure.
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
