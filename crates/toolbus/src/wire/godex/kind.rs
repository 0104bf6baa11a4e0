//! What this wire says about itself, for the registry.

use std::rc::Rc;

use bytes::BytesMut;
use toolbus_proto::capture::Side;
use toolbus_proto::godex::decode::Decoder;
use toolbus_proto::tool::{ToolSpec, Wire};

use super::WIRE;
use super::back::{Godex, Options};
use crate::address::{Address, Place, Scheme};
use crate::bus::TIMEOUT;
use crate::child::{EnvPolicy, Patience};
use crate::peer::FirstWords;
use crate::peer::decode::{Decoded, Decoding};
use crate::peer::open::{file_name, patience, program, unfit};
use crate::peer::pins::Pins;
use crate::peer::settings::Settings;
use crate::peer::{Opened, PeerKind};

/// The godex wire, for the registry.
pub static GODEX: GodexKind = GodexKind;

/// What is to be known of the godex wire.
pub struct GodexKind;

impl PeerKind for GodexKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "a `godex exec` program"
    }

    fn schemes(&self) -> &'static [Scheme] {
        const { &[Scheme::command("godex+stdio:")] }
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("godex+stdio:COMMAND", "a program that asks a model, started for each call")]
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        None
    }

    fn keeps_running(&self, _address: &Address) -> bool {
        false
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let Place::Command(words) = address.place() else {
            return Err(unfit(address, "a command"));
        };
        Ok(Rc::new(Godex::new(Options {
            name: settings.name.clone().unwrap_or_else(|| file_name(words)),
            program: program(words, settings, EnvPolicy::Inherit),
            stop: patience(Patience::USUAL, settings).stop,
            timeout: settings.timeout.unwrap_or(TIMEOUT),
        })))
    }

    /// By its name, or by what it says when it is started without arguments.
    fn recognises(&self, heard: &FirstWords<'_>) -> bool {
        let asks = |line: &str| line.contains("--prompt is required");
        heard.name() == "godex"
            || heard.exit.is_some() && heard.errors.iter().any(|line| asks(line))
    }

    /// Its one tool is known before anything is started, so a call shows what the program is.
    fn may_have_more(&self, _listed: &[ToolSpec]) -> bool {
        true
    }

    /// Its front is the tool loop, to which no peer connects.
    fn is_wire(&self) -> bool {
        true
    }

    /// What a caller says are the arguments of a process, which cannot be captured.
    fn decode(&self, side: Side) -> Option<Box<dyn Decoding>> {
        match side {
            Side::Call => None,
            Side::Response => Some(Box::new(Captured::new(false))),
        }
    }
}

/// A captured stream of a server, being read.
pub struct Captured(Decoder);

impl Captured {
    /// Tells the events that the document knows, or all.
    pub fn new(all_events: bool) -> Captured {
        Captured(Decoder::new(all_events))
    }
}

impl Decoding for Captured {
    fn take(&mut self, input: &mut BytesMut, is_end: bool, lines: &mut String) -> Decoded {
        match is_end {
            true => self.0.handle_eof(input),
            false => self.0.handle_bytes(input),
        }
        lines.push_str(&String::from_utf8_lossy(self.0.lines()));
        self.0.lines().clear();
        self.0.exit().map_or(Decoded::More, Decoded::Ended)
    }
}
