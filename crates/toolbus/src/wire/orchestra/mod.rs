//! Orchestra: a hub, its plugins, and MCP on standard streams in front of a hub.

pub mod certificates;
