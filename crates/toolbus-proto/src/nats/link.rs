//! What both ends do on a connection that is ready: cut messages out, confirm what was subscribed,
//! see whether the server is still there.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::protocol::{Message, Op, OpReader};
use super::wire::Info;
use crate::channel::Outbox;
use crate::tool::{Failure, FailureKind};

/// After so long a silence the server is asked whether it is there…
const SILENCE: Duration = Duration::from_secs(30);
/// … and has so long to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// One connection that is ready.
#[derive(Debug)]
pub(crate) struct Link {
    /// `HOST:PORT`, for people.
    at: String,
    info: Info,
    reader: OpReader,
    heard: Instant,
    /// What is confirmed by each `PONG` that is to come; nothing by those that only ask whether
    /// the server is there.
    awaited: VecDeque<Option<u64>>,
    /// Since when an answer is awaited.
    pinged: Option<Instant>,
    /// How long the last took.
    rtt: Option<Duration>,
}

/// What was heard.
#[derive(Debug)]
pub(crate) enum Arrived {
    Message(Message),
    /// The server has heard all that was said before this was asked.
    Confirmed(u64),
    /// The server says something new about itself.
    Info,
    /// We may not subscribe to this, or publish it.
    Denied {
        subject: String,
        is_subscription: bool,
    },
    /// Something that harms nothing.
    Complaint(String),
    /// The connection is over.
    Over(Failure),
}

impl Link {
    pub(crate) fn new(now: Instant, at: String, info: Info) -> Link {
        Link {
            at,
            info,
            reader: OpReader::default(),
            heard: now,
            awaited: VecDeque::new(),
            pinged: None,
            rtt: None,
        }
    }

    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// How long the server took to answer, once it has.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// What callers are told when it is lost.
    pub(crate) fn lost(&self) -> Failure {
        Failure::new(FailureKind::Gone, format!("lost the connection to NATS at {}", self.at))
    }

    /// Asks the server to say [`Arrived::Confirmed`] once it has heard all before.
    pub(crate) fn confirm(&mut self, now: Instant, out: &mut Outbox, what: u64) {
        self.ping(now, out, Some(what));
    }

    fn ping(&mut self, now: Instant, out: &mut Outbox, what: Option<u64>) {
        out.put(b"PING\r\n");
        self.awaited.push_back(what);
        self.pinged.get_or_insert(now);
    }

    /// The next that was heard.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        out: &mut Outbox,
    ) -> Option<Arrived> {
        loop {
            let op = match self.reader.next(input) {
                Ok(Some(op)) => op,
                Ok(None) => return None,
                Err(why) => {
                    let message = format!("{} broke the NATS protocol: {why}", self.at);
                    return Some(Arrived::Over(Failure::new(FailureKind::BrokeProtocol, message)));
                }
            };
            self.heard = now;
            return Some(match op {
                Op::Msg(message) => Arrived::Message(message),
                Op::Ping => {
                    out.put(b"PONG\r\n");
                    continue;
                }
                Op::Pong => {
                    let confirmed = self.awaited.pop_front().flatten();
                    self.rtt = self.pinged.map(|pinged| now.saturating_duration_since(pinged));
                    self.pinged = (!self.awaited.is_empty()).then_some(now);
                    match confirmed {
                        Some(what) => Arrived::Confirmed(what),
                        None => continue,
                    }
                }
                Op::Info(text) => match serde_json::from_slice(&text) {
                    Ok(info) => {
                        self.info = info;
                        Arrived::Info
                    }
                    Err(_) => Arrived::Complaint("an INFO that cannot be read".to_owned()),
                },
                Op::Err(why) => self.complaint(why),
                Op::Ok => continue,
                Op::Connect(_) | Op::Pub(_) | Op::Sub { .. } | Op::Unsub { .. } => {
                    Arrived::Complaint("an operation that only clients have".to_owned())
                }
            });
        }
    }

    fn complaint(&self, why: String) -> Arrived {
        let lower = why.to_ascii_lowercase();
        if lower.starts_with("permissions violation") {
            let subject = why.split('"').nth(1).unwrap_or_default().to_owned();
            return Arrived::Denied { subject, is_subscription: lower.contains("subscription") };
        }
        match lower.starts_with("invalid subject") || lower.starts_with("invalid publish subject") {
            true => Arrived::Complaint(why),
            false => Arrived::Over(self.lost()),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        Some(match self.pinged {
            Some(pinged) => pinged + ANSWER,
            None => self.heard + SILENCE,
        })
    }

    /// Asks whether the server is there; gives why not.
    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) -> Option<Failure> {
        match self.pinged {
            Some(pinged) if pinged + ANSWER <= now => Some(self.lost()),
            None if self.heard + SILENCE <= now => {
                self.ping(now, out, None);
                None
            }
            _ => None,
        }
    }
}
