//! `toolbus prompt` and `toolbus resource`: what MCP servers have besides tools.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{ArgMatches, FromArgMatches as _};
use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus::wire::mcp::WIRE;
use toolbus_engine::calls::Inbox;
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::collect::{Collector, from_base64};
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::tool::{Call, Code, Failure, FailureKind, Outcome, What};

use super::complete;
use crate::args::Globals;
use crate::args::asked::{AskedArgs, EraArgs};
use crate::args::groups::{self, Group};
use crate::args::peer::{DaemonArgs, FreshArgs, HttpArgs, LimitArgs, ProgramArgs};
use crate::command::call::answering::Answering;
use crate::command::call::{question, with_hint};
use crate::command::wire::{Run, Unfinished, Verb, with_subcommands};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::file::BlobFile;
use crate::render::spinner::Spinner;
use crate::render::{self, failure, printable, table, width};
use crate::stdio::Terminal as _;

/// How many pages of a list are read.
const PAGES_MAX: usize = 100;
/// What the protocol of the new era wants to know of each request.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// The code of a method that a server does not have.
const UNKNOWN_METHOD: i64 = -32601;
/// How often a server may ask before it answers.
const ROUNDS_MAX: usize = 10;

pub(crate) static PROMPT: PromptVerb = PromptVerb;
pub(crate) static RESOURCE: ResourceVerb = ResourceVerb;

pub(crate) struct PromptVerb;
pub(crate) struct ResourceVerb;

impl Verb for PromptVerb {
    fn name(&self) -> &'static str {
        "prompt"
    }

    fn group(&self) -> &'static Group {
        &groups::USE
    }

    fn command(&self) -> clap::Command {
        with_subcommands::<PromptCommand>(self.name())
            .about("List and get the prompts of an MCP server")
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(PromptCommand::from_arg_matches(matches)?))
    }

    fn complete(&self, line: &Unfinished<'_>) -> Option<Vec<(String, String)>> {
        complete::prompts(line)
    }
}

impl Verb for ResourceVerb {
    fn name(&self) -> &'static str {
        "resource"
    }

    fn group(&self) -> &'static Group {
        &groups::USE
    }

    fn command(&self) -> clap::Command {
        with_subcommands::<ResourceCommand>(self.name())
            .about("List and read the resources of an MCP server")
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(ResourceCommand::from_arg_matches(matches)?))
    }

    fn complete(&self, line: &Unfinished<'_>) -> Option<Vec<(String, String)>> {
        complete::resources(line)
    }
}

#[derive(Debug, clap::Subcommand)]
enum PromptCommand {
    /// List the prompts of a server
    List(PromptListArgs),
    /// Get a prompt, its arguments filled in
    ///
    /// Each message is printed behind the role that speaks it; with `--json` it is the server's
    /// result as one line.
    #[command(
        after_long_help = "Example:\n  toolbus prompt get 'mcp+stdio:./server' greet name=Ada"
    )]
    Get(GetArgs),
}

#[derive(Debug, clap::Subcommand)]
enum ResourceCommand {
    /// List the resources of a server, and the templates of more
    List(ListArgs),
    /// Print what a resource holds
    ///
    /// Text is printed as it is. Bytes are printed into a pipe, or written to the file that
    /// `--out` names. With `--json` it is the server's result as one line.
    #[command(
        after_long_help = "Example:\n  toolbus resource read 'mcp+stdio:./server' file:///notes.txt"
    )]
    Read(ReadArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Server to ask: an address, or the name of a back in the config
    #[arg(value_name = "ADDRESS")]
    peer: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Debug, clap::Args)]
struct PromptListArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    fresh: FreshArgs,
}

/// How a server is reached, and for how long it is waited for.
#[derive(Debug, Default, clap::Args)]
pub(super) struct HowArgs {
    #[command(flatten)]
    limit: LimitArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    era: EraArgs,
    #[command(flatten)]
    asked: AskedArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// What goes wrong is the caller's to tell.
    #[arg(skip)]
    tells_nothing: bool,
}

impl HowArgs {
    /// Does it say how the server is to be started, or spoken to?
    fn says_how(&self) -> bool {
        // A limit of our own for the start is for one that is not there yet.
        let is_limited = self.limit.start_timeout.is_some() && !self.tells_nothing;
        is_limited
            || self.program.is_given()
            || self.http.is_given()
            || self.era.is_given()
            || self.asked.is_given()
    }

    /// As usual, but for no longer than this, and without a word of what goes wrong.
    pub(super) fn within(limit: Duration) -> HowArgs {
        let limit = LimitArgs { timeout: Some(limit), start_timeout: Some(limit) };
        HowArgs { limit, tells_nothing: true, ..HowArgs::default() }
    }
}

