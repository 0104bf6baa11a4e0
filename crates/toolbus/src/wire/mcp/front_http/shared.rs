//! Sessions that several machines share: an id says which node has it, and what comes to another is
//! carried there.
//!
//! What carries is another front of the config, known by its name. A request is judged where it came
//! in; the node that has the session opens the id once more and answers it as any other.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use toolbus_proto::caller::CallerName;
use toolbus_proto::channel::{Down, StreamLost, Ticket, Up};
use toolbus_proto::http::{RequestHead, ResponseHead};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::http::{Answer, Endpoint, Entrance};
use toolbus_proto::sealed::{NODE_BYTES, SessionId, SessionKeys};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece, What};

use crate::chance;
use crate::engine::calls::{Answerer, Inbox, Pressure, ReplyTo, RunningCall};
use crate::peer::forward::{self, TakeSession};
use crate::peer::rooms::Rooms;
use crate::task::{boxed, spawn_local};
use crate::transport::http::Exchange;
use crate::transport::io::{BYTES_WAITING_MAX, Sink, Source, Stop, Writer};
use crate::wake::Wake;

const SESSION: &str = "Mcp-Session-Id";
/// The header fields that are carried.
const CARRIED: [&str; 4] = ["accept", "content-type", "mcp-protocol-version", "last-event-id"];
/// How long a client may pause within a body.
const BODY_SILENCE: Duration = Duration::from_secs(30);

/// What is said of shared sessions, once for a front.
#[derive(Debug)]
pub struct Sharing {
    /// The name of the front that carries.
    pub over: String,
    /// By which ids are sealed.
    pub keys: SessionKeys,
}

/// The sessions of one front.
pub(super) struct SharedSessions {
    sharing: Rc<Sharing>,
    entrance: Entrance,
    rooms: Weak<Rooms<Endpoint>>,
}

/// The id of a new session of this caller, if what carries is there.
pub(super) fn new_id(sharing: &Sharing, caller: Option<&CallerName>) -> Option<String> {
    let node = forward::carrier(&sharing.over)?.node();
    debug_assert_eq!(node.len(), NODE_BYTES, "ids of nodes are of one length");
    let caller = caller.map(|caller| caller.as_str().to_owned()).unwrap_or_default();
    let id = SessionId { node, salt: chance::bytes(), caller };
    Some(sharing.keys.seal(chance::bytes(), &id))
}

impl SharedSessions {
    /// Those of these rooms, of which `entrance` says what a request must look like.
    pub(super) fn new(
        sharing: Rc<Sharing>,
        entrance: Entrance,
        rooms: &Rc<Rooms<Endpoint>>,
    ) -> Rc<SharedSessions> {
        let path = entrance.path.clone();
        let shared = Rc::new(SharedSessions { sharing, entrance, rooms: Rc::downgrade(rooms) });
        let taker: Rc<dyn TakeSession> = shared.clone();
        forward::takes(&shared.sharing.over, &path, &taker);
        shared
    }

    /// A request has come: of a session of another node, or for us.
    pub(super) fn welcome(self: &Rc<SharedSessions>, exchange: Exchange) {
        let Some(rooms) = self.rooms.upgrade() else { return };
        let (this, known) = (self.clone(), rooms.clone());
        rooms.judged(exchange, move |head, body, writer| {
            let caller = known.caller_of(&head);
            let front = known.front_of(caller.as_ref());
            let Some((sealed, id)) = this.elsewhere(&known, &head, caller.as_ref()) else {
                return front.welcome(head, body, writer);
            };
            spawn_local(boxed(async move { this.forward(head, &sealed, &id, body, writer).await }));
        });
    }

