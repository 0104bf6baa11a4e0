//! The pages for those who look after a bus: is it alive, is it ready, what has it done?
//!
//! Served over HTTP on a port of their own, `[admin] listen` in the config, by the same rules
//! for who may come in as any front over HTTP.

mod exposition;
mod metrics;
#[cfg(feature = "page")]
mod page;
mod pages;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::http::{Admission, Refused, RequestHead};
use toolbus_proto::page::{PageArea, PageDenied, PageMode, judge};

use crate::bus::Bus;
use crate::bus::config;
use crate::peer::FrontError;
use crate::peer::access::{Access, Asks, Unprotected};
use crate::peer::at::At;
use crate::transport::http::{
    AnswerWriter, Exchange, HeaderName, HeaderValue, Limits, Response, Server, StatusCode, garbled,
    header,
};
use crate::transport::{Listener, PassedSocket, Whereabouts};

pub use metrics::Metrics;
#[cfg(feature = "page")]
pub use page::{OfPage, Page, PageFacts, PageIdentity, PageSettings};

/// How long an answer may take to be read when we are to stop.
const LAST_BYTES: Duration = Duration::from_millis(200);

/// A monitor asks seldom, and little; who looks at the page keeps one connection or two.
const LIMITS: Limits = Limits {
    connections_max: 128,
    silence: Duration::from_secs(1),
    streams_max: 16,
    head_bytes_max: 64 * 1024,
    http2_fields_max: Some(64 * 1024),
    head_timeout: Duration::from_secs(10),
    first_byte_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(120),
    write_timeout: Duration::from_secs(30),
    drain_bytes_max: 1024 * 1024,
    drains_streams: false,
    drain_timeout: Duration::from_secs(1),
};

/// Pages that could be served: what can be checked before anything listens is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminPlan {
    at: At,
    access: Access,
    page: PageMode,
    page_values: bool,
}

impl AdminPlan {
    /// What `[admin]` in a config asks for.
    pub fn of(config: &config::Admin) -> Result<AdminPlan, FrontError> {
        let access = config.access.access().map_err(|error| {
            let hint = error.hint();
            FrontError::usage(error.to_string()).by_key(error.key()).hint(Some(hint))
        })?;
        let at = config.listen.clone();
        access.may_listen(&at.host, at.port, Asks::ForToken).map_err(|error| {
            let hint = error.hint_for_config();
            FrontError::usage(error.to_string()).by_key("listen").hint(Some(hint))
        })?;
        Ok(AdminPlan { at, access, page: config.page, page_values: config.page_values })
    }

    /// What it says of the page; `None` if there is to be none.
    #[cfg(feature = "page")]
    pub fn page(&self) -> Option<PageSettings> {
        let settings = PageSettings { mode: self.page, values: self.page_values };
        (settings.mode != PageMode::Off).then_some(settings)
    }

    /// Listens, and serves from now on. Must be called inside a `LocalSet`.
    ///
    /// A socket that was opened for the pages stands in place of one of their own.
    pub async fn open(
        self,
        told: Rc<Told>,
        passed: Option<&PassedSocket>,
    ) -> Result<Admin, FrontError> {
        let listener = match passed {
            Some(passed) => Listener::passed(passed),
            None => Listener::tcp(&self.at.host, self.at.port).await,
        };
        let listener =
            listener.map_err(|error| FrontError::failed(error.to_string()).hint(error.hint()))?;
        let refused = |error: Unprotected| {
            let hint = error.hint_for_config();
            FrontError::failed(error.to_string()).by_key("listen").hint(Some(hint))
        };
        if let Some(address) = self.access.exposed(&listener, Asks::ForToken).map_err(refused)? {
            tracing::warn!(
                "whoever can reach {address} sees health and metrics: no token is asked for"
            );
        }
        let cannot = |error: std::io::Error| {
            FrontError::failed("cannot serve health and metrics").caused_by(&error)
        };
        if cfg!(feature = "page")
            && self.page != PageMode::Off
            && let Ok(Whereabouts::Tcp(address)) = listener.whereabouts()
            && !address.ip().is_loopback()
        {
            tracing::warn!("other machines can reach the page at {address}, in clear");
        }
        let admission = self.access.admission(&listener).map_err(cannot)?;
        let admission = Rc::new(RefCell::new(admission));
        let asked = admission.clone();
        let line = match listener.whereabouts().map_err(cannot)? {
            Whereabouts::Tcp(address) => format!("listening on http://{address}"),
            Whereabouts::Unix(path) => format!("listening on {}", path.display()),
        };
        let server = Server::start(listener, LIMITS, move |exchange| {
            answer(&told, &asked.borrow(), exchange);
        });
        Ok(Admin { at: self.at, line, server, admission })
    }
}

/// The pages as they are served.
pub struct Admin {
    at: At,
    /// What people are told: `listening on http://127.0.0.1:9464`, with the real port.
    pub line: String,
    server: Server,
    /// What is asked of who looks.
    admission: Rc<RefCell<Admission>>,
}

impl Admin {
    /// Where the page is.
    pub fn url(&self) -> String {
        format!("{}/", self.line.trim_start_matches("listening on "))
    }

    /// Lets those in that `plan` does from now on, if that wants the same place; tells whether it
    /// does.
    pub fn become_as(&self, plan: &AdminPlan) -> bool {
        if self.at != plan.at {
            return false;
        }
        let mut admission = self.admission.borrow_mut();
        *admission = plan.access.admission_at(admission.bound);
        true
    }

    /// Stops listening.
    pub async fn stop(self) {
        self.server.shutdown(LAST_BYTES).await;
    }
}

