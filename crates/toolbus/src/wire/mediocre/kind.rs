//! What this wire says about itself, for the registry.

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::capture::Side;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::mediocre::{Methods, Reading};
use toolbus_proto::tool::Wire;

use super::back::{Host, Mediocre, Options, Started};
#[cfg(any(feature = "http", feature = "tls"))]
use super::reach;
use super::settings::MediocreSettings;
use super::{WIRE, decode, settings};
use crate::address::{Address, AddressError, Place, Purpose, Query, Scheme, Transport};
use crate::bus::TIMEOUT;
use crate::bus::config::{Key, Values};
use crate::child::supervisor::Restart;
use crate::child::{EnvPolicy, Patience};
use crate::peer::FirstWords;
use crate::peer::decode::Decoding;
use crate::peer::open::{file_name, not_in_this_build, patience, program, unfit};
use crate::peer::pins::{OfSpecs, Pins};
use crate::peer::settings::{Credentials, Settings, WireSettings};
use crate::peer::{FrontKind, Opened, PeerKind, Registry};
#[cfg(feature = "tls")]
use crate::transport::tls::Inside;

/// What a mediocre-rpc server gets: it has nothing to say before it is asked.
pub const PATIENCE: Patience = Patience {
    start: Duration::from_secs(20),
    waits_for: Some("the first answer of a mediocre-rpc server"),
    ..Patience::USUAL
};

/// What of its peers is pinned.
static PINS: OfSpecs = OfSpecs { generic: || vec![toolbus_proto::mediocre::generic()] };

/// The mediocre wire, for the registry.
pub static MEDIOCRE: MediocreKind = MediocreKind;

/// What is to be known of the mediocre wire.
pub struct MediocreKind;

/// The files that TLS needs.
const TLS: Query =
    Query::Parameters { to_call: &["ca", "cert", "key"], to_serve: Query::FILES_TO_SERVE };
const SCHEMES: &[Scheme] = &[
    Scheme::command("mediocre+stdio:"),
    Scheme::url("mediocre+tcp://", Transport::Tcp),
    Scheme::url("mediocre+tls://", Transport::Tls).with_query(TLS),
    Scheme::url("mediocre+http://", Transport::Http).with_path("/rpc"),
    Scheme::url("mediocre+https://", Transport::Https).with_path("/rpc").with_query(TLS),
    Scheme::unix("mediocre+unix:"),
];

impl PeerKind for MediocreKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "a mediocre-rpc server"
    }

    fn schemes(&self) -> &'static [Scheme] {
        SCHEMES
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "mediocre+tcp://HOST:PORT, mediocre+unix:PATH, mediocre+stdio:COMMAND",
            "a mediocre-rpc server",
        )]
    }

    fn back_keys(&self) -> &'static [Key] {
        settings::BACK_KEYS
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        let wire = WireSettings::of(MediocreSettings::read(values));
        Settings { wire, credentials: Credentials::read(values), ..settings }
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        Some(&PINS)
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        let host = match address.place() {
            Place::Command(words) => {
                let pass = settings.program.env_pass.clone();
                let started = Started {
                    program: program(words, settings, EnvPolicy::Clean { pass }),
                    patience: patience(PATIENCE, settings),
                    restart: settings.restart.unwrap_or(Restart::OnDemand),
                };
                let options = options(file_name(words), settings);
                return Ok(Rc::new(Mediocre::program(started, options)));
            }
            Place::Unix(path) => Host::Unix(path.clone()),
            Place::Inside => return Err(unfit(address, "a command, a path or a URL")),
            Place::Url(url) => {
                let (host, port) = (url.host.clone(), url.port);
                match url.carrier {
                    Transport::Tcp => Host::Tcp { host, port },
                    #[cfg(feature = "tls")]
                    Transport::Tls => {
                        let tls = reach::client_tls(
                            address,
                            url,
                            &settings.credentials.tls,
                            Inside::Bytes,
                        )?;
                        Host::Tls { host, port, tls }
                    }
                    #[cfg(feature = "http")]
                    Transport::Http | Transport::Https => {
                        let site = reach::site(address, url, &settings.credentials)?;
                        let (options, start) =
                            (options(address.peer_name(), settings), start(settings));
                        return Ok(Rc::new(Mediocre::over_http(site, options, start)));
                    }
                    missing => return Err(not_in_this_build(address, called(missing))),
                }
            }
        };
        let options = options(address.peer_name(), settings);
        Ok(Rc::new(Mediocre::at(host, options, start(settings))))
    }

    fn generic_tools(&self) -> &'static [&'static str] {
        &["call"]
    }

    fn reached_by(&self, _generic: &str, args: &Json) -> Option<String> {
        edit::only_text(args.as_str(), "method")
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&MEDIOCRE)
    }

    fn decode(&self, side: Side) -> Option<Box<dyn Decoding>> {
        Some(Box::new(decode::Capture::new(side, Reading::default())))
    }

    /// It answers whatever is an object.
    fn recognises(&self, heard: &FirstWords<'_>) -> bool {
        heard.first_value().is_some_and(|value| {
            let has = |name: &str| value.get(name).is_some();
            !has("jsonrpc") && !has("id") && (has("res") || has("err"))
        })
    }
}

/// Reads the address of a mediocre-rpc peer, whose `mediocre+` may be left out.
pub fn address(purpose: Purpose, url: &str) -> Result<Address, AddressError> {
    let schemes = SCHEMES.iter().filter_map(|scheme| scheme.prefix.strip_prefix("mediocre+"));
    let is_short = schemes.into_iter().any(|scheme| url.starts_with(scheme));
    let full = if is_short { format!("mediocre+{url}") } else { url.to_owned() };
    let address = match Address::parse_for(purpose, &full) {
        // What was meant is one of our own.
        Err(AddressError::Scheme { .. }) => Registry::of(&[&MEDIOCRE]).address(purpose, &full)?,
        read => read?,
    };
    if address.wire() != WIRE {
        return Err(AddressError::OtherWire {
            text: url.to_owned(),
            wanted: "mediocre-rpc server",
            hint: "name one by `tcp://`, `tls://`, `http://` or `https://` and HOST:PORT, by \
                   `unix:PATH` or by `stdio:COMMAND`",
        });
    }
    Ok(address)
}

/// How long connecting may take.
fn start(settings: &Settings) -> Duration {
    settings.start_timeout.unwrap_or(PATIENCE.start)
}

/// What the settings mean for a server.
fn options(name: String, settings: &Settings) -> Options {
    let own: MediocreSettings = settings.wire.get();
    Options {
        name: settings.name.clone().unwrap_or(name),
        reading: own.reading(),
        methods: match &own.methods {
            Some(methods) => Methods::given(methods.iter().map(String::as_str)),
            None => Methods::asked(),
        },
        timeout: settings.timeout.unwrap_or(TIMEOUT),
    }
}

/// What errors call a transport that is not in this build.
fn called(transport: Transport) -> &'static str {
    match transport {
        Transport::Http | Transport::Https => "mediocre-rpc over HTTP",
        Transport::Tls => "TLS",
        Transport::Tcp => "TCP",
        Transport::Quic => "QUIC",
    }
}
