//! Server documents of an MCP registry, and the back that one of them describes.
//!
//! Who writes such a document chooses what is run here, so it is read strictly: what it names is a
//! package or a URL, and the program that runs a package is ours to choose.

use serde_json::{Map, Value};

use crate::did_you_mean::nearest;

/// What a registry itself says of a server.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
/// So much of a description is kept.
const DESCRIPTION_CHARS_MAX: usize = 100;

/// A server as a registry describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its name: `io.github.x/y`.
    pub name: String,
    /// What is described, if that is said.
    pub version: Option<String>,
    description: String,
    /// What the registry thinks of it.
    pub status: Status,
    server: Map<String, Value>,
}

/// What a registry thinks of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It can be used.
    Active,
    /// It should not be any more; perhaps with a reason.
    Deprecated(Option<String>),
    /// It must not be.
    Deleted,
}

/// Why an answer is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoDocument {
    /// There is no server of that name and version in it.
    NotFound,
    /// It is no server document.
    Wrong(String),
}

/// What the user wants of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Packages of this type alone.
    pub package: Option<&'a str>,
    /// Remotes alone.
    pub remote: bool,
    /// Values by the names of their inputs.
    pub set: &'a [(String, String)],
    /// Names of variables that it is given besides, which a container has to be told of.
    pub env: &'a [String],
}

/// A back that a document describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedServer {
    /// How it is reached.
    pub reached: Reached,
    /// Set in its environment.
    pub env: Vec<(String, String)>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The secrets among the values that were given.
    pub secrets: Vec<String>,
}

/// How a back is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// By a program and its arguments.
    Command(Vec<String>),
    /// By a URL.
    Url {
        /// The URL.
        url: String,
        /// In the older way, of two streams.
        is_sse: bool,
    },
}

/// Why no back can be made of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotUse {
    /// Nothing of it can be run here; these it has.
    Nothing(Vec<String>),
    /// A value is missing.
    Needs(String),
    /// There is no input of this name; perhaps another is meant.
    Unknown(String, Option<String>),
    /// It is no server document after all.
    Wrong(String),
}

impl Document {
    /// Finds a server in an answer of a registry, or in a file.
    pub fn find(text: &str, name: &str, version: Option<&str>) -> Result<Document, NoDocument> {
        let wrong = |why: &str| NoDocument::Wrong(why.to_owned());
        let answer: Value = serde_json::from_str(text).map_err(|_| wrong("it is not JSON"))?;
        let Value::Object(answer) = answer else { return Err(wrong("it is no object")) };
        let Some(all) = answer.get("servers") else {
            let document = Document::of(&answer)?;
            if document.name != name {
                let other: String = document.name.chars().take(100).collect();
                return Err(NoDocument::Wrong(format!("its name is `{other}`")));
            }
            return match version.is_none_or(|version| document.version.as_deref() == Some(version))
            {
                true => Ok(document),
                false => Err(NoDocument::NotFound),
            };
        };
        let all = all.as_array().ok_or_else(|| wrong("`servers` is no array"))?;
        let named = all.iter().filter_map(Value::as_object).filter(|entry| {
            inner(entry).and_then(|server| server.get("name")) == Some(&Value::from(name))
        });
        let named: Vec<_> = named.collect();
        let found = match version {
            Some(version) => named.iter().find(|entry| {
                inner(entry).and_then(|server| server.get("version")) == Some(&Value::from(version))
            }),
            None => {
                let is_latest = |entry: &&&Map<String, Value>| {
                    official(entry).and_then(|own| own.get("isLatest")) == Some(&Value::Bool(true))
                };
                named.iter().find(is_latest).or_else(|| named.first())
            }
        };
        found.map_or(Err(NoDocument::NotFound), |entry| Document::of(entry))
    }

