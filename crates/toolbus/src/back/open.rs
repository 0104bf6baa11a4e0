//! From an address to somebody who answers: the one place that knows which wire is which.

use std::rc::Rc;

use thiserror::Error;
use toolbus_proto::mcp::calling;
use toolbus_proto::oracle::Functions;
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::signature::{self, SignatureError};
use toolbus_proto::tool::Wire;

use super::Back;
use super::builtin::Builtin;
use super::mcp::{self, Mcp};
use super::oracle::{self, Oracle};
use super::settings::{McpSettings, ProgramSettings, Settings};
use super::shell::Shell;
use crate::address::{Address, Place};
use crate::bus::TIMEOUT;
use crate::child::supervisor::Restart;
use crate::child::{EnvPolicy, Patience, Program};

/// Makes a back of an address. Nothing is started or connected to before it is asked.
pub fn open(address: &Address, settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
    let not_yet = |wire: &'static str| OpenError::NotYet { address: address.clone(), wire };
    match address.place() {
        Place::Builtin => Ok(Rc::new(Builtin::new())),
        Place::Shell if !settings.allow_shell => Err(OpenError::ShellIsOff),
        Place::Shell => Ok(Rc::new(Shell::new(oracle_settings(settings)))),
        Place::Unix(_) => Err(not_yet(wire_name(Wire::Mediocre))),
        Place::Command { wire: Wire::Oracle, words } => {
            let options = oracle_options(address, words, settings)?;
            Ok(Rc::new(Oracle::new(options)))
        }
        Place::Command { wire: Wire::Mcp, words } => {
            Ok(Rc::new(Mcp::new(mcp_options(words, settings))))
        }
        Place::Command { wire, .. } => Err(not_yet(wire_name(*wire))),
        Place::Url(url) => Err(not_yet(wire_name(url.wire))),
    }
}

/// What the settings mean for an oracle.
fn oracle_options(
    address: &Address,
    words: &[String],
    settings: &Settings,
) -> Result<oracle::Options, OpenError> {
    let mut functions = Vec::new();
    for text in &settings.oracle.functions {
        functions.extend(signature::parse(text).map_err(|error| OpenError::Signature {
            address: address.clone(),
            text: text.clone(),
            error,
        })?);
    }
    Ok(oracle::Options {
        name: settings.name.clone().unwrap_or_else(|| file_name(words)),
        program: program(words, settings, EnvPolicy::Inherit),
        patience: patience(Patience::ORACLE, settings),
        restart: settings.restart.unwrap_or(Restart::OnDemand),
        settings: oracle_settings(settings),
        functions: Functions::from_config(functions),
    })
}

fn oracle_settings(settings: &Settings) -> toolbus_proto::oracle::Settings {
    let defaults = toolbus_proto::oracle::Settings::default();
    toolbus_proto::oracle::Settings {
        line_bytes_max: settings.oracle.line_bytes_max.unwrap_or(defaults.line_bytes_max),
        leniency: match settings.oracle.lenient_felts {
            true => Leniency::Lenient,
            false => Leniency::Strict,
        },
    }
}

/// What the settings mean for an MCP server.
fn mcp_options(words: &[String], settings: &Settings) -> mcp::Options {
    let name = settings.name.clone().unwrap_or_else(|| file_name(words));
    let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
    let McpSettings { timeout_total, probe_timeout, input_timeout, reply_bytes_max, .. } =
        settings.mcp;
    let defaults = calling::Settings::new(name, env!("CARGO_PKG_VERSION"));
    mcp::Options {
        program: program(words, settings, env),
        patience: patience(Patience::MCP, settings),
        restart: settings.restart.unwrap_or(Restart::OnDemand),
        timeout: settings.timeout.unwrap_or(TIMEOUT),
        settings: calling::Settings {
            timeout_total,
            probe_timeout: probe_timeout.unwrap_or(defaults.probe_timeout),
            input_timeout: input_timeout.unwrap_or(defaults.input_timeout),
            line_bytes_max: reply_bytes_max.unwrap_or(defaults.line_bytes_max),
            ..defaults
        },
    }
}

/// What the log calls a program that nobody has named.
fn file_name(words: &[String]) -> String {
    let program = words.first().map_or("", String::as_str);
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

fn program(words: &[String], settings: &Settings, env: EnvPolicy) -> Program {
    let ProgramSettings { env: vars, cwd, .. } = &settings.program;
    let vars = vars.iter().map(|(name, value)| (name.clone(), value.reveal().clone()));
    Program { env, vars: vars.collect(), cwd: cwd.clone(), ..Program::new(words.to_vec()) }
}

fn patience(usual: Patience, settings: &Settings) -> Patience {
    Patience {
        start: settings.start_timeout.unwrap_or(usual.start),
        stop: settings.stop_timeout.unwrap_or(usual.stop),
        ..usual
    }
}

fn wire_name(wire: Wire) -> &'static str {
    match wire {
        Wire::Oracle => "the oracle's wire",
        Wire::Mediocre => "the mediocre wire",
        Wire::Mcp => "the MCP wire",
        Wire::Orchestra => "the Orchestra wire",
        Wire::Orchard => "the Orchard wire",
        Wire::Godex => "the godex wire",
        Wire::Inside => "this wire",
    }
}

/// Why an address cannot be opened, whoever is there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// We do not speak that wire yet.
    #[error("cannot open `{address}`: {wire} is not there yet")]
    NotYet {
        /// What was to be opened.
        address: Address,
        /// What is missing.
        wire: &'static str,
    },
    /// A signature in the config is none.
    #[error("cannot open `{address}`: `{text}` is no signature")]
    Signature {
        /// What was to be opened.
        address: Address,
        /// What is written there.
        text: String,
        /// What is wrong with it.
        #[source]
        error: SignatureError,
    },
    /// Whoever may use the shell has to say so.
    #[error("`shell:` is off: whoever calls it can run any command")]
    ShellIsOff,
}

impl OpenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenError::NotYet { .. } | OpenError::Signature { .. } => None,
            OpenError::ShellIsOff => {
                Some("allow it by `--allow-shell`, or `allow_shell = true` in the config".into())
            }
        }
    }
}
