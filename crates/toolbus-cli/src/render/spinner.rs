//! A line on the terminal that turns while there is nothing else to see, and is gone then.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_local};
use toolbus_proto::json::{Json, Kind, edit};

use super::style::is_dumb;
use super::{printable, width};
use crate::args::Globals;
use crate::stdio::Terminal as _;
use crate::{logging, stderr};

/// What is answered sooner needs no spinner.
const AFTER: Duration = Duration::from_millis(300);
/// How often it turns.
const TURN: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How wide the bar is.
const BAR: usize = 20;

/// Turns on standard error. Dropping it leaves nothing behind.
pub(crate) struct Spinner {
    state: Rc<RefCell<Turning>>,
    task: JoinHandle<()>,
}

struct Turning {
    since: Instant,
    is_waiting: bool,
    /// What it says besides the time.
    said: String,
}

thread_local! {
    /// What is waited for, and of whom.
    static AWAITED: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    /// How many there are.
    static TURNING: Cell<usize> = const { Cell::new(0) };
}

/// What of a peer is waited for, `None` if nothing is any more: whichever spinner turns says it.
pub(crate) fn awaits(peer: &str, what: Option<&str>) {
    AWAITED.with_borrow_mut(|awaited| {
        awaited.retain(|(other, _)| other != peer);
        awaited.extend(what.map(|what| (peer.to_owned(), printable(what).replace('\n', " "))));
    });
}

impl Spinner {
    /// One, if standard error is a terminal on which lines can be wiped and the user wants more
    /// than errors there.
    pub(crate) fn for_people(globals: &Globals) -> Option<Spinner> {
        (!globals.quiet && Spinner::can_turn()).then(Spinner::start)
    }

    /// The same while it is found out what a program speaks, unless one turns already.
    pub(crate) fn while_found_out() -> Option<Spinner> {
        (TURNING.get() == 0 && !logging::is_quiet() && Spinner::can_turn()).then(Spinner::start)
    }

    pub(crate) fn can_turn() -> bool {
        io::stderr().is_terminal() && !is_dumb() && !logging::is_json()
    }

    pub(crate) fn start() -> Spinner {
        let state = Turning { since: Instant::now(), is_waiting: true, said: String::new() };
        let state = Rc::new(RefCell::new(state));
        TURNING.set(TURNING.get() + 1);
        let turning = state.clone();
        let task = spawn_local(async move {
            tokio::time::sleep(AFTER).await;
            for frame in FRAMES.iter().cycle() {
                turning.borrow().draw(frame);
                tokio::time::sleep(TURN).await;
            }
        });
        Spinner { state, task }
    }

    /// What it says from now on.
    pub(crate) fn say(&self, text: &str) {
        self.state.borrow_mut().said = printable(text).replace('\n', " ");
    }

    /// How far a call is, as its peer tells it.
    pub(crate) fn progress(&self, progress: &Json) {
        self.say(&told(progress));
    }

    /// There is something to see. Says whether it was there.
    pub(crate) fn rest(&self) -> bool {
        self.state.borrow_mut().is_waiting = false;
        stderr::wipe()
    }

    /// There is nothing to see again.
    pub(crate) fn wait(&self) {
        self.state.borrow_mut().is_waiting = true;
    }
}

impl Turning {
    fn draw(&self, frame: &str) {
        if self.is_waiting {
            let seconds = self.since.elapsed().as_secs_f32();
            let said = format!("{} {}", self.said, awaited());
            let line = format!("{frame} {seconds:.1}s {}", said.trim());
            let width = width::of_stderr().unwrap_or(width::USUAL);
            stderr::write_transient(&width::cut(&line, width.saturating_sub(1)));
        }
    }
}

/// What is waited for, in one line.
fn awaited() -> String {
    AWAITED.with_borrow(|awaited| match &awaited[..] {
        [] => String::new(),
        [(_, what)] => what.clone(),
        [(_, what), more @ ..] => format!("{what} (and {} more)", more.len()),
    })
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.task.abort();
        TURNING.set(TURNING.get() - 1);
        stderr::wipe();
        // What follows on standard output is on the same terminal.
        stderr::flush();
    }
}

/// `[#####---------------] 1/4 reading`: the bar where it is known how much there is.
fn told(progress: &Json) -> String {
    if progress.kind() == Kind::String {
        return progress.shown();
    }
    let [done, total] = edit::pick(progress.as_str(), ["progress", "total"]);
    let number = |raw: Option<&str>| raw.and_then(|raw| raw.parse::<f64>().ok());
    let message = edit::text(progress.as_str(), "message").unwrap_or_default();
    let far = match (number(done), number(total)) {
        (Some(done), Some(total)) if 0.0 < total => {
            let full = (done / total).clamp(0.0, 1.0) * BAR as f64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to BAR")]
            let full = full as usize;
            let bar = "#".repeat(full) + &"-".repeat(BAR - full);
            format!("[{bar}] {done}/{total}")
        }
        (Some(done), _) => done.to_string(),
        _ => String::new(),
    };
    format!("{far} {message}").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_bar_where_the_end_is_known() {
        for (progress, expected) in [
            (
                r#"{"progress":1,"total":4,"message":"reading"}"#,
                "[#####---------------] 1/4 reading",
            ),
            (r#"{"progress":9,"total":4}"#, "[####################] 9/4"),
            (r#"{"progress":0.5}"#, "0.5"),
            (r#"{"message":"hm"}"#, "hm"),
            (r#""said""#, "said"),
            ("{}", ""),
        ] {
            assert_eq!(told(&Json::parse(progress).unwrap()), expected, "{progress}");
        }
    }
}
