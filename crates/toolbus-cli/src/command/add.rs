//! `toolbus add`: one more back in the config, tried before it is written.

mod registry;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use toolbus::address::Address;
use toolbus::bus::config::looked::Looked;
use toolbus::bus::config::{BackConfig, Config};
use toolbus::peer::{PeerKind, Registry};
use toolbus_engine::child::words;
use toolbus_engine::secrets::masked;
use toolbus_proto::edit::toml::{CannotEdit, TablePlace, Tables};
use toolbus_proto::limit;
use toolbus_proto::registry::Reached;
use toolbus_proto::tool::{Deadline, Wire};

use super::config::SCHEMA;
use super::tools::unreachable;
use super::wire::{self, WireFace};
use crate::args::{Globals, value};
use crate::clients::ClientPeer;
use crate::config;
use crate::edited::{self, EditedFile, Mode};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::{Peers, no_address, say_how_to_reload, with_meant_or_bare};
use crate::render::{self, printable};
use crate::stderr;

/// How long a server whose start is bounded has to list its tools once it has started.
const AFTER_START: Duration = Duration::from_secs(5);
/// So many tools are named.
const NAMED_MAX: usize = 8;
/// The family of tables that is added to.
pub(super) const FAMILY: &str = "back";

/// Add a back to the config
///
/// NAME is what it is called, and behind it stands its address, or behind `--` the command that
/// starts it. It is started once as the config would start it, asked for its tools and stopped; if
/// that fails nothing is written. What a command speaks is found out on the way.
///
/// SERVER, a name as `io.github.x/y`, is looked up in a registry of MCP servers: its package is run by
/// `npx`, `uvx` or `docker`, or its URL called. What it needs and nobody gives is a variable of the
/// same name; a document never chooses the program that is run.
///
/// The table is written behind the last back of the config; every other byte of the file stays. If
/// there is no config here or above, `toolbus.toml` is made here.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "toolbus add [OPTIONS] NAME -- COMMAND [ARG]...\n       toolbus add [OPTIONS] NAME ADDRESS\n       toolbus add [OPTIONS] SERVER",
    after_long_help = "Examples:
  toolbus add weather -- python3 weather.py
  toolbus add --env 'KEY=${WEATHER_KEY}' weather -- npx -y weather-server
  toolbus add tools https://tools.example/path --token-env TOOLS_TOKEN
  toolbus add io.github.example/weather --set units=metric"
)]
pub(crate) struct AddArgs {
    /// What it is called; or a server of a registry
    #[arg(value_name = "NAME")]
    word: String,
    /// Its address, in place of a command
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// The command that starts it
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
    /// Set this variable for it; `${NAME}` in it is one of ours; may repeat
    #[arg(long = "env", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// Pass this variable of ours on to it; may repeat
    #[arg(long, value_name = "NAME")]
    env_pass: Vec<String>,
    /// Send this header field with every request; may repeat
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Environment variable that holds the token to show to it
    #[arg(long, value_name = "VAR")]
    token_env: Option<String>,
    /// Only this tool of it may be called; may repeat
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// How long a call may be quiet, e.g. `30s`
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// How long until it must be ready; bounds the try, too
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    start_timeout: Option<Duration>,
    /// What the command speaks, by the name of its protocol [default: as it turns out]
    #[arg(long, value_name = "WIRE")]
    wire: Option<String>,
    #[command(flatten)]
    registry: registry::RegistryArgs,
    /// Write it without having started it
    #[arg(long)]
    no_try: bool,
    /// Replace the back of that name
    #[arg(long)]
    force: bool,
    /// Show the change as a diff, and neither start nor write anything
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &AddArgs, globals: &Globals) -> Result<(), Failed> {
    let wanted = args.wanted()?;
    check_name(&wanted.peer.name)?;
    let file = config_file(globals)?;
    let is_there = tables(&file)?.has(FAMILY, &wanted.peer.name);
    if is_there && !args.force {
        let message = format!("`{}` has a back `{}` already", file.shown, wanted.peer.name);
        return Err(Failed::usage(message).hint("`--force` replaces it"));
    }
    let text = changed(&file, &wanted, &wanted.connect)?;
    let looked = looked_at(&file, &text)?;
    for secret in &wanted.secrets {
        tracing::warn!("`{secret}` is a secret, and stands in `{}` now", file.shown);
    }
    let tried = match not_tried(args, &wanted, &looked) {
        Some(why) => {
            if !why.is_empty() {
                stderr::write(&format!("note: not tried: {why}\n"));
            }
            None
        }
        None => {
            if let Some(will) = &wanted.will {
                stderr::write(&printable(&masked(will)));
            }
            match attempt(args, &wanted, &looked, globals)? {
                Attempt::Answered(tried) => Some(tried),
                Attempt::NeedsSignIn { login } => {
                    let paint = globals.color.paint(&std::io::stderr());
                    let hint = paint.hint("hint:");
                    let note = "note: not tried: it needs a sign-in";
                    stderr::write(&format!("{note}\n{hint} `{login}`\n"));
                    None
                }
            }
        }
    };
    let wire = tried.as_ref().map(|tried| tried.wire);
    let connect = wanted.spelled_out(wire);
    let new = changed(&file, &wanted, &connect)?;
    if args.dry_run {
        return render::print(&file.diff(&new));
    }
    let is_private = !wanted.secrets.is_empty() || wanted.has_secrets && file.text.is_none();
    file.write(&new, if is_private { Mode::Secret } else { Mode::Usual })?;
    let (wanted, tried, connect) = (&wanted, tried.as_ref(), &*connect);
    let added = Added { wanted, is_there, connect, tried, looked: &looked };
    render::print(&match globals.json {
        true => added.to_json(globals),
        false => added.told(&file),
    })?;
    say_how_to_reload(Path::new(&file.shown), globals);
    Ok(())
}

