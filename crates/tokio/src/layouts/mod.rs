//! Tokio's layouts: the arrangement of runtimes on kernel threads and processes.
//!
//! | file | runtimes | acceptor | a connection stays |
//! | --- | --- | --- | --- |
//! | [`multi`] | one, of N threads | one task, as in `axum::serve` | with no thread: idle threads steal |
//! | [`multi_reuseport`] | one, of N threads | a task for each thread | with no thread |
//! | [`per_core`] | one for each of N threads | each thread | on its thread |
//! | [`no_steal`] | one for each of N threads | one further thread, in turn | on its thread |
//! | [`prefork`] | one for each of N processes | each process | in its process |
//! | [`thread_per_connection`] | one for each connection | one further thread | on its thread |
//!
//! All layouts run the same application, unmodified. Each layout asks the application for an
//! instance for every runtime, since pools of clients belong to a runtime. N is `--cores`. A new
//! layout is a file with a type that implements [`Architecture`], and a line in [`ALL`].

pub mod multi;
pub mod multi_reuseport;
pub mod no_steal;
pub mod per_core;
pub mod prefork;
pub mod thread_per_connection;

use std::io;

use duality_architectures::common::admission::Admission;
use duality_architectures::common::wait_queue::Limit;
use duality_architectures::{About, Architecture, ForeignRuntime, Served, World};
use duality_runtime::net::TcpListener;
use duality_runtime::visibility::occupy;
use tokio::runtime::Runtime;

use crate::acceptor::Acceptor;
use crate::drain::told_of_drains;
use crate::instance::Instance;

/// Every layout, in the order of the output.
pub static ALL: &[&dyn Architecture] = &[
    &multi::Multi,
    &multi_reuseport::MultiReuseport,
    &per_core::PerCore,
    &no_steal::NoSteal,
    &prefork::Prefork,
    &thread_per_connection::ThreadPerConnection,
];

/// The runtime's name.
pub(crate) const RUNTIME: &str = "tokio";

/// Tokio, where connections stay on their kernel threads.
const STAYS: ForeignRuntime = ForeignRuntime { name: RUNTIME, steals: false };
/// Tokio, where idle kernel threads take tasks from busy threads.
const STEALS: ForeignRuntime = ForeignRuntime { name: RUNTIME, steals: true };

/// What most layouts are.
const LAYOUT: About = About {
    source: "tokio, axum::serve",
    world: Some(World::Suspend),
    foreign_runtime: Some(STAYS),
    ..About::BASE
};

/// The listener of an acceptor, and the limits.
struct Entrance {
    listener: TcpListener,
    service: Served,
    limit: Limit,
    admission: Admission,
}

/// Accepts on `runtime`, and serves each connection as a task there, until the process drains. Then
/// the runtime ends, and with it the tasks that the application has spawned.
fn accept_and_spawn(runtime: Runtime, instance: Instance, entrance: Entrance) -> io::Result<()> {
    let served = accept_on(&runtime, instance, entrance);
    runtime.shutdown_background();
    served
}

fn accept_on(runtime: &Runtime, instance: Instance, entrance: Entrance) -> io::Result<()> {
    let _counted = occupy();
    let Entrance { listener, service, limit, admission } = entrance;
    runtime.block_on(told_of_drains(async move |stop| {
        let acceptor = Acceptor::new(listener, &service, limit, admission, stop)?;
        spawn_accepted(acceptor, instance).await;
        Ok(())
    }))
}

/// Spawns a task for each connection that comes, and returns when all have ended.
async fn spawn_accepted(mut acceptor: Acceptor, instance: Instance) {
    while let Some(accepted) = acceptor.next().await {
        tokio::spawn(accepted.serve(instance.clone()));
    }
    acceptor.close().await;
}
