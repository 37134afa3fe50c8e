//! `duality graph`: draws the places where a service may wait, and its work in between, from a real
//! run.

use std::env;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duality_lab::graph::Graph;
use duality_lab::measure::child::{Patience, Running};
use duality_lab::tell::answers;
use duality_lab::tell::render::text::{TERMINAL, text};
use duality_load::{Options, Stop, TargetError};
use duality_runtime::log;

use super::flags::settings::{Service, SettingFlags};
use super::{Blame, Failure, Party, Tuning, flag, load, print};
use crate::catalogue::Catalogue;
use crate::setup;
use crate::watch::GraphFile;

/// A load that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  duality graph guestbook --architecture threads
      the nodes and edges as tables, and which stage takes most of the time
  duality graph http --architecture staged --out graph.svg --out graph.dot
      drawn, and for Graphviz: dot -Tpdf graph.dot")]
pub(super) struct Arguments {
    /// The service (see `duality services`)
    service: String,
    /// How connections become processes, threads or events (see `duality architectures`)
    #[arg(short, long, default_value = "epoll")]
    architecture: String,
    /// Number of connections that make requests
    #[arg(short, long, default_value_t = 10, value_name = "NUMBER")]
    connections: usize,
    /// Number of all requests
    #[arg(short = 'n', long, default_value_t = 2000, value_name = "NUMBER")]
    requests: u64,
    /// A file to write: .svg, .dot or .json; may be given several times
    #[arg(short, long, value_name = "FILE")]
    out: Vec<GraphFile>,
    #[command(flatten)]
    setup: SettingFlags<Service>,
    #[command(flatten)]
    tuning: Tuning,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let architecture =
        catalogue.architectures().named(&arguments.architecture).blame(Party::User)?;
    let setup = arguments.setup.setup().map_err(flag)?;
    let listed = catalogue.look_up(&arguments.service, &setup).map_err(flag)?;
    if listed.is_own {
        return Err(Failure::misuse(
            "graph loads the services that come with Duality: for your own, load `serve --graph FILE.svg` yourself",
        ));
    }
    if !architecture.about().gives.straight_line {
        let name = architecture.name();
        return Err(Failure::misuse(format!(
            "{name} has no tasks to show: choose another architecture"
        )));
    }
    let program = env::current_exe().blame_at(Party::Machine, "cannot find this program")?;
    let directory = tempfile::tempdir().blame_at(Party::Machine, "a temporary directory")?;
    let file = directory.path().join("graph.json");
    let interrupted = load::on_interrupt()?;
    let patience = Patience { limit: LIMIT, interrupted: &interrupted };
    let mut server = Command::new(&program);
    server.args(["serve", &arguments.service, "--listen=127.0.0.1:0"]);
    server.args(["--architecture", architecture.name()]).arg("--graph").arg(&file);
    server.args(setup::to_arguments(&setup)).args(arguments.tuning.to_arguments());
    if listed.store {
        server.arg(format!("--store=sqlite:{}", directory.path().join("store").display()));
    }
    let mut server = Running::start(&mut server)?;
    let address = server.address()?;
    load_server(arguments, &address, &interrupted)?;
    server.terminate();
    server.end(patience)?;
    let json = std::fs::read_to_string(&file).blame(Party::Subject)?;
    let graph = Graph::read(&json).blame(Party::Subject)?;
    for file in &arguments.out {
        file.write(&graph).blame_at(Party::Machine, "--out")?;
        log::tell(format_args!("graph: {}", file.path.display()));
    }
    print(&text(&answers::graph::sheet(&graph), TERMINAL))
}

/// Has the service's own client make the requests. The speed of replies does not matter, so the
/// load may share processors.
fn load_server(
    arguments: &Arguments,
    address: &str,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let target = format!("{}://{address}", arguments.service).parse();
    let target = target.map_err(|error: TargetError| Failure::new(Party::Subject, error))?;
    let options = Options {
        connections: arguments.connections,
        stop: Stop::Requests(arguments.requests),
        warm_up: Duration::ZERO,
        ..Options::new(target)
    };
    let report =
        duality_load::run(&options, &mut (), interrupted).blame_at(Party::Load, "the load")?;
    match report.requests {
        0 => Err(Failure::new(Party::Subject, "the load: no request was answered")),
        _ => Ok(()),
    }
}
