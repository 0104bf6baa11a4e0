//! A mediocre front as the registry knows it: planned, opened, led elsewhere, stopped.

use std::error::Error as _;
use std::io;
use std::rc::Rc;

use toolbus_proto::channel::Ended;

use super::MediocreKind;
use super::front::{ListenAddress, ListenAddressError, Mediocre, Settings, Talked};
use super::settings::{FRONT_KEYS, MediocreFrontSettings};
use crate::address::{Address, Place};
use crate::bus::Bus;
use crate::bus::config::{Key, Values};
use crate::peer::access::Access;
use crate::peer::guests::Guests;
use crate::peer::settings::WireSettings;
use crate::peer::{
    Circumstances, FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce,
};
use crate::transport::stdio;

impl FrontKind for MediocreKind {
    fn keys(&self) -> &'static [Key] {
        FRONT_KEYS
    }

    fn settings(&self, values: &Values) -> WireSettings {
        WireSettings::of(MediocreFrontSettings::read(values))
    }

    fn can_listen(&self, address: &Address) -> bool {
        matches!(address.place(), Place::Unix(_) | Place::Url(_))
    }

    fn callers(&self) -> &'static str {
        "mediocre-rpc clients"
    }

    fn takes_sockets(&self) -> bool {
        true
    }

    fn plan(
        &self,
        address: &Address,
        settings: &WireSettings,
        circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        let settings = settings.get::<MediocreFrontSettings>();
        let access = settings.access.access().map_err(|error| {
            let hint = error.hint();
            FrontError::usage(error.to_string()).by_key(error.key()).hint(Some(hint))
        })?;
        let access = Access { is_closed: circumstances.is_closed, ..access };
        let address = ListenAddress::under(address, &access, circumstances).map_err(|error| {
            let refused = FrontError::usage(error.to_string());
            match (&error, error.source()) {
                (ListenAddressError::Unprotected(open), _) => {
                    refused.by_key("serve").hint(Some(open.hint_for_config()))
                }
                (_, Some(cause)) => refused.caused_by(cause).hint(error.hint()),
                (_, None) => refused.hint(error.hint()),
            }
        })?;
        let settings = settings.server();
        Ok(Box::new(move |bus, _| Box::pin(open(address, settings, bus))))
    }

    fn serve_stdio(&self, bus: Bus, _words: &[String], _say: fn(&str)) -> ServedOnce {
        Box::pin(async move {
            bus.open().await.map_err(io::Error::other)?;
            let (input, output) = (stdio::stdin()?, stdio::stdout()?);
            let server = Mediocre::new(Rc::new(bus), Settings::default());
            Ok(match server.talk(input, output).await {
                Talked::ToTheEnd(ended) => ended,
                Talked::UntilStopped => Ended::Well,
            })
        })
    }
}

async fn open(
    address: ListenAddress,
    settings: Settings,
    bus: Bus,
) -> Result<Listening, FrontError> {
    let listener = address.open().await;
    let listener =
        listener.map_err(|error| FrontError::failed("cannot listen").caused_by(&error))?;
    #[cfg(feature = "tls")]
    let tls = address.tls().cloned();
    let guests = Rc::new(Guests::of(bus));
    if let Some(file) = listener.socket_file() {
        guests.share_file(file);
    }
    let server = Mediocre::of(guests.clone(), settings);
    let line = format!("listening on {}", listener.url());
    let stopped = server.clone();
    let front = RunningFront::new(
        move |bus| guests.lead_to(bus),
        move |patience| match patience {
            Some(patience) => stopped.drain(patience),
            None => stopped.stop(),
        },
    );
    let serving = Box::pin(async move {
        server.serve(listener).await;
        Ok(())
    });
    Ok(Listening {
        line: Some(line),
        later: None,
        front,
        #[cfg(feature = "tls")]
        tls,
        serving,
    })
}
