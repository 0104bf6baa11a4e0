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
use crate::peer::{Circumstances, FrontError, FrontKind, FrontPlan, ServedOnce};
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
                let is_spoken = match url.carrier {
                    Transport::Http => true,
                    Transport::Https => cfg!(feature = "tls"),
                    Transport::Tcp | Transport::Tls | Transport::Quic => false,
                };
                is_spoken && !url.path.contains('?') && !is_pair(address)
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

    fn takes_sockets(&self) -> bool {
        true
    }

    #[cfg(feature = "http")]
    fn plan(
        &self,
        address: &Address,
        settings: &WireSettings,
        circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        http::plan(address, &settings.get(), circumstances)
    }

    #[cfg(not(feature = "http"))]
    fn plan(
        &self,
        address: &Address,
        _settings: &WireSettings,
        _circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        Err(FrontError::usage(format!("fronts like `{address}` are not in this build"))
            .by_key("serve"))
    }

    fn serve_stdio(&self, bus: Bus, _words: &[String], _say: fn(&str)) -> ServedOnce {
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

    #[cfg(feature = "tls")]
    use toolbus_proto::sealed::{self, SessionKeys};

    #[cfg(feature = "tls")]
    use super::super::front_http::Sharing;
    use super::super::front_http::{self, At, Led, OpenError, Options};
    use crate::address::{Address, Place};
    use crate::bus::Bus;
    use crate::peer::access::{Access, Asks};
    #[cfg(feature = "tls")]
    use crate::peer::settings::Secret;
    #[cfg(feature = "tls")]
    use crate::peer::shown;
    use crate::peer::{Circumstances, FrontError, FrontPlan, Listening, RunningFront};
    use crate::wire::mcp::settings::McpFrontSettings;

    pub(super) fn plan(
        address: &Address,
        settings: &McpFrontSettings,
        circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        let Place::Url(url) = address.place() else {
            return Err(FrontError::usage(format!("cannot listen on `{address}`")));
        };
        let access = settings.access.access().map_err(|error| {
            let hint = error.hint();
            FrontError::usage(error.to_string()).by_key(error.key()).hint(Some(hint))
        })?;
        let access = Access { is_closed: circumstances.is_closed, ..access };
        let asks = match url.parameter("client_ca") {
            Some(_) => Asks::ForCertificate,
            None => Asks::ForToken,
        };
        access.may_listen(&url.host, url.port, asks).map_err(|error| {
            let hint = error.hint_for_config();
            FrontError::usage(error.to_string()).by_key("serve").hint(Some(hint))
        })?;
        if settings.sse && front_http::is_of_pair(&url.path) {
            let message = format!("with `sse` the path `{}` is taken", url.path);
            let hint = "give streamable HTTP another path, such as `/mcp`".to_owned();
            return Err(FrontError::usage(message).by_key("serve").hint(Some(hint)));
        }
        let path = url.path.clone();
        let mut options = Options {
            path,
            sse: settings.sse,
            access,
            #[cfg(feature = "tls")]
            sharing: sharing(settings)?,
            #[cfg(feature = "tls")]
            tls: shown::of(address, &circumstances)?,
            passed: circumstances.socket,
            threads: circumstances.threads,
            ..Options::default()
        };
        options.sessions_max = settings.sessions_max.unwrap_or(options.sessions_max);
        options.limits.connections_max =
            settings.connections_max.unwrap_or(options.limits.connections_max);
        let at = At { host: url.host.clone(), port: url.port };
        Ok(Box::new(|bus, number| Box::pin(open(at, options, bus, number))))
    }

    /// How sessions are shared, if they are.
    #[cfg(feature = "tls")]
    fn sharing(settings: &McpFrontSettings) -> Result<Option<Rc<Sharing>>, FrontError> {
        let McpFrontSettings { sessions_over, session_key, session_key_old, .. } = settings;
        let key = |name: &'static str, key: &Secret<String>| {
            let wrong = || FrontError::usage("it has to be 32 bytes in hex or base64").by_key(name);
            sealed::read_key(key.reveal()).ok_or_else(wrong)
        };
        let key_before =
            session_key_old.as_ref().map(|old| key("session_key_old", old)).transpose()?;
        let key_now = session_key.as_ref().map(|now| key("session_key", now)).transpose()?;
        match (sessions_over, key_now) {
            (Some(over), Some(now)) => {
                let keys = SessionKeys::new(now, key_before);
                Ok(Some(Rc::new(Sharing { over: over.clone(), keys })))
            }
            (Some(_), None) => {
                Err(FrontError::usage("it is needed with `sessions_over`").by_key("session_key"))
            }
            (None, Some(_)) => {
                Err(FrontError::usage("it is only for `sessions_over`").by_key("session_key"))
            }
            (None, None) => Ok(None),
        }
    }

    async fn open(
        at: At,
        mut options: Options,
        bus: Bus,
        number: u64,
    ) -> Result<Listening, FrontError> {
        options.first_caller = number * front_http::CALLERS_MAX;
        options.about = bus.about().cloned();
        let cannot = |error: &dyn std::error::Error| {
            FrontError::failed("cannot serve over HTTP").caused_by(error)
        };
        let listener = front_http::listen(&at, &options).await.map_err(|error| {
            let refused = match &error {
                // Its socket was opened elsewhere than it says.
                OpenError::Unprotected(_) => FrontError::usage(error.to_string()),
                OpenError::Listen(_) => FrontError::failed(error.to_string()),
            };
            refused.hint(error.hint())
        })?;
        let line = front_http::listening_on(&listener, &options);
        let line = line.map_err(|error| cannot(&error))?;
        let led = Rc::new(Led::to(bus));
        let swapped = led.clone();
        // How long what is under way has, once no client is taken any more.
        let (stop, mut stopped) = watch::channel(None);
        let front = RunningFront::new(
            move |bus| swapped.lead_to(bus),
            move |patience| {
                stop.send_replace(Some(patience.unwrap_or(front_http::LAST_CALLS)));
            },
        );
        #[cfg(feature = "tls")]
        let tls = options.tls.clone();
        let serving = Box::pin(async move {
            let stop = async {
                match stopped.wait_for(Option::is_some).await.ok().and_then(|asked| *asked) {
                    Some(patience) => patience,
                    // The front was dropped: nothing can stop it any more.
                    None => std::future::pending().await,
                }
            };
            let served = led.serve(options, listener, stop).await;
            served.map_err(|error| cannot(&error))
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
}
