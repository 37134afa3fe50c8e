//! Checks the lines that one member hears, one by one, in place. Every line is compared with the
//! said lines.

use std::time::Instant;

use super::said::{Numbers, Said, Speaker};
use crate::failure::Failure;

/// A line is shorter than this.
const LONGEST_LINE: usize = 2 * 1024;

/// The lines of a round that one member has heard.
pub(super) struct Hearing {
    member: usize,
    /// The number of lines of each member.
    heard: Vec<u16>,
    /// The number of lines of present members that are still due.
    due: u64,
    digest: Digest,
    /// The number of losses noted so far.
    losses: usize,
}

/// The facts about a round at its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    /// The number of lines that are due to the member.
    pub(super) due: u64,
    /// The number of lost members.
    pub(super) losses: usize,
    /// Members were lost in the last round, so the digest goes on.
    pub(super) open: bool,
}

/// The part of a round that all members must have heard alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    /// The order in which lines from members of the other parity were heard. No member of the
    /// hearer's own parity is among these senders. So all members of one parity have heard the same
    /// lines, and in the same order if the room has one.
    pub(super) order: u64,
    /// The number of lines of lost members that were heard in the rounds of their loss.
    pub(super) of_the_lost: u64,
}

impl Hearing {
    pub(super) fn new(member: usize, members: usize) -> Self {
        let (heard, digest) = (vec![0; members], Digest::default());
        Self { member, heard, due: 0, digest, losses: 0 }
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, round: Beginning, said: &[Said]) {
        for (heard, said) in self.heard.iter_mut().zip(said) {
            if said.speaker != Speaker::LostEarlier {
                *heard = 0;
            }
        }
        (self.due, self.losses) = (round.due, round.losses);
        if !round.open {
            self.digest = Digest::default();
        }
    }

    /// Takes note of lost members: no further lines of theirs are due. `losses` has all losses so
    /// far, each with the number of lines that were due in the round of the loss.
    pub(super) fn note(&mut self, losses: &[(usize, u64)]) {
        for (sender, lines) in &losses[self.losses..] {
            self.due -= lines - u64::from(self.heard[*sender]);
        }
        self.losses = losses.len();
    }

    pub(super) fn is_complete(&self) -> bool {
        self.due == 0
    }

    /// The lines that the other members must have heard too, if the round is over. The digest
    /// counts the lines of members that were lost in the round or just before.
    pub(super) fn digest(&self, said: &[Said]) -> Digest {
        let heard = self.heard.iter().zip(said);
        let of_the_lost = heard.filter(|(_, said)| said.speaker != Speaker::Present);
        let of_the_lost = of_the_lost.map(|(heard, _)| u64::from(*heard)).sum();
        Digest { of_the_lost, ..self.digest }
    }

    /// Takes whole lines from the beginning of `bytes`, and returns their length. Adds the time of
    /// each line to `starts`.
    ///
    /// # Errors
    ///
    /// If a line is not due.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        numbers: &Numbers,
        said: &[Said],
        starts: &mut Vec<Instant>,
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let Some(sender) = sender(rest).and_then(|number| numbers.member(number)) else {
                return self.explain(rest, None).map(|()| taken);
            };
            let Said { at, lines, length, speaker } = &said[sender];
            let start = usize::from(self.heard[sender]) * length;
            let due = lines.get(start..start + length).unwrap_or_default();
            if due.is_empty() || sender == self.member || !rest.starts_with(due) {
                return self.explain(rest, Some((sender, &said[sender]))).map(|()| taken);
            }
            self.heard[sender] += 1;
            self.due -= u64::from(*speaker == Speaker::Present);
            if (sender ^ self.member) & 1 == 1 {
                // The function must depend on the order of the senders, and any such function
                // works. This is Knuth's generator.
                let mixed = self.digest.order ^ sender as u64;
                self.digest.order = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            }
            starts.push(*at);
            taken += length;
        }
    }

    /// Describes the mistake in the first line of `rest`, which is not its sender's next. An
    /// incomplete line may still be right.
    #[cold]
    fn explain(&self, rest: &[u8], sender: Option<(usize, &Said)>) -> Result<(), Failure> {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return match rest.len() {
                ..LONGEST_LINE => Ok(()),
                _ => Err(Failure::Malformed("the line is too long")),
            };
        };
        let line = &rest[..=end];
        let problem = match sender {
            None if line[0] == b'*' => return Err(word_of_server(&rest[..end])),
            None => "a line from no member of the chat",
            Some((sender, _)) if sender == self.member => "a member's own line came back to it",
            Some((sender, said)) => {
                // A member that has said nothing yet has lines of zero length.
                let mut lines = said.lines.chunks(said.length.max(1));
                match lines.position(|candidate| candidate == line) {
                    Some(place) if place < usize::from(self.heard[sender]) => "a line came twice",
                    Some(_) => "a line came before an earlier one of its sender",
                    None => "a line that its sender has not said in this round",
                }
            }
        };
        Err(Failure::WrongBytes(problem))
    }
}

