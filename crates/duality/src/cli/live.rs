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

    /// Starts the page, if the flags ask for one, and opens it.
    pub(super) fn start(self) -> Result<Option<Page>, Failure> {
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
            let whole = report.canonicalize().unwrap_or_else(|_| report.to_owned());
            open(&whole);
        }
    }
}

/// Starts a browser, of which the shell is the parent and not this program.
const START: &str =
    r#"command -v "$0" >/dev/null || exit 127; "$0" "$1" </dev/null >/dev/null 2>&1 &"#;

/// Opens an address or a file in a browser. Without one, says what to open.
pub(super) fn open(what: &Path) {
    let chosen = env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let browser = chosen.unwrap_or_else(|| OsString::from("xdg-open"));
    let started = Command::new("sh").args(["-c", START]).arg(&browser).arg(what).status();
    if !started.is_ok_and(|status| status.success()) {
        let (browser, what) = (browser.display(), what.display());
        log::tell(format_args!(
            "--open: there is no {browser}: set BROWSER to a browser's command, or open {what} yourself"
        ));
    }
}
