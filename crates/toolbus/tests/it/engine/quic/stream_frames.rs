//! The STREAM frames that quinn puts into packets, thread by thread, one by one.
//!
//! quinn's statistics count frames but do not say which of them has the FIN. quinn-proto
//! logs each frame as it is encoded, with stream, offset, length and FIN: that is listened to.

use std::cell::RefCell;
use std::fmt;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// A STREAM frame as it was encoded into a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamFrame {
    /// The stream, in quinn's words.
    pub(super) stream: String,
    /// Where in the stream its first byte stands.
    pub(super) offset: u64,
    /// How many bytes of the stream it carries.
    pub(super) length: u64,
    /// Whether it says that the stream ends with it.
    pub(super) fin: bool,
}

/// Listens to this thread from now on.
///
/// Has to come before quinn's first event in this process: an event that is met while the
/// listener is being put in place may be taken for one that nobody wants, for good.
pub(super) fn listen() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        tracing::subscriber::set_global_default(Listener).expect("the only subscriber");
    });
    SENT.take();
}

/// What this thread has sent since it was listened to. Frames of lost packets are there as
/// often as they were sent.
pub(super) fn sent() -> Vec<StreamFrame> {
    SENT.with_borrow(Clone::clone)
}

thread_local! {
    static SENT: RefCell<Vec<StreamFrame>> = const { RefCell::new(Vec::new()) };
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::TRACE && metadata.target().starts_with("quinn_proto")
    }

    fn event(&self, event: &Event<'_>) {
        let mut reading = Reading::default();
        event.record(&mut reading);
        if reading.message == "STREAM" {
            SENT.with_borrow_mut(|sent| sent.push(reading.frame));
        }
    }

    // Spans are of no interest, but every subscriber has to name them.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Reading {
    message: String,
    frame: StreamFrame,
}

impl Visit for Reading {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "off" => self.frame.offset = value,
            "len" => self.frame.length = value,
            _ => {}
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "fin" {
            self.frame.fin = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "id" => self.frame.stream = format!("{value:?}"),
            _ => {}
        }
    }
}
