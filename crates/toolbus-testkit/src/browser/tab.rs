//! What a test does in a tab: it goes to places, awaits what is shown, clicks, types and looks.

use std::io::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Browser, text};
use crate::patience::PATIENCE;

/// The colours that its user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// Gives the middle of an element, and lets through to it alone what a mouse does from now on.
/// `letGo` ends that, and tells whether it was clicked.
const AIM: &str = "(() => {
    const one = FOUND;
    if (!one) return null;
    one.scrollIntoView({ block: 'center' });
    const kinds = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'];
    let clicked = false;
    const guard = event => {
        if (!event.isTrusted || event.composedPath().includes(one)) clicked ||= event.isTrusted && event.type === 'click';
        else { event.preventDefault(); event.stopImmediatePropagation() }
    };
    kinds.forEach(kind => addEventListener(kind, guard, true));
    window.letGo = () => {
        kinds.forEach(kind => removeEventListener(kind, guard, true));
        delete window.letGo;
        return clicked;
    };
    const { x, y, width, height } = one.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
})()";

/// A tab in a window of its own; closed when dropped.
pub struct Tab {
    pub(super) browser: &'static Browser,
    pub(super) target: String,
    pub(super) session: String,
}

impl Tab {
    /// Goes to an address.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.ask("Page.navigate", json!({"url":url}));
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&self) {
        self.run("window.wasThereBefore = true");
        self.ask("Page.reload", json!({}));
        self.until("!window.wasThereBefore && document.readyState === 'complete'");
    }

    /// How large it is, and in which colours.
    #[track_caller]
    pub fn looks(&self, width: u32, height: u32, scheme: Scheme) {
        let size = json!({"width":width,"height":height,"deviceScaleFactor":1,"mobile":false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let value = if scheme == Scheme::Dark { "dark" } else { "light" };
        let features = [
            json!({"name":"prefers-color-scheme","value":value}),
            json!({"name":"prefers-reduced-motion","value":"no-preference"}),
        ];
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Awaits that an expression of JavaScript is so, looking once a frame; an error is not so.
    #[track_caller]
    pub fn until(&self, so: &str) {
        let look = format!(
            "new Promise(done => {{ const look = () => {{ let is; try {{ is = {so} }} catch {{}} \
             if (is) done(true); else requestAnimationFrame(look) }}; look() }})"
        );
        loop {
            let parameters = json!({"expression":look,"awaitPromise":true,"returnByValue":true});
            let answer = self.browser.asked(&self.session, "Runtime.evaluate", &parameters);
            let Some(answer) = answer else {
                panic!("not so after {PATIENCE:?}: {so}\n{}", self.seen());
            };
            if answer["result"]["result"]["value"] == true {
                return;
            }
            // Another document has taken the place of the one that was looked at.
            let why = answer.to_string();
            let is_moved = ["context", "navigated", "Promise was collected"];
            assert!(is_moved.iter().any(|one| why.contains(one)), "cannot look: {so}: {why}");
        }
    }

    /// What an expression is, as JSON; promises are awaited.
    #[track_caller]
    pub fn get(&self, expression: &str) -> Value {
        let parameters = json!({"expression":expression,"awaitPromise":true,"returnByValue":true});
        let answer = self.ask("Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// What an expression is, as text.
    #[track_caller]
    pub fn text(&self, expression: &str) -> String {
        text(&self.get(expression))
    }

    /// Runs statements.
    #[track_caller]
    pub fn run(&self, statements: &str) {
        self.get(&format!("(() => {{ {statements} }})()"));
    }

    /// Clicks with the mouse into the middle of what a selector finds, once it is there.
    ///
    /// A page may move what it shows at any time. So a click that would get to anything else is
    /// kept from it, and made again.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        let until = Instant::now() + PATIENCE;
        loop {
            self.until(&format!("{found}.getClientRects().length && !{found}.disabled"));
            let place = self.get(&AIM.replace("FOUND", &found));
            if !place.is_null() {
                self.click_at(&place[0], &place[1]);
            }
            if self.get("window.letGo?.() ?? false") == true {
                return;
            }
            assert!(Instant::now() < until, "cannot be clicked: {selector}\n{}", self.seen());
        }
    }

    /// Clicks with the mouse at a place of the window.
    #[track_caller]
    pub fn click_at(&self, x: &Value, y: &Value) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({"type":kind,"x":x,"y":y,"button":button,"clickCount":1});
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Types a text in place of what is in a field.
    #[track_caller]
    pub fn fill(&self, selector: &str, typed: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        let until = Instant::now() + PATIENCE;
        // Again, if the page has taken the focus to somewhere else, or another field has come.
        loop {
            self.until(&format!(
                "({found}.focus(), {found}.select(), document.activeElement === {found})"
            ));
            if typed.is_empty() {
                self.key("Delete");
            } else {
                self.ask("Input.insertText", json!({"text":typed}));
            }
            if self.get(&format!("{found}?.value === {}", json!(typed))) == true {
                return;
            }
            assert!(Instant::now() < until, "cannot be filled: {selector}\n{}", self.seen());
        }
    }

    /// Presses a key by its name: `j`, `Enter`, `Tab`, `Control+Enter`.
    #[track_caller]
    pub fn key(&self, name: &str) {
        let (modifiers, key) = match name.split_once('+') {
            Some(("Control", key)) => (2, key),
            Some(("Shift", key)) => (8, key),
            _ => (0, name),
        };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            "Delete" => 46,
            _ => 0,
        };
        let mut down =
            json!({"type":"keyDown","key":key,"windowsVirtualKeyCode":code,"modifiers":modifiers});
        if modifiers == 0 && key == "Enter" {
            down["text"] = "\r".into();
        } else if modifiers == 0 && key.chars().count() == 1 {
            down["text"] = key.into();
        }
        self.ask("Input.dispatchKeyEvent", down);
        self.ask(
            "Input.dispatchKeyEvent",
            json!({"type":"keyUp","key":key,"windowsVirtualKeyCode":code}),
        );
    }

    /// What it shows, as a PNG.
    #[track_caller]
    pub fn picture(&self) -> Vec<u8> {
        let taken = self.ask("Page.captureScreenshot", json!({"format":"png"}));
        base64(taken["data"].as_str().expect("a text"))
    }

    /// What went wrong in it: exceptions, and what the browser forbade.
    pub fn errors(&self) -> Vec<String> {
        let mut heard = self.browser.heard.lock().expect("no test panics under this lock");
        heard.errors.remove(&self.session).unwrap_or_default()
    }

    /// Asks the browser of this tab, for what has no word of its own here.
    #[track_caller]
    pub fn ask(&self, method: &str, parameters: Value) -> Value {
        self.browser.ask(&self.session, method, parameters)
    }

    /// For the message of a test that fails.
    fn seen(&self) -> String {
        let parameters = json!({"expression":"location.href + '\\n' + document.body.innerText","returnByValue":true});
        let answer = self.browser.asked(&self.session, "Runtime.evaluate", &parameters);
        let answer = answer.unwrap_or_default();
        format!("{}\n{:?}", text(&answer["result"]["result"]["value"]), self.errors())
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let close = json!({"id":0,"method":"Target.closeTarget","params":{"targetId":self.target}});
        if let Ok(mut pipe) = self.browser.pipe.lock() {
            // Nobody waits for the answer.
            let _ = pipe.0.write_all(format!("{close}\0").as_bytes());
        }
    }
}

/// The bytes that a text of base64 stands for.
pub(super) fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0, 0);
    for digit in digits {
        bits = ((bits << 6) | digit) & 0xffff;
        count += 6;
        if 8 <= count {
            count -= 8;
            bytes.push(((bits >> count) & 0xff) as u8);
        }
    }
    bytes
}
