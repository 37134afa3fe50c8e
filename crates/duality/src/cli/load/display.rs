//! What `load` shows while it works. On a terminal: a line that is rewritten, and with `-v` a
//! histogram of the last seconds beneath it. With `--live`: a page. Standard output has the report
//! alone.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use duality_lab::live::{Page, Rates};
use duality_load::{
    Observer, Options, Probe, Report, Snapshot, Stop, duration_text, histogram_rows,
};
use duality_runtime::log;

use super::shown;
use crate::cli::terminal_width;

/// The time over which rates and latencies are shown.
const RECENT: Duration = Duration::from_secs(2);

/// The interval between two changes of the line.
const REFRESH: Duration = Duration::from_millis(250);

/// The interval between two lines of a terminal that cannot rewrite one.
const PLAIN: Duration = Duration::from_secs(5);

/// How the terminal shows a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// The line is rewritten.
    Rewritten,
    /// Each line stays.
    Plain,
}

/// Shows a load on standard error, if that is a terminal.
pub(super) struct Display {
    style: Option<Style>,
    verbose: bool,
    stop: Stop,
    /// The snapshots of the last two seconds, the oldest first.
    recent: Recent,
    shown: Option<Instant>,
    /// The lines that the next refresh overwrites.
    lines: usize,
    probes: usize,
    live: Option<Live>,
}

/// A page, and what it shows.
struct Live {
    page: Page,
    target: String,
    rates: Rates,
    published: Option<Instant>,
}

impl Display {
    pub(super) fn new(options: &Options, verbose: bool, page: Option<Page>) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let style = io::stderr().is_terminal().then(|| match is_dumb || is_set("NO_COLOR") {
            true => Style::Plain,
            false => Style::Rewritten,
        });
        let (recent, stop) = (VecDeque::new(), options.stop);
        let target = options.target.to_string();
        let live = page.map(|page| Live { page, target, rates: Rates::default(), published: None });
        Self { style, verbose, stop, recent, shown: None, lines: 0, probes: 0, live }
    }

    /// Shows the end on the page, if there is one.
    pub(super) fn finish(self, report: Option<&Report>) {
        let Some(Live { page, rates, .. }) = self.live else { return };
        if let Some(report) = report {
            page.publish(shown::ended(report, &rates));
        }
    }

    /// Removes what is overwritten, for other output.
    pub(super) fn clear(&mut self) {
        write(&erased(std::mem::take(&mut self.lines)));
    }

    fn show(&mut self, style: Style, now: Instant) {
        let pause = if style == Style::Plain { PLAIN } else { REFRESH };
        if self.shown.is_some_and(|shown| now.saturating_duration_since(shown) < pause) {
            return;
        }
        let Some(((_, earlier), (_, last))) = ends(&self.recent) else { return };
        self.shown = Some(now);
        let mut lines = vec![line(self.stop, &self.recent)];
        if self.verbose {
            let rows = histogram_rows(&last.latencies_since(earlier));
            lines.extend(rows.iter().map(|(name, figure)| format!("  {name:<16}{figure}")));
        }
        let width = terminal_width(&io::stderr());
        let mut text = String::new();
        for line in &lines {
            // A full line would make some terminals begin another.
            text.extend(line.chars().take(width - 1).chain(['\n']));
        }
        if style == Style::Rewritten {
            text.insert_str(0, &erased(self.lines));
            self.lines = lines.len();
        }
        write(&text);
    }
}

impl Observer for Display {
    fn wants_snapshots(&self) -> bool {
        self.style.is_some() || self.live.is_some()
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        // Another load of a search, or the window's begin, has a histogram of its own.
        let is_anew = |(_, last): &(_, Snapshot)| {
            last.ended > snapshot.ended || last.window.is_none() != snapshot.window.is_none()
        };
        if self.recent.back().is_some_and(is_anew) {
            self.recent.clear();
        }
        let is_old = |(at, _): &(Instant, _)| now.saturating_duration_since(*at) > RECENT;
        while self.recent.len() > 1 && self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        self.recent.push_back((now, snapshot.clone()));
        if let Some(style) = self.style {
            self.show(style, now);
        }
        if let Some(live) = &mut self.live {
            live.publish(self.stop, &self.recent, now);
        }
    }

