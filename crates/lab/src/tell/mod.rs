//! Shows the results of an experiment: on a terminal, on a page, and as data.
//!
//! ```text
//!   judge ─▶ summary ─▶ recommendation ─▶ answer ─┬─▶ screen    the answer on one screen
//!                                                 ├─▶ text      all tables and words
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
pub mod replay;
pub mod report;
mod screen;
pub mod summary;
mod text;

pub use screen::folded;
