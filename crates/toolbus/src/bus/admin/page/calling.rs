//! Calls that the page makes: answered in one object, or bit by bit as an event stream.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{AskId, Down, Up};
use toolbus_proto::collect::{Collector, base64};
use toolbus_proto::http::RequestHead;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::page::{JsonMembers, code_json, json_of};
use toolbus_proto::tool::{Call, CallOptions, Failure, Outcome, Part, Piece, Provenance, ToolName};

use super::Page;
use super::observer::OfOwnCall;
use super::requests::{Asker, PageRefusal, dress, json};
use crate::bus::observe::Observer;
use crate::engine::calls::{Inbox, Pressure, RunningCall};
use crate::task::spawn_local;
use crate::transport::http::{BodySink, HeaderValue, Response, StatusCode, header};
use crate::units;
use crate::wake::Wake;

/// The front that calls of the page come by.
pub(in super::super) const FRONT: &str = "page";
/// So many at a time.
const CALLS_MAX: usize = 16;
/// What is answered while a call runs.
const ASKS: &str = r#"{"elicitation":{"form":{}}}"#;
/// The question that a user answers.
const FORM: &str = "elicitation/create";

/// One call of the page that runs.
pub(super) struct OwnCall {
    n: u64,
    asked: Instant,
    /// Its questions by the names that were told, until they are answered.
    asks: RefCell<HashMap<String, Option<AskId>>>,
    /// What is to be said to its tool.
    ups: RefCell<VecDeque<Up>>,
    is_cancelled: Cell<bool>,
    /// There is something to say, or it is cancelled.
    bell: Wake,
    is_over: Cell<bool>,
    over: tokio::sync::Notify,
}

impl OwnCall {
    pub(super) fn cancel(&self) {
        self.is_cancelled.set(true);
        self.bell.ring();
    }

    /// Waits for its end.
    pub(super) async fn over(&self) {
        loop {
            let over = self.over.notified();
            if self.is_over.get() {
                return;
            }
            over.await;
        }
    }

    fn millis(&self) -> Duration {
        self.asked.elapsed()
    }
}

/// What a request asks for.
struct WantedCall {
    tool: String,
    arguments: Option<Json>,
    timeout: Option<Duration>,
}

impl Page {
    /// Makes the call that a request describes.
    pub(super) fn make_call(self: &Rc<Page>, head: &RequestHead, body: &Json, asker: Asker) {
        let wanted = match wanted(body) {
            Ok(wanted) => wanted,
            Err(refusal) => return asker.tell(Err(refusal)),
        };
        let calling = self.calling.borrow().clone();
        let Some((bus, observers)) = calling.filter(|_| !self.is_stopping.get()) else {
            return asker.tell(Err(PageRefusal::busy("no call is begun any more")));
        };
        if CALLS_MAX <= self.calls.borrow().len() {
            let message = format!("{CALLS_MAX} calls of the page are under way already");
            return asker.tell(Err(PageRefusal::busy(message)));
        }
        let streams = head.headers.all("Accept").any(|accepted| {
            let types = accepted.split(',').map(|it| it.split(';').next().unwrap_or_default());
            types.into_iter().any(|it| it.trim().eq_ignore_ascii_case("text/event-stream"))
        });
        let own = Rc::new(OfOwnCall { page: self.clone(), n: Cell::new(0) });
        let all = observers.iter().cloned().chain([own.clone() as Rc<dyn Observer>]);
        let bus = bus.observed_only_by(all).for_front(FRONT);
        let asked = Instant::now();
        let mut call = Call::tool(asked, ToolName::new(wanted.tool), wanted.arguments);
        call.deadline.total = wanted.timeout;
        call.options = CallOptions { progress: true, ..CallOptions::default() };
        let asks = Some(Json::from_trusted(ASKS));
        call.provenance = Some(Box::new(Provenance { asks, ..Provenance::default() }));
        let (inbox, reply_to) = Inbox::new();
        let running = bus.start(call, reply_to);
        let call = Rc::new(OwnCall {
            n: own.n.get(),
            asked,
            asks: RefCell::default(),
            ups: RefCell::default(),
            is_cancelled: Cell::new(false),
            bell: Wake::default(),
            is_over: Cell::new(false),
            over: tokio::sync::Notify::new(),
        });
        self.calls.borrow_mut().insert(call.n, call.clone());
        let ends = Ends { page: self.clone(), call };
        drop(spawn_local(async move {
            match streams {
                true => ends.call.stream(&inbox, running, asker).await,
                false => ends.call.collect(&inbox, running, asker).await,
            }
        }));
    }

