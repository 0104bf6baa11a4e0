//! The testkit's plain wire as a seventh one: its room is `toolbus_testkit::plain`, this file is
//! its folder, and `Registry::with(&PLAIN)` its line. Nothing else knows it.

use std::rc::Rc;

use bytes::Bytes;
use toolbus::address::{Address, Scheme};
use toolbus::bus::Bus;
use toolbus::bus::back::Back;
use toolbus::bus::config::{Key, KeyKind, Values};
use toolbus::peer::decode::{DecodedLines, Decoding};
use toolbus::peer::fixture::{Fixture, Probe};
use toolbus::peer::program::{ProgramBack, serve_stdio};
use toolbus::peer::settings::{Settings, WireSettings};
use toolbus::peer::{FrontKind, OpenError, PeerKind, ServedOnce};
use toolbus_proto::capture::{Event, Side};
use toolbus_proto::json::Json;
use toolbus_proto::tool::Wire;
use toolbus_testkit::plain::{Client, Limits, Server, WIRE};

/// The plain wire, for the registry.
pub(crate) static PLAIN: Plain = Plain;

pub(crate) struct Plain;

/// What can be set about a back of this wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlainSettings {
    pub(crate) line_bytes_max: Option<usize>,
}

impl PlainSettings {
    fn limits(&self) -> Limits {
        let usual = Limits::default();
        let line_bytes_max = self.line_bytes_max.unwrap_or(usual.line_bytes_max);
        Limits { line_bytes_max, ..usual }
    }
}

impl PeerKind for Plain {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "a peer for tests"
    }

    fn schemes(&self) -> &'static [Scheme] {
        const { &[Scheme::command("plain+stdio:")] }
    }

    fn back_keys(&self) -> &'static [Key] {
        const LINE_MAX: Key =
            Key::new("line_max", KeyKind::Size, "plain backs", "The longest line of the peer");
        &[LINE_MAX]
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        let own = PlainSettings { line_bytes_max: values.number("line_max") };
        Settings { wire: WireSettings::of(own), ..settings }
    }

    fn open(&self, address: &Address, settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
        let limits = settings.wire.get::<PlainSettings>().limits();
        let back = ProgramBack::open(self, address, settings, move || Client::new(limits))?;
        Ok(Rc::new(back))
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&PLAIN)
    }

    fn decode(&self, _side: Side) -> Option<Box<dyn Decoding>> {
        let event = |line: &Bytes| {
            let said = Json::parse(line.clone()).ok()?;
            Some(Event::new("line").json("said", &said).end())
        };
        Some(Box::new(DecodedLines::new(Limits::default().line_bytes_max, event)))
    }

    fn fixture(&self) -> Option<&'static Fixture> {
        const FIXTURE: Fixture = Fixture {
            words: &["plain"],
            scheme: "plain+stdio:",
            runs_side_by_side: true,
            hello: Probe::UPPER,
            limits: &[],
        };
        Some(&FIXTURE)
    }
}

impl FrontKind for Plain {
    fn callers(&self) -> &'static str {
        "plain callers"
    }

    fn serve_stdio(&self, bus: Bus) -> ServedOnce {
        Box::pin(serve_stdio(bus, Server::new(Limits::default())))
    }
}
