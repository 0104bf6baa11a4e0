//! One refresh for all who wait for it, in this process and in others; once sent it is seen
//! through.
//!
//! It happens on a thread of its own: the call for which it was begun may end, be given up or be
//! interrupted meanwhile, and a refresh token that has been used and whose answer is lost is a sign-in
//! that is lost. Before the process ends, it [waits](see_through) for what was sent.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::LocalSet;
use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::identity::Signs;
use toolbus_proto::oauth::refresh::{Refreshed, refreshed};
use toolbus_proto::oauth::settings::{Grant, SignInSettings};
use toolbus_proto::oauth::stored::SignIn;
use toolbus_proto::oauth::token::{self, AnswerError, Tokens};
use toolbus_proto::oauth::web::WebUrl;

use super::fetch::{FetchError, Fetcher, Posted, TOKEN_BYTES_MAX};
use super::store::{KeptSignIn, Store, StoreError, unix_now};
use crate::chance;
use crate::secrets;

/// How long the lock is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
/// How long the end of the process waits for an answer.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// A token that is to be renewed.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// Where it is kept.
    pub store: Store,
    /// What there was when that was found out. It need not be kept yet where no person is needed.
    pub sign_in: SignIn,
    /// What the user says.
    pub settings: Arc<SignInSettings>,
    /// The token that will not do any longer, if there was one.
    pub stale: Option<Hidden>,
}

/// What became of it.
#[derive(Debug, Clone)]
pub enum Renewed {
    /// There is another token, got just now or by another process.
    Token {
        /// What is kept now.
        kept: Box<KeptSignIn>,
        /// It is we who have got it.
        is_ours: bool,
    },
    /// There is no refresh token any more.
    GivenUp {
        /// What is kept now; `None` if the user has signed out.
        kept: Option<Box<KeptSignIn>>,
        /// The sign-in server has just said so.
        is_ours: bool,
    },
    /// It said no to a client by itself.
    Refused(AnswerError),
    /// It is not known what it would have said.
    Failed(String),
    /// It cannot be kept, or what is kept cannot be used.
    Store(StoreError),
}

/// Begins one, or joins the one that is under way.
pub fn renew(renewal: Renewal) -> oneshot::Receiver<Renewed> {
    let (tell, told) = oneshot::channel();
    let path = renewal.store.path_of(&renewal.sign_in);
    let mut under_way = under_way();
    if let Some(waiting) = under_way.waiting.get_mut(&path) {
        waiting.push(tell);
        return told;
    }
    under_way.waiting.insert(path.clone(), vec![tell]);
    drop(under_way);
    let done = Done(path);
    let work = move || {
        let done = done;
        let renewed = on_own_runtime(&renewal);
        done.tell(&renewed);
    };
    // Where no thread can be had, all who wait are told by the end of the channel.
    let _ = thread::Builder::new().name("oauth".to_owned()).spawn(work);
    told
}

/// Waits until all that was sent has been answered and kept, for a while; nothing more is sent.
pub fn see_through() {
    let mut under_way = under_way();
    under_way.is_ending = true;
    let until = Instant::now() + LAST_ANSWER;
    while 0 < under_way.sent {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let waited = CHANGED.wait_timeout(under_way, left);
        under_way = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    under_way.is_ending = false;
}

#[derive(Default)]
struct UnderWay {
    waiting: HashMap<PathBuf, Vec<oneshot::Sender<Renewed>>>,
    sent: usize,
    is_ending: bool,
}

static UNDER_WAY: LazyLock<Mutex<UnderWay>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

fn under_way() -> MutexGuard<'static, UnderWay> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells all who wait, also if it was given up half-way.
struct Done(PathBuf);

impl Done {
    fn tell(&self, renewed: &Renewed) {
        for waiting in under_way().waiting.remove(&self.0).into_iter().flatten() {
            // A call that is over does not listen any more.
            let _ = waiting.send(renewed.clone());
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        under_way().waiting.remove(&self.0);
    }
}

/// From when a request leaves until what was answered is kept.
struct Sent;

impl Sent {
    /// `None` if the process is about to end: what has not begun is not begun any more.
    fn begin() -> Option<Sent> {
        let mut under_way = under_way();
        if under_way.is_ending {
            return None;
        }
        under_way.sent += 1;
        Some(Sent)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        under_way().sent -= 1;
        CHANGED.notify_all();
    }
}

fn on_own_runtime(renewal: &Renewal) -> Renewed {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, renewed(renewal)),
        Err(error) => Renewed::Failed(format!("cannot start an event loop: {error}")),
    }
}

