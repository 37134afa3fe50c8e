//! The tests of pollers and timers. They are one program: to link one for each file takes longer
//! than to run them.

mod common;
mod conformance;
mod model;
mod ring;
mod timers;
