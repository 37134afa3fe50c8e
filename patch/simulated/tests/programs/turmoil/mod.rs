//! Examples and tests of turmoil 0.7, as its users would write them here. Each names the one that
//! it stands for, and scripts/beside_turmoil.py counts the lines of both.
//!
//! A test's own code runs on the host `test`. So it is the client where turmoil has one.

mod axum;
mod cluster;
mod finds;
mod grpc;
mod hosts;
mod links;
mod planted;
mod tcp;
mod udp;
mod udp_broadcast;
mod udp_multicast;

use std::future::Future;
use std::io;
use std::time::Duration;

use duality_simulate::{Faults, Net, Seeds, seeds};
use tokio::net::{self, TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const PORT: u16 = 1738;
const SECOND: Duration = Duration::from_secs(1);

/// What no program may break by happens in each seed.
fn legal() -> Seeds {
    seeds(0..3).apart().faults(Faults::LEGAL)
}

async fn listen() -> io::Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", PORT)).await
}

/// Connects to the host `server`, some time after it has started.
async fn connect() -> io::Result<TcpStream> {
    sleep(SECOND).await;
    TcpStream::connect(("server", PORT)).await
}

/// Whether nothing comes of it within a minute.
async fn lasts<T>(operation: impl Future<Output = T>) -> bool {
    timeout(60 * SECOND, operation).await.is_err()
}

/// A server of one connection.
fn serve_one<F>(net: &Net, serve: impl Fn(TcpStream) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = io::Result<()>> + 'static,
{
    net.host("server", move || async move {
        let (stream, _) = listen().await?.accept().await?;
        serve(stream).await
    });
}
