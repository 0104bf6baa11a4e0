//! One call that a node has under way: of a plain client, or of another toolbus.

use std::time::Instant;

use bytes::Bytes;

use crate::collect::Collector;
use crate::json::Json;
use crate::nats::flow::{Item, Receiver, Sender};
use crate::tool::ToolName;

/// A call under way.
#[derive(Debug)]
pub(super) struct CallIn {
    /// Where its answer goes.
    pub(super) reply: String,
    /// The reply subject without its last token: who asks.
    pub(super) peer: String,
    pub(super) tool: ToolName,
    pub(super) begun: Instant,
    pub(super) how: How,
}

#[derive(Debug)]
pub(super) enum How {
    /// Answered by one message.
    Plain(Box<Collector>),
    /// By as many as there are.
    Toolbus(Box<CallTalk>),
}

/// The two directions of a call between two toolbuses.
#[derive(Debug)]
pub(super) struct CallTalk {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// What was asked, until its arguments are whole.
    pub(super) asked: Option<crate::nats::headers::Headers>,
    /// The back has the call.
    pub(super) has_started: bool,
    /// `begun` has not been said.
    pub(super) owes_begun: bool,
    pub(super) wants: Wants,
    /// What the caller answers, and the questions that it has not answered yet.
    pub(super) asks: Option<Json>,
    pub(super) asked_now: std::collections::BTreeSet<u64>,
    /// A run of bytes is on the way to the caller, or from it.
    pub(super) run_down: bool,
    pub(super) run_up: bool,
    /// The reply said that it comes in parts.
    pub(super) has_parts: bool,
    /// The back takes no more for now.
    pub(super) is_held: bool,
    /// What waits for it, and what of that is to be given back.
    pub(super) held: std::collections::VecDeque<(crate::channel::Up, u64)>,
    /// The back was told that the caller takes no more for now.
    pub(super) told_full: bool,
    /// The back has said all; what is left waits for credit.
    pub(super) is_done: bool,
    /// The caller has given it up, and may give no credit any more.
    pub(super) is_cut: bool,
    /// What of it is counted among what the node keeps.
    pub(super) counted: usize,
}

/// What a caller wants to hear besides the answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Wants {
    pub(super) progress: bool,
    pub(super) log: bool,
    pub(super) native: Option<crate::tool::Wire>,
}

impl CallTalk {
    pub(super) fn new(sender: Sender, receiver: Receiver, wants: Wants) -> CallTalk {
        CallTalk {
            sender,
            receiver,
            asked: None,
            has_started: false,
            owes_begun: true,
            wants,
            asks: None,
            asked_now: std::collections::BTreeSet::new(),
            run_down: false,
            run_up: false,
            has_parts: false,
            is_held: false,
            held: std::collections::VecDeque::new(),
            told_full: false,
            is_done: false,
            is_cut: false,
            counted: 0,
        }
    }

    /// What it keeps, in bytes.
    pub(super) fn weight(&self) -> usize {
        let held: usize = self.held.iter().map(|(up, _)| up.weight()).sum();
        self.sender.bytes() + self.receiver.weight() + held
    }

    /// What was taken is given back, as soon as that is worth a message.
    pub(super) fn give_back(&mut self) {
        if let Some(bytes) = self.receiver.give_back() {
            let credit = Item::new("credit", Bytes::new());
            self.sender.push_urgent(credit.with("Toolbus-Credit", bytes.to_string()));
        }
    }
}
