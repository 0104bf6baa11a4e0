//! What a tool takes: a type that can be read from JSON, or the raw text.

use std::borrow::Cow;

use bytes::Bytes;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolbus_proto::json::{self, Scanner};
use toolbus_proto::tool::{Failure, FailureKind};

/// What a tool takes. Every type that derives `Deserialize` and `JsonSchema` is fit for it.
pub trait Arguments: Sized {
    /// What is known of them before a call.
    fn described() -> Described;

    /// Reads those of one call.
    fn read(arguments: Raw) -> Result<Self, Failure>;
}

/// What is known of a tool's arguments or reply before a call.
#[derive(Debug, Clone)]
pub struct Described {
    /// The JSON Schema.
    pub(super) schema: json::Json,
    /// The doc comment of the type.
    pub(super) description: Option<String>,
}

impl Described {
    pub(super) fn of<T: JsonSchema>(settings: SchemaSettings) -> Described {
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        // Two names that no caller needs: of the dialect, which is the usual one, and of the
        // type, which is the author's own business.
        schema.remove("$schema");
        schema.remove("title");
        let description = schema.remove("description");
        let description = description.and_then(|text| text.as_str().map(str::to_owned));
        Described { schema: json::Json::of(&schema), description }
    }
}

impl<T: DeserializeOwned + JsonSchema> Arguments for T {
    fn described() -> Described {
        Described::of::<T>(SchemaSettings::draft2020_12().for_deserialize())
    }

    fn read(arguments: Raw) -> Result<T, Failure> {
        let text = arguments.as_str();
        serde_json::from_str(text).map_err(|error| misfit::<T>(text, &error))
    }
}

/// Says what is wrong and where. Only now: a path is not kept while all goes well.
fn misfit<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> Failure {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = serde_path_to_error::deserialize::<_, T>(&mut reader).err();
    let path = found.map(|error| error.path().to_string()).filter(|path| path != ".");
    // The line and column say nothing to a caller that did not write the text by hand.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = error.to_string();
    let what = what.strip_suffix(&place).unwrap_or(&what);
    let message = match path {
        Some(path) => format!("argument `{path}`: {what}"),
        None => what.to_owned(),
    };
    Failure::new(FailureKind::InvalidArguments, message)
}

/// No arguments at all, for tools that need none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Nothing {}

/// One JSON value as its own text: what a tool takes that reads its arguments itself, and
/// what a tool answers that has its answer as JSON already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub(super) json::Json);

impl Raw {
    /// Takes text that must hold exactly one JSON value.
    pub fn parse(text: impl Into<Bytes>) -> Result<Raw, json::JsonError> {
        json::Json::parse(text).map(Raw)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The value of the member `name`, if this is an object that has it. Nothing is copied.
    pub fn member(&self, name: &str) -> Option<Raw> {
        let mut scanner = Scanner::new(self.as_str());
        let mut found = None;
        let mut is_first = true;
        if scanner.enter_object() {
            while let Ok(Some((key, value))) = scanner.member(is_first) {
                is_first = false;
                if toolbus_proto::jsonrpc::string(key).is_some_and(|key| key == name) {
                    // Of two the last counts, as most readers have it.
                    found = Some(value);
                }
            }
        }
        found.map(|value| Raw(json::Json::part_of(self.0.as_bytes(), value)))
    }

    /// The characters, if this is a string.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        toolbus_proto::jsonrpc::string(self.as_str())
    }
}

impl Arguments for Raw {
    fn described() -> Described {
        Described { schema: json::Json::from_trusted("{}"), description: None }
    }

    fn read(arguments: Raw) -> Result<Raw, Failure> {
        Ok(arguments)
    }
}