    fn of(entry: &Map<String, Value>) -> Result<Document, NoDocument> {
        let wrong = |why: &str| NoDocument::Wrong(why.to_owned());
        let server = inner(entry).ok_or_else(|| wrong("`server` is no object"))?;
        let text = |member: &str| match server.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(NoDocument::Wrong(format!("`{member}` is no text"))),
        };
        let name = text("name")?.ok_or_else(|| wrong("it has no `name`"))?;
        for (what, of) in [
            ("_meta", entry.get("_meta")),
            (OFFICIAL, entry.get("_meta").and_then(|meta| meta.get(OFFICIAL))),
        ] {
            if !matches!(of, None | Some(Value::Null | Value::Object(_))) {
                return Err(NoDocument::Wrong(format!("`{what}` is no object")));
            }
        }
        let own = official(entry);
        let said = |member: &str| own.and_then(|own| own.get(member)).and_then(Value::as_str);
        let status = match said("status") {
            Some("deprecated") => Status::Deprecated(said("statusMessage").map(plain)),
            Some("deleted") => Status::Deleted,
            _ => Status::Active,
        };
        let document = Document {
            name,
            version: text("version")?,
            description: text("description")?.unwrap_or_default(),
            status,
            server: server.clone(),
        };
        document.check().map_err(NoDocument::Wrong)?;
        Ok(document)
    }

    /// Is everything of the type that it should be, and nothing in it that would run something else?
    fn check(&self) -> Result<(), String> {
        for package in self.entries("packages")? {
            let identifier = text_of(package, "identifier")?.unwrap_or_default();
            let begins = identifier.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@');
            let is_fine = |c: char| c.is_ascii_alphanumeric() || "@._/:+-".contains(c);
            if !begins || !identifier.chars().all(is_fine) {
                return Err(format!("`{}` is no identifier of a package", plain(identifier)));
            }
            if let Some(version) = text_of(package, "version")? {
                let begins = version.starts_with(|c: char| c.is_ascii_alphanumeric());
                let is_fine = |c: char| c.is_ascii_alphanumeric() || ".+_-".contains(c);
                if !begins || !version.chars().all(is_fine) || version == "latest" {
                    return Err(format!("`{}` is no version of a package", plain(version)));
                }
            }
            text_of(package, "registryType")?;
            text_of(package, "runtimeHint")?;
            match package.get("transport") {
                None | Some(Value::Null) => {}
                Some(Value::Object(transport)) => drop(text_of(transport, "type")?),
                Some(_) => return Err("`transport` is no object".to_owned()),
            }
            for inputs in ["runtimeArguments", "packageArguments", "environmentVariables"] {
                check_inputs(package, inputs)?;
            }
        }
        for remote in self.entries("remotes")? {
            text_of(remote, "type")?;
            let url = text_of(remote, "url")?.ok_or("a remote has no `url`")?;
            if url.contains(char::is_control) {
                return Err("`url` has a control character".to_owned());
            }
            // One with variables is judged when they are known.
            if !url.contains('{') && !may_be_called(url) {
                return Err(no_url(url));
            }
            check_inputs(remote, "headers")?;
            check_variables(remote)?;
        }
        Ok(())
    }

    fn entries(&self, member: &str) -> Result<Vec<&Map<String, Value>>, String> {
        objects(&self.server, member)
    }

    /// What stands above its table: what it is, in one line.
    pub fn comment(&self) -> String {
        let version = self.version.as_ref().map(|version| format!(" {version}"));
        let description = plain(&self.description);
        let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
        let told = format!("{}{}", self.name, version.unwrap_or_default());
        match description.trim_end() {
            "" => plain(&told),
            description => plain(&format!("{told}: {description}")),
        }
    }

    /// The back that it describes; `is_program` tells whether there is a program of a name.
    pub fn back(
        &self,
        wish: Wish<'_>,
        is_program: &dyn Fn(&str) -> bool,
    ) -> Result<DescribedServer, CannotUse> {
        let packages = self.entries("packages").map_err(CannotUse::Wrong)?;
        let remotes = self.entries("remotes").map_err(CannotUse::Wrong)?;
        let kind = |entry: &Map<String, Value>, member: &str| {
            entry.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let is_stdio = |package: &&&Map<String, Value>| {
            let transport = package.get("transport").and_then(Value::as_object);
            let is_stdio = transport.is_some_and(|transport| kind(transport, "type") == "stdio");
            let own = kind(package, "registryType");
            let is_wanted = wish.package.is_none_or(|wanted| wanted == own);
            is_stdio && is_wanted && !wish.remote && runner(package).is_some()
        };
        let usable: Vec<_> = packages.iter().filter(is_stdio).collect();
        let runs = |package: &&&&Map<String, Value>| {
            runner(package).is_some_and(|runner| is_program(runner.program))
        };
        if let Some(package) = usable.iter().find(runs) {
            return run_by(package, wish);
        }
        let of = |wanted: &str| {
            let remote = remotes.iter().find(|remote| kind(remote, "type") == wanted);
            remote.filter(|_| wish.package.is_none())
        };
        if let Some(remote) = of("streamable-http").or_else(|| of("sse")) {
            return reached_at(remote, wish);
        }
        if let Some(package) = usable.first() {
            return run_by(package, wish);
        }
        let packages = packages.iter().map(|package| kind(package, "registryType"));
        Err(CannotUse::Nothing(packages.chain(remotes.iter().map(|it| kind(it, "type"))).collect()))
    }
}

