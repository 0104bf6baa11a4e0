//! How a provider describes itself: its actions, what they take and give, and its config.
//!
//! [`ProviderSchema::read`] refuses what cannot be used, naming the place; what is odd and yet
//! can be used becomes a [`Note`]. Unknown members are ignored everywhere.

mod attrs;
mod read;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::types::schema::{Members, write_list};
use super::types::{Type, TypeError, schema as json_schema};
use super::value::Mismatch;
use crate::json::{Json, write_string};

pub use attrs::AttrError;
pub(super) use attrs::{check, write_converted};

/// The version of the protocol that we speak.
pub const PROTOCOL: &str = "1";
/// The extension of providers that may be asked again before they have answered.
pub const PARALLEL: &str = "parallel";

/// What a provider says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSchema {
    /// Its name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// What `configure` takes.
    pub config: Attrs,
    /// What `execute` can be asked for.
    pub actions: BTreeMap<String, Action>,
    /// What it can do beyond the protocol.
    pub extensions: Vec<String>,
}

/// Attributes by name.
pub type Attrs = BTreeMap<String, Attr>;

/// One action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Action {
    /// What it does, for people.
    pub description: Option<String>,
    /// What it takes.
    pub attrs: Attrs,
    /// What it gives; `None` if nothing.
    pub outputs: Option<Attr>,
    /// How its provider wrote it.
    pub written: Written,
}

/// How a provider wrote an action, if one did. It makes no difference to what the action is.
#[derive(Debug, Clone, Default)]
pub struct Written(pub Option<Json>);

impl PartialEq for Written {
    fn eq(&self, _: &Written) -> bool {
        true
    }
}

impl Eq for Written {}

/// One attribute, or the outputs of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attr {
    /// What values it may have.
    pub ty: Type,
    /// Must it be given?
    pub required: bool,
    /// What stands in its place if it is not; of its type.
    pub default: Option<Json>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Its values are secrets.
    pub sensitive: bool,
}

impl From<Type> for Attr {
    fn from(ty: Type) -> Attr {
        Attr { ty, required: false, default: None, description: None, sensitive: false }
    }
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// It is made for another version of the protocol, or does not say for which.
    #[error("{}, this host speaks \"{PROTOCOL}\"", found.as_ref().map_or("does not say which protocol it speaks".to_owned(), |found| format!("speaks protocol {found}")))]
    Protocol {
        /// The name and version it gave itself, as far as it did: `echo 0.1.0`.
        who: String,
        /// What stands in the place of the protocol, as JSON.
        found: Option<String>,
    },
    /// A part of it is wrong.
    #[error("{path}{}{fault}", if path.is_empty() { "" } else { ": " })]
    Part {
        /// Which, such as `actions.echo.attrs.text.type`; empty for the whole.
        path: String,
        /// What is wrong with it.
        fault: SchemaFault,
    },
}

/// What is wrong with a part of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaFault {
    /// A member that must be there is not.
    #[error("missing")]
    Missing,
    /// A text with nothing in it.
    #[error("must not be empty")]
    Empty,
    /// A value of another kind.
    #[error("want {want}, got {got}")]
    Kind {
        /// What is wanted.
        want: &'static str,
        /// What is there.
        got: &'static str,
    },
    /// A type that does not parse.
    #[error(transparent)]
    Type(TypeError),
    /// A default that cannot be converted to its type.
    #[error("{0}")]
    Default(Mismatch),
    /// An action that could not be written in a scenario.
    #[error(
        "an action's name must be an identifier: letters, digits, `_` and `-`, not a digit first"
    )]
    NotAnIdentifier,
}

impl SchemaError {
    /// The same as a sentence about the provider that people call `name`.
    pub fn told_of(&self, name: &str) -> String {
        match self {
            SchemaError::Protocol { who, .. } if !who.is_empty() => {
                format!("provider `{name}` ({who}) {self}")
            }
            SchemaError::Protocol { .. } => format!("provider `{name}` {self}"),
            SchemaError::Part { .. } => {
                format!("provider `{name}` has a schema that cannot be used: {self}")
            }
        }
    }

    /// What its author can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            SchemaError::Protocol { found: Some(found), .. } if found == PROTOCOL => {
                Some("`protocol` must be the string \"1\"".to_owned())
            }
            SchemaError::Protocol { found: None, .. } => {
                Some("the schema must hold `\"protocol\":\"1\"`".to_owned())
            }
            SchemaError::Protocol { .. } | SchemaError::Part { .. } => None,
        }
    }
}

