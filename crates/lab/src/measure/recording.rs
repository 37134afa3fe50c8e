//! The recording that an experiment replays, the pieces that its measurements get, and the files
//! that stand for its pages.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duality_load::{Cut, Piece, write_files};
use duality_trace::Trace;
use tempfile::TempDir;

use crate::random::SplitMix64;
use crate::record::{Recording, Spread};

/// The number of parts in which its arrivals are shown.
const PARTS: usize = 48;

/// This many requests a second are a load to measure, and leave several servers below half of a
/// processor.
const ENOUGH: f64 = 300.0;

/// With fewer requests in a piece, chance decides the cost of a request.
const FEWEST: f64 = 20.0;

/// The recording that is replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    name: String,
    /// The cut of each piece, but for its users, its length and its seed.
    cut: Cut,
    /// The folder of the files that stand for its pages. `None` if the servers have pages.
    files: Option<Arc<TempDir>>,
}

impl Replay {
    /// The recording `trace`, called `name`. Pieces are cut as `cut` says, but for the users, the
    /// length and the seed.
    pub fn new(trace: Arc<Trace>, name: &Path, cut: Cut) -> Self {
        let name = name.display().to_string();
        Self { trace, name, cut, files: None }
    }

    /// Writes the files that stand for its pages, if the recording has no paths.
    ///
    /// # Errors
    ///
    /// Fails if the files cannot be written.
    pub fn with_files(mut self) -> io::Result<Self> {
        if self.trace.head.classes.iter().any(|class| class.path.is_none()) {
            let folder = tempfile::tempdir()?;
            write_files(&self.trace, folder.path())?;
            self.files = Some(Arc::new(folder));
        }
        Ok(self)
    }

    /// The folder of those files.
    pub fn root(&self) -> Option<PathBuf> {
        self.files.as_ref().map(|folder| folder.path().to_owned())
    }

    /// A piece of this length for this many users. `salt` tells pieces apart.
    pub fn piece(&self, users: usize, length: Duration, seed: u64, salt: [u64; 3]) -> Arc<Piece> {
        let mut random = SplitMix64::new(seed);
        for part in salt {
            random = SplitMix64::new(random.next() ^ part);
        }
        let cut = Cut { users, length, seed: random.next(), ..self.cut };
        Arc::new(Piece::cut(&self.trace, &cut))
    }

    /// The multiple of its users that makes enough requests to measure.
    pub fn usual_users(&self) -> usize {
        let rate = self.record().rate(1);
        let needed = ENOUGH / rate.max(1e-9);
        if needed <= 1.0 {
            return 1;
        }
        // The multiple is 1, 2 or 5 times a power of ten.
        let decade = 10_f64.powf(needed.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        steps.into_iter().find(|step| *step >= needed).unwrap_or(needed) as usize
    }

    /// The reason why this many users make too few requests in `length`, if they do.
    pub fn too_few(&self, users: usize, length: Duration) -> Option<String> {
        let expected = self.record().rate(users) * length.as_secs_f64();
        (expected < FEWEST).then(|| {
            format!(
                "{expected:.1} requests in a piece of {length:?}, where {FEWEST} are needed: give \
                 more users ({} would do), or a longer window",
                self.usual_users()
            )
        })
    }

    /// The recording's form in the results.
    pub fn record(&self) -> Recording {
        let trace = &*self.trace;
        let seconds = trace.seconds().max(1.0);
        let mut arrivals = vec![0; PARTS];
        for time in trace.request_times() {
            let part = (time.as_secs_f64() / seconds * PARTS as f64) as usize;
            arrivals[part.min(PARTS - 1)] += 1;
        }
        let open: Duration = trace.iter().map(|one| one.end().saturating_sub(one.start)).sum();
        let later = || trace.iter().flat_map(|one| one.steps.iter().skip(1));
        let steps = || trace.iter().flat_map(|one| &one.steps);
        Recording {
            trace: self.name.clone(),
            checksum: trace.head.checksum.clone(),
            speed: self.cut.speed,
            bunch: (self.cut.bunch > 1).then_some(self.cut.bunch),
            client_rate: self.cut.client_rate,
            at: self.cut.at.map(|at| at.to_string()),
            source: trace.head.source.clone(),
            seconds,
            requests: trace.requests(),
            connections: trace.head.connections,
            open: open.as_secs_f64() / seconds,
            arrivals,
            carried: Spread::of(trace.iter().map(|one| one.steps.len() as f64).collect()),
            think_seconds: Spread::of(later().map(|step| step.think.as_secs_f64()).collect()),
            reply_bytes: Spread::of(steps().map(|step| trace.class(*step).reply as f64).collect()),
            inferred: trace
                .head
                .inferred
                .iter()
                .map(|one| format!("{}: {}, {}", one.what, one.value, one.why))
                .collect(),
            warnings: trace.head.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use duality_trace::{Class, Connection, Head, Method, Step};

    use super::*;

    /// One request a second, for this many seconds.
    fn replay(seconds: u64) -> Replay {
        let class =
            Class { method: Method::Get, request: 0, reply: 1024, status: 2, count: 0, path: None };
        let connections = (0..seconds).map(|second| Connection {
            start: Duration::from_secs(second),
            rate: None,
            steps: vec![Step { think: Duration::ZERO, class: 0 }],
            open_after: Duration::from_secs(2),
        });
        let head =
            Head { length: Duration::from_secs(seconds), classes: vec![class], ..Head::default() };
        let trace = Trace::new(head, connections.collect());
        Replay::new(Arc::new(trace), Path::new("my.trace"), Cut::of(Duration::ZERO))
    }

    #[test]
    fn a_recording_is_described() {
        let record = replay(480).record();
        assert_eq!(
            (record.requests, record.connections, record.trace.as_str()),
            (480, 480, "my.trace")
        );
        assert!((record.open - 2.0).abs() < 1e-9 && record.arrivals == [10; 48]);
        assert_eq!((record.carried.max, record.reply_bytes.p50), (1.0, 1024.0));
        assert!((record.rate(7) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn so_many_users_are_enough() {
        let replay = replay(480);
        assert_eq!(replay.usual_users(), 500);
        assert_eq!(replay.too_few(500, Duration::from_secs(1)), None);
        assert!(replay.too_few(1, Duration::from_secs(1)).unwrap().contains("500 would do"));
    }

    #[test]
    fn pieces_differ_by_their_salt_and_files_stand_for_pages() {
        let replay = replay(480).with_files().unwrap();
        let root = replay.root().unwrap();
        assert_eq!(std::fs::metadata(root.join("s1024")).unwrap().len(), 1024);
        let arrivals = |salt| replay.piece(3, Duration::from_secs(20), 1, [0, 0, salt]).arrivals();
        assert!(arrivals(1) == arrivals(1) && arrivals(1) != arrivals(2));
    }
}
