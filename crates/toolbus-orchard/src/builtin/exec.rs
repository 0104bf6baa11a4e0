//! `builtin/exec`: commands of this machine, without a shell between.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use toolbus::{Exit, Failure, Json, LocalFuture};
use toolbus_engine::child::{EnvPolicy, Program, SpawnError, shell};
use toolbus_proto::channel::Notice;

use super::command::{self, NotRun, Ran};
use super::service::{self, Services};
use super::{
    BYTES_MAX, Execute, Hear, Inside, attrs, causes, duration, execute_failed, resolved,
    unknown_action, with_detail,
};

pub(super) const SCHEMA: &str = r#"{
  "name": "exec", "version": "VERSION", "protocol": "1", "config": {},
  "actions": {
    "exec_run": {
      "description": "runs a command to its end",
      "attrs": {
        "command": {"type": "string", "required": true, "description": "the program, in PATH or by its path"},
        "args": {"type": "list(string)", "default": [], "description": "its arguments"},
        "env": {"type": "map(string)", "description": "variables added to our environment"},
        "cwd": {"type": "string", "description": "its working directory, else ours"},
        "stdin": {"type": "string", "description": "what it reads from standard input"},
        "timeout": {"type": "string", "description": "how long it may run, such as `2s`"},
        "allow_failure": {"type": "bool", "default": false, "description": "a status other than 0 is no failure"}
      },
      "outputs": {"type": "object({exit_code=number,stderr=string,stdout=string})"}
    },
    "exec_wait": {
      "description": "runs a command again and again until its status is 0",
      "attrs": {
        "command": {"type": "string", "required": true, "description": "the program, in PATH or by its path"},
        "args": {"type": "list(string)", "default": [], "description": "its arguments"},
        "env": {"type": "map(string)", "description": "variables added to our environment"},
        "cwd": {"type": "string", "description": "its working directory, else ours"},
        "stdin": {"type": "string", "description": "what it reads from standard input"},
        "interval": {"type": "string", "default": "500ms", "description": "the pause between two runs"},
        "timeout": {"type": "string", "default": "30s", "description": "how long to try, in all"}
      },
      "outputs": {"type": "object({attempts=number})"}
    },
    "exec_service": {
      "description": "starts a program that runs until the run ends and is stopped then, the last one first",
      "attrs": {
        "command": {"type": "list(string)", "required": true, "description": "the program, in PATH or by its path, and its arguments"},
        "env": {"type": "map(string)", "description": "variables added to our environment"},
        "cwd": {"type": "string", "description": "its working directory, else ours"},
        "ready": {"type": "object({http=optional(string),line=optional(string),tcp=optional(string)})", "description": "when it can be used: one of `tcp = \"HOST:PORT\"` (something listens there), `http = URL` (it answers with a status below 400) and `line = REGEX` (it has written such a line); else at once"},
        "ready_timeout": {"type": "string", "default": "30s", "description": "how long that may take"},
        "stop_timeout": {"type": "string", "default": "5s", "description": "how long it may take to end before it is killed"}
      },
      "outputs": {"type": "object({pid=number})"}
    }
  },
  "extensions": ["parallel"]
}"#;

#[derive(Default)]
pub(super) struct Exec {
    services: Services,
    hear: RefCell<Option<Hear>>,
}

#[derive(Debug, Deserialize)]
struct Attrs {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    stdin: Option<String>,
    interval: Option<String>,
    timeout: Option<String>,
    #[serde(default)]
    allow_failure: bool,
}

impl Inside for Exec {
    fn configure(&self, _config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move {
            let Execute { action, attrs: given, folder } = execute;
            let in_folder = |cwd: &Option<String>| cwd.as_ref().map(|cwd| resolved(&folder, cwd));
            if action == "exec_service" {
                let attrs: service::Attrs = attrs(&given)?;
                let cwd = in_folder(&attrs.cwd);
                return self.services.start(attrs, cwd, self.hear()).await;
            }
            let attrs: Attrs = attrs(&given)?;
            let cwd = in_folder(&attrs.cwd);
            match &*action {
                "exec_run" => run(attrs, cwd, &self.hear()).await,
                "exec_wait" => wait(attrs, cwd).await,
                other => Err(unknown_action(other)),
            }
        })
    }

    fn listen(&self, hear: Hear) {
        self.hear.replace(Some(hear));
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.services.stop())
    }

    fn kill(&self) {
        self.services.kill();
    }
}

