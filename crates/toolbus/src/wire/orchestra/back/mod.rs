//! A hub, or a plugin, behind the bus (`docs/protocols/orchestra.md` 13): its tools are ours.

mod host;
mod started;

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::json::Json;
use toolbus_proto::orchestra::redial::Again;
use toolbus_proto::orchestra::{ClientSettings, translate};
use toolbus_proto::tool::{Call, Wire};

use super::WIRE;
use super::caller::{Caller, Reach};
use crate::bus::back::{Back, LocalFuture};
use crate::engine::calls::{ReplyTo, RunningCall};

pub(super) use host::Host;
pub use started::{Started, StartedOptions, scratch_folder};

/// A peer that is dialled, or started, by the first call.
pub struct Orchestra {
    caller: Rc<Caller>,
    timeout: Duration,
    /// What is ours to end.
    started: Option<Rc<Started>>,
}

impl Orchestra {
    pub(super) fn at(
        name: String,
        host: Host,
        settings: ClientSettings,
        timeout: Duration,
    ) -> Orchestra {
        Orchestra::over(name, settings, Rc::new(host), timeout, None)
    }

    pub(super) fn program(name: String, started: Started, timeout: Duration) -> Orchestra {
        let started = Rc::new(started);
        let settings = ClientSettings::default();
        Orchestra::over(name, settings, started.clone(), timeout, Some(started))
    }

    fn over(
        name: String,
        settings: ClientSettings,
        reach: Rc<dyn Reach>,
        timeout: Duration,
        started: Option<Rc<Started>>,
    ) -> Orchestra {
        Orchestra { caller: Caller::new(&name, settings, Again::OnDemand, reach), timeout, started }
    }
}

impl Back for Orchestra {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.caller.start(call, down)
    }

    fn text_of(&self, answer: &Json) -> Option<String> {
        translate::text_of(answer)
    }

    fn restarts(&self) -> Option<u64> {
        self.started.as_ref().map(|started| started.restarts())
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            if let Some(started) = &self.started {
                started.stop(&self.caller).await;
            }
            self.caller.shutdown().await;
        })
    }

    fn kill(&self) {
        self.caller.close();
        if let Some(started) = &self.started {
            started.kill();
        }
    }
}
