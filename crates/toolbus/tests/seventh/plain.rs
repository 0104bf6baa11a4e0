//! The testkit's plain wire as a seventh one: its room is `toolbus_testkit::plain`, this file is
//! its folder, and `Registry::with(&PLAIN)` its line. Nothing else knows it.

use bytes::Bytes;
use toolbus::address::{Address, Scheme};
use toolbus::bus::Bus;
use toolbus::bus::config::{Key, Values};
use toolbus::peer::decode::{DecodedLines, Decoding};
use toolbus::peer::program;
use toolbus::peer::settings::Settings;
use toolbus::peer::{FrontKind, Opened, PeerKind, ServedOnce};
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
        const LINE_MAX: Key = Key::size("line_max", "plain backs", "The longest line of the peer");
        &[LINE_MAX]
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        let own = PlainSettings { line_bytes_max: values.number("line_max") };
        settings.with(own)
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let limits = settings.wire.get::<PlainSettings>().limits();
        program::open(self, address, settings, move || Client::new(limits))
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
}

impl FrontKind for Plain {
    fn callers(&self) -> &'static str {
        "plain callers"
    }

    fn serve_stdio(&self, bus: Bus, _words: &[String], _say: fn(&str)) -> ServedOnce {
        Box::pin(program::serve_stdio(bus, Server::new(Limits::default())))
    }
}
