//! The set-up of a service: files, templates, sizes, and its store.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use duality_runtime::log;

use crate::{
    http,
    relay::{self, Forwarded},
    store::{Channel, InvalidStore, Location, Options, RedisCalls, Store},
};

/// The operator's choices. [`Default`] means that nothing was chosen.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The directory of the files to serve. `None`: a few built-in pages.
    pub root: Option<PathBuf>,
    /// The directory of templates. `None`: the built-in template.
    pub templates: Option<PathBuf>,
    /// How to talk to Redis, if the operator chose it.
    pub redis_calls: Option<RedisCalls>,
    /// The file that blocks reads and writes. `None`: the service makes one.
    pub data: Option<PathBuf>,
    /// The size of that file in bytes.
    pub data_size: Option<u64>,
    /// How many bytes blocks reads for each request.
    pub read_size: Option<u64>,
    /// The location of the store. `None`: an SQLite file named after the service, in the working
    /// directory. A service that keeps no data then has no store, and is not joined to other
    /// servers.
    pub store: Option<Location>,
    /// Whether an acknowledged write must survive a loss of power, not only the end of the process.
    pub durable: bool,
    /// The servers behind the relay, each a `HOST:PORT`.
    pub upstreams: Vec<String>,
    /// The bounds on times.
    pub times: Times,
    /// What the relay asks its upstreams for, to see whether they are well.
    pub health_check: Option<String>,
    /// How often it asks.
    pub health_interval: Option<Duration>,
    /// What the relay makes of `X-Forwarded-For` and its like.
    pub forwarded: Option<Forwarded>,
    /// Whether clients that have ended their sending side are served however long it takes: by the
    /// relay, and by services that wait for a store.
    pub half_closed: bool,
}

/// Bounds on times that the operator can choose. `None` is the service's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// [`http::Limits::head_time`].
    pub head: Option<Duration>,
    /// [`http::Limits::body_time`].
    pub body: Option<Duration>,
    /// [`http::Limits::idle_time`].
    pub idle: Option<Duration>,
    /// [`http::Limits::write_time`].
    pub write: Option<Duration>,
    /// [`relay::Limits::connect_time`].
    pub connect: Option<Duration>,
    /// [`relay::Limits::reply_time`].
    pub reply: Option<Duration>,
}

impl Times {
    fn http(&self) -> http::Limits {
        let own = http::Limits::default();
        http::Limits {
            head_time: self.head.unwrap_or(own.head_time),
            body_time: self.body.unwrap_or(own.body_time),
            idle_time: self.idle.unwrap_or(own.idle_time),
            write_time: self.write.unwrap_or(own.write_time),
            ..own
        }
    }

    fn relay(&self) -> relay::Limits {
        let own = relay::Limits::default();
        relay::Limits {
            client: self.http(),
            connect_time: self.connect.unwrap_or(own.connect_time),
            reply_time: self.reply.unwrap_or(own.reply_time),
            ..own
        }
    }
}

/// How often upstreams are asked whether they are well, unless the operator says otherwise.
const HEALTH_INTERVAL: Duration = Duration::from_secs(2);

/// A setting that the operator can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// [`Setup::root`].
    Root,
    /// [`Setup::templates`].
    Templates,
    /// [`Setup::redis_calls`].
    RedisCalls,
    /// [`Setup::store`].
    Store,
    /// [`Setup::durable`].
    Durable,
    /// [`Setup::data`].
    Data,
    /// [`Setup::data_size`].
    DataSize,
    /// [`Setup::read_size`].
    ReadSize,
    /// [`Setup::upstreams`].
    Upstream,
    /// [`Times::head`].
    HeadTime,
    /// [`Times::body`].
    BodyTime,
    /// [`Times::idle`].
    IdleTime,
    /// [`Times::write`].
    WriteTime,
    /// [`Times::connect`].
    ConnectTime,
    /// [`Times::reply`].
    ReplyTime,
    /// [`Setup::health_check`].
    HealthCheck,
    /// [`Setup::health_interval`].
    HealthInterval,
    /// [`Setup::forwarded`].
    Forwarded,
    /// [`Setup::half_closed`].
    HalfClosed,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Root,
        Self::Templates,
        Self::RedisCalls,
        Self::Store,
        Self::Durable,
        Self::Data,
        Self::DataSize,
        Self::ReadSize,
        Self::Upstream,
        Self::HeadTime,
        Self::BodyTime,
        Self::IdleTime,
        Self::WriteTime,
        Self::ConnectTime,
        Self::ReplyTime,
        Self::HealthCheck,
        Self::HealthInterval,
        Self::Forwarded,
        Self::HalfClosed,
    ];

    /// The name in flags and plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Templates => "templates",
            Self::RedisCalls => "redis-calls",
            Self::Store => "store",
            Self::Durable => "durable",
            Self::Data => "data",
            Self::DataSize => "data-size",
            Self::ReadSize => "read-size",
            Self::Upstream => "upstream",
            Self::HeadTime => "head-time",
            Self::BodyTime => "body-time",
            Self::IdleTime => "idle-time",
            Self::WriteTime => "write-time",
            Self::ConnectTime => "connect-time",
            Self::ReplyTime => "reply-time",
            Self::HealthCheck => "health-check",
            Self::HealthInterval => "health-interval",
            Self::Forwarded => "forwarded",
            Self::HalfClosed => "serve-half-closed",
        }
    }

    /// The message for a service without this setting.
    #[must_use]
    pub const fn absence(self) -> &'static str {
        match self {
            Self::Root => "serves no files",
            Self::Templates => "has no templates",
            Self::RedisCalls => "does not choose its calls",
            Self::Store | Self::Durable => "keeps nothing",
            Self::Data | Self::DataSize | Self::ReadSize => "has no data file",
            Self::Upstream
            | Self::ConnectTime
            | Self::ReplyTime
            | Self::HealthCheck
            | Self::HealthInterval
            | Self::Forwarded => "relays nothing",
            Self::HalfClosed => "waits for nothing but its clients",
            Self::HeadTime | Self::BodyTime | Self::IdleTime | Self::WriteTime => {
                "has no such time"
            }
        }
    }
}

