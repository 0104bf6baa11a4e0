//! The token check of a front: what each request shows is judged before its wire looks at it.
//!
//! What the config itself names comes first, then tokens that are known, and all others are looked
//! at by the keys of their issuer, or asked about. The token is kept nowhere but in its request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::Digest as _;
use tokio::time::Instant;
use toolbus_proto::caller::{CallerName, Digest};
use toolbus_proto::http::{
    Admission, Grant, Judged, RequestHead, ResponseHead, TokenRefusal, Visit,
};
use toolbus_proto::oauth::claims::{ClaimRules, Claims, TokenFault, is_of};
use toolbus_proto::oauth::front::{ProtectedFront, ShownToken, no_caller, unavailable};
use toolbus_proto::oauth::jwt::Jwt;

use super::cores;
use super::counts::TokenCounts;
use super::introspect::Introspector;
use super::keys::Keys;
use super::tokens::{AskedTokens, FrontOauth, Jwks};
use super::verdicts::{KnownTokens, TokenVerdict};
use crate::task::{boxed, spawn_local};

/// How long is kept what was found out about a good token, and about one that does not hold.
const GOOD_FOR: Duration = Duration::from_secs(5 * 60);
const INACTIVE_FOR: Duration = Duration::from_secs(10);
/// A token that holds longer holds for ever.
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Judges what is shown to one front.
pub(crate) struct TokenJudge {
    /// The URL at which it listens, and its path.
    url: String,
    path: String,
    terms: RefCell<Rc<TokenTerms>>,
    counts: Rc<TokenCounts>,
}

/// What holds for its tokens now.
struct TokenTerms {
    asked: Rc<AskedTokens>,
    front: ProtectedFront,
    rules: ClaimRules,
    vouchers: Vouchers,
    verdicts: RefCell<KnownTokens>,
    /// The keys by which those were found.
    by_keys: Cell<u64>,
}

/// Who says that a token is good.
enum Vouchers {
    Keys(Rc<Keys>),
    Introspector(Introspector),
}

impl TokenJudge {
    /// For the front that listens at this URL. Keys are got at once, while nobody waits.
    pub(crate) fn new(asked: Rc<AskedTokens>, url: &str, path: &str) -> TokenJudge {
        cores::hold_tokens();
        let counts = TokenCounts::of(&asked.front);
        let terms = Rc::new(TokenTerms::new(asked, url, path));
        terms.prepare();
        let (url, path) = (url.to_owned(), path.to_owned());
        TokenJudge { url, path, terms: RefCell::new(terms), counts }
    }

    /// This holds for its tokens from now on.
    pub(crate) fn follow(&self, asked: Rc<AskedTokens>) {
        let before = self.terms.borrow().clone();
        if *before.asked == *asked {
            return;
        }
        let mut terms = TokenTerms::new(asked, &self.url, &self.path);
        let settings = |terms: &TokenTerms| terms.asked.settings.clone();
        let (old, new) = (settings(&before), settings(&terms));
        let has_same_keys = (&old.issuers, &old.jwks, old.introspect.is_none())
            == (&new.issuers, &new.jwks, new.introspect.is_none());
        if let (true, Vouchers::Keys(keys), Vouchers::Keys(_)) =
            (has_same_keys, &before.vouchers, &terms.vouchers)
        {
            terms.vouchers = Vouchers::Keys(keys.clone());
        }
        let terms = Rc::new(terms);
        self.terms.replace(terms.clone());
        terms.prepare();
    }

    /// Are tokens of this holder let in, as far as their issuer tells?
    pub(crate) fn lets_in(&self, holder: &str) -> bool {
        let terms = self.terms.borrow();
        terms.rules.issuers.iter().any(|issuer| is_of(holder, issuer))
    }

    /// The answer to one who asks what the front is.
    pub(crate) fn metadata(&self, head: &RequestHead) -> Option<(ResponseHead, String)> {
        self.terms.borrow().front.metadata(head)
    }

    /// Judges a request, if that needs nothing from elsewhere.
    pub(crate) fn at_once(&self, head: &RequestHead, admission: &Admission) -> Option<Judged> {
        let terms = self.terms.borrow().clone();
        let bad = |refusal: TokenRefusal| Some(Judged::Bad(Arc::new(refusal)));
        match ShownToken::of(head) {
            ShownToken::None => match admission.known(head, None) {
                Some(known) => Some(known),
                None => bad(terms.front.no_token()),
            },
            ShownToken::Unclear => bad(terms.front.unclear()),
            ShownToken::One(token) => {
                if let Some(known) = admission.known(head, Some(token)) {
                    return Some(known);
                }
                let verdict = terms.known(&sha256(token))?;
                Some(self.told(&terms, verdict, head, admission))
            }
        }
    }

