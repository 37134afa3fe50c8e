//! The services that this program can serve: those that come with Duality, or one of the user's own.

use duality_architectures::{Needs, Service as Served};
use duality_handwritten as handwritten;
use duality_lab::plan::settings::Misfit;
use duality_services::store::Location;
use duality_services::{ALL, Entry, chat, echo, find, game, guestbook, http, phone, quote, time};

use crate::Service;
use crate::failure::{Failure, flag};
use crate::setup::Setup;

/// A service whose connections share a value, each with a clone of it.
macro_rules! shared {
    ($name:expr, $needs:expr, $value:expr) => {{
        let value = $value;
        Served::new($name, $needs, move |stream| {
            let value = value.clone();
            async move { value.serve(stream).await }
        })
    }};
    // What serves a connection has its own clone, and there are words for one that is one too many.
    ($name:expr, $needs:expr, $value:expr, refuse) => {{
        let value = $value;
        let refusing = value.clone();
        Served::new($name, $needs, move |stream| value.serve(stream)).refusing(move |stream| {
            let value = refusing.clone();
            async move { value.refuse(stream).await }
        })
    }};
}

/// The services that are also there as state machines written by hand.
const BY_HAND: [&str; 2] = [echo::ENTRY.name, http::ENTRY.name];

/// The services of this program.
pub(crate) enum Catalogue {
    BuiltIn,
    Own(Service),
}

/// What lists show of a service.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) needs: Needs,
    /// Whether it is a program's own, and not of those that come with Duality.
    pub(crate) is_own: bool,
    /// Whether one connection can carry more than one request.
    pub(crate) persistent: bool,
    /// Whether it keeps things in a store.
    pub(crate) store: bool,
    /// The least bytes of stack that it can be served on.
    pub(crate) stack: usize,
}

impl Listed {
    /// What the service needs of an architecture beyond what that gives, and the remedy if there is one, in words.
    pub(crate) fn missing_from(&self, given: Needs) -> Option<String> {
        let missing = self.needs.missing_from(given)?;
        let needs_only_memory = Needs { shared_memory: false, ..self.needs };
        let is_about_memory = needs_only_memory.missing_from(given).is_none();
        Some(match self.is_own && is_about_memory {
            true => format!(
                "{missing}, and its connections would be in different processes (if they share nothing, add \
                 `.independent_connections()` to the Service)"
            ),
            false => missing.to_owned(),
        })
    }
}

impl Catalogue {
    /// The service that a command means when it names none.
    pub(crate) fn default_name(&self) -> &str {
        match self {
            Self::BuiltIn => http::ENTRY.name,
            Self::Own(service) => service.served.name(),
        }
    }

    pub(crate) fn list(&self) -> Vec<Listed> {
        match self {
            Self::BuiltIn => ALL
                .iter()
                .map(|entry| Listed {
                    name: entry.name.to_owned(),
                    summary: entry.summary.to_owned(),
                    needs: needs(entry),
                    is_own: false,
                    persistent: entry.persistent,
                    store: entry.store,
                    stack: entry.stack,
                })
                .collect(),
            Self::Own(service) => vec![Listed {
                name: service.served.name().to_owned(),
                summary: "this program's own service".to_owned(),
                needs: service.served.needs(),
                is_own: true,
                persistent: true,
                store: false,
                // It knows; we do not.
                stack: 0,
            }],
        }
    }

    /// What `compare` sends to a service of the user's own and expects of it.
    pub(crate) fn exchange(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::BuiltIn => None,
            Self::Own(service) => service.exchange.clone(),
        }
    }

    /// The service of that name, which `setup` must suit, and a store if `stores`; opens nothing.
    pub(crate) fn look_up(
        &self,
        name: &str,
        setup: &Setup,
        stores: bool,
    ) -> Result<Listed, Misfit> {
        let list = self.list();
        let names: Vec<String> = list.iter().map(|listed| listed.name.clone()).collect();
        let Some(listed) = list.into_iter().find(|listed| listed.name == name) else {
            let names = names.join(", ");
            let problem = format!("there is no service `{name}`: choose one of {names}");
            return Err(Misfit::new("service", problem));
        };
        let entry = match self {
            Self::BuiltIn => find(name),
            Self::Own(_) => None,
        };
        setup.check(name, entry)?;
        if stores && !listed.store {
            let problem = format!("the service `{name}` keeps nothing: leave it out");
            return Err(Misfit::new("store", problem));
        }
        Ok(listed)
    }

    /// Sets up the service of that name, which keeps what it is told at `location`.
    pub(crate) fn open(
        &self,
        name: &str,
        setup: &Setup,
        location: Option<&Location>,
    ) -> Result<Served, Failure> {
        let needs = self.look_up(name, setup, location.is_some()).map_err(flag)?.needs;
        let entry = match self {
            Self::Own(service) => return Ok(service.served.clone()),
            Self::BuiltIn => find(name).expect("it has been looked up"),
        };
        let served = match *entry {
            echo::ENTRY => Served::new(name, needs, echo::serve).by_hand(handwritten::echo()),
            time::ENTRY => Served::new(name, needs, time::serve),
            quote::ENTRY => Served::new(name, needs, quote::serve),
            phone::ENTRY => {
                shared!(name, needs, phone::Phone::new(setup.open_store(name, location)?))
            }
            game::ENTRY => shared!(name, needs, game::Game::default()),
            chat::ENTRY => shared!(name, needs, chat::Chat::new()),
            http::ENTRY => {
                let http = open_http(setup)?;
                let by_hand = handwritten::http(http.clone());
                shared!(name, needs, http, refuse).by_hand(by_hand)
            }
            guestbook::ENTRY => {
                shared!(name, needs, open_guestbook(name, setup, location)?, refuse)
            }
            _ => unreachable!("each service of the registry has its line here"),
        };
        Ok(served.with_descriptors(entry.descriptors))
    }
}

/// What the service asks of an architecture, in the architectures' words.
fn needs(entry: &Entry) -> Needs {
    Needs {
        straight_line: !BY_HAND.contains(&entry.name),
        shared_memory: entry.shared_memory,
        concurrent_connections: entry.concurrent_connections,
    }
}

fn open_http(setup: &Setup) -> Result<http::Http, Failure> {
    // The error names the directory and the remedy.
    http::Http::new(setup.http()).map_err(|error| Failure::misuse(format!("--root: {error}")))
}

fn open_guestbook(
    name: &str,
    setup: &Setup,
    location: Option<&Location>,
) -> Result<guestbook::Guestbook, Failure> {
    let store = setup.open_store(name, location)?;
    guestbook::Guestbook::new(setup.http(), setup.templates(), store)
        .map_err(|error| Failure::misuse(format!("--root or --templates: {error}")))
}

#[cfg(test)]
mod tests {
    use duality_lab::peers::REQUESTS_A_CONNECTION;

    use super::*;

    #[test]
    fn peers_close_connections_after_as_many_requests() {
        assert_eq!(http::Config::default().limits.requests, REQUESTS_A_CONNECTION);
    }
}
