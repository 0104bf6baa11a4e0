//! Any other peer of toolbus as a provider: its tools are actions.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use toolbus::bus::back::Back;
use toolbus::peer::settings::{ProgramSettings, Restart, Settings};
use toolbus::peer::{OpenError, open};
use toolbus::{Address, Call, Code, Failure, FailureKind, Inbox, Json, LocalFuture, What};
use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::schema::ProviderSchema;
use toolbus_proto::orchard::translate::{self, Provider as Translation, Served};

use super::{Execute, Patience, Provider};

pub(super) struct Peer {
    name: String,
    back: Rc<dyn Back>,
    /// Once its tools are known.
    translation: RefCell<Option<Rc<Translation>>>,
}

impl Peer {
    pub(super) fn open(
        name: &str,
        address: &Address,
        folder: &Path,
        patience: &Patience,
    ) -> Result<Peer, OpenError> {
        let settings = Settings {
            name: Some(name.to_owned()),
            stop_timeout: Some(patience.stop),
            restart: Some(Restart::Never),
            program: ProgramSettings { cwd: Some(folder.to_owned()), ..ProgramSettings::default() },
            allow_shell: patience.allow_shell,
            ..Settings::default()
        };
        let back = open(address, &settings)?;
        Ok(Peer { name: name.to_owned(), back, translation: RefCell::default() })
    }

    fn told(&self, failure: Failure) -> Failure {
        let message = format!("provider `{}`: {}", self.name, failure.message);
        Failure { message, ..failure }
    }
}

impl Provider for Peer {
    fn describe(&self) -> LocalFuture<'_, Result<Rc<ProviderSchema>, Failure>> {
        Box::pin(async {
            let tools = self.back.tools().await.map_err(|failure| self.told(failure))?;
            let mut translation = Translation::new("toolbus", env!("CARGO_PKG_VERSION"));
            for tool in &*tools {
                let offered = translation.offer(tool.name.as_str(), Served::new(tool));
                offered.map_err(|clash| {
                    self.told(Failure::new(FailureKind::BrokeProtocol, clash.to_string()))
                })?;
            }
            let schema = translation.schema();
            self.translation.replace(Some(Rc::new(translation)));
            Ok(Rc::new(schema))
        })
    }

    fn configure(&self, _config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        // There is nothing to configure: its schema has no config.
        Box::pin(async { Ok(()) })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move {
            let translation = self.translation.borrow().clone();
            let served = translation.as_ref().and_then(|all| all.served(&execute.action));
            let Some(served) = served else {
                let message = format!("unknown action: {}", execute.action);
                return Err(refused(Failure::new(FailureKind::UnknownTool, message)));
            };
            let args = served.arguments_of(&execute.attrs).map_err(|error| {
                refused(Failure::new(FailureKind::InvalidArguments, error.to_string()))
            })?;
            let what = What::Tool { name: served.tool().clone(), args };
            let mut call = Call::of(Instant::now(), what);
            call.deadline.total = execute.timeout;
            let (inbox, reply_to) = Inbox::new();
            let running = self.back.start(call, reply_to);
            match inbox.whole(running).await {
                Ok(outcome) => Ok(Json::from_trusted(served.outputs(&outcome)?)),
                Err(failure) => Err(match failure.kind {
                    // The effect may have happened.
                    FailureKind::Gone | FailureKind::TimedOut => self.told(failure),
                    FailureKind::BrokeProtocol if !failure.from_peer => self.told(failure),
                    _ => refused(failure),
                }),
            }
        })
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

/// As a provider would say it: with a code of Orchard, and the peer's own in the detail.
pub(super) fn refused(failure: Failure) -> Failure {
    let detail = translate::detail(&failure).map(|detail| Json::of(&detail));
    let code = Some(Code::Word(translate::code(failure.kind).to_owned()));
    Failure { code, detail, from_peer: true, ..failure }
}
