//! What an experiment came to, told: on a terminal, on a page, and as data.
//!
//! ```text
//!   judge ─▶ summary ─▶ recommendation ─▶ answer ─┬─▶ text      tables and words on a terminal
//!                                                 ├─▶ report    the page, with chart
//!                                                 └─▶ data      summary.json
//! ```
//!
//! [`comparison`] tells how two runs differ.

pub mod answer;
pub mod chart;
pub mod comparison;
pub mod data;
pub mod recommendation;
pub mod report;
pub mod summary;
mod text;
