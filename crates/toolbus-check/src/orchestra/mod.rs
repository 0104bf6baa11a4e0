//! Tests somebody's hub or plugin against the rules of `docs/protocols/orchestra.md`.

mod rules;
mod subject;
mod talk;

use std::collections::HashSet;
use std::time::Duration;

use toolbus_proto::orchestra::structure::Struct;
use toolbus_proto::orchestra::wire::{
    HealthRequest, ListToolsRequest, Response, ShutdownRequest, Status, ToolRequest,
};
use toolbus_proto::tool::{Failure, FailureKind};

use self::subject::Subject;
use self::talk::Talk;
use crate::{CheckKind, Finding, Target, TargetError, Verdict, Wanted};
use toolbus::address::Address;
use toolbus::bus::back::LocalFuture;
use toolbus::wire::orchestra::tls;

/// How many requests end late: more than any known peer has streams.
const LATE_ENDS: usize = 150;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// How a program is tested that should speak it.
pub(crate) struct Check;

impl CheckKind for Check {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        let is_address = text.starts_with("orchestra+");
        let full = if is_address { text.to_owned() } else { format!("orchestra+plugin:{text}") };
        let address = Address::parse(&full)?;
        Ok(Box::new(Subject::of(&address, wanted).map_err(TargetError::new)?))
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

async fn check(subject: &Subject, tell: &mut dyn FnMut(Finding)) -> Result<(), Failure> {
    let mut demanded = |rule, kept| tell(Finding { rule, verdict: Verdict::demanded(kept) });
    let is_plugin = subject.is_plugin();
    if is_plugin {
        demanded("--manifest", subject.manifest().await);
    }
    let connection = subject.open().await?;
    if is_plugin {
        demanded("READY", Ok(()));
    }
    demanded("handshake with ALPN", Ok(()));
    let talk = Talk::new(connection);
    demanded("refuses another ALPN", subject.refuses(b"h3", subject.own()).await);
    let foreign = subject.foreign().await?;
    demanded("refuses a foreign certificate", subject.refuses(tls::ALPN, Some(foreign)).await);
    let required = subject.refuses(tls::ALPN, None).await;
    tell(Finding { rule: "requires a certificate", verdict: Verdict::wished(required) });
    let mut demanded = |rule, kept| tell(Finding { rule, verdict: Verdict::demanded(kept) });
    demanded("health", health(&talk).await);
    demanded("echoes request_id", echoes(&talk).await);
    demanded("split header", split_header(&talk).await);
    demanded("empty frame", unknown(&talk, b"\x00\x00\x00\x00").await);
    demanded("unknown member", unknown(&talk, b"\x00\x00\x00\x03\xa2\x06\x00").await);
    demanded("FIN-less request", without_end(&talk).await);
    demanded("unknown tool", unknown_tool(&talk).await);
    let tools = tools(&talk).await;
    demanded("tools have unique names", tools.as_deref().map_err(Clone::clone).and_then(unique));
    demanded("tools have object schemas", tools.as_deref().map_err(Clone::clone).and_then(objects));
    // On a connection of its own: existing servers never give these streams back.
    let late = match subject.open_another().await {
        Ok(connection) => late_ends(&Talk::new(connection)).await,
        Err(failure) => Err(failure.message),
    };
    demanded("150 late FINs", late);
    if is_plugin {
        demanded("shutdown", shutdown(&talk).await);
        demanded("exit", subject.exits().await);
    }
    Ok(())
}

async fn health(talk: &Talk) -> Result<(), String> {
    match talk.ask("check-1", HealthRequest::default()).await?.1 {
        Some(Response::Health(health)) if health.status == Status::HEALTHY => Ok(()),
        Some(Response::Health(health)) => Err(format!("it says {}", health.status)),
        other => Err(odd(&other)),
    }
}

async fn echoes(talk: &Talk) -> Result<(), String> {
    let id = "check-\u{e9}-2";
    let (echoed, _) = talk.ask(id, HealthRequest::default()).await?;
    if echoed == id { Ok(()) } else { Err(format!("`{id}` came back as `{echoed}`")) }
}

async fn split_header(talk: &Talk) -> Result<(), String> {
    let frame = Talk::frame("check-3", HealthRequest::default());
    let pieces: Vec<&[u8]> = frame.chunks(1).collect();
    talk.say(&pieces, true).await.map(drop)
}

/// Something that is no request: answered, and the connection goes on.
async fn unknown(talk: &Talk, frame: &[u8]) -> Result<(), String> {
    match talk.say(&[frame], true).await?.1 {
        Some(Response::ToolCall(answer)) if answer.error_code == "unknown_request" => Ok(()),
        other => Err(odd(&other)),
    }
}

async fn without_end(talk: &Talk) -> Result<(), String> {
    let frame = Talk::frame("check-4", HealthRequest::default());
    talk.say(&[&frame], false).await.map(drop)
}

async fn late_ends(talk: &Talk) -> Result<(), String> {
    for count in 0..LATE_ENDS {
        let frame = Talk::frame("check-5", HealthRequest::default());
        let answered = talk.say(&[&frame], false).await;
        answered.map_err(|why| format!("after {count} of them: {why}"))?;
    }
    Ok(())
}

async fn unknown_tool(talk: &Talk) -> Result<(), String> {
    let request = ToolRequest { tool_name: "toolbus.check".to_owned(), ..ToolRequest::default() };
    match talk.ask("check-6", request).await?.1 {
        Some(Response::ToolCall(answer)) if answer.error_code == "tool_not_found" => Ok(()),
        Some(Response::ToolCall(answer)) => Err(format!("its code is `{}`", answer.error_code)),
        other => Err(odd(&other)),
    }
}

/// The names and schemas of all tools.
async fn tools(talk: &Talk) -> Result<Vec<(String, Option<Struct>)>, String> {
    match talk.ask("check-7", ListToolsRequest::default()).await?.1 {
        Some(Response::ListTools(list)) => {
            Ok(list.tools.into_iter().map(|tool| (tool.name, tool.input_schema)).collect())
        }
        other => Err(odd(&other)),
    }
}

fn unique(tools: &[(String, Option<Struct>)]) -> Result<(), String> {
    let mut seen = HashSet::new();
    match tools.iter().find(|(name, _)| !seen.insert(name)) {
        Some((name, _)) => Err(format!("there are two of `{name}`")),
        None => Ok(()),
    }
}

fn objects(tools: &[(String, Option<Struct>)]) -> Result<(), String> {
    for (name, schema) in tools {
        let Some(schema) = schema else { continue };
        let text = schema.to_json();
        let is_object = text.as_str() == "{}" || text.as_str().contains("\"type\":\"object\"");
        if !is_object {
            return Err(format!("`{name}` takes no object: {text}"));
        }
    }
    Ok(())
}

async fn shutdown(talk: &Talk) -> Result<(), String> {
    let request = ShutdownRequest { timeout_seconds: 2, ..ShutdownRequest::default() };
    match talk.ask("check-8", request).await?.1 {
        Some(Response::Shutdown(answer)) if answer.clean => Ok(()),
        other => Err(odd(&other)),
    }
}

fn odd(response: &Option<Response>) -> String {
    match response {
        Some(_) => "it answers something else".to_owned(),
        None => "it answers without a member".to_owned(),
    }
}

fn unreachable(why: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Unavailable, why)
}
