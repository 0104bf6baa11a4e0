//! One server in the text of a client's config: looked up, put in, taken out. No file is touched here.

use std::path::Path;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};
use toolbus_proto::edit::jsonc::{self, Document};
use toolbus_proto::edit::toml::{CannotEdit, TablePlace, Tables};

use crate::clients::{LinkFormat, Linkable, array, key, quoted};

/// The server of this name, if there is one; or why the text is no config.
pub(super) fn present(client: &Linkable, name: &str, text: &str) -> Result<Option<Value>, String> {
    if is_empty(text) {
        return Ok(None);
    }
    match client.format {
        LinkFormat::Json { object, inner } => {
            let document = Document::read(text).map_err(|why| told(&why))?;
            document.value(&path(&document, object, inner, name)).map_err(|why| told(&why))
        }
        LinkFormat::Toml { family } => {
            let table = DeTable::parse(text.trim_start_matches('\u{feff}'));
            let table = table.map_err(|error| format!("it is not TOML: {}", error.message()))?;
            let servers = match table.get_ref().get(family).map(toml::Spanned::get_ref) {
                None => return Ok(None),
                Some(DeValue::Table(servers)) => servers,
                Some(_) => return Err(format!("`{family}` is no table")),
            };
            Ok(servers.get(name).map(|server| of_toml(server.get_ref())))
        }
    }
}

/// The text with this server in it.
pub(super) fn linked(
    client: &Linkable,
    name: &str,
    text: &str,
    entry: &Value,
) -> Result<String, String> {
    match client.format {
        LinkFormat::Json { object, .. } if is_empty(text) => {
            let mut whole = Map::new();
            let servers: Map<_, _> = [(name.to_owned(), entry.clone())].into_iter().collect();
            whole.insert(object.to_owned(), Value::Object(servers));
            Ok(jsonc::in_lines(&Value::Object(whole), "", "  ") + "\n")
        }
        LinkFormat::Json { object, inner } => {
            let document = Document::read(text).map_err(|why| told(&why))?;
            let path = path(&document, object, inner, name);
            document.with(&path, entry).map_err(|why| told(&why))
        }
        LinkFormat::Toml { family } => {
            let table = table(family, name, entry);
            if is_empty(text) {
                return Ok(table);
            }
            let tables = Tables::read(text).map_err(|why| told_of_toml(why, family))?;
            let new = match tables.has(family, name) {
                true => tables.replaced(family, name, &table, TablePlace::AtTheEnd),
                false => tables.with(family, &table, TablePlace::AtTheEnd),
            };
            new.map_err(|why| told_of_toml(why, family))
        }
    }
}

/// The text without the server of this name.
pub(super) fn unlinked(client: &Linkable, name: &str, text: &str) -> Result<String, String> {
    match client.format {
        LinkFormat::Json { object, inner } => {
            let document = Document::read(text).map_err(|why| told(&why))?;
            document.without(&path(&document, object, inner, name)).map_err(|why| told(&why))
        }
        LinkFormat::Toml { family } => {
            let tables = Tables::read(text).map_err(|why| told_of_toml(why, family))?;
            Ok(tables.without_alone(family, name))
        }
    }
}

/// Is it a toolbus that this server is?
pub(super) fn is_ours(entry: &Value) -> bool {
    let first = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => words.first()?.as_str().map(str::to_owned),
        Value::Object(command) => command.get("path")?.as_str().map(str::to_owned),
        _ => None,
    };
    let named = entry
        .get("command")
        .and_then(first)
        .and_then(|program| Some(Path::new(&program).file_name()?.to_string_lossy().into_owned()));
    if let Some(name) = named {
        let own = std::env::current_exe().ok();
        let own = own.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        return name == "toolbus" || own.is_some_and(|own| own == name);
    }
    let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry.get(*key)?.as_str());
    url.is_some_and(is_loopback)
}

fn is_loopback(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_local && ["http", "https"].contains(&scheme) && !authority.contains('@')
}

fn is_empty(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// Where a server stands.
fn path<'p>(
    document: &Document<'_>,
    object: &'p str,
    inner: Option<&'p str>,
    name: &'p str,
) -> Vec<&'p str> {
    match inner {
        Some(inner) if document.is_object(&[object, inner]) => vec![object, inner, name],
        _ => vec![object, name],
    }
}

fn table(family: &str, name: &str, entry: &Value) -> String {
    let mut text = format!("[{family}.{}]\n", key(name));
    for (name, value) in entry.as_object().into_iter().flatten() {
        let value = match value {
            Value::Array(items) => {
                let items = items.iter().filter_map(Value::as_str).map(str::to_owned);
                array(&items.collect::<Vec<_>>())
            }
            Value::String(text) => quoted(text),
            other => other.to_string(),
        };
        text += &format!("{} = {value}\n", key(name));
    }
    text
}

fn of_toml(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Array(items) => items.iter().map(|item| of_toml(item.get_ref())).collect(),
        DeValue::Table(table) => {
            // As they stand in the file, which is how they are written again.
            let mut members: Vec<_> = table.iter().collect();
            members.sort_by_key(|(name, _)| name.span().start);
            let member = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                (name.to_string(), of_toml(value.get_ref()))
            };
            Value::Object(members.into_iter().map(member).collect())
        }
        DeValue::Integer(number) => Value::from(number.as_str()),
        DeValue::Float(number) => Value::from(number.as_str()),
        DeValue::Datetime(time) => Value::from(time.to_string()),
    }
}

fn told(why: &jsonc::CannotEdit) -> String {
    match why {
        jsonc::CannotEdit::Syntax { line } => format!("it is not JSON (line {line})"),
        jsonc::CannotEdit::Doubled(name) => format!("`{name}` is there twice"),
        jsonc::CannotEdit::NoObject(name) if name.is_empty() => "it is no object".to_owned(),
        jsonc::CannotEdit::NoObject(name) => format!("`{name}` is no object"),
    }
}

fn told_of_toml(why: CannotEdit, family: &str) -> String {
    match why {
        CannotEdit::Syntax => "it is not TOML".to_owned(),
        CannotEdit::Inline => format!("`{family}` is an inline table"),
    }
}
