//! From records to curves: T, #B, TP and #CP of each request, the mean at each x, and its moving
//! average.
//!
//! Means are kept as sums. So the sums of several cells add up to the sums over all their requests,
//! which give the mean. Where x has many values, neighbours share a bin. Below 32 each value has
//! its own bin. From there on, x doubles every 16 bins. So a bin is at most a sixteenth wide.
//!
//! Source: Truppel & Abreu, sections IV and VI.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bins in which x doubles.
const BINS: u64 = 16;
/// Bins of twice x below this have one value each.
const OWN: u64 = 4 * BINS;
/// The number of neighbours in the moving average, the point in the middle included.
const WINDOW: usize = 9;

/// One request: its row in the file, in the paper's terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedRequest {
    /// T, in seconds.
    pub time: f64,
    /// #B.
    pub blocks: u64,
    /// Twice #CP, which is a whole number.
    pub clients_twice: u64,
}

impl RecordedRequest {
    /// Reads a row `t1_ns,t2_ns,blocks1,blocks2,clients1,clients2`. `None` for any other line.
    #[must_use]
    pub fn read(row: &str) -> Option<Self> {
        let mut numbers = row.trim_end().split(',').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let [t1, t2, blocks1, blocks2, clients1, clients2] =
            [next()?, next()?, next()?, next()?, next()?, next()?];
        Some(Self {
            time: t2.checked_sub(t1)? as f64 / 1e9,
            blocks: blocks2.checked_sub(blocks1)?,
            clients_twice: clients1.checked_add(clients2)?,
        })
    }

    /// #CP.
    #[must_use]
    pub fn clients(&self) -> f64 {
        self.clients_twice as f64 / 2.0
    }

    /// TP, in blocks per second. `None` for a request that took no time.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.time > 0.0).then(|| self.blocks as f64 / self.time)
    }
}

/// The kind of plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// T against #B.
    TimeBlocks,
    /// T against #CP.
    TimeClients,
    /// TP against #CP.
    RateClients,
}

impl Plot {
    /// All plots.
    pub const ALL: [Self; 3] = [Self::TimeBlocks, Self::TimeClients, Self::RateClients];

    /// The coordinates of the request in the plot.
    #[must_use]
    pub fn place(self, request: &RecordedRequest) -> Option<(f64, f64)> {
        match self {
            Self::TimeBlocks => Some((request.blocks as f64, request.time)),
            Self::TimeClients => Some((request.clients(), request.time)),
            Self::RateClients => Some((request.clients(), request.rate()?)),
        }
    }
}

/// The sums of a plot, by bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Bin>", into = "Vec<Bin>")]
pub struct Sums {
    bins: BTreeMap<u32, (u64, f64, f64)>,
    /// The bin that covers many values, in sums of version 1. Moving averages leave it out.
    mixed: Option<u32>,
}

/// A stored bin: its number, the number of its requests, and the sums of x and of y.
type Bin = (u32, u64, f64, f64);

impl From<Vec<Bin>> for Sums {
    fn from(bins: Vec<Bin>) -> Self {
        let bins = bins.into_iter().map(|(bin, count, x, y)| (bin, (count, x, y))).collect();
        Self { bins, mixed: None }
    }
}

impl From<Sums> for Vec<Bin> {
    fn from(sums: Sums) -> Self {
        sums.bins.into_iter().map(|(bin, (count, x, y))| (bin, count, x, y)).collect()
    }
}

impl Sums {
    /// The sums of these places.
    #[must_use]
    pub fn of(places: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut sums = Self::default();
        places.for_each(|(x, y)| sums.add_bin(bin(x), (1, x, y)));
        sums
    }

    /// Adds the sums of other requests.
    pub fn add(&mut self, other: &Self) {
        other.bins.iter().for_each(|(bin, sum)| self.add_bin(*bin, *sum));
        self.mixed = self.mixed.or(other.mixed);
    }

    fn add_bin(&mut self, bin: u32, (count, of_x, of_y): (u64, f64, f64)) {
        let own = self.bins.entry(bin).or_default();
        own.0 += count;
        own.1 += of_x;
        own.2 += of_y;
    }

    /// Gives these sums the present numbers of bins, if version 1 of the file wrote them.
    ///
    /// Version 1 gave x from 24 to 31.5 the bins 48 to 63, and x from 32 to 63.5 the same bins.
    /// Sums cannot be taken apart again. So these 16 bins become one, which stands for x from 24 to
    /// 63.5. The means of this bin are right.
    pub(super) fn renumber_version_1(&mut self) {
        const OWN_BINS: u32 = OWN as u32;
        const MIXED: u32 = OWN_BINS - BINS as u32;
        for (bin, sum) in std::mem::take(&mut self.bins) {
            let bin = match bin {
                ..MIXED => bin,
                MIXED..OWN_BINS => MIXED,
                OWN_BINS.. => bin + BINS as u32,
            };
            self.add_bin(bin, sum);
        }
        self.mixed = Some(MIXED).filter(|bin| self.bins.contains_key(bin));
    }

