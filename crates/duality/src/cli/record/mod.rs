//! `duality record`: makes a trace of live traffic, as a proxy in front of a server or from the
//! headers of packets.

mod interface;
mod proxy;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use duality_lab::units::{parse_bytes, parse_duration};
use duality_runtime::log;
use duality_trace::Trace;
use duality_trace::recorder::Recorder;

use super::flags::address::listen_address;
use super::load::on_interrupt;
use super::trace::save;
use super::{Failure, Party, print};

#[derive(clap::Args)]
#[command(after_help = "\
With --interface, the command reads the headers of packets that pass there,
which takes root or CAP_NET_RAW. With --listen and --to, it is a proxy in front
of a server, and passes all bytes on. It writes the trace at its end, by Ctrl-C,
SIGTERM or --duration.

The command keeps no byte and no address, and knows no protocol: a request is
all that a client sends until the server replies. So it records TLS, too.

Examples:
  duality record --interface eth0 --port 80 -o my.trace
  duality record --listen 0.0.0.0:8080 --to 127.0.0.1:80 -o my.trace
  duality record --listen 8080 --to 80 --duration 10m

On another machine, record packets by tcpdump:
  tcpdump -i eth0 -s 128 -w - tcp port 80 | duality trace from - -o my.trace")]
pub(super) struct Arguments {
    /// Read the headers of packets of this network interface
    #[arg(short, long, value_name = "NAME", requires = "port", conflicts_with_all = ["listen", "to"])]
    interface: Option<String>,
    /// The port of the server
    #[arg(short, long, value_name = "PORT", requires = "interface")]
    port: Option<u16>,
    /// Where clients connect
    #[arg(short, long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    #[arg(required_unless_present = "interface", requires = "to")]
    listen: Option<SocketAddr>,
    /// The server
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address, requires = "listen")]
    to: Option<SocketAddr>,
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "my.trace")]
    out: PathBuf,
    /// End after this time [default: with Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Count larger replies as this many bytes
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    max_size: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = &arguments.out;
    // Found out now, and not when the recording is over.
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::misuse(format!("--out: {}: no such directory", folder.display())));
    }
    let trace = recorded(arguments)?;
    let trace =
        trace.ok_or_else(|| Failure::new(Party::Load, "no request came; no trace is written"))?;
    let bytes = save(out, &trace)?;
    print(&format!(
        "{}: {} requests on {} connections in {:.0} s; {bytes} bytes",
        out.display(),
        trace.requests(),
        trace.head.connections,
        trace.seconds(),
    ))
}

/// The trace of what passes until the end; `None` if no request came.
fn recorded(arguments: &Arguments) -> Result<Option<Trace>, Failure> {
    let Arguments { interface, port, listen, to, duration, max_size, .. } = arguments;
    let interrupted = on_interrupt()?;
    if let (Some(interface), Some(port)) = (interface, port) {
        let (packets, dropped) =
            interface::run(interface, *port, *duration, *max_size, &interrupted)?;
        if dropped > 0 {
            log::tell(format_args!(
                "the kernel dropped {dropped} packets: connections are incomplete"
            ));
        }
        return Ok(packets.finish("packets", *max_size));
    }
    let (Some(listen), Some(to)) = (*listen, *to) else {
        return Err(Failure::misuse(
            "name the traffic: --interface and --port, or --listen and --to",
        ));
    };
    let recorder = Recorder::new(*max_size);
    let (recorder, failed) = proxy::run(listen, to, *duration, recorder, interrupted)?;
    if failed > 0 {
        log::tell(format_args!("{failed} connections found no server at {to}"));
    }
    Ok(recorder.finish("proxy", proxy::now()))
}
