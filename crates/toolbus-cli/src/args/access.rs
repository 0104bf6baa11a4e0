//! Flags about who may come in by a front that listens.

use toolbus::peer::access::{Access, token_of};

use crate::failed::Failed;

/// Who may come in.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AccessArgs {
    /// Let pages of this origin in, besides our own, e.g. `https://app.example`; may repeat
    #[arg(long = "origin", value_name = "ORIGIN")]
    pub(crate) origins: Vec<String>,
    /// Let clients call us by this name, besides our own, e.g. behind a proxy that keeps `Host`; may
    /// repeat
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Environment variable that holds the token that each caller must show
    #[arg(long, value_name = "VAR")]
    pub(crate) token_env: Option<String>,
    /// Do without a token although other machines can reach us
    #[arg(long)]
    pub(crate) insecure: bool,
}

impl AccessArgs {
    /// The flag that was given although it means something only where HTTP is spoken.
    pub(crate) fn only_http(&self) -> Option<&'static str> {
        match self {
            AccessArgs { token_env: Some(_), .. } => Some("--token-env"),
            AccessArgs { origins, .. } if !origins.is_empty() => Some("--origin"),
            AccessArgs { hosts, .. } if !hosts.is_empty() => Some("--host"),
            _ => None,
        }
    }

    /// What they mean, with the token itself.
    pub(crate) fn access(&self) -> Result<Access, Failed> {
        let token = self.token_env.as_deref().map(token_of).transpose();
        Ok(Access {
            is_closed: false,
            token: token.map_err(|error| Failed::usage(error.to_string()).hint(error.hint()))?,
            insecure: self.insecure,
            origins: self.origins.clone(),
            hosts: self.hosts.clone(),
        })
    }
}