    /// The session of another node that a request is for, if it passes all checks.
    fn elsewhere(
        &self,
        rooms: &Rooms<Endpoint>,
        head: &RequestHead,
        caller: Option<&CallerName>,
    ) -> Option<(String, SessionId)> {
        // A session of a holder is known to the node alone that has seen its token.
        let is_shared = head.path == self.entrance.path && head.visit().is_none();
        let sealed = head.header(SESSION).filter(|_| is_shared)?;
        let id = self.sharing.keys.open(sealed)?;
        if id.caller != caller.map(CallerName::as_str).unwrap_or_default() {
            return None;
        }
        let is_ours = rooms.front_of(caller).ask(|endpoint| endpoint.has_session(sealed));
        let node = forward::carrier(&self.sharing.over).map(|carrier| carrier.node());
        if is_ours || node.is_some_and(|node| node == id.node) {
            return None;
        }
        let admission = rooms.admission();
        let entrance = Entrance { admission, ..self.entrance.clone() };
        entrance.admit(head).ok()?;
        Some((sealed.to_owned(), id))
    }

    /// Carries a request to the node that has its session, and its answer back.
    async fn forward(
        &self,
        head: RequestHead,
        sealed: &str,
        id: &SessionId,
        mut body: impl Source,
        writer: impl Writer<Head = ResponseHead> + 'static,
    ) {
        let gone = writer.stopped();
        let body = match whole(&mut body, self.entrance.body_bytes_max).await {
            Ok(body) => body,
            Err(Some(answer)) => return write_whole(writer, answer).await,
            Err(None) => return,
        };
        let Some(carrier) = forward::carrier(&self.sharing.over) else {
            return write_whole(writer, Answer::away(&body)).await;
        };
        let (inbox, slot) = Inbox::new();
        let uplink = carrier.forward(&id.node, request(&head, sealed, id), slot);
        send_body(&uplink, &inbox, body.clone()).await;
        let mut gone = pin!(gone);
        let mut writer = Some(writer);
        let mut has_begun = false;
        loop {
            let down = tokio::select! {
                down = inbox.next(&uplink) => down,
                _ = &mut gone, if writer.is_some() => {
                    if head.method == "GET" {
                        return uplink.cancel(None);
                    }
                    // The request belongs to its session, and goes on.
                    writer = None;
                    continue;
                }
            };
            match down {
                Down::Begin { head: Some(said), .. } if !has_begun => {
                    has_begun = true;
                    if let (Some(writer), Some(head)) = (&mut writer, read_head(&said)) {
                        writer.answer(head);
                    }
                }
                Down::Part(Part::Bytes(piece)) if has_begun => {
                    if let Some(to) = &mut writer
                        && write_all(to, &piece.data).await.is_err()
                    {
                        if head.method == "GET" {
                            return uplink.cancel(None);
                        }
                        writer = None;
                    }
                }
                Down::Done(done) => {
                    uplink.forget();
                    let Some(writer) = writer else { return };
                    return match done {
                        Ok(_) if has_begun => writer.finish(),
                        // It breaks off.
                        _ if has_begun => {}
                        Err(why) if carrier.is_away(&why) => {
                            write_whole(writer, Answer::away(&body)).await;
                        }
                        _ => write_whole(writer, Answer::no_such_session(&body)).await,
                    };
                }
                _ => {}
            }
        }
    }
}

/// The whole body, or what its client is told.
async fn whole(body: &mut impl Source, bytes_max: usize) -> Result<Bytes, Option<Answer>> {
    let mut whole = BytesMut::new();
    loop {
        let read = tokio::time::timeout(BODY_SILENCE, body.read(&mut whole)).await;
        match read {
            Err(_) => return Err(Some(Answer::silent())),
            Ok(Err(_)) => return Err(None),
            Ok(Ok(_)) if bytes_max < whole.len() => return Err(Some(Answer::too_long(bytes_max))),
            Ok(Ok(0)) => return Ok(whole.freeze()),
            Ok(Ok(_)) => {}
        }
    }
}

/// What is carried of a request besides its body.
fn request(head: &RequestHead, sealed: &str, id: &SessionId) -> Json {
    let fields = CARRIED.into_iter().filter_map(|name| Some((name, head.header(name)?)));
    let fields: Vec<_> =
        fields.map(|(name, value)| format!("\"{name}\":{}", Json::of(value))).collect();
    let caller = match id.caller.as_str() {
        "" => String::new(),
        caller => format!("\"caller\":{},", Json::of(caller)),
    };
    Json::from_trusted(format!(
        "{{\"method\":{},\"path\":{},\"session\":{},{caller}\"headers\":{{{}}}}}",
        Json::of(&*head.method),
        Json::of(&head.path),
        Json::of(sealed),
        fields.join(",")
    ))
}