    /// Gives a tool of a call of the page the answer to its question.
    pub(super) fn answer_question(&self, body: &Json) -> Result<Response<Bytes>, PageRefusal> {
        let members = known(body, &["n", "ask", "action", "content"])?;
        let number = members.get("n").and_then(|raw| raw.parse::<u64>().ok());
        let n = number.ok_or_else(|| PageRefusal::invalid("`n` must be the number of a call"))?;
        let text = |name: &str| edit::text(body.as_str(), name);
        let ask = text("ask").ok_or_else(|| PageRefusal::invalid("`ask` must be a text"))?;
        let action = text("action").filter(|it| ["accept", "decline", "cancel"].contains(&&**it));
        let action = action.ok_or_else(|| {
            PageRefusal::invalid("`action` must be \"accept\", \"decline\" or \"cancel\"")
        })?;
        let content = members.get("content").copied();
        if content.is_some_and(|content| !content.starts_with('{')) {
            return Err(PageRefusal::invalid("`content` must be an object"));
        }
        let call = self.calls.borrow().get(&n).cloned();
        let call = call.ok_or_else(|| {
            PageRefusal::not_found(format!("call {n} is none of the page that is under way"))
        })?;
        let mut asks = call.asks.borrow_mut();
        let question = asks
            .get_mut(&*ask)
            .ok_or_else(|| PageRefusal::not_found(format!("call {n} has no question `{ask}`")))?;
        let id = question.take().ok_or_else(|| {
            PageRefusal::conflict(format!("question `{ask}` of call {n} was answered"))
        })?;
        let content = match &*action {
            "accept" => format!(",\"content\":{}", content.unwrap_or("{}")),
            _ => String::new(),
        };
        let answer = format!("{{\"result\":{{\"action\":\"{action}\"{content}}}}}");
        call.ups.borrow_mut().push_back(Up::Answer(id, Json::from_trusted(answer)));
        call.bell.ring();
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = StatusCode::NO_CONTENT;
        Ok(answer)
    }
}

/// Forgets a call when it is over, whatever ends it.
struct Ends {
    page: Rc<Page>,
    call: Rc<OwnCall>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.page.calls.borrow_mut().remove(&self.call.n);
        self.call.is_over.set(true);
        self.call.over.notify_waiters();
    }
}

/// What comes next in a call.
enum Next {
    Down(Down),
    /// There is something to say to its tool, or it is cancelled.
    Bell,
    /// Who asked for it has left.
    Gone,
}

impl OwnCall {
    async fn next(
        &self,
        inbox: &Inbox,
        running: &RunningCall,
        gone: &mut (impl Future<Output = ()> + Unpin),
    ) -> Next {
        tokio::select! {
            biased;
            () = gone => Next::Gone,
            () = self.bell.rung() => Next::Bell,
            down = inbox.next(running) => Next::Down(down),
        }
    }

    /// Says to the tool what there is to say; tells whether the call goes on.
    fn say(&self, running: &RunningCall) -> bool {
        while let Some(up) = self.ups.borrow_mut().pop_front() {
            let _ = running.send(up);
        }
        !self.is_cancelled.get()
    }

