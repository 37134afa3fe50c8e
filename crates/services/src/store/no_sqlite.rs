//! The store in a file of SQLite, in a program without the feature `sqlite`: it cannot be made.

use std::path::Path;
use std::sync::Arc;

use duality_runtime::time::Duration;

use super::{Failed, Remark, Synchronous, Visit};
use crate::client::Client;

pub(super) enum Sqlite {}

impl Sqlite {
    pub(super) fn create(_: &Path, _: Synchronous, _: Duration) -> Result<Self, &'static str> {
        Err("this program has no SQLite: use redis://HOST:PORT, or the feature `sqlite` of the \
             crate duality")
    }

    pub(super) async fn visit(self: &Arc<Self>, _: usize, _: Client<'_>) -> Result<Visit, Failed> {
        match **self {}
    }

    pub(super) async fn add_remark(
        self: &Arc<Self>,
        _: &Remark,
        _: Client<'_>,
    ) -> Result<(), Failed> {
        match **self {}
    }

    pub(super) async fn add_entry(
        self: &Arc<Self>,
        _: &str,
        _: &str,
        _: Client<'_>,
    ) -> Result<(), Failed> {
        match **self {}
    }

    pub(super) async fn find_entry(
        self: &Arc<Self>,
        _: &str,
        _: Client<'_>,
    ) -> Result<Option<String>, Failed> {
        match **self {}
    }
}