async fn send_body(uplink: &RunningCall, inbox: &Inbox, mut body: Bytes) {
    while !body.is_empty() {
        let data = body.split_to(body.len().min(BYTES_WAITING_MAX));
        let piece = Piece { data, media_type: None, len: None, last: body.is_empty() };
        if uplink.send(Up::Part(Part::Bytes(piece))) == Pressure::Full {
            inbox.room().await;
        }
    }
    let _ = uplink.send(Up::End(None));
}

async fn write_all(writer: &mut impl Sink, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = writer.write(&[IoSlice::new(bytes)]).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}

async fn write_whole(mut writer: impl Writer<Head = ResponseHead>, mut answer: Answer) {
    answer.head.headers.push("Content-Length", answer.body.len().to_string());
    writer.answer(answer.head);
    if write_all(&mut writer, &answer.body).await.is_ok() {
        writer.finish();
    }
}

/// `{"status":N,"headers":{…}}`
fn read_head(said: &Json) -> Option<ResponseHead> {
    let said: serde_json::Value = serde_json::from_str(said.as_str()).ok()?;
    let mut head = ResponseHead::new(u16::try_from(said["status"].as_u64()?).ok()?);
    for (name, value) in said["headers"].as_object().into_iter().flatten() {
        if let Some(value) = value.as_str() {
            head.headers.push(name.clone(), value);
        }
    }
    Some(head)
}

fn said_head(head: &ResponseHead) -> Json {
    let fields = head.headers.iter();
    let fields: Vec<_> = fields
        .map(|(name, value)| {
            format!("{}:{}", Json::of(&name.to_ascii_lowercase()), Json::of(value))
        })
        .collect();
    let status = head.status;
    Json::from_trusted(format!("{{\"status\":{status},\"headers\":{{{}}}}}", fields.join(",")))
}

impl TakeSession for SharedSessions {
    fn take(&self, call: Call, down: ReplyTo) -> RunningCall {
        let carried = Rc::new(Carried::new(down));
        let running = RunningCall::new(carried.clone(), Ticket(0));
        match self.front_for(&call) {
            Some((front, head)) => {
                let (source, writer) = (CarriedBody(carried.clone()), CarriedAnswer(carried));
                front.welcome(head, source, writer);
            }
            None => {
                let mut body = CarriedBody(carried.clone());
                let bytes_max = self.entrance.body_bytes_max;
                spawn_local(boxed(async move {
                    // The answer repeats the id of the request.
                    let answer = match whole(&mut body, bytes_max).await {
                        Ok(body) => Answer::no_such_session(&body),
                        Err(too_long) => too_long.unwrap_or_else(Answer::silent),
                    };
                    write_whole(CarriedAnswer(carried), answer).await;
                }));
            }
        }
        running
    }
}

impl SharedSessions {
    /// The machine that has the session of a request that was carried here, and its head.
    fn front_for(
        &self,
        call: &Call,
    ) -> Option<(Rc<crate::engine::front::Front<Endpoint>>, RequestHead)> {
        let What::Tool { args: Some(args), .. } = &call.what else { return None };
        let said: serde_json::Value = serde_json::from_str(args.as_str()).ok()?;
        let sealed = said["session"].as_str()?;
        let id = self.sharing.keys.open(sealed)?;
        let caller = (!id.caller.is_empty()).then(|| CallerName::new(id.caller.as_str()));
        if said["caller"].as_str().unwrap_or_default() != id.caller {
            return None;
        }
        let rooms = self.rooms.upgrade()?;
        let front = rooms.front_of(caller.as_ref());
        front.ask(|endpoint| endpoint.has_session(sealed)).then_some(())?;
        let mut head =
            RequestHead::new(said["method"].as_str()?.to_owned(), said["path"].as_str()?);
        head.is_admitted = true;
        head.headers.push(SESSION, sealed);
        for name in CARRIED {
            if let Some(value) = said["headers"][name].as_str() {
                head.headers.push(name, value);
            }
        }
        Some((front, head))
    }
}

