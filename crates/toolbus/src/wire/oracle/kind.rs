//! What this wire says about itself, for the registry.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::capture::Side;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::oracle::{Functions, signature};
use toolbus_proto::tool::Wire;
use toolbus_proto::view::Rule;

use super::back::{Options, Oracle};
use super::settings::OracleSettings;
use super::{SHELL, WIRE, front, settings};
use crate::address::{Address, AddressError, Place, Purpose, Scheme};
use crate::bus::Bus;
use crate::bus::config::{Key, Values};
use crate::child::supervisor::Restart;
use crate::child::{EnvPolicy, Patience};
use crate::peer::FirstWords;
use crate::peer::decode::{DecodedLines, Decoding};
use crate::peer::open::{file_name, patience, program, unfit};
use crate::peer::pins::Pins;
use crate::peer::settings::Settings;
use crate::peer::{FrontKind, OpenError, Opened, PeerKind, Registry, ServedOnce};
use crate::transport::stdio;

/// What an oracle gets: it may have to be compiled first.
pub const PATIENCE: Patience = Patience {
    start: Duration::from_secs(120),
    waits_for: Some("the `ready` that an oracle begins with"),
    ..Patience::USUAL
};

/// Reads the connection string of an oracle, as a Cairo program gives it: only its own schemes,
/// and the shell's (`docs/protocols/oracle.md` C1).
pub fn connection(text: &str) -> Result<Address, AddressError> {
    Registry::of(&[&ORACLE, &SHELL]).address(Purpose::Call, text)
}

/// The oracle wire, for the registry.
pub static ORACLE: OracleKind = OracleKind;

/// What is to be known of the oracle wire.
pub struct OracleKind;

impl PeerKind for OracleKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "an oracle"
    }

    fn native_seen(&self, text: &Bytes, rule: &Rule) -> Option<Bytes> {
        // A signature has no texts.
        if rule.fixed.is_empty() {
            return Some(text.clone());
        }
        let functions = signature::parse(str::from_utf8(text).ok()?).ok()?;
        let [function] = functions.as_slice() else { return None };
        Some(function.without(|param| rule.fixed.has(param)).canonical().into())
    }

    fn schemes(&self) -> &'static [Scheme] {
        const { &[Scheme::command("stdio:"), Scheme::command("oracle+stdio:")] }
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("stdio:COMMAND", "an oracle: COMMAND is started and spoken to over its pipes")]
    }

    fn keeps_state(&self, _settings: &Settings) -> bool {
        true
    }

    fn back_keys(&self) -> &'static [Key] {
        settings::BACK_KEYS
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        settings.with(OracleSettings::read(values))
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        Some(&super::pins::PINS)
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let Place::Command(words) = address.place() else {
            return Err(unfit(address, "a command"));
        };
        let own: OracleSettings = settings.wire.get();
        let mut functions = Vec::new();
        for text in &own.functions {
            functions.extend(signature::parse(text).map_err(|error| {
                OpenError::unusable(address, format!("`{text}` is no signature")).caused_by(error)
            })?);
        }
        Ok(Rc::new(Oracle::new(Options {
            name: settings.name.clone().unwrap_or_else(|| file_name(words)),
            program: program(words, settings, EnvPolicy::Inherit),
            patience: patience(PATIENCE, settings),
            restart: settings.restart.unwrap_or(Restart::OnDemand),
            settings: own.wire(),
            functions: Functions::from_config(functions),
        })))
    }

    fn generic_tools(&self) -> &'static [&'static str] {
        &["invoke"]
    }

    fn reached_by(&self, _generic: &str, args: &Json) -> Option<String> {
        edit::only_text(args.as_str(), "selector")
    }

    /// It begins, and with this.
    fn recognises(&self, heard: &FirstWords<'_>) -> bool {
        heard.lines().any(|line| line["method"] == "ready")
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&ORACLE)
    }

    fn decode(&self, side: Side) -> Option<Box<dyn Decoding>> {
        let line_bytes_max = toolbus_proto::oracle::Settings::default().line_bytes_max;
        let event = move |line: &Bytes| toolbus_proto::oracle::decode::event(side, line);
        Some(Box::new(DecodedLines::new(line_bytes_max, event)))
    }
}

impl FrontKind for OracleKind {
    fn callers(&self) -> &'static str {
        "executors"
    }

    fn serve_stdio(&self, bus: Bus, _words: &[String], _say: fn(&str)) -> ServedOnce {
        Box::pin(async move {
            bus.open().await.map_err(io::Error::other)?;
            let (input, output) = (stdio::stdin()?, stdio::stdout()?);
            Ok(front::serve(Rc::new(bus), front::Options::default(), input, output).await)
        })
    }
}
