//! The token of one back: looked up when a request needs it, renewed when it ends, and what a
//! server that will not have it means.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::http::ResponseHead;
use toolbus_proto::oauth::challenge::Challenge;
use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::identity::{self, Whoever};
use toolbus_proto::oauth::refresh::{Pause, is_due};
use toolbus_proto::oauth::settings::SignInSettings;
use toolbus_proto::oauth::stored::SignIn;
use toolbus_proto::oauth::web::WebUrl;
use toolbus_proto::tool::Failure;

use super::discover::discover;
use super::fetch::Fetcher;
use super::offer::{INPUT_TIMEOUT, OfferedSignIn};
use super::renewal::{Renewal, Renewed, renew};
use super::sign_in::{Probed, SignInError, SigningIn};
use super::store::{FileSeen, KeptSignIn, Sought, Store, StoreError, unix_now};
use super::told::SignInTold;
use crate::bus::meters::{Measure, Meter, MeterReading};
use crate::secrets;

/// How often it is looked whether another process has signed in or out.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whose token it is.
#[derive(Debug, Clone)]
pub struct Whose {
    /// What people call the back.
    pub name: String,
    /// It is a back of the config, not an address of a command line.
    pub is_configured: bool,
    /// Where it is.
    pub server: WebUrl,
    /// What the config says.
    pub settings: Arc<SignInSettings>,
    /// Tokens may go in clear to other machines.
    pub insecure: bool,
}

/// The token of one back.
pub struct Credential {
    whose: Whose,
    login: String,
    server: String,
    store: Result<Store, StoreError>,
    state: RefCell<CredentialState>,
    /// When a file was looked at last.
    looked: Cell<Option<Instant>>,
    counts: Counts,
    /// Told when there is a sign-in that was missing.
    watchers: RefCell<Vec<Rc<dyn Fn()>>>,
    /// The sign-in that was offered to callers last.
    pub(super) offered: tokio::sync::Mutex<Option<Rc<OfferedSignIn>>>,
    /// How long a browser is waited for then.
    input_timeout: Cell<Duration>,
}

#[derive(Default)]
struct CredentialState {
    kept: Option<KeptSignIn>,
    /// What is wrong with files that may be it.
    broken: Vec<StoreError>,
    /// The folder as it was when there was none.
    folder: Option<FileSeen>,
    /// A token that this process has got, and that no request was answered with yet.
    fresh: Option<Hidden>,
    pause: Pause,
    /// The server has said that it wants a sign-in.
    is_wanted: bool,
    /// What it said then.
    challenge: Option<Challenge>,
    /// The challenge for which more scopes were asked for by ourselves.
    stepped_up: Vec<String>,
}

/// What came of refreshes.
#[derive(Debug, Default)]
pub struct Counts {
    /// A token was got.
    pub ok: Cell<u64>,
    /// The sign-in server said no.
    pub refused: Cell<u64>,
    /// It is not known what it would have said.
    pub failed: Cell<u64>,
}

/// What becomes of a request that was answered.
#[derive(Debug)]
pub enum Verdict {
    /// The answer counts.
    Counts,
    /// The request is to be made once more: there is another token.
    Again,
    /// It has failed.
    Fails(Box<Failure>),
}

impl Credential {
    /// Looks at nothing yet.
    pub fn new(whose: Whose) -> Credential {
        Credential::in_store(whose, Store::of_user())
    }

    /// The same with another store.
    pub fn in_store(whose: Whose, store: Result<Store, StoreError>) -> Credential {
        Credential {
            login: format!("toolbus login {}", whose.name),
            server: whose.server.plain(),
            whose,
            store,
            state: RefCell::default(),
            looked: Cell::default(),
            counts: Counts::default(),
            watchers: RefCell::default(),
            offered: tokio::sync::Mutex::default(),
            input_timeout: Cell::new(INPUT_TIMEOUT),
        }
    }

    /// What the user says about it.
    pub(super) fn settings(&self) -> &SignInSettings {
        &self.whose.settings
    }

