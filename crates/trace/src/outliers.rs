//! Finds stamps that are far from all others. One stamp of 1970 makes a trace of decades.

use crate::sessions::Opened;
use crate::trace::{Connection, LONGEST};

/// A gap of this length, in microseconds, may part outliers from the rest.
const GAP: i64 = 86_400_000_000;
/// Outliers are one request in so many at most.
const ONE_IN: usize = 100;
/// With fewer requests, no stamp is an outlier.
const ENOUGH: usize = 10;

/// What was left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// How many requests.
    pub(crate) requests: usize,
    /// The first of their stamps, in microseconds since 1970.
    pub(crate) first: Option<i64>,
}

/// Removes connections that a gap of a day or more parts from nearly all others. The gap must be
/// longer than the whole rest. If all together last longer than a trace may, the smaller part goes.
pub(crate) fn remove(opened: &mut Vec<Opened>) -> LeftOut {
    let mut order: Vec<(i64, i64, usize)> = opened.iter().map(span).collect();
    order.sort_unstable();
    let all: usize = order.iter().map(|(.., steps)| steps).sum();
    let most = if all < ENOUGH { 0 } else { (all / ONE_IN).max(1) };
    let kept = bulk(&order, most);
    let mut left = LeftOut::default();
    opened.retain(|one| {
        let is_kept = (kept.0..=kept.1).contains(&one.start);
        if !is_kept {
            left.requests += one.connection.steps.len();
            let first = left.first.map_or(one.start, |first| first.min(one.start));
            left.first = Some(first);
        }
        is_kept
    });
    left
}

/// The begin and the end of a connection, and its number of requests.
fn span(opened: &Opened) -> (i64, i64, usize) {
    (opened.start, end(opened), opened.connection.steps.len())
}

/// The last request of a connection, in microseconds since 1970.
pub(crate) fn end(Opened { start, connection }: &Opened) -> i64 {
    let Connection { steps, .. } = connection;
    let thought: u128 = steps.iter().map(|step| step.think.as_micros()).sum();
    start.saturating_add(i64::try_from(thought).unwrap_or(i64::MAX))
}

/// The first and the last begin of what is left when the ends with at most `most` requests are cut
/// off at wide gaps. Longer ends are cut off while the rest is longer than a trace may be.
fn bulk(order: &[(i64, i64, usize)], most: usize) -> (i64, i64) {
    let begins = || order.iter().map(|(begin, ..)| *begin);
    let (mut first, mut last) = (begins().min().unwrap_or(0), begins().max().unwrap_or(0));
    loop {
        let inside = || order.iter().filter(|(begin, ..)| (first..=last).contains(begin));
        let (mut reached, mut before, mut widest) =
            (None::<i64>, 0, None::<(i64, i64, i64, usize)>);
        for &(begin, end, steps) in inside() {
            if let Some(reached) = reached {
                let gap = begin.saturating_sub(reached);
                if widest.is_none_or(|(known, ..)| gap > known) {
                    widest = Some((gap, reached, begin, before));
                }
            }
            reached = reached.max(Some(end));
            before += steps;
        }
        let Some((gap, below, above, under)) = widest else { return (first, last) };
        let over = before - under;
        let is_below = under <= over;
        let rest = if is_below { last.saturating_sub(above) } else { below.saturating_sub(first) };
        let whole = reached.unwrap_or(last).saturating_sub(first);
        let is_possible = whole <= LONGEST.as_micros() as i64;
        let is_usual = gap < GAP || gap < rest || under.min(over) > most;
        if gap <= 0 || (is_possible && is_usual) {
            return (first, last);
        }
        if is_below {
            first = above;
        } else {
            last = inside()
                .map(|(begin, ..)| *begin)
                .filter(|begin| *begin < above)
                .max()
                .unwrap_or(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::Step;

    const HOUR: i64 = 3_600_000_000;

    fn opened(starts: impl IntoIterator<Item = i64>) -> Vec<Opened> {
        let step = || Step { think: Duration::ZERO, class: 0 };
        let one = |start| Opened {
            start,
            connection: Connection { steps: vec![step()], ..Connection::default() },
        };
        starts.into_iter().map(one).collect()
    }

    #[test]
    fn a_stray_stamp_is_left_out_on_either_side() {
        let usual = || (0..745).map(|number| 1_700_000_000_000_000 + number * HOUR / 60);
        for stray in [0, 4_000_000_000_000_000] {
            let mut all = opened(usual().chain([stray]));
            let left = remove(&mut all);
            assert_eq!(left, LeftOut { requests: 1, first: Some(stray) });
            assert_eq!(all.len(), 745);
        }
        let mut both = opened([0].into_iter().chain(usual()).chain([4_000_000_000_000_000]));
        assert_eq!(remove(&mut both).requests, 2);
    }

    #[test]
    fn what_is_left_is_no_longer_than_a_trace_may_be() {
        let years = |years: i64| years * 366 * 24 * HOUR;
        let mut two = opened([0, years(175)]);
        assert_eq!(remove(&mut two).requests, 1);
        // Each gap is possible, but not all together.
        let mut many = opened((0..30).map(|number| years(number * 9)));
        assert!(remove(&mut many).requests > 0);
        let ends = (many.iter().map(|one| one.start).min(), many.iter().map(end).max());
        assert!(ends.1.unwrap() - ends.0.unwrap() <= LONGEST.as_micros() as i64);
    }

    #[test]
    fn what_is_merely_rare_stays() {
        // A quiet week, and then a busy hour: no gap is longer than the rest.
        let quiet = (0..7).map(|day| day * 24 * HOUR);
        let mut all = opened(quiet.chain((0..700).map(|number| 6 * 24 * HOUR + HOUR + number)));
        assert_eq!(remove(&mut all), LeftOut::default());
        // Few requests, or two halves a year apart.
        let mut few = opened([0, 9_000 * HOUR]);
        assert_eq!(remove(&mut few), LeftOut::default());
        let mut halves = opened((0..50).chain((0..50).map(|number| 9_000 * HOUR + number)));
        assert_eq!(remove(&mut halves), LeftOut::default());
    }
}
