//! The chat server among the examples of tokio-tungstenite, out of its crate. It listens at port
//! 80.
#![allow(missing_docs, unused_imports, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/chat.rs"));
