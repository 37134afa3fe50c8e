//! The flags of `duality compare` about a recording that is replayed (docs/replay.md).

use std::path::PathBuf;

use duality_lab::ask::settings::{Settings, parse_bytes};

use super::heading;

#[derive(clap::Args)]
pub(in crate::cli) struct ReplayFlags {
    /// Your load: a recording, which all servers replay at once (docs/replay.md)
    ///
    /// `duality trace from` makes a recording from an access log. The answer says which
    /// architecture costs least at this load, and whether the choice matters at your traffic. It
    /// also says how many users each architecture has room for.
    #[arg(long, visible_alias = "trace", value_name = "TRACE", conflicts_with_all = ["concurrency", "load_command"], display_order = 0)]
    load_from: Option<PathBuf>,
    /// How many times the users of --load-from [default: such that there is enough to measure]
    #[arg(long, value_delimiter = ',', value_name = "N,…", help_heading = heading::CLIENTS)]
    users: Option<Vec<usize>>,
    /// How many times as fast --load-from is replayed: a what-if, since users do not think faster
    #[arg(long, value_name = "X", help_heading = heading::CLIENTS)]
    speed: Option<f64>,
    /// The place in --load-from: busiest, median, or a time such as 90s [default: anywhere]
    #[arg(long, value_name = "PLACE", help_heading = heading::CLIENTS)]
    at: Option<String>,
    /// How many users of --load-from come at the same time: a what-if [default: 1]
    #[arg(long, value_name = "N", help_heading = heading::CLIENTS)]
    bunch: Option<usize>,
    /// The speed at which each client of --load-from takes its replies, in bytes a second such as
    /// 128KB: a what-if [default: as recorded]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = heading::CLIENTS)]
    client_rate: Option<u64>,
    /// Also measure what would change the answer: twice the users, bursts, no keep-alive, slow
    /// clients
    ///
    /// Five experiments then share the time. The last lines say what each of them answers
    /// (docs/replay.md).
    #[arg(long, requires = "load_from", conflicts_with_all = ["bunch", "client_rate", "binary"], help_heading = heading::CLIENTS)]
    pub(in crate::cli) what_ifs: bool,
}

impl ReplayFlags {
    /// Adds what the flags say to `settings`.
    pub(in crate::cli) fn put_into(&self, settings: &mut Settings) {
        settings.trace.clone_from(&self.load_from);
        settings.users.clone_from(&self.users);
        settings.speed = self.speed;
        settings.at.clone_from(&self.at);
        settings.bunch = self.bunch;
        settings.client_rate = self.client_rate;
    }
}
