//! The story of a run: what happened when, and the decisions that mattered.

/// The lines of a story, if it is told.
#[derive(Debug, Default)]
pub(crate) struct Story {
    lines: Option<Vec<String>>,
    /// Whether decisions that are not tame are told too.
    tells_decisions: bool,
}

impl Story {
    /// A story that is told.
    pub(crate) fn told(tells_decisions: bool) -> Self {
        Self { lines: Some(Vec::new()), tells_decisions }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.lines.is_some()
    }

    pub(super) fn add(&mut self, now: u64, line: impl AsRef<str>) {
        if let Some(lines) = &mut self.lines {
            let seconds = now as f64 / 1e9;
            let line: String =
                line.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            lines.push(format!("{seconds:>14.6} s  {line}"));
        }
    }

    pub(super) fn decided(&mut self, now: u64, line: impl FnOnce() -> String) {
        if self.tells_decisions && self.lines.is_some() {
            self.add(now, format!("    ▸ {}", line()));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
