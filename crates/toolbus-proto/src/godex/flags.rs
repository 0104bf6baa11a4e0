//! What the flags of `godex exec` mean: each checked here, and wrong ones told in words.
//!
//! Reading the command line and its files is the business of the face; every text that it finds
//! there comes through here.

use super::Function;
use super::functions::{NAME_CHARS_MAX, Origin, is_name};
use super::request::{Choice, Request};
use crate::json::{Json, JsonError, Kind, edit};

pub use super::request::{Image, message};

/// What is said where there is nothing to ask.
pub const NO_PROMPT: &str = "--prompt is required unless --input-json is provided";

/// The system prompt: `--instructions` and `--system` are one thing under two names.
pub fn instructions(
    instructions: Option<&str>,
    system: Option<&str>,
    append: Option<&str>,
) -> Result<String, String> {
    let some = |text: Option<&str>| text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let base = match (some(instructions), some(system)) {
        (Some(one), Some(two)) if one != two => {
            return Err("--instructions and --system are the same, and say different things; \
                        give one of them"
                .to_owned());
        }
        (one, two) => one.or(two),
    };
    let base = base.unwrap_or_else(|| Request::INSTRUCTIONS.to_owned());
    Ok(match some(append) {
        Some(append) => format!("{}\n\n{}", base.trim(), append.trim()),
        None => base,
    })
}

/// The prompt, given by its flag or as a positional argument; `None` if it is missing.
pub fn prompt(flag: Option<String>, positional: &[String]) -> Result<Option<String>, String> {
    let prompt = match (flag, positional) {
        (Some(_), [_, ..]) => {
            return Err("the prompt is given twice: by --prompt and without; give one".to_owned());
        }
        (None, [_, second, ..]) => {
            return Err(format!(
                "only one prompt can be given, and `{second}` is another; quote it"
            ));
        }
        (Some(prompt), []) => Some(prompt),
        (None, [prompt]) => Some(prompt.clone()),
        (None, []) => None,
    };
    Ok(prompt.filter(|prompt| !prompt.trim().is_empty()))
}

/// A prompt that was read from standard input: one line ending at its end is not meant.
pub fn piped_prompt(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// What `--tool` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolFlag {
    /// The same as `--web-search`.
    WebSearch,
    /// A function of that name, with its schema.
    Function(String, SchemaFrom),
}

/// Where the schema of a function stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaFrom {
    /// In this file.
    File(String),
    /// Here.
    Inline(String),
}

impl ToolFlag {
    /// Reads `name:json=PATH`, `name:inline=SCHEMA` or `web_search`.
    pub fn parse(value: &str) -> Result<ToolFlag, String> {
        if value == "web_search" {
            return Ok(ToolFlag::WebSearch);
        }
        let cut = |marker: &str| value.find(marker).map(|at| (at, at + marker.len()));
        let (json, inline) = (cut(":json="), cut(":inline="));
        let is_inline = match (json, inline) {
            (Some(json), Some(inline)) => inline < json,
            (None, Some(_)) => true,
            _ => false,
        };
        let Some((end, from)) = (if is_inline { inline } else { json }) else {
            return Err(format!(
                "--tool {value}: expected `name:json=PATH`, `name:inline=SCHEMA` or `web_search`"
            ));
        };
        let (name, rest) = (&value[..end], &value[from..]);
        if !is_name(name) {
            return Err(format!(
                "--tool {value}: `{name}` is no name of a function; it is 1 to {NAME_CHARS_MAX} \
                 letters, digits, `_` and `-`"
            ));
        }
        if rest.trim().is_empty() {
            let what = if is_inline { "schema" } else { "file" };
            return Err(format!("--tool {value}: the {what} is missing"));
        }
        let schema = match is_inline {
            true => SchemaFrom::Inline(rest.to_owned()),
            false => SchemaFrom::File(rest.to_owned()),
        };
        Ok(ToolFlag::Function(name.to_owned(), schema))
    }
}

/// A function as `value`, the flag's, declares it; its name must be new.
pub fn declare(
    functions: &mut Vec<Function>,
    value: &str,
    name: String,
    schema: Json,
) -> Result<(), String> {
    if functions.iter().any(|known| known.name == name) {
        return Err(format!("--tool {value}: there are two functions `{name}`"));
    }
    let (description, origin) = (None, Origin::Declared);
    functions.push(Function { name, description, parameters: schema, origin });
    Ok(())
}

/// One JSON object, compact; `named` says where it stands.
pub fn object(named: &str, text: &str) -> Result<Json, String> {
    let json = parse(named, text)?;
    match json.kind() {
        Kind::Object => Ok(json.compact()),
        kind => Err(format!("{named}: expected a JSON object, found {}", called(kind))),
    }
}

/// The items of `--input-json`, each compact and otherwise untouched.
pub fn input(named: &str, text: &str) -> Result<Vec<Json>, String> {
    let json = parse(named, text)?;
    if json.kind() != Kind::Array {
        let found = called(json.kind());
        return Err(format!("{named}: expected a JSON array of objects, found {found}"));
    }
    let items = edit::elements(json.as_str()).enumerate();
    items
        .map(|(index, item)| {
            let item = Json::part_of(json.as_bytes(), item);
            match item.kind() {
                Kind::Object => Ok(item.compact()),
                kind => Err(format!(
                    "{named}: element {} is {}, and must be an object",
                    index + 1,
                    called(kind)
                )),
            }
        })
        .collect()
}

