//! A line in the log for each call: where it went, how it ended, how long it took.
//!
//! Only who wants to see them pays for them: else a call goes straight to its caller.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::tool::{Call, What, Wire};
use tracing::Level;

use crate::engine::calls::{Asker, Pressure, ReplyTo};

/// Passes a reply on, and tells how it ended.
struct LoggedReply {
    down: ReplyTo,
    wire: Wire,
    back: Arc<str>,
    what: String,
    caller: Option<Arc<str>>,
    since: Instant,
    has_ended: Cell<bool>,
}

/// The same place for the reply; the log is told of its end, if it wants to know, and whose call
/// it was.
pub(super) fn logged(
    call: &Call,
    caller: Option<&Arc<str>>,
    wire: Wire,
    back: &Arc<str>,
    down: ReplyTo,
) -> ReplyTo {
    if !tracing::enabled!(Level::INFO) {
        return down;
    }
    let what = match &call.what {
        What::Tool { name, .. } => format!("call of `{name}`"),
        What::Native { method, .. } => String::from_utf8_lossy(method).into_owned(),
        What::Tools => "list".to_owned(),
    };
    if let What::Tool { args: Some(args), .. } = &call.what {
        let peer = &**back;
        tracing::debug!(peer, "<- {what} {}", beginning(args.as_str()));
    }
    let (since, has_ended) = (Instant::now(), Cell::new(false));
    let (back, caller) = (back.clone(), caller.cloned());
    let logged = LoggedReply { down, wire, back, what, caller, since, has_ended };
    ReplyTo::new(Rc::new(logged), Ticket(0))
}

impl LoggedReply {
    fn end(&self, how: &str) {
        self.has_ended.set(true);
        let LoggedReply { wire, what, caller, .. } = self;
        let by = caller.as_ref().map(|caller| format!(" by {caller}")).unwrap_or_default();
        let time = self.since.elapsed();
        tracing::info!(peer = &*self.back, "{what} over {}{by}: {how} in {time:.1?}", wire.name());
    }
}

impl Asker for LoggedReply {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(ended) = &down {
            match ended {
                Ok(_) => self.end("ok"),
                Err(failure) => self.end(failure.kind.as_str()),
            }
        }
        shown(&self.back, &down);
        self.down.send(down)
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Drop for LoggedReply {
    /// The caller went away before there was an answer.
    fn drop(&mut self) {
        if !self.has_ended.get() {
            self.end("cancelled");
        }
    }
}

/// What came back, for those who want to see all of it.
fn shown(peer: &str, down: &Down) {
    use toolbus_proto::tool::{Outcome, Part};
    if !tracing::enabled!(Level::DEBUG) {
        return;
    }
    let shown = match down {
        Down::Begin { .. } => return,
        Down::Part(Part::Json(json)) => format!("part {}", beginning(json.as_str())),
        Down::Part(Part::Text(text)) => format!("part {}", beginning(text)),
        Down::Part(Part::Bytes(piece)) => format!("part of {} bytes", piece.data.len()),
        Down::Progress(json) => format!("progress {}", beginning(json.as_str())),
        Down::Log(json) => format!("log {}", beginning(json.as_str())),
        Down::Ask(_, json) => format!("question {}", beginning(json.as_str())),
        Down::Done(Ok(Outcome::Value(json) | Outcome::End(Some(json)))) => {
            format!("answer {}", beginning(json.as_str()))
        }
        Down::Done(Ok(Outcome::Text(text))) => format!("answer {}", beginning(text)),
        Down::Done(Ok(_)) => "answer".to_owned(),
        Down::Done(Err(failure)) => format!("failure {failure}"),
    };
    tracing::debug!(peer, "-> {shown}");
}

fn beginning(text: &str) -> String {
    const SHOWN_MAX: usize = 200;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
