//! Which conversation with a server a call goes to: there is one for each era that it speaks.
//!
//! A server that knows both eras may keep a process to the one it was first spoken to in, so each
//! era has a conversation of its own. One that speaks only one era needs no second: the first
//! caller has found that out, and the callers of the other era join it.

use std::cell::Cell;

use toolbus_proto::mcp::Memory;
use toolbus_proto::mcp::calling::Tokens;
use toolbus_proto::mcp::wire::Era;

use crate::chance;

/// The conversations that were begun, by the era of whom they were begun for.
pub(super) struct Eras {
    memory: Memory,
    legacy: Cell<bool>,
    modern: Cell<bool>,
}

impl Eras {
    /// Of a server of which this is known.
    pub(super) fn new(memory: Memory) -> Eras {
        Eras { memory, legacy: Cell::default(), modern: Cell::default() }
    }

    /// Which conversation a call of `era` would go to now.
    pub(super) fn would_be(&self, era: Era) -> Era {
        let (own, others, other) = match era {
            Era::Legacy => (&self.legacy, &self.modern, Era::Modern),
            Era::Modern => (&self.modern, &self.legacy, Era::Legacy),
        };
        let has_one = [Era::Legacy, Era::Modern].map(|era| self.memory.speaks(era));
        match !own.get() && others.get() && has_one.contains(&Some(false)) {
            true => other,
            false => era,
        }
    }

    /// Which conversation a call of `era` goes to. Once it has gone somewhere it always does: its
    /// session is there, and what it may call again.
    pub(super) fn conversation(&self, era: Era) -> Era {
        let goes_to = self.would_be(era);
        if goes_to == era {
            match era {
                Era::Legacy => self.legacy.set(true),
                Era::Modern => self.modern.set(true),
            }
        }
        goes_to
    }

    /// Must the server be asked whether it is modern, while legacy callers use it already?
    pub(super) fn must_ask(&self) -> bool {
        let is_unknown = self.memory.speaks(Era::Modern).is_none();
        self.legacy.get() && !self.modern.get() && is_unknown
    }
}

/// What modern clients find calls again by.
pub(super) fn tokens() -> Tokens {
    Tokens::new(unguessable)
}

/// A text that cannot be guessed: 32 hex digits.
pub(super) fn unguessable() -> String {
    format!("{:032x}", u128::from_be_bytes(chance::bytes()))
}
