//! Bytes that are collected and then sent together.

use crate::event_loop::spare::{self, Purpose};

/// A buffer that has memory only while it holds bytes, like an [`Input`](super::Input).
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
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// The collected bytes.
    #[must_use]
    #[inline]
    pub fn gathered(&self) -> &[u8] {
        &self.bytes
    }

    /// The collected bytes, for appending.
    #[inline]
    pub fn gather(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            spare::borrow(Purpose::Writing, &mut self.bytes);
        }
        &mut self.bytes
    }

    /// Forgets the collected bytes, because they are sent.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        spare::give_back(Purpose::Writing, &mut self.bytes);
    }
}
