//! What a reader of figures must know, by kind: whoever goes on with it looks at the kind, and never at the wording.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// Something that a reader of figures must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What there is to know, in a sentence.
    pub text: String,
}

/// What a warning is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// The load was interrupted.
    Interrupted,
    /// The server went away.
    ServerGone,
    /// There was no reply at all for a long time.
    Standstill,
    /// No latency was measured.
    NoLatencies,
    /// Connections were never served.
    Unserved,
    /// Requests were unanswered at the end that had waited longer than any that counts.
    Overdue,
    /// An open loop's requests were sent late, or had to wait for connections.
    OpenLoop,
    /// Requests failed, in this way.
    Failed(String),
    /// Requests failed before or after the window.
    FailedOutside,
    /// An accept queue overflowed, of whichever server.
    AcceptQueues,
    /// The server's own listen queue was the limit, or overflowed.
    ListenQueue,
    /// Server and load generator shared processors.
    SharedProcessors,
    /// Figures of repeats are not to be trusted, for this reason.
    Invalid(String),
    /// Some repeats have no figures.
    Missing,
    /// Repeats differ much.
    Noisy,
    /// A repeat is far from the others.
    Outliers,
    /// Figures changed within the window.
    Unsteady,
    /// Written by a version that did not say.
    Other,
}

impl Warning {
    /// A warning of this kind.
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Earlier versions wrote the sentence alone.
impl<'de> Deserialize<'de> for Warning {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Sentence(String),
            Whole { kind: WarningKind, text: String },
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Sentence(text) => Self { kind: WarningKind::Other, text },
            Written::Whole { kind, text } => Self { kind, text },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let old: Warning = serde_json::from_str(r#""Mind the gap.""#).unwrap();
        assert_eq!(old, Warning::new(WarningKind::Other, "Mind the gap."));
        let new = Warning::new(WarningKind::Failed("reset".into()), "reset once.");
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Warning>(&text).unwrap(), new);
    }
}
