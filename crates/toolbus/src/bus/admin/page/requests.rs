//! Requests to the page: judged in one order, whatever they are about, and led to what answers.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use toolbus_proto::http::{Admission, RequestHead, bearer, media_type};
use toolbus_proto::json::{Json, Kind};
use toolbus_proto::page::{
    CallFilter, CallsPage, PageArea, PageDenied, PageMode, ParameterError, Parameters,
    QUERY_BYTES_MAX, judge,
};

use super::assets::{self, Asset};
use super::{KnownSecrets, Page};
use crate::task::spawn_local;
use crate::transport::http::{
    Body, BodyError, HeaderName, HeaderValue, Responder, Response, StatusCode, header,
};

/// So large a body may be.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How long a body may pause.
const BODY_SILENCE: Duration = Duration::from_secs(30);
/// When who asks for what there is no room for may ask again, in seconds.
const RETRY_AFTER: &str = "5";

/// What every answer of the page has, besides how long it may be kept.
const FIELDS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

const NO_STORE: &str = "no-store";
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// What a request is about, by its path.
pub(in super::super) fn area_of(path: &str) -> PageArea {
    match path {
        "/" => PageArea::Shell,
        _ if path.starts_with("/page/") || path.starts_with("/api/") => PageArea::Inside,
        _ => PageArea::Elsewhere,
    }
}

/// What a request of the page is for.
#[derive(Clone, Copy)]
enum PageTarget {
    Shell,
    Asset(&'static Asset),
    State,
    History,
    Stats,
    Tools,
    Tool,
    Calls,
    Detail(u64),
    Journal,
    Config,
    Events,
    Call,
    Answer,
}

impl PageTarget {
    fn of(path: &str) -> Option<PageTarget> {
        if let Some(rest) = path.strip_prefix("/page/") {
            return assets::asset_at(rest).map(PageTarget::Asset);
        }
        if let Some(number) = path.strip_prefix("/api/calls/") {
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            return number.parse().ok().filter(|_| is_number).map(PageTarget::Detail);
        }
        Some(match path {
            "/" => PageTarget::Shell,
            "/api/state" => PageTarget::State,
            "/api/history" => PageTarget::History,
            "/api/stats" => PageTarget::Stats,
            "/api/tools" => PageTarget::Tools,
            "/api/tool" => PageTarget::Tool,
            "/api/calls" => PageTarget::Calls,
            "/api/journal" => PageTarget::Journal,
            "/api/config" => PageTarget::Config,
            "/api/events" => PageTarget::Events,
            "/api/call" => PageTarget::Call,
            "/api/answer" => PageTarget::Answer,
            _ => return None,
        })
    }

    fn is_posted(self) -> bool {
        matches!(self, PageTarget::Call | PageTarget::Answer)
    }

