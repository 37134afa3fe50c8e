//! The command of a child process.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as StdChild, Command as StdCommand, ExitStatus, Output, Stdio};

use super::Child;
use crate::watched::refuse_simulated;

/// The command of a child process: [`std::process::Command`], with a child that tasks wait for.
#[derive(Debug)]
pub struct Command {
    std: StdCommand,
    kills_on_drop: bool,
}

impl Command {
    /// The command that runs `program`, without arguments.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Self {
        Self::from(StdCommand::new(program))
    }

    /// The command of the standard library.
    #[must_use]
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// The command of the standard library.
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// The command of the standard library.
    #[must_use]
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, argument: S) -> &mut Self {
        self.std.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, arguments: I) -> &mut Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.std.args(arguments);
        self
    }

    /// Sets a variable of the child's environment.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, name: K, value: V) -> &mut Self {
        self.std.env(name, value);
        self
    }

    /// Sets variables of the child's environment.
    pub fn envs<I, K, V>(&mut self, variables: I) -> &mut Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(variables);
        self
    }

    /// Takes a variable out of the child's environment.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, name: K) -> &mut Self {
        self.std.env_remove(name);
        self
    }

    /// Empties the child's environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// Sets the child's working directory.
    pub fn current_dir<P: AsRef<Path>>(&mut self, directory: P) -> &mut Self {
        self.std.current_dir(directory);
        self
    }

    /// Sets the child's standard input.
    pub fn stdin<T: Into<Stdio>>(&mut self, from: T) -> &mut Self {
        self.std.stdin(from);
        self
    }

    /// Sets the child's standard output.
    pub fn stdout<T: Into<Stdio>>(&mut self, to: T) -> &mut Self {
        self.std.stdout(to);
        self
    }

    /// Sets the child's standard error.
    pub fn stderr<T: Into<Stdio>>(&mut self, to: T) -> &mut Self {
        self.std.stderr(to);
        self
    }

    /// Whether a dropped [`Child`] is killed. By default it goes on.
    pub fn kill_on_drop(&mut self, kills: bool) -> &mut Self {
        self.kills_on_drop = kills;
        self
    }

    /// Whether a dropped [`Child`] is killed.
    #[must_use]
    pub fn get_kill_on_drop(&self) -> bool {
        self.kills_on_drop
    }

    /// Sets the child's user.
    pub fn uid(&mut self, user: u32) -> &mut Self {
        self.std.uid(user);
        self
    }

    /// Sets the child's group.
    pub fn gid(&mut self, group: u32) -> &mut Self {
        self.std.gid(group);
        self
    }

    /// Sets the name that the child finds as its first argument.
    pub fn arg0<S: AsRef<OsStr>>(&mut self, name: S) -> &mut Self {
        self.std.arg0(name);
        self
    }

    /// Sets the child's process group. 0 is a new group.
    pub fn process_group(&mut self, group: i32) -> &mut Self {
        self.std.process_group(group);
        self
    }

    /// Starts the child.
    ///
    /// # Errors
    ///
    /// The errors of `fork(2)` and `execve(2)`, and a lack of descriptors.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(StdCommand::spawn)
    }

    /// Starts the child by a function, which gets the command of the standard library.
    ///
    /// # Errors
    ///
    /// Those of [`spawn`](Self::spawn), and of the function.
    pub fn spawn_with(
        &mut self,
        with: impl FnOnce(&mut StdCommand) -> io::Result<StdChild>,
    ) -> io::Result<Child> {
        refuse_simulated("child processes")?;
        Child::new(with(&mut self.std)?, self.kills_on_drop)
    }

    /// Starts the child at once. The future waits for its end.
    ///
    /// # Errors
    ///
    /// Those of [`spawn`](Self::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async {
            let mut child = child?;
            // A child that waits for a reader of its pipes would not end.
            drop((child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts the child at once, with piped outputs. The future waits for its end.
    ///
    /// # Errors
    ///
    /// Those of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.std.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn();
        async { child?.wait_with_output().await }
    }
}

impl From<StdCommand> for Command {
    fn from(std: StdCommand) -> Self {
        Self { std, kills_on_drop: false }
    }
}