/// What runs packages of a type.
struct Runner {
    program: &'static str,
    words: &'static [&'static str],
    /// Between a package and its version.
    version: &'static str,
    /// The hint is not followed.
    is_other: bool,
}

fn runner(package: &Map<String, Value>) -> Option<Runner> {
    let hint = package.get("runtimeHint").and_then(Value::as_str);
    let kind = package.get("registryType").and_then(Value::as_str)?;
    let of = |words: &'static [&'static str], version, is_other| Runner {
        program: words[0],
        words,
        version,
        is_other,
    };
    Some(match (kind, hint) {
        ("npm", Some("bunx")) => of(&["bunx"], "@", false),
        ("npm", hint) => of(&["npx", "-y"], "@", hint.is_some_and(|hint| hint != "npx")),
        ("pypi", Some("pipx")) => of(&["pipx", "run"], "==", false),
        ("pypi", hint) => of(&["uvx"], "@", hint.is_some_and(|hint| hint != "uvx")),
        ("oci", Some("podman")) => of(&["podman", "run", "-i", "--rm"], ":", false),
        ("oci", hint) => {
            let is_other = hint.is_some_and(|hint| hint != "docker");
            of(&["docker", "run", "-i", "--rm"], ":", is_other)
        }
        _ => return None,
    })
}

/// A package, run by its runner.
fn run_by(package: &Map<String, Value>, wish: Wish<'_>) -> Result<DescribedServer, CannotUse> {
    let Some(runner) = runner(package) else { return Err(CannotUse::Nothing(Vec::new())) };
    let mut given = GivenValues::new(wish.set);
    given.learn(package, &["environmentVariables", "runtimeArguments", "packageArguments"])?;
    // Before what is missing: one that is misspelt is both.
    given.check()?;
    let env = given.pairs(package, "environmentVariables")?;
    let mut words: Vec<String> = runner.words.iter().map(|word| (*word).to_owned()).collect();
    if runner.version == ":" {
        let besides = wish.env.iter().filter(|own| !env.iter().any(|(name, _)| name == *own));
        let names = env.iter().map(|(name, _)| name).chain(besides);
        words.extend(names.flat_map(|name| ["-e".to_owned(), name.clone()]));
    }
    words.extend(given.arguments(package, "runtimeArguments")?);
    let identifier = text_of(package, "identifier").ok().flatten().unwrap_or_default();
    let version = text_of(package, "version").ok().flatten();
    let is_tagged = identifier.contains('@')
        || identifier.rsplit('/').next().is_some_and(|name| name.contains(':'));
    words.push(match version {
        Some(version) if runner.version != ":" || !is_tagged => {
            format!("{identifier}{}{version}", runner.version)
        }
        _ => identifier.to_owned(),
    });
    words.extend(given.arguments(package, "packageArguments")?);
    let mut notes = Vec::new();
    if runner.is_other {
        let hint = package.get("runtimeHint").and_then(Value::as_str).unwrap_or_default();
        notes.push(format!(
            "it wants to be run by `{}`, which is not followed: `{}` runs it",
            plain(hint),
            runner.program
        ));
    }
    let described = DescribedServer {
        reached: Reached::Command(words),
        env,
        headers: Vec::new(),
        notes,
        secrets: given.secrets,
    };
    described.checked()
}

