//! Being a provider: the tools of the bus for the host that started us.

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::Ended;
use toolbus_proto::orchard::translate::{Clash, Provider, Served};
use toolbus_proto::orchard::{Server, ServerSettings};

use crate::bus::Bus;
use crate::engine::front::Front;
use crate::transport::io::{Sink, Source};

/// What can be set about a provider of ours.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The longest line of the host; else as the wire's spec says.
    pub line_bytes_max: Option<usize>,
    /// How long a call may be quiet; else as its back says.
    pub timeout: Option<Duration>,
}

/// The tools that a bus offers, as one provider. The bus is open and
/// [named without dots](Bus::named_without_dots).
pub fn provider(bus: &Bus) -> Result<Provider, Clash> {
    let mut provider = Provider::new("toolbus", env!("CARGO_PKG_VERSION"));
    for tool in bus.offered() {
        provider.offer(tool.name.as_str(), Served::new(&tool))?;
    }
    Ok(provider)
}

/// Serves the tools of a bus, as [`provider`] names them, until the host has had enough.
///
/// Must be called inside a `LocalSet`.
pub async fn serve(
    bus: Rc<Bus>,
    provider: Provider,
    options: Options,
    source: impl Source + 'static,
    sink: impl Sink + 'static,
) -> Ended {
    let usual = ServerSettings::default();
    let line_bytes_max = options.line_bytes_max.unwrap_or(usual.line_bytes_max);
    let server = Server::new(&ServerSettings { line_bytes_max }, provider);
    Front::new(server, bus, options.timeout).serve(source, sink).await
}
