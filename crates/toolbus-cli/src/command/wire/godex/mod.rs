//! `toolbus exec`, also `godex exec`: a model's answer as a stream of JSON lines or text.

mod consent;
mod credential;
mod files;
mod plan;
mod run;
mod screen;
mod tour;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::peer::decode::Decoding;
use toolbus::wire::godex::{Captured, WIRE};
use toolbus_proto::godex::RunError;
use toolbus_proto::tool::Wire;

use super::{Ends, Run, WireFace};
use crate::args::groups::{self, Group};
use crate::args::peer::{FrontArgs, HttpArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::command::decode::Side;
use crate::failed::Failed;

/// The godex wire on the command line.
pub(super) static FACE: Face = Face;

pub(super) struct Face;

impl WireFace for Face {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn name(&self) -> &'static str {
        "exec"
    }

    fn group(&self) -> &'static Group {
        &groups::SCENARIOS
    }

    fn command(&self) -> clap::Command {
        ExecArgs::augment_args(clap::Command::new(self.name()))
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(ExecArgs::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        DecodeArgs::augment_args(clap::Command::new("godex"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let args = DecodeArgs::from_arg_matches(matches)?;
        match args.side {
            Side::Response => Ok(Box::new(Captured::new(args.events == Events::All))),
            Side::Call => {
                let kind = clap::error::ErrorKind::ValueValidation;
                let why = "`--as call` cannot be read: what a caller says are the arguments of a \
                           process, and no bytes; give `--as response`";
                Err(clap::Error::raw(kind, why))
            }
        }
    }

    fn check_target(&self) -> &'static str {
        "a `godex exec` program by its command, which is run with `--mock`"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["godex ./my-godex", "godex 'toolbus exec'"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("godex")
    }

    fn ends(&self) -> Option<&'static dyn Ends> {
        Some(&tour::Tour)
    }

    /// A usage error is an event like any other.
    fn complaint(&self, words: &[OsString], failed: &Failed) -> Option<String> {
        let mut words = words.iter().skip(1);
        let is_json = |word: &OsString| word == "--json" || word == "--json=true";
        let is_ours = words.any(|word| word == "exec") && words.any(is_json);
        let message = &failed.report.as_ref()?.message;
        let line = RunError::usage(message.clone()).line();
        is_ours.then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

impl Run for ExecArgs {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        run::run(self, globals)
    }
}

/// Which events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Events {
    Required,
    All,
}

/// Show what a captured answer of a server says
///
/// Standard input is a stream of server-sent events, as a server of the Responses API wrote it.
/// Out come the lines that `toolbus exec --json` would print of it, and the exit code is the one
/// it would end with.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:
  curl -N … | toolbus decode godex --as response")]
pub(crate) struct DecodeArgs {
    /// Who wrote it: only `response`, the server, can be read
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
    /// Which events: `required`, those that the document knows, or `all`
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value = "required",
        hide_possible_values = true
    )]
    pub(crate) events: Events,
}

/// Ask a model, and let it use your tools
///
/// One request goes to a server that speaks the Responses API, and its answer comes out as it is
/// made: as text, or with `--json` as lines of JSON, one event each and exactly one terminal line,
/// `response.completed` or `error`. The exit code is 0 if and only if the answer is complete.
///
/// With `--tools-from` or `--bus` the model may call every tool that toolbus can reach. What it
/// asks for is run, several at once if it likes, and the outputs go back to it, until it is done
/// or has had its turns. Without, its calls are told and not run. `--allow` offers it fewer tools,
/// `--ask` asks you before one runs that may change something, and a peer that cannot be reached is
/// left out with a warning, as long as there is another.
///
/// The key is `OPENAI_API_KEY`, or comes from a file of credentials; a server on this machine
/// needs none, and `--mock` needs no server at all.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus exec 'Why is the sky blue?'
  toolbus exec --json --prompt hi --mock --mock-mode text
  toolbus exec --tools-from builtin: 'What is 17 times 23?'
  toolbus exec --bus --allow 'files.read_*' --allow 'web.*' --ask 'What changed this week?'
  git diff | toolbus exec --system 'Review this diff.' -")]
