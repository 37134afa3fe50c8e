//! The flags that place roles on hosts.

use duality_lab::ask::settings::Settings;

use super::heading;

#[derive(clap::Args)]
pub(in crate::cli) struct HostFlags {
    /// A host of a role, such as server=web1 or load=gen1@10.0.0.7; once for each (docs/hosts.md)
    ///
    /// Roles are server, balancer, store and load. Several servers need a balancer, and several
    /// loads make their load together. Other roles connect to the address; without one, to the
    /// host's name. The host `here` is this machine.
    #[arg(long, value_name = "ROLE=HOST[@ADDRESS]", help_heading = heading::HOSTS)]
    host: Option<Vec<String>>,
    /// Launcher that reaches the hosts: ssh, srun, nsenter, kubectl, docker, or a command with
    /// {host} [default: ssh]
    ///
    /// A launcher gives the standard streams of a shell on the host. This program sends itself over
    /// these streams. A command of your own is, for example, "ssh -F config {host}".
    #[arg(long, value_name = "NAME|COMMAND", help_heading = heading::HOSTS)]
    launcher: Option<String>,
    /// Duality's program on the hosts; without it, this program is sent there
    #[arg(long, value_name = "PATH", help_heading = heading::HOSTS)]
    host_program: Option<String>,
    /// Balancer that hands requests to several servers: nginx or haproxy [default: nginx]
    #[arg(long, value_name = "NAME", help_heading = heading::HOSTS)]
    balancer: Option<String>,
}

impl HostFlags {
    /// Adds the values of the flags to `settings`.
    pub(in crate::cli) fn put_into(&self, settings: &mut Settings) {
        settings.hosts.clone_from(&self.host);
        settings.launcher.clone_from(&self.launcher);
        settings.host_program.clone_from(&self.host_program);
        settings.balancer.clone_from(&self.balancer);
    }
}