/// A server that is there already.
fn reached_at(remote: &Map<String, Value>, wish: Wish<'_>) -> Result<DescribedServer, CannotUse> {
    let mut given = GivenValues::new(wish.set);
    given.learn_variables(remote);
    given.learn(remote, &["headers"])?;
    given.check()?;
    let url = text_of(remote, "url").ok().flatten().unwrap_or_default();
    let url = given.filled(url, remote, Missing::IsAsked)?;
    let headers = given.pairs(remote, "headers")?;
    let is_sse = remote.get("type").and_then(Value::as_str) == Some("sse");
    let described = DescribedServer {
        reached: Reached::Url { url, is_sse },
        env: Vec::new(),
        headers,
        notes: Vec::new(),
        secrets: given.secrets,
    };
    described.checked()
}

impl DescribedServer {
    fn checked(self) -> Result<DescribedServer, CannotUse> {
        let words: Vec<&String> = match &self.reached {
            Reached::Command(words) => words.iter().collect(),
            Reached::Url { url, .. } => vec![url],
        };
        let pairs = self.env.iter().chain(&self.headers);
        let mut all = words.into_iter().chain(pairs.flat_map(|(name, value)| [name, value]));
        let has_control = all.any(|text| text.contains(char::is_control));
        drop(all);
        if has_control {
            return Err(CannotUse::Wrong("there is a control character in it".to_owned()));
        }
        if let Reached::Url { url, .. } = &self.reached
            && !may_be_called(url)
        {
            return Err(CannotUse::Wrong(no_url(url)));
        }
        Ok(self)
    }
}

fn no_url(url: &str) -> String {
    format!("`{}` is neither https nor this machine", plain(url))
}

/// Is it https, or http on this machine?
pub fn may_be_called(url: &str) -> bool {
    if url.starts_with("https://") {
        return true;
    }
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |host: &str| {
        let parts: Vec<_> = host.split('.').map(str::parse::<u8>).collect();
        host == "::1" || matches!(parts.as_slice(), [Ok(127), Ok(_), Ok(_), Ok(_)])
    };
    !authority.contains('@') && (host.eq_ignore_ascii_case("localhost") || is_loopback(host))
}

/// What becomes of an input that has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// It is a variable of the user's.
    IsVariable,
    /// The user has to give it.
    IsAsked,
}

/// The values that the user gives, and the names of all inputs.
struct GivenValues<'a> {
    set: &'a [(String, String)],
    known: Vec<String>,
    secrets: Vec<String>,
}

