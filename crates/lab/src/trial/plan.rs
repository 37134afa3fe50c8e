//! The turns of a block: all candidates in random order, and back.

use std::time::Duration;

use crate::random::{SplitMix64, shuffle};

/// A turn, in which a candidate gets all new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) candidate: usize,
    pub(super) length: Duration,
}

/// The turns of a block for candidates with these shares. With equal shares, each turn is a `slot`
/// long. A block has the same length for any shares.
pub(super) fn block(
    candidates: &[(usize, f64)],
    slot: Duration,
    random: &mut SplitMix64,
) -> Vec<Turn> {
    let all: f64 = candidates.iter().map(|(_, share)| share).sum();
    let turn = |&(candidate, share): &(usize, f64)| {
        let length = slot.mul_f64(candidates.len() as f64 * share / all);
        Turn { candidate, length }
    };
    let mut turns: Vec<Turn> = candidates.iter().map(turn).collect();
    shuffle(&mut turns, random);
    let back: Vec<Turn> = turns.iter().rev().copied().collect();
    turns.extend(back);
    turns
}

/// The shares as weights of a draw.
pub(super) fn weights(candidates: &[(usize, f64)], count: usize) -> Vec<u32> {
    let mut weights = vec![0; count];
    for &(candidate, share) in candidates {
        weights[candidate] = ((share * 1e6).round() as u32).max(1);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Duration = Duration::from_secs(2);

    #[test]
    fn a_block_is_mirrored_and_has_each_candidate_twice() {
        let mut random = SplitMix64::new(1);
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let turns = block(&[(0, 0.3), (1, 0.3), (4, 0.3)], SLOT, &mut random);
            let order: Vec<usize> = turns.iter().map(|turn| turn.candidate).collect();
            assert!(order.iter().eq(order.iter().rev()), "{order:?}");
            let mut half = order[..3].to_vec();
            half.sort_unstable();
            assert_eq!(half, [0, 1, 4]);
            assert!(turns.iter().all(|turn| turn.length.abs_diff(SLOT).as_micros() < 2));
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6, "every order comes");
    }

    #[test]
    fn shares_are_lengths_and_weights() {
        let candidates = [(0, 0.9), (2, 0.1)];
        let turns = block(&candidates, SLOT, &mut SplitMix64::new(1));
        let length = |candidate| {
            turns.iter().find(|turn| turn.candidate == candidate).unwrap().length.as_millis()
        };
        assert_eq!((length(0), length(2)), (3600, 400));
        assert_eq!(weights(&candidates, 3), [900_000, 0, 100_000]);
    }
}
