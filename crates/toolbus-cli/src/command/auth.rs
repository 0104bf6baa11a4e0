//! `toolbus auth`: who is signed in where, as far as the files say. No request is made.

use std::time::{Duration, UNIX_EPOCH};

use toolbus::address::Address;
use toolbus::bus::config::BackConfig;
use toolbus::oauth::store::{KeptSignIn, Sought, Store, StoreError, unix_now};
use toolbus::peer::settings::{Missing, Settings};
use toolbus::peer::signing_in::SignInTarget;
use toolbus::peer::{PeerKind, Registry};
use toolbus_engine::time::rfc3339;
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::json::Json;
use toolbus_proto::oauth::stored::WrittenMembers;

use crate::args::Globals;
use crate::config;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::no_address;
use crate::render::{self, printable, table};
use crate::stderr;

/// Show where you are signed in
///
/// Each back of the config that may want a sign-in, and each sign-in of a server that is none of
/// them. No request is made: what is shown is what is kept, and never a token. With words, the exit
/// code is 1 if one of them needs a sign-in.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus auth
  toolbus auth notes --json")]
pub(crate) struct AuthArgs {
    /// Backs of the config, or URLs of servers
    #[arg(value_name = "BACK|URL")]
    words: Vec<String>,
}

/// A peer that may have a sign-in.
pub(crate) struct SignInPeer {
    /// What people call it.
    pub(crate) name: String,
    address: Address,
    settings: Settings,
    is_configured: bool,
}

impl SignInPeer {
    /// What a word of the command line names.
    pub(crate) fn named(word: &str, globals: &Globals) -> Result<SignInPeer, Failed> {
        if word.contains("://") {
            let address = Address::parse(word).map_err(|error| no_address(&error))?;
            let name = word.split('?').next().unwrap_or(word).to_owned();
            let settings = Settings::default();
            return Ok(SignInPeer { name, address, settings, is_configured: false });
        }
        let backs = backs(globals)?;
        let names: Vec<&str> = backs.iter().map(|back| &*back.name).collect();
        let meant = nearest(word, names.iter().copied());
        let hint = match (meant, names.is_empty()) {
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, true) => "name a server by its URL, e.g. `https://HOST/PATH`".to_owned(),
            (None, false) => format!("there are {}", names.join(", ")),
        };
        let message = format!("there is no back `{word}` in the config");
        let found = backs.into_iter().find(|back| back.name == word);
        found.map(SignInPeer::of_back).ok_or_else(|| Failed::usage(message).hint(hint))
    }

    /// All backs of the config.
    pub(crate) fn all_of_config(globals: &Globals) -> Result<Vec<SignInPeer>, Failed> {
        Ok(backs(globals)?.into_iter().map(SignInPeer::of_back).collect())
    }

    fn of_back(back: BackConfig) -> SignInPeer {
        let BackConfig { name, address, settings, .. } = back;
        SignInPeer { name, address, settings, is_configured: true }
    }

    /// Its name, if it is a back of the config.
    pub(crate) fn back(&self) -> Option<&str> {
        self.is_configured.then_some(&*self.name)
    }

    /// Where one signs in to it; `None` if that is nowhere.
    pub(crate) fn target(&self) -> Option<SignInTarget> {
        self.address.kind().sign_in(&self.address, &self.settings)
    }

    /// Why the user cannot sign in there.
    pub(crate) fn no_target(&self) -> Failed {
        let registry = Registry::default();
        let others = registry.kinds().find_map(PeerKind::signs_in_as).unwrap_or("such server");
        Failed::usage(format!("`{}` is no {others}: there is nothing to sign in to", self.name))
    }

    /// What it needs and is not there.
    pub(crate) fn missing(&self) -> Option<&Missing> {
        self.settings.missing.as_ref()
    }

    /// Its sign-in, and what is wrong with files that may be it.
    pub(crate) fn kept(
        &self,
        store: &Store,
        target: &SignInTarget,
    ) -> (Option<KeptSignIn>, Vec<StoreError>) {
        let server = target.server.plain();
        store.find(Sought {
            server: &server,
            account: self.is_configured.then_some(target.settings.account.as_str()),
            client_id: target.settings.client_id.as_deref(),
            issuers: &target.settings.issuers,
        })
    }

    /// Can calls be made with what is kept?
    pub(crate) fn is_signed_in(&self, store: &Store, target: &SignInTarget) -> bool {
        let (kept, _) = self.kept(store, target);
        let is_good = |kept: &KeptSignIn| {
            kept.sign_in.wanted.is_empty() && kept.sign_in.is_signed_in(unix_now())
        };
        kept.as_ref().is_some_and(is_good)
    }
}

