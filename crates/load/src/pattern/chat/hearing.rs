//! Checks what one member hears, line by line, in place. Every line is compared with the lines that
//! were said.

use std::time::Instant;

use super::said::{Numbers, Said};
use crate::failure::Failure;

/// A line is shorter than this.
const LONGEST_LINE: usize = 2 * 1024;

/// What one member has heard of a round.
pub(super) struct Hearing {
    member: usize,
    /// How many lines of each member.
    heard: Vec<u16>,
    /// How many lines are still due.
    due: u64,
    order: u64,
}

impl Hearing {
    pub(super) fn new(member: usize, members: usize) -> Self {
        Self { member, heard: vec![0; members], due: 0, order: 0 }
    }

    /// Begins a round in which `due` lines are due.
    pub(super) fn begin(&mut self, due: u64) {
        self.heard.fill(0);
        self.due = due;
        self.order = 0;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.due == 0
    }

    /// A digest of the order in which this round's lines from members of the other parity were
    /// heard. No member of this member's parity is among these senders. So all members of that
    /// parity have heard the same lines, and in one order if the server has one.
    pub(super) fn order(&self) -> u64 {
        self.order
    }

    /// Takes whole lines from the beginning of `bytes`, and returns their length. Adds the time
    /// when each line was said to `starts`.
    ///
    /// # Errors
    ///
    /// When a line is not due.
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
            let Said { at, lines, length } = &said[sender];
            let start = usize::from(self.heard[sender]) * length;
            let due = lines.get(start..start + length).unwrap_or_default();
            if due.is_empty() || sender == self.member || !rest.starts_with(due) {
                return self.explain(rest, Some((sender, &said[sender]))).map(|()| taken);
            }
            self.heard[sender] += 1;
            self.due -= 1;
            if (sender ^ self.member) & 1 == 1 {
                // Any function works that depends on the order of the senders. This is Knuth's
                // generator.
                let mixed = self.order ^ sender as u64;
                self.order = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            }
            starts.push(*at);
            taken += length;
        }
    }

    /// Says what is wrong with the first line of `rest`, which is not its sender's next. An
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
                // A member that has said nothing yet has lines of no length.
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

/// What a message of the server means if it is no welcome.
pub(super) fn word_of_server(line: &[u8]) -> Failure {
    match line {
        b"* too slow" => Failure::TooSlow,
        b"* the server is full" => Failure::ServerFull,
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
            Said { at: Instant::now(), length: lines.len() / 2, lines: lines.into() }
        });
        (Numbers::new((10..14).collect()).unwrap(), said.collect())
    }

    fn line(member: u64, line: u64) -> String {
        delivered(10 + member, &text(member, line))
    }

    /// What member 0 makes of `bytes` that come `step` at a time: how many lines were right.
    fn hear(bytes: &[u8], step: usize) -> Result<(usize, Hearing), Failure> {
        let (numbers, said) = scene();
        let mut hearing = Hearing::new(0, 4);
        hearing.begin(6);
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
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for_for_ever() {
        assert!(matches!(hear(&[b'x'; LONGEST_LINE], 100), Err(Failure::Malformed(_))));
    }

    #[test]
    fn the_order_of_members_of_the_other_parity_is_told_apart() {
        let order = |lines: [String; 3]| hear(lines.concat().as_bytes(), 10).unwrap().1.order();
        let one = order([line(1, 0), line(2, 0), line(3, 0)]);
        assert_eq!(one, order([line(2, 0), line(1, 0), line(3, 0)]));
        assert_ne!(one, order([line(3, 0), line(2, 0), line(1, 0)]));
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