    async fn collect(&self, inbox: &Inbox, running: RunningCall, asker: Asker) {
        let mut gone = Box::pin(asker.responder.gone());
        let mut collector = Collector::new();
        let outcome = loop {
            let down = match self.next(inbox, &running, &mut gone).await {
                // Letting go of it cancels it.
                Next::Gone => return,
                Next::Bell if self.say(&running) => continue,
                Next::Bell => break Err(Failure::cancelled()),
                Next::Down(Down::Ask(id, _)) => {
                    let _ = running.send(Up::Answer(id, declined()));
                    continue;
                }
                Next::Down(down) => down,
            };
            let is_done = matches!(down, Down::Done(_));
            if let Some(outcome) = collector.take(down) {
                if is_done {
                    running.forget();
                }
                break outcome;
            }
        };
        let mut out = Vec::new();
        let mut members = JsonMembers::begin(&mut out);
        members.number("n", self.n);
        members.text("outcome", outcome.as_ref().map_or_else(|it| it.kind.as_str(), |_| "ok"));
        members.millis("duration", self.millis());
        match &outcome {
            Ok(outcome) => {
                if let Some(result) = json_of(outcome) {
                    members.raw("result", result.as_str());
                }
            }
            Err(failure) => members.object("failure", |members| write_failure(members, failure)),
        }
        members.end();
        asker.tell(Ok(json(out)));
    }

    async fn stream(&self, inbox: &Inbox, running: RunningCall, asker: Asker) {
        let mut answer = Response::new(());
        let media_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
        dress(&mut answer);
        let sink = asker.responder.respond(answer);
        let mut gone = Box::pin(sink.gone());
        let mut media_type = None;
        let _ = self.tell(&sink, "begin", |members| members.number("n", self.n));
        loop {
            let down = match self.next(inbox, &running, &mut gone).await {
                Next::Gone => return,
                Next::Bell if self.say(&running) => continue,
                Next::Bell => Down::Done(Err(Failure::cancelled())),
                Next::Down(down) => down,
            };
            let pressure = match down {
                Down::Done(outcome) => {
                    let _ = match &outcome {
                        Ok(outcome) => self.tell_end(&sink, outcome),
                        Err(failure) => self.tell(&sink, "fail", |members| {
                            self.write_at(members);
                            write_failure(members, failure);
                        }),
                    };
                    if !self.is_cancelled.get() {
                        running.forget();
                    }
                    sink.end();
                    return;
                }
                Down::Ask(id, question) => match self.ask(id, &question) {
                    Some(ask) => self.tell(&sink, "ask", |members| {
                        self.write_at(members);
                        members.text("ask", &ask);
                        members.raw("question", question.compact().as_str());
                    }),
                    None => {
                        let _ = running.send(Up::Answer(id, declined()));
                        Pressure::Ready
                    }
                },
                down => self.tell_down(&sink, down, &mut media_type),
            };
            if pressure == Pressure::Full {
                tokio::select! {
                    () = &mut gone => return,
                    () = sink.room() => {}
                }
            }
        }
    }

    /// Takes down a question that a user can answer, and gives its name.
    fn ask(&self, id: AskId, question: &Json) -> Option<String> {
        let params = edit::member(question.as_str(), "params").unwrap_or("{}");
        let mode = edit::text(params, "mode");
        let is_form = edit::text(question.as_str(), "method").as_deref() == Some(FORM)
            && mode.is_none_or(|mode| mode == "form");
        is_form.then(|| {
            let mut asks = self.asks.borrow_mut();
            let name = (asks.len() + 1).to_string();
            asks.insert(name.clone(), Some(id));
            name
        })
    }

    fn write_at(&self, members: &mut JsonMembers<'_>) {
        members.millis("at", self.millis());
    }

    fn tell_end(&self, sink: &BodySink, outcome: &Outcome) -> Pressure {
        self.tell(sink, "end", |members| {
            self.write_at(members);
            if let Some(value) = json_of(outcome) {
                members.raw("value", value.compact().as_str());
            }
        })
    }

