//! Looks for the server where one signs in.

use thiserror::Error;
use toolbus_proto::oauth::challenge::Challenge;
use toolbus_proto::oauth::discovery::{Discovery, DiscoveryError, SignInPlace};
use toolbus_proto::oauth::metadata::Looked;
use toolbus_proto::oauth::web::WebUrl;

use super::fetch::{FetchError, Fetcher};

/// What a server that has answered with this challenge, or with none, leads to; `None` if it wants
/// no sign-in that could be found. `note` is told what people should know.
pub async fn discover(
    fetcher: &Fetcher,
    server: &WebUrl,
    challenge: Option<&Challenge>,
    was_refused: bool,
    issuers: &[String],
    note: impl Fn(String),
) -> Result<Option<SignInPlace>, NotDiscovered> {
    let mut discovery = Discovery::new(server, challenge, was_refused, issuers)?;
    while let Some(url) = discovery.poll_get().map(str::to_owned) {
        let answer = fetcher.get(&url).await?;
        let looked = discovery.handle_answer(answer.status, &answer.body)?;
        discovery.poll_note().into_iter().for_each(&note);
        match looked {
            Looked::Next => {}
            Looked::Absent => return Ok(None),
            Looked::Found(place) => return Ok(Some(place)),
        }
    }
    Ok(None)
}

/// Why there is no server where one signs in.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum NotDiscovered {
    #[error(transparent)]
    Rules(#[from] DiscoveryError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

impl NotDiscovered {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            NotDiscovered::Rules(error) => error.hint(),
            NotDiscovered::Fetch(_) => None,
        }
    }
}