    /// Judges a request whose token is not known.
    pub(crate) async fn find_out(&self, head: &RequestHead, admission: &Admission) -> Judged {
        let ShownToken::One(token) = ShownToken::of(head) else {
            return Judged::Bad(Arc::new(unavailable()));
        };
        let terms = self.terms.borrow().clone();
        match terms.find_out(token, &sha256(token)).await {
            Ok(verdict) => self.told(&terms, verdict, head, admission),
            Err(why) => {
                self.counts.refused("unavailable", why);
                Judged::Bad(Arc::new(unavailable()))
            }
        }
    }

    /// What becomes of a request whose token was found to be so.
    fn told(
        &self,
        terms: &TokenTerms,
        verdict: TokenVerdict,
        head: &RequestHead,
        admission: &Admission,
    ) -> Judged {
        let bad = |refusal: TokenRefusal| Judged::Bad(Arc::new(refusal));
        match verdict {
            TokenVerdict::Good(grant) => {
                // Two that name callers must name the same.
                let without_token =
                    RequestHead { certificate: head.certificate.clone(), ..RequestHead::default() };
                let by_certificate = match admission.known(&without_token, None) {
                    Some(Judged::Known(caller)) => caller,
                    Some(Judged::NotHere(caller)) => Some(caller),
                    _ => None,
                };
                if by_certificate.is_some() && by_certificate != grant.caller {
                    self.counts.refused("caller", "the certificate beside it is another caller's");
                    return bad(terms.front.invalid("the token is not valid"));
                }
                self.counts.let_in();
                Judged::Good(Visit::new(grant))
            }
            TokenVerdict::Lacking => {
                let lacking = terms.front.lacking();
                self.counts.refused("scope", &lacking);
                bad(lacking)
            }
            TokenVerdict::NoCaller => {
                self.counts.refused("caller", "no caller of this front fits it");
                bad(no_caller())
            }
            TokenVerdict::NotHere(caller) => {
                self.counts.refused("caller", format_args!("it is that of caller `{caller}`"));
                Judged::NotHere(caller)
            }
            TokenVerdict::Bad(fault) => {
                self.counts.refused(fault.outcome(), fault);
                bad(terms.front.not_valid(fault))
            }
        }
    }
}

impl TokenTerms {
    fn new(asked: Rc<AskedTokens>, url: &str, path: &str) -> TokenTerms {
        let settings: &FrontOauth = &asked.settings;
        let url = settings.url.as_deref().unwrap_or(url);
        let (scopes, scopes_for) = (&settings.scopes, &settings.scopes_for);
        let front = ProtectedFront::new(url, path, &settings.issuers, scopes, scopes_for);
        let audience = settings.audience.clone().unwrap_or_else(|| vec![url.to_owned()]);
        let (issuers, skew) = (settings.issuers.clone(), settings.clock_skew);
        let vouchers = match &settings.introspect {
            Some(introspect) => {
                let issuer = settings.issuers.first().cloned().unwrap_or_default();
                Vouchers::Introspector(Introspector::new(introspect.clone(), issuer))
            }
            None => Vouchers::Keys(Rc::new(Keys::new(settings.jwks.clone()))),
        };
        let rules = ClaimRules { issuers, audience, skew };
        TokenTerms {
            front,
            rules,
            vouchers,
            verdicts: RefCell::default(),
            by_keys: Cell::default(),
            asked,
        }
    }

    /// Gets the keys of all issuers that are not known.
    fn prepare(self: &Rc<Self>) {
        let Vouchers::Keys(keys) = &self.vouchers else { return };
        if let Some(Jwks::Here(_)) = self.asked.settings.jwks {
            return;
        }
        for issuer in &self.rules.issuers {
            let (keys, issuer) = (keys.clone(), issuer.clone());
            // A failure is told there, and tried again by the first token.
            spawn_local(boxed(async move { drop(keys.of(&issuer).await) }));
        }
    }

    /// What is known of a token, if that still holds.
    fn known(&self, token: &Digest) -> Option<TokenVerdict> {
        self.forget_by_old_keys();
        let verdicts = self.verdicts.borrow();
        let verdict = verdicts.get(token)?;
        // Keys that are too old are got anew by the next token, whether it is known or not.
        if let (Vouchers::Keys(keys), TokenVerdict::Good(grant)) = (&self.vouchers, verdict)
            && !keys.are_fresh(&grant.issuer)
        {
            return None;
        }
        Some(verdict.clone())
    }

