//! Reads the output of a load command: one figure a line, `name value`. docs/run.md documents the
//! format for users.

use std::collections::BTreeMap;
use std::time::Duration;

use duality_load::Latency;

use crate::Mistake;

/// All names.
const NAMES: [&str; 9] = [
    "requests", "seconds", "errors", "mean_us", "p50_us", "p90_us", "p99_us", "p99.9_us", "max_us",
];

/// The figures that a load command reported of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests that were answered correctly: at least 1.
    pub(crate) requests: u64,
    /// The time that all requests took together. `None` if the command does not print it.
    pub(crate) seconds: Option<f64>,
    /// Requests that failed.
    pub(crate) errors: u64,
    /// Latencies in microseconds. Zero if the command does not print them.
    pub(crate) latency: Latency,
}

impl Figures {
    /// Reads the standard output of a command that ran for `elapsed`. The last line with a name
    /// counts. Other lines are ignored.
    ///
    /// # Errors
    ///
    /// The error of the output and the remedy, in one line.
    pub(crate) fn parse(output: &str, elapsed: Duration) -> Result<Self, Mistake> {
        let written = numbers(output)?;
        let of = |name: &str| written.get(name).copied();
        let requests = of("requests").ok_or(
            "it printed no requests: have it print a line `requests NUMBER` (docs/run.md)",
        )?;
        if requests < 1.0 {
            return Err("no request succeeded".into());
        }
        let (seconds, elapsed) = (of("seconds"), elapsed.as_secs_f64());
        if seconds.is_some_and(|seconds| seconds <= 0.0 || seconds > elapsed + 1.0) {
            let seconds = seconds.unwrap_or(0.0);
            return Err(format!(
                "it printed `seconds {seconds}` and ran for {elapsed:.2} s: have it print how many seconds the requests took"
            ).into());
        }
        let latency = |name| of(name).unwrap_or(0.0);
        Ok(Self {
            requests: requests as u64,
            seconds,
            errors: of("errors").unwrap_or(0.0) as u64,
            latency: Latency {
                mean: latency("mean_us"),
                min: 0.0,
                p50: latency("p50_us"),
                p90: latency("p90_us"),
                p99: latency("p99_us"),
                p99_9: latency("p99.9_us"),
                max: latency("max_us"),
            },
        })
    }
}

/// The figures in a text, by name.
fn numbers(output: &str) -> Result<BTreeMap<&'static str, f64>, Mistake> {
    let mut found = BTreeMap::new();
    for line in output.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let Some(name) = NAMES.into_iter().find(|name| *name == first) else { continue };
        let number = words.next().and_then(|word| word.parse().ok());
        match number.filter(|number: &f64| number.is_finite() && *number >= 0.0) {
            Some(number) => found.insert(name, number),
            None => {
                let line: String = line.trim().chars().take(80).collect();
                return Err(
                    format!("it printed `{line}`: have it print `{name}` and a number").into()
                );
            }
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_among_other_lines_and_the_last_counts() {
        let output = "warming up\nrequests 5\n====\nrequests 1200 in all\nseconds 1.5\np99_us 810.5\nerrors 3\nrequestsof 9\n";
        let figures = Figures::parse(output, Duration::from_secs(2)).unwrap();
        assert_eq!((figures.requests, figures.seconds, figures.errors), (1200, Some(1.5), 3));
        assert_eq!((figures.latency.p99, figures.latency.p50), (810.5, 0.0));
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_with_the_remedy() {
        for (output, message) in [
            ("done", "print a line `requests NUMBER`"),
            ("requests", "it printed `requests`: have it print `requests` and a number"),
            ("requests many", "`requests many`"),
            ("requests -4", "and a number"),
            ("requests 1e999", "and a number"),
            ("requests 0", "no request succeeded"),
            ("requests 9\nseconds 1500", "it printed `seconds 1500` and ran for 2.00 s"),
            ("requests 9\nseconds 0", "`seconds 0`"),
        ] {
            let problem = Figures::parse(output, Duration::from_secs(2)).unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{output}: {problem}");
        }
    }
}
