//! Accepting, for architectures whose acceptor has a kernel thread to itself or serves what it accepts: one connection at a
//! time, or each as a task that others run.

use duality_runtime::handler::Connections;
use duality_runtime::net::TcpListener;
use duality_runtime::{block_on, drain, task};

use super::admission::Admission;
use super::pressure::{PAUSE, Pressure};
use super::served::{ConnectionTask, Served};
use super::server::Server;

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
        task::show_stage("accept");
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

/// Accepts connections and gives the task of each to `begin`, until the process drains. When all have ended, calls `close`, which
/// is to end the `workers`, and waits for those.
///
/// While as many connections are under way as `--admit` says, the next wait in the kernel's accept queue.
pub(crate) fn accept_and_begin(
    server: Server,
    workers: &Connections,
    begin: impl Fn(ConnectionTask),
    close: impl FnOnce(),
) {
    let service = server.service.clone();
    let most = server.options.admit.unwrap_or(usize::MAX);
    let mut listener = server.into_listener();
    let connections = Connections::default();
    let mut pressure = Pressure::new(&connections);
    let admission = Admission::new(&listener, service.descriptors(), 1);
    block_on(async {
        task::show_stage("accept");
        loop {
            while connections.count() >= most && !drain::requested() {
                connections.one_ended(PAUSE).await;
            }
            pressure.admit(&admission, || connections.count()).await;
            match listener.accept_until_drain().await {
                Ok(Some(stream)) => {
                    pressure.relieved();
                    begin(service.begin(stream, connections.enter()));
                }
                Ok(None) => break,
                Err(error) => pressure.wait_out("accept", &error).await,
            }
        }
        drop(listener);
        connections.all_ended().await;
        close();
        workers.all_ended().await;
    });
}
