//! A trace of connections as they happen, for a proxy: it notes when bytes pass, and never the
//! bytes.

use std::collections::HashMap;
use std::time::Duration;

use crate::classes::Classes;
use crate::gather::{MOST, assemble, size_warnings};
use crate::sessions::Opened;
use crate::trace::{Head, Inferred, Sizes, Trace};
use crate::turns::Turns;

/// The traffic, as a trace. Times are in microseconds since 1970.
///
/// ```
/// use duality_trace::recorder::Recorder;
///
/// let mut recorder = Recorder::new(1 << 20);
/// let connection = recorder.open();
/// recorder.client(connection, 1_000, 100);
/// recorder.server(connection, 1_500, 2_000);
/// let trace = recorder.finish("proxy", 5_000).unwrap();
/// assert_eq!(trace.requests(), 1);
/// ```
pub struct Recorder {
    max_size: u64,
    classes: Classes,
    live: HashMap<u64, Turns>,
    opened: Vec<Opened>,
    /// How many connections there were.
    connections: u64,
}

impl Recorder {
    /// Larger replies count as `max_size` bytes.
    pub fn new(max_size: u64) -> Self {
        Self {
            max_size,
            classes: Classes::new(false, max_size),
            live: HashMap::new(),
            opened: Vec::new(),
            connections: 0,
        }
    }

    /// A connection was opened. Returns its number.
    pub fn open(&mut self) -> u64 {
        self.connections += 1;
        self.live.insert(self.connections, Turns::new(0));
        self.connections
    }

    /// Notes bytes that came from the client of a connection.
    pub fn client(&mut self, connection: u64, time: i64, bytes: usize) {
        if let Some(turns) = self.live.get_mut(&connection) {
            turns.client(time, bytes as u64, &mut self.classes);
        }
    }

    /// Notes bytes that went to the client of a connection.
    pub fn server(&mut self, connection: u64, time: i64, bytes: usize) {
        if let Some(turns) = self.live.get_mut(&connection) {
            turns.server(time, bytes as u64);
        }
    }

    /// A connection ended.
    pub fn close(&mut self, connection: u64, time: i64) {
        if let Some(turns) = self.live.remove(&connection) {
            self.opened.extend(turns.close(time, &mut self.classes));
        }
    }

    /// Whether a trace has no room for more.
    pub fn is_full(&self) -> bool {
        self.classes.requests >= MOST
    }

    /// The trace, made from `source`, up to this time. `None` without a request.
    pub fn finish(mut self, source: &str, time: i64) -> Option<Trace> {
        for connection in self.live.keys().copied().collect::<Vec<u64>>() {
            self.close(connection, time);
        }
        let mut warnings: Vec<String> = size_warnings(&self.classes, self.max_size).collect();
        let silent = self.connections - self.opened.len() as u64;
        if silent > 0 {
            warnings.push(format!("connections without a request, which are left out: {silent}"));
        }
        let head = Head {
            source: source.to_owned(),
            sizes: Sizes::Wire,
            resolution: Duration::from_micros(1),
            inferred: vec![turns()],
            warnings,
            ..Head::default()
        };
        assemble(head, self.classes, self.opened, time)
    }
}

/// How requests are told apart where only bytes are seen.
pub(crate) fn turns() -> Inferred {
    Inferred {
        what: "requests".to_owned(),
        value: "bytes from the client, then bytes from the server".to_owned(),
        why: "payload is not looked at".to_owned(),
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Recorder")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_at_the_same_time_are_told_apart() {
        let mut recorder = Recorder::new(1 << 20);
        let [one, other, _silent] = [recorder.open(), recorder.open(), recorder.open()];
        recorder.client(one, 1_000, 10);
        recorder.client(other, 1_100, 10);
        recorder.server(other, 1_200, 100);
        recorder.server(one, 1_300, 100);
        recorder.close(other, 1_400);
        recorder.client(one, 2_300, 10);
        recorder.server(one, 2_400, 100);
        // After its end, nothing is added to a connection.
        recorder.client(other, 2_500, 10);
        let trace = recorder.finish("proxy", 3_400).unwrap();
        assert_eq!((trace.requests(), trace.head.connections), (3, 2));
        assert_eq!(trace.connections[0].steps[1].think, Duration::from_micros(1_000));
        assert_eq!(trace.connections[0].open_after, Duration::from_micros(1_000));
        assert_eq!(trace.connections[1].start, Duration::from_micros(100));
        assert!(trace.head.warnings[0].starts_with("connections without a request"));
        assert!(Recorder::new(1).finish("proxy", 0).is_none());
    }
}
