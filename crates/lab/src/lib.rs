//! Experiments on server architectures: plan → cells → statistics → recommendation → report.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod chart;
pub mod child;
pub mod comparison;
pub mod constraints;
mod counters;
pub mod data;
mod display;
pub mod format;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
pub mod listen_queue;
mod load_command;
pub mod machine;
pub mod model;
mod no_server;
pub mod page;
pub mod peers;
pub mod plan;
#[doc(hidden)]
pub mod random;
pub mod recommendation;
pub mod record;
pub mod regimes;
pub mod report;
pub mod results;
mod rounds;
pub mod rows;
pub mod run;
mod server;
pub mod soundness;
mod spawn;
pub mod statistics;
pub mod store;
pub mod studentized_range;
pub mod summary;
mod text;
pub mod units;
pub mod verdict;
pub mod ways;
