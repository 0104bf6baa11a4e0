//! From an address to somebody who answers: the one place that knows which wire is which.

#[cfg(feature = "tls")]
use std::path::Path;
use std::rc::Rc;

use thiserror::Error;
use toolbus_proto::mcp::calling;
use toolbus_proto::mediocre::Methods;
use toolbus_proto::oracle::Functions;
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::signature::{self, SignatureError};
use toolbus_proto::tool::Wire;

use super::mcp::back::{self as mcp, Mcp};
#[cfg(feature = "http")]
use super::mcp::back_http::{self as mcp_http, McpHttp};
use super::mediocre::back::{self as mediocre, Host, Mediocre, Started};
use super::oracle::back::{self as oracle, Oracle};
use super::settings::{McpSettings, ProgramSettings, Settings};
#[cfg(any(feature = "tls", feature = "http"))]
use crate::address::Url;
use crate::address::{Address, Place, Transport};
use crate::bus::TIMEOUT;
use crate::bus::back::Back;
#[cfg(feature = "tls")]
use crate::bus::back::causes;
use crate::child::supervisor::Restart;
use crate::child::{EnvPolicy, Patience, Program};
use crate::local::builtin::Builtin;
use crate::local::shell::Shell;
#[cfg(feature = "http")]
use crate::transport::http::{Origin, Uri};
#[cfg(feature = "tls")]
use crate::transport::tls::{ClientTls, Identity, Inside};

