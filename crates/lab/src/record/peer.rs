//! A server that is not ours, as plans define it and results keep it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server that is not ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// The peer's name in plans and results.
    pub name: String,
    /// The program and its arguments. The program must stay in the foreground.
    pub command: Vec<String>,
    /// The command that builds the program `{program}` before the measurement. Empty if nothing has
    /// to be built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build: Vec<String>,
    /// The content of the file `{configuration}`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configuration: String,
    /// Variables that are added to the peer's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The text that the peer writes when it listens. Without a text, the lab tries to connect
    /// until a connection succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The bytes to send on such a connection, which the peer must answer. If this is empty,
    /// nothing is sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ask: String,
    /// The seconds in which the peer must listen.
    pub start_seconds: f64,
    /// The signal that ends the peer.
    pub stop: Stop,
    /// The folder in which the peer starts. The default is a new directory for the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The remedy if the program is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// A signal that ends a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stop {
    /// The signal that usually ends servers.
    #[default]
    Term,
    /// The signal of Ctrl-C.
    Int,
    /// The signal that some servers take for "end when all requests are answered".
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

    /// The name in the form that setpriv(1) takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stop::Term => "TERM",
            Stop::Int => "INT",
            Stop::Quit => "QUIT",
            Stop::Kill => "KILL",
        }
    }
}
