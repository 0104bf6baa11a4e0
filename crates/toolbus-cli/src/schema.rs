//! What the schema of a tool says of its arguments, as people and completions need it.
//!
//! Only as much of JSON Schema is understood as tells how a typed word is meant: names, types,
//! defaults, lists of values. Whether arguments fit is said by `toolbus_proto::judge`.

use std::borrow::Cow;

use toolbus_proto::json::{Json, Kind, edit};
use toolbus_proto::judge;

/// How deep references and alternatives are followed.
const DEPTH_MAX: usize = 8;

/// The arguments of a tool, in the order of its schema.
pub(crate) struct Parameters<'a> {
    pub(crate) list: Vec<Parameter<'a>>,
}

/// One argument of a tool.
pub(crate) struct Parameter<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) required: bool,
    schema: &'a str,
    /// The whole schema, which references lead into.
    root: &'a str,
}

/// One of the only values that something may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// As JSON.
    pub(crate) value: String,
    /// What people read: its title if it has one, else itself.
    pub(crate) title: String,
}

/// What a JSON value is, by the names of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl<'a> Parameters<'a> {
    /// The arguments that this schema describes; none if it describes no object.
    pub(crate) fn of(input: &'a Json) -> Parameters<'a> {
        let root = input.as_str();
        Parameters { list: properties(root, resolved(root, root)) }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Parameter<'a>> {
        self.list.iter().find(|parameter| parameter.name == name)
    }
}

impl<'a> Parameter<'a> {
    /// The JSON that a word means: a string where the schema takes one and the word is no value
    /// of another type that it takes as well; else JSON, if it is that.
    pub(crate) fn read(&self, word: &str) -> String {
        let types = self.types();
        let json = Json::parse(word.trim().to_owned()).ok();
        let takes_strings = types.contains(&Type::String);
        match json {
            Some(json) if !takes_strings || types.iter().any(|of| of.fits(&json)) => {
                json.to_string()
            }
            _ => Json::of(word).to_string(),
        }
    }

    /// What it may be; empty if the schema does not say.
    pub(crate) fn types(&self) -> Vec<Type> {
        let mut types = Vec::new();
        add_types(&mut types, self.root, self.schema, 0);
        types
    }

    /// What people are told that the value must be, if it surely is not that.
    pub(crate) fn wanted(&self, value: &str) -> Option<String> {
        judge::wanted(self.root, self.schema, value)
    }

