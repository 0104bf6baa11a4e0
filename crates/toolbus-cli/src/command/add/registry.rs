//! A server of a registry: its document fetched or read, and what it describes.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use toolbus_engine::causes::causes;
use toolbus_engine::transport::http::{Client, Origin, Request, StatusCode, Timeouts, Uri, header};
use toolbus_engine::transport::tls::{ClientTls, Inside};
use toolbus_proto::registry::{
    CannotUse, DescribedServer, Document, NoDocument, Status, Wish, may_be_called,
};

use crate::clients::back_name;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::printable;
use crate::{runtime, stderr};

/// The registry that is asked if none is named.
const OFFICIAL: &str = "https://registry.modelcontextprotocol.io";
/// The variable that names another.
const VARIABLE: &str = "TOOLBUS_REGISTRY";
/// All of asking may take so long.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 1 << 20;
const REDIRECTS_MAX: usize = 3;

/// Flags about servers of a registry.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct RegistryArgs {
    /// What a server of a registry is called here [default: what stands behind the `/`]
    #[arg(long = "name", value_name = "NAME")]
    called: Option<String>,
    /// Ask this registry, or read this file [default: $TOOLBUS_REGISTRY, or the official one]
    #[arg(long, value_name = "URL|FILE")]
    registry: Option<String>,
    /// This version of a server of a registry [default: the latest]
    #[arg(long, id = "version", value_name = "VERSION")]
    version: Option<String>,
    /// Only a package of this type, e.g. `npm`, `pypi` or `oci`
    #[arg(long, value_name = "TYPE", conflicts_with = "remote")]
    package: Option<String>,
    /// Only by a URL
    #[arg(long)]
    remote: bool,
    /// Give an input of a server of a registry this value; may repeat
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// A server that was found.
pub(super) struct FoundServer {
    /// What its back is called.
    pub(super) name: String,
    pub(super) comment: String,
    pub(super) described: DescribedServer,
}

/// Is it a name as servers of a registry have it?
pub(super) fn is_server(word: &str) -> bool {
    let is_part = |part: &str, more: &str| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        !part.is_empty() && part.chars().all(is_fine)
    };
    word.split_once('/').is_some_and(|(space, name)| is_part(space, ".-") && is_part(name, "._-"))
}

impl RegistryArgs {
    /// None of them was given.
    pub(super) fn check_unused(&self) -> Result<(), Failed> {
        let flags = [
            ("--name", self.called.is_some()),
            ("--registry", self.registry.is_some()),
            ("--version", self.version.is_some()),
            ("--package", self.package.is_some()),
            ("--remote", self.remote),
            ("--set", !self.set.is_empty()),
        ];
        match flags.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => {
                Err(Failed::usage(format!("`{flag}` is for a server of a registry"))
                    .hint("its name has a `/`, as in `io.github.example/weather`"))
            }
        }
    }

    /// Finds a server, and what it describes.
    ///
    /// `env` are the variables that the user sets for it besides.
    pub(super) fn found(&self, server: &str, env: &[String]) -> Result<FoundServer, Failed> {
        let set = self.values()?;
        let document = self.document(server)?;
        match &document.status {
            Status::Active => {}
            Status::Deprecated(why) => {
                let why = why.as_ref().map(|why| format!(": {}", printable(why)));
                tracing::warn!("`{server}` is deprecated{}", why.unwrap_or_default());
            }
            Status::Deleted => {
                let message = format!("`{server}` was taken out of the registry");
                return Err(Failed::new(Exit::Failed, message));
            }
        }
        let (package, remote) = (self.package.as_deref(), self.remote);
        let described = document.back(Wish { package, remote, set: &set, env }, &is_program);
        let described = described.map_err(|why| cannot_use(server, why))?;
        for note in &described.notes {
            stderr::write(&format!("note: {}\n", printable(note)));
        }
        let own = server.rsplit('/').next().unwrap_or(server);
        let name = self.called.clone().unwrap_or_else(|| back_name(own, &[]));
        Ok(FoundServer { name, comment: document.comment(), described })
    }

    fn values(&self) -> Result<Vec<(String, String)>, Failed> {
        let value = |text: &String| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failed::usage("`--set` needs a name, a `=` and a value")
                .hint("write `--set NAME=VALUE`")),
        };
        self.set.iter().map(value).collect()
    }

    fn document(&self, server: &str) -> Result<Document, Failed> {
        let version = self.version.as_deref();
        let base = self.registry.clone().or_else(|| env::var(VARIABLE).ok());
        let base = base.filter(|base| !base.is_empty()).unwrap_or_else(|| OFFICIAL.to_owned());
        if !base.starts_with("http://") && !base.starts_with("https://") {
            let bytes = fs::read(Path::new(&base)).map_err(|error| {
                Failed::usage(format!("cannot read the registry `{base}`")).caused_by(&error)
            })?;
            let text = String::from_utf8(bytes).map_err(|_| wrong(server, "it is not UTF-8"))?;
            return Document::find(&text, server, version).map_err(|why| no_document(server, why));
        }
        if !may_be_called(&base) {
            let message = format!("the registry `{base}` must be reached by https");
            return Err(Failed::usage(message));
        }
        let text = runtime::block_on(async {
            let asked = tokio::time::timeout(PATIENCE, ask(&urls(&base, server, version))).await;
            let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
            asked.map_err(|why| {
                let message = format!("the registry `{base}` could not be asked: {why}");
                Failed::new(Exit::Unreachable, message)
            })
        })?;
        let text = text.ok_or_else(|| no_document(server, NoDocument::NotFound))?;
        Document::find(&text, server, version).map_err(|why| no_document(server, why))
    }
}

