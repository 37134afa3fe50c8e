//! Shows the results of an experiment: on a terminal, on a page, and as data.
//!
//! ```text
//!   judge ─▶ summary ─▶ recommendation ─▶ answer ─┬─▶ screen    the headline and the map
//!                                                 ├─▶ text      all tables and words
//!                                                 ├─▶ report    the page, with charts
//!                                                 └─▶ data      summary.json
//! ```
//!
//! [`comparison`] tells how two runs differ. The answers to other questions are sheets: a file of
//! [`answers`] makes a [`sheet`], and a file of [`render`] gives it a form.

pub mod answer;
pub mod answers;
pub mod chart;
pub mod comparison;
pub mod data;
pub mod journal;
pub mod map;
pub mod phrases;
pub mod recommendation;
pub mod render;
pub mod replay;
pub mod report;
pub mod screen;
pub mod share;
pub mod sheet;
pub mod summary;
mod text;
mod words;