impl Exec {
    fn hear(&self) -> Hear {
        self.hear.borrow().clone().unwrap_or_else(|| Rc::new(|_| {}))
    }
}

async fn run(attrs: Attrs, cwd: Option<PathBuf>, hear: &Hear) -> Result<Json, Failure> {
    let timeout = attrs.timeout.as_deref().map(|text| duration("timeout", text)).transpose()?;
    let program = program(&attrs, cwd);
    let give_up = timeout.map(|timeout| Instant::now() + timeout);
    let ran = command::run(&program, attrs.stdin, give_up).await;
    let Ran { exit, left_behind, stdout, stderr } = ran.map_err(|error| {
        let late = || format!("`{}` did not end within {}", attrs.command, shown(timeout));
        failure(&attrs.command, error, late)
    })?;
    if !left_behind.is_empty() {
        hear(&Notice::Warning(left_message(&attrs.command, &left_behind)));
    }
    if exit != Exit::Code(0) && !attrs.allow_failure {
        let message = format!("`{}` {}", attrs.command, ended(exit));
        return Err(with_detail(execute_failed(message), &command::last_lines(&stderr)));
    }
    Ok(Json::of(&serde_json::json!({
        "exit_code": shell::code(exit),
        "stderr": String::from_utf8_lossy(&stderr),
        "stdout": String::from_utf8_lossy(&stdout),
    })))
}

async fn wait(attrs: Attrs, cwd: Option<PathBuf>) -> Result<Json, Failure> {
    let timeout = duration("timeout", attrs.timeout.as_deref().unwrap_or("30s"))?;
    let interval = duration("interval", attrs.interval.as_deref().unwrap_or("500ms"))?;
    let program = program(&attrs, cwd);
    let give_up = Instant::now() + timeout;
    let late = || format!("`{}` did not succeed within {}", attrs.command, shown(Some(timeout)));
    for attempts in 1_u64.. {
        let ran = command::run(&program, attrs.stdin.clone(), Some(give_up)).await;
        let ran = ran.map_err(|error| failure(&attrs.command, error, late))?;
        if ran.exit == Exit::Code(0) {
            return Ok(Json::of(&serde_json::json!({ "attempts": attempts })));
        }
        let next = Instant::now() + interval;
        if give_up <= next {
            sleep_until(give_up).await;
            let detail = command::last_lines(&ran.stderr);
            return Err(with_detail(execute_failed(late()), &detail));
        }
        sleep_until(next).await;
    }
    Err(execute_failed(late()))
}

/// What a command left in the background, which is stopped with it.
fn left_message(command: &str, left: &[(String, i32)]) -> String {
    /// How many are named.
    const SHOWN_MAX: usize = 5;
    let shown = left.iter().take(SHOWN_MAX).map(|(name, pid)| format!("`{name}` (process {pid})"));
    let more = match left.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "`{command}` left {}{more} in the background, which ends with it: a program that shall \
         run until the run ends is an `exec_service`",
        shown.collect::<Vec<_>>().join(", ")
    )
}

fn program(attrs: &Attrs, cwd: Option<PathBuf>) -> Program {
    let words = std::iter::once(&attrs.command).chain(&attrs.args).cloned().collect();
    let vars = attrs.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Program { env: EnvPolicy::Inherit, vars, cwd, ..Program::new(words) }
}

fn failure(command: &str, error: NotRun, late: impl Fn() -> String) -> Failure {
    match error {
        NotRun::Spawn(error) => spawn_failure(&error),
        NotRun::TooLong(stderr) => {
            with_detail(execute_failed(late()), &command::last_lines(&stderr))
        }
        NotRun::TooMuch(stream) => {
            let wrote = format!("`{command}` wrote more than {BYTES_MAX} bytes");
            execute_failed(format!("{wrote} to its standard {stream}"))
        }
    }
}

pub(super) fn spawn_failure(error: &SpawnError) -> Failure {
    let hint = error.to_failure().last_words.and_then(|words| words.hint);
    with_detail(execute_failed(causes(error)), &hint.unwrap_or_default())
}

pub(super) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with status {code}"),
        Exit::Signal(signal) => format!("was killed by signal {signal}"),
    }
}

fn shown(timeout: Option<Duration>) -> String {
    timeout.map(|timeout| format!("{timeout:?}")).unwrap_or_default()
}
