//! Where a user may sign in: what a kind of peer says of one of its peers.

use std::sync::Arc;

use toolbus_proto::oauth::settings::SignInSettings;
use toolbus_proto::oauth::web::WebUrl;
use toolbus_proto::tool::Failure;

use crate::bus::back::LocalFuture;
use crate::oauth::credential::Credential;
use crate::oauth::sign_in::Probed;

/// A peer that may want its user to sign in.
pub struct SignInTarget {
    /// Its URL.
    pub server: WebUrl,
    /// What the config says.
    pub settings: Arc<SignInSettings>,
    /// A token goes along that has nothing to do with sign-ins.
    pub has_fixed_token: bool,
    /// Its token, unless that is fixed.
    pub credential: Option<Credential>,
    /// Asks it without a token. Called inside a `LocalSet`.
    pub probe: Box<dyn Fn() -> LocalFuture<'static, Result<Probed, Failure>>>,
}
