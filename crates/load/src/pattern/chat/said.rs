//! The lines that members say in a room, with the members' numbers.

use std::fmt::Write;
use std::time::Instant;

use crate::failure::Failure;

/// The greatest difference between two members' numbers.
const WIDEST_NUMBERS: u64 = 1 << 22;

/// The members by their numbers.
pub(super) struct Numbers {
    numbers: Vec<u64>,
    lowest: u64,
    /// The member with each number, indexed by the number's distance from the lowest.
    members: Vec<Option<u32>>,
}

/// The lines of one member in a round.
#[derive(Clone)]
pub(super) struct Said {
    /// The moment before the line was sent.
    pub(super) at: Instant,
    /// The lines in their form for delivery, all equally long.
    pub(super) lines: Vec<u8>,
    pub(super) length: usize,
    /// The present state of the member.
    pub(super) speaker: Speaker,
}

/// Whether a member is present, so that its lines are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    Present,
    /// The member was lost with its server in this round. The member's first lines may still be
    /// heard, in order.
    Lost,
    /// The member was lost in an earlier round. The lines of that round may still be heard.
    LostEarlier,
}

impl Said {
    /// No lines, of a present member.
    pub(super) fn nothing() -> Self {
        Self { at: Instant::now(), lines: Vec::new(), length: 0, speaker: Speaker::Present }
    }
}

impl Numbers {
    /// Takes the members' numbers, in the order of the members. There is at least one member.
    pub(super) fn new(numbers: Vec<u64>) -> Result<Self, Failure> {
        let lowest = numbers.iter().copied().min().unwrap_or_default();
        let highest = numbers.iter().copied().max().unwrap_or_default();
        if highest - lowest >= WIDEST_NUMBERS {
            return Err(Failure::WrongBytes("the numbers of the members are too far apart"));
        }
        let mut members = vec![None; (highest - lowest) as usize + 1];
        for (member, number) in (0..).zip(&numbers) {
            if members[(number - lowest) as usize].replace(member).is_some() {
                return Err(Failure::WrongBytes("two members have the same number"));
            }
        }
        Ok(Self { numbers, lowest, members })
    }

    /// The member with this number.
    #[inline]
    pub(super) fn member(&self, number: u64) -> Option<usize> {
        let place = usize::try_from(number.checked_sub(self.lowest)?).ok()?;
        self.members.get(place).copied().flatten().map(|member| member as usize)
    }
    pub(super) fn count(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn of(&self, member: usize) -> u64 {
        self.numbers[member]
    }

    pub(super) fn highest(&self) -> u64 {
        self.numbers.iter().max().copied().unwrap_or_default()
    }
}

/// The text of a member's line. The number of the member and of the line show whether a server
/// confuses lines. Further parts are easily changed by a careless server: spaces, bytes beyond
/// ASCII, and text that looks like a sender.
pub(super) fn text(member: u64, line: u64) -> String {
    format!("{member}> {:08} é  chat ", line % 100_000_000)
}

/// A line in the form in which the others receive it.
pub(super) fn delivered(number: u64, text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 8);
    let _ = writeln!(line, "{number}> {text}");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_numbers() {
        let numbers = Numbers::new(vec![7, 5, 9]).unwrap();
        let found: Vec<_> = (4..=10).map(|number| numbers.member(number)).collect();
        assert_eq!(found, [None, Some(1), None, Some(0), None, Some(2), None]);
        assert_eq!((numbers.member(0), numbers.member(u64::MAX)), (None, None));
        assert!(Numbers::new(vec![7, 5, 7]).is_err());
        assert!(Numbers::new(vec![1, u64::MAX]).is_err());
    }
}
