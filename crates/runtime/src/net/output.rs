//! Bytes that are gathered to be sent together.

use crate::event_loop::spare::{self, Purpose};

/// A buffer that has memory only while there is something in it, as an [`Input`](super::Input) has.
///
/// ```
/// # use duality_runtime as duality;
/// use std::io::Write;
///
/// use duality::net::Output;
///
/// let mut output = Output::new();
/// write!(output.gather(), "{} green bottles", 10)?;
/// assert_eq!(output.gathered(), b"10 green bottles");
/// // stream.write_all(output.gathered()).await?;
/// output.clear();
/// assert_eq!(output.gathered(), b"");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// The gathered bytes.
    #[must_use]
    #[inline]
    pub fn gathered(&self) -> &[u8] {
        &self.bytes
    }

    /// The gathered bytes, to append to.
    #[inline]
    pub fn gather(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            spare::borrow(Purpose::Writing, &mut self.bytes);
        }
        &mut self.bytes
    }

    /// Forgets what has been gathered: it is sent.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        spare::give_back(Purpose::Writing, &mut self.bytes);
    }
}