    pub(crate) fn title(&self) -> Option<Cow<'a, str>> {
        edit::text(self.schema, "title").filter(|title| !title.is_empty())
    }

    /// How a text is written: `email`, `date`.
    pub(crate) fn format(&self) -> Option<Cow<'a, str>> {
        edit::text(resolved(self.root, self.schema), "format")
    }

    /// The only values that it may have, with their titles.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        choices(self.root, self.schema, self.values())
    }

    /// The same for the elements of an array.
    pub(crate) fn element_choices(&self) -> Vec<Choice> {
        let items = edit::member(resolved(self.root, self.schema), "items");
        items.map_or(Vec::new(), |items| choices(self.root, items, self.element_values()))
    }

    pub(crate) fn description(&self) -> Option<Cow<'a, str>> {
        edit::text(self.schema, "description")
            .or_else(|| edit::text(resolved(self.root, self.schema), "description"))
    }

    pub(crate) fn default(&self) -> Option<&'a str> {
        edit::member(self.schema, "default")
    }

    /// The only values that it may have, as JSON.
    pub(crate) fn values(&self) -> Vec<&'a str> {
        let mut values = Vec::new();
        add_values(&mut values, self.root, self.schema, 0);
        values
    }

    /// `string`, `integer or null`, `array of string`.
    pub(crate) fn type_name(&self) -> String {
        let named = |of: &Type| match of {
            Type::Array => match self.element_types().as_slice() {
                [] => "array".to_owned(),
                types => format!("array of {}", joined(types.iter().map(|of| of.name()))),
            },
            Type::Object => match self.member_types().as_slice() {
                [] => "object".to_owned(),
                types => format!("object of {}", joined(types.iter().map(|of| of.name()))),
            },
            of => of.name().to_owned(),
        };
        joined(self.types().iter().map(named))
    }

    /// The members of an object, or of the objects in an array, as arguments of their own; several
    /// lists if it may be one object or another.
    pub(crate) fn members(&self) -> Vec<Vec<Parameter<'a>>> {
        let schema = resolved(self.root, self.schema);
        let schema =
            edit::member(schema, "items").map_or(schema, |items| resolved(self.root, items));
        let branches = |name: &str| {
            let branches = edit::member(schema, name).into_iter().flat_map(edit::elements);
            branches.map(|branch| properties(self.root, resolved(self.root, branch)))
        };
        let mut own = properties(self.root, schema);
        own.extend(branches("allOf").flatten());
        let mut all: Vec<_> = std::iter::once(own).chain(branches("anyOf")).collect();
        all.extend(branches("oneOf"));
        all.retain(|members| !members.is_empty());
        all
    }

    /// `from 1 to 10`, `of 2 to 9 characters`, `format date`.
    pub(crate) fn limits(&self) -> Option<String> {
        let schema = resolved(self.root, self.schema);
        let format = edit::text(schema, "format");
        // Those of numbers say how many bits there are.
        if let Some(format) = format.filter(|_| self.types().contains(&Type::String)) {
            return Some(format!("format {format}"));
        }
        let bound = |name: &str| {
            let bound = edit::member(schema, name)?.trim();
            // What only says how many bits there are is of no use to people.
            let is_small = bound.parse().is_ok_and(|bound: f64| bound.abs() < 1e9);
            is_small.then(|| bound.to_owned())
        };
        let lengths = match (bound("minLength"), bound("maxLength")) {
            (Some(least), Some(most)) => Some(format!("of {least} to {most} characters")),
            (Some(least), None) if least == "1" => Some("not empty".to_owned()),
            (Some(least), None) => Some(format!("of at least {least} characters")),
            (None, Some(most)) => Some(format!("of at most {most} characters")),
            (None, None) => None,
        };
        match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => Some(format!("from {least} to {most}")),
            (Some(least), None) => Some(format!("from {least}")),
            (None, Some(most)) => Some(format!("up to {most}")),
            (None, None) => lengths,
        }
    }

    /// The only values that the elements of an array may have, as JSON.
    pub(crate) fn element_values(&self) -> Vec<&'a str> {
        let mut values = Vec::new();
        if let Some(items) = edit::member(resolved(self.root, self.schema), "items") {
            add_values(&mut values, self.root, items, 0);
        }
        values
    }

    /// What the members of an object are that may have any name.
    fn member_types(&self) -> Vec<Type> {
        let mut types = Vec::new();
        let schema = resolved(self.root, self.schema);
        let [members, named] = edit::pick(schema, ["additionalProperties", "properties"]);
        if let Some(members) = members.filter(|_| named.is_none()) {
            add_types(&mut types, self.root, members, 0);
        }
        types
    }

    pub(crate) fn element_types(&self) -> Vec<Type> {
        let mut types = Vec::new();
        if let Some(items) = edit::member(resolved(self.root, self.schema), "items") {
            add_types(&mut types, self.root, items, 0);
        }
        types
    }

    /// A value that stands for it in an example, as JSON.
    pub(crate) fn example(&self) -> String {
        let examples = edit::member(self.schema, "examples");
        let known = self.default().filter(|default| *default != "null");
        let known = known.or_else(|| self.values().first().copied());
        if let Some(known) = known.or_else(|| edit::elements(examples?).next()) {
            return known.to_owned();
        }
        let minimum = edit::member(resolved(self.root, self.schema), "minimum");
        match self.types().first() {
            Some(Type::Integer | Type::Number) => minimum.unwrap_or("1").to_owned(),
            Some(Type::Boolean) => "true".to_owned(),
            Some(Type::Array) => "[]".to_owned(),
            Some(Type::Object) => "{}".to_owned(),
            Some(Type::Null) => "null".to_owned(),
            Some(Type::String) | None => "\"…\"".to_owned(),
        }
    }
}

