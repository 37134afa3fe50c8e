//! What a service is set up with: files, templates, and how to talk to a store.

use std::path::{Path, PathBuf};

use duality_lab::plan::settings::{Misfit, Settings};
use duality_runtime::log;
use duality_services::store::{Location, Options, RedisCalls, Store};
use duality_services::{Entry, guestbook, http};

use crate::failure::Failure;

/// What the flags of `serve` say, or an experiment asks for.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// The directory whose files are served; none serves a few built-in pages.
    pub(crate) root: Option<PathBuf>,
    /// The directory of guestbook's templates; none takes the built-in one.
    pub(crate) templates: Option<PathBuf>,
    /// How guestbook talks to Redis, where that was said.
    pub(crate) redis_calls: Option<RedisCalls>,
}

impl Setup {
    /// What an experiment asks for.
    ///
    /// # Errors
    ///
    /// A [`Misfit`] when it asks for something that there is not.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Misfit> {
        let redis_calls = settings.redis_calls.as_deref().map(|name| {
            RedisCalls::ALL.into_iter().find(|calls| calls.name() == name).ok_or_else(|| {
                let names = RedisCalls::ALL.map(RedisCalls::name).join(" or ");
                Misfit::new("redis-calls", format!("there is no `{name}`: choose {names}"))
            })
        });
        Ok(Self {
            root: settings.root.clone(),
            templates: settings.templates.clone(),
            redis_calls: redis_calls.transpose()?,
        })
    }

    /// Refuses what means nothing to the service called `name`, whose `entry` is `None` for a program's own.
    pub(crate) fn check(&self, name: &str, entry: Option<&Entry>) -> Result<(), Misfit> {
        let files = entry.is_some_and(|entry| entry.serves_files);
        let templates = name == guestbook::ENTRY.name;
        let senseless = [
            ("root", self.root.is_some() && !files, "serves no files"),
            ("templates", self.templates.is_some() && !templates, "has no templates"),
            ("redis-calls", self.redis_calls.is_some() && !templates, "does not choose its calls"),
        ];
        match senseless.into_iter().find(|(_, senseless, _)| *senseless) {
            None => Ok(()),
            Some((key, _, why)) => {
                Err(Misfit::new(key, format!("the service `{name}` {why}: leave it out")))
            }
        }
    }

    /// The arguments that say the same again, to a server that is started as a child.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let path = |flag: &str, path: &PathBuf| format!("--{flag}={}", path.display());
        let mut arguments = Vec::new();
        arguments.extend(self.root.iter().map(|root| path("root", root)));
        arguments.extend(self.templates.iter().map(|templates| path("templates", templates)));
        arguments.extend(self.redis_calls.map(|calls| format!("--redis-calls={}", calls.name())));
        arguments
    }

    /// What http is set up with.
    pub(crate) fn http(&self) -> http::Config {
        http::Config { root: self.root.clone(), ..http::Config::default() }
    }

    pub(crate) fn templates(&self) -> Option<&Path> {
        self.templates.as_deref()
    }

    /// Sets up the store of the service called `name`: at `location`, or in a file of its own.
    pub(crate) fn open_store(
        &self,
        name: &str,
        location: Option<&Location>,
    ) -> Result<Store, Failure> {
        let location = location.cloned().unwrap_or_else(|| {
            let file = format!("{name}.sqlite");
            log::warn(format_args!(
                "keeping what {name} is told in ./{file} (--store says where else)"
            ));
            Location::sqlite(file)
        });
        let redis_calls = self.redis_calls.unwrap_or_default();
        let store = Store::new(&location, Options { redis_calls, ..Options::default() })
            .map_err(|error| Failure::failed(error.to_string()))?;
        // The operator has been told, and may start the store later.
        let _ = store.reach();
        Ok(store)
    }
}
