//! A program that speaks Orchard on its standard streams.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use toolbus::wire::orchard::WIRE;
use toolbus::wire::orchard::back::{Options, Orchard};
use toolbus::{Back as _, Call, Failure, FailureKind, Inbox, Json, LocalFuture, Outcome, What};
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{self, Patience as ChildPatience};
use toolbus_proto::channel::Notice;
use toolbus_proto::json::write_string;
use toolbus_proto::orchard::Settings;
use toolbus_proto::orchard::schema::ProviderSchema;

use super::{Execute, Patience, Provider};

pub(super) struct Program {
    back: Orchard,
}

impl Program {
    pub(super) fn new(
        name: &str,
        words: Vec<String>,
        cwd: Option<PathBuf>,
        patience: &Patience,
    ) -> Program {
        let settings = Settings {
            frame_bytes_max: patience.frame_bytes_max,
            describe_timeout: patience.describe,
            configure_timeout: patience.configure,
            is_strict: patience.is_strict,
            ..Settings::new(name)
        };
        let program = child::Program { cwd, ..child::Program::new(words) };
        let back = Orchard::for_host(Options {
            program,
            patience: ChildPatience {
                start: patience.describe,
                stop: patience.stop,
                // A run shows what it waits for itself.
                waits_for: None,
                ..toolbus::wire::orchard::PATIENCE
            },
            restart: Restart::Never,
            settings,
        });
        Program { back }
    }

    async fn ask(&self, call: Call) -> Result<Outcome, Failure> {
        let (inbox, reply_to) = Inbox::new();
        let running = self.back.start(call, reply_to);
        inbox.whole(running).await
    }

    async fn native(&self, method: &'static str, body: Bytes) -> Result<Outcome, Failure> {
        let method = Bytes::from_static(method.as_bytes());
        self.ask(Call::of(Instant::now(), What::Native { wire: WIRE, method, body })).await
    }
}

impl Provider for Program {
    fn describe(&self) -> LocalFuture<'_, Result<Rc<ProviderSchema>, Failure>> {
        Box::pin(async move {
            let described = self.native("describe", Bytes::from_static(b"{}")).await?;
            let broken = |error: String| Failure::new(FailureKind::BrokeProtocol, error);
            let Outcome::Native(schema) = described else {
                return Err(broken("expected a schema".to_owned()));
            };
            let schema = Json::parse(schema).map_err(|error| broken(error.to_string()))?;
            let read = ProviderSchema::read(&schema).map_err(|error| broken(error.to_string()))?;
            Ok(Rc::new(read.0))
        })
    }

    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.native("configure", config.as_bytes().clone()).await.map(drop) })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move {
            let Execute { action, attrs, label, timeout, .. } = execute;
            let mut body = Vec::with_capacity(attrs.as_bytes().len() + label.len() + 64);
            body.extend_from_slice(b"{\"action\":");
            write_string(&mut body, &action);
            body.extend_from_slice(b",\"label\":");
            write_string(&mut body, &label);
            body.extend_from_slice(b",\"attrs\":");
            body.extend_from_slice(attrs.as_bytes());
            body.push(b'}');
            let method = Bytes::from_static(b"execute");
            let what = What::Native { wire: WIRE, method, body: body.into() };
            let mut call = Call::of(Instant::now(), what);
            call.deadline.quiet = timeout;
            match self.ask(call).await? {
                Outcome::Value(outputs) => Ok(outputs),
                _ => Err(Failure::new(FailureKind::BrokeProtocol, "expected outputs")),
            }
        })
    }

    fn dies_by(&self, failure: &Failure) -> bool {
        // There is no way to take back a call: a process that is late is killed.
        !failure.from_peer && failure.kind != FailureKind::InvalidArguments
    }

    fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.back.listen(hear);
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.back.shutdown()
    }

    fn kill(&self) {
        self.back.kill();
    }
}
