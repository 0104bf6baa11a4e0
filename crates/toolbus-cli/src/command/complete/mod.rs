//! `toolbus complete`: what may follow on a command line, for the scripts of `toolbus completions`.
//!
//! Commands and flags are known; backs are read from the config; tools and their arguments are
//! asked of the one peer that the line names, which must answer soon.

mod line;

use std::ffi::OsString;
use std::time::Duration;

use toolbus::address::Address;
use toolbus::wire::settings::Settings;
use toolbus::wire::{PeerKind, Registry};
use toolbus_proto::json::Json;
use toolbus_proto::tool::ToolSpec;

use self::line::{BashLine, Line};
use crate::args::Globals;
use crate::command::wire::{Unfinished, completed};
use crate::config;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::{self, printable};
use crate::schema::Parameters;

/// How long a peer has to list its tools. Who waits for more types the name.
const PATIENCE: Duration = Duration::from_secs(2);

/// Print what may follow on a command line
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// Shell that asks: `bash`, `zsh` or `fish`
    shell: String,
    /// The words so far, `toolbus` first, the unfinished one last; for bash the line and the place
    /// of the cursor in it, and the letters that part words there
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// One thing that may follow.
pub(super) struct Candidate {
    value: String,
    help: String,
}

impl Candidate {
    fn new(value: impl Into<String>, help: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), help: help.into() }
    }
}

pub(crate) fn run(args: &CompleteArgs) -> Result<(), Failed> {
    let words: Vec<String> =
        args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let bash = match (args.shell.as_str(), words.as_slice()) {
        ("bash", [line, place, breaks @ ..]) => {
            let breaks = breaks.first().map_or("=:", String::as_str);
            Some(BashLine::read(line, place.parse().unwrap_or(line.len()), breaks))
        }
        _ => None,
    };
    let words = bash.as_ref().map_or(&words, |bash| &bash.words);
    let Some((word, before)) = words.split_last() else { return Ok(()) };
    let mut text = String::new();
    for Candidate { value, help } in candidates(before, word) {
        if !value.starts_with(word.as_str()) || value.contains(['\n', '\t']) {
            continue;
        }
        // A scheme that is there already would keep its addresses from being completed.
        if value == *word && value.ends_with(':') && value != "builtin:" {
            continue;
        }
        let shown = match &bash {
            Some(bash) => bash.insert(&value),
            None => Some(value),
        };
        let Some(shown) = shown else { continue };
        text.push_str(&printable(&shown));
        if bash.is_none() && !help.is_empty() {
            let help = printable(help.lines().next().unwrap_or_default()).replace('\t', " ");
            text.push_str(&format!("\t{help}"));
        }
        text.push('\n');
    }
    render::print_own(&text)
}

fn candidates(before: &[String], word: &str) -> Vec<Candidate> {
    let line = Line::read(before);
    if let Some(values) = line.values_wanted() {
        return values;
    }
    if word.starts_with('-') {
        return line.flags();
    }
    let commands = line.commands();
    if !commands.is_empty() {
        return commands;
    }
    let positional: Vec<&str> = line.positional.iter().map(String::as_str).collect();
    let path: Vec<&str> = line.path.iter().map(String::as_str).collect();
    let found = path.split_first().and_then(|(name, commands)| {
        let (positional, config) = (positional.as_slice(), line.config());
        completed(name, &Unfinished { commands, positional, word, config })
    });
    if let Some(found) = found {
        return found.into_iter().map(|(value, help)| Candidate::new(value, help)).collect();
    }
    match (line.command_name(), positional.as_slice()) {
        ("call" | "describe", []) => [tools_of_config(&line, word), addresses(&line)].concat_all(),
        ("call" | "describe", [address]) if Address::begins_like_one(address) => {
            let tools = tools(&line, Some(*address), None);
            tools.iter().map(candidate).collect()
        }
        ("call", [address, tool, given @ ..]) if Address::begins_like_one(address) => {
            arguments(&line, Some(*address), tool, given, word)
        }
        ("call", [tool, given @ ..]) => arguments(&line, None, tool, given, word),
        _ if line.awaits_address() => addresses(&line),
        _ => line.possible_values(),
    }
}

trait Concat {
    fn concat_all(self) -> Vec<Candidate>;
}

impl<const N: usize> Concat for [Vec<Candidate>; N] {
    fn concat_all(self) -> Vec<Candidate> {
        self.into_iter().flatten().collect()
    }
}