    /// The number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.values().map(|(count, ..)| count).sum()
    }

    /// The mean at each x, in the order of x, with its moving average. The moving average is over
    /// up to nine neighbours, weighted by their numbers of requests.
    #[must_use]
    pub fn curve(&self) -> Vec<Mean> {
        let sums: Vec<_> = self.bins.values().collect();
        let mixed = self.mixed.and_then(|bin| self.bins.keys().position(|key| *key == bin));
        let mean = |index: usize| {
            let (count, of_x, of_y) = sums[index];
            let (first, end) = match mixed {
                Some(mixed) if index < mixed => (0, mixed),
                Some(mixed) if index > mixed => (mixed + 1, sums.len()),
                Some(mixed) => (mixed, mixed + 1),
                None => (0, sums.len()),
            };
            let from = index.saturating_sub(WINDOW / 2).max(first);
            let near = &sums[from..end.min(index + WINDOW / 2 + 1)];
            let weight: u64 = near.iter().map(|(count, ..)| count).sum();
            let sum: f64 = near.iter().map(|(.., of_y)| of_y).sum();
            let count = *count as f64;
            Mean { x: of_x / count, mean: of_y / count, moving: sum / weight as f64 }
        };
        (0..sums.len()).map(mean).collect()
    }
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// Where.
    pub x: f64,
    /// The mean of the point's requests.
    pub mean: f64,
    /// The mean of the points nearby.
    pub moving: f64,
}

/// The bin of x. The argument is twice x, since #CP has halves.
fn bin(x: f64) -> u32 {
    let twice = (x * 2.0).round() as u64;
    if twice < OWN {
        return twice as u32;
    }
    // `twice >> octave` is 16 to 31. So the first octave, in which bins are four halves wide,
    // begins at bin 64.
    let octave = twice.ilog2() - BINS.ilog2();
    (octave + 1) * BINS as u32 + (twice >> octave) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_becomes_the_quantities_of_the_paper() {
        let request = RecordedRequest::read("1000000000,1500000000,10,15,3,4\n").unwrap();
        assert_eq!(request.time, 0.5);
        assert_eq!((request.blocks, request.clients()), (5, 3.5));
        assert_eq!(request.rate(), Some(10.0));
        for wrong in ["", "1,2,3,4,5", "a,2,3,4,5,6", "2,1,3,4,5,6", "1,2,4,3,5,6"] {
            assert_eq!(RecordedRequest::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn small_values_have_bins_of_their_own() {
        let bins: Vec<u32> = (0..64).map(|twice| bin(f64::from(twice) / 2.0)).collect();
        assert!(bins.is_sorted_by(|one, next| one < next), "{bins:?}");
    }

    #[test]
    fn x_never_goes_backwards_where_the_curves_are() {
        // #CP has halves; most requests of a run meet fewer than 200 blocks and clients.
        let bins: Vec<u32> = (0..=400).map(|twice| bin(f64::from(twice) / 2.0)).collect();
        assert!(bins.is_sorted(), "{bins:?}");
        let curve = Sums::of((0..=400).map(|twice| (f64::from(twice) / 2.0, 1.0))).curve();
        assert!(curve.is_sorted_by(|one, next| one.x < next.x));
    }

    #[test]
    fn what_version_1_mixed_is_one_point_with_the_right_means() {
        // The numbers of version 1: 23.5, then 24 and 32 in one bin, 31.5 and 62 in one bin, and
        // 64.
        let kept = [(47, 1, 23.5, 1.0), (48, 2, 56.0, 4.0), (63, 2, 93.5, 6.0), (64, 1, 64.0, 9.0)];
        let mut sums = Sums::from(Vec::from(kept));
        sums.renumber_version_1();
        let curve = sums.curve();
        let places: Vec<_> = curve.iter().map(|one| (one.x, one.mean)).collect();
        assert_eq!(places, [(23.5, 1.0), (149.5 / 4.0, 2.5), (64.0, 9.0)]);
        // This bin covers many values, and takes no part in the averages beside it.
        assert!(curve.iter().all(|one| one.moving.total_cmp(&one.mean).is_eq()), "{curve:?}");
        assert_eq!(Sums::of([(64.0, 9.0)].into_iter()).bins.into_keys().next(), Some(bin(64.0)));
        assert_eq!(sums.bins.into_keys().collect::<Vec<_>>(), [bin(23.5), bin(24.0), bin(64.0)]);
    }

    fn in_order_and_narrow(x: f64, y: f64) -> Result<(), TestCaseError> {
        let (low, high) = (x.min(y), x.max(y));
        prop_assert!(bin(low) <= bin(high), "{low} and {high}");
        if bin(low) == bin(high) {
            let wide = if low < 32.0 { 0.5 } else { low / BINS as f64 + 1.0 };
            prop_assert!(high - low <= wide, "{low} and {high}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn bins_are_in_order_and_narrow_where_the_curves_are(x in 0.0..200.0_f64, y in 0.0..200.0_f64) {
            in_order_and_narrow(x, y)?;
        }

        #[test]
        fn bins_are_in_order_and_narrow(x in 0.0..1e9_f64, y in 0.0..1e9_f64) {
            in_order_and_narrow(x, y)?;
        }

        #[test]
        fn nothing_is_lost_and_parts_add_up(
            places in prop::collection::vec((prop_oneof![0.0..200.0_f64, 0.0..1e6_f64], 0.0..1e3_f64), 1..200), cut in any::<prop::sample::Index>(),
        ) {
            let whole = Sums::of(places.iter().copied());
            let (one, other) = places.split_at(cut.index(places.len()));
            let mut added = Sums::of(one.iter().copied());
            added.add(&Sums::of(other.iter().copied()));
            prop_assert_eq!(added.count(), places.len() as u64);
            let curve = whole.curve();
            prop_assert!(curve.is_sorted_by(|one, next| one.x < next.x));
            let least = places.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
            let most = places.iter().map(|(_, y)| *y).fold(0.0, f64::max);
            for (point, again) in curve.iter().zip(added.curve()) {
                prop_assert!((point.mean - again.mean).abs() < 1e-6);
                for value in [point.mean, point.moving] {
                    prop_assert!(value >= least - 1e-6 && value <= most + 1e-6);
                }
            }
        }
    }
}
