//! The keys of issuers, as they publish them: got when they are needed, kept for as long as they
//! say, and got anew when a token names one that is not there.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolbus_proto::oauth::keyset::{BadKeySet, KEY_SET_BYTES_MAX, KeySet};
use toolbus_proto::oauth::metadata::{IssuerLookup, Looked, MetadataError, ServerMetadata};
use toolbus_proto::oauth::web::WebUrl;

use super::fetch::{FetchError, Fetcher};
use super::tokens::Jwks;

/// How long keys are kept of which is not said how long they hold.
const KEPT: Duration = Duration::from_secs(60 * 60);
const KEPT_MIN: Duration = Duration::from_secs(5 * 60);
/// That long at most, and that long also if there are no newer ones to be had.
const KEPT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a name that is not known may have them got anew.
const UNKNOWN_EVERY: Duration = Duration::from_secs(10);
/// When it is tried again where old keys go on holding.
const RETRY: Duration = Duration::from_secs(10);

/// The keys of all issuers of one front.
pub(super) struct Keys {
    source: Option<Jwks>,
    issuers: RefCell<HashMap<String, Rc<OfIssuer>>>,
    /// When an unknown name had them got anew.
    unknown_at: Cell<Option<Instant>>,
    /// Another set has come so often.
    changes: Cell<u64>,
}

#[derive(Default)]
struct OfIssuer {
    known: RefCell<Option<KnownKeys>>,
    /// Held by who gets them.
    turn: Mutex<()>,
    /// So often was tried.
    tries: Cell<u64>,
    is_trying: Cell<bool>,
    failed: RefCell<Option<Rc<KeysError>>>,
}

struct KnownKeys {
    set: Rc<KeySet>,
    got_at: Instant,
    fresh_until: Instant,
}

impl Keys {
    /// From there, or from where each issuer says.
    pub(super) fn new(source: Option<Jwks>) -> Keys {
        let (issuers, unknown_at, changes) = Default::default();
        Keys { source, issuers, unknown_at, changes }
    }

    /// How often there were others.
    pub(super) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Are those of this issuer known, and need not be got anew?
    pub(super) fn are_fresh(&self, issuer: &str) -> bool {
        if let Some(Jwks::Here(_)) = self.source {
            return true;
        }
        let issuers = self.issuers.borrow();
        let known = issuers.get(issuer).map(|of| of.known.borrow());
        known.and_then(|known| Some(Instant::now() < known.as_ref()?.fresh_until)).unwrap_or(false)
    }

    /// The keys of this issuer, which are got if they are not there or too old.
    pub(super) async fn of(&self, issuer: &str) -> Result<Rc<KeySet>, Rc<KeysError>> {
        if let Some(Jwks::Here(set)) = &self.source {
            return Ok(Rc::new(KeySet::clone(set)));
        }
        if !self.are_fresh(issuer) {
            self.get(issuer).await;
        }
        self.kept(issuer)
    }

    /// The same when a token names one that is not in `set`: got anew, or `None` if they were for
    /// such a reason a short while ago.
    pub(super) async fn newer(
        &self,
        issuer: &str,
        set: &Rc<KeySet>,
    ) -> Option<Result<Rc<KeySet>, Rc<KeysError>>> {
        if let Some(Jwks::Here(_)) = self.source {
            return None;
        }
        let of = self.of_issuer(issuer);
        // What came meanwhile is newer.
        let is_other = of.known.borrow().as_ref().is_some_and(|known| !Rc::ptr_eq(&known.set, set));
        if is_other {
            return Some(self.kept(issuer));
        }
        if !of.is_trying.get() {
            let now = Instant::now();
            if self.unknown_at.get().is_some_and(|at| now < at + UNKNOWN_EVERY) {
                return None;
            }
            self.unknown_at.set(Some(now));
        }
        self.get(issuer).await;
        Some(self.kept(issuer))
    }

    fn of_issuer(&self, issuer: &str) -> Rc<OfIssuer> {
        self.issuers.borrow_mut().entry(issuer.to_owned()).or_default().clone()
    }

