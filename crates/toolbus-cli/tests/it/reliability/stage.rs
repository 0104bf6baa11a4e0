//! A run of `toolbus serve` with who is to be good and who is to be bad.

use std::fs;

use toolbus_testkit::peer;
use toolbus_testkit::scratch::Scratch;

use super::bad_tools::BadTool;
use super::{Carriage, Case, Side};
use crate::listening::Server;

pub(super) struct Stage {
    /// For a bad tool it has a second front, for those who call that.
    pub(super) server: Server,
    /// Where the good caller calls, and what.
    pub(super) caller_url: String,
    pub(super) tool: String,
    pub(super) bad: Option<BadTool>,
    /// There once the bad one has begun.
    pub(super) mark: String,
    _good: Option<Server>,
    _scratch: Scratch,
}

impl Stage {
    pub(super) fn set(case: &Case) -> Stage {
        let scratch = Scratch::new();
        let mark = scratch.file("bad");
        let bad = (case.side == Side::Back).then(|| BadTool::new(case, &mark, &scratch));
        let (good, good_server) = good_back(case);
        let mut config = format!("[back.good]\nconnect = '''{good}'''\n");
        let front = match (case.side, case.wire, case.carriage) {
            (Side::Front, "mcp", _) => "mcp+http://127.0.0.1:0/mcp",
            (Side::Front, _, Carriage::Http) => "mediocre+http://127.0.0.1:0/rpc",
            _ => "mediocre+tcp://127.0.0.1:0",
        };
        config.push_str(&format!("[front.callers]\nserve = \"{front}\"\n"));
        if let Some(bad) = &bad {
            config.push_str(&bad.back);
            config.push_str("[front.others]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n");
            config.push_str("call_timeout = \"300ms\"\n");
        }
        let path = scratch.file("tools.toml");
        fs::write(&path, config).unwrap();
        let fronts = 1 + usize::from(bad.is_some());
        let server = Server::start(&["serve", "--config", &path], fronts);
        // An MCP client sees the tools of the only back by their own names.
        let (scheme, tool) = match front.starts_with("mcp") {
            true => ("mcp+", "upper"),
            false => ("", "good.upper"),
        };
        Stage {
            caller_url: format!("{scheme}{}", server.url()),
            tool: tool.to_owned(),
            server,
            bad,
            mark,
            _good: good_server,
            _scratch: scratch,
        }
    }
}

/// A tool that is as it should be, in the wire of the bad one, and its process if we start it.
fn good_back(case: &Case) -> (String, Option<Server>) {
    if case.side == Side::Front {
        return ("builtin:".into(), None);
    }
    let program = peer::quoted(env!("CARGO_BIN_EXE_toolbus"));
    let on_pipes = |words: &str| (format!("{}+stdio:{program} {words} builtin:", case.wire), None);
    let listening = |words: &[&str], scheme: &str| {
        let server = Server::start(words, 1);
        (format!("{scheme}{}", server.url()), Some(server))
    };
    match (case.wire, case.carriage) {
        // Another of these would be a process a call.
        ("godex", _) => ("builtin:".into(), None),
        ("oracle", _) => on_pipes("oracle serve"),
        ("mcp", Carriage::Stdio) => on_pipes("mcp"),
        ("mcp", _) => listening(&["mcp", "--http", "0", "builtin:"], "mcp+"),
        (_, Carriage::Stdio) => on_pipes("rpc serve --listen stdio:"),
        (_, Carriage::Tcp) => {
            listening(&["rpc", "serve", "--listen", "tcp://127.0.0.1:0", "builtin:"], "")
        }
        (_, Carriage::Http) => {
            listening(&["rpc", "serve", "--listen", "http://127.0.0.1:0/rpc", "builtin:"], "")
        }
    }
}
