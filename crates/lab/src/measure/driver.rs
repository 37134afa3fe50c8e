//! Drives the load of cells and slices: the load generator in this process, or loads on hosts.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duality_load::{Relay, Report, Slice};

use super::experiment::Experiment;
use super::window::Window;
use crate::failure::{Blame, Failure, Party};
use crate::record::CellKey;

/// The fate of a load's connections after its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The connections stay, for slices.
    Stay,
    /// They end.
    End,
}

/// Makes load.
pub(crate) trait Driver {
    /// Measures the server of `window` in a window of its own. If the load stays, its connections
    /// are at rest afterwards, for [`slice`](Driver::slice). The load's number is the count of
    /// loads that stayed before.
    ///
    /// # Errors
    ///
    /// The error tells why there is no report. Then the load does not stay.
    fn measure(
        &mut self,
        key: &CellKey,
        after: After,
        window: &mut Window<'_>,
        interrupted: &AtomicBool,
    ) -> Result<Report, Failure>;

    /// Makes a load send requests for `length`.
    ///
    /// # Errors
    ///
    /// Fails if the load generator is gone.
    fn slice(&mut self, load: usize, length: Duration) -> Result<Slice, Failure>;

    /// The number of processors that make a staying load, each in a process of its own.
    fn width(&self, _load: usize) -> usize {
        1
    }

    /// The longest round trip from a load to its server. `None` on one machine, where it is
    /// negligible.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

/// The load generator in this process.
pub(crate) struct InProcess<'a> {
    experiment: &'a Experiment,
    relay: Option<Relay>,
}

impl<'a> InProcess<'a> {
    pub(crate) fn new(experiment: &'a Experiment) -> Self {
        Self { experiment, relay: None }
    }
}

impl Driver for InProcess<'_> {
    fn measure(
        &mut self,
        key: &CellKey,
        after: After,
        window: &mut Window<'_>,
        interrupted: &AtomicBool,
    ) -> Result<Report, Failure> {
        let options = self.experiment.load(window.address(), key)?;
        if after == After::End {
            return Ok(duality_load::run(&options, window, interrupted)?);
        }
        let relay = match &mut self.relay {
            Some(relay) => relay,
            none => none.insert(Relay::new(&options.cpus)?),
        };
        Ok(relay.join(&options, window, interrupted)?)
    }

    fn slice(&mut self, load: usize, length: Duration) -> Result<Slice, Failure> {
        let relay = self.relay.as_mut().expect("a load has joined");
        relay.slice(load, length).blame(Party::Load)
    }
}