    /// What there is, if it is not too old.
    fn kept(&self, issuer: &str) -> Result<Rc<KeySet>, Rc<KeysError>> {
        let of = self.of_issuer(issuer);
        let known = of.known.borrow();
        let known = known.as_ref().filter(|known| Instant::now() < known.got_at + KEPT_MAX);
        match known {
            Some(known) => Ok(known.set.clone()),
            None => Err(of.failed.borrow().clone().unwrap_or_else(|| Rc::new(KeysError::None))),
        }
    }

    /// Gets them, or waits for who does.
    async fn get(&self, issuer: &str) {
        let of = self.of_issuer(issuer);
        let tries = of.tries.get();
        let _turn = of.turn.lock().await;
        if of.tries.get() != tries {
            return;
        }
        of.is_trying.set(true);
        let trying = Trying(of.clone());
        let got = self.fetched(issuer).await;
        drop(trying);
        let now = Instant::now();
        let mut known = of.known.borrow_mut();
        match got {
            Ok((set, holds)) => {
                of.failed.take();
                match known.as_mut().filter(|known| *known.set == set) {
                    Some(same) => {
                        same.got_at = now;
                        same.fresh_until = now + holds;
                    }
                    None => {
                        let (set, fresh_until) = (Rc::new(set), now + holds);
                        *known = Some(KnownKeys { set, got_at: now, fresh_until });
                        self.changes.set(self.changes.get() + 1);
                    }
                }
            }
            Err(error) => {
                // Once, or who shows any token could fill the log.
                if of.failed.borrow().is_none() {
                    tracing::warn!("the keys of `{issuer}` cannot be had: {error}");
                }
                of.failed.replace(Some(Rc::new(error)));
                if let Some(known) = known.as_mut() {
                    known.fresh_until = known.fresh_until.max(now + RETRY);
                }
            }
        }
    }

    async fn fetched(&self, issuer: &str) -> Result<(KeySet, Duration), KeysError> {
        let (url, fetcher) = match &self.source {
            Some(Jwks::At(url)) => (url.clone(), Fetcher::of_config()),
            _ => {
                let metadata = metadata_of(issuer).await?;
                let url = metadata.jwks_uri.ok_or(KeysError::NoKeys)?;
                (url, fetcher_of(issuer))
            }
        };
        let got = fetcher.get_up_to(&url, KEY_SET_BYTES_MAX).await?;
        if !(200..300).contains(&got.status) {
            return Err(KeysError::Status { url, status: got.status });
        }
        let set = KeySet::read(&got.body).map_err(|why| KeysError::NoSet { url, why })?;
        let holds = got.max_age.map_or(KEPT, |age| age.clamp(KEPT_MIN, KEPT_MAX));
        Ok((set, holds))
    }
}

/// Somebody gets keys, until this is dropped.
struct Trying(Rc<OfIssuer>);

impl Drop for Trying {
    fn drop(&mut self) {
        self.0.is_trying.set(false);
        self.0.tries.set(self.0.tries.get() + 1);
    }
}

/// Makes requests to where an issuer says, which may be in our own network if it is there itself.
pub(super) fn fetcher_of(issuer: &str) -> Fetcher {
    match WebUrl::parse(issuer) {
        Some(url) => Fetcher::of_server(&url, &[issuer.to_owned()]),
        None => Fetcher::of_config(),
    }
}

/// What an issuer of the config says about itself.
pub(super) async fn metadata_of(issuer: &str) -> Result<ServerMetadata, KeysError> {
    let fetcher = Fetcher::of_config();
    let mut lookup = IssuerLookup::new(issuer, &[])?;
    while let Some(url) = lookup.poll_get().map(str::to_owned) {
        let got = fetcher.get(&url).await?;
        match lookup.handle_answer(got.status, &got.body)? {
            Looked::Next => {}
            Looked::Absent => break,
            Looked::Found(metadata) => return Ok(metadata),
        }
    }
    Err(KeysError::NoMetadata)
}

/// Why there are no keys.
#[derive(Debug, Error)]
pub(super) enum KeysError {
    #[error("it says nothing about itself")]
    NoMetadata,
    #[error("it does not say where its keys are")]
    NoKeys,
    #[error("it does not say where it is asked about tokens")]
    NoIntrospection,
    #[error("there are none")]
    None,
    #[error("`{url}` answered with HTTP status {status}")]
    Status { url: String, status: u16 },
    #[error("`{url}`: {why}")]
    NoSet { url: String, why: BadKeySet },
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}
