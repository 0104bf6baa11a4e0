//! A mediocre front as the registry knows it: planned, opened, led elsewhere, stopped.

use std::error::Error as _;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::Ended;

use super::MediocreKind;
use super::front::{ListenAddress, ListenAddressError, Mediocre, Settings, Talked};
use super::settings::{FRONT_KEYS, MediocreFrontSettings};
use crate::address::{Address, Place};
use crate::bus::back::LocalFuture;
use crate::bus::config::{Key, Values};
use crate::bus::lenient::LenientBus;
use crate::bus::{Bus, Route, SwappableRoute};
use crate::transport::stdio;
use crate::wire::settings::WireSettings;
use crate::wire::{FrontError, FrontKind, FrontPlan, Listening, RunningFront};

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

    fn plan(
        &self,
        address: &Address,
        settings: &WireSettings,
    ) -> Result<Box<dyn FrontPlan>, FrontError> {
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
        Ok(Box::new(Plan { address, settings: settings.server() }))
    }

    fn serve_stdio(&self, bus: Bus) -> LocalFuture<'static, io::Result<Ended>> {
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

struct Plan {
    address: ListenAddress,
    settings: Settings,
}

impl FrontPlan for Plan {
    fn open(
        self: Box<Self>,
        bus: Bus,
        _number: u64,
    ) -> LocalFuture<'static, Result<Listening, FrontError>> {
        Box::pin(async move {
            let listener = self.address.open().await;
            let listener =
                listener.map_err(|error| FrontError::failed("cannot listen").caused_by(&error))?;
            let route = Rc::new(SwappableRoute::new(lenient(bus)));
            let server = Mediocre::new(route.clone(), self.settings);
            let line = format!("listening on {}", listener.url());
            let front = Rc::new(Running { route, server: server.clone() });
            let serving = Box::pin(async move {
                server.serve(listener).await;
                Ok(())
            });
            Ok(Listening { line, front, serving })
        })
    }
}

struct Running {
    route: Rc<SwappableRoute>,
    server: Mediocre,
}

impl RunningFront for Running {
    fn lead_to(&self, bus: Bus) {
        self.route.set(lenient(bus));
    }

    fn stop(&self) {
        self.server.stop();
    }

    fn drain(&self, patience: Duration) {
        self.server.drain(patience);
    }
}

fn lenient(bus: Bus) -> Rc<dyn Route> {
    Rc::new(LenientBus::new(Rc::new(bus)))
}
