//! Flags about the peers that a command calls: the surroundings of programs that are started, and
//! what goes with requests over HTTP.

use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use toolbus::address::Place;
use toolbus::bus::Bus;
use toolbus::bus::config::Config;
use toolbus::bus::searching::Search;
use toolbus::peer::settings::{Credentials, ProgramSettings, Secret, Settings};
use toolbus::peer::tls_files::TlsFiles;
use toolbus_engine::secrets;
use toolbus_proto::tool::Deadline;
use toolbus_proto::view::Pattern;

use super::value;
use crate::failed::Failed;

/// How long a command may take.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LimitArgs {
    /// Give up after this long in all, the start included, e.g. `90`, `500ms`
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Give up if a peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) start_timeout: Option<Duration>,
}

/// Whether the lock answers for the backs, or they themselves.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct FreshArgs {
    /// Open and ask all backs at the start, whatever `toolbus.lock` has of them
    #[arg(long)]
    pub(crate) fresh: bool,
}

/// Whether a `toolbus serve` of the same config may do the work.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct DaemonArgs {
    /// Start the peers ourselves, also where a `toolbus serve` of this config runs
    #[arg(long)]
    no_daemon: bool,
}

impl DaemonArgs {
    /// May it be asked, by the flags and the environment?
    pub(crate) fn may_be_asked(self) -> bool {
        let is_off = env::var_os("TOOLBUS_NO_DAEMON").is_some_and(|value| !value.is_empty());
        !self.no_daemon && !is_off
    }
}

/// What a command that is a front itself offers.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FrontArgs {
    /// List few tools and let callers search for the others: `true`, `false`, or `auto` if there are
    /// more than 100 [default: as the view says, else false]
    #[arg(long, value_name = "WHEN", value_parser = search)]
    search: Option<Search>,
    /// List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may repeat
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    always: Vec<Pattern>,
    #[command(flatten)]
    pub(crate) fresh: FreshArgs,
}

impl FrontArgs {
    /// The bus as this front offers it.
    pub(crate) fn searched(&self, bus: Bus) -> Bus {
        let always = Some(&*self.always).filter(|always| !always.is_empty());
        bus.searched(self.search, always)
    }

    /// The flag that is given, if one is.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        match (self.search, self.always.is_empty(), self.fresh.fresh) {
            (Some(_), ..) => Some("--search"),
            (None, false, _) => Some("--always"),
            (None, true, true) => Some("--fresh"),
            (None, true, false) => None,
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::new(text);
    match pattern.can_match() {
        true => Ok(pattern),
        false => Err(format!("it can match no tool; write `{text}.*` for all tools of a back")),
    }
}

fn search(text: &str) -> Result<Search, String> {
    match text {
        "true" => Ok(Search::On),
        "false" => Ok(Search::Off),
        "auto" => Ok(Search::Auto),
        _ => Err("it must be `auto`, `true` or `false`".to_owned()),
    }
}

impl LimitArgs {
    /// When all must be done; the clock runs from now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline { total: self.timeout, ..Deadline::never(Instant::now()) }
    }
}

/// The surroundings of the programs that are started.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ProgramArgs {
    /// Set this variable for the programs that are started; may repeat
    #[arg(long = "env", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// Pass this variable of ours on to the programs that are started; may repeat
    #[arg(long, value_name = "NAME")]
    env_pass: Vec<String>,
}

impl ProgramArgs {
    /// Was one of them said?
    pub(crate) fn is_given(&self) -> bool {
        !self.vars.is_empty() || !self.env_pass.is_empty()
    }

    pub(crate) fn settings(&self) -> Result<ProgramSettings, Failed> {
        let var = |text: &String| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                if is_secret(name) {
                    secrets::hide(value);
                }
                Ok((name.to_owned(), Secret::new(value.to_owned())))
            }
            _ => Err(Failed::usage("`--env` needs a name, a `=` and a value")
                .hint("write `--env NAME=VALUE`; `--env-pass NAME` passes on one of ours")),
        };
        if let Some(name) = self.env_pass.iter().find(|name| name.contains('=')) {
            let name = name.split('=').next().unwrap_or_default();
            return Err(Failed::usage(format!("`--env-pass` takes the name alone: `{name}`"))
                .hint("`--env NAME=VALUE` sets a variable"));
        }
        Ok(ProgramSettings {
            env: self.vars.iter().map(var).collect::<Result<_, _>>()?,
            env_pass: self.env_pass.clone(),
            cwd: None,
        })
    }
}

/// Does a variable of this name hold a secret?
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"].iter().any(|word| name.contains(word))
}

/// Header fields of requests over HTTP.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HeaderArgs {
    /// Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

/// Whom we believe over TLS, and what we show there.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsArgs {
    /// Believe peers over HTTPS whose certificates come from the authority in this file, in place
    /// of the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show peers over HTTPS the certificate in this file
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// The file of its private key
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

