//! Regimes of load, and what each request met: the experiment of Truppel and Abreu.
//!
//! ```text
//!   plan.toml ─ plan ▶ cells: subject × regime × repeat ─ run ▶ a server, its records.csv
//!                                                                         │ derive
//!       regimes.jsonl, a line for each cell ◀── record ── curves, points ◀┘
//!              │
//!              └─ summary ▶ report, text
//! ```
//!
//! A *regime* is how fast clients come: the wait between two of them swings from a longest to a
//! shortest time and back. A cell is one subject under one regime, once; its server records for
//! each request T, #B, TP and #CP ([`mod@derive`]).

pub mod derive;
pub mod plan;
pub mod record;
pub mod report;
pub mod run;
pub mod summary;
mod verdict;
