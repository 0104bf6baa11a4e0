//! A provider whose actions are seen by the observers of calls, though no bus is on the way.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use toolbus::bus::observe::{ObservedCall, Observers};
use toolbus::{Failure, Json, LocalFuture, ToolName, Wire};
use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::schema::ProviderSchema;

use super::address::refused;
use super::{Execute, Provider};
use crate::secrets::Secrets;

pub(crate) struct ObservedProvider {
    /// The instance: `name` or `name.alias`.
    pub(crate) name: Arc<str>,
    pub(crate) wire: Wire,
    pub(crate) provider: Rc<dyn Provider>,
    pub(crate) observers: Observers,
    pub(crate) secrets: Rc<Secrets>,
}

impl Provider for ObservedProvider {
    fn describe(&self) -> LocalFuture<'_, Result<Rc<ProviderSchema>, Failure>> {
        self.provider.describe()
    }

    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        self.provider.configure(config)
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move {
            let call = ObservedCall {
                back: Some(self.name.clone()),
                wire: Some(self.wire),
                // What it gets and gives is in the record of the run, where it is known which of
                // it is sensitive.
                arguments: None,
                bytes_in: execute.attrs.as_bytes().len() as u64,
                ..ObservedCall::new(ToolName::new(execute.action.as_str()), Instant::now())
            };
            let told = |done: &Result<Json, Failure>| match done {
                Ok(outputs) => Ok(outputs.as_bytes().len() as u64),
                Err(failure) => {
                    let message = self.secrets.masked(&failure.message).into_owned();
                    Err(Failure { message, ..failure.clone() })
                }
            };
            let seen = self.observers.see(call, self.provider.execute(execute), told).await;
            // No fault of the provider's.
            seen.unwrap_or_else(|failure| Err(refused(failure)))
        })
    }

    fn dies_by(&self, failure: &Failure) -> bool {
        self.provider.dies_by(failure)
    }

    fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.provider.listen(hear);
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.provider.shutdown()
    }

    fn kill(&self) {
        self.provider.kill();
    }
}
