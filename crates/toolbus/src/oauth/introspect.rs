//! Asks an issuer about a token (RFC 7662), for fronts that check no signatures.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::Mutex;
use toolbus_proto::caller::Digest;
use toolbus_proto::collect::base64;
use toolbus_proto::oauth::web::{encoded, form};

use super::fetch::{Fetcher, Posted, TOKEN_BYTES_MAX};
use super::keys::{KeysError, fetcher_of, metadata_of};
use super::tokens::Introspect;

/// How many tokens may be asked about at once.
const ASKED_MAX: usize = 64;

/// Asks one issuer, once at a time about each token.
pub(super) struct Introspector {
    introspect: Introspect,
    issuer: String,
    /// Where it said that it is asked.
    place: RefCell<Option<String>>,
    asked: Cell<usize>,
    by_token: RefCell<HashMap<Digest, Rc<Turn>>>,
}

/// The requests about one token.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) turn: Mutex<()>,
    /// The request before could not be answered.
    pub(super) has_failed: Cell<bool>,
}

impl Introspector {
    pub(super) fn new(introspect: Introspect, issuer: String) -> Introspector {
        let place = RefCell::new(introspect.url.clone());
        Introspector {
            introspect,
            issuer,
            place,
            asked: Cell::new(0),
            by_token: RefCell::default(),
        }
    }

    /// Whose turn it is to ask about this token; all who wait for it have the same.
    pub(super) fn turn(&self, token: &Digest) -> Rc<Turn> {
        self.by_token.borrow_mut().entry(*token).or_default().clone()
    }

    /// Nobody asks about this token any more.
    pub(super) fn is_over(&self, token: &Digest) {
        self.by_token.borrow_mut().remove(token);
    }

    /// Asks about a token: what was answered, or why there is no answer.
    pub(super) async fn ask(&self, token: &str) -> Result<Bytes, String> {
        if ASKED_MAX <= self.asked.get() {
            return Err(format!("it is asked about {ASKED_MAX} tokens already"));
        }
        self.asked.set(self.asked.get() + 1);
        let _under_way = UnderWay(&self.asked);
        let url = self.url().await.map_err(|error| error.to_string())?;
        let Introspect { client_id, client_secret, .. } = &self.introspect;
        let pair = format!("{}:{}", encoded(client_id), encoded(client_secret.reveal()));
        let posted = Posted {
            content_type: "application/x-www-form-urlencoded",
            body: form([("token", token), ("token_type_hint", "access_token")]),
            authorization: Some(format!("Basic {}", base64(pair.as_bytes()))),
        };
        let fetcher = match self.introspect.url {
            Some(_) => Fetcher::of_config(),
            None => fetcher_of(&self.issuer),
        };
        let got = fetcher.post(&url, &posted, TOKEN_BYTES_MAX).await;
        let got = got.map_err(|error| error.to_string())?;
        match got.status {
            200 => Ok(got.body),
            status => Err(format!("`{url}` answered with HTTP status {status}")),
        }
    }

    async fn url(&self) -> Result<String, KeysError> {
        if let Some(known) = self.place.borrow().clone() {
            return Ok(known);
        }
        let metadata = metadata_of(&self.issuer).await?;
        let url = metadata.introspection_endpoint.ok_or(KeysError::NoIntrospection)?;
        self.place.replace(Some(url.clone()));
        Ok(url)
    }
}

/// One request, until it is dropped.
struct UnderWay<'a>(&'a Cell<usize>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
