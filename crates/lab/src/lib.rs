//! Experiments on server architectures: a question becomes an experiment, then records, then a
//! verdict, then words.
//!
//! ```text
//!   ask/        a plan file or flags → settings → an experiment that can be run here
//!   measure/    an experiment → sessions of servers and clients → records
//!   judge/      records → rows, blocks, intervals → the verdict
//!   tell/       the verdict → a summary, a recommendation, a report, tables, data
//!   record/     what is kept of it all: results.jsonl
//! ```
//!
//! Each module uses the modules below it, and none above. Six other questions stand beside this
//! pipeline. [`regimes`] compares architectures along rising load, and [`model`] explains costs.
//! [`capacity`] predicts what more connections would take, and [`graph`] draws where a service
//! blocks. [`trial`] tries servers on live traffic, and [`traffic`] shows a trace. [`live`] shows a
//! measurement in a browser while it runs. The modules beneath all others are [`statistics`],
//! [`format`](mod@format), [`units`], [`names`], [`page`] and [`random`].

#![forbid(unsafe_code)]

pub mod ask;
pub mod capacity;
mod failure;
pub mod format;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
pub mod judge;
pub mod live;
pub mod measure;
pub mod model;
pub mod names;
pub mod page;
#[doc(hidden)]
pub mod random;
pub mod record;
pub mod regimes;
pub mod statistics;
pub mod tell;
pub mod traffic;
pub mod trial;
pub mod units;

pub use duality_load::Mistake;
pub use failure::{AtFile, Blame, Failure, Party};
