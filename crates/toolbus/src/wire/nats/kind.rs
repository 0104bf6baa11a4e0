//! What this wire says about itself, for the registry.

use std::rc::Rc;

use toolbus_proto::capture::Side;
use toolbus_proto::tool::Wire;

use super::WIRE;
use super::back;
use super::decode::Capture;
use super::settings::{self, NatsSettings, TO_CALL, TO_SERVE};
use crate::address::{Address, Query, Scheme, Transport};
use crate::bus::config::{Key, Values};
use crate::peer::decode::Decoding;
use crate::peer::settings::Settings;
use crate::peer::{FrontKind, Opened, PeerKind};

/// The NATS wire, for the registry.
pub(crate) static NATS: NatsKind = NatsKind;

/// What is to be known of the NATS wire.
pub(crate) struct NatsKind;

const PORT: u16 = 4222;
const CREDENTIALS: &str =
    "`user`, `password`, `token`, `nkey` and `creds` of the config, or parameters of the address";
const QUERY: Query = Query::Parameters { to_call: TO_CALL, to_serve: TO_SERVE };
const SCHEMES: &[Scheme] = &[
    Scheme::url("nats://", Transport::Tcp)
        .with_path("/")
        .with_query(QUERY)
        .with_hosts(PORT, CREDENTIALS),
    Scheme::url("nats+tls://", Transport::Tls)
        .with_path("/")
        .with_query(QUERY)
        .with_hosts(PORT, CREDENTIALS),
];

impl PeerKind for NatsKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "micro services on NATS"
    }

    fn schemes(&self) -> &'static [Scheme] {
        SCHEMES
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("nats://HOST:PORT/NAME", "the micro services of that name on NATS")]
    }

    fn is_many(&self) -> bool {
        true
    }

    fn back_keys(&self) -> &'static [Key] {
        settings::BACK_KEYS
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        settings.with(NatsSettings::read(values))
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        Ok(Rc::new(back::back(address, settings, false)?))
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&NATS)
    }

    fn decode(&self, _side: Side) -> Option<Box<dyn Decoding>> {
        Some(Box::<Capture>::default())
    }
}
