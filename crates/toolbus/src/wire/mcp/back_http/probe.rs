//! Does a server want a sign-in, and what does it say of it? It is asked for its tools, without a
//! token, as any client would.

use std::cell::RefCell;
use std::rc::Rc;

use toolbus_proto::http::ResponseHead;
use toolbus_proto::oauth::challenge::Challenge;
use toolbus_proto::tool::Failure;

use super::{McpHttp, Options};
use crate::bus::back::{Back as _, LocalFuture};
use crate::oauth::sign_in::Probed;

/// What was answered so far.
#[derive(Debug, Default)]
pub(super) struct ProbeHeard {
    was_heard: bool,
    asked: Probed,
}

impl ProbeHeard {
    /// Takes the head of an answer; the first refusal counts.
    pub(super) fn take(&mut self, head: &ResponseHead) {
        self.was_heard = true;
        if head.status == 401 && !self.asked.was_refused {
            self.asked = Probed { was_refused: true, challenge: Challenge::of(head) };
        }
    }
}

/// Asks, and says what came of it.
pub(in crate::wire::mcp) fn probe(
    mut options: Options,
) -> LocalFuture<'static, Result<Probed, Failure>> {
    Box::pin(async move {
        let heard = Rc::new(RefCell::new(ProbeHeard::default()));
        options.credential = None;
        options.probed = Some(heard.clone());
        let back = McpHttp::new(options);
        let tools = back.tools().await;
        back.shutdown().await;
        let heard = heard.take();
        match tools {
            Err(failure) if !heard.was_heard => Err(failure),
            _ => Ok(heard.asked),
        }
    })
}
