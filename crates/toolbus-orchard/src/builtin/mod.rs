//! The providers inside toolbus itself: `builtin/exec`, `builtin/http`, `builtin/postgres`.
//!
//! They have schemas like any other provider, and the host converts what goes in and comes out by
//! them. None of them is a process: what they start or open ends with them, at the latest when
//! the run does.

mod command;
mod exec;
mod http;
#[cfg(feature = "postgres")]
mod postgres;
mod service;
mod url;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use toolbus::{Code, Failure, FailureKind, Json, LocalFuture};
use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::schema::ProviderSchema;

/// How their sources begin.
pub const PREFIX: &str = "builtin/";

/// What an output or a body may hold.
const BYTES_MAX: usize = 16 << 20;

/// Their names, as they stand behind the prefix.
pub const NAMES: [&str; 3] = ["exec", "http", "postgres"];

/// The schema of the one of that name; `None` if there is none, or not in this build.
pub fn schema(name: &str) -> Option<ProviderSchema> {
    let text = match name {
        "exec" => exec::SCHEMA,
        "http" => http::SCHEMA,
        #[cfg(feature = "postgres")]
        "postgres" => postgres::SCHEMA,
        _ => return None,
    };
    let text = Json::parse(text.replace("VERSION", env!("CARGO_PKG_VERSION"))).ok()?;
    ProviderSchema::read(&text).ok().map(|(schema, _)| schema)
}

/// One action to execute.
#[derive(Debug, Clone)]
pub struct Execute {
    /// Which.
    pub action: String,
    /// What it gets, converted by the schema, defaults included.
    pub attrs: Json,
    /// The folder of the file that holds the action: relative paths begin there.
    pub folder: PathBuf,
}

/// A provider inside this process.
pub trait Inside {
    /// Takes its config, converted by the schema, defaults included.
    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>>;

    /// Executes an action and gives its outputs. Dropping the future ends what it does.
    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>>;

    /// Calls this with what its programs write, and what is odd about them.
    fn listen(&self, _hear: Hear) {}

    /// Ends what it has left running, and waits for that.
    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Kills what it has left running.
    fn kill(&self) {}
}

/// Who hears what is said besides answers.
pub type Hear = Rc<dyn Fn(&Notice)>;

/// The one of that name. Must be called inside a `LocalSet`.
pub fn open(name: &str) -> Option<Rc<dyn Inside>> {
    Some(match name {
        "exec" => Rc::new(exec::Exec::default()),
        "http" => Rc::new(http::Http::default()),
        #[cfg(feature = "postgres")]
        "postgres" => Rc::new(postgres::Postgres::default()),
        _ => return None,
    })
}

/// The action was tried and failed.
fn execute_failed(message: impl Into<String>) -> Failure {
    refused(FailureKind::Failed, "execute_failed", message)
}

/// The attributes make no sense together.
fn validation_failed(message: impl Into<String>) -> Failure {
    refused(FailureKind::InvalidArguments, "validation_failed", message)
}

/// As a provider refuses.
fn refused(kind: FailureKind, code: &str, message: impl Into<String>) -> Failure {
    let code = Some(Code::Word(code.to_owned()));
    Failure { code, from_peer: true, ..Failure::new(kind, message) }
}

fn with_detail(failure: Failure, detail: &str) -> Failure {
    let detail = (!detail.is_empty()).then(|| Json::of(detail));
    Failure { detail, ..failure }
}

fn unknown_action(action: &str) -> Failure {
    refused(FailureKind::UnknownTool, "unknown_action", format!("unknown action: {action}"))
}

/// Attributes that the host has converted: they can only be unfit by a mistake of our own.
fn attrs<'a, T: Deserialize<'a>>(json: &'a Json) -> Result<T, Failure> {
    json.read().map_err(|error| validation_failed(format!("attrs: {error}")))
}

/// A time such as `500ms`, `2s` or `1h30m`, in the attribute `name`.
fn duration(name: &str, text: &str) -> Result<Duration, Failure> {
    crate::duration::parse(text)
        .map_err(|error| validation_failed(format!("attrs.{name}: {error}")))
}

/// A path of a scenario, seen from the folder of its file.
fn resolved(folder: &Path, path: &str) -> PathBuf {
    folder.join(path).components().collect()
}

/// The text of an error with all that caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
