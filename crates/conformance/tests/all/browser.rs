//! Tests the guestbook in a real browser: Chromium opens a page, submits its form, and follows the
//! redirect to the result.
//!
//! The page is a template in the templates directory, with a form that submits itself.

use std::process::Command;

use duality_conformance::ServerProcess;

/// The remark of a guest. The browser must show it as text.
const REMARKS: &str = "fish & <chips>, naïve \"quotes\" +%41";

/// A page that acts like a guest. The form has the fields of the built-in page.
const SIGN: &str = r#"<!doctype html><meta charset="utf-8"><title>sign</title>
<form id="form" method="post" action="/guestbook">
<input name="guest-name" value="Björn &amp; co"><textarea name="guest-remarks">fish &amp; &lt;chips&gt;, naïve "quotes" +%41</textarea>
</form><script>document.getElementById("form").submit()</script>"#;

macro_rules! browser {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            a_remark_is_signed_and_shown(stringify!($name));
        })*
    };
}

browser! { prefork threads pool uthreads epoll }

fn a_remark_is_signed_and_shown(architecture: &str) {
    let directory = tempfile::tempdir().unwrap();
    let templates = directory.path().join("templates");
    std::fs::create_dir(&templates).unwrap();
    std::fs::write(templates.join("sign.html"), SIGN).unwrap();
    let store = format!("sqlite:{}", directory.path().join("store.sqlite").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "guestbook", "--listen=127.0.0.1:0", "--architecture", architecture]);
    command.args(["--store", &store]).arg("--templates").arg(&templates);
    let server = ServerProcess::start(&mut command);

    let shown = open(&format!("http://{}/sign", server.address()), directory.path());
    let remarks = "fish &amp; &lt;chips&gt;, naïve \"quotes\" +%41";
    assert!(shown.contains("Björn &amp; co") && shown.contains(remarks), "{shown}");
    assert!(!shown.contains("<chips>"), "{REMARKS} is text: {shown}");
    // The page after the redirect has counted the browser as one visitor.
    assert!(shown.contains("id=\"visitors\">1<"), "{shown}");
    let again = open(&format!("http://{}/guestbook", server.address()), directory.path());
    assert!(again.contains("id=\"visitors\">2<") && again.contains(remarks), "{again}");
}

/// The final document of Chromium, as HTML.
fn open(address: &str, directory: &std::path::Path) -> String {
    let profile = format!("--user-data-dir={}", directory.join("profile").display());
    let chromium = Command::new("timeout")
        .args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu", &profile])
        .args(["--no-first-run", "--disable-background-networking", "--virtual-time-budget=10000"])
        .args(["--dump-dom", address])
        .output()
        .expect("timeout(1) is there");
    let stderr = String::from_utf8_lossy(&chromium.stderr);
    assert!(chromium.status.success(), "{}: {stderr}", chromium.status);
    String::from_utf8(chromium.stdout).expect("the page is in UTF-8")
}
