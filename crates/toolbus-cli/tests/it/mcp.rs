//! What MCP clients and servers say, for the tests that play them.

use crate::page::mcp_server;

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

/// What a legacy server says of itself.
pub(crate) const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"faulty","version":"1"}}"#;

/// What a modern server says of itself.
pub(crate) const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;

pub(crate) const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// What a modern request carries.
pub(crate) const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

pub(crate) fn request(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A call of a legacy client.
pub(crate) fn legacy_call(id: u32, tool: &str, arguments: &str) -> String {
    request(id, "tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
}

pub(crate) fn modern_call(id: u32, tool: &str, arguments: &str) -> String {
    let params = format!(r#"{{{META},"name":"{tool}","arguments":{arguments}}}"#);
    request(id, "tools/call", &params)
}

pub(crate) fn discover(id: u32) -> String {
    request(id, "server/discover", &format!("{{{META}}}"))
}

/// What a legacy server does that a modern client has come to.
pub(crate) const PROBED: [&str; 4] = ["read", "refuse", "-32601", "what?"];

/// A legacy server whose tools change while its one tool, `f`, is called; before that it does
/// this.
pub(crate) fn changing(first: &[&str]) -> String {
    let tools = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}"#;
    let opening = ["read", "answer", INITIALIZED, "read"];
    let calls = ["read", "answer", tools, "read", "say", CHANGED, "answer", tools, "readall"];
    mcp_server(&[first, &opening, &calls].concat())
}
