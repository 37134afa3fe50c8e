//! Regimes of load, and the situation of each request: the experiment of Truppel and Abreu.
//!
//! ```text
//!   plan.toml ─ plan ▶ cells: subject × regime × repeat ─ run ▶ a server, its records.csv
//!                                                                         │ derive
//!       regimes.jsonl, a line for each cell ◀── record ── curves, points ◀┘
//!              │
//!              └─ summary ▶ a sheet (tell/answers/regimes.rs)
//! ```
//!
//! A *regime* is the rate at which clients come: the wait between two clients swings from a longest
//! to a shortest time and back. A cell is one run of one subject under one regime. For each
//! request, the cell's server records T, #B, TP and #CP ([`mod@derive`]).

pub mod derive;
pub mod plan;
pub mod record;
pub mod run;
pub mod summary;
mod verdict;
