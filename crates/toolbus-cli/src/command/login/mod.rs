//! `toolbus login`: the user signs in to a server, and the token is kept for all of toolbus.

mod browser;
mod flags;
mod pasted;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use toolbus::oauth::sign_in::{Blame, Consented, Probed, SignInError, SigningIn, needs_person};
use toolbus::oauth::store::{KeptSignIn, Sought, Store};
use toolbus::peer::signing_in::SignInTarget;
use toolbus_engine::secrets;
use toolbus_proto::oauth::device::Device;
use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::identity::ClientIdentity;
use toolbus_proto::oauth::settings::Grant;
use toolbus_proto::oauth::stored::SignIn;

use self::flags::LoginFlags;
use self::pasted::Pasted;
use super::auth::{SignInPeer, line};
use crate::args::Globals;
use crate::args::value;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::{self, failure, printable};
use crate::runtime::{self, Signals};
use crate::stderr;

/// Sign in to a server
///
/// Opens a browser, where you agree, and keeps the token that is given for it: every command,
/// editor and process of yours that reaches the server by toolbus shows it from then on, and renews it
/// when it ends. Without a word it goes through all backs of the config that want a sign-in.
///
/// Nothing of it goes to standard output, but with `--json` the line of `toolbus auth --json`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus login https://notes.example.com/
  toolbus login notes --no-browser
  toolbus login notes --device")]
pub(crate) struct LoginArgs {
    /// A back of the config, or the URL of a server
    #[arg(value_name = "BACK|URL")]
    word: Option<String>,
    /// Start no browser; the URL that it was sent back to may be pasted
    #[arg(long)]
    no_browser: bool,
    /// Start this in place of the usual browser; the URL is its last argument
    #[arg(long, value_name = "COMMAND", env = "TOOLBUS_BROWSER", hide_env_values = true)]
    browser: Option<String>,
    #[command(flatten)]
    flags: LoginFlags,
    /// Register anew, where toolbus registers itself
    #[arg(long)]
    new_client: bool,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5m")]
    timeout: Duration,
}

pub(crate) fn run(args: &LoginArgs, globals: &Globals) -> Result<(), Failed> {
    let store = Store::of_user().map_err(|error| no_store(&error))?;
    match &args.word {
        Some(word) => {
            let place = SignInPeer::named(word, globals)?;
            let target = args.flags.applied(&place, signs_in(&place)?)?;
            store.try_out().map_err(|error| no_store(&error))?;
            runtime::block_on(async {
                let mut signals = Signals::listen()?;
                one(args, globals, &store, &place, &target, &mut signals, true).await.map(drop)
            })
        }
        None => all(args, globals, &store),
    }
}

/// The places of the config that want a sign-in, one after the other.
fn all(args: &LoginArgs, globals: &Globals, store: &Store) -> Result<(), Failed> {
    if let Some(flag) = args.flags.flag() {
        return Err(Failed::usage(format!("`{flag}` is for one server: name it")));
    }
    let places = SignInPeer::all_of_config(globals)?;
    store.try_out().map_err(|error| no_store(&error))?;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut has_signed_in = false;
        for place in &places {
            let Some(target) = place.target().filter(|target| !target.has_fixed_token) else {
                continue;
            };
            if !needs_person(&target.settings) || place.is_signed_in(store, &target) {
                continue;
            }
            let asked = one(args, globals, store, place, &target, &mut signals, false).await?;
            has_signed_in |= asked;
        }
        if !has_signed_in {
            stderr::write("nothing to sign in to\n");
        }
        Ok(())
    })
}

/// What can be signed in to there, or why nothing can.
fn signs_in(place: &SignInPeer) -> Result<SignInTarget, Failed> {
    let name = &place.name;
    let Some(target) = place.target() else {
        return Err(place.no_target());
    };
    if let Some(missing) = place.missing() {
        return Err(Failed::usage(missing.message.clone()).hint_if_any(missing.hint.clone()));
    }
    match target.has_fixed_token {
        true => {
            let message = format!("`{name}` has a fixed token: there is nothing to sign in to");
            Err(Failed::usage(message))
        }
        false => Ok(target),
    }
}

fn no_store(error: &toolbus::oauth::store::StoreError) -> Failed {
    Failed::new(Exit::Failed, error.to_string())
}

/// Signs in at one place; tells whether that was asked for. `must` says that it is an error if not.
async fn one(
    args: &LoginArgs,
    globals: &Globals,
    store: &Store,
    place: &SignInPeer,
    target: &SignInTarget,
    signals: &mut Signals,
    must: bool,
) -> Result<bool, Failed> {
    let name = printable(&place.name).into_owned();
    let work = async {
        let asked = (target.probe)().await.map_err(|failure| failure::failed(&failure))?;
        if !must && !asked.was_refused {
            return Ok(None);
        }
        sign_in(args, store, &name, target, &asked).await
    };
    let kept = tokio::select! {
        worked = tokio::time::timeout(args.timeout, work) => match worked {
            Ok(worked) => worked?,
            Err(_) => {
                let message = format!("nobody has answered within {:?}", args.timeout);
                return Err(Failed::new(Exit::TimedOut, message));
            }
        },
        exit = signals.next() => return Err(Failed::quietly(exit)),
    };
    let Some(kept) = kept else { return Ok(false) };
    let who = kept.sign_in.who.as_deref();
    let who = who.map(|who| format!(" as {}", printable(who))).unwrap_or_default();
    stderr::write(&format!("signed in to `{name}`{who}\nkept in {}\n", kept.path.display()));
    if globals.json {
        render::print(&line(place.back(), target, Some(&kept)))?;
    }
    Ok(true)
}

