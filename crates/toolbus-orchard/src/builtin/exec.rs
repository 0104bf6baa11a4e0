//! `builtin/exec`: commands of this machine, without a shell between.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use toolbus::child::{EnvPolicy, Program, SpawnError};
use toolbus::{Exit, Failure, Json, LocalFuture};

use super::command::{self, NotRun, Ran};
use super::{
    BYTES_MAX, Execute, Inside, attrs, causes, duration, execute_failed, resolved, unknown_action,
    with_detail,
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
    }
  },
  "extensions": ["parallel"]
}"#;

pub(super) struct Exec;

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
            let attrs: Attrs = attrs(&execute.attrs)?;
            let cwd = attrs.cwd.as_ref().map(|cwd| resolved(&execute.folder, cwd));
            match &*execute.action {
                "exec_run" => run(attrs, cwd).await,
                "exec_wait" => wait(attrs, cwd).await,
                other => Err(unknown_action(other)),
            }
        })
    }
}

async fn run(attrs: Attrs, cwd: Option<PathBuf>) -> Result<Json, Failure> {
    let timeout = attrs.timeout.as_deref().map(|text| duration("timeout", text)).transpose()?;
    let program = program(&attrs, cwd);
    let give_up = timeout.map(|timeout| Instant::now() + timeout);
    let ran = command::run(&program, attrs.stdin, give_up).await;
    let Ran { exit, stdout, stderr } = ran.map_err(|error| {
        let late = || format!("`{}` did not end within {}", attrs.command, shown(timeout));
        failure(&attrs.command, error, late)
    })?;
    if exit != Exit::Code(0) && !attrs.allow_failure {
        let message = format!("`{}` {}", attrs.command, ended(exit));
        return Err(with_detail(execute_failed(message), &command::last_lines(&stderr)));
    }
    Ok(Json::of(&serde_json::json!({
        "exit_code": code(exit),
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

fn program(attrs: &Attrs, cwd: Option<PathBuf>) -> Program {
    let words = std::iter::once(&attrs.command).chain(&attrs.args).cloned().collect();
    let vars = attrs.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Program { env: EnvPolicy::Inherit, vars, cwd, ..Program::new(words) }
}

fn failure(command: &str, error: NotRun, late: impl Fn() -> String) -> Failure {
    match error {
        NotRun::Spawn(error) => spawn_failure(&error),
        NotRun::Pipes(error) => execute_failed(format!("cannot watch `{command}`: {error}")),
        NotRun::TooLong(stderr) => {
            with_detail(execute_failed(late()), &command::last_lines(&stderr))
        }
        NotRun::TooMuch(stream) => {
            let wrote = format!("`{command}` wrote more than {BYTES_MAX} bytes");
            execute_failed(format!("{wrote} to its standard {stream}"))
        }
    }
}

fn spawn_failure(error: &SpawnError) -> Failure {
    let hint = error.to_failure().last_words.and_then(|words| words.hint);
    with_detail(execute_failed(causes(error)), &hint.unwrap_or_default())
}

fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with status {code}"),
        Exit::Signal(signal) => format!("was killed by signal {signal}"),
    }
}

/// As a shell tells how a program ended.
fn code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}

fn shown(timeout: Option<Duration>) -> String {
    timeout.map(|timeout| format!("{timeout:?}")).unwrap_or_default()
}
