//! Where the key comes from, and which server it is for.

use std::env;
use std::path::{Path, PathBuf};

use toolbus_proto::godex::RunError;
use toolbus_proto::godex::auth::Credential;
use toolbus_proto::godex::base_url::BaseUrl;

use super::{ExecArgs, files};

/// The key, and the server it is for.
pub(super) struct Access {
    pub(super) credential: Credential,
    /// Where its tokens stand.
    pub(super) file: Option<PathBuf>,
    pub(super) base_url: BaseUrl,
    pub(super) refresh_url: Option<BaseUrl>,
    pub(super) warning: Option<String>,
}

impl Access {
    /// Finds the first that applies.
    pub(super) fn find(args: &ExecArgs, given: Option<BaseUrl>) -> Result<Access, RunError> {
        let mut file = None;
        let mut warning = None;
        let credential = if let Some(key) = variable("OPENAI_API_KEY") {
            if args.auth_file.is_some() {
                warning = Some("OPENAI_API_KEY is set, so --auth-file is not read".to_owned());
            }
            Some(Credential::Key(key))
        } else if let Some(path) = auth_file(args) {
            let credential = read(&path)?;
            file = Some(path);
            Some(credential)
        } else {
            None
        };
        let usual = match credential {
            Some(Credential::Chatgpt(_)) => BaseUrl::CHATGPT,
            _ => BaseUrl::OPENAI,
        };
        let base_url = match given {
            Some(url) => url,
            None => BaseUrl::parse(usual).map_err(RunError::usage)?,
        };
        let credential = match credential {
            Some(credential) => credential,
            None if base_url.is_loopback() => Credential::None,
            None => {
                let message = "no API key: set OPENAI_API_KEY or give --auth-file";
                return Err(RunError::usage(message));
            }
        };
        check(&credential)?;
        let refresh_url = args.allow_refresh.then(|| {
            let url = variable("CODEX_REFRESH_TOKEN_URL_OVERRIDE");
            BaseUrl::parse(url.as_deref().unwrap_or(BaseUrl::REFRESH))
        });
        let refresh_url = refresh_url.transpose().map_err(RunError::usage)?;
        Ok(Access { credential, file, base_url, refresh_url, warning })
    }

    /// For a run that asks no server.
    pub(super) fn none(given: Option<BaseUrl>) -> Result<Access, RunError> {
        let base_url = given.map_or_else(|| BaseUrl::parse(BaseUrl::OPENAI), Ok);
        Ok(Access {
            credential: Credential::None,
            file: None,
            base_url: base_url.map_err(RunError::usage)?,
            refresh_url: None,
            warning: None,
        })
    }
}

/// The server that the flag names, or the environment.
pub(super) fn base_url(args: &ExecArgs) -> Result<Option<BaseUrl>, RunError> {
    let url = args.base_url.clone().or_else(|| variable("OPENAI_BASE_URL"));
    url.map(|url| BaseUrl::parse(url.trim())).transpose().map_err(RunError::usage)
}

/// A variable that is not blank.
fn variable(name: &str) -> Option<String> {
    let value = env::var(name).ok()?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn auth_file(args: &ExecArgs) -> Option<PathBuf> {
    let usual = || {
        let path = Path::new(&variable("CODEX_HOME")?).join("auth.json");
        path.exists().then_some(path)
    };
    args.auth_file.clone().or_else(usual)
}

fn read(path: &Path) -> Result<Credential, RunError> {
    let text = files::read_text(path)?;
    Credential::of_file(&text)
        .map_err(|why| RunError::usage(format!("`{}` gives no key: {why}", path.display())))
}

/// A key that can stand in no header would be left out silently.
fn check(credential: &Credential) -> Result<(), RunError> {
    let text = match credential {
        Credential::None => return Ok(()),
        Credential::Key(key) => key,
        Credential::Chatgpt(tokens) => &tokens.access_token,
    };
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(RunError::usage("the key has characters that no header may have")),
    }
}
