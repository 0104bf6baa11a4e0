//! Which conversation with a server a call goes to: there is one for each era that it speaks.
//!
//! A server that knows both eras may keep a process to the one it was first spoken to in, so each
//! era has a conversation of its own. One that speaks only one era needs no second: whoever came
//! first has found that out, and the callers of the other era join it.

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

    /// Which conversation a call of `era` goes to. Once it has gone somewhere it always does: its
    /// session is there, and what it may call again.
    pub(super) fn conversation(&self, era: Era) -> Era {
        let (own, others, other) = match era {
            Era::Legacy => (&self.legacy, &self.modern, Era::Modern),
            Era::Modern => (&self.modern, &self.legacy, Era::Legacy),
        };
        let is_unknown = self.memory.speaks(era) == Some(false);
        if !own.get() && others.get() && is_unknown {
            return other;
        }
        own.set(true);
        era
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