/// Makes a back of an address. Nothing is started or connected to before it is asked.
pub fn open(address: &Address, settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
    let not_yet = |wire: &'static str| OpenError::NotYet { address: address.clone(), wire };
    match address.place() {
        Place::Builtin => Ok(Rc::new(Builtin::new())),
        Place::Shell if !settings.allow_shell => Err(OpenError::ShellIsOff),
        Place::Shell => Ok(Rc::new(Shell::new(oracle_settings(settings)))),
        Place::Unix(path) => Ok(Rc::new(mediocre_at(Host::Unix(path.clone()), address, settings))),
        Place::Command { wire: toolbus_proto::oracle::WIRE, words } => {
            let options = oracle_options(address, words, settings)?;
            Ok(Rc::new(Oracle::new(options)))
        }
        Place::Command { wire: toolbus_proto::mcp::WIRE, words } => {
            Ok(Rc::new(Mcp::new(mcp_options(words, settings))))
        }
        Place::Command { wire: toolbus_proto::mediocre::WIRE, words } => {
            let pass = settings.program.env_pass.clone();
            let started = Started {
                program: program(words, settings, EnvPolicy::Clean { pass }),
                patience: patience(Patience::MEDIOCRE, settings),
                restart: settings.restart.unwrap_or(Restart::OnDemand),
            };
            let options = mediocre_options(file_name(words), settings);
            Ok(Rc::new(Mediocre::program(started, options)))
        }
        Place::Command { wire, .. } => Err(not_yet(wire_name(*wire))),
        Place::Url(url) if url.wire == toolbus_proto::mediocre::WIRE => {
            let (host, port) = (url.host.clone(), url.port);
            let host = match url.carrier {
                Transport::Tcp => Host::Tcp { host, port },
                #[cfg(feature = "tls")]
                Transport::Tls => {
                    Host::Tls { host, port, tls: client_tls(address, url, Inside::Bytes)? }
                }
                #[cfg(feature = "http")]
                Transport::Http | Transport::Https => {
                    return Ok(Rc::new(mediocre_over_http(address, url, settings)?));
                }
                _ => return Err(not_yet(carrier_name(url.carrier))),
            };
            Ok(Rc::new(mediocre_at(host, address, settings)))
        }
        #[cfg(feature = "http")]
        Place::Url(url) if url.wire == toolbus_proto::mcp::WIRE => {
            let name = settings.name.clone().unwrap_or_else(|| address.peer_name());
            let options = mcp_http::Options::of(&name, url, settings);
            let fault = |error| OpenError::McpHttp { address: address.clone(), error };
            Ok(Rc::new(McpHttp::new(options.map_err(fault)?)))
        }
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

fn mediocre_at(host: Host, address: &Address, settings: &Settings) -> Mediocre {
    let start = settings.start_timeout.unwrap_or(Patience::MEDIOCRE.start);
    Mediocre::at(host, mediocre_options(address.peer_name(), settings), start)
}

#[cfg(feature = "http")]
fn mediocre_over_http(
    address: &Address,
    url: &Url,
    settings: &Settings,
) -> Result<Mediocre, OpenError> {
    let start = settings.start_timeout.unwrap_or(Patience::MEDIOCRE.start);
    let options = mediocre_options(address.peer_name(), settings);
    let (origin, path) = origin(address, url)?;
    Ok(Mediocre::over_http(origin, path, options, start))
}

/// Whom to call by HTTP, and by which path.
#[cfg(feature = "http")]
pub(crate) fn origin(address: &Address, url: &Url) -> Result<(Origin, Uri), OpenError> {
    let path = url.path.parse().map_err(|_| OpenError::Path { address: address.clone() })?;
    let origin = Origin {
        host: url.host.clone(),
        port: url.port,
        #[cfg(feature = "tls")]
        tls: match url.carrier {
            Transport::Https => Some(client_tls(address, url, Inside::Http)?),
            _ => None,
        },
    };
    Ok((origin, path))
}

/// What the settings mean for a mediocre-rpc server.
fn mediocre_options(name: String, settings: &Settings) -> mediocre::Options {
    let given = settings.mediocre.methods.as_ref();
    mediocre::Options {
        name: settings.name.clone().unwrap_or(name),
        reading: settings.mediocre.reading(),
        methods: match given {
            Some(methods) => Methods::given(methods.iter().map(String::as_str)),
            None => Methods::asked(),
        },
    }
}

/// What the settings mean for an MCP server.
fn mcp_options(words: &[String], settings: &Settings) -> mcp::Options {
    let name = settings.name.clone().unwrap_or_else(|| file_name(words));
    let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
    let McpSettings { timeout_total, probe_timeout, input_timeout, reply_bytes_max, share, .. } =
        settings.mcp;
    let defaults = calling::Settings::new(name, env!("CARGO_PKG_VERSION"));
    mcp::Options {
        program: program(words, settings, env),
        patience: patience(Patience::MCP, settings),
        restart: settings.restart.unwrap_or(Restart::OnDemand),
        share,
        timeout: settings.timeout.unwrap_or(TIMEOUT),
        settings: calling::Settings {
            introduction: settings.mcp.introduction(),
            timeout_total,
            probe_timeout: probe_timeout.unwrap_or(defaults.probe_timeout),
            input_timeout: input_timeout.unwrap_or(defaults.input_timeout),
            line_bytes_max: reply_bytes_max.unwrap_or(defaults.line_bytes_max),
            ..defaults
        },
    }
}

/// What the parameters of an address say about whom to trust and who we are.
#[cfg(feature = "tls")]
pub(crate) fn client_tls(
    address: &Address,
    url: &Url,
    inside: Inside,
) -> Result<ClientTls, OpenError> {
    let path = |name| url.parameter(name).map(Path::new);
    let fault = |why: String| OpenError::Tls { address: address.clone(), why };
    let identity = match (path("cert"), path("key")) {
        (Some(cert), Some(key)) => Some(Identity { cert, key }),
        (None, None) => None,
        _ => return Err(fault("`cert` and `key` belong together".to_owned())),
    };
    ClientTls::load(path("ca"), identity, inside).map_err(|error| fault(causes(&error)))
}

fn carrier_name(carrier: Transport) -> &'static str {
    match carrier {
        Transport::Http | Transport::Https => "mediocre-rpc over HTTP",
        Transport::Tls => "TLS",
        Transport::Tcp => "TCP",
        Transport::Quic => "QUIC",
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
        toolbus_proto::oracle::WIRE => "the oracle's wire",
        toolbus_proto::mediocre::WIRE => "the mediocre wire",
        toolbus_proto::mcp::WIRE => "the MCP wire",
        crate::address::ORCHESTRA => "the Orchestra wire",
        crate::address::ORCHARD => "the Orchard wire",
        crate::address::GODEX => "the godex wire",
        _ => "this wire",
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
    /// The files for TLS are not as they should be.
    #[error("cannot open `{address}`: {why}")]
    Tls {
        /// What was to be opened.
        address: Address,
        /// What is wrong.
        why: String,
    },
    /// The path can stand in no request.
    #[error("cannot open `{address}`: its path can stand in no request")]
    Path {
        /// What was to be opened.
        address: Address,
    },
    /// An MCP server cannot be called as it is set up.
    #[cfg(feature = "http")]
    #[error("cannot open `{address}`: {error}")]
    McpHttp {
        /// What was to be opened.
        address: Address,
        /// What is wrong with it.
        error: mcp_http::OptionsError,
    },
    /// Whoever may use the shell has to say so.
    #[error("`shell:` is off: whoever calls it can run any command")]
    ShellIsOff,
}

impl OpenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenError::NotYet { .. }
            | OpenError::Signature { .. }
            | OpenError::Path { .. }
            | OpenError::Tls { .. } => None,
            #[cfg(feature = "http")]
            OpenError::McpHttp { error, .. } => error.hint(),
            OpenError::ShellIsOff => {
                Some("allow it by `--allow-shell`, or `allow_shell = true` in the config".into())
            }
        }
    }
}
