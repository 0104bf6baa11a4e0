//! A body that the peer sends, taken chunk by chunk.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use thiserror::Error;

use super::carried::FarBody;
use super::client::Lease;
use super::socket::ServerSocket;
use crate::task::{boxed, spawn_local};

/// What the peer sends. As long as the next chunk is not taken, the peer is held back.
///
/// Dropped before its end: a server reads on for a while, so that its answer arrives; a
/// client closes the exchange.
pub struct Body {
    /// `None` when it has ended, well or not.
    incoming: Option<Incoming>,
    owner: Owner,
    /// Where it comes from instead, if another thread reads it.
    far: Option<Rc<FarBody>>,
}

/// Who has to know when the body is over.
pub(super) enum Owner {
    /// HTTP/2: the others on the connection are not concerned.
    None,
    /// A server's connection, which throws the rest away.
    Server(Rc<ServerSocket>),
    /// One stream of a server's HTTP/2 connection, whose rest is thrown away: so much of it, for so
    /// long. Reset at once, some clients would take the answer for lost.
    Stream { bytes_max: usize, patience: Duration },
    /// A client's connection, which can be used again after a good end.
    Lease(Lease),
}

impl Body {
    pub(super) fn new(incoming: Incoming, owner: Owner) -> Body {
        let is_empty = incoming.is_end_stream();
        let mut body = Body { incoming: Some(incoming), owner, far: None };
        if is_empty {
            body.end_well();
        }
        body
    }

    /// One that another thread reads.
    pub(super) fn far(far: Rc<FarBody>) -> Body {
        Body { incoming: None, owner: Owner::None, far: Some(far) }
    }

    /// Has all of it been taken, as far as is known?
    pub(super) fn has_ended(&mut self) -> bool {
        if self.incoming.as_ref().is_some_and(Incoming::is_end_stream) {
            self.end_well();
        }
        self.incoming.is_none() && self.far.is_none()
    }

    /// Waits for the next chunk; `None` is a good end. Dropped meanwhile, it has taken nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Body::next`], for a caller that polls.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        if let Some(far) = &self.far {
            return far.poll_next(context);
        }
        loop {
            let Some(incoming) = &mut self.incoming else { return Poll::Ready(Ok(None)) };
            match ready!(Pin::new(incoming).poll_frame(context)) {
                None => {
                    self.end_well();
                    return Poll::Ready(Ok(None));
                }
                Some(Err(error)) => {
                    self.incoming = None;
                    self.owner = Owner::None;
                    return Poll::Ready(Err(BodyError::Cut { source: Box::new(error) }));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Poll::Ready(Ok(Some(data))),
                    // Trailers say nothing to any wire of ours.
                    Err(_) => {}
                },
            }
        }
    }

    /// Waits for all of it: at most `bytes_max`, and never longer than `silence` for the next
    /// chunk.
    pub async fn collect(
        &mut self,
        bytes_max: usize,
        silence: Duration,
    ) -> Result<Bytes, BodyError> {
        let mut first = None;
        let mut all = BytesMut::new();
        loop {
            let next = tokio::time::timeout(silence, self.next()).await;
            let Ok(next) = next else { return Err(BodyError::Silent { silence }) };
            let Some(chunk) = next? else { break };
            if bytes_max < all.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len() {
                return Err(BodyError::TooLarge { bytes_max });
            }
            // A body of one chunk is given as it came.
            match (&mut first, all.is_empty()) {
                (None, true) => first = Some(chunk),
                (first, _) => {
                    all.extend_from_slice(&first.take().unwrap_or_default());
                    all.extend_from_slice(&chunk);
                }
            }
        }
        Ok(first.unwrap_or_else(|| all.freeze()))
    }

    /// Reads to its end, but not for ever.
    async fn thrown_away(mut self, bytes_max: usize, patience: Duration) {
        let mut bytes_left = bytes_max;
        let all = async {
            while let Ok(Some(chunk)) = self.next().await {
                match bytes_left.checked_sub(chunk.len()) {
                    Some(less) => bytes_left = less,
                    None => break,
                }
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }

    fn end_well(&mut self) {
        self.incoming = None;
        if let Owner::Lease(lease) = std::mem::replace(&mut self.owner, Owner::None) {
            lease.give_back();
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(far) = &self.far {
            far.leave();
        }
        let Some(incoming) = self.incoming.take() else { return };
        match self.owner {
            Owner::Server(ref socket) => socket.throw_away(incoming),
            Owner::Stream { bytes_max, patience } => {
                let rest = Body { incoming: Some(incoming), owner: Owner::None, far: None };
                drop(spawn_local(boxed(rest.thrown_away(bytes_max, patience))));
            }
            Owner::None | Owner::Lease(_) => {}
        }
    }
}

/// Why a body did not come to a good end.
#[derive(Debug, Error)]
pub enum BodyError {
    /// It broke off.
    #[error("the body was cut short")]
    Cut {
        /// How it broke off.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// There is more than is taken.
    #[error("the body has more than {bytes_max} bytes")]
    TooLarge {
        /// What is taken at most.
        bytes_max: usize,
    },
    /// Nothing came.
    #[error("the body paused for {silence:?}")]
    Silent {
        /// How long was waited.
        silence: Duration,
    },
}
