//! Flags about the peers that a command calls: the surroundings of programs that are started, and
//! what goes with requests over HTTP.

use std::env;
use std::time::{Duration, Instant};

use toolbus::address::Place;
use toolbus::bus::config::Config;
use toolbus::peer::settings::{Credentials, ProgramSettings, Secret, Settings};
use toolbus::secrets;
use toolbus_proto::tool::Deadline;

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

/// What goes with requests over HTTP.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HttpArgs {
    /// Environment variable that holds the token to show to peers over HTTP
    #[arg(long, value_name = "VAR")]
    token_env: Option<String>,
    #[command(flatten)]
    headers: HeaderArgs,
}

/// What goes with requests over HTTP, of commands whose `--token-env` is about their own callers.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BackHttpArgs {
    /// Environment variable that holds the token to show to peers over HTTP
    #[arg(long, value_name = "VAR")]
    back_token_env: Option<String>,
    #[command(flatten)]
    headers: HeaderArgs,
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
    pub(crate) fn credentials(&self) -> Result<Credentials, Failed> {
        Ok(Credentials { token_env: self.token_env.clone(), ..self.headers.credentials()? })
    }
}

impl BackHttpArgs {
    pub(crate) fn credentials(&self) -> Result<Credentials, Failed> {
        Ok(Credentials { token_env: self.back_token_env.clone(), ..self.headers.credentials()? })
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
