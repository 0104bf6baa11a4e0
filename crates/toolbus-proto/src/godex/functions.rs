//! What a model may call: functions that the command line declares, and the tools of a bus.

use crate::json::{Json, Kind, edit};
use crate::pattern::matches;
use crate::tool::{ToolName, ToolSpec};

/// The longest name of a function.
pub const NAME_CHARS_MAX: usize = 64;

/// Something that the model may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// As the model calls it.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, an object, compact.
    pub parameters: Json,
    /// Where its calls go.
    pub origin: Origin,
}

/// Where the calls of a function go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Who started us: we only tell what the model wants.
    Declared,
    /// The bus.
    Bus {
        /// The tool there.
        tool: ToolName,
        /// Its arguments are no object, and stand in `value`.
        is_wrapped: bool,
        /// It says of itself that it changes nothing.
        is_harmless: bool,
    },
}

impl Function {
    /// A tool of the bus as a function, or why it cannot be one.
    pub fn of_tool(tool: &ToolSpec) -> Result<Function, String> {
        let name = spelled(tool.name.as_str());
        if NAME_CHARS_MAX < name.len() {
            let (tool, len) = (&tool.name, name.len());
            return Err(format!(
                "the tool `{tool}` has a name of {len} characters; a model takes {NAME_CHARS_MAX}"
            ));
        }
        let (parameters, is_wrapped) = parameters(&tool.input);
        Ok(Function {
            name,
            description: tool.description.clone(),
            parameters,
            origin: Origin::Bus {
                tool: tool.name.clone(),
                is_wrapped,
                is_harmless: tool.hints.is_some_and(|hints| hints.read_only == Some(true)),
            },
        })
    }

    /// How its name came about, for errors.
    fn shown(&self) -> String {
        match &self.origin {
            Origin::Declared => format!("`--tool {}`", self.name),
            Origin::Bus { tool, .. } => format!("the tool `{tool}`"),
        }
    }
}

/// Adds the tools of the bus behind the functions that were declared, or tells which two would
/// have one name.
pub fn with_tools(functions: &mut Vec<Function>, tools: &[ToolSpec]) -> Result<(), String> {
    let mut names: std::collections::HashMap<String, usize> =
        functions.iter().enumerate().map(|(at, known)| (known.name.clone(), at)).collect();
    for tool in tools {
        let function = Function::of_tool(tool)?;
        if let Some(at) = names.insert(function.name.clone(), functions.len()) {
            let (one, two) = (functions[at].shown(), function.shown());
            return Err(format!("{one} and {two} would both be the function `{}`", function.name));
        }
        functions.push(function);
    }
    Ok(())
}

/// May a tool be offered, by patterns of names as toolbus lists them or as a model says them? All may
/// where there are none.
pub fn is_allowed(patterns: &[String], tool: &ToolName) -> bool {
    let name = tool.as_str();
    let allows = |pattern: &String| matches(pattern, name) || matches(pattern, &spelled(name));
    patterns.is_empty() || patterns.iter().any(allows)
}

/// A name as a model may say it.
fn spelled(name: &str) -> String {
    let allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    name.chars().map(|char| if allowed(char) { char } else { '_' }).collect()
}

/// Is it a name that a function may have?
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len()) && spelled(name) == name
}

/// The schema as that of an object, and whether the arguments were put into `value` for that.
fn parameters(input: &Json) -> (Json, bool) {
    let allows_anything = match input.kind() {
        Kind::Null => true,
        Kind::Bool => input.as_str() == "true",
        Kind::Object => edit::members(input.as_str()).next().is_none(),
        _ => false,
    };
    if allows_anything {
        return (Json::from_trusted(r#"{"type":"object","properties":{}}"#), false);
    }
    let schema = input.compact();
    if edit::text(schema.as_str(), "type").as_deref() == Some("object") {
        return (schema, false);
    }
    let text =
        format!(r#"{{"type":"object","properties":{{"value":{schema}}},"required":["value"]}}"#);
    (Json::from_trusted(text), true)
}

/// What a tool is called with, of what the model wrote: an object, and nothing means `{}`.
pub(super) fn arguments(text: &str, is_wrapped: bool) -> Result<Json, &'static str> {
    const NOT_AN_OBJECT: &str = "the arguments are not a JSON object";
    if text.trim().is_empty() {
        return Ok(Json::from_trusted("{}"));
    }
    let object = Json::parse(text.to_owned()).map_err(|_| NOT_AN_OBJECT)?;
    if object.kind() != Kind::Object {
        return Err(NOT_AN_OBJECT);
    }
    if !is_wrapped {
        return Ok(object);
    }
    let value = edit::member(object.as_str(), "value").ok_or("the arguments have no `value`")?;
    Ok(Json::part_of(object.as_bytes(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: &str) -> ToolSpec {
        ToolSpec::new(name, Json::parse(schema.to_owned()).unwrap())
    }

    #[test]
    fn names_are_spelled_as_a_model_may_say_them() {
        let function = Function::of_tool(&tool("back.tööl/1", "true")).unwrap();
        assert_eq!(function.name, "back_t__l_1");
        assert_eq!(function.parameters.as_str(), r#"{"type":"object","properties":{}}"#);
        assert!(Function::of_tool(&tool(&"x".repeat(65), "{}")).is_err());
        let mut functions = vec![function];
        let error = with_tools(&mut functions, &[tool("a.b", "{}"), tool("a_b", "{}")]);
        assert_eq!(
            error.unwrap_err(),
            "the tool `a.b` and the tool `a_b` would both be the function `a_b`"
        );
    }

    #[test]
    fn arguments_that_are_no_object_stand_in_value() {
        let function = Function::of_tool(&tool("a", r#"{ "type":"array" }"#)).unwrap();
        let Origin::Bus { is_wrapped, .. } = function.origin else { panic!("of the bus") };
        assert!(is_wrapped);
        assert_eq!(arguments(r#"{"value":[1]}"#, true).unwrap().as_str(), "[1]");
        assert!(arguments("{}", true).is_err());
        assert_eq!(arguments(" ", false).unwrap().as_str(), "{}");
        assert!(arguments("[1]", false).is_err());
        assert!(arguments("{", false).is_err());
    }
}