#[derive(Debug, clap::Args)]
struct GetArgs {
    /// Server to ask: an address, or the name of a back in the config
    #[arg(value_name = "ADDRESS")]
    peer: String,
    /// Prompt to get
    name: String,
    /// Its arguments, as `key=value`; all of them are texts
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Debug, clap::Args)]
struct ReadArgs {
    /// Server to ask: an address, or the name of a back in the config
    #[arg(value_name = "ADDRESS")]
    peer: String,
    /// Resource to read, as `toolbus resource list` shows it
    uri: String,
    /// Write what it holds to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    how: HowArgs,
}

impl Run for PromptCommand {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        match self {
            PromptCommand::List(PromptListArgs { list, fresh }) => {
                let FreshArgs { fresh } = *fresh;
                ask_by(list.peer.as_deref(), &list.how, fresh, globals, async |server| {
                    let prompts = server.list_if_any("prompts/list", "prompts").await?;
                    print_list(&prompts, globals, prompt_row)
                })
            }
            PromptCommand::Get(args) => {
                let params = args.params()?;
                ask(Some(&args.peer), &args.how, globals, async |server| {
                    let got = server.request("prompts/get", &params).await;
                    let result = match got {
                        Ok(result) => result,
                        Err(failed) => return Err(server.no_prompt(&args.name, failed).await),
                    };
                    match globals.json {
                        true => render::print(&format!("{}\n", result.compact())),
                        false => render::print(&messages(&result)),
                    }
                })
            }
        }
    }
}

impl GetArgs {
    fn params(&self) -> Result<String, Failed> {
        let mut members = Vec::new();
        for word in &self.arguments {
            let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                return Err(Failed::usage(format!("argument `{word}` is not `key=value`")));
            };
            members.push(format!("{}:{}", Json::of(key), Json::of(value)));
        }
        let name = Json::of(&self.name);
        Ok(format!("{{\"name\":{name},\"arguments\":{{{}}}}}", members.join(",")))
    }
}

impl Run for ResourceCommand {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        match self {
            ResourceCommand::List(args) => {
                ask(args.peer.as_deref(), &args.how, globals, async |server| {
                    let mut found = server.list_if_any("resources/list", "resources").await?;
                    // Not every server knows of templates.
                    let templates =
                        server.list("resources/templates/list", "resourceTemplates").await;
                    found.extend(templates.unwrap_or_default());
                    print_list(&found, globals, resource_row)
                })
            }
            ResourceCommand::Read(args) => {
                let params = format!("{{\"uri\":{}}}", Json::of(&args.uri));
                ask(Some(&args.peer), &args.how, globals, async |server| {
                    let read = server.request("resources/read", &params).await;
                    let result = match read {
                        Ok(result) => result,
                        Err(failed) => return Err(server.no_resource(&args.uri, failed).await),
                    };
                    match globals.json {
                        true => render::print(&format!("{}\n", result.compact())),
                        false => print_contents(&result, args.out.as_deref()),
                    }
                })
            }
        }
    }
}