/// Is it a name that a back may have?
fn check_name(name: &str) -> Result<(), Failed> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name != "toolbus" && name.chars().all(is_letter) {
        true => Ok(()),
        false => Err(Failed::usage(format!("`{name}` is no name of a back"))
            .hint("letters, digits, `_` and `-`")),
    }
}

/// What is to be written.
struct WantedBack {
    peer: ClientPeer,
    /// Its address, without a scheme where that is to be found out.
    connect: String,
    /// What is given for it can be secret.
    has_secrets: bool,
    /// The secrets of a server of a registry that are given.
    secrets: Vec<String>,
    /// What stands above its table.
    comment: Option<String>,
    /// What the user is told before a program is started that a registry has chosen.
    will: Option<String>,
}

impl AddArgs {
    fn wanted(&self) -> Result<WantedBack, Failed> {
        if self.address.is_none() && self.command.is_empty() && registry::is_server(&self.word) {
            return self.of_registry();
        }
        check_name(&self.word)?;
        self.registry.check_unused()?;
        let connect = match (&self.address, self.command.as_slice()) {
            (None, []) => {
                let name = &self.word;
                return Err(Failed::usage(format!("`{name}` alone says not what to add"))
                    .hint(format!("toolbus add {name} -- COMMAND, or toolbus add {name} URL")));
            }
            (Some(address), []) => {
                let parsed = Address::parse(address);
                if parsed.as_ref().is_ok_and(Address::is_bare) || !address.contains(':') {
                    let name = &self.word;
                    return Err(Failed::usage(format!("`{address}` is no address")).hint(format!(
                        "write a command behind `--`: toolbus add {name} -- {address}"
                    )));
                }
                parsed.map_err(|error| no_address(&error))?;
                if self.wire.is_some() {
                    return Err(Failed::usage("`--wire` is for a command")
                        .hint("the scheme of an address says what is spoken there"));
                }
                address.clone()
            }
            (None, command) => {
                let words: Vec<_> = command.iter().map(|word| words::quoted(word)).collect();
                let words = words.join(" ");
                match &self.wire {
                    Some(wire) => with_scheme(wire, &words)?,
                    None => words,
                }
            }
            (Some(address), _) => {
                return Err(Failed::usage(format!("`{address}` is one word too many"))
                    .hint("give an address or a command, not both"));
            }
        };
        self.wanted_as(self.word.clone(), connect)
    }

    /// What the flags say of a back of this name at this address.
    fn wanted_as(&self, name: String, connect: String) -> Result<WantedBack, Failed> {
        let (env, headers) = (last_of_each(self.env()?), last_of_each(self.headers()?));
        let is_secret = |(_, value): &(String, String)| {
            !(value.starts_with("${") && value.find('}') == Some(value.len() - 1))
        };
        let has_secrets = env.iter().chain(&headers).any(is_secret);
        let peer = ClientPeer {
            name,
            env,
            env_pass: self.env_pass.clone(),
            headers,
            token_env: self.token_env.clone(),
            allow: (!self.allow.is_empty()).then(|| self.allow.clone()),
            timeout: self.timeout,
            start_timeout: self.start_timeout,
            ..ClientPeer::default()
        };
        Ok(WantedBack {
            peer,
            connect,
            has_secrets,
            secrets: Vec::new(),
            comment: None,
            will: None,
        })
    }

