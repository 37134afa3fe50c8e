//! What the access log says of an upstream, under the names of docs/operations.md.

use std::fmt::Write;
use std::net::SocketAddr;

use duality_runtime::time::Instant;

use super::failure::Failure;

/// When the parts of an exchange came about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) began: Instant,
    pub(super) connected: Instant,
    /// When the first bytes of the reply came.
    pub(super) head: Option<Instant>,
}

/// Members of a JSON object: the upstream, and why there is no whole reply. The seconds count from
/// the beginning to the connection, to the first bytes, and until now.
pub(super) fn members(
    upstream: Option<(SocketAddr, Times)>,
    failure: Option<Failure>,
    now: Instant,
) -> String {
    let mut members = String::new();
    let mut add = |name: &str, value: &dyn std::fmt::Display| {
        let comma = if members.is_empty() { "" } else { "," };
        write!(members, "{comma}\"{name}\":{value}").expect("a string takes every character");
    };
    if let Some((address, Times { began, connected, head })) = upstream {
        add("up", &format_args!("\"{address}\""));
        let seconds = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
        add("uct", &format_args!("{:.6}", seconds(connected)));
        if let Some(head) = head {
            add("uht", &format_args!("{:.6}", seconds(head)));
        }
        add("urt", &format_args!("{:.6}", seconds(now)));
    }
    if let Some(failure) = failure {
        add("why", &format_args!("\"{}\"", failure.word()));
    }
    members
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_exchange_is_described() {
        let began = Instant::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let address = ([127, 0, 0, 1], 9001).into();
        let times = Times { began, connected: at(1), head: Some(at(20)) };
        assert_eq!(
            members(Some((address, times)), None, at(300)),
            r#""up":"127.0.0.1:9001","uct":0.001000,"uht":0.020000,"urt":0.300000"#
        );
        let silent = Times { head: None, ..times };
        assert_eq!(
            members(Some((address, silent)), Some(Failure::Late), at(2)),
            r#""up":"127.0.0.1:9001","uct":0.001000,"urt":0.002000,"why":"late""#
        );
        assert_eq!(members(None, Some(Failure::Unreachable), began), r#""why":"unreachable""#);
    }
}