/// Where the document is asked for, in order.
fn urls(base: &str, server: &str, version: Option<&str>) -> Vec<String> {
    let base = base.strip_suffix('/').unwrap_or(base);
    if base.ends_with(".json") {
        return vec![base.to_owned()];
    }
    let name = server.replace('/', "%2F");
    let encode = |c: char| match c.is_ascii_alphanumeric() || "._-~".contains(c) {
        true => c.to_string(),
        false => {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
        }
    };
    let version: String = version.unwrap_or("latest").chars().map(encode).collect();
    let below = format!("servers/{name}/versions/{version}");
    match base.ends_with("/v0.1") || base.ends_with("/v1") {
        true => vec![format!("{base}/{below}")],
        false => vec![format!("{base}/v0.1/{below}"), format!("{base}/v1/{below}")],
    }
}

/// The first of these that is there; `None` if none is.
async fn ask(urls: &[String]) -> Result<Option<String>, String> {
    for url in urls {
        if let Some(text) = fetched(url).await? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

async fn fetched(url: &str) -> Result<Option<String>, String> {
    let mut url = url.to_owned();
    for _ in 0..=REDIRECTS_MAX {
        let (status, location, body) = get(&url).await?;
        match status {
            StatusCode::OK => {
                let text = String::from_utf8(body.to_vec());
                return text.map(Some).map_err(|_| "its answer is not UTF-8".to_owned());
            }
            StatusCode::NOT_FOUND => return Ok(None),
            status if status.is_redirection() => {
                let location = location.ok_or("it redirects nowhere")?;
                let next = joined(&url, &location);
                if !may_be_called(&next)
                    || url.starts_with("https://") && !next.starts_with("https://")
                {
                    return Err(format!("it redirects to `{}`", printable(&next)));
                }
                url = next;
            }
            status => return Err(format!("it answers {status}")),
        }
    }
    Err("it redirects too often".to_owned())
}

/// Where a redirect leads.
fn joined(url: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_owned();
    }
    let origin = url.find("://").map_or(0, |at| at + 3);
    let end = url[origin..].find('/').map_or(url.len(), |at| origin + at);
    match location.starts_with('/') {
        true => format!("{}{location}", &url[..end]),
        false => {
            let folder = url.rfind('/').filter(|at| end <= *at).map_or(url, |at| &url[..at]);
            format!("{folder}/{location}")
        }
    }
}

async fn get(url: &str) -> Result<(StatusCode, Option<String>, Bytes), String> {
    let uri: Uri = url.parse().map_err(|_| format!("`{}` is no URL", printable(url)))?;
    let is_secure = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let tls = match is_secure {
        true => Some(ClientTls::load(None, None, Inside::Http).map_err(|error| causes(&error))?),
        false => None,
    };
    let client = Client::new(Origin { host, port, tls }, 1, Duration::ZERO);
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = uri;
    let json = header::HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, json);
    let timeouts = Timeouts { connect: PATIENCE, head: Some(PATIENCE) };
    let answer = client.ask(request, timeouts).await.map_err(|error| causes(&error))?;
    let (head, mut body) = answer.into_parts();
    let location = head.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let location = location.map(str::to_owned);
    let body = match head.status {
        StatusCode::OK => body.collect(ANSWER_BYTES_MAX, PATIENCE).await,
        _ => Ok(Bytes::new()),
    };
    Ok((head.status, location, body.map_err(|error| causes(&error))?))
}

/// Is there a program of this name?
fn is_program(name: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_executable = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    env::split_paths(&folders).any(|folder| is_executable(&folder.join(name)))
}

fn no_document(server: &str, why: NoDocument) -> Failed {
    match why {
        NoDocument::NotFound => Failed::usage(format!("the registry has no server `{server}`")),
        NoDocument::Wrong(why) => wrong(server, &why),
    }
}

fn wrong(server: &str, why: &str) -> Failed {
    let message =
        format!("the registry's answer about `{server}` is no server document: {}", printable(why));
    Failed::new(Exit::Unreachable, message)
}

fn cannot_use(server: &str, why: CannotUse) -> Failed {
    match why {
        CannotUse::Nothing(types) => {
            let failed = Failed::usage(format!("`{server}` has nothing that can be run here"));
            let types: Vec<_> = types.iter().map(|kind| printable(kind).into_owned()).collect();
            match types.is_empty() {
                true => failed,
                false => failed.hint(format!("it has {}", types.join(", "))),
            }
        }
        CannotUse::Needs(name) => {
            Failed::usage(format!("`{server}` needs a value for `{}`", printable(&name)))
                .hint(format!("--set {}=VALUE", printable(&name)))
        }
        CannotUse::Unknown(name, meant) => {
            let meant = meant.map(|meant| format!("did you mean `{}`?", printable(&meant)));
            Failed::usage(format!("`{server}` has no input `{name}`")).hint_if_any(meant)
        }
        CannotUse::Wrong(why) => wrong(server, &why),
    }
}
