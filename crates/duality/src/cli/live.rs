//! `--live` and `--open`: a page in a browser while a command works.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use duality_lab::live::Page;
use duality_runtime::log;

use super::{Blame, Failure, Party, heading};

#[derive(clap::Args, Clone, Copy, Default)]
pub(super) struct LiveFlags {
    /// Show what is known so far on a page in a browser, at a free port of this machine alone
    ///
    /// The page's address is printed on standard error. The page works without scripts too
    /// (docs/live.md).
    #[arg(long, help_heading = heading::PAGE)]
    live: bool,
    /// Open the live page in a browser, or without --live the report of a comparison at its end
    ///
    /// $BROWSER names the browser. Without it, xdg-open chooses.
    #[arg(long, help_heading = heading::PAGE)]
    pub(super) open: bool,
}

impl LiveFlags {
    /// The flag that was given, if one was.
    pub(super) fn given(self) -> Option<String> {
        let all = [("--live", self.live), ("--open", self.open)];
        all.into_iter().find(|(_, is_said)| *is_said).map(|(flag, _)| flag.to_owned())
    }

    /// For a command without a report: to open the page, it takes one.
    pub(super) fn or_open(self) -> Self {
        Self { live: self.live || self.open, ..self }
    }

    /// Does `work` beside a page, if the flags ask for one. The page shows how the work ended: with
    /// its failure, or that the program failed.
    pub(super) fn beside<T>(
        self,
        work: impl FnOnce(Option<&Page>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(page) = self.start()? else { return work(None) };
        let mut ending = Ending { page, early: Some(PANIC.to_owned()) };
        let done = work(Some(&ending.page));
        ending.early = done.as_ref().err().map(Failure::to_string);
        done
    }

    /// Starts the page, if the flags ask for one, and opens it.
    fn start(self) -> Result<Option<Page>, Failure> {
        if !self.live {
            return Ok(None);
        }
        let page = Page::start().blame_at(Party::Machine, "--live: cannot start a page")?;
        log::tell(format_args!("live page at {}", page.url()));
        if self.open {
            open(page.url().as_ref());
        }
        Ok(Some(page))
    }

    /// Opens a report, unless the live page leads to it.
    pub(super) fn open_report(self, report: &Path) {
        if self.open && !self.live {
            open_file(report);
        }
    }
}

/// Opens a file in a browser, by its whole path.
pub(super) fn open_file(file: &Path) {
    open(&file.canonicalize().unwrap_or_else(|_| file.to_owned()));
}

/// What a page says at the end, if a panic unwinds past it.
const PANIC: &str = "The program failed by a fault of its own. Its standard error says more.";

/// Ends a page, however the work beside it ended.
struct Ending {
    page: Page,
    early: Option<String>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(why) = self.early.take() {
            self.page.say(why);
        }
        self.page.finish();
    }
}

/// Starts a browser, of which the shell is the parent and not this program.
const START: &str =
    r#"command -v "$0" >/dev/null || exit 127; "$0" "$1" </dev/null >/dev/null 2>&1 &"#;

/// Opens an address or a file in a browser. Without one, says what to open.
pub(super) fn open(what: &Path) {
    let said = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let chosen = said("BROWSER");
    if chosen.is_none() && said("DISPLAY").or_else(|| said("WAYLAND_DISPLAY")).is_none() {
        let what = what.display();
        return log::tell(format_args!(
            "--open: there is no desktop here: open {what} yourself, or set BROWSER to a browser's command"
        ));
    }
    let browser = chosen.unwrap_or_else(|| OsString::from("xdg-open"));
    let started = Command::new("sh").args(["-c", START]).arg(&browser).arg(what).status();
    if !started.is_ok_and(|status| status.success()) {
        let (browser, what) = (browser.display(), what.display());
        log::tell(format_args!(
            "--open: there is no {browser}: set BROWSER to a browser's command, or open {what} yourself"
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpStream;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const LIVE: LiveFlags = LiveFlags { live: true, open: false };

    /// A browser that has the first state of a page, as the lines that follow.
    fn watch(page: &Page) -> impl Iterator<Item = String> + use<> {
        let url = page.url();
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("Nothing is known yet.")));
        lines
    }

    fn last(mut lines: impl Iterator<Item = String>) -> String {
        lines.find(|line| line.contains(r#""over":true"#)).unwrap()
    }

    #[test]
    fn a_page_says_why_its_command_failed() {
        let mut lines = None;
        let done: Result<(), Failure> = LIVE.beside(|page| {
            lines = page.map(watch);
            Err(Failure::new(Party::Load, "nothing answers"))
        });
        assert!(done.is_err());
        let last = last(lines.unwrap());
        assert!(last.contains("nothing answers"), "{last}");
    }

    #[test]
    fn a_page_says_that_its_program_panicked() {
        let mut lines = None;
        let done = catch_unwind(AssertUnwindSafe(|| {
            LIVE.beside(|page| -> Result<(), Failure> {
                lines = page.map(watch);
                panic!("a fault of ours");
            })
        }));
        assert!(done.is_err());
        let last = last(lines.unwrap());
        assert!(last.contains(PANIC), "{last}");
    }

    #[test]
    fn without_the_flag_there_is_no_page() {
        assert!(LiveFlags::default().beside(|page| Ok(page.is_none())).unwrap());
    }
}
