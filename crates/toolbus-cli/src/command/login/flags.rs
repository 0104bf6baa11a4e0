//! What flags say of a sign-in, and where the config says otherwise.

use std::sync::Arc;

use toolbus::peer::access::token_of;
use toolbus::peer::signing_in::SignInTarget;
use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::settings::{
    Grant, Redirect, ResourceChoice, SignInSettings, is_account, is_client_metadata_url, is_scope,
};
use toolbus_proto::oauth::web::WebUrl;

use crate::command::auth::SignInPeer;
use crate::failed::Failed;

/// Flags that say what `[back.x.oauth]` may say, too.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LoginFlags {
    /// Agree on another machine: enter a code there
    #[arg(long)]
    device: bool,
    /// Who we are, where that was registered before
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Environment variable that holds its secret
    #[arg(long, value_name = "VAR")]
    client_secret_env: Option<String>,
    /// A document of yours that is the client id, where sign-in servers take such
    #[arg(long, value_name = "URL")]
    client_metadata_url: Option<String>,
    /// What the sign-in server may call itself; may repeat
    #[arg(long, value_name = "URL")]
    issuer: Vec<String>,
    /// Ask for this, in place of what the server asks; may repeat
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// For whom the token is, in place of what the server says; `none` for nothing
    #[arg(long, value_name = "URI|none")]
    resource: Option<String>,
    /// Where the browser is sent back to, e.g. `http://localhost:3118/callback`
    #[arg(long, value_name = "URL")]
    redirect: Option<String>,
    /// Keep several accounts at one server apart
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
}

impl LoginFlags {
    /// The first that is given.
    pub(super) fn flag(&self) -> Option<&'static str> {
        [
            (self.device, "--device"),
            (self.client_id.is_some(), "--client-id"),
            (self.client_secret_env.is_some(), "--client-secret-env"),
            (self.client_metadata_url.is_some(), "--client-metadata-url"),
            (!self.issuer.is_empty(), "--issuer"),
            (!self.scope.is_empty(), "--scope"),
            (self.resource.is_some(), "--resource"),
            (self.redirect.is_some(), "--redirect"),
            (self.account.is_some(), "--account"),
        ]
        .into_iter()
        .find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    /// The place with what the flags say besides the config.
    pub(super) fn applied(
        &self,
        place: &SignInPeer,
        target: SignInTarget,
    ) -> Result<SignInTarget, Failed> {
        let mut settings = SignInSettings::clone(&target.settings);
        let name = &place.name;
        let differs = |flag: &str, key: &str| {
            Failed::usage(format!("`{flag}` says otherwise than `{key}` of back `{name}`"))
        };
        if self.device {
            match settings.grant {
                Grant::Code | Grant::Device => settings.grant = Grant::Device,
                _ => return Err(differs("--device", "grant")),
            }
        }
        if let Some(id) = &self.client_id {
            set(&mut settings.client_id, id.clone())
                .ok_or_else(|| differs("--client-id", "client_id"))?;
        }
        if let Some(variable) = &self.client_secret_env {
            let secret = token_of(variable).map_err(|_| {
                let message = format!("the environment variable `{variable}` holds no secret");
                Failed::usage(message).hint(format!("set it: `export {variable}=…`"))
            })?;
            set(&mut settings.client_secret, Hidden::new(secret.reveal().as_str()))
                .ok_or_else(|| differs("--client-secret-env", "client_secret"))?;
        }
        if settings.client_secret.is_some() && settings.client_id.is_none() {
            return Err(Failed::usage("`--client-secret-env` is for `--client-id`"));
        }
        if let Some(url) = &self.client_metadata_url {
            if !is_client_metadata_url(url) {
                let message = "`--client-metadata-url` must be an https URL with a path";
                return Err(Failed::usage(message));
            }
            set(&mut settings.client_metadata_url, url.clone())
                .ok_or_else(|| differs("--client-metadata-url", "client_metadata_url"))?;
        }
        if !self.issuer.is_empty() {
            for issuer in &self.issuer {
                WebUrl::allowed(issuer)
                    .map_err(|why| Failed::usage(format!("`--issuer`: {why}")))?;
            }
            if !settings.issuers.is_empty() && settings.issuers != self.issuer {
                return Err(differs("--issuer", "issuer"));
            }
            settings.issuers.clone_from(&self.issuer);
        }
        if !self.scope.is_empty() {
            let words = self.scope.iter().flat_map(|scope| scope.split_ascii_whitespace());
            let scopes: Vec<String> = words.map(str::to_owned).collect();
            if let Some(bad) = scopes.iter().find(|scope| !is_scope(scope)) {
                return Err(Failed::usage(format!("`--scope`: `{bad}` is no scope")));
            }
            set(&mut settings.scopes, scopes).ok_or_else(|| differs("--scope", "scopes"))?;
        }
        if let Some(resource) = &self.resource {
            let choice = match resource.as_str() {
                "none" => ResourceChoice::Silent,
                uri => ResourceChoice::Given(uri.to_owned()),
            };
            if settings.resource != ResourceChoice::Published && settings.resource != choice {
                return Err(differs("--resource", "resource"));
            }
            settings.resource = choice;
        }
        if let Some(redirect) = &self.redirect {
            let read = Redirect::parse(redirect).ok_or_else(|| {
                let forms = "`http://localhost:PORT/PATH` or `http://127.0.0.1:PORT/PATH`";
                Failed::usage(format!("`--redirect` must be {forms}"))
            })?;
            set(&mut settings.redirect, read).ok_or_else(|| differs("--redirect", "redirect"))?;
        }
        if let Some(account) = &self.account {
            if !is_account(account) {
                let message = "`--account` can have letters, digits, `_`, `-`, `.` and `@`";
                return Err(Failed::usage(message));
            }
            // Calls by the config look for the account that it names, and for no other.
            if place.back().is_some() && settings.account != *account {
                return Err(differs("--account", "account"));
            }
            settings.account.clone_from(account);
        }
        Ok(SignInTarget { settings: Arc::new(settings), ..target })
    }
}

/// Sets what was not said, or was said likewise.
fn set<T: PartialEq>(known: &mut Option<T>, said: T) -> Option<()> {
    let is_other = known.as_ref().is_some_and(|known| *known != said);
    *known = Some(said);
    (!is_other).then_some(())
}