/// Opens the one server that is meant, and asks it.
pub(super) fn ask<T>(
    peer: Option<&str>,
    how: &HowArgs,
    globals: &Globals,
    work: impl AsyncFnOnce(&Server<'_>) -> Result<T, Failed>,
) -> Result<T, Failed> {
    ask_by(peer, how, false, globals, work)
}

/// The same; with `is_fresh` the server is asked whatever the lock has of it.
fn ask_by<T>(
    peer: Option<&str>,
    how: &HowArgs,
    is_fresh: bool,
    globals: &Globals,
    work: impl AsyncFnOnce(&Server<'_>) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let address: Vec<&str> =
        peer.into_iter().filter(|peer| Address::begins_like_one(peer)).collect();
    let back = peer.filter(|_| address.is_empty());
    let (clients, answering) = how.asked.answering(globals, question::can_be_answered())?;
    let settings = Settings {
        start_timeout: how.limit.start_timeout,
        program: how.program.settings()?,
        credentials: how.http.credentials()?,
        era: how.era.generation(),
        clients,
        ..Settings::default()
    };
    let peers = Peers::of(&address, globals, settings)?.knowing_wires().fresh_if(is_fresh);
    let peers = match back {
        Some(back) => peers.only_for_tool(back),
        None => peers,
    };
    let peers = if how.tells_nothing { peers.telling_nothing() } else { peers };
    let peers = peers.served_if(how.daemon.may_be_asked() && !how.says_how());
    let peers = peers.within(how.limit.timeout);
    peers.meet_within(how.limit.timeout, async |bus| {
        if bus.native_wire() != Some(WIRE) {
            let message = "this needs one MCP server, and all of its tools allowed";
            return Err(Failed::usage(message)
                .hint("name it: by its address, or by the name of a back in the config"));
        }
        let spinner = Spinner::for_people(globals);
        let (bus, peers, spinner) = (&bus, &peers, spinner.into());
        let worked = work(&Server { bus, peers, answering: &answering, spinner }).await;
        peers.over(worked, answering.close()).await
    })
}

/// How many prompts and resources the server has; none of what it does not tell.
pub(super) async fn counted(
    bus: &Bus,
    peers: &Peers,
    globals: &Globals,
) -> Vec<(&'static str, usize)> {
    if bus.native_wire() != Some(WIRE) {
        return Vec::new();
    }
    let Ok((_, answering)) = AskedArgs::default().answering(globals, false) else {
        return Vec::new();
    };
    let (answering, spinner) = (&answering, None.into());
    let server = Server { bus, peers, answering, spinner };
    let count = async |method, member| match server.list_if_any(method, member).await {
        Ok(entries) => entries.len(),
        Err(_) => 0,
    };
    let prompts = count("prompts/list", "prompts").await;
    let resources = count("resources/list", "resources").await;
    vec![("prompt", prompts), ("resource", resources)]
}

/// A server that is asked in its own words.
pub(super) struct Server<'a> {
    bus: &'a Bus,
    peers: &'a Peers,
    answering: &'a Answering,
    spinner: std::cell::RefCell<Option<Spinner>>,
}

/// Why a request failed.
pub(super) enum Refused {
    /// The server has nothing of this kind.
    None(Failed),
    /// It says no.
    ByPeer(Failed),
    Otherwise(Failed),
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Failed {
        match refused {
            Refused::None(failed) | Refused::ByPeer(failed) | Refused::Otherwise(failed) => failed,
        }
    }
}

impl Server<'_> {
    /// What it could still say is of no interest.
    pub(super) fn hurry(&self) {
        self.bus.hurry();
    }

    /// The same, where a server that has nothing of this kind has none.
    async fn list_if_any(&self, method: &str, member: &str) -> Result<Vec<Json>, Refused> {
        match self.list(method, member).await {
            Err(Refused::None(_)) => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Why a prompt was not got: there is none of this name, or as it was said.
    async fn no_prompt(&self, name: &str, failed: Refused) -> Failed {
        let Refused::ByPeer(failed) = failed else { return failed.into() };
        let Ok(prompts) = self.list("prompts/list", "prompts").await else { return failed };
        let names: Vec<_> = prompts.iter().map(|prompt| text(prompt.as_str(), "name")).collect();
        match names.iter().any(|known| known == name) {
            true => failed,
            false => unknown("prompt", name, &names),
        }
    }

    /// Likewise of a resource, which may be one of a template.
    async fn no_resource(&self, uri: &str, failed: Refused) -> Failed {
        let Refused::ByPeer(failed) = failed else { return failed.into() };
        let Ok(listed) = self.list("resources/list", "resources").await else { return failed };
        let uris: Vec<_> = listed.iter().map(|known| text(known.as_str(), "uri")).collect();
        let templates = self.list("resources/templates/list", "resourceTemplates").await;
        let begins = |template: &Json| {
            let template = text(template.as_str(), "uriTemplate");
            let literal = template.split('{').next().unwrap_or_default();
            uri.starts_with(literal)
        };
        let may_be = templates.is_ok_and(|templates| templates.iter().any(begins));
        match may_be || uris.iter().any(|known| known == uri) {
            true => failed,
            false => unknown("resource", uri, &uris),
        }
    }

    /// All entries of a list, over its pages.
    pub(super) async fn list(&self, method: &str, member: &str) -> Result<Vec<Json>, Refused> {
        let (mut entries, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let params =
                cursor.map_or("{}".to_owned(), |cursor| format!("{{\"cursor\":{cursor}}}"));
            let page = self.request(method, &params).await?;
            let listed = edit::member(page.as_str(), member).unwrap_or("[]");
            entries.extend(edit::elements(listed).map(|raw| Json::from_trusted(raw.to_owned())));
            let next = edit::member(page.as_str(), "nextCursor").filter(|raw| *raw != "null");
            match next {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(entries),
            }
        }
        let message = format!("its list has more than {PAGES_MAX} pages");
        Err(Refused::Otherwise(Failed::new(Exit::Unreachable, message)))
    }

    /// Asks, and asks again with what the server wanted to know.
    pub(super) async fn request(&self, method: &str, params: &str) -> Result<Json, Refused> {
        let mut asking = params.to_owned();
        for _ in 0..=ROUNDS_MAX {
            let result = self.request_once(method, &asking).await?;
            match edit::text(result.as_str(), "resultType").as_deref() {
                None | Some("complete") => return Ok(result),
                Some("input_required") if can_be_answered(&result) => {
                    asking = answered(params, &result).await;
                }
                Some(kind) => return Err(Refused::Otherwise(unfinished(kind))),
            }
        }
        let message = format!("the server asked for input more than {ROUNDS_MAX} times");
        Err(Refused::Otherwise(Failed::new(Exit::Failed, message)))
    }

    /// Asks as servers of the old era are asked, and one that is not in the words of the new.
    async fn request_once(&self, method: &str, params: &str) -> Result<Json, Refused> {
        let asked = self.ask(method, params).await;
        let asked = match asked {
            Err(failure) if !failure.from_peer && failure.kind != FailureKind::TimedOut => {
                let capabilities = match question::can_be_answered() {
                    true => r#"{"elicitation":{"form":{}}}"#,
                    false => "{}",
                };
                let meta = format!(
                    r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{capabilities}}}"#
                );
                let modern = edit::with_first(params, "_meta", &meta);
                // What is wrong with the server is told by the first.
                self.ask(method, &modern).await.map_err(|second| match second.from_peer {
                    true => second,
                    false => failure,
                })
            }
            asked => asked,
        };
        self.spinner.take();
        match asked {
            Ok(result) => Ok(result),
            Err(Failure { code: Some(Code::Number(UNKNOWN_METHOD)), .. }) => {
                let what = method.split('/').next().unwrap_or_default();
                let message = format!("this server has no {what}");
                Err(Refused::None(Failed::new(Exit::Failed, message)))
            }
            Err(failure) => {
                let is_refused = failure.from_peer;
                let failure = self.peers.with_meant_if_one(failure);
                let failed = failure::failed(&with_hint(failure));
                Err(if is_refused { Refused::ByPeer(failed) } else { Refused::Otherwise(failed) })
            }
        }
    }

    async fn ask(&self, method: &str, params: &str) -> Result<Json, Failure> {
        let (inbox, reply_to) = Inbox::new();
        let method = Bytes::copy_from_slice(method.as_bytes());
        let body = Bytes::copy_from_slice(params.as_bytes());
        let call = Call::of(Instant::now(), What::Native { wire: WIRE, method, body });
        let running = self.bus.start(call, reply_to);
        let mut collector = Collector::new();
        let outcome = loop {
            let down = inbox.next(&running).await;
            if let Down::Ask(ask, question) = &down {
                self.spinner.take();
                let answer = self.answering.answer(question).await;
                let _ = running.send(Up::Answer(*ask, answer));
                continue;
            }
            let is_done = matches!(down, Down::Done(_));
            if let Some(outcome) = collector.take(down) {
                if is_done {
                    running.forget();
                }
                break outcome?;
            }
        };
        match outcome {
            Outcome::Native(result) => Json::parse(result).map_err(|error| {
                Failure::new(FailureKind::BrokeProtocol, format!("its result is no JSON: {error}"))
            }),
            _ => Err(Failure::new(FailureKind::BrokeProtocol, "its answer is no result")),
        }
    }
}

