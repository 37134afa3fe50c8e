//! Experiments on server architectures: plan → cells → statistics → recommendation → report.

#![forbid(unsafe_code)]

pub mod record;
