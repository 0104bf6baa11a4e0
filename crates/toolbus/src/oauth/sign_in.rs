//! A sign-in from the challenge of a server to the token that is kept: what is asked of whom, in
//! order. Who shows the URL to the user, and how, is said by the caller.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, sleep, sleep_until};
use toolbus_proto::oauth::challenge::Challenge;
use toolbus_proto::oauth::device::{Device, DeviceError, Polled};
use toolbus_proto::oauth::discovery::{DiscoveryError, SignInPlace};
use toolbus_proto::oauth::flow::{BadReturn, Consent, Consenting};
use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::identity::{
    self, ClientIdentity, IdentityFrom, Registration, RegistrationError, Signs, TokenForm, Whoever,
};
use toolbus_proto::oauth::metadata::is_same_issuer;
use toolbus_proto::oauth::settings::{Grant, Redirect, SignInSettings};
use toolbus_proto::oauth::signing::BadKey;
use toolbus_proto::oauth::stored::SignIn;
use toolbus_proto::oauth::token::{self, AnswerError, Tokens};
use toolbus_proto::oauth::web::WebUrl;

use super::callback::{Bound, Callback, PortTaken, bind};
use super::discover::{NotDiscovered, discover};
use super::fetch::{DOCUMENT_BYTES_MAX, FetchError, Fetcher, Posted, TOKEN_BYTES_MAX};
use super::store::{KeptSignIn, Store, StoreError, unix_now};
use crate::chance;
use crate::secrets;

/// How long another process may hold the lock of a sign-in that is to be replaced.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// A sign-in at a server that was found.
pub struct SigningIn {
    server: WebUrl,
    settings: Arc<SignInSettings>,
    store: Store,
    place: SignInPlace,
    fetcher: Fetcher,
    scopes: Vec<String>,
    resource: Option<String>,
}

/// What a server said when it was asked without a token.
#[derive(Debug, Clone, Default)]
pub struct Probed {
    /// It has refused by a 401.
    pub was_refused: bool,
    /// With this.
    pub challenge: Option<Challenge>,
}

impl SigningIn {
    /// Looks where one signs in; `None` if the server asks for no sign-in. `note` is told what
    /// people should know.
    pub async fn look(
        server: &WebUrl,
        settings: Arc<SignInSettings>,
        store: Store,
        asked: &Probed,
        before: Option<&SignIn>,
        note: impl Fn(String),
    ) -> Result<Option<SigningIn>, SignInError> {
        let fetcher = Fetcher::of_server(server, &settings.issuers).believing(settings.ca.as_ref());
        let Probed { was_refused, challenge } = asked;
        let challenge = challenge.as_ref();
        let found =
            discover(&fetcher, server, challenge, *was_refused, &settings.issuers, note).await?;
        let Some(place) = found else { return Ok(None) };
        place.check(settings.grant).map_err(NotDiscovered::Rules)?;
        // What was asked for, then what was wanted since.
        let before = before.filter(|before| !before.wanted.is_empty());
        let before = before.map(|before| [&before.asked[..], &before.wanted[..]].concat());
        let scopes = place.scopes(&settings, challenge, before);
        let resource = place.resource(server, &settings);
        let server = server.clone();
        let signing_in = SigningIn { server, settings, store, place, fetcher, scopes, resource };
        signing_in.check_owner()?;
        Ok(Some(signing_in))
    }

    /// The sign-in server.
    pub fn issuer(&self) -> &str {
        &self.place.server.issuer
    }

