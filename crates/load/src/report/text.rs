//! The text of a report: figures, warnings, and the limit of the run.

use std::fmt::Write;

use super::{Report, rows};
use crate::Pattern;
use crate::fidelity::Replayed;

/// A measured load below this share of the offered one has a cause other than the server's speed.
const UNUSED_LOAD: f64 = 0.9;

/// The most columns of a figure, beside its name on a terminal of 80.
const FIGURE: usize = 62;

impl Report {
    /// The report as text: figures, then warnings, then the verdict. Ends with a line end.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        let connections = if self.connections == 1 { "connection" } else { "connections" };
        let kept = match (self.keep_alive, self.requests_per_connection) {
            (true, None) => "keep-alive".to_owned(),
            (true, Some(limit @ 2..)) => format!("{limit} requests for each"),
            _ => "a connection for each request".to_owned(),
        };
        let from = match self.sources {
            1 => String::new(),
            sources => format!(" from {sources} addresses"),
        };
        let _ = writeln!(
            text,
            "{}: {}, {} {connections}{from}, {kept}, {:.2} s\n",
            self.target,
            self.behaviour(),
            self.connections,
            self.window_seconds
        );
        for (name, value) in self.lines() {
            row(&mut text, name, &value);
        }
        text.push_str(&self.histogram_text());
        text.push_str(&self.crowd_text());
        text.push('\n');
        for problem in self.invalid.values() {
            let _ = writeln!(text, "invalid: {problem}");
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        let _ = writeln!(text, "{}", self.verdict());
        text
    }

    fn behaviour(&self) -> String {
        if let Some(replayed) = &self.replayed {
            return replayed.behaviour();
        }
        match (&self.open_loop, self.pattern.as_str()) {
            (Some(open), _) => format!("open loop, {} arrivals", open.arrivals),
            (None, "closed") => "closed loop".to_owned(),
            (None, "limited") => "limited parallelism".to_owned(),
            (None, other) => other.to_owned(),
        }
    }

    /// The most requests that can be under way.
    fn offered(&self) -> usize {
        if self.pattern == Pattern::Serial.name() { 1 } else { self.connections }
    }

    /// A service that sends one request on to many clients has more under way than connections.
    fn load_text(&self) -> String {
        let (measured, offered) = (self.measured_load, self.offered());
        if self.open_loop.is_none() && measured > 1.5 * offered as f64 {
            format!("{measured:.0} under way on {offered} connections")
        } else {
            format!("{measured:.1} of {offered}")
        }
    }

    /// The section of the latencies' histogram, if there are any.
    fn histogram_text(&self) -> String {
        let Some(latencies) = self.latencies().ok().filter(|latencies| !latencies.is_empty())
        else {
            return String::new();
        };
        let mut text = "\nreplies by latency\n\n".to_owned();
        rows(&latencies).iter().for_each(|(name, figure)| row(&mut text, name, figure));
        text
    }

    /// The section of the crowd, if there was one.
    fn crowd_text(&self) -> String {
        let mut text = String::new();
        for (kind, fate) in &self.crowd {
            if text.is_empty() {
                text.push_str("\nbeside the measured connections\n\n");
            }
            row(&mut text, &kind.replace('-', " "), &fate.to_string());
        }
        text
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let failed: u64 = self.errors.values().sum();
        let by_kind: Vec<_> =
            self.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let failed = match failed {
            0 => "none failed".to_owned(),
            _ => format!("{failed} failed ({})", by_kind.join(", ")),
        };
        let received = self.bytes_received as f64;
        let rate = if self.window_seconds > 0.0 { received / self.window_seconds } else { 0.0 };
        let intended = match &self.open_loop {
            Some(open) => format!(" of {:.0} intended", open.intended_per_second),
            None => String::new(),
        };
        let mut lines = vec![
            ("requests/s", format!("{:.0}{intended}", self.requests_per_second)),
            ("requests", format!("{} correct, {failed}", self.requests)),
        ];
        match &self.open_loop {
            Some(open) => lines.extend(open.lines(&self.latency_us)),
            None => lines.extend(self.latency_us.lines()),
        }
        lines.extend(self.first_byte_us.map(|first| ("first byte", first.percentiles())));
        lines.extend(self.replayed.iter().flat_map(Replayed::lines));
        lines.extend([
            ("measured load", self.load_text()),
            (
                "connections",
                format!(
                    "{} of {} served, {} opened",
                    self.connections_served, self.connections, self.connections_opened
                ),
            ),
            ("received", format!("{} ({}/s)", bytes(received), bytes(rate))),
            (
                "client CPU",
                format!(
                    "{:.0} % of one core; had to wait for it {:.0} % of the time",
                    100.0 * self.client_cpu_share,
                    100.0 * self.client_wait_share
                ),
            ),
            (
                "accept queues",
                format!("{} overflows, {} drops", self.listen_overflows, self.listen_drops),
            ),
        ]);
        lines
    }

    /// The limit of the run, in one sentence.
    pub(super) fn verdict(&self) -> String {
        let share = 100.0 * self.client_cpu_share;
        if self.requests == 0 {
            let gone = if self.server_went_away() { ", and the server went away" } else { "" };
            format!("Nothing was measured: no correct reply came within the window{gone}.")
        } else if self.server_went_away() {
            format!("{}.", self.how_it_went().replacen("the", "The", 1))
        } else if let Some(open) = &self.open_loop {
            open.verdict(self)
        } else if self.client_was_limit {
            format!(
                "The client was the limit: it used {share:.0} % of its core, and the server may \
                 well be able to do more."
            )
        } else if self.measured_load < UNUSED_LOAD * self.offered() as f64 {
            format!(
                "Only {:.1} of {} connections were being served on average: something other than the server's \
                 speed limited this run.",
                self.measured_load,
                self.offered()
            )
        } else if !self.invalid.is_empty() {
            "The figures are invalid: the client could not do its work.".to_owned()
        } else {
            format!("The client was not the limit: it used {share:.0} % of its core.")
        }
    }
}

