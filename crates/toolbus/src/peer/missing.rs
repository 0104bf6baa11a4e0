//! A back whose config asks for something that is not there, such as a variable: it is not
//! started, and whatever it is asked fails with what is missing. The other backs go on.

use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, Failure, FailureKind, ToolSpec, Wire};

use crate::address::Address;
use crate::bus::back::{Back, LocalFuture, hinted};
use crate::engine::calls::{ReplyTo, RunningCall};

/// What a back needs and was not there when its config was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What it is, and who asks for it.
    pub message: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl Missing {
    /// Why a call fails that needs it.
    pub fn failure(&self) -> Failure {
        let failure = Failure::new(FailureKind::Unavailable, self.message.clone());
        hinted(failure, self.hint.clone())
    }
}

/// In place of the back that could not be opened without it.
pub(crate) fn back(address: &Address, missing: &Missing) -> Rc<dyn Back> {
    Rc::new(MissingBack { wire: address.kind().wire(), failure: missing.failure() })
}

struct MissingBack {
    /// That of the back it stands for: callers in that wire come to it and learn why it fails.
    wire: Wire,
    failure: Failure,
}

impl Back for MissingBack {
    fn wire(&self) -> Wire {
        self.wire
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Err(self.failure.clone()) })
    }

    fn start(&self, _: Call, down: ReplyTo) -> RunningCall {
        let _ = down.send(Down::Done(Err(self.failure.clone())));
        RunningCall::ended()
    }
}