    /// A client id belongs to the sign-in server that it was first used with.
    fn check_owner(&self) -> Result<(), SignInError> {
        let Some(client) = &self.settings.client_id else { return Ok(()) };
        let named = self.issuer();
        if self.settings.issuers.iter().any(|issuer| is_same_issuer(issuer, named)) {
            return Ok(());
        }
        let (kept, _) = self.store.sign_ins();
        let server = self.server.plain();
        let other = kept.into_iter().map(|kept| kept.sign_in).find(|kept| {
            kept.server == server && kept.identity.id == *client && kept.issuer != named
        });
        match other {
            Some(other) => Err(SignInError::ClientOfOther {
                client: client.clone(),
                belongs: other.issuer,
                named: named.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Who we are, as far as no user has to say it: registers if there is no other way.
    pub async fn identity(
        &self,
        new_client: bool,
        without_port: bool,
    ) -> Result<(ClientIdentity, Door), SignInError> {
        let issuer = self.issuer();
        let now = unix_now();
        let kept = match self.store.registration(issuer) {
            Ok(kept) => kept.filter(|kept| !new_client && !kept.has_ended(now)),
            // It is registered anew, in its place.
            Err(_) => None,
        };
        let wanted = self.settings.redirect.clone();
        let fits = |kept: &Registration| {
            wanted.is_none() || kept.identity.redirect_uri == wanted.as_ref().map(Redirect::url)
        };
        let kept = kept.filter(fits);
        match identity::choose(&self.settings, &self.place.server, kept.as_ref()) {
            Whoever::Known(identity) if identity.from == IdentityFrom::Registration => {
                let registered = identity.redirect_uri.as_deref().and_then(Redirect::parse);
                match bind(&registered.unwrap_or_default()).await {
                    Ok(bound) => Ok((identity, Door::of(bound))),
                    Err(taken) => match &self.place.server.registration_endpoint {
                        // One of our own is registered with another port.
                        Some(endpoint) if wanted.is_none() => {
                            self.register(endpoint, without_port).await
                        }
                        _ if without_port => Ok((identity.clone(), Door::closed(&identity))),
                        _ => Err(taken.into()),
                    },
                }
            }
            Whoever::Known(identity) => {
                let door = self.door(without_port).await?;
                Ok((identity, door))
            }
            Whoever::Register { endpoint } => self.register(&endpoint, without_port).await,
            Whoever::Ask => Err(SignInError::NoClientId { issuer: issuer.to_owned() }),
        }
    }

    /// A client that the user has named when asked.
    pub async fn given(
        &self,
        id: &str,
        secret: Option<Hidden>,
        without_port: bool,
    ) -> Result<(ClientIdentity, Door), SignInError> {
        let identity = identity::given(id, secret, false, &self.place.server);
        Ok((identity, self.door(without_port).await?))
    }

    async fn door(&self, without_port: bool) -> Result<Door, SignInError> {
        let wanted = self.settings.redirect.clone().unwrap_or_default();
        match bind(&wanted).await {
            Ok(bound) => Ok(Door::of(bound)),
            Err(_) if without_port => Ok(Door { bound: None, redirect: wanted }),
            Err(taken) => Err(taken.into()),
        }
    }

    async fn register(
        &self,
        endpoint: &str,
        without_port: bool,
    ) -> Result<(ClientIdentity, Door), SignInError> {
        let mut door = self.door(without_port).await?;
        loop {
            let server = &self.place.server;
            let redirect_uri = door.redirect.url();
            let posted = Posted {
                content_type: "application/json",
                body: identity::registration(server, &redirect_uri),
                authorization: None,
            };
            let answer = self.fetcher.post(endpoint, &posted, DOCUMENT_BYTES_MAX).await?;
            let (now, status) = (unix_now(), answer.status);
            match identity::registered(now, server, &redirect_uri, status, &answer.body) {
                Ok(registration) => {
                    let secret = registration.identity.secret.iter();
                    secret.for_each(|secret| secrets::hide(secret.reveal()));
                    self.store.save_registration(&registration)?;
                    return Ok((registration.identity, door));
                }
                Err(RegistrationError::Refused { error, .. })
                    if error == "invalid_redirect_uri" && door.redirect.host == "localhost" =>
                {
                    door = door.at("127.0.0.1");
                }
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Begins to wait for a browser. Must be called inside a `LocalSet`.
    pub fn consent(&self, identity: ClientIdentity, door: Door) -> Consented<'_> {
        let server = &self.place.server;
        let consent = Consent {
            endpoint: server.authorization_endpoint.clone().unwrap_or_default(),
            issuer: server.issuer.clone(),
            names_itself: server.authorization_response_iss_parameter_supported,
            client_id: identity.id.clone(),
            redirect_uri: door.redirect.url(),
            scopes: self.scopes.clone(),
            resource: self.resource.clone(),
            more: self.settings.authorize_params.clone(),
        };
        let consenting = Consenting::new(consent, chance::bytes(), chance::bytes());
        consenting.secrets().iter().for_each(|secret| secrets::hide(secret.reveal()));
        let url = consenting.url();
        let consenting = Rc::new(RefCell::new(consenting));
        let bound = match door.bound {
            Some(bound) => bound,
            None => Bound::nowhere(door.redirect),
        };
        let callback = bound.serve(consenting.clone());
        Consented { signing_in: self, identity, consenting, callback, url }
    }

    /// Asks for what the user enters on another machine.
    pub async fn device(&self, identity: &ClientIdentity) -> Result<Device, SignInError> {
        let endpoint = self.place.server.device_authorization_endpoint.clone().unwrap_or_default();
        let mut form = TokenForm::default();
        if !self.scopes.is_empty() {
            form.put("scope", &self.scopes.join(" "));
        }
        if let Some(resource) = &self.resource {
            form.put("resource", resource);
        }
        let (status, body) = self.post(&endpoint, form, identity).await?;
        let device = Device::read(status, &body)?;
        secrets::hide(device.code.reveal());
        Ok(device)
    }

    /// Waits until the user has agreed elsewhere; `None` if it has taken too long.
    pub async fn wait_for_device(
        &self,
        identity: &ClientIdentity,
        mut device: Device,
    ) -> Result<Option<KeptSignIn>, SignInError> {
        let until = Instant::now() + device.life;
        let endpoint = self.place.server.token_endpoint.clone().unwrap_or_default();
        loop {
            tokio::select! {
                () = sleep(device.interval()) => {}
                () = sleep_until(until) => return Ok(None),
            }
            let mut form = device.form(self.resource.as_deref());
            form.put_all(&self.settings.token_params);
            let answer = match self.post(&endpoint, form, identity).await {
                Ok((status, body)) => Some(token::read(status, &body)),
                Err(SignInError::Fetch(
                    FetchError::Call { .. } | FetchError::Cut { .. } | FetchError::TimedOut { .. },
                )) => None,
                Err(why) => return Err(why),
            };
            match device.handle_answer(answer) {
                Polled::Wait => {}
                Polled::Agreed(tokens) => {
                    return self.keep(identity, None, &tokens).await.map(Some);
                }
                Polled::Ends(why) => return Err(why.into()),
                Polled::TooLate => return Ok(None),
            }
        }
    }

    async fn post(
        &self,
        endpoint: &str,
        mut form: TokenForm,
        identity: &ClientIdentity,
    ) -> Result<(u16, Vec<u8>), SignInError> {
        let signs = self.settings.private_key.as_ref().map(|key| Signs {
            key,
            key_id: self.settings.key_id.as_deref(),
            now: unix_now(),
            chance: chance::bytes(),
        });
        identity.show(&mut form, self.issuer(), signs)?;
        form.authorization.iter().for_each(|value| secrets::hide(value.reveal()));
        let posted = Posted {
            content_type: "application/x-www-form-urlencoded",
            body: form.body(),
            authorization: form.authorization.map(|value| value.reveal().to_owned()),
        };
        let answer = self.fetcher.post(endpoint, &posted, TOKEN_BYTES_MAX).await?;
        Ok((answer.status, answer.body.to_vec()))
    }

    /// Keeps what was given, in place of what this back had.
    async fn keep(
        &self,
        identity: &ClientIdentity,
        redirect_uri: Option<String>,
        tokens: &Tokens,
    ) -> Result<KeptSignIn, SignInError> {
        let server = &self.place.server;
        let now = unix_now();
        let mut sign_in = SignIn {
            server: self.server.plain(),
            account: self.settings.account.clone(),
            issuer: server.issuer.clone(),
            resource: self.resource.clone(),
            identity: ClientIdentity {
                redirect_uri: redirect_uri.or_else(|| identity.redirect_uri.clone()),
                ..identity.clone()
            },
            token_endpoint: server.token_endpoint.clone().unwrap_or_default(),
            revocation_endpoint: server.revocation_endpoint.clone(),
            grant: self.settings.grant,
            access: None,
            expires_at: None,
            refresh: None,
            asked: self.scopes.clone(),
            scopes: self.scopes.clone(),
            wanted: Vec::new(),
            who: None,
            signed_in_at: now,
            refreshed_at: None,
        };
        sign_in.take(now, tokens);
        sign_in.secrets().for_each(|secret| secrets::hide(secret.reveal()));
        // A refresh of the sign-in before must not be written over this.
        let _locked = self.store.lock(&sign_in.name(), LOCK_PATIENCE).await?;
        let kept = self.store.save(&sign_in)?;
        let (others, _) = self.store.sign_ins();
        for other in others {
            let KeptSignIn { sign_in: before, path, .. } = other;
            let is_of_client = before.identity.from != IdentityFrom::Config
                || Some(&before.identity.id) == self.settings.client_id.as_ref();
            if path != kept.path
                && before.server == sign_in.server
                && before.account == sign_in.account
                && is_of_client
            {
                self.store.remove(&path)?;
            }
        }
        Ok(kept)
    }

    /// The sign-in server does not know the client of a registration any more.
    pub fn forget_client(&self) -> Result<(), SignInError> {
        Ok(self.store.forget_registration(self.issuer())?)
    }
}

/// Where a browser is sent back to.
pub struct Door {
    bound: Option<Bound>,
    redirect: Redirect,
}

impl Door {
    fn of(bound: Bound) -> Door {
        Door { redirect: bound.redirect.clone(), bound: Some(bound) }
    }

    /// The same by another name of this machine.
    fn at(mut self, host: &str) -> Door {
        self.redirect.host = host.to_owned();
        if let Some(bound) = &mut self.bound {
            bound.redirect.host = host.to_owned();
        }
        self
    }

    /// Another program has the port: what the user pastes is all there is.
    fn closed(identity: &ClientIdentity) -> Door {
        let redirect = identity.redirect_uri.as_deref().and_then(Redirect::parse);
        Door { bound: None, redirect: redirect.unwrap_or_default() }
    }
}

/// The user is being asked.
pub struct Consented<'a> {
    signing_in: &'a SigningIn,
    identity: ClientIdentity,
    consenting: Rc<RefCell<Consenting>>,
    callback: Callback,
    /// What the user opens.
    pub url: String,
}

impl Consented<'_> {
    /// Waits for the answer of a browser.
    pub async fn answer(&mut self) -> Result<Hidden, SignInError> {
        Ok(self.callback.answer().await?)
    }

    /// Takes what the user has pasted; tells whether it was the answer.
    pub fn paste(&self, line: &str) -> bool {
        self.callback.paste(line)
    }

    /// Makes a token of a code, once, and keeps it.
    pub async fn finish(self, code: &Hidden) -> Result<KeptSignIn, SignInError> {
        let Consented { signing_in, identity, consenting, callback, .. } = self;
        let (redirect_uri, verifier) = {
            let consenting = consenting.borrow();
            (consenting.redirect_uri().to_owned(), consenting.verifier().to_owned())
        };
        let resource = signing_in.resource.as_deref();
        let mut form = token::by_code(code.reveal(), &redirect_uri, &verifier, resource);
        form.put_all(&signing_in.settings.token_params);
        let endpoint = signing_in.place.server.token_endpoint.clone().unwrap_or_default();
        let kept = async {
            let (status, body) = signing_in.post(&endpoint, form, &identity).await?;
            let tokens = token::read(status, &body)?;
            signing_in.keep(&identity, Some(redirect_uri), &tokens).await
        };
        let (kept, ()) = tokio::join!(kept, callback.stop());
        match kept {
            Err(SignInError::Answer(why))
                if why.is_about_client() && identity.from == IdentityFrom::Registration =>
            {
                Err(SignInError::ClientForgotten { why })
            }
            kept => kept,
        }
    }

    /// Lets browsers read the page to its end.
    pub async fn give_up(self) {
        self.callback.stop().await;
    }
}

/// Tells a sign-in server that a token is not used any more (RFC 7009).
pub async fn revoke(
    kept: &SignIn,
    settings: &SignInSettings,
    patience: Duration,
) -> Result<(), String> {
    let Some(endpoint) = &kept.revocation_endpoint else { return Ok(()) };
    let mut form = match (&kept.refresh, &kept.access) {
        (Some(refresh), _) => {
            TokenForm::of([("token", refresh.reveal()), ("token_type_hint", "refresh_token")])
        }
        (None, Some(access)) => {
            TokenForm::of([("token", access.reveal()), ("token_type_hint", "access_token")])
        }
        (None, None) => return Ok(()),
    };
    let signs = settings.private_key.as_ref().map(|key| Signs {
        key,
        key_id: settings.key_id.as_deref(),
        now: unix_now(),
        chance: chance::bytes(),
    });
    kept.identity.show(&mut form, &kept.issuer, signs).map_err(|why| why.to_string())?;
    form.authorization.iter().for_each(|value| secrets::hide(value.reveal()));
    let server = WebUrl::parse(&kept.server).ok_or("the server has no URL")?;
    let fetcher = Fetcher::of_server(&server, &settings.issuers).believing(settings.ca.as_ref());
    let posted = Posted {
        content_type: "application/x-www-form-urlencoded",
        body: form.body(),
        authorization: form.authorization.map(|value| value.reveal().to_owned()),
    };
    let asked = fetcher.post(endpoint, &posted, TOKEN_BYTES_MAX);
    match tokio::time::timeout(patience, asked).await {
        Ok(Ok(answer)) if (200..300).contains(&answer.status) => Ok(()),
        Ok(Ok(answer)) => Err(match token::read(answer.status, &answer.body) {
            Err(why) => why.to_string(),
            Ok(_) => format!("HTTP status {}", answer.status),
        }),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {patience:?}")),
    }
}

/// How the program that signs in is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The sign-in server or the user said no, or nothing can be kept.
    Refused,
    /// The user has to say something else.
    Usage,
    /// A server is not there, or says what it must not.
    Unusable,
}

/// Why a sign-in has failed.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum SignInError {
    #[error(transparent)]
    Discovery(#[from] NotDiscovered),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Port(#[from] PortTaken),
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    #[error(transparent)]
    Return(#[from] BadReturn),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error("{why}")]
    ClientForgotten { why: AnswerError },
    #[error("client id `{client}` belongs to `{belongs}`, but the server now names `{named}`")]
    ClientOfOther { client: String, belongs: String, named: String },
    #[error("the sign-in server at {issuer} takes no registration: a client id is needed")]
    NoClientId { issuer: String },
    #[error("`{name}` asks for no sign-in")]
    NotAsked { name: String },
    #[error("the sign-in was broken off")]
    Abandoned,
}

impl SignInError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        let of_answer = |why: &AnswerError| match why.refused() {
            Some(_) => Blame::Refused,
            None => Blame::Unusable,
        };
        match self {
            SignInError::Store(_)
            | SignInError::Port(_)
            | SignInError::NotAsked { .. }
            | SignInError::Abandoned => Blame::Refused,
            SignInError::Return(BadReturn::Refused { .. })
            | SignInError::Registration(RegistrationError::Refused { .. }) => Blame::Refused,
            SignInError::Answer(why) | SignInError::ClientForgotten { why } => of_answer(why),
            SignInError::Device(DeviceError::Answer(why)) => of_answer(why),
            SignInError::NoClientId { .. } | SignInError::Key(_) => Blame::Usage,
            SignInError::Discovery(_)
            | SignInError::Fetch(_)
            | SignInError::Registration(_)
            | SignInError::Return(_)
            | SignInError::Device(_)
            | SignInError::ClientOfOther { .. } => Blame::Unusable,
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            SignInError::Discovery(error) => error.hint(),
            SignInError::Port(_) => {
                Some("`--no-browser` takes the answer from standard input".to_owned())
            }
            SignInError::NoClientId { .. } => {
                Some("give one by `--client-id`, or by `client_id` in the config".to_owned())
            }
            SignInError::ClientOfOther { named, .. } => {
                Some(format!("if that is right, set `issuer = \"{named}\"` for this back"))
            }
            _ => None,
        }
    }
}

impl From<DiscoveryError> for SignInError {
    fn from(why: DiscoveryError) -> SignInError {
        SignInError::Discovery(NotDiscovered::Rules(why))
    }
}

/// Must a person agree?
pub fn needs_person(settings: &SignInSettings) -> bool {
    matches!(settings.grant, Grant::Code | Grant::Device)
}
