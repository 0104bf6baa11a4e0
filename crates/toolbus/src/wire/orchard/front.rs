//! Being a provider: the tools of the bus for the host that started us.

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::Ended;
use toolbus_proto::orchard::translate::{Clash, Provider, Served};
use toolbus_proto::orchard::{Server, ServerSettings};

use crate::bus::Bus;
use crate::engine::front::Front;
use crate::task::{LocalFuture, boxed};
use crate::transport::pipe::{Input, Output};

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
    for tool in bus.unlisted() {
        provider.offer_untold(tool.name.as_str(), Served::new(&tool))?;
    }
    Ok(provider)
}

/// Serves the tools of a bus, as [`provider`] names them, until the host has had enough.
///
/// Must be called inside a `LocalSet`. In a box, and of one kind: so it is compiled here, and not
/// once more by who calls it, for size perhaps.
pub fn serve(
    bus: Rc<Bus>,
    provider: Provider,
    options: Options,
    input: Input,
    output: Output,
) -> LocalFuture<'static, Ended> {
    boxed(async move {
        let usual = ServerSettings::default();
        let line_bytes_max = options.line_bytes_max.unwrap_or(usual.line_bytes_max);
        let server = Server::new(&ServerSettings { line_bytes_max }, provider);
        Front::new(server, bus, options.timeout).serve(input, output).await
    })
}
