//! From the command line to a run: every check before anything is opened or started.

use std::path::Path;

use toolbus::peer::settings::Settings;
use toolbus_proto::godex::flags::{self, Image, SchemaFrom, ToolFlag};
use toolbus_proto::godex::mock::Mode;
use toolbus_proto::godex::{Request, RunError, RunSettings, Wanted, flags::message};
use toolbus_proto::json::Json;

use super::credential::{Access, base_url};
use super::files::{self, AtTheEnd};
use super::{Events, ExecArgs};
use crate::args::Globals;
use crate::args::view::ViewArgs;
use crate::command::call::question::can_be_answered;
use crate::config::{self, USUAL};
use crate::failed::Failed;
use crate::peers::Peers;

/// What is to be done.
pub(super) struct Plan {
    pub(super) settings: RunSettings,
    /// The choice, where the tools have to be known before it can be checked.
    pub(super) choice: Option<String>,
    /// Whose tools the model may call.
    pub(super) peers: Vec<Peers>,
    pub(super) auth_file: Option<std::path::PathBuf>,
    pub(super) log_requests: Option<std::fs::File>,
    pub(super) log_responses: Option<std::fs::File>,
    pub(super) last_message: Option<AtTheEnd>,
    pub(super) warnings: Vec<String>,
}

impl ExecArgs {
    pub(super) fn is_json(&self) -> bool {
        self.json.unwrap_or(false)
    }

    fn is_mock(&self) -> bool {
        self.mock.unwrap_or(false)
    }

    fn runs_tools(&self) -> bool {
        self.bus || !self.tools_from.is_empty()
    }
}

impl Plan {
    /// Checks and reads everything that the command line names. May read standard input.
    pub(super) async fn of(args: &ExecArgs, globals: &Globals) -> Result<Plan, RunError> {
        let mut warnings = Vec::new();
        let mock = mode(args)?;
        limits(args)?;
        let given_url = base_url(args)?;
        let mut request = shaped(args)?;
        request.input = input(args, &mut warnings).await?;
        tools(args, &mut request)?;
        let choice = choice(args, &mut request)?;
        let peers = peers(args, globals)?;
        request.output_schema = match &args.output_schema {
            Some(path) => Some(object(path)?),
            None => None,
        };
        let log_requests = args.log_requests.as_deref().map(|path| files::log(path, false));
        let log_responses = args.log_responses.as_deref().map(|path| files::log(path, true));
        let last_message = args.output_last_message.as_deref().map(AtTheEnd::open);
        let (log_requests, log_responses) = (log_requests.transpose()?, log_responses.transpose()?);
        let last_message = last_message.transpose()?;
        let access = match mock.is_some() || args.dry_run {
            true => Access::none(given_url)?,
            false => Access::find(args, given_url)?,
        };
        warnings.extend(access.warning);
        let is_json = args.is_json();
        let settings = RunSettings {
            request,
            wanted: Wanted {
                lines: is_json || log_responses.is_some(),
                all_events: args.events == Events::All,
                text: !is_json,
                refusals: true,
                last_message: last_message.is_some(),
                trace: args.trace.unwrap_or(false),
                items: false,
            },
            base_url: access.base_url,
            user_agent: format!("toolbus/{}", env!("CARGO_PKG_VERSION")),
            credential: access.credential,
            refresh_url: access.refresh_url,
            timeout: args.timeout,
            idle_timeout: args.idle_timeout,
            retries: args.retries,
            max_turns: args.max_turns,
            tool_timeout: args.tool_timeout,
            asks_user: args.ask,
            mock,
        };
        let auth_file = access.file;
        Ok(Plan {
            settings,
            choice,
            peers,
            auth_file,
            log_requests,
            log_responses,
            last_message,
            warnings,
        })
    }
}

fn usage<T>(checked: Result<T, String>) -> Result<T, RunError> {
    checked.map_err(RunError::usage)
}

fn mode(args: &ExecArgs) -> Result<Option<Mode>, RunError> {
    match (args.is_mock(), &args.mock_mode) {
        (false, Some(_)) => Err(RunError::usage("--mock-mode is of use only with --mock")),
        (false, None) => Ok(None),
        (true, mode) => {
            let name = mode.as_deref().unwrap_or_default();
            let mode = Mode::named(name).ok_or_else(|| {
                let known = "`echo`, `text`, `tool-call` and `tool-loop`";
                RunError::usage(format!("--mock-mode {name}: there are {known}"))
            });
            mode.map(Some)
        }
    }
}

/// What the model may do with tools, where it has any.
fn limits(args: &ExecArgs) -> Result<(), RunError> {
    if args.allow.iter().any(|pattern| pattern.trim().is_empty()) {
        return Err(RunError::usage("--allow is blank"));
    }
    let flag = match (args.allow.is_empty(), args.ask) {
        (false, _) => "--allow",
        (true, true) => "--ask",
        (true, false) => return Ok(()),
    };
    if !args.runs_tools() {
        return Err(RunError::usage(format!("{flag} is of use only with --tools-from or --bus")));
    }
    if args.ask && !can_be_answered() {
        let message = "--ask needs a terminal: there is nobody here who could answer its questions";
        return Err(RunError::usage(message));
    }
    Ok(())
}