pub(crate) struct ExecArgs {
    /// What to ask; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// The same as PROMPT, whatever it begins with
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, overrides_with = "prompt")]
    prompt: Option<String>,
    /// Model to ask
    #[arg(long, value_name = "NAME", default_value = toolbus_proto::godex::Request::MODEL,
          overrides_with = "model")]
    model: String,
    /// System prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, overrides_with = "instructions")]
    instructions: Option<String>,
    /// The same as --instructions
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, overrides_with = "system")]
    system: Option<String>,
    /// Text behind the system prompt
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        overrides_with = "append_system_prompt"
    )]
    append_system_prompt: Option<String>,
    /// Conversation so far, a file with a JSON array of input items, in place of a prompt
    #[arg(long, value_name = "FILE", overrides_with = "input_json")]
    input_json: Option<String>,
    /// Image to show it, PNG, JPEG, GIF or WebP; may repeat
    #[arg(long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Function to offer, `name:json=FILE` or `name:inline=SCHEMA`, which toolbus does not run; may repeat
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
    /// Let the model search the web
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", overrides_with = "web_search", hide_possible_values = true)]
    web_search: Option<bool>,
    /// What the model must call: `auto`, `none`, `required` or `function:NAME`
    #[arg(long, value_name = "CHOICE", overrides_with = "tool_choice")]
    tool_choice: Option<String>,
    /// Whether the model may call several tools at once
    #[arg(
        long,
        value_name = "BOOL",
        overrides_with = "parallel_tool_calls",
        hide_possible_values = true
    )]
    parallel_tool_calls: Option<bool>,
    /// Peer whose tools the model may call, e.g. `builtin:`; may repeat
    #[arg(long = "tools-from", value_name = "ADDRESS")]
    tools_from: Vec<String>,
    /// Let the model call the tools of the config
    #[arg(long)]
    bus: bool,
    /// Offer only tools whose names match, e.g. `read_*`; may repeat [default: all]
    #[arg(long = "allow", value_name = "GLOB")]
    allow: Vec<String>,
    /// Ask at the terminal before a tool runs that does not say of itself that it changes nothing
    #[arg(long)]
    ask: bool,
    /// Give up when the model still asks for tools after so many requests
    #[arg(long, value_name = "N", default_value = "8", overrides_with = "max_turns",
          value_parser = from_1::<u32>, allow_negative_numbers = true)]
    max_turns: u32,
    /// Give up on a tool after this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "60s",
          allow_negative_numbers = true, overrides_with = "tool_timeout")]
    tool_timeout: Duration,
    /// Which events `--json` prints: `required`, those that the document knows, or `all`, with the
    /// outputs of tools among them
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        default_value = "required",
        overrides_with = "events",
        hide_possible_values = true
    )]
    events: Events,
    /// Print lines of JSON instead of text
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", overrides_with = "json", hide_possible_values = true)]
    json: Option<bool>,
    /// Show every event of the server as it came, on standard error
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", overrides_with = "trace", hide_possible_values = true)]
    trace: Option<bool>,
    /// File for the bodies of requests, a line each
    #[arg(long, value_name = "FILE", overrides_with = "log_requests")]
    log_requests: Option<PathBuf>,
    /// File to which the lines of `--json` are appended
    #[arg(long, value_name = "FILE", overrides_with = "log_responses")]
    log_responses: Option<PathBuf>,
    /// File for the last message of the answer
    #[arg(long, value_name = "FILE", overrides_with = "output_last_message")]
    output_last_message: Option<PathBuf>,
    /// JSON Schema that the answer must fulfil
    #[arg(long, value_name = "FILE", overrides_with = "output_schema")]
    output_schema: Option<PathBuf>,
    /// How hard the model shall think, e.g. `low`
    #[arg(long, value_name = "WORD", overrides_with = "reasoning_effort")]
    reasoning_effort: Option<String>,
    /// How long the answer may be
    #[arg(long, value_name = "N", overrides_with = "max_output_tokens",
          value_parser = from_1::<u64>, allow_negative_numbers = true)]
    max_output_tokens: Option<u64>,
    /// How much the model may vary its answer: 0 is least
    #[arg(long, value_name = "X", allow_negative_numbers = true, overrides_with = "temperature")]
    temperature: Option<String>,
    /// Session, by which the server finds what it has cached [default: a fresh one]
    #[arg(long, value_name = "ID", overrides_with = "session_id")]
    session_id: Option<String>,
    /// Server to ask [default: OPENAI_BASE_URL, or https://api.openai.com/v1]
    #[arg(long, value_name = "URL", overrides_with = "base_url")]
    base_url: Option<String>,
    /// File of credentials [default: $CODEX_HOME/auth.json]
    #[arg(long, value_name = "FILE", overrides_with = "auth_file")]
    auth_file: Option<PathBuf>,
    /// Renew tokens that have expired, and rewrite their file
    #[arg(long)]
    allow_refresh: bool,
    /// Give up on all of it after this long [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true,
          overrides_with = "timeout")]
    timeout: Option<Duration>,
    /// Give up when the server is silent for this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "120s",
          allow_negative_numbers = true, overrides_with = "idle_timeout")]
    idle_timeout: Duration,
    /// How often a request that failed is made again
    #[arg(long, value_name = "N", default_value = "3", overrides_with = "retries",
          value_parser = from_0, allow_negative_numbers = true)]
    retries: u32,
    /// Ask no server: a mock stands in for it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", overrides_with = "mock", hide_possible_values = true)]
    mock: Option<bool>,
    /// What the mock does: `echo`, `text`, `tool-call` or `tool-loop`
    #[arg(long, value_name = "MODE", overrides_with = "mock_mode")]
    mock_mode: Option<String>,
    /// Print the body of the first request and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    allow_shell: bool,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    seen: ViewArgs,
    #[command(flatten)]
    front: FrontArgs,
}

fn from_0(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no count: give a whole number, 0 for none"))
}

fn from_1<N: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let count = text.parse().ok().filter(|count| N::from(1) <= *count);
    count.ok_or_else(|| format!("`{text}` is no count: give a whole number, 1 or more"))
}