fn candidate(spec: &ToolSpec) -> Candidate {
    Candidate::new(spec.name.as_str(), spec.description.clone().unwrap_or_default())
}

/// Where the backs of the config are, and how other addresses begin.
fn addresses(line: &Line) -> Vec<Candidate> {
    let found = config::read(line.config().as_deref()).ok().flatten();
    let backs = found.iter().flat_map(|found| &found.config.backs);
    let known = backs.map(|back| Candidate::new(back.address.to_string(), &*back.name));
    let registry = Registry::default();
    let schemes = registry.kinds().flat_map(PeerKind::help).map(|(address, meaning)| {
        // Up to where the user's part begins.
        let end = address.find(|c: char| c.is_uppercase()).unwrap_or(address.len());
        Candidate::new(&address[..end], *meaning)
    });
    let mut all: Vec<_> = known.chain(schemes).collect();
    all.sort_by(|one, other| one.value.cmp(&other.value));
    all.dedup_by(|one, other| one.value == other.value);
    all
}

/// The names of the backs; once one is typed, its tools.
fn tools_of_config(line: &Line, word: &str) -> Vec<Candidate> {
    let Ok(Some(found)) = config::read(line.config().as_deref()) else { return Vec::new() };
    let backs = &found.config.backs;
    match word.split_once('.') {
        Some((back, _)) if backs.iter().any(|known| known.name == back) => {
            tools(line, None, Some(word)).iter().map(candidate).collect()
        }
        _ => {
            let back = |back: &toolbus::bus::config::BackConfig| {
                Candidate::new(format!("{}.", back.name), back.address.to_string())
            };
            backs.iter().map(back).collect()
        }
    }
}

/// `key=` for each argument that is not given yet; with the key typed, the values that it may have.
fn arguments(
    line: &Line,
    address: Option<&str>,
    tool: &str,
    given: &[&str],
    word: &str,
) -> Vec<Candidate> {
    let specs = tools(line, address, Some(tool));
    let Some(spec) = specs.iter().find(|spec| spec.name.as_str() == tool) else {
        return Vec::new();
    };
    let parameters = Parameters::of(&spec.input);
    if let Some((key, _)) = word.split_once('=') {
        let Some(parameter) = parameters.find(key.trim_end_matches(':')) else { return Vec::new() };
        let mut values = parameter.values();
        if values.is_empty() && parameter.type_name() == "boolean" {
            values = vec!["true", "false"];
        }
        let shown = |value: &&str| {
            let text = Json::parse((*value).to_owned()).map_or(String::new(), |json| json.shown());
            Candidate::new(format!("{key}={text}"), "")
        };
        return values.iter().map(shown).collect();
    }
    let is_given = |name: &str| {
        given.iter().any(|word| word.split(['=', ':']).next().is_some_and(|key| key == name))
    };
    let open = parameters.list.iter().filter(|parameter| !is_given(&parameter.name));
    let named = open.map(|parameter| {
        let required = if parameter.required { "required" } else { "" };
        let of = [parameter.type_name(), required.to_owned()];
        let of: Vec<_> = of.into_iter().filter(|text| !text.is_empty()).collect();
        let description = parameter.description().unwrap_or_default();
        let help = format!("{} {description}", of.join(", "));
        Candidate::new(format!("{}=", parameter.name), help.trim())
    });
    named.collect()
}

/// The tools of an address, or of the one back of the config that a tool belongs to.
fn tools(line: &Line, address: Option<&str>, tool: Option<&str>) -> Vec<ToolSpec> {
    let globals = Globals::quiet(line.config());
    let settings = Settings { start_timeout: Some(PATIENCE), ..Settings::default() };
    let addresses: Vec<&str> = address.into_iter().collect();
    let Ok(peers) = Peers::of(&addresses, &globals, settings) else { return Vec::new() };
    let peers = match tool {
        Some(tool) => peers.only_for_tool(tool),
        None => peers,
    };
    let listed = peers.meet(async |bus| {
        let listed = tokio::time::timeout(PATIENCE, bus.list()).await.unwrap_or_default();
        let named = listed.iter().flat_map(|listed| {
            let specs = listed.tools.iter().flat_map(|tools| tools.iter());
            specs.map(|spec| {
                let name = bus.name_of(&listed.back, &spec.name);
                ToolSpec { name, ..spec.clone() }
            })
        });
        let tools: Vec<_> = named.collect();
        bus.hurry();
        Ok(tools)
    });
    listed.unwrap_or_default()
}
