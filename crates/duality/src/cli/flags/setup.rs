//! The flags that set up a service. `serve` takes them, and `compare` hands them on to the servers
//! that it starts.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use duality_lab::ask::settings::{Settings, parse_bytes};
use duality_services::Setup;
use duality_services::store::RedisCalls;

use super::heading;

#[derive(Clone, Default, clap::Args)]
pub(crate) struct SetupFlags {
    /// The directory with the files that `http` and `guestbook` serve; without it, a few built-in
    /// pages
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The directory of guestbook's templates: NAME.html is the page /NAME
    #[arg(long, value_name = "DIR", help_heading = heading::SERVICE)]
    templates: Option<PathBuf>,
    /// How `guestbook` talks to Redis [default: pipelined]
    ///
    /// pipelined: in one round trip; separate: three calls, one after the other, as ZeroHTTPd makes
    /// them
    #[arg(long, value_parser = redis_calls(), help_heading = heading::SERVICE)]
    redis_calls: Option<RedisCalls>,
    /// The file that `blocks` reads and writes [default: a temporary file]
    #[arg(long, value_name = "FILE", help_heading = heading::SERVICE)]
    data: Option<PathBuf>,
    /// Bytes of that file, such as 64MB [default: 1MB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = heading::SERVICE)]
    data_size: Option<u64>,
    /// Bytes that `blocks` reads for each request [default: 80KB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = heading::SERVICE)]
    read_size: Option<u64>,
    /// A server behind `relay`; repeat the flag for more, which take turns
    ///
    /// A name is looked up once, when the relay starts. A comparison without this flag has a server
    /// of its own: http on epoll, on the load generator's processors (docs/relay.md).
    #[arg(long, value_name = "HOST:PORT", help_heading = heading::SERVICE)]
    upstream: Vec<String>,
}

impl SetupFlags {
    /// The setup that the flags give, without the store.
    pub(in crate::cli) fn setup(&self) -> Setup {
        let Self { root, templates, redis_calls, data, data_size, read_size, upstream } =
            self.clone();
        Setup {
            root,
            templates,
            redis_calls,
            data,
            data_size,
            read_size,
            upstreams: upstream,
            ..Setup::default()
        }
    }

    /// Adds the values of these flags to the settings of an experiment.
    pub(in crate::cli) fn put_into(&self, settings: &mut Settings) {
        settings.root.clone_from(&self.root);
        settings.templates.clone_from(&self.templates);
        settings.redis_calls = self.redis_calls.map(|calls| calls.name().to_owned());
        settings.data.clone_from(&self.data);
        settings.data_size = self.data_size;
        settings.read_size = self.read_size;
        settings.upstream = (!self.upstream.is_empty()).then(|| self.upstream.clone());
    }
}

fn redis_calls() -> impl TypedValueParser<Value = RedisCalls> {
    PossibleValuesParser::new(RedisCalls::ALL.map(RedisCalls::name)).map(|name| {
        let found = RedisCalls::ALL.into_iter().find(|calls| calls.name() == name);
        found.expect("only names are possible")
    })
}