    /// Prints each probe of a search, with its number.
    fn probed(&mut self, probe: &Probe) {
        self.clear();
        self.probes += 1;
        log::tell(format_args!("probe {}: {}", self.probes, probe.render_line()));
    }
}

impl Live {
    fn publish(&mut self, stop: Stop, recent: &Recent, now: Instant) {
        let is_soon = |last: Instant| now.saturating_duration_since(last) < REFRESH;
        let Some(((_, earlier), (_, last))) = ends(recent) else { return };
        if self.published.is_some_and(is_soon) {
            return;
        }
        self.published = Some(now);
        let rate = rate(recent);
        self.rates.push(rate);
        self.page.publish(shown::state(&shown::Now {
            target: &self.target,
            line: &line(stop, recent),
            rate,
            failed: last.failed,
            latencies: &last.latencies_since(earlier),
            rates: &self.rates,
        }));
    }
}

/// Snapshots with their times, the oldest first.
type Recent = VecDeque<Timed>;

type Timed = (Instant, Snapshot);

/// The first and the last of several snapshots.
fn ends(recent: &Recent) -> Option<(&Timed, &Timed)> {
    recent.front().zip(recent.back()).filter(|(first, last)| first.0 < last.0)
}

/// Requests a second in the last seconds.
fn rate(recent: &Recent) -> f64 {
    let Some(((begin, earlier), (end, last))) = ends(recent) else { return 0.0 };
    let replies = last.replies.saturating_sub(earlier.replies);
    replies as f64 / end.saturating_duration_since(*begin).as_secs_f64()
}

/// The line about the last seconds of a load. Empty without any.
fn line(stop: Stop, recent: &Recent) -> String {
    let Some(((_, earlier), (_, last))) = ends(recent) else { return String::new() };
    let rate = rate(recent);
    let mut text = format!("{rate:.0} requests/s");
    let latencies = last.latencies_since(earlier);
    if !latencies.is_empty() {
        let percentile =
            |percent| duration_text(latencies.value_at_percentile(percent) as f64 / 1e3);
        let _ = write!(text, "   50 % {}   99 % {}", percentile(50.0), percentile(99.0));
    }
    match last.failed {
        0 => text.push_str("   none failed"),
        failed => drop(write!(text, "   {failed} failed")),
    }
    let left = match (stop, last.window) {
        (Stop::After(length), Some(passed)) => {
            Some(length.saturating_sub(passed)).map(|left| left.as_secs_f64())
        }
        (Stop::After(_), None) => None,
        (Stop::Requests(total), _) => {
            (rate > 0.0).then(|| total.saturating_sub(last.ended) as f64 / rate)
        }
    };
    match left {
        Some(left) => drop(write!(text, "   {left:.0} s left")),
        None => text.push_str("   warming up"),
    }
    text
}

/// What moves the cursor up by this many lines, and erases them.
fn erased(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\r\x1b[{lines}A\x1b[J") }
}

/// A failure to write progress does not matter.
fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two snapshots, a second apart.
    fn recent(window: Option<Duration>) -> Recent {
        let now = Instant::now();
        let earlier = Snapshot { window, replies: 500, ended: 501, ..Snapshot::default() };
        let mut last = Snapshot { replies: 1_500, ended: 1_503, failed: 3, ..earlier.clone() };
        (1..=1_000).for_each(|micros| last.latencies.record(1_000 * micros).unwrap());
        VecDeque::from([(now, earlier), (now + Duration::from_secs(1), last)])
    }

    #[test]
    fn the_line_says_what_the_last_second_was_like_and_what_is_left() {
        let ten = Stop::After(Duration::from_secs(10));
        let passed = Some(Duration::from_secs(4));
        let expected = "1000 requests/s   50 % 500 µs   99 % 990 µs   3 failed   6 s left";
        assert_eq!(line(ten, &recent(passed)), expected);
        assert!(line(ten, &recent(None)).ends_with("   warming up"));
        assert!(line(Stop::Requests(4_503), &recent(passed)).ends_with("   3 s left"));
        assert_eq!(line(ten, &VecDeque::new()), "");
        assert!(expected.len() < 80);
    }

    #[test]
    fn only_lines_that_stand_are_erased() {
        assert_eq!((erased(0).as_str(), erased(2).as_str()), ("", "\r\x1b[2A\x1b[J"));
    }
}
