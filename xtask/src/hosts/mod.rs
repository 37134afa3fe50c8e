//! `cargo xtask hosts`: makes several hosts on one machine, for tests of roles on hosts. Each host
//! is a network namespace. docs/hosts-rig.md explains how to use them.
//!
//! ```text
//!  this machine           duality-switch                       the hosts
//!  duality ────────────── port254 ┐
//!  10.77.0.254                    ├ bridge 10.77.0.253
//!                         port1 ──┤ ────────────────────────── duality-1, eth0 10.77.0.1
//!                         port2 ──┤ ────────────────────────── duality-2, eth0 10.77.0.2
//!                         port3 ──┘ near ═ cable ═ far ─────── duality-3, eth0 10.77.0.3
//! ```
//!
//! `near`, `cable` and `far` exist only with `--delay`, `--loss` or `--rate`, and only if the
//! kernel has no netem. Every process of the rig runs in a namespace of the rig. So the kernel's
//! list of the processes of these namespaces is complete, and `down` needs no other list.

mod line;
mod network;
mod options;
mod processes;
mod rig;
mod slurm;
mod ssh;

use std::io::Write;

use options::{Action, Plan};
use rig::Rig;

use crate::{Workspace, tools};

pub(crate) const ABOUT: &str = "several hosts on this machine, for tests; also: hosts --help";

/// The reason why a command failed.
pub(crate) enum Problem {
    /// The command line is wrong, or the user is not root: exit code 2.
    Misuse(String),
    /// The command failed: exit code 1.
    Failure(String),
}

/// Runs `cargo xtask hosts ARGUMENTS`.
///
/// # Errors
///
/// Returns what is wrong, with the remedy.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Result<(), Problem> {
    let action = options::read(arguments).map_err(Problem::Misuse)?;
    if let Action::Help = action {
        print!("{}", options::HELP);
        return Ok(());
    }
    if !tools::is_root() {
        let problem = "hosts are network namespaces, which only root may make: use sudo";
        return Err(Problem::Misuse(problem.into()));
    }
    match action {
        Action::Help => Ok(()),
        Action::Up(rig, plan) => up(workspace, &rig, &plan),
        Action::Down(rig) => down(&rig),
        Action::Cut(rig, host) => plug(&rig, host, false),
        Action::Join(rig, host) => plug(&rig, host, true),
        Action::List(rig) => list(&rig),
    }
    .map_err(Problem::Failure)
}

/// Makes the hosts. After an error, removes what was made before it.
fn up(workspace: &Workspace, rig: &Rig, plan: &Plan) -> Result<(), String> {
    if !rig.namespaces().is_empty() {
        return Err(format!(
            "hosts named {0}-1, {0}-2 … are up: `cargo xtask hosts down{1}` removes them, and \
             `--name` gives others another name",
            rig.name,
            rig.flag()
        ));
    }
    network::check_free(plan)?;
    tools::install_missing(&needs(plan))?;
    network::claim(rig)?;
    make(workspace, rig, plan).map_err(|problem| match remove(rig) {
        Ok(()) => problem,
        Err(also) => format!("{problem}; what was made before is not removed: {also}"),
    })?;
    list(rig)
}

/// The programs that `plan` needs, each with its Debian package.
fn needs(plan: &Plan) -> Vec<(&'static str, &'static str)> {
    let mut needs = network::PROGRAMS.to_vec();
    if plan.line.is_some() {
        needs.extend(line::PROGRAMS);
    }
    if plan.ssh {
        needs.extend(ssh::PROGRAMS);
    }
    if plan.slurm {
        needs.extend(slurm::PROGRAMS);
    }
    needs
}

fn make(workspace: &Workspace, rig: &Rig, plan: &Plan) -> Result<(), String> {
    rig.make_folder()?;
    rig.write("plan", plan.words().join("\n"))?;
    network::make(rig, plan)?;
    if let Some(line) = &plan.line {
        line::make(workspace, rig, plan, line)?;
    }
    if plan.ssh {
        ssh::start(rig, plan)?;
    }
    if plan.slurm {
        slurm::start(rig, plan)?;
    }
    Ok(())
}

fn down(rig: &Rig) -> Result<(), String> {
    if rig.namespaces().is_empty() && !rig.folder().exists() {
        println!("no hosts named {0}-1, {0}-2 … are up", rig.name);
        return Ok(());
    }
    remove(rig)
}

/// Ends all processes of the rig, and removes its namespaces and files.
fn remove(rig: &Rig) -> Result<(), String> {
    slurm::cancel(rig);
    processes::end_all(rig)?;
    network::remove(rig)?;
    rig.remove_folder()
}

/// Pulls or plugs the cable of a host.
fn plug(rig: &Rig, host: usize, plugged: bool) -> Result<(), String> {
    let plan = plan_of(rig)?;
    if host > plan.count {
        return Err(format!("there is no host {host}: they are 1 to {}", plan.count));
    }
    network::plug(rig, host, plugged)
}

/// The plan that the rig was made by.
fn plan_of(rig: &Rig) -> Result<Plan, String> {
    let words = rig.read("plan").map_err(|_| {
        let (name, flag) = (&rig.name, rig.flag());
        format!(
            "no hosts named {name}-1, {name}-2 … are up: `cargo xtask hosts up{flag}` makes them"
        )
    })?;
    let words: Vec<&str> = words.lines().collect();
    options::read_plan(&words).map_err(|problem| format!("{}/plan: {problem}", rig.name))
}

/// Prints the text of [`describe`].
fn list(rig: &Rig) -> Result<(), String> {
    let text = describe(rig)?;
    // A reader that has gone is no failure: the hosts are up.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// The hosts, the processes on each, and how to run a command on a host.
fn describe(rig: &Rig) -> Result<String, String> {
    let plan = plan_of(rig)?;
    let last = rig.host(plan.count);
    let (machine, folder) = (plan.address(network::MACHINE), rig.path(""));
    let mut text = format!("this machine is {machine} for the hosts; files are in {folder}\n");
    if let Some(line) = &plan.line {
        text += &format!("{last} is at the end of a line: {line}\n");
    }
    let wide = last.len();
    text += &format!("\n{:<wide$}  {:<15}  {:<7}  processes\n", "host", "address", "cable");
    for number in 1..=plan.count {
        let (host, address) = (rig.host(number), plan.address(number));
        let cable = if network::is_plugged(rig, number)? { "joined" } else { "cut" };
        let running = processes::names(&host)?.join(", ");
        let row = format!("{host:<wide$}  {address:<15}  {cable:<7}  {running}");
        text += &format!("{}\n", row.trim_end());
    }
    text +=
        &format!("\nto run a command on a host:\n  nsenter --net=/run/netns/{last} -- COMMAND\n");
    if plan.ssh {
        text += &format!("  ssh -F {} {last} COMMAND\n", rig.path(ssh::CONFIG));
    }
    if plan.slurm {
        let file = rig.path(slurm::CONFIG);
        text += &format!("  SLURM_CONF={file} srun -w {last} -N1 -n1 COMMAND\n");
    }
    Ok(text)
}
