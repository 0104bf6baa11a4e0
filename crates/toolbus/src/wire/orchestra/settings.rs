//! What can be set about an Orchestra wire, on either side of the bus, by the parameters of an
//! address.

use std::path::Path;
use std::time::Duration;

use super::certificates::{FOLDER_DEFAULT, Folder};
use super::tls::IDLE_TIMEOUT;
use crate::address::{Query, Url};
use crate::units;

/// The parameters of addresses.
pub(super) const QUERY: Query = Query::Parameters {
    to_call: &["certs", "name", "server_name", "provider", "idle_timeout"],
    to_serve: &["certs", "hub", "id"],
};

/// How a hub, or a plugin, is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallParameters {
    /// Where the certificates are.
    pub folder: Folder,
    /// Whose certificate we show.
    pub certificate: String,
    /// The name that its certificate must have.
    pub server_name: Option<String>,
    /// Who we say that we are.
    pub provider: String,
    /// After how long of silence a connection is lost.
    pub idle_timeout: Duration,
}

impl CallParameters {
    /// What an address says.
    pub fn of(url: &Url) -> Result<CallParameters, String> {
        let idle_timeout = match url.parameter("idle_timeout") {
            Some(text) => units::duration(text).map_err(|error| error.to_string())?,
            None => IDLE_TIMEOUT,
        };
        Ok(CallParameters {
            folder: folder(url),
            certificate: format!("{}-client", url.parameter("name").unwrap_or("toolbus")),
            server_name: url.parameter("server_name").map(str::to_owned),
            provider: url.parameter("provider").unwrap_or_default().to_owned(),
            idle_timeout,
        })
    }
}

/// Where the certificates are.
pub(super) fn folder(url: &Url) -> Folder {
    Folder::at(Path::new(url.parameter("certs").unwrap_or(FOLDER_DEFAULT)))
}
