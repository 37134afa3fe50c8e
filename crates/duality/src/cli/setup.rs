//! What a service is set up with: files, templates, a store. `serve` takes these flags, and `compare`
//! hands them on to the servers that it starts.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use duality_services::store::{Location, Options, RedisCalls, Store};
use duality_services::{Entry, guestbook, http};

use super::Failure;

#[derive(Clone, Default, clap::Args)]
pub(crate) struct Setup {
    /// The directory whose files `http` and `guestbook` serve; without it, a few built-in pages
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The directory of guestbook's templates: NAME.html is the page /NAME
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// Where `guestbook` and `phone` keep what they are told: sqlite:PATH or redis://HOST:PORT [default: sqlite:SERVICE.sqlite]
    #[arg(long, value_name = "STORE")]
    store: Option<Location>,
    /// How `guestbook` talks to Redis
    #[arg(long, value_enum)]
    redis_calls: Option<RedisCallsName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RedisCallsName {
    /// In one round trip (the default)
    Pipelined,
    /// Three calls, one after the other, as ZeroHTTPd makes them
    Separate,
}

impl Setup {
    /// Refuses what means nothing to the service, whose `entry` is `None` for a program's own.
    pub(crate) fn check(&self, name: &str, entry: Option<&Entry>) -> Result<(), Failure> {
        let files = entry.is_some_and(|entry| entry.serves_files);
        let store = entry.is_some_and(|entry| entry.store);
        let templates = name == guestbook::ENTRY.name;
        let senseless = [
            ("--root", self.root.is_some() && !files, "serves no files"),
            ("--store", self.store.is_some() && !store, "keeps nothing"),
            ("--templates", self.templates.is_some() && !templates, "has no templates"),
            (
                "--redis-calls",
                self.redis_calls.is_some() && !templates,
                "does not choose its calls",
            ),
        ];
        match senseless.into_iter().find(|(_, senseless, _)| *senseless) {
            None => Ok(()),
            Some((flag, _, why)) => {
                Err(Failure::misuse(format!("{flag}: the service `{name}` {why}: leave it out")))
            }
        }
    }

    /// The arguments that say the same again, to a server that is started as a child.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let path = |flag: &str, path: &PathBuf| format!("--{flag}={}", path.display());
        let mut arguments = Vec::new();
        arguments.extend(self.root.iter().map(|root| path("root", root)));
        arguments.extend(self.templates.iter().map(|templates| path("templates", templates)));
        arguments.extend(self.redis_calls.iter().map(|calls| {
            let calls = match calls {
                RedisCallsName::Pipelined => "pipelined",
                RedisCallsName::Separate => "separate",
            };
            format!("--redis-calls={calls}")
        }));
        arguments
    }

    /// What http is set up with.
    pub(crate) fn http(&self) -> http::Config {
        http::Config { root: self.root.clone(), ..http::Config::default() }
    }

    pub(crate) fn templates(&self) -> Option<&Path> {
        self.templates.as_deref()
    }

    /// Sets up the store of the service called `name`.
    pub(crate) fn open_store(&self, name: &str) -> Result<Store, Failure> {
        let location = self.store.clone().unwrap_or_else(|| {
            let file = format!("{name}.sqlite");
            eprintln!("duality: keeping what {name} is told in ./{file} (--store says where else)");
            Location::sqlite(file)
        });
        let redis_calls = match self.redis_calls {
            Some(RedisCallsName::Separate) => RedisCalls::Separate,
            Some(RedisCallsName::Pipelined) | None => RedisCalls::Pipelined,
        };
        Store::new(&location, Options { redis_calls, ..Options::default() })
            .map_err(|error| Failure::failed(error.to_string()))
    }
}
