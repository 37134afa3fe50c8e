//! The tests of the load generator against servers that misbehave. They are one program: to link
//! one for each file takes longer than to run them.

mod chat;
mod common;
mod crowd;
mod game;
mod guestbook;
mod lines;
mod load;
mod open_loop;
mod patterns;
mod places;
mod relay;
mod replay;
mod requests;
mod window;