/// A request that was carried here, between the wire that did so and our machine.
struct Carried {
    down: ReplyTo,
    input: RefCell<VecDeque<Up>>,
    input_bytes: Cell<usize>,
    is_full: Cell<bool>,
    more: Wake,
    has_room: Cell<bool>,
    room: Wake,
    gone: Wake,
    is_done: Cell<bool>,
}

impl Carried {
    fn new(down: ReplyTo) -> Carried {
        Carried {
            down,
            input: RefCell::default(),
            input_bytes: Cell::new(0),
            is_full: Cell::new(false),
            more: Wake::default(),
            has_room: Cell::new(true),
            room: Wake::default(),
            gone: Wake::default(),
            is_done: Cell::new(false),
        }
    }

    fn say(&self, down: Down) {
        if !self.is_done.get() {
            self.has_room.set(true);
            if self.down.send(down) == Pressure::Full {
                self.has_room.set(false);
            }
        }
    }

    fn finish(&self, done: Result<Outcome, Failure>) {
        if !self.is_done.replace(true) {
            let _ = self.down.send(Down::Done(done));
        }
    }
}

impl Answerer for Carried {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.is_done.set(true);
            self.gone.ring();
            self.room.ring();
            return Pressure::Ready;
        }
        self.input_bytes.set(self.input_bytes.get() + up.weight());
        self.input.borrow_mut().push_back(up);
        self.more.ring();
        match BYTES_WAITING_MAX < self.input_bytes.get() {
            true => {
                self.is_full.set(true);
                Pressure::Full
            }
            false => Pressure::Ready,
        }
    }

    fn resume(&self, _ticket: Ticket) {
        self.has_room.set(true);
        self.room.ring();
    }
}

/// Its body.
struct CarriedBody(Rc<Carried>);

impl Source for CarriedBody {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        loop {
            let next = self.0.input.borrow_mut().pop_front();
            if let Some(up) = &next {
                self.0.input_bytes.set(self.0.input_bytes.get() - up.weight());
                if self.0.is_full.take() {
                    self.0.down.resume();
                }
            }
            match next {
                Some(Up::Part(Part::Bytes(piece))) if !piece.data.is_empty() => {
                    input.extend_from_slice(&piece.data);
                    return Ok(piece.data.len());
                }
                Some(Up::End(_)) => return Ok(0),
                Some(_) => {}
                None => self.0.more.rung().await,
            }
        }
    }
}

/// Where its answer goes. Dropped without an end, it breaks off.
struct CarriedAnswer(Rc<Carried>);

impl Drop for CarriedAnswer {
    fn drop(&mut self) {
        self.0.finish(Err(Failure::new(FailureKind::Gone, "the answer broke off")));
    }
}

impl Sink for CarriedAnswer {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        while !self.0.has_room.get() && !self.0.is_done.get() {
            self.0.room.rung().await;
        }
        if self.0.is_done.get() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let data: Bytes = pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().concat().into();
        let count = data.len();
        let piece = Piece { data, media_type: None, len: None, last: false };
        self.0.say(Down::Part(Part::Bytes(piece)));
        Ok(count)
    }
}

impl Writer for CarriedAnswer {
    type Head = ResponseHead;

    fn answer(&mut self, head: ResponseHead) {
        self.0.say(Down::Begin { head: Some(said_head(&head)), parts: None });
    }

    fn finish(self) {
        let end = Piece { data: Bytes::new(), media_type: None, len: None, last: true };
        self.0.say(Down::Part(Part::Bytes(end)));
        self.0.finish(Ok(Outcome::End(None)));
    }

    fn reset(self, _code: u64) {}

    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        let carried = self.0.clone();
        async move {
            carried.gone.rung().await;
            let failure = Failure::new(FailureKind::Gone, "the client has left");
            Stop::Lost(StreamLost { code: None, failure })
        }
    }
}
