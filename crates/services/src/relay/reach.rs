//! A connection for a request: to the next upstream that can be reached.
//!
//! Upstreams take turns. Those that are left out are passed over at first. If no other can be
//! reached, they are tried too, so that a request is refused only after every upstream has been
//! tried.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use duality_runtime::net::{Input, TcpStream};
use duality_runtime::select;
use duality_runtime::time::{self, sleep, timeout};
use rustix::io::Errno;

use super::Shared;
use super::back::Back;
use super::failure::Failure;
use super::journal::Times;
use super::limits::REPLY_HEAD;
use super::pool::Pool;
use super::upstream::Upstream;

/// What a request has tried so far.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// No idle connection may be used, because one has closed before the request reached it.
    pub(super) needs_fresh: bool,
    /// A bit for each upstream.
    upstreams: u64,
}

impl Tried {
    pub(super) fn add(&mut self, number: usize) {
        self.upstreams |= 1 << number;
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.upstreams & 1 << number != 0
    }
}

impl Shared {
    /// A connection to the next upstream that has not been `tried`: an idle one, or a new one.
    pub(super) async fn reach(
        &self,
        pool: &Pool,
        tried: &mut Tried,
        client: &TcpStream,
    ) -> Result<Back<'_>, Failure> {
        let began = client.is_logged().then(time::now);
        let count = self.upstreams.len();
        let first = self.turn();
        for is_admitted in [true, false] {
            for number in (first..first + count).map(|number| number % count) {
                let upstream = &self.upstreams[number];
                if tried.has(number) || (is_admitted && !upstream.admits()) {
                    continue;
                }
                let idle = if tried.needs_fresh { None } else { pool.take(number) };
                let is_reused = idle.is_some();
                let stream = match idle {
                    Some(stream) => Some(stream),
                    None => Box::pin(self.connect(upstream, client)).await?,
                };
                let Some(stream) = stream else {
                    tried.add(number);
                    continue;
                };
                let input = Input::new(REPLY_HEAD);
                let times = began.map(|began| Times { began, connected: time::now(), head: None });
                let has_more = false;
                return Ok(Back { stream, input, has_more, number, upstream, is_reused, times });
            }
        }
        Err(Failure::Unreachable)
    }

    /// The number of the upstream that is next. The processes of a server share it: under `fork`,
    /// each would otherwise begin with the first.
    fn turn(&self) -> usize {
        let turn = self.turns[0].fetch_add(1, Relaxed);
        (turn % self.upstreams.len() as u64) as usize
    }

    /// A new connection to an upstream. `None` if it refuses, or takes too long.
    async fn connect(
        &self,
        upstream: &Upstream,
        client: &TcpStream,
    ) -> Result<Option<TcpStream>, Failure> {
        let connecting = timeout(self.limits.connect_time, TcpStream::connect(upstream.address));
        let connected = select! {
            connected = connecting => connected,
            () = self.left(client) => return Err(Failure::ClientLeft),
        };
        let limit = Some(self.limits.slice());
        let ready =
            connected.unwrap_or_else(|elapsed| Err(elapsed.into())).and_then(|mut stream| {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)?;
                Ok(stream)
            });
        match ready {
            Ok(stream) => {
                upstream.connected();
                Ok(Some(stream))
            }
            Err(error) => {
                if !is_ours(&error) {
                    upstream.failed(&error);
                }
                Ok(None)
            }
        }
    }

    /// Waits until the client waits no more for its reply. The first look comes after a while, as
    /// in every wait for an upstream.
    async fn left(&self, client: &TcpStream) {
        loop {
            sleep(self.limits.look_time).await;
            if self.has_left(client) {
                return;
            }
        }
    }
}

/// Whether this machine lacks something, so that the upstream is not to blame.
fn is_ours(error: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| lacking.contains(&errno))
}
