//! Chromium without a window, driven over a pair of pipes.
//!
//! The protocol is one JSON object for each message, with a zero byte behind it
//! (`--remote-debugging-pipe`: commands come in at descriptor 3, answers go out at 4). This is all
//! that tests need, so no driver has to fit the browser's version.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::tools::have;

const PATIENCE: Duration = Duration::from_secs(60);

/// One page of a browser.
pub(super) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    number: u64,
    /// What pages complained about: refused styles, failing scripts, missing files.
    pub(super) complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// `None` if there is none here; the test has been counted as skipped.
    pub(super) fn start() -> Option<Browser> {
        if !have(&["chromium"]) {
            return None;
        }
        let profile = tempfile::tempdir().expect("a temporary directory");
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null",
            ])
            .args(["chromium", "--headless", "--no-sandbox", "--disable-gpu"])
            .args([
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-sync",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let commands = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut browser = Browser {
            child,
            commands,
            answers,
            session: None,
            number: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sends a command, and returns its result.
    #[track_caller]
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser runs");
        loop {
            let answer = self.next();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The next message of the browser. Complaints are kept.
    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers
            .read_until(0, &mut bytes)
            .expect("the browser runs");
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string());
            }
            Some("Runtime.exceptionThrown") => self.complaints.push(params.to_string()),
            _ => {}
        }
        message
    }

    /// Opens a page and waits until it is there.
    #[track_caller]
    pub(super) fn open(&mut self, address: &str) {
        let sent = self.ask("Page.navigate", &json!({"url": address}));
        assert!(sent["errorText"].is_null(), "{address}: {sent}");
        self.until(&format!(
            "location.href === {address:?} && document.readyState === 'complete'"
        ));
    }

    /// The value of an expression; promises are waited for.
    #[track_caller]
    pub(super) fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let found = self.ask("Runtime.evaluate", &params);
        assert!(
            found["exceptionDetails"].is_null(),
            "{expression:.200}: {found}"
        );
        found["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(super) fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        loop {
            // A page that is being replaced has no answers.
            let params = json!({"expression": expression, "returnByValue": true});
            if self.ask("Runtime.evaluate", &params)["result"]["value"] == true {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let page = self.value("location.href + '\\n' + document.body.innerText");
                panic!("never true: {expression}\n{}", page.as_str().unwrap_or("?"));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key that is no letter: `Tab`, `Enter`, `Space`.
    pub(super) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Space" => (32, " "),
            _ => (9, ""),
        };
        let name = if key == "Space" { " " } else { key };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({
                "type": kind, "key": name, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = json!(text);
            }
            self.ask("Input.dispatchKeyEvent", &params);
        }
    }

    /// Types a text where the keyboard is, over what is selected there.
    pub(super) fn write(&mut self, text: &str) {
        self.ask("Input.insertText", &json!({"text": text}));
    }

    /// Pages run no script from now on, or do again.
    pub(super) fn set_scripts(&mut self, run: bool) {
        let params = json!({"value": !run});
        self.ask("Emulation.setScriptExecutionDisabled", &params);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Both fail harmlessly when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
