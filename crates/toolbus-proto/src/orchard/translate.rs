//! Between the actions of Orchard and the tools of the bus, in both directions.
//!
//! An action is a tool of its name. A tool is an action of the name that HCL allows, its
//! properties are attributes; one whose arguments are no object with known properties takes
//! them whole, as the attribute `arguments`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::WIRE;
use super::schema::{self, Action, Attr, AttrError, PARALLEL, ProviderSchema, json_schema_of};
use super::types::schema::{FromSchema, Members, properties, read};
use super::types::{Field, Type};
use super::wire::Refusal;
use crate::json::{Json, Kind, edit, write_string};
use crate::jsonrpc::kind;
use crate::tool::{Code, Failure, FailureKind, Native, Outcome, ToolName, ToolSpec};
use crate::view::Rule;

/// The attribute of tools whose arguments have no names.
const ARGUMENTS: &str = "arguments";
/// The output of tools that give something else than an object.
const RESULT: &str = "result";
/// The output of tools that give text.
const TEXT: &str = "text";

/// An action as a tool.
pub fn tool(name: &str, action: &Action) -> ToolSpec {
    let output = action.outputs.as_ref().map(|outputs| {
        let mut out = Vec::new();
        outputs.write_json_schema(&mut out);
        Json::from_trusted(out)
    });
    let written = action.written.0.clone().unwrap_or_else(|| action.write());
    let native = Native { wire: WIRE, text: written.as_bytes().clone() };
    ToolSpec {
        description: action.description.clone(),
        output,
        native: Some(native),
        ..ToolSpec::new(name, json_schema_of(&action.attrs))
    }
}

/// What a provider says of its action, changed as a view says: every other byte stays.
pub fn action_seen(text: &str, rule: &Rule) -> Option<String> {
    const DESCRIPTION: &str = "description";
    let mut seen = text.to_owned();
    if rule.description.is_some() || rule.append.is_some() {
        let own = edit::text(&seen, DESCRIPTION);
        seen = match rule.description_of(own.as_deref()) {
            Some(description) => {
                edit::with_first(&seen, DESCRIPTION, Json::of(&description).as_str())
            }
            None => edit::removed(&seen, DESCRIPTION).unwrap_or(seen),
        };
    }
    if let Some(attrs) = edit::member(&seen, "attrs") {
        let mut left = attrs.to_owned();
        for name in rule.fixed.names() {
            left = edit::removed(&left, name).unwrap_or(left);
        }
        seen = edit::replaced(&seen, "attrs", &left)?;
    }
    Some(seen)
}

/// A tool as an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    tool: ToolName,
    action: Action,
    takes: Takes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Takes {
    /// All arguments, as one attribute.
    Whole,
    /// Arguments by name.
    Named {
        /// The properties whose attributes have another name, by the attribute.
        renamed: BTreeMap<String, String>,
        /// Attributes that may be `null` for the tool, with whether it wants them in any case.
        nullable: BTreeMap<String, bool>,
    },
}

impl Served {
    /// The tool, which the bus knows by the name in its spec.
    pub fn new(spec: &ToolSpec) -> Served {
        let tool = spec.name.clone();
        if let Some(action) = native(spec) {
            // A provider's own action: nothing of its types is lost.
            let (renamed, nullable) = (BTreeMap::new(), BTreeMap::new());
            return Served { tool, action, takes: Takes::Named { renamed, nullable } };
        }
        let (attrs, takes) = named(spec).unwrap_or_else(|| {
            let whole = (ARGUMENTS.to_owned(), Attr::from(Type::Any));
            ([whole].into(), Takes::Whole)
        });
        let description = spec.description.clone().or_else(|| spec.title.clone());
        let outputs = Some(Attr::from(output_type(spec.output.as_ref())));
        Served { tool, action: Action { description, attrs, outputs, ..Action::default() }, takes }
    }

    /// The tool's name on the bus.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// What it is offered as.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// The arguments that attributes stand for; `None` for none.
    pub fn arguments_of(&self, attrs: &Json) -> Result<Option<Json>, AttrError> {
        self.arguments(attrs.as_bytes(), Some(attrs.as_str()))
    }

