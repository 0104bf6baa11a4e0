//! A schema as a provider writes it: refused with the place that is wrong, or read with notes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    Action, Attr, Attrs, Note, Oddity, PROTOCOL, ProviderSchema, SchemaError, SchemaFault, Written,
};
use crate::json::{Json, Kind, edit::elements, edit::members};
use crate::jsonrpc::{kind, string};
use crate::orchard::types::{self, Type, is_identifier};
use crate::orchard::value::{self, kind_shown, path_step};

pub(super) fn provider(text: &str) -> Result<(ProviderSchema, Vec<Note>), SchemaError> {
    let mut reader = Reader { notes: Vec::new() };
    let schema = reader.provider(text)?;
    Ok((schema, reader.notes))
}

pub(super) fn action(text: &str) -> Result<Action, SchemaError> {
    Reader { notes: Vec::new() }.action("", text)
}

struct Reader {
    notes: Vec<Note>,
}

type Object<'a> = BTreeMap<Cow<'a, str>, &'a str>;

impl Reader {
    fn provider(&mut self, text: &str) -> Result<ProviderSchema, SchemaError> {
        let schema = object("", text)?;
        let name = schema.get("name").copied().and_then(string).unwrap_or_default();
        let version = schema.get("version").copied().unwrap_or("\"\"");
        let version = match kind(version) {
            Kind::String => string(version).unwrap_or_default(),
            Kind::Number => {
                self.note("version".to_owned(), Oddity::VersionIsNumber);
                Cow::Borrowed(version)
            }
            _ => Cow::Borrowed(""),
        };
        // Before all else: what follows may mean something else in another version.
        let protocol = schema.get("protocol").copied().filter(|protocol| *protocol != "null");
        if protocol.and_then(string).as_deref() != Some(PROTOCOL) {
            let who = match name.is_empty() {
                true => String::new(),
                false => format!("{name} {version}").trim_end().to_owned(),
            };
            let found = protocol.map(str::to_owned);
            return Err(SchemaError::Protocol { who, found });
        }
        match schema.get("name") {
            None => return Err(part("name", SchemaFault::Missing)),
            Some(raw) if kind(raw) != Kind::String => {
                return Err(wrong_kind("name", "string", raw));
            }
            Some(_) if name.is_empty() => return Err(part("name", SchemaFault::Empty)),
            Some(_) => {}
        }
        let known = ["name", "version", "protocol", "config", "actions", "extensions"];
        self.note_extra("", &schema, &known);
        let config = self.attrs("config", present(&schema, "config"))?;
        let mut actions = BTreeMap::new();
        if let Some(all) = present(&schema, "actions") {
            for (name, raw) in object("actions", all)? {
                let path = format!("actions{}", path_step(&name));
                if !is_identifier(&name) {
                    return Err(part(&path, SchemaFault::NotAnIdentifier));
                }
                actions.insert(name.into_owned(), self.action(&path, raw)?);
            }
        }
        let extensions = schema.get("extensions").copied().into_iter().flat_map(elements);
        let extensions = extensions.filter_map(string).map(Cow::into_owned).collect();
        let (name, version) = (name.into_owned(), version.into_owned());
        Ok(ProviderSchema { name, version, config, actions, extensions })
    }

    fn action(&mut self, path: &str, text: &str) -> Result<Action, SchemaError> {
        let action = object(path, text)?;
        self.note_extra(path, &action, &["description", "attrs", "outputs"]);
        let attrs = self.attrs(&inside(path, "attrs"), present(&action, "attrs"))?;
        let outputs = match present(&action, "outputs") {
            Some(outputs) => Some(self.attr(&inside(path, "outputs"), outputs)?),
            None => None,
        };
        let description = description(&action);
        let written = Written(Some(Json::from_trusted(text.to_owned())));
        Ok(Action { description, attrs, outputs, written })
    }

    fn attrs(&mut self, path: &str, text: Option<&str>) -> Result<Attrs, SchemaError> {
        let mut attrs = Attrs::new();
        if let Some(text) = text {
            for (name, raw) in object(path, text)? {
                let attr = self.attr(&format!("{path}{}", path_step(&name)), raw)?;
                attrs.insert(name.into_owned(), attr);
            }
        }
        Ok(attrs)
    }

    fn attr(&mut self, path: &str, text: &str) -> Result<Attr, SchemaError> {
        let attr = object(path, text)?;
        let known = ["type", "required", "default", "description", "sensitive"];
        self.note_extra(path, &attr, &known);
        let at = inside(path, "type");
        let ty = present(&attr, "type").ok_or_else(|| part(&at, SchemaFault::Missing))?;
        let ty = string(ty).ok_or_else(|| wrong_kind(&at, "string", ty))?;
        let ty = types::parse(&ty).map_err(|error| part(&at, SchemaFault::Type(error)))?;
        let required = flag(path, &attr, "required")?;
        let sensitive = flag(path, &attr, "sensitive")?;
        let default = match present(&attr, "default") {
            Some(default) => Some(self.default(path, &ty, default)?),
            None => None,
        };
        if required && default.is_some() {
            self.note(path.to_owned(), Oddity::RequiredWithDefault);
        }
        Ok(Attr { ty, required, default, description: description(&attr), sensitive })
    }

    /// A default, brought to its type. One that is JSON inside a string is unwrapped once.
    fn default(&mut self, path: &str, ty: &Type, raw: &str) -> Result<Json, SchemaError> {
        if let Some(text) = string(raw)
            && let Ok(inner) = Json::parse(text.into_owned())
            && (*ty != Type::String || inner.kind() == Kind::String)
            && let Ok(default) = value::convert(ty, &inner)
            && !default.value.is_null()
        {
            self.note(path.to_owned(), Oddity::DoubleEncoded);
            return Ok(default.value);
        }
        let default = Json::from_trusted(raw.to_owned());
        let fault = |mismatch| part(&inside(path, "default"), SchemaFault::Default(mismatch));
        Ok(value::convert(ty, &default).map_err(fault)?.value)
    }

    fn note(&mut self, path: String, oddity: Oddity) {
        self.notes.push(Note { path, oddity });
    }

    fn note_extra(&mut self, path: &str, object: &Object<'_>, known: &[&str]) {
        for name in object.keys().filter(|name| !known.contains(&&***name)) {
            self.note(inside(path, name), Oddity::Extra);
        }
    }
}

/// The members of a value that must be an object; of two of one name the last.
fn object<'a>(path: &str, text: &'a str) -> Result<Object<'a>, SchemaError> {
    match kind(text) {
        Kind::Object => Ok(members(text).collect()),
        _ => Err(wrong_kind(path, "object", text)),
    }
}

/// A member that is there and not `null`.
fn present<'a>(object: &Object<'a>, name: &str) -> Option<&'a str> {
    object.get(name).copied().filter(|raw| kind(raw) != Kind::Null)
}

fn flag(path: &str, object: &Object<'_>, name: &str) -> Result<bool, SchemaError> {
    match present(object, name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(wrong_kind(&inside(path, name), "bool", other)),
    }
}

fn description(object: &Object<'_>) -> Option<String> {
    let description = object.get("description").copied().and_then(string)?;
    Some(description.into_owned()).filter(|description| !description.is_empty())
}

fn inside(path: &str, name: &str) -> String {
    match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}{}", path_step(name)),
    }
}

fn part(path: &str, fault: SchemaFault) -> SchemaError {
    SchemaError::Part { path: path.to_owned(), fault }
}

fn wrong_kind(path: &str, want: &'static str, raw: &str) -> SchemaError {
    part(path, SchemaFault::Kind { want, got: kind_shown(kind(raw)) })
}