/// Microseconds to three digits, in the unit in which they are easiest to read. Every event takes
/// time, so 0 means not measured.
pub fn duration(microseconds: f64) -> String {
    let (value, unit) = match microseconds {
        0.0 => return "-".to_owned(),
        value if value < 999.5 => (value, "µs"),
        value if value < 999.5e3 => (value / 1e3, "ms"),
        value => (value / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Bytes to three digits, in decimal units.
fn bytes(amount: f64) -> String {
    let (value, unit) = match amount {
        value if value < 999.5 => return format!("{value:.0} B"),
        value if value < 999.5e3 => (value / 1e3, "kB"),
        value if value < 999.5e6 => (value / 1e6, "MB"),
        value => (value / 1e9, "GB"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Writes a figure beside its name.
fn row(text: &mut String, name: &str, value: &str) {
    for (place, line) in folded(value).into_iter().enumerate() {
        let _ = writeln!(text, "  {:<16}{line}", if place == 0 { name } else { "" });
    }
}

/// The lines of a figure, broken at spaces.
fn folded(value: &str) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), value);
    while let Some((end, next)) = rest.char_indices().nth(FIGURE) {
        let whole = &rest[..end + next.len_utf8()];
        let Some(at) = whole.rfind(' ').filter(|&at| at > 0) else { break };
        lines.push(&rest[..at]);
        rest = &rest[at + 1..];
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::report;
    use super::super::{Warning, WarningKind};
    use super::*;

    #[test]
    fn the_text_is_the_golden_one() {
        let expected = "\
http://127.0.0.1:8080/: closed loop, 100 connections, keep-alive, 10.00 s

  requests/s      50000
  requests        500000 correct, none failed
  latency         mean 501 µs   min 1.00 µs   max 1.00 ms
                  50 % 500 µs   90 % 900 µs   99 % 990 µs   99.9 % 1.00 ms
  first byte      50 % 450 µs   90 % 810 µs   99 % 891 µs   99.9 % 900 µs
  measured load   99.5 of 100
  connections     100 of 100 served, 100 opened
  received        152 MB (15.2 MB/s)
  client CPU      63 % of one core; had to wait for it 0 % of the time
  accept queues   0 overflows, 0 drops

replies by latency

  up to 1.00 µs                                              1    0.1 %
  up to 2.00 µs                                              1    0.1 %
  up to 5.00 µs                                              3    0.3 %
  up to 10.0 µs                                              5    0.5 %
  up to 20.0 µs   ■                                         10    1.0 %
  up to 50.0 µs   ■■                                        30    3.0 %
  up to 100 µs    ■■■                                       50    5.0 %
  up to 200 µs    ■■■■■■                                   100   10.0 %
  up to 500 µs    ■■■■■■■■■■■■■■■■■■■                      300   30.0 %
  up to 1.00 ms   ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■         500   50.0 %

The client was not the limit: it used 63 % of its core.
";
        assert_eq!(report().render_text(), expected);
    }

    #[test]
    fn a_message_to_many_is_no_load_beyond_the_offered_one() {
        let text = Report { measured_load: 4950.2, ..report() }.render_text();
        assert!(text.contains("  measured load   4950 under way on 100 connections\n"), "{text}");
    }

    #[test]
    fn errors_and_warnings_are_in_the_text() {
        let text = Report {
            errors: BTreeMap::from([("reset".to_owned(), 2), ("timed-out".to_owned(), 3)]),
            warnings: vec![Warning::new(WarningKind::Other, "Mind the gap.")],
            invalid: BTreeMap::from([("starved".to_owned(), "It stood still.".to_owned())]),
            ..report()
        }
        .render_text();
        assert!(text.contains("500000 correct, 5 failed (reset 2, timed-out 3)\n"), "{text}");
        assert!(text.contains("\ninvalid: It stood still.\nwarning: Mind the gap.\n"), "{text}");
    }

    #[test]
    fn the_verdict_names_the_limit() {
        let busy = Report { client_cpu_share: 0.99, client_was_limit: true, ..report() };
        let starved = Report { measured_load: 7.0, ..report() };
        let nothing = Report { requests: 0, ..report() };
        let serial = Report { pattern: "serial".to_owned(), measured_load: 0.99, ..report() };
        assert!(serial.verdict().starts_with("The client was not the limit"));
        assert!(busy.verdict().starts_with("The client was the limit"));
        assert!(starved.verdict().starts_with("Only 7.0 of 100 connections"));
        assert!(nothing.verdict().starts_with("Nothing was measured"));
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(duration(0.0), "-");
        assert_eq!(duration(9.999), "10.0 µs");
        assert_eq!(duration(999.4), "999 µs");
        assert_eq!(duration(999.9), "1.00 ms");
        assert_eq!(duration(1234.0), "1.23 ms");
        assert_eq!(duration(12_345_678.0), "12.3 s");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(1_230_000.0), "1.23 MB");
    }

    #[test]
    fn a_long_figure_is_broken_at_spaces() {
        for letter in ["a", "µ"] {
            let word = letter.repeat(20);
            let lines = format!("{word} {word} {word}\n{word}");
            assert_eq!(folded(&lines.replace('\n', " ")).join("\n"), lines);
            let exact = letter.repeat(FIGURE);
            assert_eq!(folded(&exact), [&*exact]);
            let long = letter.repeat(2 * FIGURE);
            assert_eq!(folded(&long), [&*long]);
        }
    }
}