/// Something odd in a schema that can be used all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where, such as `actions.echo.attrs.text`.
    pub path: String,
    /// What.
    pub oddity: Oddity,
}

/// What is odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// An attribute that must be given and yet has a default.
    RequiredWithDefault,
    /// A default that is JSON inside a string of JSON; it was unwrapped.
    DoubleEncoded,
    /// A member that the protocol does not have.
    Extra,
    /// A version that is a number; its digits were taken.
    VersionIsNumber,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.oddity {
            Oddity::RequiredWithDefault => "required, and yet it has a default",
            Oddity::DoubleEncoded => "the default is encoded twice, write it as plain JSON",
            Oddity::Extra => "the protocol has no such member",
            Oddity::VersionIsNumber => "should be a string",
        };
        write!(f, "{}: {what}", self.path)
    }
}

impl ProviderSchema {
    /// Reads a schema as a provider writes it.
    pub fn read(schema: &Json) -> Result<(ProviderSchema, Vec<Note>), SchemaError> {
        read::provider(schema.as_str())
    }

    /// The schema as we write it: one line, keys in the order of the document, names sorted.
    pub fn write(&self) -> Json {
        let mut out = Vec::new();
        let mut schema = Members::begin(&mut out);
        write_string(schema.value("name"), &self.name);
        write_string(schema.value("version"), &self.version);
        write_string(schema.value("protocol"), PROTOCOL);
        write_attrs(schema.value("config"), &self.config);
        let mut actions = Members::begin(schema.value("actions"));
        for (name, action) in &self.actions {
            action.write_to(actions.value(name));
        }
        actions.end();
        if !self.extensions.is_empty() {
            let write = |out: &mut Vec<u8>, name: &String| write_string(out, name);
            write_list(schema.value("extensions"), &self.extensions, write);
        }
        schema.end();
        Json::from_trusted(out)
    }

    /// May it be asked again before it has answered?
    pub fn is_parallel(&self) -> bool {
        self.extensions.iter().any(|extension| extension == PARALLEL)
    }
}

impl Action {
    /// Reads one action, as it stands in the schema of a provider.
    pub fn read(action: &Json) -> Result<Action, SchemaError> {
        read::action(action.as_str())
    }

    /// The action as it stands in the schema of a provider.
    pub fn write(&self) -> Json {
        let mut out = Vec::new();
        self.write_to(&mut out);
        Json::from_trusted(out)
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        let mut action = Members::begin(out);
        if let Some(description) = &self.description {
            write_string(action.value("description"), description);
        }
        if !self.attrs.is_empty() {
            write_attrs(action.value("attrs"), &self.attrs);
        }
        if let Some(outputs) = &self.outputs {
            outputs.write_to(action.value("outputs"));
        }
        action.end();
    }
}

impl Attr {
    fn write_to(&self, out: &mut Vec<u8>) {
        let mut attr = Members::begin(out);
        write_string(attr.value("type"), &self.ty.to_string());
        attr.raw("required", if self.required { "true" } else { "false" });
        if let Some(default) = &self.default {
            attr.raw("default", default.as_str());
        }
        if let Some(description) = &self.description {
            write_string(attr.value("description"), description);
        }
        if self.sensitive {
            attr.raw("sensitive", "true");
        }
        attr.end();
    }

    /// Its JSON Schema, with default, description and secrecy.
    pub(super) fn write_json_schema(&self, out: &mut Vec<u8>) {
        let description = self.description.as_deref();
        json_schema::write(out, &self.ty, self.default.as_ref(), description, self.sensitive);
    }
}

/// The JSON Schema of an object that has these attributes.
pub fn json_schema_of(attrs: &Attrs) -> Json {
    let mut out = Vec::new();
    let mut object = Members::begin(&mut out);
    object.raw("type", "\"object\"");
    let mut properties = Members::begin(object.value("properties"));
    for (name, attr) in attrs {
        attr.write_json_schema(properties.value(name));
    }
    properties.end();
    let required: Vec<_> = attrs.iter().filter(|(_, attr)| attr.required).collect();
    let write = |out: &mut Vec<u8>, (name, _): &(&String, &Attr)| write_string(out, name);
    write_list(object.value("required"), &required, write);
    object.raw("additionalProperties", "false");
    object.end();
    Json::from_trusted(out)
}

fn write_attrs(out: &mut Vec<u8>, attrs: &Attrs) {
    let mut members = Members::begin(out);
    for (name, attr) in attrs {
        attr.write_to(members.value(name));
    }
    members.end();
}

#[cfg(test)]
mod tests;