impl<'a> GivenValues<'a> {
    fn new(set: &'a [(String, String)]) -> GivenValues<'a> {
        GivenValues { set, known: Vec::new(), secrets: Vec::new() }
    }

    /// Notes how inputs are called, and the variables in their values.
    fn learn(&mut self, of: &Map<String, Value>, members: &[&str]) -> Result<(), CannotUse> {
        for member in members {
            for input in objects(of, member).map_err(CannotUse::Wrong)? {
                let names = ["name", "valueHint"].map(|name| text_of(input, name).ok().flatten());
                self.known.extend(names.into_iter().flatten().map(|name| bare(name).to_owned()));
                self.learn_variables(input);
            }
        }
        Ok(())
    }

    /// Nothing may be given that is no input.
    fn check(&self) -> Result<(), CannotUse> {
        let is_known = |name: &str| self.known.iter().any(|known| known == bare(name));
        match self.set.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let meant = nearest(bare(name), self.known.iter().map(String::as_str));
                Err(CannotUse::Unknown(name.clone(), meant.map(str::to_owned)))
            }
        }
    }

    /// Variables or header fields.
    fn pairs(
        &mut self,
        of: &Map<String, Value>,
        member: &str,
    ) -> Result<Vec<(String, String)>, CannotUse> {
        let mut pairs = Vec::new();
        for input in objects(of, member).map_err(CannotUse::Wrong)? {
            let name = text_of(input, "name").ok().flatten().unwrap_or_default();
            if let Some(value) = self.value(input, &[name], Missing::IsVariable)? {
                pairs.push((name.to_owned(), value));
            }
        }
        Ok(pairs)
    }

    fn arguments(
        &mut self,
        of: &Map<String, Value>,
        member: &str,
    ) -> Result<Vec<String>, CannotUse> {
        let mut words = Vec::new();
        for input in objects(of, member).map_err(CannotUse::Wrong)? {
            let text = |member| text_of(input, member).ok().flatten();
            let (name, hint) = (text("name"), text("valueHint"));
            let is_named = text("type") == Some("named");
            let names: Vec<&str> = match is_named {
                true => name.into_iter().chain(hint).collect(),
                false => hint.into_iter().chain(name).collect(),
            };
            let Some(value) = self.value(input, &names, Missing::IsAsked)? else { continue };
            words.extend(name.filter(|_| is_named).map(str::to_owned));
            words.push(value);
        }
        Ok(words)
    }

    /// The value of an input that goes by these names.
    fn value(
        &mut self,
        input: &Map<String, Value>,
        names: &[&str],
        missing: Missing,
    ) -> Result<Option<String>, CannotUse> {
        let flag = |member: &str| input.get(member) == Some(&Value::Bool(true));
        let is_it = |name: &str| names.iter().any(|own| bare(own) == bare(name));
        if let Some((name, value)) = self.set.iter().find(|(name, _)| is_it(name)) {
            if flag("isSecret") {
                self.secrets.push(bare(name).to_owned());
            }
            return Ok(Some(value.clone()));
        }
        if let Some(value) = text_of(input, "value").ok().flatten() {
            return self.filled(value, input, missing).map(Some);
        }
        if let Some(default) = text_of(input, "default").ok().flatten() {
            return Ok(Some(default.to_owned()));
        }
        let name = names.first().map_or("argument", |name| bare(name));
        match (flag("isRequired"), missing) {
            (false, _) => Ok(None),
            (true, Missing::IsVariable) => Ok(Some(variable(name))),
            (true, Missing::IsAsked) => Err(CannotUse::Needs(name.to_owned())),
        }
    }

    fn learn_variables(&mut self, input: &Map<String, Value>) {
        let variables = input.get("variables").and_then(Value::as_object);
        self.known.extend(variables.into_iter().flatten().map(|(name, _)| name.clone()));
    }

    /// A text whose `{x}` are the variables of an input.
    fn filled(
        &mut self,
        text: &str,
        input: &Map<String, Value>,
        missing: Missing,
    ) -> Result<String, CannotUse> {
        let variables = input.get("variables").and_then(Value::as_object);
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            filled.push_str(before);
            let found = behind.split_once('}').and_then(|(name, behind)| {
                Some((name, variables?.get(name)?.as_object()?, behind))
            });
            let Some((name, own, behind)) = found else {
                filled.push('{');
                rest = behind;
                continue;
            };
            let value = self.value(own, &[name], missing)?;
            filled.push_str(&match (value, missing) {
                (Some(value), _) => value,
                (None, Missing::IsVariable) => variable(name),
                (None, Missing::IsAsked) => String::new(),
            });
            rest = behind;
        }
        Ok(filled + rest)
    }
}

/// A name without the dashes of a flag.
fn bare(name: &str) -> &str {
    name.trim_start_matches('-')
}

/// `${NAME}`, for the user to set.
fn variable(name: &str) -> String {
    let spelled = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("${{{}}}", name.chars().map(spelled).collect::<String>())
}

/// A text of a registry in one line.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn inner(entry: &Map<String, Value>) -> Option<&Map<String, Value>> {
    match entry.get("server") {
        Some(server) => server.as_object(),
        None => Some(entry),
    }
}

fn official(entry: &Map<String, Value>) -> Option<&Map<String, Value>> {
    entry.get("_meta")?.get(OFFICIAL)?.as_object()
}