async fn renewed(renewal: &Renewal) -> Renewed {
    let Renewal { store, sign_in, settings, stale } = renewal;
    let path = store.path_of(sign_in);
    let _locked = match store.lock(&sign_in.name(), LOCK_PATIENCE).await {
        Ok(Some(locked)) => locked,
        Ok(None) => return Renewed::Failed("another process does not let go of its lock".into()),
        Err(error) => return Renewed::Store(error),
    };
    // Another process may have done it while we waited.
    let kept = match store.read_again(&path) {
        Ok(Some(kept)) => kept.sign_in,
        Ok(None) if sign_in.grant.is_by_itself() => sign_in.clone(),
        Ok(None) => return Renewed::GivenUp { kept: None, is_ours: false },
        Err(error) => return Renewed::Store(error),
    };
    if let Some(access) = kept.usable(unix_now())
        && Some(access) != stale.as_ref()
        && let Ok(Some(kept)) = store.read_again(&path)
    {
        return Renewed::Token { kept: Box::new(kept), is_ours: false };
    }
    if kept.refresh.is_none() && !kept.grant.is_by_itself() {
        let kept = store.read_again(&path).ok().flatten().map(Box::new);
        return Renewed::GivenUp { kept, is_ours: false };
    }
    // What a step-up wants is asked for, too.
    let kept = match kept.grant.is_by_itself() {
        true => SignIn { asked: sign_in.asked.clone(), ..kept },
        false => kept,
    };
    let Some(_sent) = Sent::begin() else {
        return Renewed::Failed("toolbus is about to end".into());
    };
    let answer = match ask(&kept, settings).await {
        Ok(answer) => answer,
        Err(why) => return Renewed::Failed(why),
    };
    let now = unix_now();
    if kept.grant.is_by_itself() {
        return match answer {
            Ok(tokens) => {
                let scopes = tokens.scopes.clone().unwrap_or_else(|| kept.asked.clone());
                let mut renewed = SignIn { refreshed_at: Some(now), scopes, ..kept };
                renewed.take(now, &Tokens { refresh: None, ..tokens });
                saved(store, &renewed)
            }
            Err(why) if why.refused().is_some() || why == (AnswerError::Status { status: 401 }) => {
                Renewed::Refused(why)
            }
            Err(why) => Renewed::Failed(why.to_string()),
        };
    }
    match refreshed(&kept, now, answer) {
        Refreshed::Renewed(renewed) => saved(store, &renewed),
        Refreshed::GivenUp { kept, forgets_client } => {
            if forgets_client {
                // It is asked for anew at the next sign-in in any case.
                let _ = store.forget_registration(&kept.issuer);
            }
            match store.save(&kept) {
                Ok(kept) => Renewed::GivenUp { kept: Some(Box::new(kept)), is_ours: true },
                Err(error) => Renewed::Store(error),
            }
        }
        Refreshed::Failed(why) => Renewed::Failed(why.to_string()),
    }
}

fn saved(store: &Store, renewed: &SignIn) -> Renewed {
    renewed.secrets().for_each(|secret| secrets::hide(secret.reveal()));
    match store.save(renewed) {
        Ok(kept) => Renewed::Token { kept: Box::new(kept), is_ours: true },
        Err(error) => Renewed::Store(error),
    }
}

/// Asks the sign-in server for the next token.
async fn ask(
    kept: &SignIn,
    settings: &SignInSettings,
) -> Result<Result<Tokens, AnswerError>, String> {
    let resource = kept.resource.as_deref();
    let mut form = match (kept.grant, &kept.refresh) {
        (Grant::ClientCredentials, _) => token::by_itself(&kept.asked, resource),
        (Grant::JwtBearer, _) => {
            let assertion = assertion(settings)?;
            token::by_assertion(assertion.reveal(), &kept.asked, resource)
        }
        (_, Some(refresh)) => token::by_refresh(refresh.reveal(), resource),
        (_, None) => return Err("there is no refresh token".into()),
    };
    form.put_all(&settings.token_params);
    let server = WebUrl::parse(&kept.server).ok_or("the server has no URL")?;
    let trusted: Vec<String> = settings.issuers.iter().chain([&kept.issuer]).cloned().collect();
    let fetcher = match settings.issuers.is_empty() {
        true => Fetcher::of_server(&server, &[]),
        false => Fetcher::of_server(&server, &trusted),
    }
    .believing(settings.ca.as_ref());
    let signs = settings.private_key.as_ref().map(|key| Signs {
        key,
        key_id: settings.key_id.as_deref(),
        now: unix_now(),
        chance: chance::bytes(),
    });
    let shown = kept.identity.show(&mut form, &kept.issuer, signs);
    shown.map_err(|why| why.to_string())?;
    form.authorization.iter().for_each(|value| secrets::hide(value.reveal()));
    let posted = Posted {
        content_type: "application/x-www-form-urlencoded",
        body: form.body(),
        authorization: form.authorization.map(|value| value.reveal().to_owned()),
    };
    let answer = fetcher.post(&kept.token_endpoint, &posted, TOKEN_BYTES_MAX).await;
    let answer = answer.map_err(|error: FetchError| error.to_string())?;
    Ok(token::read(answer.status, &answer.body))
}

/// What the config says is to be shown, read anew.
pub fn assertion(settings: &SignInSettings) -> Result<Hidden, String> {
    let text = settings.assertion.as_deref().unwrap_or_default();
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let held = match inner {
        Some(inner) => match inner.strip_prefix("file:") {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read the assertion in {path}: {error}"))?,
            None => std::env::var(inner)
                .map_err(|_| format!("the environment variable `{inner}` is not set"))?,
        },
        None => text.to_owned(),
    };
    let held = held.trim();
    if held.is_empty() {
        return Err("the assertion is empty".into());
    }
    secrets::hide(held);
    Ok(Hidden::new(held))
}
