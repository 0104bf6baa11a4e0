//! What a modern request must carry, checked in the order of `docs/protocols/mcp.md` 2.2.

use super::requests::{Request, unknown_method};
use crate::json::{Json, Kind};
use crate::jsonrpc::{kind, string};
use crate::mcp::http::Mirror;
use crate::mcp::wire::{
    CAPABILITIES_KEY, INVALID_PARAMS, Level, Refusal, Revision, UNSUPPORTED_VERSION, VERSION_KEY,
    put_member, quoted,
};
use crate::tool::ToolSpec;

/// `mirror` are the headers, where there are some.
pub(super) fn check(
    request: &Request<'_>,
    is_known: bool,
    mirror: Option<&Mirror>,
    tools: Option<&[ToolSpec]>,
) -> Result<(), Refusal> {
    let version = required(VERSION_KEY, request.read.meta.version, Kind::String)?;
    required(CAPABILITIES_KEY, request.read.meta.capabilities, Kind::Object)?;
    let version = string(version).unwrap_or_default();
    if let Some(mirror) = mirror {
        mirror.check_version(&version)?;
    }
    if version != Revision::MODERN.as_str() {
        return Err(unsupported(&version));
    }
    if let Some(mirror) = mirror {
        mirror.check_method(request.method)?;
        mirror.check_name(request.method, request.params, request.read.name)?;
    }
    if !is_known {
        return Err(unknown_method(request.method));
    }
    if request.read.meta.log_level.is_some() {
        Level::read("logLevel", request.read.meta.log_level)
            .map_err(|message| Refusal::new(INVALID_PARAMS, message))?;
    }
    if let Some(mirror) = mirror {
        mirror.check_params(request.method, request.read.name, request.read.arguments, tools)?;
    }
    Ok(())
}

fn required<'a>(key: &str, raw: Option<&'a str>, expected: Kind) -> Result<&'a str, Refusal> {
    let refuse = |message: String| Refusal::new(INVALID_PARAMS, message);
    let raw = raw.ok_or_else(|| refuse(format!("_meta lacks {key}")))?;
    if kind(raw) != expected {
        let expected = if expected == Kind::String { "a string" } else { "an object" };
        return Err(refuse(format!("{key} in _meta must be {expected}")));
    }
    Ok(raw)
}

/// A version that we do not speak.
pub(in crate::mcp) fn unsupported(requested: &str) -> Refusal {
    let mut data = vec![b'{'];
    put_member(&mut data, "supported", format!("[\"{}\"]", Revision::MODERN));
    put_member(&mut data, "requested", quoted(requested));
    data.push(b'}');
    let message = format!("unsupported protocol version {requested}");
    let data = Some(Json::from_trusted(data));
    Refusal { data, ..Refusal::new(UNSUPPORTED_VERSION, message) }
}

/// The methods that modern requests no longer have.
pub(super) fn is_gone(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
    ) || method.starts_with("notifications/")
}

/// The methods that are served where only tools are offered.
pub(super) fn is_of_tools(method: &str) -> bool {
    matches!(method, "server/discover" | "subscriptions/listen" | "tools/list" | "tools/call")
}
