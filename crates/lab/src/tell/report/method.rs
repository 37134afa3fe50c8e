//! How an experiment was measured, and what its figures can and cannot show.

use super::table;
use crate::format;
use crate::judge::summary::Summary;
use crate::record::{Design, Heading, Machine};
use crate::tell::sheet::{Manner, Part, Table, Words, left, right};

/// How the experiment was measured, beside where.
pub(super) fn parts(heading: &Heading, summary: &Summary) -> Part {
    let design = &heading.design;
    let how = vec![
        Part::subheading("How it was measured"),
        Part::list("", how(design, summary)),
        Part::subheading("What the figures can and cannot show"),
        Part::list("", limits(design)),
    ];
    Part::Beside(vec![how, machines(heading)])
}

fn how(design: &Design, summary: &Summary) -> Vec<Words> {
    let mut parts = order(design);
    parts.push(set_up(design).into());
    parts.push(verdict(summary));
    parts.push(Words::default().terms(
        "A *yardstick* is a server that cannot be chosen. The page shows it for comparison.",
    ));
    parts.extend(design.variants.iter().map(|variant| {
        let (name, options) = (&variant.name, variant.options.join(" "));
        format!("{name} is {} with {options}.", variant.architecture).into()
    }));
    if !design.peers.is_empty() {
        let reply = match design.load_command {
            None => " A reply is right when it equals the peer's first reply.",
            Some(_) => "",
        };
        let peers = "Peers are servers that are not ours. They get the same load, and are pinned \
            in the same way. All processes of a peer are counted. The processor time of processes \
            and threads that ended is known to 10 ms, and their context switches are not known.";
        parts.push(format!("{peers}{reply}").into());
    }
    parts.extend(design.control.iter().map(|control| {
        let is = Words::from(control.as_str()).then(" is a ").and(Manner::Term, "control");
        is.then(
            ": one architecture, measured a second time under another name. The control shows \
             what chance does. It is compared only with that architecture.",
        )
    }));
    parts.push(
        "Do not trust figures marked “✗”: the load generator could not do its work. The warning \
         says why."
            .into(),
    );
    parts
}

/// Sessions, cells, and blocks.
fn order(design: &Design) -> Vec<Words> {
    let (repeats, blocks) = (design.repeats, design.blocks);
    let (window, warm_up) = (design.window_seconds, design.warm_up_seconds);
    let counted = if design.recording.is_some() { "users" } else { "connections" };
    let sessions = format!(
        "For each number of {counted} there were {repeats} *sessions*. In each, every *subject*"
    );
    let sessions = || Words::default().terms(&sessions);
    let kinds = " (an architecture, a variant of one, or a peer) had a fresh server";
    let turns = |driven: &str| {
        let drift = "Rates, processor times and the verdict come from blocks. Any drift of a \
            shared machine hits all servers of a block alike.";
        Words::default().terms(driven).terms(&format!(
            ", in an order drawn at random and then mirrored. Such a round is a *block*, and a \
             session has {blocks}. {drift}"
        ))
    };
    if let Some(words) = &design.load_command {
        let load = Words::from("The load is a command, run once for each measurement: ")
            .and(Manner::Code, table::command(words))
            .then(
                ". Requests, failures and latencies are what the command printed. The server's \
                 processor time and memory were measured from outside, for all its processes. \
                 “Measured load” needs mean latencies.",
            );
        let cells = sessions().terms(
            " had a fresh server. The first run warmed the server up and does not count. The next \
             run is a *cell*, which gives latencies and memory.",
        );
        let turns = turns("Then the command ran against one server at a time");
        let turns = (blocks > 0).then_some(turns);
        return [load, cells].into_iter().chain(turns).collect();
    }
    if design.recording.is_some() {
        let alone = sessions().terms(kinds).terms(&format!(
            ". First each server got the load alone, for a piece of {window} s of the recording. \
             This piece is a *cell*, which gives latencies, memory and failures."
        ));
        let together = Words::default().terms(&format!(
            "Then all servers got the load at once, for two more pieces. These are a *block*, and \
             a session has {blocks}. Every connection went to each server, its copies up to 20 ms \
             apart, and each server has a processor clock of its own. Processor times and the \
             verdict come from blocks. Servers that together use more than half of their \
             processors get the load in groups. The last blocks have only the servers within 10 % \
             of the best."
        ));
        return vec![alone, together];
    }
    if blocks > 0 {
        let alone = sessions().terms(kinds).terms(&format!(
            ", and all servers were alive side by side. First each was measured alone, for \
             {window} s after {warm_up} s of warm-up, in a window of its own. This window is a \
             *cell*, which gives latencies and memory."
        ));
        let slices = "Then the load generator drove one server at a time for some 30 ms, a *slice*";
        return vec![alone, turns(slices)];
    }
    let times = if repeats == 1 { "time" } else { "times" };
    vec![Words::default().terms(&format!(
        "A *cell* is a *subject* (an architecture, a variant of one, or a peer) at a number of \
         open connections. Each is measured {repeats} {times}, with a fresh server, for {window} s \
         after {warm_up} s of warm-up. Cells are measured one after the other, in an order drawn \
         at random (seed {}).",
        design.seed
    ))]
}

/// Connections, and where both sides ran.
fn set_up(design: &Design) -> String {
    let requests = match design.keep_alive {
        true => "A connection carries request after request.",
        false => "Each request opens a connection of its own.",
    };
    let tls = if design.tls { "Clients and servers speak TLS. " } else { "" };
    let http2 = match design.http2 {
        true => "Clients speak HTTP/2, one request at a time on a connection. ",
        false => "",
    };
    let of_load = match design.load_command {
        None => {
            format!("Every reply is checked; a wrong byte is an error. {requests} {tls}{http2}")
        }
        Some(_) => String::new(),
    };
    let pinned = |cpus: &[usize]| {
        let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
        match names.is_empty() {
            true => "not pinned".to_owned(),
            false => format!("pinned to CPU {}", names.join(", ")),
        }
    };
    let (server, client) = (pinned(&design.server_cpus), pinned(&design.client_cpus));
    format!("{of_load}Servers are {server}; the load generator is {client}.")
}