/// Values with the titles that a schema has for them: beside each, or in a list of their own.
fn choices(root: &str, schema: &str, values: Vec<&str>) -> Vec<Choice> {
    let [any, one, names] = edit::pick(resolved(root, schema), ["anyOf", "oneOf", "enumNames"]);
    let branches: Vec<_> = [any, one].into_iter().flatten().flat_map(edit::elements).collect();
    let names: Vec<_> = names.into_iter().flat_map(edit::elements).map(text).collect();
    let choice = |(at, value): (usize, &str)| {
        let branch = branches.iter().find(|branch| edit::member(branch, "const") == Some(value));
        let title = branch.and_then(|branch| edit::text(branch, "title"));
        let title = title.or_else(|| names.get(at).cloned().flatten());
        let own = || Json::from_trusted(value.to_owned()).shown();
        Choice { value: value.to_owned(), title: title.map_or_else(own, Cow::into_owned) }
    };
    values.into_iter().enumerate().map(choice).collect()
}

/// What the schema of an object says of its members.
fn properties<'a>(root: &'a str, object: &'a str) -> Vec<Parameter<'a>> {
    let [properties, required] = edit::pick(object, ["properties", "required"]);
    let required: Vec<_> = required.into_iter().flat_map(edit::elements).filter_map(text).collect();
    let properties = properties.into_iter().flat_map(edit::members);
    let parameter = |(name, schema)| {
        let required = required.contains(&name);
        Parameter { required, name, schema, root }
    };
    properties.map(parameter).collect()
}

impl Type {
    fn of_name(name: &str) -> Option<Type> {
        let all = [
            Type::Null,
            Type::Boolean,
            Type::Integer,
            Type::Number,
            Type::String,
            Type::Array,
            Type::Object,
        ];
        all.into_iter().find(|of| of.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::String => "string",
            Type::Array => "array",
            Type::Object => "object",
        }
    }

    fn of_value(json: &str) -> Type {
        match Json::parse(json.to_owned()).map_or(Kind::Null, |json| json.kind()) {
            Kind::Null => Type::Null,
            Kind::Bool => Type::Boolean,
            Kind::Number => Type::Number,
            Kind::String => Type::String,
            Kind::Array => Type::Array,
            Kind::Object => Type::Object,
        }
    }

    /// Is the value of this type, and not a string?
    pub(crate) fn fits(self, json: &Json) -> bool {
        match (self, json.kind()) {
            (Type::Null, Kind::Null)
            | (Type::Boolean, Kind::Bool)
            | (Type::Number, Kind::Number)
            | (Type::Array, Kind::Array)
            | (Type::Object, Kind::Object) => true,
            // `1.0` is an integer by JSON Schema.
            (Type::Integer, Kind::Number) => {
                json.read::<f64>().is_ok_and(|number| number.fract() == 0.0)
            }
            _ => false,
        }
    }
}

/// The types that a whole schema allows; empty if it does not say.
pub(crate) fn types_of(schema: &Json) -> Vec<Type> {
    let mut types = Vec::new();
    add_types(&mut types, schema.as_str(), schema.as_str(), 0);
    types
}

fn add_types(types: &mut Vec<Type>, root: &str, schema: &str, depth: usize) {
    if DEPTH_MAX < depth {
        return;
    }
    let schema = resolved(root, schema);
    let mut add = |of: Option<Type>| types.extend(of.filter(|of| !types.contains(of)));
    let [named, any, one, all, values, only] =
        edit::pick(schema, ["type", "anyOf", "oneOf", "allOf", "enum", "const"]);
    if let Some(named) = named {
        let names: Vec<_> =
            text(named).into_iter().chain(edit::elements(named).filter_map(text)).collect();
        names.iter().for_each(|name| add(Type::of_name(name)));
        return;
    }
    for value in values.into_iter().flat_map(edit::elements).chain(only) {
        add(Some(Type::of_value(value)));
    }
    for branch in [any, one, all].into_iter().flatten().flat_map(edit::elements) {
        add_types(types, root, branch, depth + 1);
    }
}

