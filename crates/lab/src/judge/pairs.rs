//! Compares two subjects at a number of connections: the difference, and whether it is certain.

use crate::judge::blocks::{Family, Fit};
use crate::judge::rounds::Metric;

/// If the load generator's time differs by more than this share, work has moved.
const MOVED: f64 = 0.10;

/// Two subjects at a number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The difference by which the first subject is worse than the second, as a logarithm.
    pub(crate) behind: f64,
    /// The critical difference, as a logarithm.
    pub(crate) critical: f64,
    /// Whether the first subject is not certain to be worse.
    pub(crate) level: bool,
    /// Whether the first subject is level only because work has moved to the load generator.
    pub(crate) work_moved: bool,
}

/// The fits of the compared figures.
pub(crate) struct Fits {
    /// What decides.
    pub(crate) metric: Metric,
    /// The figure that decides.
    pub(crate) deciding: Fit,
    /// The load generator's time for a request.
    pub(crate) client: Option<Fit>,
    /// The time of server and load generator together.
    pub(crate) total: Option<Fit>,
}

/// Makes a family of comparisons among `count` subjects with a joint error.
type Make = for<'f> fn(&'f Fit, usize, f64) -> Family<'f>;

/// Comparisons that are made together: [`Fit::family`] or [`Fit::family_of_one`].
pub(crate) struct Pairs<'f> {
    fits: &'f Fits,
    make: Make,
    count: usize,
    alpha: f64,
    family: Family<'f>,
}

impl<'f> Pairs<'f> {
    /// Comparisons among `count` subjects, with a joint error of `alpha`.
    pub(crate) fn new(fits: &'f Fits, make: Make, count: usize, alpha: f64) -> Self {
        Self { fits, make, count, alpha, family: make(&fits.deciding, count, alpha) }
    }

    /// The largest difference of two subjects that chance makes, as a logarithm.
    pub(crate) fn critical(&self, one: usize, other: usize) -> f64 {
        self.family.critical(one, other)
    }

    /// Compares a subject with another subject.
    pub(crate) fn pair(&self, one: usize, other: usize) -> Pair {
        let behind = self.fits.deciding.gap(one, other).unwrap_or(0.0);
        let critical = if one == other { 0.0 } else { self.critical(one, other) };
        let is_worse = behind > critical;
        let work_moved = is_worse && self.has_moved(one, other) && !self.total_is_worse(one, other);
        Pair { behind, critical, level: !is_worse || work_moved, work_moved }
    }

    /// Whether the load generator does more, or less, of the work of one subject.
    fn has_moved(&self, one: usize, other: usize) -> bool {
        let gap = self.fits.client.as_ref().and_then(|fit| fit.gap(one, other));
        self.fits.metric == Metric::ServerCpu && gap.is_some_and(|gap| gap.exp_m1().abs() > MOVED)
    }

    /// Whether the time of both ends together is also worse, or unknown.
    fn total_is_worse(&self, one: usize, other: usize) -> bool {
        let Some(fit) = &self.fits.total else { return true };
        let critical = (self.make)(fit, self.count, self.alpha).critical(one, other);
        fit.gap(one, other).is_none_or(|gap| gap > critical)
    }
}
