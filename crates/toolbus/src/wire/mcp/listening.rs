//! An MCP front as the registry knows it: planned, opened, led elsewhere, stopped.

use std::rc::Rc;

use super::McpKind;
use super::front::{self, Options};
use super::kind::is_pair;
use super::settings::{FRONT_KEYS, McpFrontSettings};
use crate::address::{Address, Place, Transport};
use crate::bus::Bus;
use crate::bus::config::{Key, Values};
use crate::peer::settings::WireSettings;
use crate::peer::{FrontError, FrontKind, FrontPlan, ServedOnce};
use crate::transport::stdio;

impl FrontKind for McpKind {
    fn keys(&self) -> &'static [Key] {
        FRONT_KEYS
    }

    fn settings(&self, values: &Values) -> WireSettings {
        WireSettings::of(McpFrontSettings::read(values))
    }

    fn can_listen(&self, address: &Address) -> bool {
        match address.place() {
            // The old pair comes beside streamable HTTP, never alone.
            Place::Url(url) => {
                url.carrier == Transport::Http && !url.path.contains('?') && !is_pair(address)
            }
            _ => false,
        }
    }

    fn name_tools(&self, bus: Bus) -> Bus {
        bus.named_without_dots()
    }

    fn callers(&self) -> &'static str {
        "MCP clients"
    }

    fn passes_through(&self) -> bool {
        true
    }

    #[cfg(feature = "http")]
    fn plan(&self, address: &Address, settings: &WireSettings) -> Result<FrontPlan, FrontError> {
        http::plan(address, &settings.get())
    }

    #[cfg(not(feature = "http"))]
    fn plan(&self, address: &Address, _settings: &WireSettings) -> Result<FrontPlan, FrontError> {
        Err(FrontError::usage(format!("fronts like `{address}` are not in this build"))
            .by_key("serve"))
    }

    fn serve_stdio(&self, bus: Bus) -> ServedOnce {
        Box::pin(async move {
            let bus = Rc::new(super::MCP.name_tools(bus));
            let (input, output) = (stdio::stdin()?, stdio::stdout()?);
            Ok(front::serve(bus, Options::default(), input, output).await)
        })
    }
}

#[cfg(feature = "http")]
mod http {
    use std::rc::Rc;

    use tokio::sync::watch;

    use super::super::front::Backs;
    use super::super::front_http::{self, At, Options};
    use crate::address::{Address, Place};
    use crate::bus::Bus;
    use crate::peer::access::Asks;
    use crate::peer::{FrontError, FrontKind as _, FrontPlan, Listening, RunningFront};
    use crate::wire::mcp::settings::McpFrontSettings;

    /// Callers of one front are never as many.
    const CALLERS_MAX: u64 = 1 << 40;

    pub(super) fn plan(
        address: &Address,
        settings: &McpFrontSettings,
    ) -> Result<FrontPlan, FrontError> {
        let Place::Url(url) = address.place() else {
            return Err(FrontError::usage(format!("nobody can listen on `{address}`")));
        };
        let access = settings.access.access().map_err(|error| {
            let hint = error.hint();
            FrontError::usage(error.to_string()).by_key(error.key()).hint(Some(hint))
        })?;
        access.may_listen(&url.host, url.port, Asks::ForToken).map_err(|error| {
            let hint = error.hint_for_config();
            FrontError::usage(error.to_string()).by_key("serve").hint(Some(hint))
        })?;
        if settings.sse && front_http::is_of_pair(&url.path) {
            let message = format!("with `sse` the path `{}` is taken", url.path);
            let hint = "give streamable HTTP another path, such as `/mcp`".to_owned();
            return Err(FrontError::usage(message).by_key("serve").hint(Some(hint)));
        }
        let path = url.path.clone();
        let options = Options { path, sse: settings.sse, access, ..Options::default() };
        let at = At { host: url.host.clone(), port: url.port };
        Ok(Box::new(|bus, number| Box::pin(open(at, options, bus, number))))
    }

    async fn open(
        at: At,
        mut options: Options,
        bus: Bus,
        number: u64,
    ) -> Result<Listening, FrontError> {
        options.first_caller = number * CALLERS_MAX;
        options.about = bus.about().cloned();
        let cannot = |error: &dyn std::error::Error| {
            FrontError::failed("cannot serve over HTTP").caused_by(error)
        };
        let listener = front_http::listen(&at, &options).await;
        let listener =
            listener.map_err(|error| FrontError::failed(error.to_string()).hint(error.hint()))?;
        let line = front_http::listening_on(&listener, &options);
        let line = line.map_err(|error| cannot(&error))?;
        let backs = Rc::new(Backs::of(named(bus)));
        let led = backs.clone();
        // How long what is under way has, once no client is taken any more.
        let (stop, mut stopped) = watch::channel(None);
        let front = RunningFront::new(
            move |bus| led.lead_to(named(bus)),
            move |patience| {
                stop.send_replace(Some(patience.unwrap_or(front_http::LAST_CALLS)));
            },
        );
        let serving = Box::pin(async move {
            let stop = async {
                match stopped.wait_for(Option::is_some).await.ok().and_then(|asked| *asked) {
                    Some(patience) => patience,
                    // The front was dropped: nothing can stop it any more.
                    None => std::future::pending().await,
                }
            };
            let served = front_http::serve_until(&backs, options, listener, stop).await;
            served.map_err(|error| cannot(&error))
        });
        Ok(Listening { line, front, serving })
    }

    fn named(bus: Bus) -> Rc<Bus> {
        Rc::new(super::super::MCP.name_tools(bus))
    }
}
