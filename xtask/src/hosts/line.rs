//! The line between the last host and all others: delay, loss and rate.
//!
//! The kernel's netem makes the line if the kernel has netem. Otherwise `cable.c`, a program in
//! user space, carries every packet between two interfaces:
//!
//! ```text
//!   bridge ─ portN ═══ near ─ cable ─ far ═══ eth0 of the last host        ═══ a pair of veth
//! ```
//!
//! The cable is in C: xtask has no dependencies, and so no packet sockets.

use std::fs;
use std::process::Command;

use super::network;
use super::options::{Line, Plan};
use super::processes::{Daemon, run};
use super::rig::Rig;
use crate::{Workspace, tools};

pub(crate) const PROGRAMS: [(&str, &str); 3] =
    [("tc", "iproute2"), ("ethtool", "ethtool"), ("cc", "gcc")];

/// The packets that a line without a rate holds: several bursts of 15,000 connections.
const UNLIMITED: u64 = 100_000;
/// The least packets that a line with a rate holds. Netem has the same default.
const LEAST: u64 = 1000;

/// Puts the line before the last host.
pub(crate) fn make(
    workspace: &Workspace,
    rig: &Rig,
    plan: &Plan,
    line: &Line,
) -> Result<(), String> {
    let (switch, host, port) = (rig.switch(), rig.host(plan.count), network::port(plan.count));
    if has_netem(&switch) {
        let netem = netem(line);
        run(&format!("tc -n {switch} qdisc add dev {port} root {netem}"))?;
        return run(&format!("tc -n {host} qdisc add dev eth0 root {netem}")).map(drop);
    }
    // The host's cable now ends at `far`, and a new pair of interfaces joins the bridge.
    run(&format!("ip -n {switch} link set {port} nomaster"))?;
    run(&format!("ip -n {switch} link set {port} down"))?;
    run(&format!("ip -n {switch} link set {port} name far"))?;
    run(&format!("ip -n {switch} link add {port} type veth peer name near"))?;
    network::connect(rig, &port)?;
    for end in ["near", "far"] {
        // The bridge's own address must not answer at the ends of the cable.
        run(&format!("ip -n {switch} link set {end} arp off up"))?;
    }
    // The kernel leaves checksums and the cutting of segments to the device, but a virtual
    // interface does neither. The cable needs packets as on a wire.
    for (namespace, interface) in [(&switch, port.as_str()), (&host, "eth0")] {
        let inside = format!("nsenter --net=/run/netns/{namespace} --");
        run(&format!("{inside} ethtool -K {interface} tx off tso off gso off"))?;
    }
    let program = compile(workspace, rig)?;
    let (delay, loss) = (line.delay.as_nanos() / 2, line.loss);
    let (rate, packets) = (line.rate.unwrap_or(0), packets(line));
    let arguments = format!("near far {delay} {loss} {rate} {packets}");
    let cable = Daemon::start(rig, &switch, "cable", &program, &arguments)?;
    cable.wait(|said| said.contains("ready"))
}

/// Whether the kernel has netem. The function makes an attempt in a namespace of the rig.
fn has_netem(switch: &str) -> bool {
    run(&format!("tc -n {switch} qdisc add dev lo root netem limit 1")).is_ok()
        && run(&format!("tc -n {switch} qdisc del dev lo root")).is_ok()
}

/// The arguments of netem for one direction.
fn netem(line: &Line) -> String {
    let (delay, loss) = (line.delay.as_micros() / 2, line.loss_percent());
    let rate = line.rate.map(|rate| format!(" rate {rate}bit")).unwrap_or_default();
    format!("netem limit {} delay {delay}us loss {loss}%{rate}", packets(line))
}

/// The number of packets that each direction holds: the packets on their way, and 100 ms of queue.
fn packets(line: &Line) -> u64 {
    let Some(rate) = line.rate else { return UNLIMITED };
    let seconds = line.delay.as_secs_f64() / 2.0 + 0.1;
    let bits_of_a_packet = 1500.0 * 8.0;
    ((rate as f64 * seconds / bits_of_a_packet) as u64).clamp(LEAST, UNLIMITED)
}

/// Builds the cable, and returns its path. The path is beneath the target directory, since many
/// machines run no program in /run. The file has the rig's name, so that two rigs can be made at
/// once.
fn compile(workspace: &Workspace, rig: &Rig) -> Result<String, String> {
    let folder = workspace.target.join("xtask");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = folder.join(format!("cable-{}", rig.name));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]);
    tools::run(cc.arg(&program).arg(workspace.root.join("xtask/src/hosts/cable.c")))?;
    Ok(program.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_directions_share_the_delay() {
        let line =
            Line { delay: Duration::from_millis(20), loss: 10_000, rate: Some(1_000_000_000) };
        let limited = "netem limit 9166 delay 10000us loss 1% rate 1000000000bit";
        assert_eq!(netem(&line), limited);
        let unlimited = Line { rate: None, ..line };
        assert_eq!(netem(&unlimited), "netem limit 100000 delay 10000us loss 1%");
        assert_eq!(packets(&Line { rate: Some(1_000_000), ..line }), LEAST);
    }
}
