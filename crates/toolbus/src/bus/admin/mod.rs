//! The pages for those who look after a bus: is it alive, is it ready, what has it done?
//!
//! Served over HTTP on a port of their own, `[admin] listen` in the config, by the same rules
//! for who may come in as any front over HTTP.

mod exposition;
mod metrics;
mod pages;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::http::Admission;

use crate::bus::Bus;
use crate::bus::config;
use crate::peer::FrontError;
use crate::peer::access::{Access, Asks, Unprotected};
use crate::peer::at::At;
use crate::transport::http::{
    AnswerWriter, Exchange, HeaderName, HeaderValue, Limits, Response, Server, StatusCode, garbled,
    header,
};
use crate::transport::{Listener, Whereabouts};

pub use metrics::Metrics;

/// How long an answer may take to be read when we are to stop.
const LAST_BYTES: Duration = Duration::from_millis(200);

/// A monitor asks seldom, and little.
const LIMITS: Limits = Limits {
    connections_max: 64,
    silence: Duration::from_secs(1),
    streams_max: 16,
    head_bytes_max: 16 * 1024,
    head_timeout: Duration::from_secs(10),
    first_byte_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(120),
    write_timeout: Duration::from_secs(10),
    drain_bytes_max: 64 * 1024,
    drain_timeout: Duration::from_secs(1),
};

/// Pages that could be served: what can be checked before anything listens is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminPlan {
    at: At,
    access: Access,
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
        Ok(AdminPlan { at, access })
    }

    /// Listens, and serves from now on. Must be called inside a `LocalSet`.
    pub async fn open(self, told: Rc<Told>) -> Result<Admin, FrontError> {
        let listener = Listener::tcp(&self.at.host, self.at.port).await;
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
    metrics: Rc<Metrics>,
    bus: RefCell<Bus>,
    /// The fronts of the config that do not listen.
    missing_fronts: RefCell<Vec<String>>,
}

impl Told {
    /// They tell of this bus, before which these fronts will listen.
    pub fn new(bus: Bus, fronts: Vec<String>) -> Rc<Told> {
        let told = Told {
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
        self.metrics.follow(bus.healths(), fronts.iter().map(|name| name.as_str().into()));
        self.bus.replace(bus);
        self.missing_fronts.replace(fronts);
    }

    /// The front of this name listens.
    pub fn listens(&self, front: &str) {
        self.missing_fronts.borrow_mut().retain(|missing| missing != front);
    }
}

/// Answers one request at once: nothing that is asked here waits for a back.
fn answer(told: &Told, admission: &Admission, exchange: Exchange) {
    let (head, _, writer) = exchange.into_stream(garbled);
    let AnswerWriter::Awaiting(responder, _) = writer else { return };
    let mut answer = match admission.admit(&head) {
        Err(refused) => {
            let text = format!("{refused}: {}\n", refused.hint());
            let mut answer = text_of(refused.status(), text);
            if let Some((name, value)) = refused.field()
                && let Ok(name) = name.parse::<HeaderName>()
            {
                answer.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            answer
        }
        Ok(()) => match (&*head.method, head.path.as_str()) {
            ("GET" | "HEAD", "/healthz") => text_of(200, "ok\n".to_owned()),
            ("GET" | "HEAD", "/readyz") => ready(told),
            ("GET" | "HEAD", "/metrics") => {
                let page = pages::metrics(&told.metrics, &told.bus.borrow());
                let mut answer = text_of(200, page);
                let media_type = HeaderValue::from_static(exposition::MEDIA_TYPE);
                answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
                answer
            }
            (_, "/healthz" | "/readyz" | "/metrics") => {
                let mut answer = text_of(405, "only GET is answered here\n".to_owned());
                let allowed = HeaderValue::from_static("GET, HEAD");
                answer.headers_mut().insert(header::ALLOW, allowed);
                answer
            }
            _ => text_of(404, "there are /healthz, /readyz and /metrics\n".to_owned()),
        },
    };
    let no_store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
    responder.respond_whole(answer);
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