    /// What was found by keys that have changed since is no longer true.
    fn forget_by_old_keys(&self) {
        if let Vouchers::Keys(keys) = &self.vouchers
            && self.by_keys.replace(keys.changes()) != keys.changes()
        {
            self.verdicts.borrow_mut().forget_all();
        }
    }

    /// Finds out about a token. `Err` says why that cannot be done for now.
    async fn find_out(&self, token: &str, sum: &Digest) -> Result<TokenVerdict, String> {
        let asker = match &self.vouchers {
            Vouchers::Keys(keys) => {
                let judged = match self.judged_by_keys(keys, token).await? {
                    Ok(claims) => claims,
                    Err(fault) => return Ok(TokenVerdict::Bad(fault)),
                };
                return Ok(self.keep(sum, &judged, GOOD_FOR));
            }
            Vouchers::Introspector(asker) => asker,
        };
        let turn = asker.turn(sum);
        let _turn = turn.turn.lock().await;
        if let Some(known) = self.known(sum) {
            return Ok(known);
        }
        if turn.has_failed.get() {
            return Err("the sign-in server could not be asked".to_owned());
        }
        let asked = asker.ask(token).await;
        turn.has_failed.set(asked.is_err());
        asker.is_over(sum);
        match self.rules.judge_answer(unix_now(), &asked?) {
            Ok(claims) => Ok(self.keep(sum, &claims, self.asked.settings.cache)),
            Err(fault) => {
                let verdict = TokenVerdict::Bad(fault);
                let until = Instant::now() + INACTIVE_FOR;
                self.verdicts.borrow_mut().keep(*sum, verdict.clone(), until);
                Ok(verdict)
            }
        }
    }

    async fn judged_by_keys(
        &self,
        keys: &Keys,
        token: &str,
    ) -> Result<Result<Claims, TokenFault>, String> {
        let read = Jwt::read(token, &self.asked.settings.algorithms);
        let jwt = match read.and_then(|jwt| jwt.issuer(&self.rules).cloned().map(|it| (jwt, it))) {
            Ok(read) => read,
            Err(fault) => return Ok(Err(fault)),
        };
        let (jwt, issuer) = jwt;
        let told = |error: Rc<super::keys::KeysError>| error.to_string();
        let mut set = keys.of(&issuer).await.map_err(told)?;
        if jwt.wants_other(&set)
            && let Some(newer) = keys.newer(&issuer, &set).await
        {
            set = newer.map_err(told)?;
        }
        Ok(jwt.judge(unix_now(), &self.rules, &set))
    }

    /// Whose a good token is, and what it allows; kept for so long, if it does not end before.
    fn keep(&self, sum: &Digest, claims: &Claims, holds: Duration) -> TokenVerdict {
        let verdict = self.verdict(claims);
        self.forget_by_old_keys();
        let left = Duration::try_from_secs_f64(claims.ends - unix_now()).unwrap_or_default();
        let until = Instant::now() + holds.min(left);
        self.verdicts.borrow_mut().keep(*sum, verdict.clone(), until);
        verdict
    }

    fn verdict(&self, claims: &Claims) -> TokenVerdict {
        if !self.front.scopes.iter().all(|scope| claims.scopes.contains(scope)) {
            return TokenVerdict::Lacking;
        }
        let caller = match self.caller_of(claims) {
            Ok(caller) => caller,
            Err(verdict) => return verdict,
        };
        let left = claims.ends + self.rules.skew.as_secs_f64() - unix_now();
        let left = Duration::try_from_secs_f64(left.max(0.0)).ok().filter(|left| *left < YEAR);
        let ends_at = left.map(|left| std::time::Instant::now() + left);
        TokenVerdict::Good(Arc::new(Grant {
            holder: claims.holder(),
            issuer: claims.issuer.as_str().into(),
            scopes: claims.scopes.clone(),
            ends_at,
            caller,
            resource_metadata: self.front.metadata_url.clone(),
        }))
    }

    /// The caller that a token fits, where they are told apart: the first of those of the front.
    fn caller_of(&self, claims: &Claims) -> Result<Option<CallerName>, TokenVerdict> {
        let Some(allowed) = &self.asked.allowed else { return Ok(None) };
        let mut fitting = self.asked.callers.iter().filter(|(_, wanted)| wanted.fits(claims));
        let of_front = fitting.clone().find(|(caller, _)| allowed.contains(caller));
        match (of_front, fitting.next()) {
            (Some((caller, _)), _) => Ok(Some(caller.clone())),
            (None, Some((other, _))) => Err(TokenVerdict::NotHere(other.clone())),
            (None, None) => Err(TokenVerdict::NoCaller),
        }
    }
}

fn sha256(token: &str) -> Digest {
    sha2::Sha256::digest(token.as_bytes()).into()
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
