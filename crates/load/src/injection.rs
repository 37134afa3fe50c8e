//! Load without TCP: clients that a kernel thread of the server's own process injects, with waits
//! between them.
//!
//! A wait begins with the injection of the client before, as in the original. So a server that does
//! not keep up delays later clients. Source: Truppel & Abreu, section V.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use duality_runtime::drain;
use duality_runtime::net::Injector;

use crate::Arrivals;

/// The largest delay of a sleep's end. So the thread spins for the last part of a wait.
const LATE: Duration = Duration::from_micros(100);

/// The clients to inject.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    /// The waits between clients.
    pub waits: Arrivals,
    /// The number of clients.
    pub clients: u64,
}

impl Injection {
    /// The mistake in the waits, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        self.waits.problem()
    }

    /// Injects all clients on this kernel thread, or fewer if the server drains. Returns their
    /// number.
    ///
    /// # Errors
    ///
    /// If the server accepts no more clients.
    pub fn run(&self, injector: &Injector) -> io::Result<u64> {
        let mut before = 0.0;
        let mut schedule = self.waits.schedule(0);
        for number in 0..self.clients {
            if drain::requested() {
                return Ok(number);
            }
            let due = schedule.next().expect("arrivals never end");
            wait(due.as_secs_f64() - std::mem::replace(&mut before, due.as_secs_f64()));
            injector.inject()?;
        }
        Ok(self.clients)
    }
}

fn wait(seconds: f64) {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(LATE) {
            Some(sleep) => thread::sleep(sleep),
            None => std::hint::spin_loop(),
        }
    }
}