    /// The same of a server that a registry describes.
    fn of_registry(&self) -> Result<WantedBack, Failed> {
        if self.wire.is_some() {
            return Err(Failed::usage("`--wire` is for a command")
                .hint("servers of a registry all speak the same"));
        }
        let named: Vec<String> = self.env()?.into_iter().map(|(name, _)| name).collect();
        let found = self.registry.found(&self.word, &named)?;
        let words = |words: &[String]| {
            words.iter().map(|word| words::quoted(word)).collect::<Vec<_>>().join(" ")
        };
        let connect = match &found.described.reached {
            Reached::Command(command) => with_scheme(usual_wire(), &words(command))?,
            Reached::Url { url, is_sse: false } => url.clone(),
            Reached::Url { url, is_sse: true } => url
                .replacen("https://", &format!("{}+sses://", usual_wire()), 1)
                .replacen("http://", &format!("{}+sse://", usual_wire()), 1),
        };
        let mut wanted = self.wanted_as(found.name, connect)?;
        // What the user says goes before what the registry does.
        wanted.peer.env = last_of_each([found.described.env, wanted.peer.env].concat());
        let headers = [found.described.headers, wanted.peer.headers].concat();
        wanted.peer.headers = last_of_each(headers);
        wanted.secrets = found.described.secrets;
        wanted.comment = Some(found.comment);
        wanted.will = Some(match &found.described.reached {
            Reached::Command(command) => format!("will run: {}\n", words(command)),
            Reached::Url { url, .. } => format!("will call: {url}\n"),
        });
        Ok(wanted)
    }

    fn env(&self) -> Result<Vec<(String, String)>, Failed> {
        let var = |text: &String| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failed::usage("`--env` needs a name, a `=` and a value")
                .hint("write `--env NAME=VALUE`; `--env-pass NAME` passes on one of ours")),
        };
        self.vars.iter().map(var).collect()
    }

    fn headers(&self) -> Result<Vec<(String, String)>, Failed> {
        let header = |text: &String| match text.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(Failed::usage("`--header` needs a name, a `:` and a value")
                .hint("write `--header 'NAME: VALUE'`")),
        };
        self.headers.iter().map(header).collect()
    }
}

/// Of values with one name the last, where the first stands.
fn last_of_each(pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut each: Vec<(String, String)> = Vec::new();
    for (name, value) in pairs {
        match each.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => each.push((name, value)),
        }
    }
    each
}

impl WantedBack {
    fn table(&self, connect: &str) -> String {
        let table = ClientPeer { connect: connect.to_owned(), ..self.peer.clone() }.to_toml();
        let comment = self.comment.as_ref().map(|comment| format!("# {comment}\n"));
        comment.unwrap_or_default() + &table
    }

    /// The address with its scheme. A command that was not tried speaks what most speak.
    fn spelled_out(&self, wire: Option<Wire>) -> String {
        if !Address::parse(&self.connect).is_ok_and(|address| address.is_bare()) {
            return self.connect.clone();
        }
        let wire = wire.map_or_else(usual_wire, Wire::name);
        with_scheme(wire, &self.connect).unwrap_or_else(|_| self.connect.clone())
    }
}

/// What most servers speak: those that editors start.
fn usual_wire() -> &'static str {
    let mut faces = wire::faces();
    let usual = faces.find(|face| face.client_configs().is_some());
    usual.map_or("", |face| WireFace::wire(face).name())
}

/// The address of a command that speaks this wire.
fn with_scheme(wire: &str, words: &str) -> Result<String, Failed> {
    with_words(wire, words).ok_or_else(|| {
        let is_spoken = |kind: &&dyn PeerKind| with_words(kind.name(), "x").is_some();
        let registry = Registry::default();
        let known: Vec<_> = registry.wires().filter(is_spoken).map(PeerKind::name).collect();
        Failed::usage(format!("no command speaks `{wire}`"))
            .hint(format!("it can be {}", known.join(", ")))
    })
}

fn with_words(wire: &str, words: &str) -> Option<String> {
    let speaks = |text: &String| {
        Address::parse(text).is_ok_and(|address| address.kind().wire().name() == wire)
    };
    [format!("stdio:{words}"), format!("{wire}+stdio:{words}")].into_iter().find(speaks)
}