    fn is_data(self) -> bool {
        !matches!(self, PageTarget::Shell | PageTarget::Asset(_))
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            PageTarget::Tools => &["search", "back", "from", "limit"],
            PageTarget::Tool => &["name"],
            PageTarget::Calls | PageTarget::Journal => &["filter", "before", "limit"],
            PageTarget::Events => &["values"],
            _ => &[],
        }
    }
}

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct PageRefusal {
    status: u16,
    kind: &'static str,
    message: String,
    field: Option<(HeaderName, &'static str)>,
}

impl PageRefusal {
    fn new(status: u16, kind: &'static str, message: impl Into<String>) -> PageRefusal {
        PageRefusal { status, kind, message: message.into(), field: None }
    }

    /// What was asked makes no sense.
    pub(super) fn invalid(message: impl Into<String>) -> PageRefusal {
        PageRefusal::new(400, "invalid", message)
    }

    /// There is none.
    pub(super) fn not_found(message: impl Into<String>) -> PageRefusal {
        PageRefusal::new(404, "not_found", message)
    }

    /// There are as many as there may be.
    pub(super) fn busy(message: impl Into<String>) -> PageRefusal {
        let field = Some((header::RETRY_AFTER, RETRY_AFTER));
        PageRefusal { field, ..PageRefusal::new(503, "busy", message) }
    }

    /// It was done already.
    pub(super) fn conflict(message: impl Into<String>) -> PageRefusal {
        PageRefusal::new(409, "conflict", message)
    }

    fn answer(&self, is_data: bool) -> Response<Bytes> {
        let (text, media_type) = match is_data {
            true => {
                let (kind, message) = (Json::of(self.kind), Json::of(&self.message));
                let text = format!("{{\"error\":{{\"kind\":{kind},\"message\":{message}}}}}");
                (text, JSON)
            }
            false => (format!("{}\n", self.message), "text/plain; charset=utf-8"),
        };
        let mut answer = whole(self.status, media_type, text.into());
        if let Some((name, value)) = &self.field {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}

impl From<ParameterError> for PageRefusal {
    fn from(error: ParameterError) -> PageRefusal {
        PageRefusal::invalid(error.to_string())
    }
}

const JSON: &str = "application/json";

fn whole(status: u16, media_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// JSON as an answer.
pub(super) fn json(text: Vec<u8>) -> Response<Bytes> {
    whole(200, JSON, text.into())
}

/// Gives an answer the fields that all of the page have.
pub(super) fn dress<T>(answer: &mut Response<T>) {
    let fields = answer.headers_mut();
    for (name, value) in FIELDS {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let kept = HeaderValue::from_static(NO_STORE);
    fields.entry(header::CACHE_CONTROL).or_insert(kept);
}

/// Where an answer goes.
pub(super) struct Asker {
    pub(super) responder: Responder,
    pub(super) is_head: bool,
    is_data: bool,
    /// Method and path, for the log.
    asked: String,
}

impl Asker {
    pub(super) fn tell(self, answer: Result<Response<Bytes>, PageRefusal>) {
        let mut answer = answer.unwrap_or_else(|refusal| {
            // The message may have words of the query or the body in it, which are not for a log.
            let PageRefusal { status, kind, .. } = &refusal;
            tracing::info!("the page refused {} with HTTP status {status}: {kind}", self.asked);
            refusal.answer(self.is_data)
        });
        dress(&mut answer);
        self.responder.respond_whole(answer);
    }
}

/// Answers a request that is for the page.
pub(in super::super) fn answer(
    page: &Rc<Page>,
    admission: &Admission,
    head: RequestHead,
    body: Body,
    responder: Responder,
) {
    let is_data = head.path.starts_with("/api/");
    let asked = format!("{} {}", head.method, head.path);
    let asker = Asker { responder, is_head: head.method == "HEAD", is_data, asked };
    let (target, parameters) = match judged(page, admission, &head) {
        Ok(judged) => judged,
        Err(refusal) => return asker.tell(Err(refusal)),
    };
    match target {
        PageTarget::Events => page.show(&head, &parameters, asker),
        PageTarget::Journal => page.read_journal(&parameters, asker),
        PageTarget::Call | PageTarget::Answer => {
            let page = page.clone();
            drop(spawn_local(async move {
                match read(body).await {
                    Err(refusal) => asker.tell(Err(refusal)),
                    Ok(body) => match target {
                        PageTarget::Call => page.make_call(&head, &body, asker),
                        _ => asker.tell(page.answer_question(&body)),
                    },
                }
            }));
        }
        PageTarget::Asset(asset) => asker.tell(Ok(file(asset, &head))),
        _ => asker.tell(page.answered(target, &parameters)),
    }
}

/// Is it let in, and what does it want? The first rule that fails says why not.
fn judged(
    page: &Page,
    admission: &Admission,
    head: &RequestHead,
) -> Result<(PageTarget, Parameters), PageRefusal> {
    let denied = |denied: PageDenied| PageRefusal::new(403, "forbidden", denied.to_string());
    judge(admission, head, area_of(&head.path)).map_err(denied)?;
    let target = PageTarget::of(&head.path)
        .ok_or_else(|| PageRefusal::not_found(format!("there is no `{}`", head.path)))?;
    let (is_allowed, allowed) = match target.is_posted() {
        true => (head.method == "POST", "POST"),
        false => (head.method == "GET" || head.method == "HEAD", "GET, HEAD"),
    };
    if !is_allowed {
        let message =
            format!("only {} is answered here", if target.is_posted() { allowed } else { "GET" });
        let field = Some((header::ALLOW, allowed));
        return Err(PageRefusal { field, ..PageRefusal::new(405, "method_not_allowed", message) });
    }
    if target.is_data() {
        let shown = bearer(head);
        // Both are compared, whichever it is.
        let is_ours = shown.is_some_and(|shown| page.token.is(shown));
        let token = admission.token.as_ref();
        let is_configured = shown.zip(token).is_some_and(|(shown, token)| token.is(shown));
        if !(is_ours | is_configured) {
            let message = "a bearer token is needed: run `toolbus page`";
            let field = Some((header::WWW_AUTHENTICATE, "Bearer"));
            return Err(PageRefusal { field, ..PageRefusal::new(401, "unauthorized", message) });
        }
    }
    if target.is_posted() {
        if page.mode() != PageMode::Call {
            let message = "the page may look, not call: `[admin] page = \"call\"` lets it";
            return Err(PageRefusal::new(403, "forbidden", message));
        }
        if !media_type(head).is_some_and(|given| given.eq_ignore_ascii_case(JSON)) {
            let message = "the body must be `Content-Type: application/json`";
            return Err(PageRefusal::new(415, "unsupported_media_type", message));
        }
        let length = head.header("Content-Length").and_then(|length| length.parse().ok());
        if length.is_some_and(|length: u64| (BODY_BYTES_MAX as u64) < length) {
            return Err(too_large());
        }
    }
    if QUERY_BYTES_MAX < head.query.as_ref().map_or(0, String::len) {
        let message = format!("a query has at most {QUERY_BYTES_MAX} bytes");
        return Err(PageRefusal::new(414, "too_large", message));
    }
    Ok((target, Parameters::read(head.query.as_deref(), target.parameters())?))
}

fn too_large() -> PageRefusal {
    PageRefusal::new(413, "too_large", "a body has at most 16 MiB")
}

/// All of a body, as an object.
async fn read(mut body: Body) -> Result<Json, PageRefusal> {
    let text = body.collect(BODY_BYTES_MAX, BODY_SILENCE).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => too_large(),
        error => PageRefusal::invalid(error.to_string()),
    })?;
    let object = Json::parse(text)
        .map_err(|error| PageRefusal::invalid(format!("the body is no JSON: {error}")))?;
    match object.kind() {
        Kind::Object => Ok(object),
        _ => Err(PageRefusal::invalid("the body must be a JSON object")),
    }
}

fn file(asset: &'static Asset, head: &RequestHead) -> Response<Bytes> {
    let tag = format!("\"{}\"", *assets::HASH);
    let is_it = |known: &str| known.trim() == tag || known.trim() == "*";
    let is_known = head.headers.all("If-None-Match").flat_map(|all| all.split(',')).any(is_it);
    let mut answer = match is_known {
        true => {
            let mut answer = Response::new(Bytes::new());
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer
        }
        false => whole(200, asset.media_type(), Bytes::from_static(asset.bytes)),
    };
    let fields = answer.headers_mut();
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        fields.insert(header::ETAG, tag);
    }
    answer
}

impl Page {
    /// Answers what can be answered at once.
    fn answered(
        &self,
        target: PageTarget,
        parameters: &Parameters,
    ) -> Result<Response<Bytes>, PageRefusal> {
        let now = self.now();
        let mut out = Vec::new();
        match target {
            PageTarget::Shell => {
                let shell = Bytes::from_static(assets::shell().as_bytes());
                return Ok(whole(200, "text/html; charset=utf-8", shell));
            }
            PageTarget::State => self.write_state(now, &mut out),
            PageTarget::History => self.store.borrow_mut().write_history(now, &mut out),
            PageTarget::Stats => self.store.borrow().write_stats(&mut out, &KnownSecrets),
            PageTarget::Tools => self.write_tools(parameters, &mut out)?,
            PageTarget::Tool => self.write_tool(parameters.need("name")?, &mut out)?,
            PageTarget::Calls => {
                let filter = filter_of(parameters)?;
                let before = parameters.number("before", "the number of a call")?;
                let page = CallsPage { filter: &filter, before, limit: parameters.limit()? };
                self.store.borrow_mut().write_calls(now, &mut out, page, &KnownSecrets);
            }
            PageTarget::Detail(n) => {
                let is_hidden = !self.allows_values();
                let mut store = self.store.borrow_mut();
                if !store.write_detail(&mut out, n, is_hidden, &KnownSecrets) {
                    return Err(PageRefusal::not_found(format!("call {n} is not kept")));
                }
            }
            PageTarget::Config => self.write_config(&mut out),
            _ => return Err(PageRefusal::not_found("there is no such page")),
        }
        Ok(json(out))
    }
}

/// Which calls are meant.
pub(super) fn filter_of(parameters: &Parameters) -> Result<CallFilter, PageRefusal> {
    let text = parameters.get("filter").unwrap_or_default();
    CallFilter::parse(text, SystemTime::now())
        .map_err(|error| PageRefusal::invalid(error.to_string()))
}