/// What the pages tell of. Changed by a reload, while they are served.
pub struct Told {
    #[cfg(feature = "page")]
    page: RefCell<Option<Rc<Page>>>,
    metrics: Rc<Metrics>,
    bus: RefCell<Bus>,
    /// The fronts of the config that do not listen.
    missing_fronts: RefCell<Vec<String>>,
}

impl Told {
    /// They tell of this bus, before which these fronts will listen.
    pub fn new(bus: Bus, fronts: Vec<String>) -> Rc<Told> {
        let told = Told {
            #[cfg(feature = "page")]
            page: RefCell::default(),
            metrics: Rc::default(),
            bus: RefCell::new(bus.clone()),
            missing_fronts: RefCell::default(),
        };
        told.follow(bus, fronts);
        Rc::new(told)
    }

    /// What counts the calls: an observer of the bus.
    pub fn metrics(&self) -> Rc<Metrics> {
        self.metrics.clone()
    }

    /// They tell of this bus from now on, before which these fronts will listen.
    pub fn follow(&self, bus: Bus, fronts: Vec<String>) {
        let names = fronts.iter().map(|name| name.as_str().into());
        self.metrics.follow(bus.healths(), names.chain(self.own_front()));
        self.bus.replace(bus);
        self.missing_fronts.replace(fronts);
    }

    /// The page tells of the bus of before from now on, by these settings; without any it is over.
    #[cfg(feature = "page")]
    pub fn show_page(
        self: &Rc<Told>,
        identity: &Rc<PageIdentity>,
        settings: Option<PageSettings>,
        facts: PageFacts,
    ) {
        let Some(settings) = settings else {
            let page = self.page.take();
            return page.iter().for_each(|page| page.close("off"));
        };
        let bus = self.bus.borrow().clone();
        if let Some(page) = &*self.page.borrow() {
            page.follow(settings, facts, &bus);
            self.metrics.follow_also(self.own_front());
            return;
        }
        let page = Page::new(Rc::downgrade(self), identity.clone(), settings, facts);
        page.know(&bus);
        self.page.replace(Some(page));
        self.metrics.follow_also(self.own_front());
    }

    /// By which the calls of the page come, if it may make some.
    fn own_front(&self) -> Option<Arc<str>> {
        #[cfg(feature = "page")]
        if self.page.borrow().as_ref().is_some_and(|page| page.mode() == PageMode::Call) {
            return Some(page::FRONT.into());
        }
        None
    }

    /// The page, if there is one.
    #[cfg(feature = "page")]
    pub fn page(&self) -> Option<Rc<Page>> {
        self.page.borrow().clone()
    }

    /// The calls of these callers are counted, if there are callers or limits to be counted.
    pub fn follow_callers(&self, callers: Option<&[Arc<str>]>) {
        self.metrics.follow_callers(callers);
    }

    /// The front of this name listens.
    pub fn listens(&self, front: &str) {
        self.missing_fronts.borrow_mut().retain(|missing| missing != front);
    }
}

/// Answers one request at once: nothing that is asked here waits for a back, but for calls that
/// the page makes.
fn answer(told: &Told, admission: &Admission, exchange: Exchange) {
    let (head, body, writer) = exchange.into_stream(garbled);
    let AnswerWriter::Awaiting(responder, _) = writer else { return };
    #[cfg(feature = "page")]
    if let Some(page) = told.page().filter(|_| page::area_of(&head.path) != PageArea::Elsewhere) {
        return page::answer(&page, admission, head, body, responder);
    }
    #[cfg(not(feature = "page"))]
    drop(body);
    let mut answer = match judge(admission, &head, PageArea::Elsewhere) {
        Err(PageDenied::Refused(refused)) => refusal(&refused),
        Err(denied) => text_of(403, format!("{denied}\n")),
        Ok(()) => answered(told, admission, &head),
    };
    let no_store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
    responder.respond_whole(answer);
}

fn answered(told: &Told, admission: &Admission, head: &RequestHead) -> Response<Bytes> {
    if !["/healthz", "/readyz", "/metrics"].contains(&head.path.as_str()) {
        return text_of(404, "there are /healthz, /readyz and /metrics\n".to_owned());
    }
    if let Err(refused) = admission.admit(head) {
        return refusal(&refused);
    }
    match (&*head.method, head.path.as_str()) {
        ("GET" | "HEAD", "/healthz") => text_of(200, "ok\n".to_owned()),
        ("GET" | "HEAD", "/readyz") => ready(told),
        ("GET" | "HEAD", _) => {
            let page = pages::metrics(&told.metrics, &told.bus.borrow());
            let mut answer = text_of(200, page);
            let media_type = HeaderValue::from_static(exposition::MEDIA_TYPE);
            answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
            answer
        }
        _ => {
            let mut answer = text_of(405, "only GET is answered here\n".to_owned());
            let allowed = HeaderValue::from_static("GET, HEAD");
            answer.headers_mut().insert(header::ALLOW, allowed);
            answer
        }
    }
}

fn refusal(refused: &Refused) -> Response<Bytes> {
    let mut answer = text_of(refused.status(), refused.with_hint() + "\n");
    if let Some((name, value)) = refused.field()
        && let Ok(name) = name.parse::<HeaderName>()
        && let Ok(value) = HeaderValue::from_str(value)
    {
        answer.headers_mut().insert(name, value);
    }
    answer
}

fn ready(told: &Told) -> Response<Bytes> {
    let bus = told.bus.borrow().clone();
    let missing = pages::not_ready(&bus, &told.missing_fronts.borrow());
    // A back that is asked by no caller any more would never be seen to be back.
    bus.ask_who_is_down();
    match missing.is_empty() {
        true => text_of(200, "ready\n".to_owned()),
        false => text_of(503, format!("not ready\n{missing}")),
    }
}

fn text_of(status: u16, text: String) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}