fn parse(named: &str, text: &str) -> Result<Json, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Json::parse(text.to_owned()).map_err(|error| match error {
        JsonError::Unexpected { found, offset } => {
            let before = &text.as_bytes()[..offset.min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
            format!("{named}: not JSON: unexpected {found} at line {line} column {column}")
        }
        error => format!("{named}: {error}"),
    })
}

fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool => "a boolean",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "an array",
        Kind::Object => "an object",
    }
}

/// What `--tool-choice` says.
pub fn choice(value: &str) -> Result<Choice, String> {
    let value = value.trim();
    let wrong = |why: &str| Err(format!("--tool-choice {value}: {why}"));
    match value {
        "" | "auto" => Ok(Choice::Auto),
        "none" => Ok(Choice::None),
        "required" => Ok(Choice::Required),
        _ => match value.strip_prefix("function:") {
            Some("") => wrong("the name of the function is missing"),
            Some(name) => Ok(Choice::Function(name.to_owned())),
            None => wrong("expected `auto`, `none`, `required` or `function:NAME`"),
        },
    }
}

/// Can the model choose so? Its tools must be known.
pub fn check_choice(choice: &Choice, request: &Request) -> Result<(), String> {
    let named = match choice {
        Choice::Auto | Choice::None => return Ok(()),
        Choice::Required => "required".to_owned(),
        Choice::Function(name) => format!("function:{name}"),
    };
    let wrong = |why: &str| Err(format!("--tool-choice {named}: {why}"));
    match choice {
        _ if !request.has_tools() => wrong("there are no tools; give some with --tool"),
        Choice::Function(name) if request.function(name).is_none() => {
            wrong("no function of that name is offered")
        }
        _ => Ok(()),
    }
}

/// Can it be a session, which is a header, too?
pub fn session_id(id: &str) -> Result<(), String> {
    let is_one = (1..=256).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    match is_one {
        true => Ok(()),
        false => {
            Err("--session-id: expected 1 to 256 printable ASCII characters without space"
                .to_owned())
        }
    }
}

/// A temperature as a number in JSON.
pub fn temperature(value: &str) -> Result<String, String> {
    let number = value.trim().parse::<f64>().ok();
    match number.filter(|number| number.is_finite() && 0.0 <= *number) {
        // As it was written, where that is JSON, too.
        Some(number) => Ok(match Json::parse(value.trim().to_owned()) {
            Ok(json) if json.kind() == Kind::Number => json.as_str().to_owned(),
            _ => number.to_string(),
        }),
        None => Err(format!("--temperature {value}: expected a number that is not negative")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools() {
        let function = |name: &str, schema| Ok(ToolFlag::Function(name.to_owned(), schema));
        assert_eq!(ToolFlag::parse("web_search"), Ok(ToolFlag::WebSearch));
        assert_eq!(
            ToolFlag::parse("a:inline={\":json=\":1}"),
            function("a", SchemaFrom::Inline("{\":json=\":1}".into()))
        );
        assert_eq!(
            ToolFlag::parse("a-b:json=x:inline=y"),
            function("a-b", SchemaFrom::File("x:inline=y".into()))
        );
        for wrong in ["a", ":json=x", "a:json=", "a:inline= ", " a:json=x", "é:json=x", "a:x"] {
            let error = ToolFlag::parse(wrong).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn wrong_json_is_shown_with_its_place() {
        assert_eq!(
            object("a.json", "{\n \"é\": x}").unwrap_err(),
            "a.json: not JSON: unexpected `x` at line 2 column 7"
        );
        assert!(object("a.json", "[1]").unwrap_err().contains("found an array"));
        assert!(object("a.json", "{} {}").is_err());
        assert_eq!(input("i", "[ {\"a\": 1.0} ]").unwrap()[0].as_str(), "{\"a\":1.0}");
        assert!(input("i", "[{}, 1]").unwrap_err().contains("element 2 is a number"));
        assert!(input("i", "{}").is_err());
    }

    #[test]
    fn prompts() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(prompt(some(" a "), &[]), Ok(some(" a ")));
        assert_eq!(prompt(some(" "), &[]), Ok(None));
        assert_eq!(prompt(None, &["b".into()]), Ok(some("b")));
        assert!(prompt(some("a"), &["b".into()]).is_err());
        assert!(prompt(None, &["b".into(), "c".into()]).is_err());
        assert_eq!(piped_prompt("a\r\n"), "a");
        assert_eq!(piped_prompt("a\n\n"), "a\n");
    }

    #[test]
    fn numbers_and_sessions() {
        assert_eq!(temperature("0.70").as_deref(), Ok("0.70"));
        assert_eq!(temperature("1.").as_deref(), Ok("1"));
        for wrong in ["-1", "nan", "inf", "x", ""] {
            assert!(temperature(wrong).is_err(), "{wrong}");
        }
        assert!(session_id("s1").is_ok());
        for wrong in ["", "a b", "é", &"x".repeat(257)] {
            assert!(session_id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_names_for_one_system_prompt() {
        assert_eq!(instructions(Some("a"), Some("a"), None).as_deref(), Ok("a"));
        assert!(instructions(Some("a"), Some("b"), None).is_err());
        let default = format!("{}\n\nmore", Request::INSTRUCTIONS);
        assert_eq!(instructions(None, Some(" "), Some(" more ")), Ok(default));
        assert_eq!(instructions(Some(" a "), None, Some(" ")).as_deref(), Ok(" a "));
    }
}