fn add_values<'a>(values: &mut Vec<&'a str>, root: &'a str, schema: &'a str, depth: usize) {
    if DEPTH_MAX < depth {
        return;
    }
    let [list, only, any, one] =
        edit::pick(resolved(root, schema), ["enum", "const", "anyOf", "oneOf"]);
    values.extend(list.into_iter().flat_map(edit::elements).chain(only));
    // Of alternatives they are the only ones if each has some.
    let branches = [any, one].into_iter().flatten().flat_map(edit::elements);
    let mut found = Vec::new();
    for branch in branches {
        let before = found.len();
        add_values(&mut found, root, branch, depth + 1);
        let is_null = edit::text(branch, "type").is_some_and(|of| of == "null");
        if found.len() == before && !is_null {
            return;
        }
    }
    values.append(&mut found);
}

/// The schema that a reference into the same document leads to.
fn resolved<'a>(root: &'a str, schema: &'a str) -> &'a str {
    let mut schema = schema;
    for _ in 0..DEPTH_MAX {
        let Some(reference) = edit::text(schema, "$ref") else { return schema };
        let Some(path) = reference.strip_prefix("#/") else { return schema };
        let step = |within: &'a str, name: &str| {
            edit::member(within, &name.replace("~1", "/").replace("~0", "~"))
        };
        match path.split('/').try_fold(root, step) {
            Some(found) => schema = found,
            None => return schema,
        }
    }
    schema
}

fn text(json: &str) -> Option<Cow<'_, str>> {
    // A member of no name, to read a string that stands alone.
    Json::parse(json.to_owned()).ok()?.string().map(Cow::Owned)
}

fn joined(names: impl Iterator<Item = impl Into<String>>) -> String {
    let names: Vec<String> = names.map(Into::into).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(schema: &str, word: &str) -> String {
        let input = Json::parse(format!(r#"{{"properties":{{"a":{schema}}}}}"#)).unwrap();
        Parameters::of(&input).find("a").unwrap().read(word)
    }

    #[test]
    fn a_word_is_what_the_schema_says() {
        for (schema, word, expected) in [
            (r#"{"type":"string"}"#, "1", r#""1""#),
            (r#"{"type":"string"}"#, "true", r#""true""#),
            (r#"{"type":"string"}"#, r#""1""#, r#""\"1\"""#),
            (r#"{"type":"number"}"#, "1.50", "1.50"),
            (r#"{"type":"number"}"#, "one", r#""one""#),
            (r#"{"type":["string","null"]}"#, "null", "null"),
            (r#"{"type":["string","integer"]}"#, "7", "7"),
            (r#"{"type":["string","integer"]}"#, "7.5", r#""7.5""#),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "12", r#""12""#),
            (r#"{"enum":["1","2"]}"#, "1", r#""1""#),
            (r#"{"type":"array"}"#, "[1, 2]", "[1, 2]"),
            ("{}", "1", "1"),
            ("true", "x", r#""x""#),
        ] {
            assert_eq!(read(schema, word), expected, "{schema} {word}");
        }
    }

    #[test]
    fn references_are_followed_and_loops_end() {
        let input = Json::parse(
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"c":{"$ref":"#/$defs/C"},
            "l":{"$ref":"#/$defs/L"},"x":{"$ref":"#/nowhere"}}},
            "C":{"enum":["red","blue"],"description":"A colour"},"L":{"$ref":"#/$defs/L"}}}"##,
        )
        .unwrap();
        let parameters = Parameters::of(&input);
        let names: Vec<_> = parameters.list.iter().map(|parameter| &*parameter.name).collect();
        assert_eq!(names, ["c", "l", "x"]);
        let color = parameters.find("c").unwrap();
        assert_eq!(color.values(), [r#""red""#, r#""blue""#]);
        assert_eq!(color.description().unwrap(), "A colour");
        assert_eq!((color.type_name(), color.example()), ("string".into(), r#""red""#.into()));
        assert_eq!(parameters.find("l").unwrap().types(), []);
        assert_eq!(parameters.find("x").unwrap().type_name(), "");
    }

    #[test]
    fn what_is_no_schema_of_an_object_has_no_arguments() {
        for schema in ["{}", "true", "[1]", r#"{"properties":[1]}"#] {
            assert!(Parameters::of(&Json::parse(schema).unwrap()).list.is_empty(), "{schema}");
        }
    }
}
