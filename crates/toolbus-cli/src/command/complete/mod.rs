//! `toolbus complete`: what may follow on a command line, for the scripts of `toolbus completions`.
//!
//! Commands and flags are known; backs are read from the config; tools and their arguments are
//! those that the one peer listed that the line names. Where nothing is known and the name of a
//! file may stand, the exit code is 1, and the shell proposes files.

mod line;
mod listed;

use std::ffi::OsString;

use toolbus::address::Address;
use toolbus::peer::{PeerKind, Registry};

use self::line::{BashLine, Line, unquoted};
use self::listed::{Listed, Question};
use crate::command::wire::{Unfinished, completed};
use crate::config;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::{self, printable};

/// In place of a shell: a list is to be asked for and kept. The config, the address and the tool
/// follow, each empty if there is none.
const REFRESH: &str = "refresh";

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
    if let (REFRESH, [config, address, tool]) = (args.shell.as_str(), words.as_slice()) {
        let some = |word: &'_ String| Some(word.clone()).filter(|word| !word.is_empty());
        let (config, address, tool) = (some(config), some(address), some(tool));
        let (config, address, tool) = (config.map(Into::into), address.as_deref(), tool.as_deref());
        return Question { config, address, tool }.refresh();
    }
    let bash = match (args.shell.as_str(), words.as_slice()) {
        ("bash", [line, place, breaks @ ..]) => {
            let breaks = breaks.first().map_or("=:", String::as_str);
            Some(BashLine::read(line, place.parse().unwrap_or(line.len()), breaks))
        }
        _ => None,
    };
    let words = bash.as_ref().map_or(&words, |bash| &bash.words);
    let Some((word, before)) = words.split_last() else { return Ok(()) };
    // Fish shows a word with its quote.
    let word = &if args.shell == "fish" { unquoted(word) } else { word.clone() };
    let line = Line::read(before);
    let mut text = String::new();
    for Candidate { value, help } in candidates(&line, word) {
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
    if text.is_empty() && line.takes_files(word) {
        return Err(Failed::quietly(Exit::Failed));
    }
    render::print_own(&text)
}

fn candidates(line: &Line, word: &str) -> Vec<Candidate> {
    if let Some(flag) = line.flag_wanted()
        && let "view" | "as" | "caller" = flag
    {
        return named_in_config(line, flag == "view");
    }
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
        ("call" | "describe", []) => [tools_of_config(line, word), addresses(line)].concat_all(),
        ("call" | "describe", [address]) if Address::begins_like_one(address) => {
            let tools = tools(line, Some(*address), None);
            tools.iter().map(candidate).collect()
        }
        ("call", [address, tool, given @ ..]) if Address::begins_like_one(address) => {
            arguments(line, Some(*address), tool, given, word)
        }
        ("call", [tool, given @ ..]) => arguments(line, None, tool, given, word),
        ("check", []) => [line.possible_values(), addresses(line)].concat_all(),
        _ if line.awaits_address() => addresses(line),
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

fn candidate(tool: &Listed) -> Candidate {
    Candidate::new(&tool.name, &tool.description)
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

/// The views of the config, or its callers.
fn named_in_config(line: &Line, are_views: bool) -> Vec<Candidate> {
    let found = config::read(line.config().as_deref()).ok().flatten();
    let Some(config) = found.map(|found| found.config) else { return Vec::new() };
    match are_views {
        true => config.views.iter().map(|view| Candidate::new(&*view.name, "")).collect(),
        false => {
            let callers = config.callers.iter();
            callers.map(|caller| Candidate::new(caller.name.as_str(), "")).collect()
        }
    }
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
    let listed = tools(line, address, Some(tool));
    let Some(tool) = listed.iter().find(|listed| listed.name == tool) else { return Vec::new() };
    if let Some((key, _)) = word.split_once('=') {
        let name = key.trim_end_matches(':');
        let argument = tool.arguments.iter().find(|argument| argument.name == name);
        let values = argument.into_iter().flat_map(|argument| &argument.values);
        return values.map(|value| Candidate::new(format!("{key}={value}"), "")).collect();
    }
    let is_given = |name: &str| {
        given.iter().any(|word| word.split(['=', ':']).next().is_some_and(|key| key == name))
    };
    let open = tool.arguments.iter().filter(|argument| !is_given(&argument.name));
    open.map(|argument| Candidate::new(format!("{}=", argument.name), argument.help.trim()))
        .collect()
}

/// The tools of an address, or of the one back of the config that a tool belongs to.
fn tools(line: &Line, address: Option<&str>, tool: Option<&str>) -> Vec<Listed> {
    Question { config: line.config(), address, tool }.tools()
}
