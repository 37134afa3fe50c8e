//! A server that is not ours, as plans define it and results keep it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// A server that is not ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// What it is called in plans and results.
    pub name: String,
    /// The program and its arguments. It stays in the foreground.
    pub command: Vec<String>,
    /// The command that makes the program `{program}`, before anything is measured; empty where
    /// there is nothing to make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build: Vec<String>,
    /// What is in the file `{configuration}`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configuration: String,
    /// What is added to its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The text that the peer writes when it listens. Without a text, it listens when a connection
    /// succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The bytes to send on such a connection, which the peer must answer. Nothing is sent if this
    /// is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ask: String,
    /// The seconds in which the peer must listen.
    pub start_seconds: f64,
    /// The signal that ends it.
    pub stop: Stop,
    /// The folder that it is started in. By default that is a new directory of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// What to do when there is no such program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// A signal that ends a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stop {
    /// What servers are ended by.
    #[default]
    Term,
    /// What Ctrl-C sends.
    Int,
    /// Some servers take this signal for "end when all are served".
    Quit,
    /// For programs that ignore other signals.
    Kill,
}

impl Stop {
    pub(crate) fn signal(self) -> Signal {
        match self {
            Stop::Term => Signal::TERM,
            Stop::Int => Signal::INT,
            Stop::Quit => Signal::QUIT,
            Stop::Kill => Signal::KILL,
        }
    }

    /// As setpriv(1) takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stop::Term => "TERM",
            Stop::Int => "INT",
            Stop::Quit => "QUIT",
            Stop::Kill => "KILL",
        }
    }
}