async fn sign_in(
    args: &LoginArgs,
    store: &Store,
    name: &str,
    target: &SignInTarget,
    asked: &Probed,
) -> Result<Option<KeptSignIn>, Failed> {
    let settings = &target.settings;
    if !needs_person(settings) {
        let Some(credential) = &target.credential else { return Ok(None) };
        let kept = credential.get_by_itself(asked.challenge.as_ref()).await;
        let exit = |failure: &toolbus_proto::tool::Failure| match failure
            .detail
            .as_ref()
            .is_some_and(|detail| detail.as_str().contains("\"refused\""))
        {
            true => Failed::new(Exit::Failed, failure.to_string()),
            false => failure::failed(failure),
        };
        return kept.map(Some).map_err(|failure| exit(&failure));
    }
    let before = before(store, target);
    let note = |text: String| stderr::write(&format!("note: {}\n", printable(&text)));
    let mut anew = args.new_client;
    let mut is_again = false;
    loop {
        let looked = SigningIn::look(
            &target.server,
            settings.clone(),
            store.clone(),
            asked,
            before.as_ref(),
            note,
        );
        let Some(signing_in) = looked.await.map_err(|error| failed(&error))? else {
            let message = format!("`{name}` asks for no sign-in");
            return Err(Failed::new(Exit::Failed, message));
        };
        let issuer = printable(signing_in.issuer()).into_owned();
        if !is_again {
            stderr::write(&format!("signing in to `{name}` at {issuer}\n"));
        }
        match at_server(args, &signing_in, settings.grant, anew).await {
            Err(SignInError::ClientForgotten { .. }) if !is_again => {
                // A client of a registration that is not known any more is registered once more.
                signing_in.forget_client().map_err(|error| failed(&error))?;
                (anew, is_again) = (true, true);
            }
            Ok(Some(kept)) => return Ok(Some(kept)),
            Ok(None) => {
                let message = "nobody has agreed in time".to_owned();
                return Err(Failed::new(Exit::TimedOut, message));
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// The sign-in that there is, for what was asked for then.
fn before(store: &Store, target: &SignInTarget) -> Option<SignIn> {
    let settings = &target.settings;
    let server = target.server.plain();
    let sought = Sought {
        server: &server,
        account: Some(&settings.account),
        client_id: settings.client_id.as_deref(),
        issuers: &settings.issuers,
    };
    store.find(sought).0.map(|kept| kept.sign_in)
}

async fn at_server(
    args: &LoginArgs,
    signing_in: &SigningIn,
    grant: Grant,
    anew: bool,
) -> Result<Option<KeptSignIn>, SignInError> {
    let (identity, door) = match signing_in.identity(anew, args.no_browser).await {
        Err(SignInError::NoClientId { issuer }) => match pasted::client().await {
            Some((id, secret)) => signing_in.given(&id, secret, args.no_browser).await?,
            None => return Err(SignInError::NoClientId { issuer }),
        },
        known => known?,
    };
    match grant {
        Grant::Device => {
            drop(door);
            by_device(signing_in, &identity).await
        }
        _ => {
            let consented = signing_in.consent(identity, door);
            by_code(args, consented).await.map(Some)
        }
    }
}

async fn by_device(
    signing_in: &SigningIn,
    identity: &ClientIdentity,
) -> Result<Option<KeptSignIn>, SignInError> {
    let device = signing_in.device(identity).await?;
    let Device { uri, user_code, whole_uri, .. } = &device;
    let mut text = format!("open {} and enter the code {user_code}\n", printable(uri));
    if let Some(whole) = whole_uri {
        text.push_str(&format!("or open {}\n", printable(whole)));
    }
    say_raw(&text);
    signing_in.wait_for_device(identity, device).await
}

async fn by_code(
    args: &LoginArgs,
    mut consented: Consented<'_>,
) -> Result<KeptSignIn, SignInError> {
    let url = consented.url.clone();
    say_raw(&format!("open {url}\n"));
    let mut opened = pin!(opened(args, &url));
    let mut pasted = args.no_browser.then(Pasted::begin);
    let mut is_opened = false;
    let code: Result<Hidden, SignInError> = loop {
        let line = async {
            match &mut pasted {
                Some(pasted) => pasted.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = consented.answer() => break answer,
            () = &mut opened, if !is_opened => is_opened = true,
            line = line => match line {
                Some(line) if consented.paste(&line) => {}
                Some(line) if line.trim().is_empty() => {}
                Some(_) => stderr::write("that is not the answer to this sign-in\n"),
                // A browser may still come.
                None => pasted = None,
            },
        }
    };
    match code {
        Ok(code) => consented.finish(&code).await,
        Err(why) => {
            consented.give_up().await;
            Err(why)
        }
    }
}

/// Starts a browser, and says if that does not work.
fn opened(args: &LoginArgs, url: &str) -> impl Future<Output = ()> + use<> {
    let command = (!args.no_browser).then(|| browser::command(args.browser.as_deref()));
    let url = url.to_owned();
    async move {
        let Some(command) = command else { return };
        if let Err(why) = browser::open(&command, &url).await {
            let why = secrets::masked(&why).into_owned();
            stderr::write(&format!("note: no browser could be started: {}\n", printable(&why)));
        }
    }
}

/// A URL is for the user, and the state in it must not be masked.
fn say_raw(text: &str) {
    stderr::write(text);
}

fn failed(error: &SignInError) -> Failed {
    let exit = match error.blame() {
        Blame::Refused => Exit::Failed,
        Blame::Usage => Exit::Usage,
        Blame::Unusable => Exit::Unreachable,
    };
    let text = error.to_string();
    Failed::new(exit, secrets::masked(&text).into_owned()).hint_if_any(error.hint())
}
