//! What callers are told where a sign-in is missing.

use toolbus_proto::did_you_mean::hinted;
use toolbus_proto::json::Json;
use toolbus_proto::limit::{self, NEEDS_SIGN_IN};
use toolbus_proto::oauth::stored::WrittenMembers;
use toolbus_proto::tool::{Failure, FailureKind};

use super::store::StoreError;

/// A call that has no token.
pub(super) struct SignInTold<'a> {
    /// What people call the back.
    pub(super) name: &'a str,
    /// The command that signs in.
    pub(super) login: &'a str,
}

impl SignInTold<'_> {
    fn failure(
        &self,
        reason: &str,
        message: String,
        scope: Option<&str>,
        hint: Option<String>,
    ) -> Failure {
        let mut detail = WrittenMembers::default();
        detail.put("reason", reason);
        detail.put("login", self.login);
        detail.put_some("scope", scope);
        let detail = Some(Json::from_trusted(detail.end()));
        hinted(Failure { detail, ..Failure::new(FailureKind::Unavailable, message) }, hint)
    }

    /// Nobody has signed in.
    pub(super) fn never(&self) -> Failure {
        let message = format!("`{}` needs a sign-in: run `{}`", self.name, self.login);
        let hint = "if it takes a fixed token, name its variable by `--token-env` (`token_env` in \
                    the config)";
        self.failure(NEEDS_SIGN_IN, message, None, Some(hint.to_owned()))
    }

    /// It has ended, and there is no way to another token.
    pub(super) fn ended(&self) -> Failure {
        let message = format!("the sign-in to `{}` has ended: run `{}`", self.name, self.login);
        self.failure(NEEDS_SIGN_IN, message, None, None)
    }

    /// More is wanted than was asked for.
    pub(super) fn wants(&self, scope: &str) -> Failure {
        let message = format!("`{}` wants the scope `{scope}`: run `{}`", self.name, self.login);
        self.failure(NEEDS_SIGN_IN, message, Some(scope), None)
    }

    /// All was asked for, and it is not enough.
    pub(super) fn forbidden(&self, scope: &str) -> Failure {
        let message =
            format!("`{}` refuses this call although the scope `{scope}` was asked for", self.name);
        self.failure("forbidden", message, Some(scope), None)
    }

    /// The sign-in server does not answer.
    pub(super) fn unreachable(&self, why: &str) -> Failure {
        let message = format!("the sign-in server of `{}` cannot be reached: {why}", self.name);
        self.failure("refresh_failed", message, None, None)
    }

    /// The sign-in server says no.
    pub(super) fn refused(&self, why: &str) -> Failure {
        let message = format!("the sign-in server of `{}` refused: {why}", self.name);
        self.failure("refused", message, None, None)
    }

    /// An eavesdropper would have the token.
    pub(super) fn insecure(&self) -> Failure {
        let message = format!("`{}` is not https: its token is not sent in clear", self.name);
        let hint = "use `https://`, or allow it by `insecure = true` in the config";
        self.failure("insecure", message, None, Some(hint.to_owned()))
    }

    /// What is kept cannot be used.
    pub(super) fn store(&self, error: &StoreError) -> Failure {
        let message = error.to_string();
        self.failure("store", message, None, error.hint(self.login))
    }
}

/// Does a call fail because of a sign-in, and would be tried again in vain?
pub fn is_about_sign_in(failure: &Failure) -> bool {
    limit::reason_of(failure).is_some_and(limit::is_of_sign_in)
}

/// What is told of a back in a few words, if all that it lacks is a sign-in.
pub fn lacks_sign_in(failure: &Failure) -> Option<String> {
    limit::login_of(failure).map(|login| format!("needs a sign-in: run `{login}`"))
}