    fn tell_down(
        &self,
        sink: &BodySink,
        down: Down,
        media_type: &mut Option<std::sync::Arc<str>>,
    ) -> Pressure {
        let value = |name: &str, value: &Json| {
            self.tell(sink, name, |members| {
                self.write_at(members);
                members.raw("value", value.compact().as_str());
            })
        };
        match down {
            Down::Begin { head: Some(head), .. } => self.tell(sink, "begin", |members| {
                members.number("n", self.n);
                members.raw("head", head.compact().as_str());
            }),
            Down::Part(Part::Json(json)) => value("part", &json),
            Down::Part(Part::Text(text)) => value("part", &Json::of(&text)),
            Down::Part(Part::Bytes(Piece { data, media_type: of_run, last, .. })) => {
                if of_run.is_some() {
                    *media_type = of_run;
                }
                let told = self.tell(sink, "part", |members| {
                    self.write_at(members);
                    members.text("bytes", &base64(&data));
                    let octets = "application/octet-stream";
                    members.text("type", media_type.as_deref().unwrap_or(octets));
                });
                if last {
                    *media_type = None;
                }
                told
            }
            Down::Progress(json) => value("progress", &json),
            Down::Log(json) => value("log", &json),
            Down::Begin { .. } | Down::Ask(..) | Down::Done(_) => Pressure::Ready,
        }
    }

    fn tell(
        &self,
        sink: &BodySink,
        name: &str,
        write: impl FnOnce(&mut JsonMembers<'_>),
    ) -> Pressure {
        let mut text = format!("event: {name}\ndata: ").into_bytes();
        let mut members = JsonMembers::begin(&mut text);
        write(&mut members);
        members.end();
        text.extend_from_slice(b"\n\n");
        sink.send(&Bytes::from(text))
    }
}

fn write_failure(members: &mut JsonMembers<'_>, failure: &Failure) {
    members.text("kind", failure.kind.as_str());
    members.text("message", &failure.message);
    if let Some(code) = &failure.code {
        members.raw("code", code_json(code).as_str());
    }
    if let Some(detail) = &failure.detail {
        members.raw("detail", detail.compact().as_str());
    }
}

fn declined() -> Json {
    Json::from_trusted(r#"{"result":{"action":"decline"}}"#)
}

fn wanted(body: &Json) -> Result<WantedCall, PageRefusal> {
    let members = known(body, &["tool", "arguments", "timeout"])?;
    let text = |name: &str| edit::text(body.as_str(), name);
    let tool =
        text("tool").ok_or_else(|| PageRefusal::invalid("`tool` must be the name of a tool"))?;
    let timeout = match members.get("timeout") {
        None => None,
        Some(_) => {
            let text = text("timeout")
                .ok_or_else(|| PageRefusal::invalid("`timeout` must be a time, as in \"30s\""))?;
            let timeout = units::duration(&text);
            Some(timeout.map_err(|error| PageRefusal::invalid(format!("`timeout`: {error}")))?)
        }
    };
    let arguments = members.get("arguments").map(|raw| Json::part_of(body.as_bytes(), raw));
    Ok(WantedCall { tool: tool.into_owned(), arguments, timeout })
}

/// The members of an object that may have these, as they are written.
fn known<'a>(
    body: &'a Json,
    names: &[&'static str],
) -> Result<HashMap<&'static str, &'a str>, PageRefusal> {
    let mut members = HashMap::new();
    for (key, raw) in edit::members(body.as_str()) {
        let Some(name) = names.iter().find(|name| **name == key) else {
            let known = names.join(", ");
            let message = format!("there is no member `{key}`; it can be {known}");
            return Err(PageRefusal::invalid(message));
        };
        if members.insert(*name, raw).is_some() {
            return Err(PageRefusal::invalid(format!("the member `{name}` stands there twice")));
        }
    }
    Ok(members)
}