/// All that the flags alone say about a request.
fn shaped(args: &ExecArgs) -> Result<Request, RunError> {
    let session_id = match &args.session_id {
        Some(id) => {
            usage(flags::session_id(id))?;
            id.clone()
        }
        None => fresh_session(),
    };
    let blank = |flag: &str| RunError::usage(format!("{flag} is blank"));
    if args.model.trim().is_empty() {
        return Err(blank("--model"));
    }
    if args.reasoning_effort.as_ref().is_some_and(|effort| effort.trim().is_empty()) {
        return Err(blank("--reasoning-effort"));
    }
    let instructions = flags::instructions(
        args.instructions.as_deref(),
        args.system.as_deref(),
        args.append_system_prompt.as_deref(),
    );
    let mut request = Request::new(session_id, Vec::new());
    request.model.clone_from(&args.model);
    request.instructions = usage(instructions)?;
    request.web_search = args.web_search.unwrap_or(false);
    request.parallel_tool_calls = args.parallel_tool_calls;
    request.reasoning_effort.clone_from(&args.reasoning_effort);
    request.max_output_tokens = args.max_output_tokens;
    request.temperature = usage(args.temperature.as_deref().map(flags::temperature).transpose())?;
    request.runs_tools = args.runs_tools();
    Ok(request)
}

/// A session that no other run has: a UUID of version 4.
fn fresh_session() -> String {
    let mut bytes = [0; 16];
    toolbus_proto::chance::Random::fill(&mut toolbus_engine::chance::OsRandom::new(), &mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

async fn input(args: &ExecArgs, warnings: &mut Vec<String>) -> Result<Vec<Json>, RunError> {
    let prompt = usage(flags::prompt(args.prompt.clone(), &args.words))?;
    if let Some(path) = &args.input_json {
        if !args.images.is_empty() {
            return Err(RunError::usage("--image and --input-json do not go together"));
        }
        if prompt.is_some() {
            warnings.push("--input-json is given, so the prompt is not used".to_owned());
        }
        let (named, text) = match path.as_str() {
            "-" => ("standard input", files::read_stdin().await?),
            path => (path, files::read_text(Path::new(path))?),
        };
        return usage(flags::input(named, &text));
    }
    let prompt = prompt.ok_or_else(|| RunError::usage(flags::NO_PROMPT))?;
    let images: Vec<_> = args.images.iter().map(|path| image(path)).collect::<Result<_, _>>()?;
    let prompt = match prompt.as_str() {
        "-" => flags::piped_prompt(&files::read_stdin().await?).to_owned(),
        _ => prompt,
    };
    match prompt.trim().is_empty() {
        true => Err(RunError::usage(flags::NO_PROMPT)),
        false => Ok(vec![message(&prompt, &images)]),
    }
}

fn image(path: &Path) -> Result<Image, RunError> {
    let shown = path.display();
    Image::of(&files::read(path)?)
        .ok_or_else(|| RunError::usage(format!("`{shown}` is no PNG, JPEG, GIF or WebP")))
}

fn tools(args: &ExecArgs, request: &mut Request) -> Result<(), RunError> {
    for value in &args.tools {
        let (name, schema) = match usage(ToolFlag::parse(value))? {
            ToolFlag::WebSearch => {
                request.web_search = true;
                continue;
            }
            ToolFlag::Function(name, SchemaFrom::File(path)) => (name, object(Path::new(&path))?),
            ToolFlag::Function(name, SchemaFrom::Inline(text)) => {
                let schema = usage(flags::object(&format!("--tool {value}"), &text))?;
                (name, schema)
            }
        };
        usage(flags::declare(&mut request.functions, value, name, schema))?;
    }
    Ok(())
}

fn object(path: &Path) -> Result<Json, RunError> {
    let named = path.display().to_string();
    usage(flags::object(&named, &files::read_text(path)?))
}

/// Where there is a bus, which functions there are is known later.
fn choice(args: &ExecArgs, request: &mut Request) -> Result<Option<String>, RunError> {
    let Some(value) = &args.tool_choice else { return Ok(None) };
    let choice = usage(flags::choice(value))?;
    if request.runs_tools {
        return Ok(Some(value.clone()));
    }
    usage(flags::check_choice(&choice, request))?;
    request.choice = choice;
    Ok(None)
}

fn peers(args: &ExecArgs, globals: &Globals) -> Result<Vec<Peers>, RunError> {
    let usage = |failed: Failed| RunError::usage(failed.message_and_hint());
    let settings = Settings {
        allow_shell: args.allow_shell,
        program: args.program.settings().map_err(usage)?,
        credentials: args.http.credentials().map_err(usage)?,
        ..Settings::default()
    };
    let mut peers = Vec::new();
    let mut add = |addresses: &[String], seen: &ViewArgs| {
        let read = Peers::of(addresses, globals, settings.clone());
        let named = |failed: Failed| {
            let hint = failed.report.as_ref().and_then(|report| report.hint.clone());
            RunError { hint: hint.map(Box::new), ..RunError::usage(failed.message()) }
        };
        let read = read.map_err(usage)?.fresh_if(args.front.fresh.fresh);
        peers.push(read.seen_as(seen).map_err(named)?);
        Ok::<_, RunError>(())
    };
    if let Some(flag) = args.seen.flag().or(args.front.flag()).filter(|_| !args.bus) {
        return Err(RunError::usage(format!("`{flag}` needs `--bus`")));
    }
    if !args.tools_from.is_empty() {
        add(&args.tools_from, &ViewArgs::default())?;
    }
    if args.bus {
        if globals.config.is_none() && config::usual().is_none() {
            let message = format!("--bus: there is no `{USUAL}` here; name a config by --config");
            return Err(RunError::usage(message));
        }
        add(&[], &args.seen)?;
    }
    Ok(peers)
}