/// Is there a user, and are the questions in a result such as a user can answer?
fn can_be_answered(result: &Json) -> bool {
    let questions = edit::member(result.as_str(), "inputRequests").unwrap_or("{}");
    let is_form = |(_, asked): (_, &str)| {
        let params = edit::member(asked, "params").unwrap_or("{}");
        let mode = edit::text(params, "mode");
        edit::text(asked, "method").as_deref() == Some("elicitation/create")
            && mode.is_none_or(|mode| mode == "form")
    };
    question::can_be_answered() && edit::members(questions).all(is_form)
}

/// The parameters once more, with what the user answers to the questions in a result.
async fn answered(params: &str, result: &Json) -> String {
    let mut more = params.strip_suffix('}').unwrap_or(params).to_owned();
    let questions = edit::member(result.as_str(), "inputRequests");
    if let Some(questions) = questions {
        let mut answers = Vec::new();
        for (key, asked) in edit::members(questions) {
            let answer = question::answered(&Json::from_trusted(asked.to_owned())).await;
            let answer = edit::member(answer.as_str(), "result").unwrap_or("{}").to_owned();
            answers.push(format!("{}:{answer}", Json::of(&key)));
        }
        more += &format!(",\"inputResponses\":{{{}}}", answers.join(","));
    }
    if let Some(state) = edit::member(result.as_str(), "requestState") {
        more += &format!(",\"requestState\":{state}");
    }
    more + "}"
}

