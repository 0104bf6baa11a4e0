//! `toolbus tools`: which tools are there, and what do they take?

use toolbus::address::Address;
use toolbus::bus::{Bus, Listed};
use toolbus::peer::settings::Settings;
use toolbus_proto::json::{Json, write_string};
use toolbus_proto::listing;
use toolbus_proto::tool::{Failure, ToolSpec};

use crate::args::Globals;
use crate::args::asked::{EraArgs, listing_clients};
use crate::args::peer::{DaemonArgs, FreshArgs, HttpArgs, LimitArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::{Peers, with_meant_or_bare};
use crate::render::spinner::Spinner;
use crate::render::{self, failure, printable, table, width};
use crate::schema::{Parameter, Parameters};

/// List the tools of the config, or of the given addresses
///
/// Each ADDRESS is started or connected to and asked for its tools; the name of a back of the
/// config stands for its address. The list is a table, cut to
/// the width of the terminal; `toolbus describe` shows one tool as a whole. With `--json` it is
/// one tool a line, sorted by name, with the schema of its input.
///
/// An address that cannot be reached is reported, the others are listed, and the exit code
/// is 3.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  toolbus tools builtin:\n  toolbus tools --json builtin: stdio:./my-oracle"
)]
pub(crate) struct ToolsArgs {
    /// Peers to ask, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<String>,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    pub(crate) allow_shell: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) era: EraArgs,
    #[command(flatten)]
    pub(crate) fresh: FreshArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    pub(crate) seen: ViewArgs,
}

pub(crate) fn run(args: &ToolsArgs, globals: &Globals) -> Result<(), Failed> {
    let peers = Peers::of_words(
        &args.addresses,
        globals,
        Settings {
            start_timeout: args.limit.start_timeout,
            allow_shell: args.allow_shell,
            program: args.program.settings()?,
            credentials: args.http.credentials()?,
            clients: listing_clients(),
            era: args.era.generation(),
            ..Settings::default()
        },
    )?;
    let peers = peers.seen_as(&args.seen)?.fresh_if(args.fresh.fresh).within(args.limit.timeout);
    let says_how = args.limit.start_timeout.is_some()
        || args.allow_shell
        || args.program.is_given()
        || args.http.is_given()
        || args.era.is_given();
    let peers = peers.served_if(args.daemon.may_be_asked() && !says_how);
    let deadline = args.limit.deadline();
    peers.meet(async |bus| {
        let spinner = Spinner::for_people(globals);
        let listed = bus.list_by(deadline).await;
        drop(spinner);
        bus.warn_of_allowed_in_vain();
        // A tool that cannot be called by its name is not listed.
        bus.offer(&listed)
            .map_err(|taken| Failed::usage(taken.to_string()).hint_if_any(taken.hint()))?;
        let text = if globals.json { lines(&bus, &listed) } else { rows(&bus, &listed) };
        render::print(&text)?;
        let mut ended = Ok(());
        for listed in &listed {
            if let Err(failure) = &listed.tools {
                let failure = with_meant_or_bare(&listed.address, failure.clone());
                ended = Err(unreachable(&listed.address, &failure).told(globals));
            }
        }
        ended
    })
}

/// Why the tools of a peer are not listed.
pub(super) fn unreachable(address: &Address, failure: &Failure) -> Failed {
    let message = format!("cannot list the tools of `{address}`: {failure}");
    let failed = Failed::new(Exit::Unreachable, message);
    match &failure.last_words {
        Some(words) => failure::with_last_words(failed, words),
        None => failed,
    }
}

/// Every tool under the name it is called by, with its address, sorted by name.
fn sorted(bus: &Bus, listed: &[Listed]) -> Vec<(ToolSpec, String)> {
    let mut tools = Vec::new();
    for listed in listed {
        let address = listed.address.to_string();
        tools.extend(bus.shown_of(listed).map(|spec| (spec, address.clone())));
    }
    tools.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    tools
}

fn lines(bus: &Bus, listed: &[Listed]) -> String {
    let mut text = String::new();
    for (spec, address) in sorted(bus, listed) {
        text.push_str(&line(&spec, &address));
    }
    text
}

/// A tool for scripts.
pub(super) fn line(spec: &ToolSpec, address: &str) -> String {
    let mut line = vec![b'{'];
    listing::write_members(&mut line, spec);
    line.extend_from_slice(br#","address":"#);
    write_string(&mut line, address);
    line.push(b'}');
    format!("{}\n", Json::from_trusted(line))
}

fn rows(bus: &Bus, listed: &[Listed]) -> String {
    let several = 1 < listed.len();
    let row = |(spec, address): (ToolSpec, String)| {
        let description = spec.description.as_deref().or(spec.title.as_deref());
        let description = description.and_then(|text| text.lines().next()).unwrap_or_default();
        let address = if several { address } else { String::new() };
        let cells = [spec.name.as_str(), &parameters(&spec.input), description, &address];
        cells.map(|cell| printable(cell).replace(['\n', '\t'], " "))
    };
    let rows: Vec<_> = sorted(bus, listed).into_iter().map(row).collect();
    match width::of_stdout() {
        None => table::plain(&rows),
        // `toolbus describe` tells the rest.
        Some(width) => table::fitted(rows, width, &[(2, 24), (1, 16), (3, 16)]),
    }
}

/// `a, b?`: the arguments by their schema, in its order.
fn parameters(input: &Json) -> String {
    let mark = |parameter: &Parameter<'_>| if parameter.required { "" } else { "?" };
    let named = |parameter: &Parameter<'_>| format!("{}{}", parameter.name, mark(parameter));
    let names: Vec<_> = Parameters::of(input).list.iter().map(named).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_schema() {
        for (schema, expected) in [
            ("{}", ""),
            ("true", ""),
            (r#"{"properties":{"b":{},"a":{"x":1}},"required":["a"]}"#, "b?, a"),
            (r#"{"required":"a","properties":{"a":{}}}"#, "a?"),
            (r#"{"properties":[1]}"#, ""),
        ] {
            assert_eq!(parameters(&Json::parse(schema).unwrap()), expected, "{schema}");
        }
    }
}