/// The backs of the config, or none if there is no config.
fn backs(globals: &Globals) -> Result<Vec<BackConfig>, Failed> {
    let found = config::parsed_without_lock(globals.config.as_deref())?;
    Ok(found.map(|found| found.config.backs).unwrap_or_default())
}

/// What is shown of one place.
struct Row {
    place: Option<SignInPeer>,
    target: Option<SignInTarget>,
    kept: Option<KeptSignIn>,
}

pub(crate) fn run(args: &AuthArgs, globals: &Globals) -> Result<(), Failed> {
    let store = Store::of_user();
    let store = store.map_err(|error| Failed::new(Exit::Failed, error.to_string()))?;
    let mut rows = Vec::new();
    let places = match args.words.is_empty() {
        true => SignInPeer::all_of_config(globals)?,
        false => {
            let named = args.words.iter().map(|word| SignInPeer::named(word, globals));
            named.collect::<Result<_, _>>()?
        }
    };
    for place in places {
        match place.target() {
            Some(target) => {
                let (kept, broken) = match target.has_fixed_token {
                    true => (None, Vec::new()),
                    false => place.kept(&store, &target),
                };
                if kept.is_none() {
                    broken.iter().for_each(warn);
                }
                rows.push(Row { place: Some(place), target: Some(target), kept });
            }
            None if args.words.is_empty() => {}
            None => {
                return Err(place.no_target());
            }
        }
    }
    if args.words.is_empty() {
        let (mut others, broken) = store.sign_ins();
        if rows.is_empty() {
            broken.iter().for_each(warn);
        }
        let is_shown = |kept: &KeptSignIn| {
            rows.iter()
                .any(|row: &Row| row.kept.as_ref().is_some_and(|shown| shown.path == kept.path))
        };
        others.retain(|kept| !is_shown(kept));
        others.sort_by(|one, other| one.sign_in.server.cmp(&other.sign_in.server));
        rows.extend(others.into_iter().map(|kept| Row {
            place: None,
            target: None,
            kept: Some(kept),
        }));
    }
    let text = match globals.json {
        true => rows.iter().map(Row::line).collect::<String>(),
        false => drawn(&rows),
    };
    if !text.is_empty() {
        render::print(&text)?;
    }
    let needs = rows.iter().any(|row| row.state().0 == "needs_sign_in");
    match needs && !args.words.is_empty() {
        true => Err(Failed::quietly(Exit::Failed)),
        false => Ok(()),
    }
}

fn warn(error: &StoreError) {
    let hint = error.hint("toolbus login").map(|hint| format!("; {hint}")).unwrap_or_default();
    stderr::write(&format!("warning: {error}{hint}\n"));
}

/// The line of `--json` of one place.
pub(crate) fn line(back: Option<&str>, target: &SignInTarget, kept: Option<&KeptSignIn>) -> String {
    told(back, &target.server.plain(), state(Some(target), kept), target, kept)
}

type SignInState = (&'static str, Option<&'static str>);

fn state(target: Option<&SignInTarget>, kept: Option<&KeptSignIn>) -> SignInState {
    let by_itself = match (kept, target) {
        (Some(kept), _) => kept.sign_in.grant.is_by_itself(),
        (None, Some(target)) => target.settings.grant.is_by_itself(),
        (None, None) => false,
    };
    match (target, kept) {
        (Some(target), _) if target.has_fixed_token => ("fixed_token", None),
        _ if by_itself => ("by_itself", None),
        (_, None) => ("needs_sign_in", Some("never")),
        (_, Some(kept)) if !kept.sign_in.wanted.is_empty() => ("needs_sign_in", Some("scope")),
        (_, Some(kept)) if kept.sign_in.is_signed_in(unix_now()) => ("signed_in", None),
        (_, Some(_)) => ("needs_sign_in", Some("ended")),
    }
}