/// The config that is changed: the one that is meant, or a new one here.
pub(super) fn config_file(globals: &Globals) -> Result<EditedFile, Failed> {
    let path = globals.config.clone().or_else(config::usual);
    let path = path.unwrap_or_else(|| PathBuf::from(config::USUAL));
    let file = EditedFile::read(&path).map_err(Failed::usage)?;
    let begin = file.text.as_deref().unwrap_or_default().trim_start_matches('\u{feff}');
    if begin.trim_start().starts_with(['{', '/']) {
        let shown = &file.shown;
        return Err(Failed::usage(format!(
            "`{shown}` is the config of a client, and is not edited"
        ))
        .hint(format!("toolbus init --from {shown}")));
    }
    if let Some(text) = &file.text {
        looked_at(&file, text)?;
    }
    Ok(file)
}

pub(super) fn tables(file: &EditedFile) -> Result<Tables<'_>, Failed> {
    Tables::read(file.text.as_deref().unwrap_or_default()).map_err(|why| cannot_edit(why, file))
}

fn cannot_edit(why: CannotEdit, file: &EditedFile) -> Failed {
    Failed::usage(match why {
        CannotEdit::Syntax => format!("`{}` is not TOML", file.shown),
        CannotEdit::Inline => {
            format!("`{FAMILY}` is an inline table, and nothing can be added to it")
        }
    })
}

/// The text of the config with this table in it.
fn changed(file: &EditedFile, wanted: &WantedBack, connect: &str) -> Result<String, Failed> {
    let (place, name) = (TablePlace::BehindItsFamily, wanted.peer.name.as_str());
    let table = &wanted.table(connect);
    let Some(text) = &file.text else {
        return Ok(format!("#:schema {SCHEMA}\n\n{table}"));
    };
    let tables = Tables::read(text).map_err(|why| cannot_edit(why, file))?;
    let changed = match tables.has(FAMILY, name) {
        true => tables.replaced(FAMILY, name, table, place),
        false => tables.with(FAMILY, table, place),
    };
    changed.map_err(|why| cannot_edit(why, file))
}

/// A config with this text, all of whose mistakes are told.
fn looked_at(file: &EditedFile, text: &str) -> Result<Looked, Failed> {
    let folder = edited::absolute(Path::new(&file.shown));
    let folder = folder.parent().unwrap_or(Path::new(""));
    let mut looked = Looked::at(folder, text, &|name| std::env::var(name).ok());
    looked.start_programs_in(folder);
    let told = |remark: &toolbus::bus::config::looked::Remark| {
        let line = remark.line.map(|line| format!(" line {line}:")).unwrap_or_default();
        Failed::usage(format!("`{}`{line} {}", file.shown, remark.message))
            .hint_if_any(remark.hint.clone())
    };
    match looked.mistakes.is_empty() {
        true => Ok(looked),
        false => Err(Failed::several(looked.mistakes.iter().map(told).collect())),
    }
}

/// Why it is not started; nothing to say if that was asked for.
fn not_tried(args: &AddArgs, wanted: &WantedBack, looked: &Looked) -> Option<String> {
    if args.no_try || args.dry_run {
        return Some(String::new());
    }
    let missing = missing(wanted, looked);
    let named: Vec<_> = missing.iter().map(|name| format!("`{name}`")).collect();
    match named.as_slice() {
        [] => {
            let own = format!("back.{}.", wanted.peer.name);
            let is_own = |key: &str| key.starts_with(&own);
            let lacks = looked.warnings.iter().find(|it| it.key.as_deref().is_some_and(is_own));
            lacks.map(|remark| remark.message.clone())
        }
        [only] => Some(format!("{only} is not set")),
        several => Some(format!("{} are not set", several.join(", "))),
    }
}

/// The variables that it asks for and that are not set.
fn missing(wanted: &WantedBack, looked: &Looked) -> Vec<String> {
    let own = format!("back.{}.", wanted.peer.name);
    let mut missing: Vec<String> = Vec::new();
    for remark in &looked.warnings {
        let is_own = remark.key.as_deref().is_some_and(|key| key.starts_with(&own));
        if let Some(name) = remark.variable.as_ref().filter(|_| is_own)
            && !missing.contains(name)
        {
            missing.push(name.clone());
        }
    }
    missing
}

/// What came of starting it.
enum Attempt {
    Answered(Tried),
    /// It is there, and wants to know first who asks.
    NeedsSignIn {
        /// The command that signs in.
        login: String,
    },
}

