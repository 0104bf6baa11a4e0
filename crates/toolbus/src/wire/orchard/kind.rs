//! What this wire says about itself, for the registry.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::capture::Side;
use toolbus_proto::orchard::{ServerSettings, translate};
use toolbus_proto::tool::Wire;
use toolbus_proto::view::Rule;

use super::back::{Options, Orchard};
use super::settings::OrchardSettings;
use super::{WIRE, front, settings};
use crate::address::{Address, Place, Scheme};
use crate::bus::Bus;
use crate::bus::config::{Key, Values};
use crate::child::supervisor::Restart;
use crate::child::{Abrupt, EnvPolicy, Patience};
use crate::peer::FirstWords;
use crate::peer::decode::{DecodedLines, Decoding};
use crate::peer::open::{patience, program, unfit};
use crate::peer::pins::Pins;
use crate::peer::settings::Settings;
use crate::peer::{FrontKind, Opened, PeerKind, ServedOnce};
use crate::transport::stdio;

/// What a provider gets (`docs/protocols/orchard.md` H7).
pub const PATIENCE: Patience = Patience {
    start: Duration::from_secs(5),
    waits_for: Some("the answer of an Orchard provider to `describe`"),
    last_words: Duration::from_secs(2),
    abrupt: Abrupt::Kill,
    ..Patience::USUAL
};

/// The Orchard wire, for the registry.
pub static ORCHARD: OrchardKind = OrchardKind;

/// What is to be known of the Orchard wire.
pub struct OrchardKind;

impl PeerKind for OrchardKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "an Orchard provider"
    }

    fn native_seen(&self, text: &Bytes, rule: &Rule) -> Option<Bytes> {
        translate::action_seen(str::from_utf8(text).ok()?, rule).map(Bytes::from)
    }

    fn schemes(&self) -> &'static [Scheme] {
        const { &[Scheme::command("orchard+stdio:")] }
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("orchard+stdio:COMMAND", "an Orchard provider, likewise")]
    }

    fn keeps_state(&self, _settings: &Settings) -> bool {
        true
    }

    fn back_keys(&self) -> &'static [Key] {
        settings::BACK_KEYS
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        settings.with(OrchardSettings::read(values))
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        Some(&super::pins::PINS)
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let Place::Command(words) = address.place() else {
            return Err(unfit(address, "a command"));
        };
        let own: OrchardSettings = settings.wire.get();
        let name = settings.name.clone().unwrap_or_else(|| address.peer_name());
        let patience = patience(PATIENCE, settings);
        Ok(Rc::new(Orchard::new(Options {
            program: program(words, settings, EnvPolicy::Inherit),
            patience,
            restart: settings.restart.unwrap_or(Restart::OnDemand),
            settings: own.wire(&name, patience.start),
        })))
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&ORCHARD)
    }

    fn decode(&self, side: Side) -> Option<Box<dyn Decoding>> {
        let line_bytes_max = ServerSettings::default().line_bytes_max;
        let event = move |line: &Bytes| toolbus_proto::orchard::decode::event(side, line);
        Some(Box::new(DecodedLines::new(line_bytes_max, event)))
    }

    /// Its errors have words for codes.
    fn recognises(&self, heard: &FirstWords<'_>) -> bool {
        heard.lines().any(|line| {
            line.get("jsonrpc").is_none()
                && line.get("id").is_some_and(|id| id.is_i64() || id.is_null())
                && line["error"]["code"].is_string()
        })
    }
}

impl FrontKind for OrchardKind {
    fn name_tools(&self, bus: Bus) -> Bus {
        bus.named_without_dots()
    }

    fn callers(&self) -> &'static str {
        "Orchard hosts"
    }

    fn serve_stdio(&self, bus: Bus, _words: &[String], _say: fn(&str)) -> ServedOnce {
        Box::pin(async move {
            bus.open().await.map_err(io::Error::other)?;
            let provider = front::provider(&bus).map_err(io::Error::other)?;
            let (input, output) = (stdio::stdin()?, stdio::stdout()?);
            let options = front::Options::default();
            Ok(front::serve(Rc::new(bus), provider, options, input, output).await)
        })
    }
}
