//! Signals by number or by name, as kill(1) takes them.

use duality_lab::Mistake;

/// The names of the signals from 1 on, as Linux counts them on x86_64 and aarch64. Real-time
/// signals are counted from `RTMIN` or from `RTMAX`.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

const KILL: i32 = 9;
const STOP: i32 = 19;

/// The first and the last real-time signal that glibc leaves to programs.
const REAL_TIME: (i32, i32) = (34, 64);

/// A signal that a process can handle: `12`, `USR2`, `SIGUSR2`, `RTMIN+3`. Letters may be lower
/// case.
pub(super) fn parse_signal(text: &str) -> Result<i32, Mistake> {
    let number =
        text.parse().ok().or_else(|| named(text)).filter(|number| (1..=64).contains(number));
    match number {
        None => Err("write a number from 1 to 64 or a name, as in USR2".into()),
        Some(KILL | STOP) => {
            Err("no process can handle this signal; choose another, as in USR2".into())
        }
        Some(number) => Ok(number),
    }
}

fn named(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let (first, last) = REAL_TIME;
    let from_first = name.strip_prefix("RTMIN").map(|rest| (first, rest));
    if let Some((from, rest)) = from_first.or(name.strip_prefix("RTMAX").map(|rest| (last, rest))) {
        let steps: i32 = if rest.is_empty() { 0 } else { rest.parse().ok()? };
        return from.checked_add(steps).filter(|number| (first..=last).contains(number));
    }
    NAMES.iter().position(|known| *known == name).map(|before| before as i32 + 1)
}

#[cfg(test)]
mod tests {
    use super::parse_signal;

    #[test]
    fn signals_have_numbers_and_names() {
        for text in ["12", "USR2", "SIGUSR2", "sigusr2", "usr2"] {
            assert_eq!(parse_signal(text), Ok(12), "{text}");
        }
        assert_eq!(parse_signal("RTMIN"), Ok(34));
        assert_eq!(parse_signal("SIGRTMIN+3"), Ok(37));
        assert_eq!(parse_signal("RTMAX-2"), Ok(62));
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in ["", "0", "65", "-1", "SIG", "USR3", "RTMIN-1", "RTMAX+1", "RTMIN+", "RTMINX"] {
            let refused = parse_signal(text).expect_err(text).to_string();
            assert!(refused.starts_with("write a number"), "{text}: {refused}");
        }
        for text in ["9", "KILL", "SIGSTOP"] {
            let refused = parse_signal(text).expect_err(text).to_string();
            assert!(refused.starts_with("no process can handle"), "{text}: {refused}");
        }
    }
}
