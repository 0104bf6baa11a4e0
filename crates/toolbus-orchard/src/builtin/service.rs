//! `exec_service`: programs that run beside the actions, from their start until the run ends.
//!
//! While it starts a program belongs to the action, and ends with it; once it is ready a task
//! keeps it. All are stopped in the reverse order of their start. If toolbus itself is killed,
//! the guard ends them, as it ends every process of ours.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use toolbus::{Exit, Failure, Json};
use toolbus_engine::child::{EnvPolicy, Event, Program, Running, Signal, Stream};
use toolbus_engine::transport::pipe::Input;
use toolbus_engine::transport::tcp;
use toolbus_proto::channel::Notice;

use super::exec::{ended, spawn_failure};
use super::http::Http;
use super::url::Url;
use super::{Hear, duration, execute_failed, validation_failed, with_detail};

/// How long it is rested between two looks whether a program is ready.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long one look may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How often it is looked whether the rest of a session has gone.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Deserialize)]
pub(super) struct Attrs {
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    ready: ReadyAttrs,
    ready_timeout: String,
    stop_timeout: String,
}

#[derive(Debug, Default, Deserialize)]
struct ReadyAttrs {
    tcp: Option<String>,
    http: Option<String>,
    line: Option<String>,
}

/// The programs that run.
#[derive(Default)]
pub(super) struct Services {
    /// In the order of their start.
    running: RefCell<Vec<Service>>,
}

struct Service {
    order: watch::Sender<Order>,
    /// Taken by the one that waits for its end.
    task: Option<JoinHandle<()>>,
}

/// What a program that runs is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    GoOn,
    Stop,
    Kill,
}

impl Services {
    /// Starts a program and waits until it is ready.
    pub(super) async fn start(
        &self,
        attrs: Attrs,
        cwd: Option<PathBuf>,
        hear: Hear,
    ) -> Result<Json, Failure> {
        let Some(command) = attrs.command.first().cloned() else {
            return Err(validation_failed("attrs.command: it is empty"));
        };
        let ready = Ready::of(attrs.ready)?;
        let patience = duration("ready_timeout", &attrs.ready_timeout)?;
        let stop = duration("stop_timeout", &attrs.stop_timeout)?;
        // It may be meant so, but mostly a program of an earlier try still holds the port.
        if ready.is_met().await {
            let message = format!("{ready} already, before `{command}` was started");
            hear(&Notice::Warning(message));
        }
        let vars = attrs.env.into_iter().collect();
        let program = Program::new(attrs.command);
        let program = Program { env: EnvPolicy::Inherit, vars, cwd, ..program };
        let running = Running::start_without_input(&program);
        let mut service =
            Foreground { running: running.map_err(|error| spawn_failure(&error))?, hear };
        let give_up = Instant::now() + patience;
        match service.become_ready(&ready, give_up).await {
            Started::Ready => {}
            Started::Ended(exit) => {
                let message = format!("`{command}` {} before it was ready", ended(exit));
                let hint = "\nhint: a service stays in the foreground until it is stopped";
                let hint = if exit == Exit::Code(0) { hint } else { "" };
                let detail = format!("{}{hint}", service.last_lines());
                return Err(with_detail(execute_failed(message), detail.trim_start()));
            }
            Started::TooLate => {
                service.end(stop).await;
                let message = format!("`{command}` was not ready within {patience:?}: not {ready}");
                return Err(with_detail(execute_failed(message), &service.last_lines()));
            }
        }
        let pid = service.running.process.pid();
        let (order, orders) = watch::channel(Order::GoOn);
        let task = spawn_local(service.keep(command, orders, stop));
        self.running.borrow_mut().push(Service { order, task: Some(task) });
        Ok(Json::of(&serde_json::json!({ "pid": pid })))
    }

    /// Stops all, the last one first, each before the one that was started before it.
    pub(super) async fn stop(&self) {
        let count = self.running.borrow().len();
        for index in (0..count).rev() {
            let task = {
                let service = &mut self.running.borrow_mut()[index];
                service.order.send_if_modified(|order| {
                    let is_new = *order == Order::GoOn;
                    *order = if is_new { Order::Stop } else { *order };
                    is_new
                });
                service.task.take()
            };
            if let Some(task) = task {
                // It fails only if the task was dropped, and the program with it.
                let _ = task.await;
            }
        }
    }

    /// Kills all.
    pub(super) fn kill(&self) {
        for service in &*self.running.borrow() {
            service.order.send_replace(Order::Kill);
        }
    }
}

/// How it is known that a program can be used.
enum Ready {
    /// As soon as it runs.
    AtOnce,
    /// Something listens there.
    Tcp { shown: String, host: String, port: u16 },
    /// It answers with a status below 400.
    Http { url: String, client: Http },
    /// It has written a line that fits.
    Line(Regex),
}

