//! When a load fails: a figure of its report and the limit that it must not pass, such as
//! `p99>10ms`.

use std::fmt;
use std::str::FromStr;

use duality_load::{HistogramError, Report};

use crate::Mistake;
use crate::units::parse_duration;

/// The valid forms of a threshold, for messages.
const REMEDY: &str = "write a figure and a limit, such as 'p99>10ms', 'mean>1ms', 'errors>0', \
                      'failures>1%' or 'rate<1000/s'";

/// A condition under which a load has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    figure: Figure,
    comparison: Comparison,
    /// In microseconds, requests a second, a share of 1, or a count.
    limit: f64,
    /// The condition as its user wrote it.
    text: String,
}

/// A figure of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// A percentile of the latencies, from 0 to 100.
    Percentile(f64),
    Max,
    Mean,
    /// Failed requests.
    Errors,
    /// Failed requests as a share of all.
    Failures,
    /// Correct replies in a second.
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Threshold {
    /// The figure of a report that meets the condition, so that the load has failed. In an open
    /// loop, a latency is the corrected one. Where no latency was measured, no latency is within
    /// its limit.
    ///
    /// # Errors
    ///
    /// The error: the histogram of the report cannot be read.
    pub fn broken(&self, report: &Report) -> Result<Option<String>, HistogramError> {
        let Some(value) = self.figure.of(report)? else {
            return Ok(Some(format!("no latency was measured for --fail-if '{self}'")));
        };
        let is_met = match self.comparison {
            Comparison::Above => value > self.limit,
            Comparison::AtLeast => value >= self.limit,
            Comparison::Below => value < self.limit,
            Comparison::AtMost => value <= self.limit,
        };
        let reason = || format!("{}: --fail-if '{self}'", self.figure.told(value));
        Ok(is_met.then(reason))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Figure {
    /// The value in a report, in the unit of the limit. `None` if there is none.
    fn of(self, report: &Report) -> Result<Option<f64>, HistogramError> {
        let failed: u64 = report.errors.values().sum();
        let all = (report.requests + failed).max(1);
        Ok(match self {
            Self::Errors => Some(failed as f64),
            Self::Failures => Some(failed as f64 / all as f64),
            Self::Rate => Some(report.requests_per_second),
            Self::Percentile(_) | Self::Max | Self::Mean => {
                let latencies = report.latencies()?;
                let nanoseconds = match self {
                    Self::Percentile(percent) => {
                        // The lowest value of the histogram's step, so that no latency is
                        // overstated.
                        let value = latencies.value_at_percentile(percent);
                        latencies.lowest_equivalent(value) as f64
                    }
                    Self::Max => latencies.lowest_equivalent(latencies.max()) as f64,
                    _ => latencies.mean(),
                };
                (!latencies.is_empty()).then_some(nanoseconds / 1e3)
            }
        })
    }

    /// The figure and its value.
    fn told(self, value: f64) -> String {
        let milliseconds = |name: &str| format!("{name} is {:.3} ms", value / 1e3);
        match self {
            Self::Percentile(percent) => milliseconds(&format!("p{percent}")),
            Self::Max => milliseconds("max"),
            Self::Mean => milliseconds("mean"),
            Self::Errors => format!("errors are {value:.0}"),
            Self::Failures => format!("failures are {:.3} %", 100.0 * value),
            Self::Rate => format!("rate is {value:.1}/s"),
        }
    }

    /// Reads a limit in the unit of the figure.
    fn limit(self, text: &str) -> Result<f64, Mistake> {
        let number = |text: &str| {
            let number: Option<f64> = text.trim_end().parse().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let (limit, remedy) = match self {
            Self::Percentile(_) | Self::Max | Self::Mean => {
                return Ok(parse_duration(text)?.as_secs_f64() * 1e6);
            }
            Self::Errors => (text.parse::<u32>().ok().map(f64::from), "a number, as in errors>0"),
            Self::Failures => {
                let percent = text.strip_suffix('%').and_then(number);
                let share = percent.filter(|percent| *percent <= 100.0).map(|share| share / 100.0);
                (share, "0% to 100%, as in failures>1%")
            }
            Self::Rate => (text.strip_suffix("/s").and_then(number), "a rate, as in rate<1000/s"),
        };
        limit.ok_or_else(|| format!("{text:?} is no limit of it: write {remedy}").into())
    }
}

impl FromStr for Figure {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        Ok(match text {
            "max" => Self::Max,
            "mean" => Self::Mean,
            "errors" => Self::Errors,
            "failures" => Self::Failures,
            "rate" => Self::Rate,
            _ => {
                let digits = text.strip_prefix('p').unwrap_or_default();
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let percent = digits.parse().ok().filter(|_| is_number);
                let percent = percent.filter(|percent: &f64| (0.0..100.0).contains(percent));
                Self::Percentile(percent.ok_or_else(|| {
                    format!("no figure {text:?}: give one of p50 to p99.99, max, mean, errors, failures, rate")
                })?)
            }
        })
    }
}

impl FromStr for Threshold {
    type Err = Mistake;

    /// Reads `FIGURE>LIMIT`, also with `>=`, `<` or `<=`, and with blanks around them.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        /// A longer condition has no meaning.
        const LONGEST: usize = 100;
        let is_line = text.len() <= LONGEST && !text.chars().any(char::is_control);
        let at = text.find(['<', '>']).filter(|_| is_line).ok_or(REMEDY)?;
        let (figure, rest) = text.split_at(at);
        let or_equal = rest[1..].starts_with('=');
        let comparison = match (rest.starts_with('>'), or_equal) {
            (true, false) => Comparison::Above,
            (true, true) => Comparison::AtLeast,
            (false, false) => Comparison::Below,
            (false, true) => Comparison::AtMost,
        };
        let figure: Figure = figure.trim().parse()?;
        let limit = figure.limit(rest[1 + usize::from(or_equal)..].trim())?;
        Ok(Self { figure, comparison, limit, text: text.trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    use proptest::prelude::*;

    use super::*;

    /// 970 correct replies with latencies of 1 to 970 ms, and 30 that failed, in 10 s.
    fn report() -> Report {
        let mut latencies = Histogram::new(3).unwrap();
        (1..=970).for_each(|value| latencies.record(1_000_000 * value).unwrap());
        of(&latencies)
    }

    fn of(latencies: &Histogram<u64>) -> Report {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(latencies, &mut bytes).unwrap();
        let histogram = BASE64.encode(bytes);
        let json = serde_json::json!({
            "version": 1, "target": "http://127.0.0.1:80/", "pattern": "closed", "connections": 1,
            "keep_alive": true, "sources": 1, "window_seconds": 10.0, "requests": latencies.len(),
            "requests_per_second": latencies.len() as f64 / 10.0,
            "latency_us": { "mean": 0.0, "min": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0,
                "p99.9": 0.0, "max": 0.0 },
            "measured_load": 1.0, "errors": { "reset": 10, "timed-out": 20 }, "bytes_received": 1,
            "connections_opened": 1, "connections_served": 1, "client_cpu_share": 0.1,
            "client_was_limit": false, "listen_overflows": 0, "listen_drops": 0, "crowd": {},
            "warnings": [], "histogram": histogram,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_condition_that_is_met_is_told_with_its_value() {
        for (text, message) in [
            ("p50>480ms", Some("p50 is 48")),
            ("p50>490ms", None),
            (" p99.9 >= 0.9s ", Some("p99.9 is 9")),
            ("max<=1s", Some("max is 9")),
            ("max>1s", None),
            ("mean>485ms", Some("mean is 485.")),
            ("errors>0", Some("errors are 30")),
            ("errors>=30", Some("errors are 30")),
            ("errors>30", None),
            ("failures>2.9%", Some("failures are 3.000 %")),
            ("failures>3%", None),
            ("rate<97.1/s", Some("rate is 97.0/s")),
            ("rate<97/s", None),
        ] {
            let threshold: Threshold = text.parse().unwrap();
            let broken = threshold.broken(&report()).unwrap();
            match message {
                None => assert_eq!(broken, None, "{text}"),
                Some(message) => {
                    let broken = broken.unwrap();
                    assert!(broken.starts_with(message), "{broken}");
                    assert!(broken.ends_with(&format!("--fail-if '{}'", text.trim())), "{broken}");
                }
            }
        }
    }

    #[test]
    fn a_latency_that_was_not_measured_is_not_within_its_limit() {
        let nothing = of(&Histogram::new(3).unwrap());
        let broken = |text: &str| text.parse::<Threshold>().unwrap().broken(&nothing).unwrap();
        assert!(broken("p99>1m").is_some());
        assert!(broken("max<1s").unwrap().contains("no latency was measured"));
        assert!(broken("rate<1/s").is_some() && broken("rate>1/s").is_none());
    }

    #[test]
    fn what_is_no_condition_is_told() {
        for (text, message) in [
            ("", "write a figure and a limit"),
            ("p99\n>1s", "write a figure and a limit"),
            ("p99", "write a figure and a limit"),
            ("p99=10ms", "write a figure and a limit"),
            ("p99>", "give a duration"),
            ("p99>10", "10 has no unit"),
            ("p99>-1ms", "give a duration"),
            ("p100>1s", "no figure \"p100\""),
            ("p-1>1s", "no figure"),
            ("pinf>1s", "no figure"),
            ("p>1s", "no figure"),
            ("latency>1s", "no figure \"latency\""),
            ("errors>1%", "as in errors>0"),
            ("failures>1", "as in failures>1%"),
            ("failures>101%", "0% to 100%"),
            ("rate<1000", "as in rate<1000/s"),
            ("rate<NaN/s", "as in rate<1000/s"),
        ] {
            let problem = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{text}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9.<>=%/ ]{0,20}|\\PC{0,20}") {
            if let Ok(threshold) = text.parse::<Threshold>() {
                prop_assert!(threshold.limit >= 0.0 && threshold.limit.is_finite());
                prop_assert_eq!(threshold.to_string().parse(), Ok(threshold));
            }
        }

        #[test]
        fn of_a_limit_and_its_opposite_one_is_broken(milliseconds in 1..2_000_u32) {
            let broken = |comparison: &str| {
                let threshold: Threshold = format!("p90{comparison}{milliseconds}ms").parse().unwrap();
                threshold.broken(&report()).unwrap().is_some()
            };
            prop_assert!(broken(">") != broken("<="));
            prop_assert!(broken("<") != broken(">="));
        }
    }
}