/// What a back has that was tried.
struct Tried {
    wire: Wire,
    tools: Vec<String>,
    /// What it has besides, by kind.
    others: Vec<(&'static str, usize)>,
}

/// Starts it once, asks it, and stops it.
fn attempt(
    args: &AddArgs,
    wanted: &WantedBack,
    looked: &Looked,
    globals: &Globals,
) -> Result<Attempt, Failed> {
    let name = &wanted.peer.name;
    let back = looked.config.backs.iter().find(|back| back.name == *name);
    let Some(back) = back else { return Err(Failed::usage("there is nothing to try")) };
    let mut config = Config::default();
    // What it has besides is asked of all of it.
    config.backs.push(BackConfig { allow: None, ..back.clone() });
    let is_bare = back.address.is_bare();
    // A start that takes too long is told as such: what bounds all of the try ends later.
    let total = args.start_timeout.map(|start| start + AFTER_START);
    let peers = Peers::of_config(config, globals).within(total);
    let peers = if is_bare { peers.knowing_wires() } else { peers };
    let deadline = Deadline { total, ..Deadline::never(Instant::now()) };
    let tried = peers.meet(async |bus| {
        let listed = bus.list_by(deadline).await;
        let Some(listed) = listed.first() else { return Err(Failed::quietly(Exit::Failed)) };
        if let Some(login) = listed.tools.as_ref().err().and_then(limit::login_of) {
            return Ok(Attempt::NeedsSignIn { login });
        }
        let tools = listed.tools.as_ref().map_err(|failure| {
            let failure = with_meant_or_bare(&listed.address, failure.clone());
            unreachable(&listed.address, &failure)
        })?;
        let allowed = |name: &str| args.allow.is_empty() || args.allow.iter().any(|it| it == name);
        let names = tools.iter().map(|tool| tool.name.as_str()).filter(|name| allowed(name));
        let mut tools: Vec<_> = names.map(|tool| format!("{name}.{tool}")).collect();
        tools.sort();
        let wire = bus.backs().next().map_or(back.address.kind().wire(), |(_, wire)| wire);
        let face = wire::faces().find(|face| face.wire() == wire);
        let others = match face {
            Some(face) => face.has_besides(&bus, &peers, globals).await,
            None => Vec::new(),
        };
        Ok(Attempt::Answered(Tried { wire, tools, others }))
    });
    tried.map_err(|failed| {
        let exit = failed.exit;
        failed.told(globals);
        if matches!(exit, Exit::Unreachable | Exit::TimedOut | Exit::Failed) {
            let paint = globals.color.paint(&std::io::stderr());
            let hint = paint.hint("hint:");
            stderr::write(&format!("{hint} `--no-try` adds it all the same\n"));
        }
        Failed::quietly(exit)
    })
}

/// What was done.
struct Added<'a> {
    wanted: &'a WantedBack,
    /// There was one of that name.
    is_there: bool,
    connect: &'a str,
    tried: Option<&'a Tried>,
    looked: &'a Looked,
}

impl Added<'_> {
    fn told(&self, file: &EditedFile) -> String {
        let name = &self.wanted.peer.name;
        let mut told = match self.is_there {
            true => format!("replaced {name} in {}", file.shown),
            false => format!("added {name} to {}", file.shown),
        };
        let Some(tried) = self.tried else { return told + "\n" };
        let all = std::iter::once(("tool", tried.tools.len())).chain(tried.others.iter().copied());
        let counted = all.filter(|(_, count)| 0 < *count).map(|(what, count)| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        });
        let counted: Vec<_> = counted.collect();
        told += &match counted.is_empty() {
            true => ": no tools\n".to_owned(),
            false => format!(": {}\n", counted.join(", ")),
        };
        if !tried.tools.is_empty() {
            let named = tried.tools.iter().take(NAMED_MAX);
            let named: Vec<_> = named.map(|tool| printable(tool).into_owned()).collect();
            told += &format!("  {}", named.join(", "));
            if NAMED_MAX < tried.tools.len() {
                told += &format!(", and {} more", tried.tools.len() - NAMED_MAX);
            }
            told.push('\n');
        }
        told
    }

    fn to_json(&self, globals: &Globals) -> String {
        let path = globals.config.clone().or_else(config::usual);
        let path = edited::absolute(&path.unwrap_or_else(|| PathBuf::from(config::USUAL)));
        let done = if self.is_there { "replaced" } else { "added" };
        let mut told = json!({
            done: self.wanted.peer.name,
            "config": path.display().to_string(),
            "connect": masked(self.connect),
            "tried": self.tried.is_some(),
        });
        if let Some(tried) = self.tried {
            told["tools"] = json!(tried.tools);
            for what in ["prompt", "resource"] {
                let count = tried.others.iter().find(|(other, _)| *other == what);
                told[format!("{what}s")] = json!(count.map_or(0, |(_, count)| *count));
            }
        }
        let missing = missing(self.wanted, self.looked);
        if !missing.is_empty() {
            told["missing"] = json!(missing);
        }
        format!("{told}\n")
    }
}
