//! Is it an MCP server? The rules that its clients depend on (`docs/protocols/mcp.md` 2.11).
//!
//! What could spoil a conversation is tried in one of its own.

mod conversation;
mod message;
mod pair;
mod pipes;
mod rules;
mod web;

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::json::edit;
use toolbus_proto::mcp::wire::HEADER_MISMATCH;
use toolbus_proto::mcp::wire::{Era, Revision, UNKNOWN_METHOD, UNSUPPORTED_VERSION};
use toolbus_proto::tool::Failure;

use self::conversation::{Line, Met};
use self::message::{NOBODYS, Question, Refusal};
use self::{
    pair::Pair,
    web::{Web, pairs},
};
use toolbus::address::{self, Address};
use toolbus::bus::back::LocalFuture;
use toolbus::peer::open::program;
use toolbus::wire::mcp::{WIRE, back_http::Options, is_pair};
use toolbus_engine::child::{EnvPolicy, Program};
use toolbus_engine::transport::http::Method;

use crate::{CheckKind, Finding, Target, TargetError, Verdict, Wanted};

/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How many pages of a list are read.
const PAGES_MAX: usize = 100;
/// A version that never was.
const NO_VERSION: &str = "1999-12-31";
const NEVER_MET: &str = "not tried: it was never greeted";

/// Who is tested, and how long it may take.
struct Subject {
    /// Where it is.
    pub place: Place,
    /// How long until it must have answered the greeting.
    pub start: Duration,
    /// How long it may take to end.
    pub stop: Duration,
}

/// Where a server is.
enum Place {
    /// To be started.
    Program(Program),
    /// Somewhere else.
    Url(Rc<Options>),
}

/// Tests a server, and tells what became of each rule as soon as that is known.
///
/// Fails only if the server cannot be started or reached at all.
async fn check(subject: &Subject, mut tell: impl FnMut(Finding)) -> Result<(), Failure> {
    let mut tell = |rule, verdict| tell(Finding { rule, verdict });
    let mut met = match subject.meet().await? {
        Ok(met) => met,
        Err(why) => {
            tell("handshake", Verdict::Fail(why));
            for rule in subject.place.needs_handshake() {
                tell(rule, Verdict::Note(NEVER_MET.to_owned()));
            }
            return Ok(());
        }
    };
    let era = met.era;
    tell("handshake", Verdict::Ok);
    tell("version", Verdict::demanded(version(subject, era).await));
    tell("ids", Verdict::demanded(ids(&mut met).await));
    if met.has_tools {
        tell("tools-list", Verdict::demanded(tools_list(&mut met).await));
        tell("unknown-tool", Verdict::demanded(unknown_tool(&mut met).await));
    } else {
        tell("tools-list", no_tools());
        tell("unknown-tool", no_tools());
    }
    tell("unknown-method", Verdict::demanded(unknown_method(&mut met).await));
    tell("notification", Verdict::demanded(unanswered(&mut met).await));
    let ping = match era {
        Era::Legacy => Verdict::wished(ping(&mut met).await),
        Era::Modern => Verdict::Note("not tried: the modern era has none".to_owned()),
    };
    match met.line {
        Line::Pipes(mut pipes) => {
            let eof = pipes.ends_at_eof(subject.stop).await;
            tell("stdout", Verdict::demanded(pipes.was_clean()));
            tell("eof", Verdict::demanded(eof));
        }
        Line::Web(web) => {
            tell("session", session(web, era).await);
            tell("headers", headers(subject).await);
            tell("origin", Verdict::demanded(origin(subject, era).await));
        }
        Line::Pair(mut pair) => {
            tell("session", Verdict::demanded(no_session(&mut pair).await));
            tell("headers", Verdict::Note("not tried: HTTP+SSE is of the legacy era".to_owned()));
            tell("origin", Verdict::demanded(origin_of_pair(subject).await));
        }
    }
    tell("garbage", Verdict::wished(garbage(subject, era).await));
    tell("ping", ping);
    Ok(())
}

impl Place {
    /// What can only be tried with a server that was greeted, in the order in which it is told.
    fn needs_handshake(&self) -> impl Iterator<Item = &'static str> {
        let own: &[_] = match self {
            Place::Program(_) => &["stdout", "eof"],
            Place::Url(_) => &["session", "headers", "origin"],
        };
        let first =
            ["version", "ids", "tools-list", "unknown-tool", "unknown-method", "notification"];
        first.into_iter().chain(own.iter().copied()).chain(["garbage", "ping"])
    }
}

fn no_tools() -> Verdict {
    Verdict::Note("not tried: it says that it has no tools".to_owned())
}

