//! `toolbus nats nodes`: who is there.

use toolbus::address::Address;
use toolbus::peer::settings::Settings;
use toolbus::wire::nats;
use toolbus_proto::json::Json;
use toolbus_proto::nats::SeenNode;

use super::NodesArgs;
use crate::args::Globals;
use crate::failed::Failed;
use crate::render::{self, failure, table};
use crate::runtime::{self, Signals};

pub(super) fn nodes(args: &NodesArgs, _globals: &Globals) -> Result<(), Failed> {
    let address = Address::parse(&args.address)
        .map_err(|error| Failed::usage(error.to_string()).hint_if_any(error.hint()))?;
    if address.wire() != nats::WIRE {
        let message = format!("`{address}` is no address of NATS");
        return Err(Failed::usage(message).hint("name a server: `nats://HOST:PORT/NAME`"));
    }
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let back = nats::back(&address, &Settings::default(), true)
            .map_err(|error| Failed::usage(error.to_string()).hint_if_any(error.hint()))?;
        let nodes = tokio::select! {
            nodes = back.nodes() => nodes.map_err(|failure| failure::failed(&failure))?,
            exit = signals.next() => return Err(Failed::quietly(exit)),
        };
        match args.json {
            true => nodes.iter().try_for_each(|node| render::print(&format!("{}\n", line(node)))),
            false => render::print(&shown(&nodes)),
        }
    })
}

fn line(node: &SeenNode) -> String {
    let SeenNode { service, id, version, is_toolbus, tools, in_flight, is_draining, rtt } = node;
    let mut line = format!(
        r#"{{"service":{},"id":{},"version":{},"toolbus":{is_toolbus},"tools":{tools}"#,
        Json::of(service),
        Json::of(id),
        Json::of(version),
    );
    if let Some(in_flight) = in_flight {
        line.push_str(&format!(r#","in_flight":{in_flight},"draining":{is_draining}"#));
    }
    line.push_str(&format!(r#","rtt_ms":{:.3}}}"#, rtt.as_secs_f64() * 1000.0));
    line
}

fn shown(nodes: &[SeenNode]) -> String {
    let head = ["SERVICE", "ID", "VERSION", "TOOLS", "IN FLIGHT", "STATE"].map(str::to_owned);
    let rows = nodes.iter().map(|node| {
        let state = match (node.is_toolbus, node.is_draining) {
            (false, _) => "foreign",
            (true, true) => "draining",
            (true, false) => "ready",
        };
        [
            render::printable(&node.service).into_owned(),
            render::printable(&node.id).into_owned(),
            render::printable(&node.version).into_owned(),
            node.tools.to_string(),
            node.in_flight.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            state.to_owned(),
        ]
    });
    table::plain(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}
