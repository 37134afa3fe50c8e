//! Time: sleeps, time-outs and intervals.

pub mod error;
mod instant;
mod interval;
mod pause;
mod sleep;
mod timeout;

pub use std::time::Duration;

pub use self::instant::Instant;
pub use self::interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use self::pause::{advance, pause, resume};
pub use self::sleep::{Sleep, sleep, sleep_until};
pub use self::timeout::{Timeout, timeout, timeout_at};