impl Row {
    fn state(&self) -> SignInState {
        state(self.target.as_ref(), self.kept.as_ref())
    }

    fn server(&self) -> String {
        match (&self.target, &self.kept) {
            (Some(target), _) => target.server.plain(),
            (None, Some(kept)) => kept.sign_in.server.clone(),
            (None, None) => String::new(),
        }
    }

    fn line(&self) -> String {
        let back = self.place.as_ref().and_then(SignInPeer::back);
        match &self.target {
            Some(target) => line(back, target, self.kept.as_ref()),
            None => told_kept(back, &self.server(), self.state(), "", None, self.kept.as_ref()),
        }
    }
}

fn told(
    back: Option<&str>,
    server: &str,
    state: SignInState,
    target: &SignInTarget,
    kept: Option<&KeptSignIn>,
) -> String {
    let account = target.settings.account.as_str();
    let grant = (!target.has_fixed_token).then(|| target.settings.grant.as_str());
    told_kept(back, server, state, account, grant, kept)
}

fn told_kept(
    back: Option<&str>,
    server: &str,
    (state, why): SignInState,
    account: &str,
    grant: Option<&str>,
    kept: Option<&KeptSignIn>,
) -> String {
    let mut line = WrittenMembers::default();
    line.put_some("back", back);
    line.put("server", server);
    line.put("state", state);
    line.put_some("why", why);
    let account = kept.map_or(account, |kept| kept.sign_in.account.as_str());
    line.put_some("account", Some(account).filter(|account| !account.is_empty()));
    if let Some(kept) = kept {
        let sign_in = &kept.sign_in;
        line.put_some("who", sign_in.who.as_deref());
        line.put("issuer", &*sign_in.issuer);
        let id = Some(&*sign_in.identity.id).filter(|id| !id.is_empty());
        line.put_some("client_id", id);
        line.put("client", sign_in.identity.from.as_str());
    }
    line.put_some("grant", kept.map(|kept| kept.sign_in.grant.as_str()).or(grant));
    if let Some(kept) = kept {
        let sign_in = &kept.sign_in;
        line.put_raw("scopes", Json::of(&sign_in.scopes).as_str());
        if !sign_in.wanted.is_empty() {
            line.put_raw("wanted", Json::of(&sign_in.wanted).as_str());
        }
        line.put_some("expires_at", sign_in.expires_at.map(time));
        line.put("refresh", sign_in.refresh.is_some());
        line.put("kept", kept.path.display().to_string());
    }
    line.end() + "\n"
}

/// Seconds of Unix as people and programs read them.
pub(crate) fn time(seconds: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(1 << 37)));
    rfc3339(time.unwrap_or(UNIX_EPOCH))
}

fn drawn(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["NAME", "STATE", "WHO", "SCOPES", "ENDS", "KEPT IN"].map(str::to_owned);
    let cells = |row: &Row| {
        let (state, why) = row.state();
        let state = match why {
            Some(why) => format!("{state} ({why})"),
            None => state.to_owned(),
        };
        let name = row.place.as_ref().map_or_else(|| row.server(), |place| place.name.clone());
        let kept = row.kept.as_ref();
        let sign_in = kept.map(|kept| &kept.sign_in);
        let who = sign_in.and_then(|it| it.who.clone()).unwrap_or_default();
        let scopes = sign_in.map(|it| it.scopes.join(" ")).unwrap_or_default();
        let ends = sign_in.and_then(|it| it.expires_at).map(time).unwrap_or_default();
        let place = kept.map(|kept| kept.path.display().to_string()).unwrap_or_default();
        let shown = |text: String| match text.is_empty() {
            true => "-".to_owned(),
            false => printable(&text).into_owned(),
        };
        [name, state, who, scopes, ends, place].map(shown)
    };
    let rows: Vec<_> = [heads].into_iter().chain(rows.iter().map(cells)).collect();
    table::plain(&rows)
}
