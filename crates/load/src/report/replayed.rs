//! The further report of a replay: the piece of the recording, and planned against sent.

use super::duration;
use crate::fidelity::{Fidelity, Replayed};

impl Replayed {
    /// The name of the replayed load, such as `a recording, with 10 times its users`.
    pub(super) fn behaviour(&self) -> String {
        let mut text = match self.users {
            1 => "a recording, with as many users".to_owned(),
            many => format!("a recording, with {many} times its users"),
        };
        if (self.speed - 1.0).abs() > f64::EPSILON {
            text += &format!(", {} times as fast", self.speed);
        }
        if let Some(bunch) = self.bunch {
            text += &format!(", {bunch} at the same time");
        }
        if let Some(rate) = self.client_rate {
            text += &format!(", each client at most {rate} bytes/s");
        }
        match &self.at {
            Some(at) => text + &format!(", at {at}"),
            None => text,
        }
    }

    /// The piece, and planned against sent.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let Fidelity { planned, sent, gaps_distance, requests_distance, lag_p99_us, .. } =
            self.fidelity;
        let waiting = match self.left_waiting {
            0 => String::new(),
            count => format!(", {count} of them without a reply"),
        };
        let mut lines = vec![
            (
                "recording",
                format!(
                    "{} requests on {} connections, {} open before{waiting}",
                    self.requests, self.connections, self.open_before
                ),
            ),
            (
                "planned, sent",
                format!(
                    "{planned}, {sent}; distance of gaps {gaps_distance:.3}, of requests a \
                     connection {requests_distance:.3}; 99 % within {}",
                    duration(lag_p99_us)
                ),
            ),
        ];
        lines.extend(self.fidelity.dispersion().map(|text| ("dispersion", text)));
        let priority = match &self.no_real_time {
            None => "real-time".to_owned(),
            Some(why) => format!("ordinary: real-time was refused: {why}"),
        };
        lines.push(("priority", priority));
        if !self.inferred.is_empty() {
            lines.push(("inferred", self.inferred.join("; ")));
        }
        lines
    }
}

impl Fidelity {
    /// The clustering of requests, as planned and as sent. `None` if the window is too short to
    /// tell.
    fn dispersion(&self) -> Option<String> {
        let both = [
            (self.planned_dispersion_1s, self.sent_dispersion_1s, "1 s"),
            (self.planned_dispersion_10s, self.sent_dispersion_10s, "10 s"),
        ];
        let parts = both.into_iter().filter_map(|(planned, sent, scale)| {
            Some(format!("{:.2} planned, {:.2} sent at {scale}", planned?, sent?))
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