    /// The same of attributes that are a part of `line`.
    pub(super) fn arguments(
        &self,
        line: &Bytes,
        attrs: Option<&str>,
    ) -> Result<Option<Json>, AttrError> {
        let given = schema::check("attrs", &self.action.attrs, attrs)?;
        let (renamed, nullable) = match &self.takes {
            Takes::Whole => {
                return Ok(given.get(ARGUMENTS).map(|value| Json::part_of(line, value)));
            }
            Takes::Named { renamed, nullable } => (renamed, nullable),
        };
        let is_left_out = |name: &str, value: &str| {
            kind(value) == Kind::Null
                && self.action.attrs[name].ty != Type::Any
                && !nullable.contains_key(name)
        };
        let missing_nulls =
            nullable.iter().filter(|(name, is_wanted)| **is_wanted && given.get(name).is_none());
        let missing_nulls: Vec<_> = missing_nulls.map(|(name, _)| name.as_str()).collect();
        let is_same = renamed.is_empty()
            && missing_nulls.is_empty()
            && !given.iter().any(|(name, value)| is_left_out(name, value));
        if is_same {
            let attrs = attrs.filter(|attrs| kind(attrs) == Kind::Object);
            let none = || Json::from_trusted("{}");
            return Ok(Some(attrs.map_or_else(none, |attrs| Json::part_of(line, attrs))));
        }
        let mut out = Vec::new();
        let mut arguments = Members::begin(&mut out);
        let property = |name: &str| renamed.get(name).map_or_else(|| name.to_owned(), Clone::clone);
        for (name, value) in given.iter().filter(|(name, value)| !is_left_out(name, value)) {
            arguments.raw(&property(name), value);
        }
        for name in missing_nulls {
            arguments.raw(&property(name), "null");
        }
        arguments.end();
        Ok(Some(Json::from_trusted(out)))
    }

    /// A reply as `outputs`.
    pub fn outputs(&self, outcome: &Outcome) -> Result<Bytes, Failure> {
        let mut out = Vec::new();
        let mut outputs = Members::begin(&mut out);
        match outcome {
            Outcome::Value(value) if value.kind() == Kind::Object => {
                return Ok(value.compact().as_bytes().clone());
            }
            Outcome::Value(value) => outputs.raw(RESULT, value.compact().as_str()),
            Outcome::Text(text) => {
                // What was declared as text in `result` comes as that.
                let declared = self.action.outputs.as_ref().map(|outputs| &outputs.ty);
                let is_result =
                    matches!(declared, Some(Type::Object(fields)) if fields.contains_key(RESULT));
                write_string(outputs.value(if is_result { RESULT } else { TEXT }), text);
            }
            Outcome::End(_) | Outcome::Native(_) | Outcome::Tools(_) => {
                let message = "the reply is of a kind that outputs cannot hold";
                return Err(Failure::new(FailureKind::BrokeProtocol, message));
            }
        }
        outputs.end();
        Ok(out.into())
    }
}

/// Tools as one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    name: String,
    version: String,
    actions: BTreeMap<String, Served>,
    /// Those of them that it does not speak of.
    untold: BTreeSet<String>,
}

/// Two tools that would be one action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tools `{first}` and `{second}` would both be the action `{action}`")]
pub struct Clash {
    /// The action.
    pub action: String,
    /// The tool that has it.
    pub first: ToolName,
    /// The tool that wants it, too.
    pub second: ToolName,
}

impl Provider {
    /// A provider of that name and version, without any action yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Provider {
        let (name, version) = (name.into(), version.into());
        Provider { name, version, actions: BTreeMap::new(), untold: BTreeSet::new() }
    }

    /// Offers one more tool, under the name that [`spelled`] makes of `name`.
    pub fn offer(&mut self, name: &str, served: Served) -> Result<(), Clash> {
        let action = spelled(name);
        if let Some(first) = self.actions.get(&action) {
            let (first, second) = (first.tool.clone(), served.tool);
            return Err(Clash { action, first, second });
        }
        self.actions.insert(action, served);
        Ok(())
    }

    /// The same, but it is not spoken of: callers know it otherwise.
    pub fn offer_untold(&mut self, name: &str, served: Served) -> Result<(), Clash> {
        self.offer(name, served)?;
        self.untold.insert(spelled(name));
        Ok(())
    }

    /// The tool behind an action.
    pub fn served(&self, action: &str) -> Option<&Served> {
        self.actions.get(action)
    }

    /// How it describes itself.
    pub fn schema(&self) -> ProviderSchema {
        let actions = self.actions.iter().filter(|(name, _)| !self.untold.contains(*name));
        ProviderSchema {
            name: self.name.clone(),
            version: self.version.clone(),
            config: BTreeMap::new(),
            actions: actions.map(|(name, served)| (name.clone(), served.action.clone())).collect(),
            extensions: vec![PARALLEL.to_owned()],
        }
    }
}

