//! A picture as PNG, by a Chromium that is installed.

use std::process::{Command, Stdio};
use std::{fs, io};

use super::svg::Picture;
use crate::measure::last_words;
use crate::measure::peers::find;

/// The names that Chromium has.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// The most seconds that Chromium may take.
const SECONDS: &str = "60";

/// The bytes of the PNG.
pub(super) fn of(picture: &Picture) -> io::Result<Vec<u8>> {
    let missing = "a PNG needs chromium on PATH: install it, or end the name in .svg";
    let chromium = NAMES.into_iter().find_map(find).ok_or_else(|| io::Error::other(missing))?;
    let folder = tempfile::tempdir()?;
    let (drawn, shown) = (folder.path().join("card.svg"), folder.path().join("card.png"));
    fs::write(&drawn, &picture.text)?;
    let [wide, tall] = picture.size;
    // timeout(1) ends a browser that hangs.
    let mut command = Command::new("timeout");
    command.arg(SECONDS).arg(chromium);
    command.args(["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update"]);
    if rustix::process::geteuid().is_root() {
        // Chromium refuses to run as root otherwise. It shows nothing but the card.
        command.arg("--no-sandbox");
    }
    command
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={wide},{tall}"))
        .arg(format!("--screenshot={}", shown.display()))
        .arg(format!("file://{}", drawn.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let ended = command.output()?;
    fs::read(&shown).map_err(|_| {
        let reason = last_words(&String::from_utf8_lossy(&ended.stderr));
        let reason = reason.unwrap_or_else(|| ended.status.to_string());
        io::Error::other(format!("chromium made no picture: end the name in .svg ({reason})"))
    })
}
