//! Time: sleeps, time-outs and intervals.

pub mod error;
mod interval;
mod sleep;
mod timeout;

pub use std::time::Duration;

pub use real::time::Instant;

pub use self::interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use self::sleep::{Sleep, sleep, sleep_until};
pub use self::timeout::{Timeout, timeout, timeout_at};
