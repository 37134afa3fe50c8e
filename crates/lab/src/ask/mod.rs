//! Turns a plan file or flags into settings, and settings into an experiment that can be run here.
//!
//! ```text
//!   file ─▶ settings ─▶ resolve ─▶ an experiment    clients, peer, variant: parts of settings
//!   flags ────┘            └─▶ timing, budget: how long its parts are
//!                                                   values: what a value may be
//!   thresholds: when a load fails              what_ifs: a plan around a recording
//! ```

pub mod budget;
pub mod clients;
mod counts;
pub mod file;
pub mod footprint;
mod hosts;
mod peer;
pub mod replay;
pub mod resolve;
mod secure;
pub mod settings;
pub mod thresholds;
pub mod timing;
mod values;
pub mod variant;
pub mod what_ifs;
