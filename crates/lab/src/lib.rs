//! Experiments on server architectures: plan → cells → statistics → recommendation → report.

#![forbid(unsafe_code)]

mod format;
pub mod record;
pub mod recommendation;
pub mod report;
pub mod statistics;
pub mod summary;
mod counters;
mod display;
pub mod machine;
pub mod plan;
pub mod results;
pub mod run;
mod server;
