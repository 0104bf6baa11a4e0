//! `toolbus logout`: a sign-in is taken back where it was given, and forgotten.

use std::time::Duration;

use toolbus::oauth::sign_in::revoke;
use toolbus::oauth::store::{KeptSignIn, Store, StoreError};
use toolbus_engine::secrets;
use toolbus_proto::oauth::settings::SignInSettings;

use super::auth::{SignInPeer, time};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::printable;
use crate::runtime::{self, Signals};
use crate::stderr;

/// How long a sign-in server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a refresh that is under way may.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Sign out of servers
///
/// The sign-in server is told, if it can be, and what is kept here is removed. A server that cannot
/// be told is no error.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus logout notes
  toolbus logout --all --forget")]
pub(crate) struct LogoutArgs {
    /// Backs of the config, or URLs of servers
    #[arg(value_name = "BACK|URL")]
    words: Vec<String>,
    /// Sign out of all
    #[arg(long, conflicts_with = "words")]
    all: bool,
    /// Forget who we are there, too, where toolbus has registered itself
    #[arg(long)]
    forget: bool,
}

/// One to be signed out of.
struct Leaving {
    name: String,
    settings: SignInSettings,
    kept: Vec<KeptSignIn>,
}

pub(crate) fn run(args: &LogoutArgs, globals: &Globals) -> Result<(), Failed> {
    if args.words.is_empty() && !args.all {
        return Err(Failed::usage("it is not said what to sign out of")
            .hint("name backs or URLs, or write `--all`"));
    }
    let store = Store::of_user();
    let store = store.map_err(|error| Failed::new(Exit::Failed, error.to_string()))?;
    let leaving = match args.all {
        true => all(&store, globals)?,
        false => {
            let named = args.words.iter().map(|word| named(word, &store, globals));
            named.collect::<Result<Vec<_>, _>>()?
        }
    };
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            for one in &leaving {
                leave(&store, one, args.forget).await.map_err(|error| failed(&error))?;
            }
            Ok(())
        };
        tokio::select! {
            worked = work => worked,
            exit = signals.next() => Err(Failed::quietly(exit)),
        }
    })
}

fn failed(error: &StoreError) -> Failed {
    Failed::new(Exit::Failed, error.to_string())
}

fn all(store: &Store, globals: &Globals) -> Result<Vec<Leaving>, Failed> {
    let places = SignInPeer::all_of_config(globals)?;
    let (kept, _) = store.sign_ins();
    let leaving = kept.into_iter().map(|kept| {
        let is_of = |place: &&SignInPeer| {
            let target = place.target();
            target.is_some_and(|target| {
                place.kept(store, &target).0.is_some_and(|own| own.path == kept.path)
            })
        };
        let place = places.iter().find(is_of);
        let settings = place.and_then(SignInPeer::target).map(|target| (*target.settings).clone());
        let name = place.map_or_else(|| kept.sign_in.server.clone(), |place| place.name.clone());
        Leaving { name, settings: settings.unwrap_or_default(), kept: vec![kept] }
    });
    Ok(leaving.collect())
}

fn named(word: &str, store: &Store, globals: &Globals) -> Result<Leaving, Failed> {
    let place = SignInPeer::named(word, globals)?;
    let Some(target) = place.target() else {
        return Err(place.no_target());
    };
    let server = target.server.plain();
    let settings = &target.settings;
    let (all, _) = store.sign_ins();
    let is_of = |kept: &KeptSignIn| {
        let is_account = place.back().is_none() || kept.sign_in.account == settings.account;
        kept.sign_in.server == server && is_account
    };
    let kept = all.into_iter().filter(is_of).collect();
    Ok(Leaving { name: place.name.clone(), settings: (**settings).clone(), kept })
}

async fn leave(store: &Store, leaving: &Leaving, forget: bool) -> Result<(), StoreError> {
    let name = printable(&leaving.name).into_owned();
    if leaving.kept.is_empty() {
        stderr::write(&format!("`{name}` was not signed in\n"));
        return Ok(());
    }
    for kept in &leaving.kept {
        let _locked = store.lock(&kept.sign_in.name(), LOCK_PATIENCE).await?;
        // What was refreshed meanwhile is what has to be taken back.
        let Some(kept) = store.read_again(&kept.path)? else { continue };
        let sign_in = &kept.sign_in;
        let issuer = printable(&sign_in.issuer).into_owned();
        let note = match &sign_in.revocation_endpoint {
            None => {
                let ends = sign_in.expires_at.map(time);
                let ends = ends.unwrap_or_else(|| "a time it has not said".to_owned());
                Some(format!("{issuer} has no way to be told; the token ends at {ends}"))
            }
            Some(_) => match revoke(sign_in, &leaving.settings, PATIENCE).await {
                Ok(()) => None,
                Err(why) => Some(format!("{issuer} could not be told: {}", printable(&why))),
            },
        };
        store.remove(&kept.path)?;
        if let Some(note) = note {
            stderr::write(&format!("note: {}\n", secrets::masked(&note)));
        }
        if forget {
            let (others, _) = store.sign_ins();
            if !others.iter().any(|other| other.sign_in.issuer == sign_in.issuer) {
                store.forget_registration(&sign_in.issuer)?;
            }
        }
    }
    stderr::write(&format!("signed out of `{name}`\n"));
    Ok(())
}
