//! What is under way, drawn below everything else on a terminal: a line for each node in flight.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_local};

use crate::render::printable;
use crate::stderr;

/// How often it is drawn.
const TURN: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

pub(super) struct Live {
    state: Rc<RefCell<Drawing>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Drawing {
    nodes: Vec<Node>,
    /// How many lines of ours are on the terminal.
    drawn: usize,
    turns: usize,
}

struct Node {
    address: String,
    since: Instant,
    attempt: u32,
    attempts_max: u32,
}

impl Live {
    /// Must be called inside a `LocalSet`.
    pub(super) fn start() -> Live {
        let state = Rc::new(RefCell::new(Drawing::default()));
        let drawing = state.clone();
        let task = spawn_local(async move {
            loop {
                tokio::time::sleep(TURN).await;
                drawing.borrow_mut().draw(size());
            }
        });
        Live { state, task }
    }

    pub(super) fn started(&self, address: &str, attempt: u32, attempts_max: u32) {
        let mut state = self.state.borrow_mut();
        match state.nodes.iter_mut().find(|node| node.address == address) {
            Some(node) => node.attempt = attempt,
            None => {
                let (address, since) = (address.to_owned(), Instant::now());
                state.nodes.push(Node { address, since, attempt, attempts_max });
            }
        }
    }

    pub(super) fn ended(&self, address: &str) {
        self.state.borrow_mut().nodes.retain(|node| node.address != address);
    }

    /// Before anything else is written. What is written elsewhere comes behind it.
    pub(super) fn wipe(&self) {
        let mut state = self.state.borrow_mut();
        if state.drawn != 0 {
            stderr::write(&state.wiped());
            stderr::flush();
        }
    }

    pub(super) fn stop(&self) {
        self.task.abort();
        self.wipe();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Drawing {
    fn draw(&mut self, (columns, rows): (usize, usize)) {
        if self.nodes.is_empty() && self.drawn == 0 {
            return;
        }
        let mut text = self.wiped();
        self.turns += 1;
        let frame = FRAMES[self.turns % FRAMES.len()];
        // The last row stays free, or the terminal would scroll away what is above.
        let shown = self.nodes.iter().take(rows.saturating_sub(1));
        for Node { address, since, attempt, attempts_max } in shown {
            let mut line = format!("{frame} {} {}s", printable(address), since.elapsed().as_secs());
            if 1 < *attempt {
                line.push_str(&format!(" attempt {attempt}/{attempts_max}"));
            }
            text.extend(line.chars().take(columns.saturating_sub(1)));
            text.push('\n');
            self.drawn += 1;
        }
        if !text.is_empty() {
            stderr::write(&text);
        }
    }

    fn wiped(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            drawn => format!("\x1b[{drawn}A\r\x1b[J"),
        }
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if 0 < size.ws_col && 0 < size.ws_row => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_drawn_is_wiped_before_it_is_drawn_anew() {
        let mut drawing = Drawing::default();
        assert_eq!(drawing.wiped(), "");
        drawing.drawn = 2;
        assert_eq!(drawing.wiped(), "\x1b[2A\r\x1b[J");
        assert_eq!(drawing.wiped(), "");
    }
}
