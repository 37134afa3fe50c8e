//! The gaps that latencies leave: requests without a reply at the end of the window, and times
//! within it without any reply.

use std::time::{Duration, Instant};

/// Requests that were unanswered when the window closed, and had waited longer than any recorded
/// latency. No percentile includes them, so the percentiles are too low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) count: u64,
    /// The wait of the oldest such request.
    pub(crate) longest: Duration,
}

/// The longest time in the window in which no reply came on any connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    pub(crate) longest: Duration,
    last_reply: Option<Instant>,
}

impl Silence {
    /// Called when a reply comes, or the window closes. The window opened at `opened`.
    #[inline]
    pub(crate) fn end(&mut self, opened: Instant, now: Instant) {
        let since = self.last_reply.replace(now).unwrap_or(opened);
        self.longest = self.longest.max(now.saturating_duration_since(since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_may_be_before_the_first_reply_between_two_or_after_the_last() {
        let opened = Instant::now();
        let at = |milliseconds| opened + Duration::from_millis(milliseconds);
        for (replies, longest) in
            [(&[50, 60, 70][..], 50), (&[10, 60, 70], 50), (&[10, 20, 30], 70), (&[], 100)]
        {
            let mut silence = Silence::default();
            replies.iter().for_each(|&reply| silence.end(opened, at(reply)));
            silence.end(opened, at(100));
            assert_eq!(silence.longest, Duration::from_millis(longest), "{replies:?}");
        }
    }
}
