//! Measures what `gather` adds to a single wait, in each world.
//!
//! ```text
//!   client ──a byte──▶ echo: gather(read) or read ──a byte──▶ client        one loop, loopback
//! ```
//!
//! `cargo bench -p duality-runtime --bench gather`, pinned to one processor (taskset(1)), prints a
//! table. Each row has the processor time of the process for a round trip, in nanoseconds: first
//! with a straight read, then with a gathered one. Both take turns within a run. The ratio is the
//! median of the runs' ratios, with the least and the greatest in brackets.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::task::{self, gather};
use rustix::time::{ClockId, clock_gettime};

const RUNS: usize = 15;
const ROUND_TRIPS: u32 = 10_000;

fn main() {
    println!("| world | straight | gathered | ratio |");
    println!("| --- | ---: | ---: | ---: |");
    println!("| block | {} |", block_on(measure()));
    let park = LoopWorld::Park { stack_size: 64 * 1024 };
    for (world, loop_world) in [("park", park), ("suspend", LoopWorld::Suspend)] {
        for kind in Kind::ALL.iter().filter(|kind| kind.unavailable().is_none()) {
            let mut event_loop = EventLoop::new(kind.open().unwrap(), loop_world).unwrap();
            println!("| {world}, {} | {} |", kind.name(), event_loop.run(measure()));
        }
    }
}

async fn measure() -> String {
    let (mut ratios, mut straight, mut gathered) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let (one, other) = (round_trips(false).await, round_trips(true).await);
        // The first run warms up.
        if run > 0 {
            straight.push(one);
            gathered.push(other);
            ratios.push(other / one);
        }
    }
    for times in [&mut ratios, &mut straight, &mut gathered] {
        times.sort_by(f64::total_cmp);
    }
    let median = |times: &[f64]| times[times.len() / 2];
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let (one, other, ratio) = (median(&straight), median(&gathered), median(&ratios));
    format!("{one:.0} | {other:.0} | {ratio:.3} [{least:.3} to {most:.3}]")
}

/// The processor time of the process for each round trip, in nanoseconds.
async fn round_trips(gathers: bool) -> f64 {
    let mut listener =
        TcpListener::bind(([127, 0, 0, 1], 0).into(), &ListenOptions::default()).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let echo = task::spawn(echo(server, gathers)).unwrap();
    let begin = cpu_time();
    let mut byte = [0];
    for _ in 0..ROUND_TRIPS {
        client.write_all(b"a").await.unwrap();
        assert_eq!(client.read(&mut byte).await.unwrap(), 1);
    }
    let time = (cpu_time() - begin) / f64::from(ROUND_TRIPS);
    drop(client);
    echo.await.unwrap();
    time
}

async fn echo(mut server: TcpStream, gathers: bool) {
    let mut byte = [0];
    loop {
        let read = server.read(&mut byte);
        let count = if gathers { gather(read).await } else { read.await };
        if count.unwrap() == 0 {
            break;
        }
        server.write_all(&byte).await.unwrap();
    }
}

fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
