//! Namespaces, the bridge, and the cables between them.

use std::process::Command;

use super::options::Plan;
use super::processes::run;
use super::rig::Rig;
use crate::tools;

pub(crate) const PROGRAMS: [(&str, &str); 3] =
    [("ip", "iproute2"), ("nsenter", "util-linux"), ("hostname", "hostname")];

/// The address of the bridge, where slurmctld listens.
pub(crate) const SWITCH: usize = 253;
/// The address of this machine.
pub(crate) const MACHINE: usize = 254;

/// Checks that no other network of this machine has the rig's addresses.
pub(crate) fn check_free(plan: &Plan) -> Result<(), String> {
    let network = format!("{}/24", plan.address(0));
    match run(&format!("ip -4 route show root {network}"))?.trim() {
        "" => Ok(()),
        route => Err(format!(
            "this machine has a network {network} already ({route}): choose another by --network"
        )),
    }
}

/// Makes the first namespace. The call fails if another command makes the same rig at that moment.
pub(crate) fn claim(rig: &Rig) -> Result<(), String> {
    run(&format!("ip netns add {}", rig.switch())).map(drop)
}

/// Makes all hosts, and joins them and this machine by a bridge.
pub(crate) fn make(rig: &Rig, plan: &Plan) -> Result<(), String> {
    let switch = rig.switch();
    run(&format!("ip -n {switch} link add bridge type bridge"))?;
    configure(&switch, "bridge", &plan.address(SWITCH))?;
    for number in 1..=plan.count {
        let host = rig.host(number);
        let port = port(number);
        run(&format!("ip netns add {host}"))?;
        run(&format!("ip -n {switch} link add {port} type veth peer name eth0 netns {host}"))?;
        connect(rig, &port)?;
        configure(&host, "eth0", &plan.address(number))?;
        widen_ports(&host)?;
    }
    let (name, port) = (&rig.name, port(MACHINE));
    run(&format!("ip link add {name} type veth peer name {port} netns {switch}"))?;
    connect(rig, &port)?;
    run(&format!("ip addr add {}/24 dev {name}", plan.address(MACHINE)))?;
    run(&format!("ip link set {name} up")).map(drop)
}

/// Gives an interface its address, and sets it up beside the loopback interface.
fn configure(namespace: &str, interface: &str, address: &str) -> Result<(), String> {
    run(&format!("ip -n {namespace} addr add {address}/24 dev {interface}"))?;
    run(&format!("ip -n {namespace} link set {interface} up"))?;
    run(&format!("ip -n {namespace} link set lo up")).map(drop)
}

/// Gives a host enough ports for 15,000 connections to one address. In Linux's default range,
/// connect(2) quickly finds every second port: 14,116 ports. After these, connect(2) searches all
/// ports for each connection. Servers have the ports below 10,000.
fn widen_ports(host: &str) -> Result<(), String> {
    let write = "echo 10000 65535 >/proc/sys/net/ipv4/ip_local_port_range";
    let inside = format!("--net=/run/netns/{host}");
    tools::run(Command::new("nsenter").args([&inside, "--", "sh", "-c", write])).map(drop)
}

/// Makes an interface a port of the bridge.
pub(crate) fn connect(rig: &Rig, port: &str) -> Result<(), String> {
    run(&format!("ip -n {} link set {port} master bridge up", rig.switch())).map(drop)
}

/// The bridge's end of a host's cable.
pub(crate) fn port(number: usize) -> String {
    format!("port{number}")
}

/// Plugs or pulls the cable of a host.
pub(crate) fn plug(rig: &Rig, host: usize, plugged: bool) -> Result<(), String> {
    let state = if plugged { "up" } else { "down" };
    run(&format!("ip -n {} link set {} {state}", rig.switch(), port(host))).map(drop)
}

pub(crate) fn is_plugged(rig: &Rig, host: usize) -> Result<bool, String> {
    // `ip` prints the interface only if the interface is up.
    let said = run(&format!("ip -n {} -o link show up dev {}", rig.switch(), port(host)))?;
    Ok(!said.trim().is_empty())
}

/// Removes the namespaces and their interfaces.
pub(crate) fn remove(rig: &Rig) -> Result<(), String> {
    let (namespaces, switch) = (rig.namespaces(), rig.switch());
    if namespaces.contains(&switch) {
        // The kernel removes a namespace's interfaces some time later. The kernel removes a deleted
        // link at once, with its other end. A half-made rig may lack this link.
        let _ = run(&format!("ip -n {switch} link del {}", port(MACHINE)));
    }
    for namespace in namespaces {
        run(&format!("ip netns del {namespace}"))?;
    }
    Ok(())
}
