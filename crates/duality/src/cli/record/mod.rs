//! `duality record`: makes a trace of live traffic, as a proxy in front of a server.

mod proxy;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use duality_lab::units::{parse_bytes, parse_duration};
use duality_runtime::log;
use duality_trace::recorder::Recorder;

use super::address::listen_address;
use super::load::on_interrupt;
use super::trace::save;
use super::{Failure, print};

#[derive(clap::Args)]
#[command(after_help = "\
A proxy stands in front of a server, passes all bytes on, and writes a trace of
them when it ends, by Ctrl-C, SIGTERM or --duration. It keeps no byte and no
address, and knows no protocol: a request is what a client sends until the
server replies. So it records TLS, too.

Examples:
  duality record --listen 0.0.0.0:8080 --to 127.0.0.1:80 -o my.trace
  duality record --listen 8080 --to 80 --duration 10m

Where a proxy cannot stand in the path, record headers of packets (as root):
  tcpdump -i eth0 -s 128 -w - tcp port 80 | duality trace from - -o my.trace")]
pub(super) struct Arguments {
    /// Where clients connect
    #[arg(short, long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: SocketAddr,
    /// The server
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    to: SocketAddr,
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "my.trace")]
    out: PathBuf,
    /// End after this time [default: with Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Count larger replies as so many bytes
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    max_size: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { listen, to, out, duration, max_size } = arguments;
    // Checked now, and not at the end of the recording.
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::misuse(format!("--out: {}: no such directory", folder.display())));
    }
    let interrupted = on_interrupt()?;
    let recorder = Recorder::new(*max_size);
    let (recorder, failed) = proxy::run(*listen, *to, *duration, recorder, interrupted)?;
    if failed > 0 {
        log::tell(format_args!("{failed} connections found no server at {to}"));
    }
    let trace = recorder.finish("proxy", proxy::now());
    let trace = trace.ok_or_else(|| Failure::failed("no request came; no trace is written"))?;
    let bytes = save(out, &trace)?;
    print(&format!(
        "{}: {} requests on {} connections in {:.0} s; {bytes} bytes",
        out.display(),
        trace.requests(),
        trace.head.connections,
        trace.seconds(),
    ))
}
