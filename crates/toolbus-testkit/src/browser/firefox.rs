//! Firefox without a window, asked by Marionette: a line of JSON behind its length, over TCP.
//!
//! The other engine, for what has to work in both. It has no tabs here: it is one, and a test has
//! it for itself.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::text;
use crate::patience::{PATIENCE, awaited};
use crate::scratch::Scratch;
use crate::skipped::skipped;

/// Where it is looked for when `FIREFOX` does not name one.
const NAMES: [&str; 2] = ["firefox-esr", "firefox"];

/// A port of its choice, and nobody on the network asked.
const PREFERENCES: &str = r#"user_pref("marionette.port", 0);
user_pref("app.update.enabled", false);
user_pref("app.normandy.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "http://127.0.0.1:1/");
user_pref("toolkit.telemetry.enabled", false);
"#;

/// One window of Firefox; it ends when dropped.
pub struct Firefox {
    child: Child,
    stream: TcpStream,
    asked: u64,
    /// Its profile.
    _profile: Scratch,
}

impl Firefox {
    /// Starts one; nothing where there is none, and then the test has to end.
    #[track_caller]
    pub fn start() -> Option<Firefox> {
        let Some(program) = super::program("FIREFOX", &NAMES) else {
            skipped("no Firefox");
            return None;
        };
        let profile = Scratch::new();
        fs::write(profile.file("user.js"), PREFERENCES).expect("the folder is ours");
        let mut child = started(&program, &profile);
        let file = PathBuf::from(profile.file("MarionetteActivePort"));
        let port: u16 = awaited("it says where it is asked", || {
            assert!(child.try_wait().expect("can be waited for").is_none(), "it has ended");
            fs::read_to_string(&file).ok()?.trim().parse().ok()
        });
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
        let mut firefox = Firefox { child, stream, asked: 0, _profile: profile };
        firefox.hear();
        firefox.ask("WebDriver:NewSession", json!({}));
        let patience = u64::try_from(PATIENCE.as_millis()).expect("some minutes");
        firefox.ask("WebDriver:SetTimeouts", json!({"script":patience,"pageLoad":patience}));
        Some(firefox)
    }

    /// Goes to an address.
    #[track_caller]
    pub fn open(&mut self, url: &str) {
        self.ask("WebDriver:Navigate", json!({"url":url}));
    }

    /// How large it is.
    #[track_caller]
    pub fn looks(&mut self, width: u32, height: u32) {
        self.ask("WebDriver:SetWindowRect", json!({"width":width,"height":height}));
    }

    /// What an expression is, as JSON; promises are awaited.
    #[track_caller]
    pub fn get(&mut self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; (async () => ({expression}))().then(is => done([is]), why => done(String(why)))"
        );
        let told = self.ask("WebDriver:ExecuteAsyncScript", json!({"script":script,"args":[]}));
        let told = &told["value"];
        assert!(told.is_array(), "{expression}: {told}");
        told[0].clone()
    }

    /// Awaits that an expression of JavaScript is so; an error is not so.
    #[track_caller]
    pub fn until(&mut self, so: &str) {
        let until = Instant::now() + PATIENCE;
        let look =
            format!("(() => {{ try {{ return Boolean({so}) }} catch {{ return false }} }})()");
        // Each look is made behind a frame, or the page would be given no time for its own.
        let look = format!("new Promise(done => requestAnimationFrame(() => done({look})))");
        while self.get(&look) != true {
            let seen = "location.href + '\\n' + document.body.innerText";
            assert!(Instant::now() < until, "not so: {so}\n{}", text(&self.get(seen)));
        }
    }

    /// Clicks into what a selector finds, once it is there.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let id = self.found(selector);
        self.ask("WebDriver:ElementClick", json!({"id":id}));
    }

    /// Types a text in place of what is in a field.
    #[track_caller]
    pub fn fill(&mut self, selector: &str, typed: &str) {
        let id = self.found(selector);
        self.ask("WebDriver:ElementClear", json!({"id":id}));
        self.ask("WebDriver:ElementSendKeys", json!({"id":id,"text":typed}));
    }

    /// Presses a key.
    #[track_caller]
    pub fn key(&mut self, key: &str) {
        let actions = json!([{"type":"keyDown","value":key},{"type":"keyUp","value":key}]);
        let keyboard = json!([{"type":"key","id":"keyboard","actions":actions}]);
        self.ask("WebDriver:PerformActions", json!({ "actions": keyboard }));
    }

    /// What it shows, as a PNG.
    #[track_caller]
    pub fn picture(&mut self) -> Vec<u8> {
        let taken = self.ask("WebDriver:TakeScreenshot", json!({"full":false}));
        super::tab::base64(taken["value"].as_str().expect("a text"))
    }

    #[track_caller]
    fn found(&mut self, selector: &str) -> String {
        let there = format!("document.querySelector({}).getClientRects().length", json!(selector));
        self.until(&there);
        let by = json!({"using":"css selector","value":selector});
        let found = self.ask("WebDriver:FindElement", by);
        let named = found["value"].as_object().and_then(|it| it.values().next());
        named.and_then(Value::as_str).expect("an element has a name").to_owned()
    }

    #[track_caller]
    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let message = json!([0, self.asked, method, parameters]).to_string();
        let message = format!("{}:{message}", message.len());
        self.stream.write_all(message.as_bytes()).expect("it runs");
        let answer = self.hear();
        assert_eq!(answer[1], self.asked, "{answer}");
        assert!(answer[2].is_null(), "{method} {}: {}", parameters, answer[2]);
        answer[3].clone()
    }

    /// Its next message.
    #[track_caller]
    fn hear(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("it answers");
            match byte[0] {
                digit @ b'0'..=b'9' => length = length * 10 + usize::from(digit - b'0'),
                _ => break,
            }
        }
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message).expect("it answers");
        serde_json::from_slice(&message).expect("JSON")
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started(program: &Path, profile: &Scratch) -> Child {
    let mut command = Command::new(program);
    command.args(["--headless", "--no-remote", "--marionette", "--profile"]).arg(profile.path());
    // What it keeps beside its profile has a place there, too.
    command.env("HOME", profile.path()).env("MOZ_HEADLESS", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it can be started")
}
