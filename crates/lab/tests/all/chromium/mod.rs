//! Chromium under its DevTools protocol. The tests use a page as a person does, with real keys and
//! a real viewport.
//!
//! The protocol is spoken over a pair of pipes (`--remote-debugging-pipe`), as JSON ended by a NUL.
//! The shell puts them where Chromium expects them, at descriptors 3 and 4.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A page in a browser.
pub(crate) struct Page {
    chromium: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    session: Option<String>,
    count: u64,
    loads: u64,
}

impl Page {
    /// Opens a file, and waits until its scripts have run. `None` without Chromium.
    pub(crate) fn open(file: &Path, profile: &Path, width: u32) -> Option<Self> {
        if !is_installed() {
            let why = "no chromium on PATH (cargo xtask test installs it)";
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
            return None;
        }
        // timeout(1) ends Chromium after a while, whatever goes wrong.
        let mut chromium = Command::new("sh")
            .args(["-c", r#"exec timeout 300 "$@" 3<&0 4>&1 >/dev/null"#, "sh", "chromium"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = chromium.stdin.take().unwrap();
        let replies = BufReader::new(chromium.stdout.take().unwrap());
        let mut page = Self { chromium, requests, replies, session: None, count: 0, loads: 0 };
        let target = page.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.ask("Target.attachToTarget", &attach);
        page.session = session["sessionId"].as_str().map(str::to_owned);
        let phone = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": true});
        page.ask("Emulation.setDeviceMetricsOverride", &phone);
        page.ask("Page.enable", &json!({}));
        page.go(&format!("file://{}", file.display()));
        Some(page)
    }

    /// Loads an address, and waits until the page is loaded.
    pub(crate) fn go(&mut self, address: &str) {
        let loads = self.loads;
        self.ask("Page.navigate", &json!({"url": address}));
        self.wait_for_load(loads);
    }

    /// Clicks a link, and waits until the page that it leads to is loaded.
    ///
    /// An expression that is awaited while the page goes fails.
    pub(crate) fn follow(&mut self, selector: &str) {
        let loads = self.loads;
        self.value(&format!("document.querySelector('{selector}').click()"));
        self.wait_for_load(loads);
    }

    fn wait_for_load(&mut self, before: u64) {
        while self.loads == before {
            self.read();
        }
    }

    /// Lets the pages that are loaded from now on run no scripts.
    pub(crate) fn forbid_scripts(&mut self) {
        self.ask("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    }

    /// Sets whether the browser sees a dark system.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// The value of an expression. For a promise, the value that it resolves to.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let reply = self.ask("Runtime.evaluate", &asked);
        assert!(reply["exceptionDetails"].is_null(), "{expression}: {reply}");
        reply["result"]["value"].clone()
    }

    /// Presses a key: Tab, Enter or Escape.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            other => panic!("no key {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.count += 1;
        let mut request = json!({"id": self.count, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let reply = self.read();
            if reply["id"] == self.count {
                assert!(reply["error"].is_null(), "{method}: {reply}");
                return reply["result"].clone();
            }
        }
    }

    /// The browser's next message: a reply or an event.
    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.replies.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "chromium has ended");
        let message: Value = serde_json::from_slice(&message).unwrap();
        self.loads += u64::from(message["method"] == "Page.loadEventFired");
        message
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A test that failed may have left any state. timeout(1) passes the signal on.
            if let Some(chromium) = Pid::from_raw(self.chromium.id().cast_signed()) {
                let _ = kill_process(chromium, Signal::TERM);
            }
        } else {
            self.session = None;
            self.ask("Browser.close", &json!({}));
        }
        // It writes into its profile until it has ended.
        let _ = self.chromium.wait();
    }
}

fn is_installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .any(|folder| fs::metadata(folder.join("chromium")).is_ok_and(|found| found.is_file()))
}
