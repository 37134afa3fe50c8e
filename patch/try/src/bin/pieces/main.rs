//! Pieces of tokio's interface, as a user would use them. Each piece checks itself, and prints a
//! line. The lines are the same under every world.

mod common;
mod descriptors;
mod processes;
mod runtimes;
mod sockets;
mod tasks;
mod times;

use std::time::Duration;

use tokio::time::timeout;

macro_rules! pieces {
    ($($module:ident::$piece:ident)+) => {
        #[tokio::main]
        async fn main() -> Result<(), Box<dyn std::error::Error>> {
            $(
                let limited = timeout(Duration::from_secs(60), $module::$piece());
                let found = limited.await.map_err(|_| concat!(stringify!($piece), " takes too long"))?;
                println!("{}: {}", stringify!($piece), found?);
            )+
            Ok(())
        }
    };
}

pieces! {
    sockets::lines_by_a_codec
    sockets::frames_go_through_halves
    sockets::both_ends_wait_for_room
    sockets::many_connections
    sockets::readiness
    sockets::readiness_is_remembered
    sockets::two_tasks_share_a_socket
    sockets::two_acceptors_share_a_listener
    sockets::a_stream_moves_between_tasks
    sockets::options_of_sockets
    sockets::datagrams
    sockets::datagrams_in_frames
    sockets::unix_streams
    sockets::unix_datagrams
    descriptors::named_pipes
    descriptors::descriptors_of_others
    sockets::a_name_is_looked_up
    sockets::a_proxy
    times::sleeps_and_resets
    times::intervals
    times::what_is_always_ready_gives_way
    times::queues_of_delays
    times::time_outs_leave_no_bytes_behind
    tasks::channels
    tasks::locks
    tasks::join_sets
    tasks::aborts
    tasks::panics
    tasks::local_sets
    tasks::blocking_work
    tasks::blocking_in_place
    tasks::unordered_futures
    tasks::selects
    tasks::trackers
    tasks::handles
    tasks::names_of_runtimes
    tasks::another_executor
    tasks::destructors
    times::signals
    times::standard_streams
    processes::outputs_and_statuses
    processes::much_goes_through_a_child
    processes::children_are_killed
    times::files
    tasks::yields
    runtimes::tokens_of_threads
    runtimes::blocking_where_it_may
    runtimes::blocking_where_it_may_not
    runtimes::nothing_waits_outside
    tasks::large_futures
    runtimes::queued_blocking_work
    runtimes::runtimes_of_threads
    runtimes::local_guards
    runtimes::budgets
    runtimes::yields_beside_a_socket
    runtimes::paused_clocks
}
