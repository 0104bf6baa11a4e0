//! Arguments against the schema of their tool, before they are sent: what is surely wrong with them.
//!
//! Only as much of JSON Schema is understood as tells that: types, lists of values, bounds, members
//! and elements, references into the same document and alternatives. What is not understood fits,
//! and so does what could be read in two ways: the tool has the last word. The sentences are those
//! of the tools inside toolbus as well.

use std::cell::Cell;

use crate::did_you_mean::{hinted, nearest};
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::tool::{Failure, FailureKind, ToolSpec};

/// How deep a value and its schema are looked at.
const DEPTH_MAX: usize = 32;
/// How many bytes of schema and value are looked at in all, besides some looks at the whole of them:
/// a schema may lead into itself by many ways at once.
const LOOKED_BYTES_MAX: usize = 8 << 20;
/// How often the whole of them is looked at besides.
const LOOKS: usize = 8;
/// How many of the values that something may have are told.
const TOLD_MAX: usize = 10;

/// Refuses arguments that cannot be right by the schema of their tool.
pub fn judge(tool: &ToolSpec, arguments: Option<&Json>) -> Result<(), Failure> {
    let given = arguments.filter(|given| !given.is_null()).map_or("{}", Json::as_str).trim();
    let judging = Judging::of(tool.input.as_str(), given);
    match judging.fault(judging.root, given, "", 0) {
        Some(fault) => Err(fault.failure(tool)),
        None => Ok(()),
    }
}

/// Refuses arguments whose names the schema of their tool excludes, whatever their values are.
pub fn judge_names(tool: &ToolSpec, arguments: Option<&Json>) -> Result<(), Failure> {
    let given = arguments.map_or("{}", Json::as_str).trim();
    let judging = Judging::of(tool.input.as_str(), given);
    let schema = judging.resolved(judging.root).unwrap_or("{}");
    match unknown_member(schema, given, "") {
        Some(fault) => Err(fault.failure(tool)),
        None => Ok(()),
    }
}

/// What a value must be by a schema, if it surely is not: `an integer from 1 to 5`. References
/// lead into `root`.
pub fn wanted(root: &str, schema: &str, value: &str) -> Option<String> {
    let fault = Judging::of(root, value).fault(schema, value, "", 0)?;
    Some(match fault.wrong {
        Wrong::MustBe { what, .. } if fault.path.is_empty() => joined(&what),
        wrong => format!("something else: {}", wrong.sentence(&fault.path, "it")),
    })
}

/// An argument that has to be there is not.
pub fn missing(name: &str) -> Failure {
    invalid(Wrong::Missing { given: None }.sentence(name, ""))
}

/// An argument is something else than it must be: `a string`.
pub fn must_be(name: &str, what: &str) -> Failure {
    invalid(Wrong::MustBe { what: vec![what.to_owned()], meant: None }.sentence(name, ""))
}

/// All arguments are together something else than an object.
pub fn no_object() -> Failure {
    must_be("", "an object")
}

fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::InvalidArguments, message)
}

/// What is wrong, and where: `entities[0].name`.
struct Fault {
    path: String,
    wrong: Wrong,
}

enum Wrong {
    /// `given` may have been meant by it.
    Missing {
        given: Option<String>,
    },
    /// Not among these.
    Unknown {
        name: String,
        known: Vec<String>,
    },
    MustBe {
        what: Vec<String>,
        meant: Option<String>,
    },
}

impl Fault {
    fn failure(self, tool: &ToolSpec) -> Failure {
        let failure = invalid(self.wrong.sentence(&self.path, tool.name.as_str()));
        hinted(failure, self.wrong.hint(&self.path))
    }
}

impl Wrong {
    fn sentence(&self, path: &str, tool: &str) -> String {
        match self {
            Wrong::Missing { .. } => format!("argument `{path}` is missing"),
            Wrong::Unknown { name, .. } if path.is_empty() => {
                format!("`{tool}` takes no argument `{name}`")
            }
            Wrong::Unknown { name, .. } => format!("argument `{path}` takes no member `{name}`"),
            Wrong::MustBe { what, .. } if path.is_empty() => {
                format!("the arguments must be {}", joined(what))
            }
            Wrong::MustBe { what, .. } => format!("argument `{path}` must be {}", joined(what)),
        }
    }