/// What the words of the verdict mean.
fn verdict(summary: &Summary) -> Words {
    let margin = format::percent(summary.margin).replace(".0 ", " ");
    let counted = summary.counted.noun();
    let level = format!(
        "A subject is *level* with the best if the whole interval of their difference is within \
         {margin} ("
    );
    let rest = format!(
        "), which are two one-sided tests. It is *not told apart* if the interval is wider and \
         holds zero. It is *worse only by work that moved* if its own time is longer for sure, but \
         not the time of server and load generator together. Intervals are of Tukey's studentized \
         range. Their error is 2.5 % for all numbers of {counted} together. One figure decides for \
         all subjects. It is the server's processor time for a request where servers are busy, and \
         requests per second where they wait or use several processors. Where the rate is given, \
         it is the corrected latency."
    );
    Words::default().terms(&level).and(Manner::Code, "--margin").terms(&rest)
}

fn limits(design: &Design) -> Vec<Words> {
    let clients = &design.clients;
    let mut parts = Vec::new();
    if design.load_command.is_some() {
        parts.push(
            "Duality does not know how the load command checks replies, or whether it waits for \
             them. Ask its author."
                .into(),
        );
    } else if design.recording.is_some() {
        parts.push(
            "The load is a recording. Connections start at their recorded times, even if others \
             are late. Each makes its next request after the recorded think time. Latency counts \
             from when a request was due. Bodies have the recorded sizes and invented content."
                .into(),
        );
    } else if let Some(arrivals) = &clients.arrivals {
        parts.push(format!(
            "The load is an open loop: requests come at given times ({arrivals}), even if earlier \
             ones have no answer yet. Latency counts from when a request was due. All \
             architectures get the same requests. So requests/s show which ones keep up; latency \
             and CPU show at what cost."
        ));
    } else {
        parts.push(
            "The load is a closed loop: a connection makes its next request only when it has its \
             reply. So a slow server gets fewer requests, and its tail latencies look better than \
             with arrivals that do not wait."
                .into(),
        );
        match clients.pattern.as_str() {
            "serial" => parts.push(
                "One connection at a time is in use, each in its turn. So requests/s are the \
                 inverse of one request's time. The server has to keep the other connections."
                    .into(),
            ),
            "limited" => parts.push(
                "Replies are read in the order of the connections. The next request on a \
                 connection follows its reply. So a late reply holds up the replies behind it."
                    .into(),
            ),
            _ => {}
        }
    }
    parts.extend(clients.crowd().map(|crowd| {
        format!("Beside the connections that make the requests, these were open: {crowd}.")
    }));
    let where_it_ran = match design.topology {
        Some(_) => {
            "Roles were on the hosts below. Processor time and memory are those of the servers \
             alone, without balancer and store."
        }
        None => {
            "Client and server share a machine and talk over loopback. So there is no network \
             card, no loss and no distance, and both share caches and memory bandwidth."
        }
    };
    parts.extend(
        [
            where_it_ran,
            "“Client CPU” is the load generator's share of one processor. Where the load generator \
             was the limit, requests/s measure the client: compare CPU per request instead.",
            "A server that leaves connections waiting can look fast to those it serves. Warnings \
             say where that happened, and such cells are not compared.",
        ]
        .map(str::to_owned),
    );
    parts.into_iter().map(Words::from).collect()
}

/// The hosts of the roles, and the machine.
fn machines(heading: &Heading) -> Vec<Part> {
    let Heading { machine, design, .. } = heading;
    let mut parts = Vec::new();
    if let Some(topology) = &design.topology {
        let launcher = Words::from("The launcher was ").and(Manner::Code, &topology.launcher);
        let row = |(role, host, machine): (&str, String, &Machine)| {
            let Machine { kernel, cpu, cpus, .. } = machine;
            vec![host, role.to_owned(), kernel.clone(), cpu.clone(), cpus.to_string()]
        };
        let columns = ["host", "role", "kernel", "processor"].map(left);
        let columns = columns.into_iter().chain([right("CPUs")]);
        parts.extend([
            Part::subheading("The hosts"),
            Part::Sentence(launcher.then(".")),
            Part::Table(Table::new(columns, hosts(heading).into_iter().map(row))),
        ]);
    }
    let title = match design.topology {
        Some(_) => "The machine that asked",
        None => "The machine",
    };
    let facts = [
        ("Measured", format!("{}, by Duality {}", heading.started_at, heading.duality)),
        ("Kernel", machine.kernel.clone()),
        ("Processor", machine.cpu.clone()),
        ("CPUs", machine.cpus.to_string()),
        ("Memory", format::bytes(machine.memory_bytes as f64)),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
    let settings = machine.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
    parts.extend([Part::subheading(title), Part::Facts(facts.chain(settings).collect())]);
    parts
}

/// Each role of an experiment on hosts: its name, its host, and the host's description.
fn hosts(heading: &Heading) -> Vec<(&str, String, &Machine)> {
    let placements = heading.design.topology.iter().flat_map(|topology| &topology.hosts);
    placements
        .filter_map(|placement| {
            let address = placement.address.iter().map(|address| format!(" ({address})"));
            let host = placement.host.clone() + &address.collect::<String>();
            Some((placement.role.name(), host, heading.hosts.get(&placement.host)?))
        })
        .collect()
}
