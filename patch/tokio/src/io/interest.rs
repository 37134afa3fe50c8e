//! What a task waits for.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// What a task waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
const PRIORITY: u8 = 4;
const ERROR: u8 = 8;

impl Interest {
    /// Bytes to read, or the end of input.
    pub const READABLE: Self = Self(READABLE);
    /// Room to write, or the end of output.
    pub const WRITABLE: Self = Self(WRITABLE);
    /// Urgent bytes.
    pub const PRIORITY: Self = Self(PRIORITY);
    /// An error.
    pub const ERROR: Self = Self(ERROR);

    /// Whether this includes reading.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.0 & READABLE != 0
    }

    /// Whether this includes writing.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    /// Whether this includes urgent bytes.
    #[must_use]
    pub const fn is_priority(self) -> bool {
        self.0 & PRIORITY != 0
    }

    /// Whether this includes errors.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 & ERROR != 0
    }

    /// Both.
    #[must_use]
    pub const fn add(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without `other`. `None` if nothing is left.
    #[must_use]
    pub fn remove(self, other: Self) -> Option<Self> {
        Some(Self(self.0 & !other.0)).filter(|left| left.0 != 0)
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.is_readable(), "READABLE"),
            (self.is_writable(), "WRITABLE"),
            (self.is_priority(), "PRIORITY"),
            (self.is_error(), "ERROR"),
        ];
        let mut names = names.iter().filter(|(is_in, _)| *is_in).map(|(_, name)| *name);
        formatter.write_str(names.next().unwrap_or_default())?;
        names.try_for_each(|name| write!(formatter, " | {name}"))
    }
}
