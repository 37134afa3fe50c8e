//! One connection at a time: all that an iterative server does, and what each member of a pool does.

use duality_runtime::handler::Connections;
use duality_runtime::net::TcpListener;
use duality_runtime::{block_on, task};

use super::pressure::Pressure;
use super::served::Served;

/// Accepts a connection, serves it to its end, and accepts the next; returns when the process drains.
///
/// `connections` counts those of all members together.
pub(crate) fn accept_and_serve(
    mut listener: TcpListener,
    service: &Served,
    connections: &Connections,
) {
    let mut pressure = Pressure::new(connections);
    block_on(async {
        task::stage("accept").await;
        loop {
            match listener.accept_until_drain().await {
                Ok(Some(stream)) => {
                    pressure.relieved();
                    let task = service.begin(stream, connections.enter());
                    task::contain(|| block_on(task));
                }
                Ok(None) => return,
                Err(error) => pressure.wait_out("accept", &error).await,
            }
        }
    });
}
