//! A small server of MCP with so many tools, each of which answers the same at once.

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;
const CALLED: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

pub(crate) fn serve(tools: usize) {
    let list = list(tools);
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Some(id) = between(&line, "\"id\":", &[',', '}']) else { continue };
        let result = match between(&line, "\"method\":\"", &['"']) {
            Some("server/discover") => DISCOVERED,
            Some("tools/list") => &list,
            Some("tools/call") => CALLED,
            _ => r#"{"resultType":"complete"}"#,
        };
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
        if out.write_all(answer.as_bytes()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn list(tools: usize) -> String {
    let mut list = r#"{"resultType":"complete","tools":["#.to_owned();
    for number in 0..tools {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            list,
            r#"{comma}{{"name":"tool_{number:04}","description":"Does what the tool number {number} does, and no more","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string","description":"What to work on"}},"repo":{{"type":"string"}}}},"required":["text"]}}}}"#
        );
    }
    list + r#"],"ttlMs":0,"cacheScope":"private"}"#
}

/// What stands behind the first of these, up to one of those.
pub(crate) fn between<'a>(text: &'a str, before: &str, ends: &[char]) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split(ends).next()
}
