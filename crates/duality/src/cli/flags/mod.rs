//! The flags that several commands have, or that would fill the file of theirs. Each file has the
//! flags of one matter, and makes of them what the lab or a server takes.

pub(super) mod address;
mod builds;
mod constraints;
pub(super) mod relaying;
pub(super) mod settings;
pub(super) mod tls;
pub(super) mod tuning;
pub(super) mod visibility;

pub(super) use builds::{BuildFlags, percent};
pub(super) use constraints::ConstraintFlags;
pub(crate) use tuning::Tuning;

/// Headings of `--help`, after the options for a first try.
pub(super) mod heading {
    pub(in crate::cli) const BINARY: &str = "A server of your own";
    pub(in crate::cli) const CHECKS: &str = "What is correct, and when to fail";
    pub(in crate::cli) const CLIENTS: &str = "Clients";
    pub(in crate::cli) const HOSTS: &str = "Hosts";
    pub(in crate::cli) const MEASURING: &str = "Measuring";
    pub(in crate::cli) const PAGE: &str = "A page in the browser";
    pub(in crate::cli) const REQUESTS: &str = "Requests of http";
    pub(in crate::cli) const SERVICE: &str = "Service";
    pub(in crate::cli) const SERVER: &str = "Server";
    pub(in crate::cli) const LIMITS: &str = "Limits of the server";
    pub(in crate::cli) const INJECTION: &str = "Load without TCP";
    pub(in crate::cli) const VISIBILITY: &str = "What the server shows";
    pub(in crate::cli) const RECOMMENDATION: &str = "Recommendation";
}