async fn version(subject: &Subject, era: Era) -> Result<(), String> {
    let mut line = subject.fresh().await?;
    let reply = line.ask(&Question::greeting(era, NO_VERSION)).await?;
    match reply.outcome {
        Err(Refusal { code: Some(UNSUPPORTED_VERSION), .. }) => Ok(()),
        Err(refusal) => Err(format!("version {NO_VERSION} got {}", refusal.shown())),
        Ok(result) => {
            let version = edit::text(result.as_str(), "protocolVersion");
            match version.as_deref().and_then(Revision::named) {
                Some(_) => Ok(()),
                None => Err(format!("version {NO_VERSION} was answered by {}", result.shown())),
            }
        }
    }
}

async fn ids(met: &mut Met) -> Result<(), String> {
    for sent in ["\"toolbus\"", "7", "\"7\""] {
        let reply = met.ask_simply(sent).await?;
        if reply.id != sent {
            return Err(format!("{sent} came back as {}", reply.id));
        }
    }
    Ok(())
}

async fn tools_list(met: &mut Met) -> Result<(), String> {
    let mut names = HashSet::new();
    let mut members = String::new();
    for _ in 0..PAGES_MAX {
        let reply = met.ask("3", "tools/list", &members).await?;
        let result = reply.outcome.map_err(|refusal| refusal.shown())?;
        let result = result.as_str();
        let tools = edit::member(result, "tools").ok_or("`tools` is missing")?;
        for tool in edit::elements(tools) {
            let name = tool_name(tool)?;
            if let Some(name) = names.replace(name) {
                return Err(format!("tool `{name}` stands twice"));
            }
        }
        match edit::member(result, "nextCursor") {
            None | Some("null") => return Ok(()),
            Some(cursor) => members = format!("\"cursor\":{cursor}"),
        }
    }
    Err(format!("it has more than {PAGES_MAX} pages"))
}

/// The name of a tool that has all it needs.
fn tool_name(tool: &str) -> Result<String, String> {
    let name = edit::text(tool, "name").map(Cow::into_owned);
    let name = name.ok_or_else(|| format!("a tool has no name: {tool}"))?;
    let schema = edit::member(tool, "inputSchema");
    let schema = schema.ok_or_else(|| format!("tool `{name}` has no `inputSchema`"))?;
    match edit::text(schema, "type").as_deref() {
        Some("object") => Ok(name),
        _ => Err(format!("the `inputSchema` of tool `{name}` is not of type object")),
    }
}

async fn unknown_tool(met: &mut Met) -> Result<(), String> {
    let reply = met.line.ask(&Question::unknown_tool(met.era)).await?;
    match reply.outcome {
        Err(_) => Ok(()),
        Ok(result) if edit::member(result.as_str(), "isError") == Some("true") => Ok(()),
        Ok(result) => Err(format!("it answered {}", result.shown())),
    }
}

async fn unknown_method(met: &mut Met) -> Result<(), String> {
    match met.ask("4", NOBODYS, "").await?.outcome {
        Err(Refusal { code: Some(UNKNOWN_METHOD), .. }) => Ok(()),
        Err(refusal) => Err(format!("it should be {UNKNOWN_METHOD}, and is {}", refusal.shown())),
        Ok(result) => Err(format!("it answered {}", result.shown())),
    }
}

async fn unanswered(met: &mut Met) -> Result<(), String> {
    met.line.tell(met.era, "notifications/toolbus_check").await?;
    let sent = "5";
    let reply = met.ask_simply(sent).await?;
    match reply.id == sent {
        true => Ok(()),
        false => Err("it was answered".to_owned()),
    }
}

async fn ping(met: &mut Met) -> Result<(), String> {
    match met.ask("6", "ping", "").await?.outcome {
        Ok(_) => Ok(()),
        Err(refusal) => Err(refusal.shown()),
    }
}

/// Is a line that is no JSON survived?
async fn garbage(subject: &Subject, era: Era) -> Result<(), String> {
    const GARBAGE: &str = "this is not JSON";
    let met = subject.greet(era).await.map_err(|failure| failure.message)?;
    let mut met = met?;
    match &mut met.line {
        Line::Pipes(pipes) => pipes.say(GARBAGE).await,
        Line::Web(web) => {
            let headers = web.headers(None);
            web.post(GARBAGE, &headers, ANSWER_PATIENCE).await?;
        }
        Line::Pair(pair) => drop(pair.post(GARBAGE).await?),
    }
    let sent = "\"behind\"";
    let unanswered = |why| format!("a request behind it was not answered: {why}");
    let mut reply = met.ask_simply(sent).await.map_err(unanswered)?;
    if reply.id != sent {
        // That was about the garbage.
        reply = match &mut met.line {
            Line::Pipes(pipes) => pipes.reply(ANSWER_PATIENCE).await.map_err(unanswered)?,
            Line::Pair(pair) => pair.reply(ANSWER_PATIENCE).await.map_err(unanswered)?,
            Line::Web(_) => reply,
        };
    }
    match reply.id == sent {
        true => Ok(()),
        false => Err("a request behind it was not answered".to_owned()),
    }
}

