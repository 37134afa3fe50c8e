//! What stands for TLS in a build without it.

use duality_architectures::Served;
use duality_runtime::net::TcpStream;

use super::{Days, Trouble};
use crate::violation::Violation;

/// None is ever made.
#[derive(Clone)]
pub(super) enum Tls {}

impl Tls {
    pub(super) fn new(_: &Days) -> Result<Self, Violation> {
        Err("built without TLS: build with `--features rustls`".into())
    }

    pub(super) fn put_before(&self, _: Served) -> Result<Served, Violation> {
        match *self {}
    }

    pub(super) async fn connect(&self, _: TcpStream) -> Result<TcpStream, Trouble> {
        match *self {}
    }
}