    /// What people call the back.
    pub(crate) fn name(&self) -> &str {
        &self.whose.name
    }

    /// The command that signs in.
    pub(super) fn login(&self) -> &str {
        &self.login
    }

    /// How long a browser is waited for where a sign-in is offered to a caller.
    pub(crate) fn set_input_timeout(&self, patience: Duration) {
        self.input_timeout.set(patience);
    }

    pub(crate) fn input_timeout(&self) -> Duration {
        self.input_timeout.get()
    }

    /// What has become of a sign-in that was offered to a caller, who is told no more than that it
    /// is still needed.
    pub(crate) fn tell_of_offer(&self, why: &str) {
        tracing::warn!("the sign-in to `{}` has failed: {why}", self.whose.name);
    }

    /// Looks where the user signs in, for what the server wanted last.
    pub(super) async fn begin_sign_in(&self) -> Result<SigningIn, SignInError> {
        let store = self.store.clone()?;
        store.try_out()?;
        let (challenge, before) = {
            let state = self.state.borrow();
            (state.challenge.clone(), state.kept.as_ref().map(|kept| kept.sign_in.clone()))
        };
        let Whose { server, settings, name, .. } = &self.whose;
        let asked = Probed { was_refused: true, challenge };
        let note = |text: String| tracing::info!("{text}");
        let looked =
            SigningIn::look(server, settings.clone(), store, &asked, before.as_ref(), note).await?;
        looked.ok_or_else(|| SignInError::NotAsked { name: name.clone() })
    }

    /// Calls this when there is a sign-in that was missing.
    pub fn watch(&self, signed_in: Rc<dyn Fn()>) {
        self.watchers.borrow_mut().push(signed_in);
    }

    /// What came of refreshes.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Is there a sign-in? `None` if none is wanted, as far as is known.
    pub fn is_signed_in(&self) -> Option<bool> {
        let state = self.state.borrow();
        match &state.kept {
            Some(kept) => Some(kept.sign_in.is_signed_in(unix_now()) && !state.is_wanted),
            None => state.is_wanted.then_some(false),
        }
    }

