//! The caller over HTTP: one call, in one exchange, with a status before its response.

use std::time::Instant;

use super::{Asking, CallingState, Client, Input};
use crate::did_you_mean::hinted;
use crate::http::CREDENTIALS;
use crate::mediocre::decode::Reading;
use crate::mediocre::event::PeerError;
use crate::mediocre::frames::Random;
use crate::mediocre::http::AskingHead;
use crate::mediocre::methods::{Methods, Request};
use crate::mediocre::translate;
use crate::tool::{Failure, FailureKind};

/// What carries a caller's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carriage {
    /// A connection: one call after another.
    Connection,
    /// One exchange, with the status of its answer once that is known.
    Exchange { status: Option<u16> },
}

impl<C: Random> Client<C> {
    /// An exchange for one call. That is given by `call`, and begun by [`Client::begin`].
    pub fn over_http(now: Instant, reading: Reading, methods: Methods, chance: C) -> Client<C> {
        let carriage = Carriage::Exchange { status: None };
        Client { carriage, ..Client::new(now, reading, methods, chance) }
    }

    /// The head to ask with; `None` if no server has to be asked.
    pub fn begin(&mut self) -> Option<AskingHead> {
        self.start_next();
        let head = self.head.take().map(|head| *head);
        self.was_begun |= head.is_some();
        head
    }

    /// The call has just been written, all of it or its beginning.
    pub(super) fn head_exchange(&mut self, request: &Request) {
        let (Carriage::Exchange { .. }, CallingState::Asking(Asking { deadline, input, .. })) =
            (self.carriage, &self.stage)
        else {
            return;
        };
        let left = |total| (deadline.asked + total).saturating_duration_since(self.now);
        self.head = Some(Box::new(AskingHead {
            is_stream: request.stream.is_some(),
            len: matches!(input, Input::Whole).then(|| self.out.len()),
            deadline: deadline.total.map(left),
            trace: request.debug.as_ref().and_then(translate::trace),
        }));
    }

    /// The head of the answer is there.
    pub fn handle_status(&mut self, status: u16) {
        if let Carriage::Exchange { status: known } = &mut self.carriage {
            *known = Some(status);
        }
    }

    /// The status of the answer, once that is known.
    pub(super) fn status(&self) -> Option<u16> {
        match self.carriage {
            Carriage::Exchange { status } => status,
            Carriage::Connection => None,
        }
    }

    /// Is the call over, or was it, before a stream was opened for it?
    pub(super) fn never_asked(&self) -> bool {
        self.desk.queue.is_empty() && !self.was_begun
    }

    /// Is all of the call said, or about to be written?
    pub fn is_said(&self) -> bool {
        match &self.stage {
            CallingState::Asking(asking) => matches!(asking.input, Input::Whole),
            CallingState::Free => false,
            CallingState::Cutting { .. } => true,
        }
    }

    /// Has the call come to its end, whatever is left to be read?
    pub fn is_answered(&self) -> bool {
        !matches!(self.stage, CallingState::Asking(_)) && self.desk.queue.is_empty()
    }

    /// What it means that the answer is no success, unless its body is an error that counts.
    pub(super) fn refused(&self, error: Option<&PeerError>) -> Option<Failure> {
        let Carriage::Exchange { status: Some(status) } = self.carriage else { return None };
        let is_real = |error: &PeerError| !error.msg.is_empty() || error.meta.is_some();
        if (200..300).contains(&status) || error.is_some_and(is_real) {
            return None;
        }
        let message = format!("the server answered with HTTP status {status}");
        Some(self.told_of_credentials(Failure::new(FailureKind::BrokeProtocol, message)))
    }

    /// A failure with what the user can do where the server lets only some in.
    pub(super) fn told_of_credentials(&self, failure: Failure) -> Failure {
        let asks = matches!(self.status(), Some(401 | 403)) && failure.last_words.is_none();
        hinted(failure, asks.then(|| CREDENTIALS.to_owned()))
    }
}
