//! A message to the server, and what the transport must know of it.

use bytes::Bytes;

use crate::channel::Outbox;
use crate::mcp::wire;

/// One message that is to go to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// An answer will follow.
    Request {
        /// By which the answer is known.
        id: RequestId,
        /// What is asked.
        method: Bytes,
        /// Raw.
        params: Option<Bytes>,
    },
    /// No answer follows.
    Notification {
        /// What is told.
        method: Bytes,
        /// Raw.
        params: Option<Bytes>,
        /// The request that is given up by it.
        cancels: Option<u64>,
    },
    /// The answer to a question of the server, whole.
    Answer(Bytes),
}

/// What a request of ours is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestId {
    /// A request of the client.
    Number(u64),
    /// A list of tools that only HTTP needs: `"list"`, which is no number.
    List,
}

impl Outgoing {
    pub(in crate::mcp) fn notification(method: &'static str, params: Option<Bytes>) -> Outgoing {
        let method = Bytes::from_static(method.as_bytes());
        Outgoing::Notification { method, params, cancels: None }
    }

    /// What is asked or told; an answer has none.
    pub fn method(&self) -> &str {
        match self {
            Outgoing::Request { method, .. } | Outgoing::Notification { method, .. } => {
                str::from_utf8(method).unwrap_or_default()
            }
            Outgoing::Answer(_) => "",
        }
    }

    /// The parameters, raw.
    pub fn params(&self) -> Option<&str> {
        match self {
            Outgoing::Request { params, .. } | Outgoing::Notification { params, .. } => {
                str::from_utf8(params.as_ref()?).ok()
            }
            Outgoing::Answer(_) => None,
        }
    }

    /// What it weighs.
    pub(in crate::mcp) fn weight(&self) -> usize {
        match self {
            Outgoing::Request { params, .. } | Outgoing::Notification { params, .. } => {
                params.as_ref().map_or(0, Bytes::len)
            }
            Outgoing::Answer(text) => text.len(),
        }
    }

    /// Writes the message, without a newline.
    pub fn write(&self, out: &mut Outbox) {
        match self {
            Outgoing::Request { id, params, .. } => {
                let params = params.as_ref();
                match id {
                    RequestId::Number(id) => {
                        wire::put_request(out, Some(*id), self.method(), params);
                    }
                    RequestId::List => {
                        out.put(br#"{"jsonrpc":"2.0","id":"list""#);
                        wire::put_call(out, self.method(), params);
                    }
                }
            }
            Outgoing::Notification { params, .. } => {
                wire::put_request(out, None, self.method(), params.as_ref());
            }
            Outgoing::Answer(text) => out.put_shared(text),
        }
    }
}
