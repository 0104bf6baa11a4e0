//! Providers inside this process: the built-in ones, and those that an embedding program brings.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tokio::sync::Notify;
use tokio::time::timeout;
use toolbus::{Failure, FailureKind, Json, LocalFuture};
use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::schema::ProviderSchema;

use super::{Execute, Provider};
use crate::builtin::{self, Inside};

/// A provider inside this process.
pub struct InProcess {
    name: String,
    schema: Option<Rc<ProviderSchema>>,
    inside: Option<Rc<dyn Inside>>,
    /// Rung when all it does is to end at once.
    killed: Rc<Notify>,
}

impl InProcess {
    /// One that people call `name`.
    pub fn new(name: &str, schema: ProviderSchema, inside: Rc<dyn Inside>) -> InProcess {
        let (schema, inside) = (Some(Rc::new(schema)), Some(inside));
        InProcess { name: name.to_owned(), schema, inside, killed: Rc::default() }
    }

    pub(super) fn builtin(name: &str, builtin: &str) -> Option<InProcess> {
        Some(InProcess::new(name, builtin::schema(builtin)?, builtin::open(builtin)?))
    }

    pub(super) fn missing(name: &str) -> InProcess {
        InProcess { name: name.to_owned(), schema: None, inside: None, killed: Rc::default() }
    }

    fn inside(&self) -> Result<&Rc<dyn Inside>, Failure> {
        self.inside.as_ref().ok_or_else(|| self.is_missing())
    }

    fn is_missing(&self) -> Failure {
        let message = format!("provider `{}` is not in this build of toolbus", self.name);
        Failure::new(FailureKind::Unavailable, message)
    }

    /// Until it is done, or all is to end.
    async fn unless_killed<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = std::pin::pin!(work);
        let mut killed = std::pin::pin!(self.killed.notified());
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            killed.as_mut().poll(context).map(|()| {
                let message = format!("provider `{}` was stopped", self.name);
                Err(Failure::new(FailureKind::Gone, message))
            })
        })
        .await
    }
}

impl Provider for InProcess {
    fn describe(&self) -> LocalFuture<'_, Result<Rc<ProviderSchema>, Failure>> {
        Box::pin(async { self.schema.clone().ok_or_else(|| self.is_missing()) })
    }

    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let inside = self.inside()?.clone();
            self.unless_killed(inside.configure(config)).await
        })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move {
            let inside = self.inside()?.clone();
            let Execute { action, attrs, label, folder, timeout: patience } = execute;
            let work = inside.execute(builtin::Execute { action, attrs, folder });
            let work = self.unless_killed(work);
            let Some(patience) = patience else { return work.await };
            timeout(patience, work).await.unwrap_or_else(|_| {
                let name = &self.name;
                let message = format!(
                    "provider `{name}` did not answer `execute` of `{label}` within {patience:?}"
                );
                Err(Failure::new(FailureKind::TimedOut, message))
            })
        })
    }

    fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        if let Some(inside) = &self.inside {
            inside.listen(hear);
        }
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.killed.notify_waiters();
        Box::pin(async {
            if let Some(inside) = &self.inside {
                inside.shutdown().await;
            }
        })
    }

    fn kill(&self) {
        self.killed.notify_waiters();
        if let Some(inside) = &self.inside {
            inside.kill();
        }
    }
}