    fn hint(&self, path: &str) -> Option<String> {
        match self {
            Wrong::Missing { given } => {
                given.as_ref().map(|given| format!("did you mean `{path}` by `{given}`?"))
            }
            Wrong::Unknown { name, known } => {
                let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                Some(match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if names.is_empty() && path.is_empty() => {
                        "it takes no arguments".to_owned()
                    }
                    None if names.is_empty() => "it takes no members".to_owned(),
                    None => format!("it takes {}", names.join(", ")),
                })
            }
            Wrong::MustBe { meant, .. } => {
                meant.as_ref().map(|meant| format!("did you mean `{meant}`?"))
            }
        }
    }
}

/// One look at some arguments.
struct Judging<'a> {
    /// The whole schema, which references lead into.
    root: &'a str,
    left: Cell<usize>,
}

impl<'a> Judging<'a> {
    fn of(root: &'a str, value: &str) -> Judging<'a> {
        let left = LOOKED_BYTES_MAX + LOOKS * (root.len() + value.len());
        Judging { root: root.trim(), left: Cell::new(left) }
    }

    /// What is surely wrong with a value.
    fn fault(&self, schema: &'a str, value: &str, path: &str, depth: usize) -> Option<Fault> {
        let schema = self.resolved(schema)?;
        let left = self.left.get().checked_sub(schema.len() + value.len())?;
        self.left.set(left);
        if DEPTH_MAX < depth {
            return None;
        }
        // As OpenAPI writes it.
        if kind(value) == Kind::Null && edit::member(schema, "nullable") == Some("true") {
            return None;
        }
        value_fault(schema, value, path)
            .or_else(|| match kind(value) {
                Kind::Object => self.object_fault(schema, value, path, depth),
                Kind::Array => self.array_fault(schema, value, path, depth),
                _ => None,
            })
            .or_else(|| self.combined_fault(schema, value, path, depth))
    }

    fn object_fault(
        &self,
        schema: &'a str,
        value: &str,
        path: &str,
        depth: usize,
    ) -> Option<Fault> {
        if let Some(fault) = unknown_member(schema, value, path) {
            return Some(fault);
        }
        let [properties, required, rest, patterns] = edit::pick(
            schema,
            ["properties", "required", "additionalProperties", "patternProperties"],
        );
        let properties: Vec<_> = properties.into_iter().flat_map(edit::members).collect();
        let of = |name: &str| properties.iter().rfind(|(known, _)| known == name);
        let required: Vec<_> =
            required.into_iter().flat_map(edit::elements).filter_map(string).collect();
        for name in &required {
            // Some describe what they have made of the arguments, and not what they take.
            let has_default =
                of(name).is_some_and(|(_, schema)| edit::member(schema, "default").is_some());
            if has_default || edit::member(value, name).is_some() {
                continue;
            }
            let strangers: Vec<_> = edit::members(value)
                .map(|(given, _)| given)
                .filter(|given| of(given).is_none())
                .collect();
            let given = nearest(name, strangers.iter().map(|given| &**given)).map(str::to_owned);
            return Some(Fault { path: joint(path, name), wrong: Wrong::Missing { given } });
        }
        edit::members(value).find_map(|(name, member)| {
            let schema = match of(&name) {
                Some((_, schema)) => schema,
                None if patterns.is_some() => return None,
                None => rest?,
            };
            // That is how many write what is not given.
            if kind(member) == Kind::Null && !required.contains(&name) {
                return None;
            }
            self.fault(schema, member, &joint(path, &name), depth + 1)
        })
    }

    fn array_fault(&self, schema: &'a str, value: &str, path: &str, depth: usize) -> Option<Fault> {
        // Those behind other elements, of which it would have to be known how many there are.
        let [items, before] = edit::pick(schema, ["items", "prefixItems"]);
        let items = items.filter(|_| before.is_none())?;
        edit::elements(value).enumerate().find_map(|(at, element)| {
            self.fault(items, element, &format!("{path}[{at}]"), depth + 1)
        })
    }

    fn combined_fault(
        &self,
        schema: &'a str,
        value: &str,
        path: &str,
        depth: usize,
    ) -> Option<Fault> {
        let [all, any, one] = edit::pick(schema, ["allOf", "anyOf", "oneOf"]);
        let fault = |schema| self.fault(schema, value, path, depth + 1);
        let of_all = all.into_iter().flat_map(edit::elements).find_map(fault);
        of_all.or_else(|| {
            [any, one].into_iter().flatten().find_map(|branches| {
                let faults: Vec<_> = edit::elements(branches).map(fault).collect();
                let faults: Option<Vec<_>> = faults.into_iter().collect();
                faults.filter(|faults| !faults.is_empty()).map(|faults| merged(faults, path))
            })
        })
    }

    /// The schema that a reference leads to; `None` if it leads nowhere that we know.
    fn resolved(&self, schema: &'a str) -> Option<&'a str> {
        let mut schema = schema;
        for _ in 0..DEPTH_MAX {
            let Some(reference) = edit::text(schema, "$ref") else { return Some(schema) };
            self.left.set(self.left.get().checked_sub(self.root.len())?);
            let step = |within: &'a str, name: &str| {
                edit::member(within, &name.replace("~1", "/").replace("~0", "~"))
            };
            schema = match reference.strip_prefix('#')? {
                "" => self.root,
                path => path.strip_prefix('/')?.split('/').try_fold(self.root, step)?,
            };
        }
        None
    }
}

/// What is wrong where none of several schemas fits.
fn merged(faults: Vec<Fault>, path: &str) -> Fault {
    let is_here = |fault: &Fault| fault.path == path && matches!(fault.wrong, Wrong::MustBe { .. });
    let (here, mut inside): (Vec<_>, Vec<_>) = faults.into_iter().partition(is_here);
    // Only one of them is for such a value, and that finds a fault in it.
    if inside.len() == 1 {
        return inside.remove(0);
    }
    let (mut all, mut nearest) = (Vec::new(), None);
    for fault in here {
        if let Wrong::MustBe { what, meant } = fault.wrong {
            for what in what {
                if !all.contains(&what) {
                    all.push(what);
                }
            }
            nearest = nearest.or(meant);
        }
    }
    if !inside.is_empty() {
        all = vec!["one of the forms that its schema has".to_owned()];
    }
    Fault { path: path.to_owned(), wrong: Wrong::MustBe { what: all, meant: nearest } }
}

/// A member of a name that the schema excludes.
fn unknown_member(schema: &str, value: &str, path: &str) -> Option<Fault> {
    let [properties, rest, patterns] =
        edit::pick(schema, ["properties", "additionalProperties", "patternProperties"]);
    if rest != Some("false") || patterns.is_some() {
        return None;
    }
    let known: Vec<_> =
        properties.into_iter().flat_map(edit::members).map(|(name, _)| name.into_owned()).collect();
    let (name, _) =
        edit::members(value).find(|(name, _)| !known.iter().any(|known| known == name))?;
    let wrong = Wrong::Unknown { name: name.into_owned(), known };
    Some(Fault { path: path.to_owned(), wrong })
}

/// What is wrong with a value besides what is in it.
fn value_fault(schema: &str, value: &str, path: &str) -> Option<Fault> {
    let must_be =
        |what, meant| Some(Fault { path: path.to_owned(), wrong: Wrong::MustBe { what, meant } });
    let [types, values, only] = edit::pick(schema, ["type", "enum", "const"]);
    let values: Vec<_> = values.into_iter().flat_map(edit::elements).chain(only).collect();
    if !values.is_empty() && !values.iter().any(|known| may_equal(known, value)) {
        return must_be(told(&values), meant(&values, value));
    }
    let types: Vec<_> = types
        .into_iter()
        .flat_map(|types| string(types).into_iter().chain(edit::elements(types).filter_map(string)))
        .collect();
    let fitting: Vec<_> = types.iter().filter(|of| may_be(of, value)).collect();
    match (types.is_empty(), fitting.is_empty()) {
        (false, true) => must_be(types.iter().map(|of| bounded(schema, of, false)).collect(), None),
        _ if is_outside(schema, value) => {
            let usual = match kind(value) {
                Kind::Number => "number",
                Kind::String => "string",
                _ => "array",
            };
            let of = fitting.first().map_or(usual, |of| &***of);
            must_be(vec![bounded(schema, of, true)], None)
        }
        _ => None,
    }
}

/// Can the value be of this type?
fn may_be(of: &str, value: &str) -> bool {
    match (of, kind(value)) {
        ("null", kind) => kind == Kind::Null,
        ("boolean", kind) => kind == Kind::Bool,
        ("string", kind) => kind == Kind::String,
        ("array", kind) => kind == Kind::Array,
        ("object", kind) => kind == Kind::Object,
        ("number", kind) => kind == Kind::Number,
        // `1.0` is an integer by JSON Schema.
        ("integer", Kind::Number) => {
            number(value).is_none_or(|number| number.is_infinite() || number.fract() == 0.0)
        }
        ("integer", _) => false,
        _ => true,
    }
}

/// Are the two perhaps the same? Whether arrays and objects are is not looked at.
fn may_equal(known: &str, value: &str) -> bool {
    match (kind(known), kind(value)) {
        (Kind::String, Kind::String) => match (string(known), string(value)) {
            (Some(known), Some(value)) => known == value,
            _ => true,
        },
        #[expect(clippy::float_cmp, reason = "what is written differently may be the same number")]
        (Kind::Number, Kind::Number) => match (number(known), number(value)) {
            (Some(known), Some(value)) => known == value,
            _ => true,
        },
        (Kind::Bool, Kind::Bool) => known.trim() == value.trim(),
        (known, value) => known == value,
    }
}

/// Is a number too small or too large, a text too short or too long, a list too?
fn is_outside(schema: &str, value: &str) -> bool {
    let bound = |name: &str| edit::member(schema, name).and_then(number);
    let between = |least: Option<f64>, most: Option<f64>, small: f64, large: f64| {
        least.is_some_and(|least| large < least) || most.is_some_and(|most| most < small)
    };
    // So few are counted exactly.
    let count = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    match kind(value) {
        Kind::Number => number(value).is_some_and(|number| {
            let [over, under] = [bound("exclusiveMinimum"), bound("exclusiveMaximum")];
            between(bound("minimum"), bound("maximum"), number, number)
                || between(over, under, number, number)
                // Two that are nearly the same are one here, unless they are written alike.
                || ["exclusiveMinimum", "exclusiveMaximum"]
                    .iter()
                    .any(|name| edit::member(schema, name) == Some(value))
        }),
        // What is one character is told in two ways, and then is shorter by one of them.
        Kind::String => string(value).is_some_and(|text| {
            let (few, many) = (count(text.chars().count()), count(text.encode_utf16().count()));
            between(bound("minLength"), bound("maxLength"), few, many)
        }),
        Kind::Array => {
            let elements = count(edit::elements(value).count());
            between(bound("minItems"), bound("maxItems"), elements, elements)
        }
        _ => false,
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// A type with its bounds, for people: `an integer from 1 to 5`. Unless they are what it is about,
/// bounds that only say how many bits there are are left out.
fn bounded(schema: &str, of: &str, has_all: bool) -> String {
    let bounds = |least: &str, most: &str| {
        let is_told = |raw: &&str| number(raw).is_some_and(|bound| has_all || bound.abs() < 1e9);
        let [least, most] = edit::pick(schema, [least, most]);
        (least.filter(is_told), most.filter(is_told))
    };
    let counted = |bounds: (Option<&str>, Option<&str>), one: &str, several: &str| {
        let unit = |count: &str| if count == "1" { one.to_owned() } else { several.to_owned() };
        match bounds {
            (Some(least), Some(most)) if least == most => format!(" of {least} {}", unit(least)),
            (Some(least), Some(most)) => format!(" of {least} to {most} {several}"),
            (Some(least), None) => format!(" of at least {least} {}", unit(least)),
            (None, Some(most)) => format!(" of at most {most} {}", unit(most)),
            (None, None) => String::new(),
        }
    };
    let ranged = || {
        let range = match bounds("minimum", "maximum") {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" of at least {least}"),
            (None, Some(most)) => format!(" of at most {most}"),
            (None, None) => String::new(),
        };
        let (over, under) = bounds("exclusiveMinimum", "exclusiveMaximum");
        let over = over.map(|over| format!(" over {over}")).unwrap_or_default();
        let under = under.map(|under| format!(" under {under}")).unwrap_or_default();
        format!("{range}{over}{under}")
    };
    match of {
        "boolean" => "true or false".to_owned(),
        "null" => "null".to_owned(),
        "integer" => format!("an integer{}", ranged()),
        "number" => format!("a number{}", ranged()),
        "string" => {
            format!(
                "a string{}",
                counted(bounds("minLength", "maxLength"), "character", "characters")
            )
        }
        "array" => {
            format!("an array{}", counted(bounds("minItems", "maxItems"), "element", "elements"))
        }
        "object" => "an object".to_owned(),
        other => other.to_owned(),
    }
}

/// Values for people, not too many.
fn told(values: &[&str]) -> Vec<String> {
    let shown = |value: &&str| match string(value) {
        Some(text) => format!("`{text}`"),
        None => format!("`{value}`"),
    };
    let mut told: Vec<_> = values.iter().take(TOLD_MAX).map(shown).collect();
    if TOLD_MAX < values.len() {
        told.push(format!("one of {} more", values.len() - TOLD_MAX));
    }
    told
}

/// The value that was probably meant.
fn meant(values: &[&str], value: &str) -> Option<String> {
    let value = string(value)?;
    let known: Vec<_> = values.iter().filter_map(|known| string(known)).collect();
    let alike = known.iter().find(|known| known.to_lowercase() == value.to_lowercase());
    let meant = alike.map(|known| &**known);
    meant.or_else(|| nearest(&value, known.iter().map(|known| &**known))).map(str::to_owned)
}

/// `a`, `a or b`, `a, b or c`.
fn joined(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

fn joint(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(schema: &str, given: &str) -> String {
        let tool = ToolSpec::new("tool", Json::parse(schema.to_owned()).unwrap());
        match judge(&tool, Some(&Json::parse(given.to_owned()).unwrap())) {
            Ok(()) => "fits".to_owned(),
            Err(failure) => {
                assert_eq!(failure.kind, FailureKind::InvalidArguments);
                match failure.last_words.as_ref().and_then(|words| words.hint.as_ref()) {
                    Some(hint) => format!("{failure}; {hint}"),
                    None => failure.to_string(),
                }
            }
        }
    }

    /// What is said of a value of this schema that has to be given.
    fn of(schema: &str, value: &str) -> String {
        let schema = format!(r#"{{"properties":{{"a":{schema}}},"required":["a"]}}"#);
        judged(&schema, &format!(r#"{{"a":{value}}}"#))
    }

    #[test]
    fn what_is_surely_wrong_is_told() {
        for (schema, value, expected) in [
            (r#"{"type":"string"}"#, "1", "argument `a` must be a string"),
            (r#"{"type":"number"}"#, r#""1""#, "argument `a` must be a number"),
            (r#"{"type":"integer"}"#, "1.5", "argument `a` must be an integer"),
            (r#"{"type":"boolean"}"#, "1", "argument `a` must be true or false"),
            (r#"{"type":"array"}"#, "{}", "argument `a` must be an array"),
            (r#"{"type":"object"}"#, "null", "argument `a` must be an object"),
            (r#"{"type":["string","null"]}"#, "1", "argument `a` must be a string or null"),
            (
                r#"{"type":"integer","minimum":1,"maximum":5}"#,
                "9",
                "argument `a` must be an integer from 1 to 5",
            ),
            (
                r#"{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}"#,
                "true",
                "argument `a` must be an integer",
            ),
            (
                r#"{"type":"integer","maximum":9007199254740991}"#,
                "9107199254740991",
                "argument `a` must be an integer of at most 9007199254740991",
            ),
            (r#"{"minimum":1}"#, "0", "argument `a` must be a number of at least 1"),
            (
                r#"{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}"#,
                "0",
                "argument `a` must be a number over 0 under 1",
            ),
            (
                r#"{"type":"string","minLength":1}"#,
                r#""""#,
                "argument `a` must be a string of at least 1 character",
            ),
            (
                r#"{"type":"string","minLength":2,"maxLength":3}"#,
                r#""four""#,
                "argument `a` must be a string of 2 to 3 characters",
            ),
            (
                r#"{"type":"array","minItems":2,"maxItems":2}"#,
                "[1]",
                "argument `a` must be an array of 2 elements",
            ),
            (
                r#"{"type":"string","enum":["error","success","debug"]}"#,
                r#""sucess""#,
                "argument `a` must be `error`, `success` or `debug`; did you mean `success`?",
            ),
            (
                r#"{"enum":["RED","BLUE"]}"#,
                r#""blue""#,
                "argument `a` must be `RED` or `BLUE`; did you mean `BLUE`?",
            ),
            (r#"{"enum":[1,2]}"#, r#""1""#, "argument `a` must be `1` or `2`"),
            (r#"{"const":"x"}"#, "null", "argument `a` must be `x`"),
            (
                r#"{"enum":[1,2,3,4,5,6,7,8,9,10,11,12]}"#,
                "0",
                "argument `a` must be `1`, `2`, `3`, `4`, `5`, `6`, `7`, `8`, `9`, `10` or one of 2 more",
            ),
            (
                r#"{"type":"array","items":{"type":"string"}}"#,
                r#"["x",1]"#,
                "argument `a[1]` must be a string",
            ),
            (
                r#"{"type":"array","items":{"type":"object","required":["name"]}}"#,
                r#"[{"nam":"x"}]"#,
                "argument `a[0].name` is missing; did you mean `a[0].name` by `nam`?",
            ),
            (
                r#"{"properties":{"b":{}},"additionalProperties":false}"#,
                r#"{"bb":1}"#,
                "argument `a` takes no member `bb`; did you mean `b`?",
            ),
            (
                r#"{"additionalProperties":{"type":"string"}}"#,
                r#"{"b":1}"#,
                "argument `a.b` must be a string",
            ),
            (
                r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
                "1",
                "argument `a` must be a string or null",
            ),
            (
                r#"{"oneOf":[{"const":"a","title":"A"},{"const":"bee"}]}"#,
                r#""be""#,
                "argument `a` must be `a` or `bee`; did you mean `bee`?",
            ),
            (
                r#"{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"null"}]}"#,
                r#"["x"]"#,
                "argument `a[0]` must be an integer",
            ),
            (
                r#"{"anyOf":[{"required":["b"]},{"required":["c"]}]}"#,
                "{}",
                "argument `a` must be one of the forms that its schema has",
            ),
            (
                r#"{"anyOf":[{"additionalProperties":false,"properties":{}},{"type":"null"}]}"#,
                r#"{"x":1}"#,
                "argument `a` takes no member `x`; it takes no members",
            ),
            (
                r#"{"allOf":[{"type":"integer"},{"minimum":3}]}"#,
                "2",
                "argument `a` must be a number of at least 3",
            ),
        ] {
            assert_eq!(of(schema, value), expected, "{schema} {value}");
        }
    }

    #[test]
    fn what_may_be_right_fits() {
        for (schema, value) in [
            ("true", "1"),
            ("{}", "null"),
            (r#"{"type":"integer"}"#, "1.0"),
            (r#"{"type":"integer"}"#, "1e400"),
            (r#"{"type":"number","maximum":0.3}"#, "0.30000000000000001"),
            (r#"{"type":"integer","minimum":2,"exclusiveMinimum":true}"#, "2"),
            (r#"{"type":"something new"}"#, "1"),
            (r#"{"type":"string","nullable":true}"#, "null"),
            (r#"{"type":"string","pattern":"^b$","format":"email"}"#, r#""a""#),
            (r#"{"enum":[1,2.5]}"#, "1.0"),
            (r#"{"enum":[{"a":1}]}"#, r#"{"b":1}"#),
            (r#"{"enum":["\u0061"]}"#, r#""a""#),
            (r#"{"type":"string","maxLength":1}"#, "\"\u{1f600}\""),
            (r#"{"type":"string","minLength":2}"#, "\"\u{1f600}\""),
            (r#"{"items":[{"type":"string"}]}"#, "[1]"),
            (r#"{"prefixItems":[{}],"items":{"type":"string"}}"#, "[1]"),
            (r#"{"additionalProperties":false,"patternProperties":{"^x":{}}}"#, r#"{"y":1}"#),
            (r#"{"required":["b"],"properties":{"b":{"default":1}}}"#, "{}"),
            (r#"{"properties":{"b":{"type":"boolean"}}}"#, r#"{"b":null}"#),
            (r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#, "1"),
            (r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#, "1"),
            (r#"{"anyOf":[]}"#, "1"),
            (r#"{"not":{"type":"integer"}}"#, "1"),
            (r#"{"if":{"type":"integer"},"then":{"minimum":3}}"#, "1"),
            (r##"{"$ref":"#/nowhere","type":"string"}"##, "1"),
            (r##"{"$ref":"other.json#/x"}"##, "1"),
            (r##"{"$ref":"#/properties/a"}"##, "1"),
        ] {
            assert_eq!(of(schema, value), "fits", "{schema} {value}");
        }
    }

    #[test]
    fn the_arguments_are_judged_as_a_whole() {
        let schema = r#"{"type":"object","properties":{"text":{"type":"string"},"n":{}},"required":["text"],"additionalProperties":false}"#;
        assert_eq!(judged(schema, "null"), "argument `text` is missing");
        assert_eq!(judged(schema, "[1]"), "the arguments must be an object");
        assert_eq!(
            judged(schema, r#"{"tex":1}"#),
            "`tool` takes no argument `tex`; did you mean `text`?"
        );
        assert_eq!(
            judged(schema, r#" { "colour" : 1 } "#),
            "`tool` takes no argument `colour`; it takes `text`, `n`"
        );
        let open = r#"{"properties":{"text":{}},"required":["text"]}"#;
        assert_eq!(
            judged(open, r#"{"txt":1}"#),
            "argument `text` is missing; did you mean `text` by `txt`?"
        );
        let tool = ToolSpec::new("tool", Json::parse(r#"{"required":["a"]}"#).unwrap());
        assert_eq!(judge(&tool, None).unwrap_err().to_string(), "argument `a` is missing");
        assert!(judge_names(&tool, None).is_ok());
    }

    #[test]
    fn references_are_followed_and_loops_end() {
        let schema = r##"{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"next":{"$ref":"#/$defs/A"},
            "c":{"$ref":"#/$defs/C"},"l":{"$ref":"#/$defs/L"}}},"C":{"enum":["red"]},
            "L":{"$ref":"#/$defs/L"}}}"##;
        let given = r#"{"next":{"next":{"c":"rad"}}}"#;
        assert_eq!(
            judged(schema, given),
            "argument `next.next.c` must be `red`; did you mean `red`?"
        );
        assert_eq!(judged(schema, r#"{"l":1}"#), "fits");
        // Each step has many ways on, and none ends.
        let branches = vec![r##"{"$ref":"#"}"##; 50].join(",");
        assert_eq!(judged(&format!(r#"{{"anyOf":[{branches}]}}"#), "{}"), "fits");
    }

    #[test]
    fn one_value_by_itself() {
        let root = r##"{"$defs":{"N":{"type":"integer","minimum":1,"maximum":5}}}"##;
        let named = |value: &str| wanted(root, r##"{"$ref":"#/$defs/N"}"##, value);
        assert_eq!(named("9").as_deref(), Some("an integer from 1 to 5"));
        assert_eq!(named("5"), None);
        let list = r#"{"items":{"type":"string"}}"#;
        assert_eq!(
            wanted("{}", list, "[1]").as_deref(),
            Some("something else: argument `[0]` must be a string")
        );
    }
}