/// A name as HCL allows it: what it does not becomes `_`.
pub fn spelled(name: &str) -> String {
    let is_fine = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    let spelled: String = name.chars().map(|char| if is_fine(char) { char } else { '_' }).collect();
    match spelled.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        true => format!("_{spelled}"),
        false => spelled,
    }
}

fn native(spec: &ToolSpec) -> Option<Action> {
    let native = spec.native.as_ref().filter(|native| native.wire == WIRE)?;
    Action::read(&Json::parse(native.text.clone()).ok()?).ok()
}

/// The attributes of a tool whose arguments have names; `None` if they have none, or two of
/// them would have the same.
fn named(spec: &ToolSpec) -> Option<(schema::Attrs, Takes)> {
    let mut attrs = schema::Attrs::new();
    let (mut renamed, mut nullable) = (BTreeMap::new(), BTreeMap::new());
    for (property, from_schema, is_wanted) in properties(spec.input.as_str())? {
        let FromSchema { ty, is_nullable, default, description, is_sensitive } = from_schema;
        let name = spelled(&property);
        let required = is_wanted && !is_nullable;
        if is_nullable {
            nullable.insert(name.clone(), is_wanted);
        }
        if name != property {
            renamed.insert(name.clone(), property);
        }
        let attr = Attr { ty, required, default, description, sensitive: is_sensitive };
        if attrs.insert(name, attr).is_some() {
            return None;
        }
    }
    Some((attrs, Takes::Named { renamed, nullable }))
}

/// The type of the outputs of a tool with this output schema.
fn output_type(schema: Option<&Json>) -> Type {
    match schema.map_or(Type::Any, |schema| read(schema.as_str()).ty) {
        ty @ (Type::Any | Type::Object(_) | Type::Map(_)) => ty,
        other => Type::Object([(RESULT.to_owned(), Field::required(other))].into()),
    }
}

/// What the refusal of a provider means to a caller.
pub(super) fn failure(refusal: &Refusal<'_>) -> Failure {
    let kind = match &*refusal.code {
        "invalid_request" | "validation_failed" => FailureKind::InvalidArguments,
        "unknown_method" => FailureKind::BrokeProtocol,
        "unknown_action" => FailureKind::UnknownTool,
        "configure_failed" => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    };
    Failure {
        code: Some(Code::Word(refusal.code.to_string())),
        detail: refusal.detail.map(|detail| Json::from_trusted(detail.to_owned())),
        from_peer: true,
        ..Failure::new(kind, &*refusal.message)
    }
}

/// The code that a provider of ours gives a failure.
pub fn code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::UnknownTool => "unknown_action",
        FailureKind::InvalidArguments => "validation_failed",
        FailureKind::Failed | FailureKind::Gone | FailureKind::Unavailable => "execute_failed",
        FailureKind::BrokeProtocol => "internal_error",
        FailureKind::TimedOut => "timed_out",
        FailureKind::Cancelled => "cancelled",
        FailureKind::TooLarge => "too_large",
    }
}

/// What else is known of a failure, as text: the peer's own code, its detail, and what its
/// process wrote last.
pub fn detail(failure: &Failure) -> Option<String> {
    let said = code(failure.kind);
    let code = failure.code.as_ref().map(ToString::to_string).filter(|code| code != said);
    let mut lines: Vec<String> = code.map(|code| format!("code: {code}")).into_iter().collect();
    lines.extend(failure.detail.as_ref().map(Json::shown));
    lines.extend(failure.last_words.iter().flat_map(|words| words.stderr.iter().cloned()));
    Some(lines.join("\n")).filter(|detail| !detail.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_changes_only_as_a_view_says() {
        let action = r#"{"attrs":{"a":{"type":"any","x":1e400}, "b" : {"type":"string"}},"description":"old", "parallel":true}"#;
        let seen = |rule: Rule| action_seen(action, &rule).unwrap();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(seen(Rule { title: text("T"), ..Rule::default() }), action);
        let changed = seen(Rule { append: text("More."), ..Rule::default() });
        assert_eq!(changed, action.replace("\"old\"", "\"old\\n\\nMore.\""));
        let changed = seen(Rule { description: text(""), ..Rule::default() });
        assert_eq!(changed, action.replace(r#""description":"old", "#, ""));
        let fixed = [("b".to_owned(), Json::null())].into_iter().collect();
        let changed = seen(Rule { fixed, ..Rule::default() });
        assert_eq!(changed, action.replace(r#", "b" : {"type":"string"}"#, ""));
        let new = action_seen("{}", &Rule { append: text("d"), ..Rule::default() });
        assert_eq!(new.unwrap(), r#"{"description":"d"}"#);
    }
}
