//! Sign-ins that are offered to callers who can open a page (`ask = true`): begun by the first call
//! that lacks a token, and the same for all who come meanwhile.
//!
//! How a caller is asked is the matter of its wire; here the browser is waited for.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use toolbus_proto::limit::login_of;
use toolbus_proto::oauth::settings::Grant;
use toolbus_proto::tool::Failure;

use super::credential::Credential;
use super::sign_in::SignInError;
use crate::task::{boxed, spawn_local};

thread_local! {
    static OFFERING: RefCell<Vec<Weak<Credential>>> = const { RefCell::new(Vec::new()) };
}

/// Its sign-in may be offered, if the config says so.
pub(crate) fn may_be_offered(credential: &Rc<Credential>) {
    if !credential.may_offer() {
        return;
    }
    OFFERING.with_borrow_mut(|all| {
        all.retain(|known| known.strong_count() != 0);
        all.push(Rc::downgrade(credential));
    });
}

/// May any sign-in be offered?
pub(crate) fn is_any_offered() -> bool {
    OFFERING.with_borrow(|all| all.iter().any(|known| known.strong_count() != 0))
}

/// Whose sign-in a call lacks, if that may be offered. Of two, one is being left: the other came later.
pub(crate) fn offered_for(failure: &Failure) -> Option<Rc<Credential>> {
    let login = login_of(failure)?;
    OFFERING.with_borrow(|all| {
        let living = all.iter().rev().filter_map(Weak::upgrade);
        living.into_iter().find(|credential| credential.login() == login)
    })
}

/// A sign-in that has begun: a browser is waited for.
pub(crate) struct OfferedSignIn {
    /// What the user opens.
    pub(crate) url: String,
    /// Where.
    pub(crate) issuer: String,
    over: watch::Receiver<Option<bool>>,
}

impl OfferedSignIn {
    /// Waits for its end; tells whether there is a token.
    pub(crate) async fn is_signed_in(&self) -> bool {
        let mut over = self.over.clone();
        let ended = over.wait_for(Option::is_some).await;
        ended.is_ok_and(|ended| *ended == Some(true))
    }

    fn is_under_way(&self) -> bool {
        self.over.borrow().is_none() && self.over.has_changed().is_ok()
    }
}

impl Credential {
    /// May its user be asked by others than `toolbus login`?
    pub(crate) fn may_offer(&self) -> bool {
        let settings = self.settings();
        settings.ask && settings.grant == Grant::Code
    }

    /// The sign-in that is under way, or one that begins now.
    pub(crate) async fn offer(self: &Rc<Self>) -> Result<Rc<OfferedSignIn>, SignInError> {
        let mut offered = self.offered.lock().await;
        if let Some(under_way) = offered.as_ref().filter(|known| known.is_under_way()) {
            return Ok(under_way.clone());
        }
        let (begin, begun) = oneshot::channel();
        let (end, over) = watch::channel(None);
        let this = self.clone();
        spawn_local(boxed(async move {
            let is_signed_in = this.wait_for_browser(begin).await;
            if is_signed_in {
                // Before those who wait call again.
                this.look(true);
            }
            let _ = end.send(Some(is_signed_in));
        }));
        // The task tells one or the other before it ends.
        let begun = begun.await.unwrap_or(Err(SignInError::Abandoned))?;
        let under_way = Rc::new(OfferedSignIn { url: begun.0, issuer: begun.1, over });
        *offered = Some(under_way.clone());
        Ok(under_way)
    }

    /// Begins, says where the user agrees, and waits for that; tells whether there is a token.
    async fn wait_for_browser(
        &self,
        begin: oneshot::Sender<Result<(String, String), SignInError>>,
    ) -> bool {
        let patience = self.input_timeout();
        let signing_in = match self.begin_sign_in().await {
            Ok(signing_in) => signing_in,
            Err(why) => {
                let _ = begin.send(Err(why));
                return false;
            }
        };
        let known = signing_in.identity(false, false).await;
        let mut consented = match known {
            Ok((identity, door)) => signing_in.consent(identity, door),
            Err(why) => {
                let _ = begin.send(Err(why));
                return false;
            }
        };
        let told = (consented.url.clone(), signing_in.issuer().to_owned());
        if begin.send(Ok(told)).is_err() {
            return false;
        }
        let finished = match timeout(patience, consented.answer()).await {
            Ok(Ok(code)) => consented.finish(&code).await.map(drop),
            Ok(Err(why)) => {
                consented.give_up().await;
                Err(why)
            }
            Err(_) => {
                consented.give_up().await;
                self.tell_of_offer(&format!("nobody has answered within {patience:?}"));
                return false;
            }
        };
        if let Err(why) = &finished {
            self.tell_of_offer(&why.to_string());
        }
        finished.is_ok()
    }
}

/// How long a browser is waited for, unless something else is said.
pub(super) const INPUT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
