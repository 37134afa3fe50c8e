//! `duality trace`: makes traces of clients' behaviour from logs, and shows the content of traces.

use std::path::{Path, PathBuf};
use std::time::Duration;

use duality_lab::Mistake;
use duality_lab::page::{write_private, write_whole};
use duality_lab::tell::answers;
use duality_lab::tell::render::html::html;
use duality_lab::tell::render::text::{TERMINAL, text};
use duality_lab::traffic::Summary;
use duality_lab::units::{parse_bytes, parse_duration};
use duality_runtime::log;
use duality_trace::readers::{
    self, Filter, Format, Glob, Made, Pattern, Rules, Stamp, StatusSet, filter,
};
use duality_trace::{Trace, file};

use super::runs::unwritten;
use super::{Blame, Failure, Party, print};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a trace from logs of a server, or from a capture
    From(Box<From>),
    /// Show what is in a trace
    Show(Show),
}

#[derive(clap::Args)]
#[command(after_help = "\
A trace says when connections came, how many requests each made with which
pauses, and how large the replies were. It has no address and no header, and no
path without --paths.

Examples:
  duality trace from access.log -o my.trace
  duality trace from access.log.2.gz access.log.1 access.log -o week.trace
  duality trace from access.log --paths -o own.trace
      keeps paths and their queries, for a server of your own; what looks like
      a secret becomes *
  duality trace from access.log --since 2026-11-28T12:00:00Z --path '/api/*'
      only these requests; also --until, --status, --agent and --no-agent
  duality trace from my.log --format '$remote_addr $msec \"$request\" $status'
      a format of your own, with the names of nginx's variables
  tcpdump -i eth0 -s 128 -w - tcp port 443 | duality trace from - -o my.trace
  duality trace show my.trace

docs/trace.md says what each format tells, and how nginx writes one that tells
more.")]
struct From {
    /// Logs of one server in any order, also compressed by gzip; - is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "my.trace")]
    out: PathBuf,
    /// What the logs are: auto finds it by their first bytes. Or a format of lines, such as
    /// '$remote_addr [$time_local] "$request" $status $bytes_sent'
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = parse_format)]
    format: Lines,
    /// How long the server keeps idle connections, where a log does not name connections; 0 is a
    /// connection for each request
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = parse_duration)]
    keep_alive: Duration,
    /// Keep paths with their queries. What looks like a secret becomes *
    #[arg(long)]
    paths: bool,
    /// Keep secrets in paths, too, such as tokens and keys
    #[arg(long, requires = "paths")]
    keep_secrets: bool,
    /// Only requests from this time on, such as 2026-11-28T17:00:00Z
    #[arg(long, value_name = "TIME", value_parser = filter::time)]
    since: Option<i64>,
    /// Only requests before this time
    #[arg(long, value_name = "TIME", value_parser = filter::time)]
    until: Option<i64>,
    /// Only requests for this path, such as /api/*; once for each
    #[arg(long, value_name = "PATH")]
    path: Vec<Glob>,
    /// Only requests that were answered so, such as 200,3xx or 400-499
    #[arg(long, value_name = "STATUS,…")]
    status: Option<StatusSet>,
    /// Only requests of agents with this text in their name; once for each
    #[arg(long, value_name = "TEXT")]
    agent: Vec<String>,
    /// No requests of agents with this text in their name, such as bot; once for each
    #[arg(long, value_name = "TEXT")]
    no_agent: Vec<String>,
    /// Count larger replies as this many bytes
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    max_size: u64,
    /// What stamps of a common or combined log are of: nginx writes ends, Apache begins [default:
    /// by the order of the lines]
    #[arg(long, value_parser = ["start", "end"])]
    stamp: Option<String>,
    /// Count only requests to this host, of a HAR [default: the host of the first request]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The port of the server, of a capture [default: the one with most connections]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

#[derive(clap::Args)]
struct Show {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::From(arguments) => from(arguments),
        Command::Show(arguments) => show(arguments),
    }
}

/// What the lines of a log are.
#[derive(Clone, Debug)]
enum Lines {
    Auto,
    Known(Format),
    Given(String),
}

fn parse_format(text: &str) -> Result<Lines, Mistake> {
    if text.contains('$') {
        return text.parse::<Pattern>().map(|_| Lines::Given(text.to_owned()));
    }
    let known = Format::ALL.into_iter().find(|format| format.name() == text);
    match (text, known) {
        ("auto", _) => Ok(Lines::Auto),
        (_, Some(format)) => Ok(Lines::Known(format)),
        (_, None) => {
            let all = Format::ALL.map(Format::name).join(", ");
            Err(format!("choose from auto, {all}, or give a format with $status in it").into())
        }
    }
}

fn from(arguments: &From) -> Result<(), Failure> {
    let rules = Rules {
        keep_alive: arguments.keep_alive,
        paths: arguments.paths,
        keeps_secrets: arguments.keep_secrets,
        filter: Filter {
            since: arguments.since,
            until: arguments.until,
            paths: arguments.path.clone(),
            statuses: arguments.status.clone(),
            agents: arguments.agent.clone(),
            other_agents: arguments.no_agent.clone(),
        },
        pattern: match &arguments.format {
            Lines::Given(pattern) => Some(pattern.clone()),
            Lines::Auto | Lines::Known(_) => None,
        },
        max_size: arguments.max_size,
        stamp: arguments.stamp.as_deref().map(|stamp| match stamp {
            "start" => Stamp::Start,
            _ => Stamp::End,
        }),
        host: arguments.host.clone(),
        port: arguments.port,
    };
    let format = match arguments.format {
        Lines::Known(format) => Some(format),
        Lines::Auto | Lines::Given(_) => None,
    };
    let made = readers::make(&arguments.logs, format, &rules)?;
    let Made { trace, rejected, .. } = made;
    for line in &rejected.first {
        log::tell(format_args!("left out: {line}"));
    }
    if rejected.count > rejected.first.len() as u64 {
        log::tell(format_args!("left out: {} in all", rejected.count));
    }
    let bytes = save(&arguments.out, &trace)?;
    for warning in &trace.head.warnings {
        log::tell(format_args!("to know: {warning}"));
    }
    let head = &trace.head;
    print(&format!(
        "{}: {} requests on {} connections in {:.0} s, from {}; {bytes} bytes\n\
         What was inferred, and the rest: duality trace show {}",
        arguments.out.display(),
        head.requests,
        head.connections,
        trace.seconds(),
        head.source,
        arguments.out.display(),
    ))
}

/// Writes a trace, which its user alone may read, and returns the size of its file.
pub(super) fn save(path: &Path, trace: &Trace) -> Result<usize, Failure> {
    let mut bytes = Vec::new();
    file::encode(trace, &mut bytes).blame(Party::Machine)?;
    write_private(path, &bytes).map_err(|error| unwritten(path, &error))?;
    Ok(bytes.len())
}

fn show(arguments: &Show) -> Result<(), Failure> {
    let trace = file::read(&arguments.trace).blame(Party::User)?;
    let summary = Summary::of(&trace);
    let title = arguments.trace.file_name().unwrap_or_default().to_string_lossy();
    let sheet = answers::traffic::sheet(&title, &summary);
    if let Some(path) = &arguments.page {
        write_whole(path, &html(&sheet)).map_err(|error| unwritten(path, &error))?;
        log::tell(format_args!("page: {}", path.display()));
    }
    match arguments.json {
        true => print(&summary.json()),
        false => print(&text(&sheet, TERMINAL)),
    }
}
