//! A browser as tests drive it: Chromium without a window, asked by the DevTools protocol over a
//! pair of pipes.
//!
//! One browser serves all tests of a program, each of which has a tab of its own: starting one
//! takes seconds. Nothing here sleeps: what a page shows is awaited in the page, once a frame.

mod firefox;
mod tab;

use std::collections::HashMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::patience::PATIENCE;
use crate::scratch::Scratch;
use crate::skipped::skipped;

pub use firefox::Firefox;
pub use tab::{Scheme, Tab};

/// Where a browser is looked for when `CHROMIUM` does not name one.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What keeps it from showing anything and from asking anybody on the network.
const FLAGS: [&str; 9] = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
];

/// Starts it with the pipes where it expects them, and removes its profile when it has ended,
/// which it does when our end of a pipe is closed: also when the test is killed. It gives way to others
/// a little, for other tests have peers who wait for each other in seconds; but not so much that on a
/// busy machine it gets no turn at all.
const START: &str = r#"profile=$1; shift; nice -n 5 "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null; rm -rf "$profile""#;

/// The browser of all tests of this program.
pub struct Browser {
    pipe: Mutex<(ChildStdin, u64)>,
    heard: Arc<Mutex<Heard>>,
}

/// What it has said, and who waits for what.
#[derive(Default)]
struct Heard {
    waiting: HashMap<u64, Sender<Value>>,
    /// Errors of each tab, by its session.
    errors: HashMap<String, Vec<String>>,
}

impl Browser {
    /// The browser that all tests share; nothing where there is none, and then the test has to end.
    #[track_caller]
    pub fn shared() -> Option<&'static Browser> {
        static SHARED: OnceLock<Option<Browser>> = OnceLock::new();
        let browser = SHARED
            .get_or_init(|| program("CHROMIUM", &NAMES).map(|program| Browser::start(&program)));
        if browser.is_none() {
            assert!(env::var_os("CI").is_none_or(|value| value != "true"), "no browser");
            skipped("no browser");
        }
        browser.as_ref()
    }

    fn start(program: &Path) -> Browser {
        let profile = Scratch::new();
        let path = profile.path().to_owned();
        // The shell removes it, for a static is never dropped.
        std::mem::forget(profile);
        let mut command = Command::new("sh");
        command.args(["-c", START, "sh"]).arg(&path).arg(program).args(FLAGS);
        command.arg(format!("--user-data-dir={}", path.display()));
        if geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is a shell");
        let input = child.stdin.take().expect("is piped");
        let mut output = BufReader::new(child.stdout.take().expect("is piped"));
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hears = Arc::clone(&heard);
        thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|read| 0 < read) {
                message.pop();
                let message = std::mem::take(&mut message);
                if let Ok(told) = serde_json::from_slice(&message) {
                    hears.lock().expect("no test panics under this lock").hear(told);
                }
            }
            // Those who wait learn that there will be no answer.
            hears.lock().expect("no test panics under this lock").waiting.clear();
            let _ = child.wait();
        });
        Browser { pipe: Mutex::new((input, 0)), heard }
    }

    /// A tab that shows nothing yet, as large as a laptop, in light.
    #[track_caller]
    pub fn tab(&'static self) -> Tab {
        let made =
            self.ask("", "Target.createTarget", json!({"url":"about:blank","newWindow":true}));
        let target = text(&made["targetId"]);
        let joined = json!({"targetId":target,"flatten":true});
        let session = text(&self.ask("", "Target.attachToTarget", joined)["sessionId"]);
        let tab = Tab { browser: self, target, session };
        for domain in ["Page", "Runtime", "Log"] {
            tab.ask(&format!("{domain}.enable"), json!({}));
        }
        // Or it would draw nothing, and no field would have the focus.
        tab.ask("Emulation.setFocusEmulationEnabled", json!({"enabled":true}));
        tab.looks(1280, 800, Scheme::Light);
        tab
    }

    #[track_caller]
    fn ask(&self, session: &str, method: &str, parameters: Value) -> Value {
        let answer = self.asked(session, method, &parameters);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {method} {parameters}"));
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// The same, with what it refused; nothing if it does not answer in time.
    fn asked(&self, session: &str, method: &str, parameters: &Value) -> Option<Value> {
        let (tell, told) = mpsc::channel();
        {
            let mut pipe = self.pipe.lock().expect("no test panics under this lock");
            pipe.1 += 1;
            let id = pipe.1;
            self.heard.lock().expect("no test panics under this lock").waiting.insert(id, tell);
            let mut message = json!({"id":id,"method":method,"params":parameters});
            if !session.is_empty() {
                message["sessionId"] = session.into();
            }
            pipe.0.write_all(format!("{message}\0").as_bytes()).expect("the browser runs");
        }
        told.recv_timeout(PATIENCE).ok()
    }
}

impl Heard {
    fn hear(&mut self, told: Value) {
        if let Some(id) = told["id"].as_u64() {
            if let Some(waits) = self.waiting.remove(&id) {
                // It may have given up.
                let _ = waits.send(told);
            }
            return;
        }
        let parameters = &told["params"];
        let error = match told["method"].as_str() {
            Some("Runtime.exceptionThrown") => parameters["exceptionDetails"].to_string(),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                // What the page was refused by us is for the page to tell.
                if parameters["entry"]["source"] == "network" {
                    return;
                }
                text(&parameters["entry"]["text"])
            }
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                parameters["args"].to_string()
            }
            _ => return,
        };
        self.errors.entry(text(&told["sessionId"])).or_default().push(error);
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The program of a browser, if there is one: what this variable names, or one of these.
fn program(variable: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(named) = env::var_os(variable) {
        return Some(PathBuf::from(named));
    }
    let path = env::var_os("PATH")?;
    let folders: Vec<_> = env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|file| file.is_file())
}
