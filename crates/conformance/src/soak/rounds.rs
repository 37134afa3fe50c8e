//! The rounds of a soak: architectures in their variants, each with the services that it carries.

use duality_architectures::{Architecture, Needs};
use duality_lab::Failure;

use super::Result;
use crate::{architecture_called, lack};

/// A service that the clients can speak to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Guestbook,
    Echo,
    Chat,
}

/// Arguments of `--architecture`, the name first.
pub(super) type Variant = &'static [&'static str];

/// One server and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) variant: Variant,
    pub(super) service: Protocol,
}

/// The architectures, with options, that differ in the unsafe code that they run. The list leaves
/// out `iterative`: under it, a silent client holds up all other clients by design.
///
/// A work pool has a worker for every connection that the clients can have open at a time, bursts
/// included. In a work pool, an idle connection holds a worker. With fewer workers, a connection of
/// a burst could be queued behind idle connections of that burst.
const VARIANTS: &[Variant] = &[
    &["uthreads"],
    &["uring"],
    &["uthreads", "--poller=epoll"],
    &["epoll"],
    &["uring", "--cores=2"],
    &["uthreads", "--cores=2"],
    &["epoll", "--cores=2"],
    &["uthreads", "--poller=epoll", "--cores=2"],
    &["pool", "--workers=64"],
    &["staged"],
    &["workpool-fifo", "--workers=320"],
    &["workpool-priority", "--workers=320"],
    &["workpool-serial", "--workers=320"],
    &["threads"],
    &["poll"],
    &["select"],
    &["fork"],
    &["prefork", "--workers=64"],
    &["handwritten"],
];

impl Protocol {
    pub(super) const ALL: [Self; 4] = [Self::Http, Self::Guestbook, Self::Echo, Self::Chat];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Guestbook => "guestbook",
            Self::Echo => "echo",
            Self::Chat => "chat",
        }
    }

    /// The needs of the service from an architecture.
    fn needs(self) -> Needs {
        let is_chat = self == Self::Chat;
        Needs {
            straight_line: matches!(self, Self::Guestbook | Self::Chat),
            shared_memory: is_chat,
            concurrent_connections: is_chat,
        }
    }
}

impl Round {
    /// Whether the architecture lists its tasks on SIGUSR1.
    pub(super) fn tells_of_tasks(self) -> bool {
        self.architecture().about().gives.straight_line
    }

    /// Whether the architecture carries the service.
    fn is_possible(self) -> bool {
        self.service.needs().missing_from(self.architecture().about().gives).is_none()
    }

    fn architecture(self) -> &'static dyn Architecture {
        architecture_called(self.variant[0])
    }
}

/// The rounds of these architectures and services. An empty list means all. All architectures share
/// the time alike: each runs its first service before any runs its second. The second list has the
/// variants that this machine cannot run, with the reason.
///
/// # Errors
///
/// Fails if no round has the name.
pub(super) fn chosen(
    architectures: &[String],
    services: &[String],
) -> Result<(Vec<Round>, Vec<String>)> {
    let variants = named("architecture", architectures, VARIANTS.to_vec(), |variant| variant[0])?;
    let services = named("service", services, Protocol::ALL.to_vec(), Protocol::name)?;
    let (able, unable): (Vec<_>, Vec<_>) = variants
        .into_iter()
        .map(|variant| (variant, lack(variant)))
        .partition(|(_, lack)| lack.is_none());
    let mut rounds = Vec::new();
    for turn in 0..services.len() {
        for (number, (variant, _)) in able.iter().enumerate() {
            let all = services.iter().map(|&service| Round { variant, service });
            let possible: Vec<_> = all.filter(|round| round.is_possible()).collect();
            if turn < possible.len() {
                rounds.push(possible[(number + turn) % possible.len()]);
            }
        }
    }
    let unable = unable
        .into_iter()
        .filter_map(|(variant, lack)| Some(format!("{}: {}", variant.join(" "), lack?)));
    Ok((rounds, unable.collect()))
}

/// The members of `all` with one of these names. Without names, all members.
fn named<T: Copy>(
    what: &str,
    names: &[String],
    all: Vec<T>,
    name_of: impl Fn(T) -> &'static str,
) -> Result<Vec<T>> {
    for name in names {
        if !all.iter().any(|one| name_of(*one) == name) {
            let mut known: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
            known.sort_unstable();
            known.dedup();
            let remedy = format_args!("choose one of {}", known.join(", "));
            return Err(
                Failure::misuse(format_args!("no {what} `{name}` is soaked")).remedy(remedy)
            );
        }
    }
    let is_wanted = |one: &T| names.is_empty() || names.iter().any(|name| name == name_of(*one));
    Ok(all.into_iter().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_has_a_round_before_one_has_its_second() {
        let (rounds, unable) = chosen(&[], &[]).unwrap();
        let able = VARIANTS.len() - unable.len();
        for (number, round) in rounds.iter().take(able).enumerate() {
            assert!(rounds[..number].iter().all(|before| before.variant != round.variant));
        }
        for service in Protocol::ALL {
            let count = rounds.iter().filter(|round| round.service == service).count();
            assert!(count * 5 >= rounds.len(), "{service:?}: {count} of {}", rounds.len());
        }
    }

    #[test]
    fn rounds_are_chosen_by_name() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (rounds, _) = chosen(&names(&["epoll", "fork"]), &names(&["chat"])).unwrap();
        assert_eq!(rounds.len(), 2, "epoll on one core and two, and no fork: {rounds:?}");
        assert!(
            chosen(&names(&["iterative"]), &[]).unwrap_err().to_string().contains("`iterative`")
        );
        assert!(
            chosen(&[], &names(&["chess"])).unwrap_err().to_string().contains("echo, guestbook")
        );
    }

    #[test]
    fn every_architecture_that_serves_several_connections_at_a_time_is_soaked() {
        for variant in VARIANTS {
            assert!(duality_architectures::find(variant[0]).is_some(), "{variant:?}");
        }
        for architecture in duality_architectures::ALL {
            let name = architecture.name();
            let is_soaked = VARIANTS.iter().any(|variant| variant[0] == name);
            assert_eq!(is_soaked, architecture.about().gives.concurrent_connections, "{name}");
        }
    }
}