fn objects<'a>(
    of: &'a Map<String, Value>,
    member: &str,
) -> Result<Vec<&'a Map<String, Value>>, String> {
    let wrong = || format!("`{member}` is no array of objects");
    match of.get(member) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(entries)) => {
            entries.iter().map(|entry| entry.as_object().ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

fn text_of<'a>(of: &'a Map<String, Value>, member: &str) -> Result<Option<&'a str>, String> {
    match of.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{member}` is no text")),
    }
}

fn check_inputs(of: &Map<String, Value>, member: &str) -> Result<(), String> {
    for input in objects(of, member)? {
        check_input(input)?;
        let name = text_of(input, "name")?.unwrap_or_default();
        let is_pair = member == "environmentVariables" || member == "headers";
        if is_pair && (name.is_empty() || name.contains(['=', ' ', ':'])) {
            return Err(format!("`{name}` is no name in `{member}`"));
        }
        check_variables(input)?;
    }
    Ok(())
}

/// The texts and flags of an input.
fn check_input(input: &Map<String, Value>) -> Result<(), String> {
    for text in ["name", "value", "default", "valueHint", "type"] {
        if text_of(input, text)?.is_some_and(|text| text.contains(char::is_control)) {
            return Err(format!("`{text}` has a control character"));
        }
    }
    text_of(input, "description")?;
    for flag in ["isRequired", "isSecret"] {
        if !matches!(input.get(flag), None | Some(Value::Null | Value::Bool(_))) {
            return Err(format!("`{flag}` is neither true nor false"));
        }
    }
    Ok(())
}

fn check_variables(of: &Map<String, Value>) -> Result<(), String> {
    match of.get("variables") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(variables)) => variables.values().try_for_each(|variable| {
            check_input(variable.as_object().ok_or("`variables` are no objects")?)
        }),
        Some(_) => Err("`variables` is no object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(server: &Value, wish: Wish<'_>) -> Result<DescribedServer, CannotUse> {
        let document = Document::find(&server.to_string(), "a.b/c", None);
        let document = document.map_err(|why| CannotUse::Wrong(format!("{why:?}")))?;
        document.back(wish, &|program| ["npx", "docker"].contains(&program))
    }

    fn command(server: &Value, set: &[(&str, &str)]) -> String {
        let set: Vec<_> = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        match described(server, Wish { set: &set, ..Wish::default() }) {
            Ok(DescribedServer { reached: Reached::Command(words), env, .. }) => {
                format!("{} {env:?}", words.join(" "))
            }
            Ok(DescribedServer { reached: Reached::Url { url, .. }, headers, .. }) => {
                format!("{url} {headers:?}")
            }
            Err(why) => format!("{why:?}"),
        }
    }

    fn package(kind: &str, more: Value) -> Value {
        let mut package = json!({"registryType": kind, "identifier": "@x/y", "version": "1.2.3",
            "transport": {"type": "stdio"}});
        package.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": "a.b/c", "version": "1.2.3", "packages": [package]})
    }

    #[test]
    fn packages_are_run_by_their_runners() {
        let cases = [
            (package("npm", json!({})), "npx -y @x/y@1.2.3 []"),
            (package("npm", json!({"runtimeHint": "bunx"})), "bunx @x/y@1.2.3 []"),
            (package("npm", json!({"runtimeHint": "sh"})), "npx -y @x/y@1.2.3 []"),
            (package("pypi", json!({"identifier": "x"})), "uvx x@1.2.3 []"),
            (
                package("pypi", json!({"identifier": "x", "runtimeHint": "pipx"})),
                "pipx run x==1.2.3 []",
            ),
            (
                package(
                    "oci",
                    json!({"identifier": "h.io/x", "environmentVariables": [{"name": "K", "isRequired": true}, {"name": "L"}]}),
                ),
                "docker run -i --rm -e K h.io/x:1.2.3 [(\"K\", \"${K}\")]",
            ),
            (package("oci", json!({"identifier": "h:1/x:2"})), "docker run -i --rm h:1/x:2 []"),
            (package("mcpb", json!({})), "Nothing([\"mcpb\"])"),
        ];
        for (server, expected) in cases {
            assert_eq!(command(&server, &[]), expected, "{server}");
        }
    }

    #[test]
    fn values_come_from_the_user_the_document_and_variables() {
        let server = package(
            "npm",
            json!({
                "runtimeArguments": [{"type": "named", "name": "--cache", "default": "/c"}],
                "packageArguments": [
                    {"type": "positional", "valueHint": "path", "isRequired": true},
                    {"type": "named", "name": "--port", "value": "{host}:{other}",
                     "variables": {"host": {"default": "h"}}},
                    {"type": "named", "name": "--quiet"}
                ],
                "environmentVariables": [{"name": "API_KEY", "isRequired": true, "isSecret": true}]
            }),
        );
        assert_eq!(command(&server, &[]), "Needs(\"path\")");
        assert_eq!(
            command(&server, &[("path", "/p"), ("host", "x"), ("--quiet", "1")]),
            "npx -y --cache /c @x/y@1.2.3 /p --port x:{other} --quiet 1 [(\"API_KEY\", \"${API_KEY}\")]"
        );
        assert_eq!(
            command(&server, &[("path", "/p"), ("prot", "1")]),
            "Unknown(\"prot\", Some(\"port\"))"
        );
        // Not that `path` is missing.
        assert_eq!(command(&server, &[("pth", "/p")]), "Unknown(\"pth\", Some(\"path\"))");
    }

    #[test]
    fn a_server_that_is_there_is_called_by_its_url() {
        let remote = |url: &str| {
            json!({"name": "a.b/c", "packages": [], "remotes": [
                {"type": "sse", "url": "https://old"},
                {"type": "streamable-http", "url": url, "variables": {"t": {"isRequired": true}},
                 "headers": [{"name": "Authorization", "value": "Bearer {my-token}", "variables": {"my-token": {"isRequired": true}}}]}
            ]})
        };
        assert_eq!(
            command(&remote("https://h/{t}"), &[("t", "x")]),
            "https://h/x [(\"Authorization\", \"Bearer ${MY_TOKEN}\")]"
        );
        assert_eq!(command(&remote("https://h/{t}"), &[]), "Needs(\"t\")");
        for url in ["http://h/", "ftp://h", "http://localhost@h/", "file:///x"] {
            assert!(
                command(&remote(url), &[("t", "x")]).starts_with("Unknown")
                    || command(&remote(&format!("{url}{{t}}")), &[("t", "x")]).starts_with("Wrong"),
                "{url}"
            );
        }
        assert!(command(&remote("http://127.0.0.1:1/{t}"), &[("t", "x")]).starts_with("http:"));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let find = |text: &str| Document::find(text, "a.b/c", None).map(|found| found.comment());
        for wrong in [
            "x",
            "[]",
            "{}",
            r#"{"name": "a.b/d"}"#,
            r#"{"name": 1}"#,
            r#"{"name": "a.b/c", "packages": {}}"#,
            r#"{"name": "a.b/c", "packages": [{"identifier": "-x"}]}"#,
            r#"{"name": "a.b/c", "packages": [{"identifier": "x y"}]}"#,
            r#"{"name": "a.b/c", "packages": [{"identifier": "x", "version": "latest"}]}"#,
            r#"{"name": "a.b/c", "packages": [{"identifier": "x", "packageArguments": [{"value": "a\nb"}]}]}"#,
            r#"{"name": "a.b/c", "packages": [{"identifier": "x", "environmentVariables": [{"name": "A=B"}]}]}"#,
        ] {
            assert!(matches!(find(wrong), Err(NoDocument::Wrong(_))), "{wrong}");
        }
        assert_eq!(find(r#"{"servers": []}"#), Err(NoDocument::NotFound));
    }

    #[test]
    fn of_several_the_one_that_is_wanted_is_taken() {
        let list = json!({"servers": [
            {"server": {"name": "a.b/c", "version": "1", "description": "one\n"}},
            {"server": {"name": "a.b/c", "version": "2", "description": "two"}, "_meta": {OFFICIAL: {"isLatest": true, "status": "deprecated", "statusMessage": "use d"}}},
            {"name": "a.b/d", "version": "3"}
        ]})
        .to_string();
        let find = |version| Document::find(&list, "a.b/c", version);
        assert_eq!(find(None).unwrap().comment(), "a.b/c 2: two");
        assert_eq!(find(None).unwrap().status, Status::Deprecated(Some("use d".into())));
        assert_eq!(find(Some("1")).unwrap().comment(), "a.b/c 1: one");
        assert_eq!(find(Some("3")).unwrap_err(), NoDocument::NotFound);
    }
}