impl TlsArgs {
    fn files(&self) -> TlsFiles {
        let TlsArgs { ca, client_cert, client_key } = self.clone();
        TlsFiles { ca, cert: client_cert, key: client_key }
    }
}

/// What goes with requests over HTTP.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HttpArgs {
    /// Environment variable that holds the token to show to peers over HTTP
    #[arg(long, value_name = "VAR")]
    token_env: Option<String>,
    #[command(flatten)]
    headers: HeaderArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

/// What goes with requests over HTTP, of commands whose `--token-env` is about their own callers.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BackHttpArgs {
    /// Environment variable that holds the token to show to peers over HTTP
    #[arg(long, value_name = "VAR")]
    back_token_env: Option<String>,
    #[command(flatten)]
    headers: HeaderArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

impl HeaderArgs {
    fn credentials(&self) -> Result<Credentials, Failed> {
        let header = |text: &String| {
            let wrong = || {
                Failed::usage("`--header` needs a name, a `:` and a value")
                    .hint("write `--header 'NAME: VALUE'`")
            };
            let (name, value) = text.split_once(':').ok_or_else(wrong)?;
            let name = name.trim();
            if name.is_empty() {
                return Err(wrong());
            }
            Ok((name.to_owned(), Secret::new(expanded(value.trim())?)))
        };
        let headers = self.headers.iter().map(header).collect::<Result<_, _>>()?;
        Ok(Credentials { headers, ..Credentials::default() })
    }
}

impl HttpArgs {
    /// Was one of them said?
    pub(crate) fn is_given(&self) -> bool {
        let TlsArgs { ca, client_cert, .. } = &self.tls;
        let is_tls = ca.is_some() || client_cert.is_some();
        is_tls || self.token_env.is_some() || !self.headers.headers.is_empty()
    }

    pub(crate) fn credentials(&self) -> Result<Credentials, Failed> {
        let tls = self.tls.files();
        Ok(Credentials { token_env: self.token_env.clone(), tls, ..self.headers.credentials()? })
    }
}

impl BackHttpArgs {
    pub(crate) fn credentials(&self) -> Result<Credentials, Failed> {
        let (token_env, tls) = (self.back_token_env.clone(), self.tls.files());
        Ok(Credentials { token_env, tls, ..self.headers.credentials()? })
    }
}

/// Flags about peers, refused by a command whose peers are those of the config: there each peer has
/// keys of its own, and a token for all of them would reach those that it is not for.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RefusedArgs {
    #[arg(long, value_name = "VAR", hide = true)]
    token_env: Option<String>,
    #[arg(long = "header", value_name = "NAME: VALUE", hide = true)]
    headers: Vec<String>,
    #[arg(long = "env", value_name = "NAME=VALUE", hide = true)]
    vars: Vec<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    env_pass: Vec<String>,
}

impl RefusedArgs {
    /// None of them was given, or which was and the key to write in its place.
    pub(crate) fn check(&self) -> Result<(), Failed> {
        let (flag, key) = if let Some(name) = &self.token_env {
            let key = format!(
                "write `token_env = \"{name}\"` under `[front.NAME]` to ask callers for it, or \
                 under `[back.NAME]` to show it to that peer"
            );
            ("--token-env", key)
        } else if !self.headers.is_empty() {
            ("--header", "write `headers = { NAME = \"VALUE\" }` under `[back.NAME]`".to_owned())
        } else if !self.vars.is_empty() {
            ("--env", "write `env = { NAME = \"VALUE\" }` under `[back.NAME]`".to_owned())
        } else if let Some(name) = self.env_pass.first() {
            ("--env-pass", format!("write `env_pass = [\"{name}\"]` under `[back.NAME]`"))
        } else {
            return Ok(());
        };
        let message = format!("`{flag}` has no place here: the backs are those of the config");
        Err(Failed::usage(message).hint(key))
    }
}

/// The text with `${NAME}` replaced by that variable. From now on the value is masked.
fn expanded(text: &str) -> Result<String, Failed> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, behind)) = behind.split_once('}') else { break };
        let value = env::var(name).map_err(|_| {
            Failed::usage(format!(
                "`--header` asks for the environment variable `{name}`, which is not set"
            ))
            .hint(format!("set it: `export {name}=…`"))
        })?;
        secrets::hide(&value);
        expanded.push_str(before);
        expanded.push_str(&value);
        rest = behind;
    }
    expanded.push_str(rest);
    secrets::hide(expanded.rsplit(' ').next().unwrap_or_default());
    Ok(expanded)
}

/// Adds what the command line says about all peers to what the config says about each.
pub(crate) fn add_to(config: &mut Config, settings: &Settings) {
    for back in &mut config.backs {
        if let Place::Command(_) = back.address.place() {
            let program = &mut back.settings.program;
            program.env.extend(settings.program.env.iter().cloned());
            program.env_pass.extend(settings.program.env_pass.iter().cloned());
        }
        back.settings.credentials = back.settings.credentials.and(&settings.credentials);
    }
}
