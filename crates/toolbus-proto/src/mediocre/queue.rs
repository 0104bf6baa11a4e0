//! What was read of one direction and not yet taken by its owner; reading waits while it is
//! full.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::channel::{Asked, Down, Ticket, Up};
use crate::outstanding::Downs;
use crate::tool::{Call, Part, Piece, What};

const ITEMS_MAX: usize = 16;
const BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Queue<T> {
    items: VecDeque<(Ticket, T)>,
    bytes: usize,
}

/// What can wait in a queue.
pub(super) trait Item {
    fn weight(&self) -> usize;
    fn of_part(part: Part) -> Self;
    fn part(&mut self) -> Option<&mut Part>;
    /// Must it be taken before anything behind it is read?
    fn comes_first(&self) -> bool {
        false
    }
}

// Derived, this would want `T` to be so.
impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { items: VecDeque::new(), bytes: 0 }
    }
}

impl<T: Item> Queue<T> {
    #[inline]
    pub(super) fn push(&mut self, ticket: Ticket, item: T) {
        self.bytes += item.weight();
        self.items.push_back((ticket, item));
    }

    /// The blob whose pieces were pushed is complete. If its last piece still waits, that
    /// says so; else an empty one does.
    pub(super) fn end_blob(&mut self, ticket: Ticket) {
        if let Some((of, item)) = self.items.back_mut()
            && *of == ticket
            && let Some(Part::Bytes(piece)) = item.part()
            && !piece.last
        {
            piece.last = true;
            return;
        }
        self.push(ticket, T::of_part(piece(Bytes::new(), true)));
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Ticket, T)> {
        let (ticket, item) = self.items.pop_front()?;
        self.bytes -= item.weight();
        Some((ticket, item))
    }

    pub(super) fn is_full(&self) -> bool {
        ITEMS_MAX <= self.items.len() || BYTES_MAX <= self.bytes
    }

    /// May more be read behind what waits here?
    pub(super) fn takes_more(&self) -> bool {
        !self.is_full() && !self.items.back().is_some_and(|(_, item)| item.comes_first())
    }

    /// Drops all that waits: its call is over.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
    }
}

/// A piece of a blob. What is passed on never says how long it will be: a peer's length is
/// no promise of ours.
pub(super) fn piece(data: Bytes, last: bool) -> Part {
    Part::Bytes(Piece { data, media_type: None, len: None, last })
}

/// What waits to be asked. A call is much larger than what follows it, which is moved often.
#[derive(Debug)]
pub(super) enum Asking {
    Call(Box<Call>),
    Up(Up),
}

impl From<Asking> for Asked {
    fn from(asking: Asking) -> Asked {
        match asking {
            Asking::Call(call) => Asked::Call(*call),
            Asking::Up(up) => Asked::Up(up),
        }
    }
}

impl Item for Asking {
    fn weight(&self) -> usize {
        match self {
            Asking::Call(call) => match &call.what {
                What::Tool { args: Some(args), .. } => args.as_bytes().len(),
                _ => 0,
            },
            Asking::Up(up) => up.weight(),
        }
    }

    /// A call may be answered before its stream is read, whatever is wrong with that.
    fn comes_first(&self) -> bool {
        matches!(self, Asking::Call(_))
    }

    fn of_part(part: Part) -> Asking {
        Asking::Up(Up::Part(part))
    }

    fn part(&mut self) -> Option<&mut Part> {
        match self {
            Asking::Up(Up::Part(part)) => Some(part),
            _ => None,
        }
    }
}

impl Downs for Queue<Down> {
    #[inline]
    fn put(&mut self, ticket: Ticket, down: Down) {
        self.push(ticket, down);
    }
}

impl Item for Down {
    fn weight(&self) -> usize {
        Down::weight(self)
    }

    fn of_part(part: Part) -> Down {
        Down::Part(part)
    }

    fn part(&mut self) -> Option<&mut Part> {
        match self {
            Down::Part(part) => Some(part),
            _ => None,
        }
    }
}
