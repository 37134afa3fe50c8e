//! The tests of waiting, in each world. They are one program: to link one for each file takes
//! longer than to run them. A test that forks, or looks at its whole process, is a program beside
//! it.

mod clock;
mod closed;
mod conveniences;
mod deadlines;
mod foreign;
mod join_set;
mod kept_port;
mod last_bytes;
mod later_loops;
mod loop_options;
mod many;
mod park;
mod polled;
mod queue;
mod run_in;
mod select;
mod several;
mod shared;
mod shared_state;
mod sync;
mod turns;
mod twins;
mod worlds;
