//! An sshd on each host, and an `ssh_config` that reaches each sshd with keys made for the rig.

use std::fs;
use std::process::Command;

use super::options::Plan;
use super::processes::Daemon;
use super::rig::Rig;
use crate::tools;

pub(crate) const PROGRAMS: [(&str, &str); 2] =
    [("sshd", "openssh-server"), ("ssh", "openssh-client")];

/// The file that `ssh -F` reads.
pub(crate) const CONFIG: &str = "ssh_config";

/// The folder for sshd's unprivileged child. The folder must exist and be empty.
const EMPTY_FOLDER: &str = "/run/sshd";

pub(crate) fn start(rig: &Rig, plan: &Plan) -> Result<(), String> {
    // Debian makes this folder when its own sshd starts, and so at each boot.
    fs::create_dir_all(EMPTY_FOLDER).map_err(|error| format!("{EMPTY_FOLDER}: {error}"))?;
    make_key(rig, "key")?;
    rig.write("authorized_keys", rig.read("key.pub")?)?;
    let (mut known, mut config) = (String::new(), String::new());
    let mut daemons = Vec::new();
    for number in 1..=plan.count {
        let (host, address) = (rig.host(number), plan.address(number));
        let key = format!("host_key_{number}");
        make_key(rig, &key)?;
        known += &format!("{host} {}", rig.read(&format!("{key}.pub"))?);
        config += &client(number, &host, &address);
        let file = format!("sshd_config_{number}");
        rig.write(&file, server(rig, &address, &key))?;
        let arguments = format!("-D -e -f {}", rig.path(&file));
        daemons.push(Daemon::start(rig, &host, "sshd", "sshd", &arguments)?);
    }
    rig.write("known_hosts", known)?;
    rig.write(CONFIG, config + &client_of_all(rig))?;
    daemons.into_iter().try_for_each(|daemon| daemon.wait(|said| said.contains("listening")))
}

fn make_key(rig: &Rig, file: &str) -> Result<(), String> {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "duality-hosts", "-f", &rig.path(file)]);
    tools::run(&mut keygen).map(drop)
}

fn server(rig: &Rig, address: &str, key: &str) -> String {
    format!(
        "ListenAddress {address}
HostKey {}
AuthorizedKeysFile {}
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
PidFile none
MaxStartups 1000
MaxSessions 1000
",
        rig.path(key),
        rig.path("authorized_keys")
    )
}

/// The entry by which ssh reaches one host, by its own name or as `web1`.
fn client(number: usize, host: &str, address: &str) -> String {
    format!("Host {host} web{number}\n  HostName {address}\n  HostKeyAlias {host}\n")
}

/// The entry for every host. Ssh refuses an unknown host key without a question, and gives up a
/// silent host after 15 s.
fn client_of_all(rig: &Rig) -> String {
    format!(
        "Host *
  User root
  IdentityFile {}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 15
  ServerAliveInterval 5
  ServerAliveCountMax 3
",
        rig.path("key"),
        rig.path("known_hosts")
    )
}
