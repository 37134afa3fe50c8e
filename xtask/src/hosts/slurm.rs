//! Slurm on the rig: munged and slurmctld beside the bridge, and a slurmd on each host.
//!
//! Slurm takes a machine's host name as the name of its node. So every [`Daemon`] has its own host
//! name.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use super::network::SWITCH;
use super::options::Plan;
use super::processes::{Daemon, until};
use super::rig::Rig;
use crate::tools;

pub(crate) const PROGRAMS: [(&str, &str); 4] = [
    ("munged", "munge"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("srun", "slurm-client"),
];

/// The file that `SLURM_CONF` names.
pub(crate) const CONFIG: &str = "slurm.conf";

const SOCKET: &str = "munge.socket";

pub(crate) fn start(rig: &Rig, plan: &Plan) -> Result<(), String> {
    let (switch, file, socket) = (rig.switch(), rig.path(CONFIG), rig.path(SOCKET));
    rig.write(CONFIG, config(rig, plan))?;
    rig.write("munge.key", random()?)?;
    let arguments = format!(
        "--foreground --socket={socket} --key-file={} --pid-file={} --log-file={} --seed-file={}",
        rig.path("munge.key"),
        rig.path("munge.pid"),
        rig.path("munge.log"),
        rig.path("munge.seed")
    );
    let munged = Daemon::start(rig, &switch, "munged", "munged", &arguments)?;
    munged.wait(|_| Path::new(&socket).exists())?;
    make_folder(&rig.path("slurmctld"))?;
    let controller =
        Daemon::start(rig, &switch, "slurmctld", "slurmctld", &format!("-D -f {file}"))?;
    let mut nodes = Vec::new();
    for number in 1..=plan.count {
        let host = rig.host(number);
        make_folder(&rig.path(&format!("slurmd-{host}")))?;
        let arguments = format!("-D -f {file} -N {host}");
        let node = Daemon::start(rig, &host, "slurmd", "slurmd", &arguments)?;
        nodes.push((host, node));
    }
    controller.wait(|_| state(&file, &switch).is_some())?;
    nodes.into_iter().try_for_each(|(host, node)| {
        node.wait(|_| state(&file, &host).is_some_and(|state| state.trim() == "idle"))
    })
}

/// Cancels all jobs, and waits for their ends. Without this, an srun on this machine would wait for
/// a slurmctld that is gone.
pub(crate) fn cancel(rig: &Rig) {
    let config = rig.path(CONFIG);
    if !Path::new(&config).exists() {
        return;
    }
    // Each failure means that Slurm is gone, or was never ready: no jobs are left then.
    let ask = |program: &str, argument: &str| {
        tools::run(Command::new(program).arg(argument).env("SLURM_CONF", &config)).ok()
    };
    if ask("scancel", "--partition=hosts").is_some() {
        until(|| ask("squeue", "--noheader").is_none_or(|jobs| jobs.trim().is_empty()));
    }
}

/// The state of a node according to slurmctld. `None` if the node is unknown, or if slurmctld is
/// not ready.
fn state(config: &str, node: &str) -> Option<String> {
    let mut sinfo = Command::new("sinfo");
    sinfo.args(["--noheader", "--format=%t", "--nodes", node]).env("SLURM_CONF", config);
    tools::run(&mut sinfo).ok()
}

fn make_folder(path: &str) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{path}: {error}"))
}

/// The chosen plugins need neither control groups nor a data base.
fn config(rig: &Rig, plan: &Plan) -> String {
    let processors = available_parallelism().map_or(1, usize::from);
    let mut text = format!(
        "ClusterName={name}
SlurmctldHost={switch}({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
StateSaveLocation={folder}slurmctld
SlurmdSpoolDir={folder}slurmd-%n
SlurmctldPidFile={folder}slurmctld.pid
SlurmdPidFile={folder}slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
",
        name = rig.name,
        switch = rig.switch(),
        controller = plan.address(SWITCH),
        socket = rig.path(SOCKET),
        folder = rig.path(""),
    );
    for number in 1..=plan.count {
        let (host, address) = (rig.host(number), plan.address(number));
        text += &format!("NodeName={host} NodeAddr={address} CPUs={processors} State=UNKNOWN\n");
    }
    // Roles of one host are separate jobs, and share the host's processors.
    text + "PartitionName=hosts Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:64\n"
}

fn random() -> Result<[u8; 128], String> {
    let mut key = [0; 128];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key));
    read.map(|()| key).map_err(|error| format!("/dev/urandom: {error}"))
}
