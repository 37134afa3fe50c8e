//! Which process of Redis answers.

use std::sync::Arc;

use super::codec::{Reply, text};
use super::connection::Connection;
use super::{Commands, Fault, refusal};
use crate::client::Client;

/// Asks which process of Redis answers.
pub(super) const QUESTION: &[&[u8]] = &[b"INFO", b"server"];

const NAMELESS: Fault = Fault::Confused("names no run_id");

/// The time of one process of Redis, by its `run_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch(Arc<str>);

impl Epoch {
    /// The epoch of a connection.
    ///
    /// # Errors
    ///
    /// If Redis does not answer, refuses, or does not say which process it is.
    pub(super) async fn ask(connection: &mut Connection) -> Result<Self, Fault> {
        let Commands { bytes, count, .. } = Commands::repeatable(QUESTION);
        let mut replies = connection.exchange(&bytes, count, Client::NONE).await?;
        let reply = replies.pop().ok_or(NAMELESS)?;
        match refusal(&reply) {
            Some(refusal) => Err(refusal),
            None => Self::of(reply).ok_or(NAMELESS),
        }
    }

    /// The epoch in a reply to [`QUESTION`].
    pub(super) fn of(reply: Reply) -> Option<Self> {
        let told = text(reply)??;
        let run_id = told.lines().find_map(|line| line.strip_prefix("run_id:"))?;
        Some(Self(run_id.trim_end().into()))
    }

    pub(in crate::store) fn as_str(&self) -> &str {
        &self.0
    }
}