impl Ready {
    fn of(attrs: ReadyAttrs) -> Result<Ready, Failure> {
        match attrs {
            ReadyAttrs { tcp: None, http: None, line: None } => Ok(Ready::AtOnce),
            ReadyAttrs { tcp: Some(shown), http: None, line: None } => {
                let parts = shown.rsplit_once(':').and_then(|(host, port)| {
                    let host = host.trim_start_matches('[').trim_end_matches(']');
                    Some((host.to_owned(), port.parse().ok()?))
                });
                let Some((host, port)) = parts.filter(|(host, _)| !host.is_empty()) else {
                    let message = format!("attrs.ready.tcp: `{shown}` is no `HOST:PORT`");
                    return Err(validation_failed(message));
                };
                Ok(Ready::Tcp { shown, host, port })
            }
            ReadyAttrs { tcp: None, http: Some(url), line: None } => {
                let wrong = |error| validation_failed(format!("attrs.ready.http: {error}"));
                Url::parse(&url).map_err(wrong)?;
                Ok(Ready::Http { url, client: Http::default() })
            }
            ReadyAttrs { tcp: None, http: None, line: Some(line) } => {
                let wrong = |error| validation_failed(format!("attrs.ready.line: {error}"));
                Regex::new(&line).map(Ready::Line).map_err(wrong)
            }
            _ => Err(validation_failed("attrs.ready: only one of `tcp`, `http` and `line`")),
        }
    }

    /// Is it, as far as that can be seen from outside?
    async fn is_met(&self) -> bool {
        match self {
            Ready::AtOnce | Ready::Line(_) => false,
            Ready::Tcp { host, port, .. } => tcp::connect(host, *port, ATTEMPT).await.is_ok(),
            Ready::Http { url, client } => {
                let status = timeout(ATTEMPT, client.status(url)).await;
                matches!(status, Ok(Ok(status)) if status < 400)
            }
        }
    }

    /// Waits until it is.
    async fn met(&self) {
        match self {
            Ready::AtOnce => return,
            Ready::Line(_) => std::future::pending().await,
            Ready::Tcp { .. } | Ready::Http { .. } => {}
        }
        while !self.is_met().await {
            sleep(INTERVAL).await;
        }
    }

    fn is_line(&self, line: &str) -> bool {
        matches!(self, Ready::Line(wanted) if wanted.is_match(line))
    }
}

/// What is seen when it is met.
impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::AtOnce => f.write_str("it runs"),
            Ready::Tcp { shown, .. } => write!(f, "something listens at `{shown}`"),
            Ready::Http { url, .. } => write!(f, "`{url}` answers"),
            Ready::Line(line) => write!(f, "a line fits `{line}`"),
        }
    }
}

/// How a start ended.
enum Started {
    Ready,
    Ended(Exit),
    TooLate,
}

/// A program that runs, and who hears what it writes.
struct Foreground {
    running: Running,
    hear: Hear,
}

impl Foreground {
    async fn become_ready(&mut self, ready: &Ready, give_up: Instant) -> Started {
        let mut met = std::pin::pin!(ready.met());
        loop {
            tokio::select! {
                biased;
                exit = self.ended_or_wrote() => {
                    if self.tell_lines(ready) {
                        return Started::Ready;
                    }
                    if let Some(exit) = exit {
                        return Started::Ended(exit);
                    }
                }
                () = &mut met => return Started::Ready,
                () = sleep_until(give_up) => return Started::TooLate,
            }
        }
    }

    /// Keeps it until it ends or is told to.
    async fn keep(mut self, command: String, mut orders: watch::Receiver<Order>, stop: Duration) {
        let exit = loop {
            tokio::select! {
                exit = self.ended_or_wrote() => {
                    self.tell_lines(&Ready::AtOnce);
                    if let Some(exit) = exit {
                        break exit;
                    }
                }
                // Its sender lives as long as the provider; without one there is no run.
                changed = orders.changed() => {
                    let order = if changed.is_ok() { *orders.borrow_and_update() } else { Order::Kill };
                    if order == Order::Stop {
                        tokio::select! {
                            () = self.end(stop) => {}
                            _ = orders.wait_for(|order| *order == Order::Kill) => {}
                        }
                    }
                    // Dropping it kills what is left of it.
                    return;
                }
            }
        };
        let message = format!("the service `{command}` {} before the run did", ended(exit));
        (self.hear)(&Notice::Warning(message));
    }

    /// Asks it to end, and waits so long; what is left is killed when this is dropped.
    async fn end(&mut self, patience: Duration) {
        self.running.process.signal_session(Signal::Term);
        let ending = async {
            while self.ended_or_wrote().await.is_none() {
                self.tell_lines(&Ready::AtOnce);
            }
            while self.running.process.session_left() {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(patience, ending).await;
    }

    /// How it ended, once all that it wrote was read; `None` if it wrote something.
    async fn ended_or_wrote(&mut self) -> Option<Exit> {
        match self.running.next().await {
            Event::Exited(exit) => Some(exit),
            Event::Stdout(_) | Event::Stderr(_) => None,
        }
    }

    /// Tells what it wrote. Was it what makes it ready?
    fn tell_lines(&mut self, ready: &Ready) -> bool {
        let (hear, mut is_ready) = (&self.hear, false);
        for stream in [&mut self.running.stdout, &mut self.running.stderr] {
            stream.take_lines(|line| {
                is_ready |= ready.is_line(line);
                hear(&Notice::Stderr(line.to_owned()));
            });
        }
        is_ready
    }

    /// What it wrote last to standard error, or to standard output if that was nothing.
    fn last_lines(&self) -> String {
        let shown = |stream: &Stream<Input>| stream.last_lines().join("\n");
        Some(shown(&self.running.stderr))
            .filter(|errors| !errors.is_empty())
            .unwrap_or_else(|| shown(&self.running.stdout))
    }
}