/// What is told of a name that the server does not have.
fn unknown(what: &str, name: &str, known: &[String]) -> Failed {
    let failed = Failed::usage(format!("no such {what}: `{name}`"));
    match nearest(name, known.iter().map(String::as_str)) {
        Some(meant) => failed.hint(format!("did you mean `{meant}`?")),
        None => failed.hint(format!("`toolbus {what} list` lists what there is")),
    }
}

/// What is told of a result that is none yet.
fn unfinished(kind: &str) -> Failed {
    let message = format!("{kind}: the server needs input before it answers");
    Failed::new(Exit::Failed, message)
        .hint("it asks questions, which a user can answer on a terminal")
}

fn print_list(
    entries: &[Json],
    globals: &Globals,
    row: impl Fn(&str) -> [String; 3],
) -> Result<(), Failed> {
    if globals.json {
        let lines: String = entries.iter().map(|entry| format!("{}\n", entry.compact())).collect();
        return render::print(&lines);
    }
    let shown = |cell: String| printable(&cell).replace(['\n', '\t'], " ");
    let rows: Vec<_> = entries.iter().map(|entry| row(entry.as_str()).map(shown)).collect();
    render::print(&match width::of_stdout() {
        None => table::plain(&rows),
        Some(width) => table::fitted(rows, width, &[(2, 24), (1, 16)]),
    })
}

pub(super) fn text(object: &str, name: &str) -> String {
    edit::text(object, name).unwrap_or_default().into_owned()
}

fn prompt_row(prompt: &str) -> [String; 3] {
    let arguments = edit::elements(edit::member(prompt, "arguments").unwrap_or("[]"));
    let named = arguments.map(|argument| {
        let mark = if edit::member(argument, "required") == Some("true") { "" } else { "?" };
        format!("{}{mark}", text(argument, "name"))
    });
    let named: Vec<_> = named.collect();
    [text(prompt, "name"), named.join(", "), first_line(prompt)]
}

fn resource_row(resource: &str) -> [String; 3] {
    let uri = edit::text(resource, "uri").or_else(|| edit::text(resource, "uriTemplate"));
    [uri.unwrap_or_default().into_owned(), text(resource, "mimeType"), first_line(resource)]
}

/// What people are told of an entry: its description, or its name.
fn first_line(entry: &str) -> String {
    let told = edit::text(entry, "description")
        .or_else(|| edit::text(entry, "title"))
        .or_else(|| edit::text(entry, "name"));
    told.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// `user: text` for each message of a prompt.
fn messages(result: &Json) -> String {
    let messages = edit::elements(edit::member(result.as_str(), "messages").unwrap_or("[]"));
    let told = messages.map(|message| {
        let content = edit::member(message, "content").unwrap_or("{}");
        let said = edit::text(content, "text").map_or_else(
            || Json::from_trusted(content.to_owned()).compact().to_string(),
            std::borrow::Cow::into_owned,
        );
        format!("{}: {said}\n", text(message, "role"))
    });
    told.collect()
}

/// Text as it is; bytes into a file or a pipe.
fn print_contents(result: &Json, out: Option<&std::path::Path>) -> Result<(), Failed> {
    let contents = edit::elements(edit::member(result.as_str(), "contents").unwrap_or("[]"));
    let mut whole = Vec::new();
    let mut is_text = true;
    for content in contents {
        let bytes = match edit::text(content, "blob") {
            Some(blob) => {
                is_text = false;
                from_base64(&blob).ok_or_else(|| {
                    Failed::new(Exit::Unreachable, "its bytes are not written in base64")
                })?
            }
            None => text(content, "text").into_bytes(),
        };
        whole.extend_from_slice(&bytes);
    }
    if let Some(path) = out {
        let mut file = BlobFile::create(path.to_owned())?;
        file.write(&whole)?;
        return render::print(&format!("{}\n", file.finish()?));
    }
    match String::from_utf8(whole) {
        Ok(mut text) if is_text => {
            if !text.ends_with('\n') && io::stdout().is_terminal() {
                text.push('\n');
            }
            render::print(&text)
        }
        bytes if io::stdout().is_terminal() => {
            let count = bytes.map_or_else(|error| error.into_bytes().len(), |text| text.len());
            Err(Failed::usage(format!("the resource is {count} bytes that are no text"))
                .hint("`--out FILE` writes them to a file; in a pipe they are printed"))
        }
        bytes => {
            let bytes =
                bytes.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes);
            render::print_bytes(&bytes)
        }
    }
}