/// The number at the beginning of `17> text`.
#[inline]
fn sender(line: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    // The most digits that cannot overflow.
    for &byte in line.iter().take(19) {
        match byte {
            b'0'..=b'9' => number = 10 * number + u64::from(byte - b'0'),
            b'>' => return Some(number),
            _ => return None,
        }
    }
    None
}

/// The meaning of a server's message that is not a welcome.
pub(super) fn word_of_server(line: &[u8]) -> Failure {
    match line {
        b"* too slow" => Failure::TooSlow,
        b"* the server is full" => Failure::ServerFull,
        b"* the store is unavailable" => Failure::StoreUnavailable,
        _ => Failure::WrongBytes("the server says what it has no reason to say"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::said::{delivered, text};
    use super::*;

    /// Members 0 to 3 with numbers 10 to 13, each with two said lines.
    fn scene() -> (Numbers, Vec<Said>) {
        let said = (0..4).map(|member| {
            let lines: String =
                (0..2).map(|line| delivered(10 + member, &text(member, line))).collect();
            Said { length: lines.len() / 2, lines: lines.into(), ..Said::nothing() }
        });
        (Numbers::new((10..14).collect()).unwrap(), said.collect())
    }

    fn line(member: u64, line: u64) -> String {
        delivered(10 + member, &text(member, line))
    }

    /// The number of correct lines that member 0 finds in `bytes`, which come `step` at a time.
    fn hear(bytes: &[u8], step: usize) -> Result<(usize, Hearing), Failure> {
        let (numbers, said) = scene();
        let mut hearing = Hearing::new(0, 4);
        hearing.begin(Beginning { due: 6, losses: 0, open: false }, &said);
        let (mut buffer, mut starts) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            buffer.extend_from_slice(piece);
            let taken = hearing.take(&buffer, &numbers, &said, &mut starts)?;
            buffer.drain(..taken);
        }
        Ok((starts.len(), hearing))
    }

    #[test]
    fn all_lines_of_the_others_in_any_order_of_members_are_right() {
        let all = [line(1, 0), line(3, 0), line(3, 1), line(2, 0), line(1, 1), line(2, 1)].concat();
        for step in 1..all.len() {
            let (right, hearing) = hear(all.as_bytes(), step).unwrap();
            assert!(right == 6 && hearing.is_complete(), "{step}");
        }
        let (right, hearing) = hear(&all.as_bytes()[..all.len() - 1], 20).unwrap();
        assert!(right == 5 && !hearing.is_complete());
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let first = line(1, 0);
        for (wrong, problem) in [
            (line(0, 0), "own line"),
            (delivered(14, &text(1, 0)), "from no member"),
            (delivered(9, &text(1, 0)), "from no member"),
            (delivered(99_999_999_999_999_999, &text(1, 0)), "from no member"),
            ("123456789012345678901234567890> x\n".to_owned(), "from no member"),
            ("\n".to_owned(), "from no member"),
            ("> \n".to_owned(), "from no member"),
            (line(1, 0), "twice"),
            (line(2, 1), "before an earlier one"),
            (line(1, 2), "has not said"),
            (delivered(12, &text(1, 0)), "has not said"),
            (line(2, 0).replace("  ", " "), "has not said"),
            (line(2, 0).replace(" \n", "\n"), "has not said"),
            (line(2, 0).replace('\n', "\r\n"), "has not said"),
            ("* hello\n".to_owned(), "no reason"),
        ] {
            for step in [1, 7, 100] {
                let bytes = [first.as_bytes(), wrong.as_bytes()].concat();
                let failure = hear(&bytes, step).err().map(|failure| failure.to_string());
                assert!(failure.is_some_and(|failure| failure.contains(problem)), "{wrong:?}");
            }
        }
    }

    #[test]
    fn the_server_may_have_a_reason() {
        let kind = |word: &str| hear(word.as_bytes(), 3).err().map(|failure| failure.kind());
        assert_eq!(kind("* too slow\n"), Some("too-slow"));
        assert_eq!(kind("* the server is full\n"), Some("server-full"));
        assert_eq!(kind("* the store is unavailable\n"), Some("store-unavailable"));
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for_for_ever() {
        assert!(matches!(hear(&[b'x'; LONGEST_LINE], 100), Err(Failure::Malformed(_))));
    }

    #[test]
    fn the_order_of_members_of_the_other_parity_is_told_apart() {
        let order =
            |lines: [String; 3]| hear(lines.concat().as_bytes(), 10).unwrap().1.digest(&[]).order;
        let one = order([line(1, 0), line(2, 0), line(3, 0)]);
        assert_eq!(one, order([line(2, 0), line(1, 0), line(3, 0)]));
        assert_ne!(one, order([line(3, 0), line(2, 0), line(1, 0)]));
    }

    #[test]
    fn of_a_lost_member_the_first_lines_may_come_and_none_is_due() {
        let (numbers, mut said) = scene();
        let mut hearing = Hearing::new(0, 4);
        hearing.begin(Beginning { due: 6, losses: 0, open: false }, &said);
        let hear = |hearing: &mut Hearing, said: &[Said], line: String| {
            hearing.take(line.as_bytes(), &numbers, said, &mut Vec::new()).map(drop)
        };
        let first = [line(1, 0), line(2, 0), line(2, 1), line(3, 0)].concat();
        hear(&mut hearing, &said, first).unwrap();
        said[1].speaker = Speaker::Lost;
        said[3].speaker = Speaker::Lost;
        hearing.note(&[(1, 2), (3, 2)]);
        assert!(hearing.is_complete());
        assert_eq!(hearing.digest(&said).of_the_lost, 2);
        // The other line of one of these members comes in the next round, in which two lines are
        // due.
        for said in &mut said[..] {
            if said.speaker == Speaker::Lost {
                said.speaker = Speaker::LostEarlier;
            }
        }
        hearing.begin(Beginning { due: 2, losses: 2, open: true }, &said);
        hear(&mut hearing, &said, [line(2, 0), line(3, 1), line(2, 1)].concat()).unwrap();
        assert!(hearing.is_complete());
        assert_eq!(hearing.digest(&said).of_the_lost, 3);
        assert!(hear(&mut hearing, &said, line(3, 1)).is_err());
        // Once the loss is settled, no further line may come.
        said[1].lines.clear();
        assert!(hear(&mut hearing, &said, line(1, 1)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(
            mut bytes in prop::collection::vec(prop::sample::select(b"0129> \n*\xff".to_vec()), 0..100),
            right in 0_usize..40,
        ) {
            bytes.splice(0..0, line(1, 0).into_bytes().into_iter().take(right));
            let _ = hear(&bytes, 7);
        }
    }
}
