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
use crate::peer::settings::WireSettings;
use crate::peer::{
    FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce, swappable,
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

    fn plan(&self, address: &Address, settings: &WireSettings) -> Result<FrontPlan, FrontError> {
        let settings = settings.get::<MediocreFrontSettings>();
        let access = settings.access.access().map_err(|error| {
            let hint = error.hint();
            FrontError::usage(error.to_string()).by_key(error.key()).hint(Some(hint))
        })?;
        let address = ListenAddress::of(address, &access).map_err(|error| {
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

    fn serve_stdio(&self, bus: Bus) -> ServedOnce {
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
    let (route, lead_to) = swappable(bus);
    let server = Mediocre::new(route, settings);
    let line = format!("listening on {}", listener.url());
    let stopped = server.clone();
    let front = RunningFront::new(lead_to, move |patience| match patience {
        Some(patience) => stopped.drain(patience),
        None => stopped.stop(),
    });
    let serving = Box::pin(async move {
        server.serve(listener).await;
        Ok(())
    });
    Ok(Listening { line, front, serving })
}
