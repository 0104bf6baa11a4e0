//! What this wire says about itself, for the registry.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::capture::Side;
use toolbus_proto::orchestra::{ClientSettings, translate};
use toolbus_proto::tool::{FailureKind, Outcome, Wire};
use toolbus_proto::view::Rule;

use super::back::{Host, Orchestra, Started, StartedOptions};
use super::decode::Capture;
use super::settings::{CallParameters, QUERY};
use super::{WIRE, tls};
use crate::address::{Address, Place, Scheme, Transport};
use crate::bus::TIMEOUT;
use crate::bus::back::causes;
use crate::bus::observe::NativeCall;
use crate::child::supervisor::Comeback;
use crate::child::{Abrupt, EnvPolicy, Patience};
use crate::peer::FirstWords;
use crate::peer::decode::Decoding;
use crate::peer::open::{file_name, patience, program, unfit};
use crate::peer::settings::Settings;
use crate::peer::{FrontKind, OpenError, Opened, PeerKind};
use crate::transport::quic::{Dialler, HANDSHAKE, Idle, Target};

/// What a plugin gets.
pub const PATIENCE: Patience = Patience {
    start: Duration::from_secs(10),
    waits_for: Some("the `READY` that an Orchestra plugin begins with"),
    // A hub tells at once that a plugin died, and yet behind its last words.
    last_words: Duration::from_millis(200),
    abrupt: Abrupt::Kill,
    ..Patience::USUAL
};

/// How a hub starts a plugin again.
pub const COMEBACK: Comeback = Comeback {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(30),
    proven: Duration::from_secs(60),
    starts_max: 5,
};

/// The Orchestra wire, for the registry.
pub static ORCHESTRA: OrchestraKind = OrchestraKind;

/// What is to be known of the Orchestra wire.
pub struct OrchestraKind;

const SCHEMES: &[Scheme] = &[
    Scheme::command("orchestra+plugin:"),
    Scheme::url("orchestra+quic://", Transport::Quic).with_query(QUERY),
];

impl PeerKind for OrchestraKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "an Orchestra hub or plugin"
    }

    fn native_seen(&self, text: &Bytes, rule: &Rule) -> Option<Bytes> {
        translate::definition_seen(text, rule)
    }

    fn schemes(&self) -> &'static [Scheme] {
        SCHEMES
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("orchestra+quic://HOST:PORT", "an Orchestra hub, or a plugin"),
            ("orchestra+plugin:COMMAND", "an Orchestra plugin, started as its hub would"),
        ]
    }

    /// It says where it listens, or asks for the flags that its hub would start it with.
    fn recognises(&self, heard: &FirstWords<'_>) -> bool {
        let is_ours =
            |line: &&str| line.starts_with("READY ") || line.contains("orchestrator-addr");
        heard.errors.iter().any(is_ours)
    }

    fn keeps_running(&self, _address: &Address) -> bool {
        false
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let timeout = settings.timeout.unwrap_or(TIMEOUT);
        let url = match address.place() {
            Place::Command(words) => {
                let name = settings.name.clone().unwrap_or_else(|| file_name(words));
                let options = StartedOptions {
                    name: name.clone(),
                    program: program(words, settings, EnvPolicy::Inherit),
                    patience: patience(PATIENCE, settings),
                };
                return Ok(Rc::new(Orchestra::program(name, Started::new(options), timeout)));
            }
            Place::Url(url) => url,
            Place::Unix(_) | Place::Inside => return Err(unfit(address, "a command or a URL")),
        };
        let unusable = |why: String| OpenError::unusable(address, why);
        let parameters = CallParameters::of(url).map_err(unusable)?;
        let CallParameters { folder, certificate, server_name, provider, idle_timeout } =
            parameters;
        // Now, so that a folder which cannot be used is told before anything is tried.
        let idle = Idle::after(idle_timeout);
        let identity = folder
            .identity(&certificate)
            .map_err(|error| unusable(causes(&error)).hinted(Some(error.hint())))?;
        tls::client(&identity, idle).map_err(|error| unusable(causes(&error)))?;
        let host = Host {
            target: Target { host: url.host.clone(), port: url.port, server_name },
            folder,
            certificate,
            idle,
            patience: settings.start_timeout.unwrap_or(HANDSHAKE),
            dialler: Dialler::new(),
        };
        let name = settings.name.clone().unwrap_or_else(|| address.peer_name());
        let machine = ClientSettings { provider, ..ClientSettings::default() };
        Ok(Rc::new(Orchestra::at(name, host, machine, timeout)))
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&ORCHESTRA)
    }

    fn decode(&self, side: Side) -> Option<Box<dyn Decoding>> {
        Some(Box::new(Capture::new(side)))
    }

    fn native_call(&self, _method: &[u8], body: &Bytes) -> Option<NativeCall> {
        let (tool, arguments, trace) = translate::native_call(body)?;
        Some(NativeCall { tool, arguments, trace })
    }

    fn native_result(&self, result: &Bytes) -> Option<Outcome> {
        translate::native_result(result)
    }

    fn native_failure(&self, result: &Bytes) -> Option<FailureKind> {
        translate::native_failure(result)
    }
}
