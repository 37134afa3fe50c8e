//! The services that this program can serve: those that come with Duality, or one of the user's
//! own.

use duality_architectures::{Architecture, Needs, Registry, Served};
use duality_handwritten as handwritten;
use duality_lab::Mistake;
use duality_lab::ask::settings::Misfit;
use duality_lab::names::did_you_mean;
use duality_services::{ALL, Entry, Setup, SetupError, find, http, store};

use crate::Service;
use crate::failure::{Failure, Party, flag};
use crate::setup;

/// The services of this program.
pub(crate) enum Catalogue {
    BuiltIn,
    Own(Box<Service>),
}

/// The entry of a service in lists.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) needs: Needs,
    /// Whether it can be served with TLS.
    pub(crate) tls: bool,
    /// Whether the service is a program's own, and not part of Duality.
    pub(crate) is_own: bool,
    /// Whether one connection can carry more than one request.
    pub(crate) persistent: bool,
    /// Whether the service keeps data in a store.
    pub(crate) store: bool,
    /// A foreign runtime that the service uses beside architectures of ours.
    pub(crate) beside: Option<&'static str>,
    /// Whether the service describes its requests, for an access log.
    pub(crate) logs_requests: bool,
    /// The smallest stack that can serve the service, in bytes.
    pub(crate) stack: usize,
    /// The default of `--stack-size`, if the service has its own.
    pub(crate) stack_size: Option<usize>,
    /// The number of descriptors that a connection keeps, its own socket included.
    pub(crate) descriptors: usize,
}

impl Listed {
    /// The reason why the architecture cannot carry the service, with the remedy if there is one.
    pub(crate) fn refusal(&self, architecture: &dyn Architecture) -> Option<String> {
        self.missing_from(architecture.about().gives)
    }

    /// The service's needs that `given` does not meet, in words, with the remedy if there is one.
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

/// The request that a service of the user's own is simulated with, and its reply.
///
/// # Errors
///
/// One line with the remedy, if the service says none.
pub(crate) fn exchange_of(own: &Service) -> Result<(Vec<u8>, Vec<u8>), Failure> {
    own.exchange.clone().ok_or_else(|| {
        let name = own.served.name();
        let remedy =
            "add .exchange(request, reply) to the Service, or write a test with duality::simulate";
        Failure::misuse(format!("the clients do not know what {name} answers: {remedy}"))
    })
}

impl Catalogue {
    /// The default service of a command.
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
                    tls: entry.tls,
                    is_own: false,
                    persistent: entry.persistent,
                    store: entry.keeps,
                    beside: None,
                    logs_requests: entry.logs_requests,
                    stack: entry.stack,
                    stack_size: None,
                    descriptors: entry.descriptors,
                })
                .collect(),
            Self::Own(service) => vec![Listed {
                name: service.served.name().to_owned(),
                summary: "this program's own service".to_owned(),
                needs: service.served.needs(),
                tls: true,
                is_own: true,
                persistent: true,
                store: false,
                beside: service.beside,
                logs_requests: false,
                // The service knows the number. This program does not.
                stack: 0,
                stack_size: service.stack_size,
                descriptors: 1,
            }],
        }
    }

    /// The architectures that can serve its services.
    pub(crate) fn architectures(&self) -> Registry {
        match self {
            Self::BuiltIn => Registry::default(),
            Self::Own(service) => service.architectures,
        }
    }

    /// The architecture called `name`.
    ///
    /// # Errors
    ///
    /// One line that lists the names, and says which is near.
    pub(crate) fn architecture(&self, name: &str) -> Result<&'static dyn Architecture, Mistake> {
        named(self.architectures(), name)
    }

    /// The service of the user's own, if the program has one.
    pub(crate) fn own(&self) -> Option<&Service> {
        match self {
            Self::BuiltIn => None,
            Self::Own(service) => Some(service),
        }
    }

    /// The page that `compare` asks of a service of the user's own that speaks HTTP.
    pub(crate) fn page(&self) -> Option<String> {
        match self {
            Self::BuiltIn => None,
            Self::Own(service) => service.page.clone(),
        }
    }

    /// The bytes that `compare` sends to a service of the user's own, and the bytes that it
    /// expects.
    pub(crate) fn exchange(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::BuiltIn => None,
            Self::Own(service) => service.exchange.clone(),
        }
    }

    /// The service called `name`, which `setup` must suit. Opens nothing.
    pub(crate) fn look_up(&self, name: &str, setup: &Setup) -> Result<Listed, Misfit> {
        let list = self.list();
        let names: Vec<String> = list.iter().map(|listed| listed.name.clone()).collect();
        let Some(mut listed) = list.into_iter().find(|listed| listed.name == name) else {
            let meant = did_you_mean(name, names.iter().map(String::as_str));
            let names = names.join(", ");
            let problem = format!("there is no service `{name}`: choose one of {names}{meant}");
            return Err(Misfit::new("service", problem));
        };
        let entry = match self {
            Self::BuiltIn => find(name),
            Self::Own(_) => None,
        };
        setup::check(setup, name, entry)?;
        if setup.store.is_some() {
            listed.stack = listed.stack.max(store::STACK);
        }
        Ok(listed)
    }

    /// Sets up the service called `name`.
    pub(crate) fn open(&self, name: &str, setup: &Setup) -> Result<Served, Failure> {
        let needs = self.look_up(name, setup).map_err(flag)?.needs;
        let entry = match self {
            Self::Own(service) => return Ok(service.served.clone()),
            Self::BuiltIn => find(name).expect("the service has been looked up"),
        };
        let handler = (entry.open)(setup).map_err(|error| failed(&error))?;
        let served = Served::new(name, needs, handler).with_descriptors(entry.descriptors);
        Ok(match handwritten::find(name) {
            Some(open) => served.by_hand(open(setup).map_err(|error| failed(&error))?),
            None => served,
        })
    }
}

/// The architecture called `name`, or an error that says which name is near.
pub(crate) fn named(registry: Registry, name: &str) -> Result<&'static dyn Architecture, Mistake> {
    registry.named(name).map_err(|unknown| {
        let near = did_you_mean(name, registry.iter().map(Architecture::name));
        Mistake::from(format!("{unknown}{near}"))
    })
}

fn failed(error: &SetupError) -> Failure {
    match error {
        SetupError::Choice { .. } | SetupError::NotDurable(_) => Failure::misuse(error),
        SetupError::Store(_) => Failure::new(Party::Store, error),
    }
}

/// The needs of the service, in the architectures' terms.
fn needs(entry: &Entry) -> Needs {
    Needs {
        straight_line: handwritten::find(entry.name).is_none(),
        shared_memory: entry.shared_memory,
        concurrent_connections: entry.concurrent_connections,
    }
}

#[cfg(test)]
mod tests {
    use duality_lab::measure::peers::REQUESTS_A_CONNECTION;

    use super::*;

    #[test]
    fn peers_close_connections_after_as_many_requests() {
        assert_eq!(http::Config::default().limits.requests, REQUESTS_A_CONNECTION);
    }
}
