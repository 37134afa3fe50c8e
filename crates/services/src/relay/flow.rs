//! The body of a message on its way: where it ends, without I/O.

use crate::http::{Chunks, Framing, Progress};

/// The rest of a body.
#[derive(Debug)]
pub(super) enum Framed {
    /// So many bytes.
    Length(u64),
    /// Chunks, up to the one that ends them.
    Chunks(Chunks),
    /// All that comes until the sender closes. Only replies end so.
    UntilEnd,
}

/// What became of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flowed {
    /// All belong to the body, and more must come.
    All,
    /// The body ended after so many bytes.
    Finished(usize),
    /// The end of the body cannot be found.
    Malformed,
}

impl Framed {
    /// No body.
    pub(super) const NONE: Self = Self::Length(0);

    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            // The bytes go on as they come, so their number needs no bound.
            Framing::Chunked => Self::Chunks(Chunks::new(u64::MAX)),
        }
    }

    /// Goes through the next bytes, and appends them to `output`: as they came, or the content
    /// alone if `decoded`. Bytes in which the framing breaks are left out.
    pub(super) fn pass(&mut self, bytes: &[u8], decoded: bool, output: &mut Vec<u8>) -> Flowed {
        let before = output.len();
        let flowed = match self {
            Self::Length(left) => {
                let taken =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                if *left == 0 { Flowed::Finished(taken) } else { Flowed::All }
            }
            Self::UntilEnd => Flowed::All,
            Self::Chunks(chunks) => {
                let progress = chunks.take(bytes, |content| {
                    if decoded {
                        output.extend_from_slice(content);
                    }
                    true
                });
                match progress {
                    Progress::Unfinished => Flowed::All,
                    Progress::Finished(length) => Flowed::Finished(length),
                    Progress::Malformed | Progress::TooLong => Flowed::Malformed,
                }
            }
        };
        let is_content = decoded && matches!(self, Self::Chunks(_));
        match flowed {
            Flowed::Malformed => output.truncate(before),
            _ if is_content => {}
            Flowed::All => output.extend_from_slice(bytes),
            Flowed::Finished(length) => output.extend_from_slice(&bytes[..length]),
        }
        flowed
    }

    /// Whether the body has an end only where its sender closes.
    pub(super) fn ends_by_close(&self) -> bool {
        matches!(self, Self::UntilEnd)
    }
}
