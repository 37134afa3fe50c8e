//! Durations, sizes and limits in the form that people write, on the command line, in plans and in
//! results.

use std::time::Duration;

use duality_load::{At, Slo};

use crate::Mistake;

/// No shorter latency can be achieved.
const SHORTEST_LIMIT: Duration = Duration::from_micros(1);

/// Reads a number with us, ms, s or m. Only 0 needs no unit, so that no unit is guessed.
///
/// # Errors
///
/// The error names valid forms.
pub fn parse_duration(text: &str) -> Result<Duration, Mistake> {
    let (number, scale) =
        if let Some(number) = text.strip_suffix("us").or_else(|| text.strip_suffix("µs")) {
            (number, 1e-6)
        } else if let Some(number) = text.strip_suffix("ms") {
            (number, 1e-3)
        } else if let Some(number) = text.strip_suffix('s') {
            (number, 1.0)
        } else if let Some(number) = text.strip_suffix('m') {
            (number, 60.0)
        } else {
            match text.parse::<f64>() {
                Ok(0.0) => return Ok(Duration::ZERO),
                Ok(number) if number > 0.0 => {
                    return Err(
                        format!("{text} has no unit: write {text}s, {text}ms or {text}m").into()
                    );
                }
                _ => (text, f64::NAN),
            }
        };
    let seconds = number.parse::<f64>().ok().map(|number| number * scale);
    match seconds {
        Some(seconds) if (0.0..=86_400.0 * 7.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("give a duration such as 10s, 500ms or 2m".into()),
    }
}

/// Reads a percentile and its limit, as in `p99=10ms`.
///
/// # Errors
///
/// The error names valid forms.
pub fn parse_slo(text: &str) -> Result<Slo, Mistake> {
    let (percentile, limit) = text.split_once('=').ok_or("give a limit such as p99=10ms")?;
    let slo = Slo { percentile: percentile.parse()?, limit: parse_duration(limit)? };
    if slo.limit < SHORTEST_LIMIT {
        return Err("nothing is answered in no time: give a limit from 1us on".into());
    }
    Ok(slo)
}

/// Splits a command line as a shell does.
///
/// # Errors
///
/// The error names the mistake and the remedy.
pub fn parse_command(text: &str) -> Result<Vec<String>, Mistake> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(words),
        Some(_) => Err("no command is given: name a program and its arguments".into()),
        None => Err("a quote is not closed: close it".into()),
    }
}

/// Reads a place in a recording: `busiest`, `median` or a time from its beginning, such as `90s`.
///
/// # Errors
///
/// The error names valid forms.
pub fn parse_place(text: &str) -> Result<At, Mistake> {
    match text {
        "busiest" => Ok(At::Busiest),
        "median" => Ok(At::Median),
        time => parse_duration(time).map(At::Time).map_err(|_| {
            format!("`{text}` is no place in a recording: write busiest, median or a time as 90s")
                .into()
        }),
    }
}

/// Reads a size in bytes, with K, M, G or KiB, MiB, GiB for powers of 1024, or kB, MB, GB for
/// powers of 1000.
///
/// # Errors
///
/// The error names valid forms.
pub fn parse_bytes(text: &str) -> Result<u64, Mistake> {
    let end =
        text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => 0,
    };
    let bytes = number.parse::<f64>().ok().map(|number| number * unit as f64);
    match bytes {
        Some(bytes) if (1.0..=1e15).contains(&bytes) => Ok(bytes as u64),
        _ => Err("give a size such as 200MB, 512K or 1.5GiB".into()),
    }
}
