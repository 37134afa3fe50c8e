//! What `simulate` shows while it runs, on standard error if that is a terminal. It is a bar. A
//! terminal that cannot rewrite a line gets a line now and then.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duality_runtime::log;
use indicatif::{ProgressBar, ProgressStyle};

/// The interval between two lines of a terminal that cannot rewrite one.
const PAUSE: Duration = Duration::from_secs(5);

/// See the [module](self). Clones show the same seeds.
#[derive(Clone)]
pub(super) struct Progress(Option<Shown>);

#[derive(Clone)]
enum Shown {
    Bar(ProgressBar),
    Lines(Arc<Lines>),
}

struct Lines {
    name: String,
    seeds: u64,
    begin: Instant,
    /// When the last line was written.
    written: Mutex<Instant>,
}

impl Progress {
    /// Shows `seeds` seeds of `name`.
    pub(super) fn new(name: &str, seeds: u64) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let shown = io::stderr().is_terminal().then(|| match is_dumb || is_set("NO_COLOR") {
            true => Shown::Lines(Arc::new(Lines::new(name, seeds))),
            false => {
                let template = "{msg} {bar:30} {pos}/{len} seeds, {eta} left";
                let style = ProgressStyle::with_template(template).expect("the template is right");
                let bar = ProgressBar::new(seeds).with_style(style).with_message(name.to_owned());
                bar.tick();
                Shown::Bar(bar)
            }
        });
        Self(shown)
    }

    /// Shows that so many seeds have passed.
    pub(super) fn passed(&self, seeds: u64) {
        match &self.0 {
            Some(Shown::Bar(bar)) => bar.set_position(seeds),
            Some(Shown::Lines(lines)) => {
                let line = lines.line(seeds, Instant::now());
                line.into_iter().for_each(log::tell);
            }
            None => {}
        }
    }

    /// Removes the bar, before the result is printed.
    pub(super) fn end(&self) {
        if let Some(Shown::Bar(bar)) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    fn new(name: &str, seeds: u64) -> Self {
        let begin = Instant::now();
        Self { name: name.to_owned(), seeds, begin, written: Mutex::new(begin) }
    }

    /// The line for so many seeds, if it is time for one.
    fn line(&self, passed: u64, now: Instant) -> Option<String> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if passed == 0 || now.saturating_duration_since(*written) < PAUSE {
            return None;
        }
        *written = now;
        let Self { name, seeds, begin, .. } = self;
        let took = now.saturating_duration_since(*begin).as_secs_f64();
        let left = took / passed as f64 * seeds.saturating_sub(passed) as f64;
        Some(format!("{name}: {passed}/{seeds} seeds, {left:.0} s left"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_now_and_then() {
        let lines = Lines::new("chat", 300);
        let at = |seconds| lines.begin + Duration::from_secs(seconds);
        assert_eq!(lines.line(50, at(4)), None);
        assert_eq!(lines.line(100, at(10)).unwrap(), "chat: 100/300 seeds, 20 s left");
        assert_eq!(lines.line(101, at(11)), None);
        assert_eq!(lines.line(300, at(20)).unwrap(), "chat: 300/300 seeds, 0 s left");
    }
}