    fn told(&self) -> SignInTold<'_> {
        SignInTold { name: &self.whose.name, login: &self.login }
    }

    fn access(&self) -> Option<Hidden> {
        self.state.borrow().kept.as_ref().and_then(|kept| kept.sign_in.access.clone())
    }

    /// Looks at the file, or at the folder if there is none: one look, if nothing has changed.
    pub(super) fn look(&self, is_now: bool) {
        let Ok(store) = &self.store else { return };
        let now = Instant::now();
        let last = self.looked.get();
        if !is_now && last.is_some_and(|last| now < last + LOOK_AGAIN) {
            return;
        }
        self.looked.set(Some(now));
        let mut state = self.state.borrow_mut();
        let is_same = last.is_some()
            && match &state.kept {
                Some(kept) => FileSeen::at(&kept.path) == Some(kept.seen),
                None => {
                    let seen = store.seen();
                    seen == state.folder
                        && state.broken.is_empty()
                        && !seen.is_some_and(|seen| seen.is_fresh())
                }
            };
        if is_same {
            return;
        }
        state.folder = store.seen();
        let settings = &self.whose.settings;
        let (found, broken) = store.find(Sought {
            server: &self.server,
            account: self.whose.is_configured.then_some(settings.account.as_str()),
            client_id: settings.client_id.as_deref(),
            issuers: &settings.issuers,
        });
        let is_other =
            |found: &KeptSignIn, before: &KeptSignIn| found.sign_in.access != before.sign_in.access;
        let mut has_come = false;
        if let (Some(found), before) = (&found, &state.kept)
            && before.as_ref().is_none_or(|before| is_other(found, before))
        {
            found.sign_in.secrets().for_each(|secret| secrets::hide(secret.reveal()));
            has_come = state.is_wanted;
            state.is_wanted = false;
            state.pause.over();
            state.fresh = None;
        }
        state.kept = found;
        state.broken = broken;
        drop(state);
        if has_come {
            let watchers = self.watchers.borrow().clone();
            watchers.iter().for_each(|told| told());
        }
    }

    /// The token for a request, if there is one.
    pub async fn token(&self) -> Result<Option<Hidden>, Failure> {
        self.look(false);
        let now = unix_now();
        let kept = {
            let state = self.state.borrow();
            let Some(kept) = state.kept.as_ref().map(|kept| &kept.sign_in) else {
                let is_ours =
                    |it: &&StoreError| matches!(it, StoreError::Open { sign_in: Some(_), .. });
                return match state.broken.iter().find(is_ours) {
                    Some(error) => Err(self.told().store(error)),
                    None => Ok(None),
                };
            };
            let url = &self.whose.server;
            if !url.is_secure && !url.is_loopback() && !self.whose.insecure {
                return Err(self.told().insecure());
            }
            if !is_due(kept, now) {
                return Ok(kept.usable(now).cloned());
            }
            kept.clone()
        };
        let usable = kept.usable(now).cloned();
        if kept.refresh.is_none() && !kept.grant.is_by_itself() {
            return match usable {
                Some(token) => Ok(Some(token)),
                None => {
                    self.state.borrow_mut().is_wanted = true;
                    Err(self.told().ended())
                }
            };
        }
        let stale = kept.access.clone();
        match self.renewed(kept, stale).await {
            Ok(token) => Ok(Some(token)),
            Err(failure) => usable.map(Some).ok_or(failure),
        }
    }

    /// Another token than `stale`, or why there is none.
    async fn renewed(&self, sign_in: SignIn, stale: Option<Hidden>) -> Result<Hidden, Failure> {
        if let Some(why) = self.state.borrow().pause.holds(Instant::now()) {
            return Err(self.told().unreachable(why));
        }
        let store = self.store.clone().map_err(|error| self.told().store(&error))?;
        let settings = self.whose.settings.clone();
        let told = renew(Renewal { store, sign_in, settings, stale: stale.clone() });
        let renewed = match told.await {
            Ok(renewed) => renewed,
            Err(_) => Renewed::Failed("no thread could be had for it".to_owned()),
        };
        let count = |cell: &Cell<u64>| cell.set(cell.get() + 1);
        let mut state = self.state.borrow_mut();
        match renewed {
            Renewed::Token { kept, is_ours } => {
                kept.sign_in.secrets().for_each(|secret| secrets::hide(secret.reveal()));
                let token = kept.sign_in.access.clone();
                if is_ours {
                    count(&self.counts.ok);
                    state.fresh.clone_from(&token);
                    tracing::info!("refreshed the token of `{}`", self.whose.name);
                }
                state.kept = Some(*kept);
                state.is_wanted = false;
                state.pause.over();
                drop(state);
                token.ok_or_else(|| self.told().ended())
            }
            Renewed::GivenUp { kept, is_ours } => {
                if is_ours {
                    count(&self.counts.refused);
                }
                let was_there = kept.is_some();
                state.kept = kept.map(|kept| *kept);
                state.is_wanted = true;
                Err(if was_there { self.told().ended() } else { self.told().never() })
            }
            Renewed::Refused(why) => {
                count(&self.counts.refused);
                state.is_wanted = true;
                let words = why.to_string();
                let words = words.strip_prefix("the sign-in server refused: ").unwrap_or(&words);
                Err(self.told().refused(words))
            }
            Renewed::Failed(why) => {
                count(&self.counts.failed);
                state.pause.failed(Instant::now(), why.clone());
                Err(self.told().unreachable(&why))
            }
            Renewed::Store(error) => Err(self.told().store(&error)),
        }
    }

    /// What the answer to a request with this token means.
    pub async fn judge(&self, token: Option<&Hidden>, head: &ResponseHead) -> Verdict {
        let verdict = match head.status {
            401 => self.unauthorized(token, head).await,
            403 => {
                self.accepted(token);
                let challenge = Challenge::of(head);
                let is_short = |challenge: &&Challenge| {
                    challenge.error.as_deref() == Some("insufficient_scope")
                };
                match challenge.as_ref().filter(is_short) {
                    Some(challenge) => self.short_of_scope(token, challenge).await,
                    None => Ok(false),
                }
            }
            _ => {
                self.accepted(token);
                return Verdict::Counts;
            }
        };
        match verdict {
            Ok(true) => Verdict::Again,
            Ok(false) => Verdict::Counts,
            Err(failure) => Verdict::Fails(Box::new(failure)),
        }
    }

    /// The server has taken the token.
    fn accepted(&self, token: Option<&Hidden>) {
        let Some(token) = token else { return };
        let mut state = self.state.borrow_mut();
        if state.fresh.as_ref() == Some(token) {
            state.fresh = None;
        }
    }

    /// Is the request to be made again?
    async fn unauthorized(
        &self,
        token: Option<&Hidden>,
        head: &ResponseHead,
    ) -> Result<bool, Failure> {
        self.state.borrow_mut().challenge = Challenge::of(head);
        // Another request, or another process, may have got a token meanwhile.
        self.look(true);
        let kept = self.state.borrow().kept.clone();
        let now = unix_now();
        if let Some(kept) = &kept
            && let Some(other) = kept.sign_in.usable(now)
            && Some(other) != token
        {
            return Ok(true);
        }
        let is_fresh = token.is_some() && self.state.borrow().fresh.as_ref() == token;
        match kept {
            Some(kept) if !is_fresh => {
                if kept.sign_in.refresh.is_some() || kept.sign_in.grant.is_by_itself() {
                    let renewed = self.renewed(kept.sign_in, token.cloned()).await;
                    return renewed.map(|_| true);
                }
            }
            Some(_) => {}
            None if self.whose.settings.grant.is_by_itself() => {
                let challenge = Challenge::of(head);
                let sign_in = self.by_itself(challenge.as_ref()).await?;
                return self.renewed(sign_in, None).await.map(|_| true);
            }
            None => {
                let mut state = self.state.borrow_mut();
                state.is_wanted = true;
                return Err(match (&self.store, state.broken.first()) {
                    (Err(error), _) | (Ok(_), Some(error)) => self.told().store(error),
                    (Ok(_), None) => self.told().never(),
                });
            }
        }
        self.state.borrow_mut().is_wanted = true;
        Err(self.told().ended())
    }

    /// The server wants more than the token is good for.
    async fn short_of_scope(
        &self,
        token: Option<&Hidden>,
        challenge: &Challenge,
    ) -> Result<bool, Failure> {
        let scope = challenge.scopes().join(" ");
        let kept = self.state.borrow().kept.clone();
        let Some(kept) = kept else {
            return Err(self.told().wants(&scope));
        };
        let asked = &kept.sign_in.asked;
        let lacking: Vec<String> =
            challenge.scopes().into_iter().filter(|scope| !asked.contains(scope)).collect();
        if kept.sign_in.grant.is_by_itself() {
            let is_new = self.state.borrow().stepped_up != challenge.scopes();
            if lacking.is_empty() || !is_new {
                return Err(self.told().forbidden(&scope));
            }
            self.state.borrow_mut().stepped_up = challenge.scopes();
            let mut sign_in = kept.sign_in;
            sign_in.asked.extend(lacking);
            return self.renewed(sign_in, token.cloned()).await.map(|_| true);
        }
        if lacking.is_empty() {
            return Err(self.told().forbidden(&scope));
        }
        self.remember_wanted(&kept, &lacking).await;
        let mut state = self.state.borrow_mut();
        state.is_wanted = true;
        state.challenge = Some(challenge.clone());
        drop(state);
        Err(self.told().wants(&scope))
    }

    /// Keeps what the next sign-in has to ask for.
    async fn remember_wanted(&self, kept: &KeptSignIn, lacking: &[String]) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let Ok(store) = &self.store else { return };
        let Ok(Some(_locked)) = store.lock(&kept.sign_in.name(), PATIENCE).await else { return };
        let Ok(Some(mut now)) = store.read_again(&kept.path) else { return };
        let before = now.sign_in.wanted.len();
        for scope in lacking {
            if !now.sign_in.wanted.contains(scope) {
                now.sign_in.wanted.push(scope.clone());
            }
        }
        if before < now.sign_in.wanted.len()
            && let Ok(kept) = store.save(&now.sign_in)
        {
            self.state.borrow_mut().kept = Some(kept);
        }
    }

    /// What a client that needs no person asks with: looked for at the server's own word.
    async fn by_itself(&self, challenge: Option<&Challenge>) -> Result<SignIn, Failure> {
        let Whose { server, settings, .. } = &self.whose;
        if let Some(why) = self.state.borrow().pause.holds(Instant::now()) {
            return Err(self.told().unreachable(why));
        }
        let fetcher = Fetcher::of_server(server, &settings.issuers).believing(settings.ca.as_ref());
        let found = discover(&fetcher, server, challenge, true, &settings.issuers, |_| {}).await;
        let place = match found {
            Ok(Some(place)) => place,
            Ok(None) => return Err(self.told().never()),
            Err(why) => return Err(self.failed(&why.to_string())),
        };
        place.check(settings.grant).map_err(|why| self.failed(&why.to_string()))?;
        let identity = match identity::choose(settings, &place.server, None) {
            Whoever::Known(identity) => identity,
            // What vouches for us says who we are; a name is wanted by some even so.
            Whoever::Register { .. } | Whoever::Ask => {
                identity::given("", None, false, &place.server)
            }
        };
        let scopes = place.scopes(settings, challenge, None);
        Ok(SignIn {
            server: self.server.clone(),
            account: settings.account.clone(),
            issuer: place.server.issuer.clone(),
            resource: place.resource(server, settings),
            identity,
            token_endpoint: place.server.token_endpoint.clone().unwrap_or_default(),
            revocation_endpoint: place.server.revocation_endpoint.clone(),
            grant: settings.grant,
            access: None,
            expires_at: None,
            refresh: None,
            asked: scopes.clone(),
            scopes,
            wanted: Vec::new(),
            who: None,
            signed_in_at: unix_now(),
            refreshed_at: None,
        })
    }

    fn failed(&self, why: &str) -> Failure {
        self.counts.failed.set(self.counts.failed.get() + 1);
        self.state.borrow_mut().pause.failed(Instant::now(), why.to_owned());
        self.told().unreachable(why)
    }

    /// Gets a token at once, for a client that needs no person.
    pub async fn get_by_itself(
        &self,
        challenge: Option<&Challenge>,
    ) -> Result<KeptSignIn, Failure> {
        let sign_in = self.by_itself(challenge).await?;
        self.look(true);
        let stale = self.access();
        self.renewed(sign_in, stale).await?;
        self.state.borrow().kept.clone().ok_or_else(|| self.told().never())
    }
}

static REFRESHES: Measure = Measure {
    name: "toolbus_oauth_refreshes_total",
    help: "Refreshes of tokens, by back and by what came of them.",
    is_counter: true,
};
static SIGNED_IN: Measure = Measure {
    name: "toolbus_oauth_signed_in",
    help: "Is there a sign-in of the back? Only backs that have one or want one.",
    is_counter: false,
};

impl Meter for Credential {
    fn read(&self) -> Vec<MeterReading> {
        let Some(is_signed_in) = self.is_signed_in() else { return Vec::new() };
        let back = || ("back", self.whose.name.clone());
        let Counts { ok, refused, failed } = &self.counts;
        let outcomes = [("ok", ok), ("refused", refused), ("failed", failed)];
        let refreshes = outcomes.into_iter().map(|(outcome, count)| MeterReading {
            measure: &REFRESHES,
            labels: vec![back(), ("outcome", outcome.to_owned())],
            value: count.get(),
        });
        let signed_in = MeterReading {
            measure: &SIGNED_IN,
            labels: vec![back()],
            value: u64::from(is_signed_in),
        };
        refreshes.chain([signed_in]).collect()
    }
}