impl Setup {
    /// Whether the operator chose `setting`.
    #[must_use]
    pub fn has(&self, setting: Setting) -> bool {
        match setting {
            Setting::Root => self.root.is_some(),
            Setting::Templates => self.templates.is_some(),
            Setting::RedisCalls => self.redis_calls.is_some(),
            Setting::Store => self.store.is_some(),
            Setting::Durable => self.durable,
            Setting::Data => self.data.is_some(),
            Setting::DataSize => self.data_size.is_some(),
            Setting::ReadSize => self.read_size.is_some(),
            Setting::Upstream => !self.upstreams.is_empty(),
            Setting::HeadTime => self.times.head.is_some(),
            Setting::BodyTime => self.times.body.is_some(),
            Setting::IdleTime => self.times.idle.is_some(),
            Setting::WriteTime => self.times.write.is_some(),
            Setting::ConnectTime => self.times.connect.is_some(),
            Setting::ReplyTime => self.times.reply.is_some(),
            Setting::HealthCheck => self.health_check.is_some(),
            Setting::HealthInterval => self.health_interval.is_some(),
            Setting::Forwarded => self.forwarded.is_some(),
            Setting::HalfClosed => self.half_closed,
        }
    }

    /// The settings of http.
    pub(crate) fn http(&self) -> http::Config {
        http::Config { root: self.root.clone(), limits: self.times.http() }
    }

    /// The settings of a relay to these upstreams.
    pub(crate) fn relay(&self, upstreams: Vec<SocketAddr>) -> relay::Config {
        let interval = self.health_interval.unwrap_or(HEALTH_INTERVAL);
        let health = self.health_check.clone().map(|target| relay::Health { target, interval });
        relay::Config {
            upstreams,
            limits: self.times.relay(),
            forwarded: self.forwarded.unwrap_or_default(),
            serves_half_closed: self.half_closed,
            health,
        }
    }

    /// Sets up the store of the service called `name`. If the location was not chosen, prints it.
    pub(crate) fn open_store(&self, name: &str) -> Result<Store, SetupError> {
        let location = self.store.clone().unwrap_or_else(|| {
            let file = format!("{name}.sqlite");
            log::warn(format_args!(
                "keeping what clients tell {name} in ./{file} (choose another place by --store)"
            ));
            Location::sqlite(file)
        });
        let location = match self.durable {
            true => location.durable().map_err(SetupError::NotDurable)?,
            false => location,
        };
        let redis_calls = self.redis_calls.unwrap_or_default();
        let store = Store::new(&location, Options { redis_calls, ..Options::default() })?;
        // `reach` has told the operator, and the store may start later.
        let _ = store.reach();
        Ok(store)
    }

    /// Opens the channel to the other servers of the service called `name`, if a store was chosen.
    pub(crate) fn open_channel(&self, name: &'static str) -> Result<Option<Channel>, SetupError> {
        let Some(location) = &self.store else { return Ok(None) };
        if matches!(location, Location::Sqlite { .. }) {
            let problem =
                format!("a file does not join the servers of a {name}: give redis://HOST:PORT");
            let error = io::Error::new(io::ErrorKind::InvalidInput, problem);
            return Err(SetupError::Choice { flags: "--store", error });
        }
        let channel = Channel::new(location, name, Options::default())?;
        // `reach` has told the operator, and Redis may start later.
        let _ = channel.reach();
        Ok(Some(channel))
    }
}

/// Why a service cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The chosen file or store does not exist, or has the wrong kind. The error names the place
    /// and the remedy.
    #[error("{flags}: {error}")]
    Choice {
        /// The flags of the setting.
        flags: &'static str,
        /// The mistake in the setting.
        error: io::Error,
    },
    /// The store cannot promise the durability of `--durable`.
    #[error("--durable: {0}")]
    NotDurable(InvalidStore),
    /// The store cannot be set up.
    #[error(transparent)]
    Store(#[from] InvalidStore),
}
