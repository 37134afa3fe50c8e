//! Makes requests from the bytes on a connection, for captures and proxies. They see bytes and do
//! not know the protocol.
//!
//! ```text
//!   client  ▓▓▓              ▓▓▓▓                          a turn: bytes from the client,
//!   server       ▓▓▓▓▓▓▓▓▓        ▓▓▓▓▓                    then bytes from the server
//!           │    │       │   │
//!         asked  first  last └─ asked again: think time = asked again − last
//! ```

use std::time::Duration;

use crate::classes::Classes;
use crate::gather::{LARGE, SLOW};
use crate::sessions::Opened;
use crate::trace::{Connection, Method, Step};

/// The requests of one connection, as its bytes pass. Times are in microseconds since 1970.
pub(crate) struct Turns {
    /// How many turns belong to TLS, and are left out.
    skipped: u32,
    connection: Connection,
    /// When the first request was made.
    start: i64,
    turn: Option<Turn>,
    /// When the last reply was over.
    last: i64,
}

/// A request that is under way, or its reply.
struct Turn {
    think: i64,
    request: u64,
    reply: u64,
    /// When the first bytes of the reply came, and the last ones.
    first: i64,
    last: i64,
}

impl Turns {
    /// A connection. Its first `skipped` turns are no requests.
    pub(crate) fn new(skipped: u32) -> Self {
        Self { skipped, connection: Connection::default(), start: 0, turn: None, last: 0 }
    }

    /// `bytes` come from the client.
    pub(crate) fn client(&mut self, time: i64, bytes: u64, classes: &mut Classes) {
        if self.turn.as_ref().is_some_and(|turn| turn.reply > 0) {
            self.end_turn(classes);
        }
        let think = time.saturating_sub(self.last).max(0);
        let new = Turn { think, request: 0, reply: 0, first: time, last: time };
        let turn = self.turn.get_or_insert(new);
        turn.request = turn.request.saturating_add(bytes);
        if self.connection.steps.is_empty() && turn.reply == 0 && turn.request == bytes {
            self.start = time;
        }
    }

    /// `bytes` come from the server. Bytes before the first request are a greeting.
    pub(crate) fn server(&mut self, time: i64, bytes: u64) {
        self.last = self.last.max(time);
        if let Some(turn) = &mut self.turn {
            if turn.reply == 0 {
                turn.first = time;
            }
            turn.reply = turn.reply.saturating_add(bytes);
            turn.last = time;
        }
    }

    /// The connection ended, or is not looked at any longer. `None` if it had no request.
    pub(crate) fn close(mut self, time: i64, classes: &mut Classes) -> Option<Opened> {
        self.end_turn(classes);
        let open = u64::try_from(time.saturating_sub(self.last.max(self.start))).unwrap_or(0);
        self.connection.open_after = Duration::from_micros(open);
        let Self { connection, start, .. } = self;
        (!connection.steps.is_empty()).then_some(Opened { start, connection })
    }

    fn end_turn(&mut self, classes: &mut Classes) {
        let Some(turn) = self.turn.take() else { return };
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        let took = u64::try_from(turn.last.saturating_sub(turn.first)).unwrap_or(0);
        if turn.reply >= LARGE && took >= SLOW {
            let rate = (u128::from(turn.reply) * 1_000_000 / u128::from(took)) as u64;
            self.connection.rate = self.connection.rate.into_iter().chain([rate]).min();
        }
        let think = if self.connection.steps.is_empty() { 0 } else { turn.think };
        let class = classes.of(Method::Other, "", 0, [turn.request, turn.reply]);
        self.connection.steps.push(Step { think: Duration::from_micros(think as u64), class });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_become_requests_with_their_think_times() {
        let mut classes = Classes::new(false, 1 << 20);
        let mut turns = Turns::new(0);
        turns.client(1_000, 70, &mut classes);
        turns.client(1_010, 30, &mut classes);
        turns.server(1_500, 1000);
        turns.server(2_000, 24);
        turns.client(5_000, 100, &mut classes);
        turns.server(5_100, 1024);
        let Opened { start, connection } = turns.close(9_100, &mut classes).unwrap();
        assert_eq!((start, connection.open_after), (1_000, Duration::from_micros(4_000)));
        let thinks: Vec<u128> =
            connection.steps.iter().map(|step| step.think.as_micros()).collect();
        assert_eq!(thinks, [0, 3_000]);
        let list = classes.into_list();
        // Both turns had 100 and 1,024 bytes.
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].request, list[0].reply), (107, 1024));
    }

    #[test]
    fn a_greeting_and_a_handshake_are_no_requests() {
        let mut classes = Classes::new(false, 1 << 20);
        let mut turns = Turns::new(1);
        turns.server(10, 100);
        turns.client(20, 300, &mut classes);
        turns.server(30, 3000);
        turns.client(40, 50, &mut classes);
        turns.server(50, 5000);
        let Opened { start, connection } = turns.close(60, &mut classes).unwrap();
        assert_eq!((start, connection.steps.len()), (40, 1));
        assert!(Turns::new(0).close(60, &mut classes).is_none());
    }

    #[test]
    fn a_slow_client_has_a_rate() {
        let mut classes = Classes::new(false, 1 << 20);
        let mut turns = Turns::new(0);
        turns.client(0, 100, &mut classes);
        turns.server(10, 500_000);
        turns.server(1_000_010, 500_000);
        let opened = turns.close(1_000_010, &mut classes).unwrap();
        assert_eq!(opened.connection.rate, Some(1_000_000));
    }
}
