//! `toolbus describe`: one tool, for people.

use std::borrow::Cow;
use std::fmt::Write as _;

use toolbus::address::Address;
use toolbus::peer::settings::Settings;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Hints, ToolSpec};

use super::call::{described, unknown_in_config, with_hint};
use super::tools;
use crate::args::Globals;
use crate::args::asked::{EraArgs, listing_clients};
use crate::args::peer::{DaemonArgs, FreshArgs, HttpArgs, LimitArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::failed::Failed;
use crate::peers::{Peers, are_backs, offer_seen};
use crate::render::spinner::Spinner;
use crate::render::style::Paint;
use crate::render::{self, failure, printable, width};
use crate::schema::{Parameter, Parameters, Type, types_of};

const USAGE: &str = "toolbus describe [OPTIONS] [ADDRESS] TOOL";

/// Show one tool: what it does, what it takes, and a call to try
///
/// TOOL is a name as `toolbus tools` lists it. With an ADDRESS before it, that peer is asked;
/// without, the tool is looked for in the config, as `<back>.<tool>` or `<back> <tool>`. With `--json` it is one
/// line, as `toolbus tools --json` prints it.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = USAGE,
    after_long_help = "Examples:\n  toolbus describe builtin: count\n  toolbus describe weather.forecast"
)]
pub(crate) struct DescribeArgs {
    /// Peer to ask in place of the config, e.g. `builtin:`
    address: Option<String>,
    /// Tool to show, e.g. `add`
    tool: Option<String>,
    #[command(flatten)]
    limit: LimitArgs,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    allow_shell: bool,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    era: EraArgs,
    #[command(flatten)]
    fresh: FreshArgs,
    #[command(flatten)]
    seen: ViewArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// How deep the members of arguments are shown: they may be trees.
const DEPTH_MAX: usize = 2;

pub(crate) fn run(args: &DescribeArgs, globals: &Globals) -> Result<(), Failed> {
    let mut words = args.address.iter().chain(&args.tool).map(String::as_str).peekable();
    let address = words.next_if(|word| Address::begins_like_one(word));
    let tool = match (words.next(), words.next()) {
        (Some(tool), None) => Cow::Borrowed(tool),
        (Some(back), Some(tool)) if address.is_none() && are_backs(&[back], globals) => {
            Cow::Owned(format!("{back}.{tool}"))
        }
        (Some(first), Some(_)) => {
            let message = format!("`{first}` stands before the tool and is no address");
            return Err(Failed::usage(message)
                .lines([format!("usage: {USAGE}")])
                .hint("a tool of the config is one word, `<back>.<tool>`"));
        }
        (None, _) => {
            return Err(Failed::usage("TOOL is missing")
                .lines([format!("usage: {USAGE}")])
                .hint("`toolbus tools` lists what can be described"));
        }
    };
    let tool = &*tool;
    let settings = Settings {
        start_timeout: args.limit.start_timeout,
        allow_shell: args.allow_shell,
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        clients: listing_clients(),
        era: args.era.generation(),
        ..Settings::default()
    };
    let addresses: Vec<&str> = address.into_iter().collect();
    let peers = Peers::of(&addresses, globals, settings)?.seen_as(&args.seen)?.only_for_tool(tool);
    let peers = peers.fresh_if(args.fresh.fresh).within(args.limit.timeout);
    let says_how = args.limit.start_timeout.is_some()
        || args.allow_shell
        || args.program.is_given()
        || args.http.is_given()
        || args.era.is_given();
    let peers = peers.served_if(args.daemon.may_be_asked() && !says_how);
    let deadline = args.limit.deadline();
    peers.meet(async |bus| {
        offer_seen(&bus, deadline).await?;
        let spinner = Spinner::for_people(globals);
        let found = described::listed(&bus, &tool.into(), deadline).await;
        drop(spinner);
        let (spec, at) = match found {
            Ok(found) => found,
            Err(failure) => {
                let failure = with_hint(unknown_in_config(failure, address, &args.seen, tool));
                return Err(failure::failed(&peers.with_meant_if_one(failure)));
            }
        };
        if globals.json {
            return render::print(&tools::line(&spec, &at));
        }
        let width = width::of_stdout().unwrap_or(width::USUAL).clamp(40, 100);
        let paint = globals.color.paint(&std::io::stdout());
        let before: Vec<_> = args.seen.words().chain(address).collect();
        render::print_own(&page(&spec, &before, width, paint))
    })
}

/// The tool as a page of at most `width` columns. A call of it needs the words `before` its name.
fn page(spec: &ToolSpec, before: &[&str], width: usize, paint: Paint) -> String {
    let shown = |text: &str| printable(text).into_owned();
    let mut page = paint.title(&shown(spec.name.as_str()));
    if let Some(title) = spec.title.as_deref().filter(|title| *title != spec.name.as_str()) {
        let _ = write!(page, ": {}", shown(title));
    }
    page.push('\n');
    if let Some(description) = &spec.description {
        page.push('\n');
        put_lines(&mut page, "  ", &width::wrapped(&shown(description), width - 2));
    }
    let parameters = Parameters::of(&spec.input);
    let _ = writeln!(page, "\n{}", paint.title("Arguments:"));
    match parameters.list.is_empty() {
        true => page.push_str(match types_of(&spec.input).as_slice() {
            [Type::Object] => "  none\n",
            _ => "  any JSON value\n",
        }),
        false => put_arguments(&mut page, "  ", &parameters.list, width, 0),
    }
    if let Some(output) = &spec.output {
        let _ = writeln!(page, "\n{}", paint.title("Answer:"));
        put_lines(&mut page, "  ", &width::wrapped(&shown(&answer(output)), width - 2));
    }
    if let Some(hints) = spec.hints.and_then(told) {
        let _ = write!(page, "\n{hints}");
    }
    let example = shown(&example(spec, &parameters, before));
    let _ = writeln!(page, "\n{}\n  {example}", paint.title("Example:"));
    page
}

fn put_arguments(
    page: &mut String,
    margin: &str,
    parameters: &[Parameter<'_>],
    width: usize,
    depth: usize,
) {
    let names = parameters.iter().map(|parameter| width::columns(&parameter.name));
    // One long name must not squeeze what is said of the others.
    let column = names.filter(|name| *name <= width / 4).max().unwrap_or(0) + 2;
    let indent = format!("{margin}{:column$}", "");
    let room = width.saturating_sub(indent.len()).max(20);
    for parameter in parameters {
        let name = printable(&parameter.name);
        let facts = printable(&facts(parameter)).into_owned();
        let mut lines = width::wrapped(&facts, room);
        if let Some(description) = parameter.description() {
            lines.extend(width::wrapped(&printable(&description), room));
        }
        let mut lines = lines.into_iter();
        // A long name stands alone.
        let is_long = column < width::columns(&name) + 1;
        let first = if is_long { None } else { lines.next() }.unwrap_or_default();
        let _ = writeln!(
            page,
            "{}",
            format!("{margin}{}{first}", width::padded(&name, column)).trim_end()
        );
        put_lines(page, &indent, &lines.collect::<Vec<_>>());
        let members = if depth < DEPTH_MAX { parameter.members() } else { Vec::new() };
        for (at, members) in members.iter().enumerate() {
            if at > 0 {
                put_lines(page, &indent, &["or".to_owned()]);
            }
            put_arguments(page, &indent, members, width, depth + 1);
        }
    }
}

/// `string, required`, `integer, default 1, from 1`, `one of "a", "b"`.
fn facts(parameter: &Parameter<'_>) -> String {
    let what = match (parameter.values().as_slice(), parameter.element_values().as_slice()) {
        ([], []) => parameter.type_name(),
        ([], values) => format!("array of {}", values.join(", ")),
        ([only], _) => format!("only {only}"),
        (values, _) => format!("one of {}", values.join(", ")),
    };
    let required = parameter.required.then(|| "required".to_owned());
    let default = parameter.default().map(|default| format!("default {}", short(default)));
    let facts: Vec<_> = [Some(what), required, default, parameter.limits()]
        .into_iter()
        .flatten()
        .filter(|fact| !fact.is_empty())
        .collect();
    match facts.is_empty() {
        true => "anything".to_owned(),
        false => facts.join(", "),
    }
}

fn short(json: &str) -> String {
    width::cut(&toolbus_proto::json::compact(json), 60)
}

/// What comes back: a type, or the members of an object.
fn answer(output: &Json) -> String {
    let members = Parameters::of(output).list;
    if members.is_empty() {
        let types: Vec<_> = types_of(output).iter().map(|of| of.name()).collect();
        return if types.is_empty() { "any JSON value".to_owned() } else { types.join(" or ") };
    }
    let member = |member: &Parameter<'_>| match member.type_name() {
        of if of.is_empty() => member.name.to_string(),
        of => format!("{}: {of}", member.name),
    };
    format!("object with {}", members.iter().map(member).collect::<Vec<_>>().join(", "))
}

fn told(hints: Hints) -> Option<String> {
    let said = [
        (hints.read_only == Some(true), "It changes nothing.\n"),
        (hints.destructive == Some(true), "It may destroy something.\n"),
        (hints.idempotent == Some(true), "It can be called twice without harm.\n"),
    ];
    let told: String = said.into_iter().filter(|(is, _)| *is).map(|(_, text)| text).collect();
    (!told.is_empty()).then_some(told)
}

/// A call that can be pasted into a shell, with all that is required.
fn example(spec: &ToolSpec, parameters: &Parameters<'_>, before: &[&str]) -> String {
    let mut words = vec!["toolbus".to_owned(), "call".to_owned()];
    words.extend(before.iter().map(|word| quoted(word)));
    words.push(quoted(spec.name.as_str()));
    let required = parameters.list.iter().filter(|parameter| parameter.required);
    words.extend(required.map(|parameter| {
        let example = parameter.example();
        // A word that the schema reads back as this value.
        let text = Json::parse(example.clone()).ok().and_then(|json| json.string());
        let word = match text.filter(|text| parameter.read(text) == example) {
            Some(text) => format!("{}={text}", parameter.name),
            None if parameter.read(&example) == example => format!("{}={example}", parameter.name),
            None => format!("{}:={example}", parameter.name),
        };
        quoted(&word)
    }));
    words.join(" ")
}

/// The word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "+-_./:=@,%…".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn put_lines(page: &mut String, indent: &str, lines: &[String]) {
    for line in lines {
        let _ = writeln!(page, "{}", format!("{indent}{line}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_tool_with_everything() {
        let input = r##"{"type":"object","properties":{
            "city":{"type":"string","description":"Where, as people write it: the name of a town, or its code"},
            "days":{"type":"integer","minimum":1,"default":3},
            "unit":{"$ref":"#/$defs/Unit"},
            "tags":{"type":"array","items":{"type":"string"}},
            "any":{},
            "where":{"type":"object","description":"A place on the map","properties":{
                "lat":{"type":"number","minimum":-90,"maximum":90},
                "note":{"anyOf":[{"type":"string"},{"type":"null"}]}
            },"required":["lat"]},
            "days_of":{"type":"array","items":{"enum":["mon","tue"]}},
            "since":{"type":"string","format":"date"},
            "天気":{"const":"雨"},
            "shape":{"oneOf":[{"properties":{"r":{"type":"number"}}},{"properties":{"a":{}}}]},
            "a_name_that_is_longer_than_most":{"type":"object","additionalProperties":{"type":"number"}}
        },"required":["city","unit","tags"],"$defs":{"Unit":{"enum":["metric","imperial"]}}}"##;
        let mut spec = ToolSpec::new("forecast", Json::parse(input).unwrap());
        spec.title = Some("Weather forecast".into());
        spec.description = Some(
            "Tell the weather.\n\nIt asks a service that knows\x1b[2J, once for each day.".into(),
        );
        spec.output = Some(
            Json::parse(r#"{"type":"object","properties":{"high":{"type":"number"}}}"#).unwrap(),
        );
        spec.hints = Some(Hints { read_only: Some(true), ..Hints::default() });
        expect![[r#"
            forecast: Weather forecast

              Tell the weather.

              It asks a service that knows\x1b[2J, once for
              each day.

            Arguments:
              city     string, required
                       Where, as people write it: the name
                       of a town, or its code
              days     integer, default 3, from 1
              unit     one of "metric", "imperial", required
              tags     array of string, required
              any      anything
              where    object
                       A place on the map
                       lat   number, required, from -90 to
                             90
                       note  string or null
              days_of  array of "mon", "tue"
              since    string, format date
              天気     only "雨"
              shape    anything
                       r  number
                       or
                       a  anything
              a_name_that_is_longer_than_most
                       object of number

            Answer:
              object with high: number

            It changes nothing.

            Example:
              toolbus call 'mcp+stdio:uvx weather' forecast city=… unit=metric 'tags=[]'
        "#]]
        .assert_eq(&page(&spec, &["mcp+stdio:uvx weather"], 48, Paint { on: false }));
    }
}