/// A session that never was is not found.
async fn session(mut web: Web, era: Era) -> Verdict {
    if era == Era::Modern || web.session.is_none() {
        return Verdict::Note("not tried: it keeps no sessions".to_owned());
    }
    web.session = Some("00000000000000000000000000000000".to_owned());
    let question = Question::new(era, "8", "ping", "");
    let headers = web.headers(Some(&question));
    Verdict::demanded(match web.post(&question.to_text(), &headers, ANSWER_PATIENCE).await {
        Ok(answered) if answered.status.as_u16() == 404 => Ok(()),
        Ok(answered) => Err(format!("an unknown one should be 404; {}", answered.shown())),
        Err(why) => Err(why),
    })
}

/// The same where a session is named by the URL that is posted to.
async fn no_session(pair: &mut Pair) -> Result<(), String> {
    match pair.post_to_none(&Question::new(Era::Legacy, "8", "ping", "").to_text()).await? {
        404 => Ok(()),
        status => Err(format!("an unknown one should be 404; it answered {status}")),
    }
}

/// What stands in the body of a modern request must stand in its headers too.
async fn headers(subject: &Subject) -> Verdict {
    match subject.greet(Era::Modern).await {
        Ok(Ok(Met { line: Line::Web(mut web), .. })) => {
            Verdict::demanded(without_method(&mut web).await)
        }
        _ => Verdict::Note("not tried: it does not speak the modern era".to_owned()),
    }
}

async fn without_method(web: &mut Web) -> Result<(), String> {
    let question = Question::greeting(Era::Modern, Revision::MODERN.as_str());
    let mut headers = web.headers(Some(&question));
    headers.retain(|(name, _)| name != "mcp-method");
    let answered = web.post(&question.to_text(), &headers, ANSWER_PATIENCE).await?;
    match answered.reply.as_ref().map(|reply| &reply.outcome) {
        Some(Err(Refusal { code: Some(HEADER_MISMATCH), .. })) => Ok(()),
        Some(Err(refusal)) => Err(format!(
            "without `Mcp-Method` it should be {HEADER_MISMATCH}, and is {}",
            refusal.shown()
        )),
        _ => Err(format!("without `Mcp-Method` {}", answered.shown())),
    }
}

async fn origin(subject: &Subject, era: Era) -> Result<(), String> {
    let Line::Web(mut web) = subject.fresh().await? else { return Ok(()) };
    let version = Question::new(era, "1", "", "").version;
    let question = Question::greeting(era, version);
    let mut headers = web.headers(Some(&question));
    headers.extend(pairs(&[("origin", "http://toolbus-check.invalid")]));
    let answered = web.post(&question.to_text(), &headers, ANSWER_PATIENCE).await?;
    match answered.status.as_u16() {
        403 => Ok(()),
        _ => Err(format!("a foreign one should be 403; {}", answered.shown())),
    }
}

async fn origin_of_pair(subject: &Subject) -> Result<(), String> {
    let Place::Url(options) = &subject.place else { return Ok(()) };
    let headers =
        pairs(&[("accept", "text/event-stream"), ("origin", "http://toolbus-check.invalid")]);
    let answered = options.ask(Method::GET, &headers, Bytes::new()).await;
    match answered.map_err(|error| error.to_string())?.status().as_u16() {
        403 => Ok(()),
        status => Err(format!("a foreign one should be 403; it answered {status}")),
    }
}

/// How a program is tested that should speak it.
pub(crate) struct Check;

impl CheckKind for Check {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        let address = Address::parse(text)?;
        let place = match address.place() {
            address::Place::Command(words) if address.wire() == WIRE || address.is_bare() => {
                Place::Program(program(words, &wanted.settings, EnvPolicy::Inherit))
            }
            address::Place::Url(url) if address.wire() == WIRE => {
                let (name, sse) = (address.peer_name(), is_pair(&address));
                let options = Options::of(&name, url, sse, &wanted.settings);
                Place::Url(Rc::new(options.map_err(TargetError::new)?))
            }
            _ => {
                return Err(TargetError::new(format!("`{text}` is no MCP server"))
                    .hint("name one by `mcp+stdio:COMMAND` or `http://HOST:PORT/PATH`"));
            }
        };
        let start = wanted.start.unwrap_or(toolbus::wire::mcp::PATIENCE.start);
        Ok(Box::new(Subject { place, start, stop: wanted.stop }))
    }
}

impl Target for Subject {
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(check(self, tell))
    }
}
