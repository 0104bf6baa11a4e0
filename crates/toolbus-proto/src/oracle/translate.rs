//! Between the tools of the bus, which speak JSON, and oracle calls, which speak felts.
//!
//! A [`Binding`] is how one tool is offered to Cairo programs: by which signature, and how
//! felts become its arguments and its reply becomes felts.

use std::{collections::HashSet, sync::Arc};

use serde_json::value::RawValue;

use super::{
    codec::{self, ArgsForm, CodecError, CodecFault, Misfit, Whole, push_byte_array},
    felt::Felt,
    json::{self, Broken, Cursor},
    signature::{Function, I128, Members, Type, TypeId, Types, U128},
};

/// A tool as an oracle's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    function: Function,
    form: ArgsForm,
}

/// What a tool answered, when all of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Plain text.
    Text(&'a str),
    /// One JSON value.
    Json(&'a str),
}

impl Binding {
    /// A tool that is an oracle's function itself: nothing of its signature may be lost.
    pub fn of_oracle(function: Function) -> Binding {
        Binding { function, form: ArgsForm::Signature }
    }

    /// A tool that somebody wrote a signature for; its input schema says how it is called.
    pub fn declared(function: Function, input_schema: &str) -> Binding {
        let takes_all = function.params.len() == 1
            && function.params.at(0).is_some_and(|(name, param)| {
                name == ALL_ARGUMENTS && matches!(function.types[*param], Type::Json)
            });
        let has_properties = Schema::read(input_schema).properties.is_some();
        let form = if takes_all && !has_properties { ArgsForm::Whole } else { ArgsForm::Plain };
        Binding { function, form }
    }

    /// A tool of which only the schemas are known. What they say that felts cannot say
    /// becomes `json`.
    pub fn from_schemas(tool: &str, input: &str, output: Option<&str>) -> Binding {
        let mut builder = Builder::default();
        let (params, form) = match Schema::read(input) {
            Schema { properties: Some(properties), required, .. } => {
                (builder.params(properties, required), ArgsForm::Plain)
            }
            _ => (vec![(ALL_ARGUMENTS.to_owned(), builder.add(Type::Json))], ArgsForm::Whole),
        };
        let result = match output {
            Some(output) => builder.ty(output, 0),
            None => builder.add(Type::ByteArray),
        };
        let Ok(types) = Types::new(builder.types) else {
            unreachable!("a tree of types, no deeper than ARRAYS_MAX, whose leaves all take felts")
        };
        let params = Members::new(params).expect("repeated names were left out");
        let function = Function { name: tool.to_owned(), params, result, types: Arc::new(types) };
        Binding { function, form }
    }

    /// The signature it is offered by.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The arguments of a call, as the tool takes them.
    pub fn arguments(&self, calldata: &[Felt]) -> Result<String, CodecError> {
        codec::decode_args(&self.function, self.form, calldata)
    }

    /// The result of a call.
    pub fn felts(&self, answer: Answer<'_>) -> Result<Vec<Felt>, CodecError> {
        let fail = |fault: CodecFault| Misfit::from(fault).of(Whole::Result);
        match (&self.function.types[self.function.result], answer) {
            (Type::ByteArray, Answer::Text(text)) => Ok(byte_array(text)),
            // Between two oracles it is one of two ways to write a ByteArray; every other
            // tool means what it says, and it is passed on as text.
            (Type::ByteArray, Answer::Json(value))
                if self.form != ArgsForm::Signature && !value.trim_start().starts_with('"') =>
            {
                let text = json::compact(value).ok_or_else(|| fail(CodecFault::TooDeep))?;
                Ok(byte_array(&text))
            }
            (Type::Json, Answer::Text(text)) => {
                codec::encode_result(&self.function, &json::quoted(text))
            }
            (_, Answer::Text(text)) => {
                let value: &RawValue =
                    serde_json::from_str(text).map_err(|_| fail(CodecFault::NotJson))?;
                codec::encode_result(&self.function, value.get())
            }
            (_, Answer::Json(value)) => codec::encode_result(&self.function, value),
        }
    }
}

/// The parameter that stands for all arguments of a tool that names none.
const ALL_ARGUMENTS: &str = "arguments";

/// Arrays in arrays that are still told apart. Each level is looked through again for the
/// next, so this bounds what a hostile schema costs.
const ARRAYS_MAX: usize = 32;

fn byte_array(text: &str) -> Vec<Felt> {
    let mut felts = Vec::new();
    push_byte_array(text.as_bytes(), &mut felts);
    felts
}

/// What is read of a JSON Schema, each as raw JSON; the last of two members of one name.
#[derive(Default)]
struct Schema<'a> {
    ty: &'a str,
    items: Option<&'a str>,
    minimum: &'a str,
    properties: Option<&'a str>,
    required: &'a str,
    is_reference: bool,
}

impl<'a> Schema<'a> {
    /// A schema that is no object, or not even JSON, says nothing.
    fn read(text: &'a str) -> Schema<'a> {
        let mut schema = Schema::default();
        let _ = for_each_member(text, |name, value| match name {
            "type" => schema.ty = value,
            "items" => schema.items = Some(value),
            "minimum" => schema.minimum = value,
            "properties" => schema.properties = Some(value).filter(|text| text.starts_with('{')),
            "required" => schema.required = value,
            "$ref" => schema.is_reference = true,
            _ => {}
        });
        schema
    }
}

/// A table of types in the making.
#[derive(Default)]
struct Builder {
    types: Vec<Type>,
}

impl Builder {
    fn params(&mut self, properties: &str, required: &str) -> Vec<(String, TypeId)> {
        let required = strings(required);
        let mut seen = HashSet::new();
        let mut params = Vec::new();
        let _ = for_each_member(properties, |name, schema| {
            if !seen.insert(name.to_owned()) {
                return;
            }
            let ty = self.ty(schema, 0);
            let is_required = required.contains(name);
            let ty = if is_required { ty } else { self.add(Type::Option(ty)) };
            params.push((name.to_owned(), ty));
        });
        params
    }

    fn ty(&mut self, text: &str, arrays: usize) -> TypeId {
        let schema = Schema::read(text);
        let ty = match (schema.ty, schema.items) {
            _ if schema.is_reference => Type::Json,
            (r#""boolean""#, _) => Type::Bool,
            (r#""integer""#, _) => {
                let is_unsigned = schema.minimum.parse().is_ok_and(|minimum: f64| 0.0 <= minimum);
                Type::Integer(if is_unsigned { U128 } else { I128 })
            }
            (r#""string""#, _) => Type::ByteArray,
            (r#""array""#, Some(items)) if arrays < ARRAYS_MAX => {
                Type::Array(self.ty(items, arrays + 1))
            }
            _ => Type::Json,
        };
        self.add(ty)
    }

    fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId::next(&self.types);
        self.types.push(ty);
        id
    }
}

fn for_each_member<'a>(object: &'a str, mut take: impl FnMut(&str, &'a str)) -> Result<(), Broken> {
    let mut cursor = Cursor::new(object);
    let mut first = true;
    if cursor.take(b'{') {
        while cursor.another(b'}', first)? {
            take(&cursor.key()?, cursor.value()?);
            first = false;
        }
    }
    Ok(())
}

/// The strings of an array.
fn strings(array: &str) -> HashSet<String> {
    let mut strings = HashSet::new();
    let mut cursor = Cursor::new(array);
    if !cursor.take(b'[') {
        return strings;
    }
    let mut first = true;
    while let Ok(true) = cursor.another(b']', first)
        && let Ok(value) = cursor.value()
    {
        if let Ok(string) = Cursor::new(value).string() {
            strings.insert(string.into_owned());
        }
        first = false;
    }
    strings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::oracle::{
        felt::Leniency,
        felts, known,
        signature::{self, parse},
    };

    fn from_input(schema: &str) -> String {
        Binding::from_schemas("t", schema, None).function().canonical()
    }

    fn list(text: &str) -> Vec<Felt> {
        felts::read_words(text.split(',').filter(|word| !word.is_empty()), Leniency::Strict)
            .unwrap()
    }

    #[test]
    fn properties_become_parameters_in_their_order() {
        for (schema, want) in [
            (
                r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["a","z"]}"#,
                "t(z: ByteArray, a: i128) -> ByteArray",
            ),
            (
                r#"{"required":["n"],"properties":{"n":{"minimum":0,"type":"integer"},"o":{"type":"boolean"}}}"#,
                "t(n: u128, o: Option<bool>) -> ByteArray",
            ),
            (
                r#"{"properties":{"l":{"type":"array","items":{"type":"array","items":{"type":"integer","minimum":-1}}}},"required":["l"]}"#,
                "t(l: Array<Array<i128>>) -> ByteArray",
            ),
            (
                r##"{"properties":{"a":{"type":"number"},"b":{"type":"object"},"c":{"type":["string","null"]},"d":{"$ref":"#/x","type":"string"},"e":{},"f":true,"g":{"type":"array"}},"required":["a","b","c","d","e","f","g"]}"##,
                "t(a: json, b: json, c: json, d: json, e: json, f: json, g: json) -> ByteArray",
            ),
            (
                r#"{"properties":{"a b":{},"a b":{"type":"string"}}}"#,
                "t(\"a b\": Option<json>) -> ByteArray",
            ),
            (r#"{"type":"object","properties":{}}"#, "t() -> ByteArray"),
            (r#"{"type":"object"}"#, "t(arguments: json) -> ByteArray"),
            (r#"{"properties":5,"required":7}"#, "t(arguments: json) -> ByteArray"),
            ("true", "t(arguments: json) -> ByteArray"),
        ] {
            assert_eq!(from_input(schema), want);
        }
    }

    #[test]
    fn the_result_goes_by_the_same_table() {
        for (schema, want) in [
            (r#"{"type":"string"}"#, "t() -> ByteArray"),
            (r#"{"type":"integer","minimum":0}"#, "t() -> u128"),
            (r#"{"type":"array","items":{"type":"boolean"}}"#, "t() -> Array<bool>"),
            (r#"{"type":"object","properties":{}}"#, "t() -> json"),
        ] {
            let binding = Binding::from_schemas("t", r#"{"properties":{}}"#, Some(schema));
            assert_eq!(binding.function().canonical(), want);
        }
    }

    #[test]
    fn deep_schemas_end_in_json() {
        let nested = r#"{"type":"array","items":"#.repeat(10_000) + "{}" + &"}".repeat(10_000);
        let schema = format!(r#"{{"properties":{{"x":{nested}}},"required":["x"]}}"#);
        let canonical = from_input(&schema);
        assert_eq!(canonical.matches("Array<").count(), ARRAYS_MAX);
        assert_eq!(parse(&canonical).unwrap()[0].canonical(), canonical);
    }

    #[test]
    fn arguments_are_what_the_tool_expects() {
        let one_json = list("0x0,0x7b7d,0x2");
        let whole = Binding::from_schemas("t", "{}", None);
        assert_eq!(whole.arguments(&one_json).unwrap(), "{}");
        let named = r#"{"properties":{"arguments":{}},"required":["arguments"]}"#;
        let by_name = Binding::from_schemas("t", named, None);
        assert_eq!(by_name.arguments(&one_json).unwrap(), r#"{"arguments":{}}"#);

        let echo = known::builtin("echo").unwrap();
        assert_eq!(Binding::declared(echo.clone(), "{}").arguments(&one_json).unwrap(), "{}");
        let by_name = Binding::declared(echo, named);
        assert_eq!(by_name.arguments(&one_json).unwrap(), r#"{"arguments":{}}"#);

        let fail = Binding::declared(known::builtin("fail").unwrap(), r#"{"properties":{}}"#);
        assert_eq!(fail.arguments(&list("0x0,0x61,0x1,0x1")).unwrap(), r#"{"message":"a"}"#);
    }

    #[test]
    fn an_answer_becomes_the_felts_of_its_type() {
        let abc = "0x0,0x616263,0x3";
        for (ty, answer, want) in [
            ("ByteArray", Answer::Text("abc"), abc),
            ("ByteArray", Answer::Json(r#""abc""#), abc),
            ("ByteArray", Answer::Json("[1, 2]"), "0x0,0x5b312c325d,0x5"),
            ("json", Answer::Text("1"), "0x0,0x223122,0x3"),
            ("json", Answer::Json("1"), "0x0,0x31,0x1"),
            ("u8", Answer::Text(" 7 "), "0x7"),
            ("u8", Answer::Json("7"), "0x7"),
            ("Option<ByteArray>", Answer::Json(r#""abc""#), "0x0,0x0,0x616263,0x3"),
        ] {
            let function = signature::parse(&format!("f() -> {ty}")).unwrap().remove(0);
            let binding = Binding::declared(function, "{}");
            assert_eq!(binding.felts(answer).unwrap(), list(want), "{ty} {answer:?}");
        }
        let number = Binding::declared(parse("f() -> u8").unwrap().remove(0), "{}");
        let error = number.felts(Answer::Text("many")).unwrap_err();
        assert_eq!(error.to_string(), "the result is not JSON");
        let error = number.felts(Answer::Json(r#""many""#)).unwrap_err();
        assert_eq!(error.to_string(), r#"the result must be an integer of type u8, not "many""#);
    }

    #[test]
    fn bytes_survive_the_way_from_oracle_to_oracle() {
        let bytes = Answer::Json(r#"{"bytes":"ff"}"#);
        let function = parse("f() -> ByteArray").unwrap().remove(0);
        let oracle = Binding::of_oracle(function.clone());
        assert_eq!(oracle.felts(bytes).unwrap(), list("0x0,0xff,0x1"));
        let other = Binding::declared(function, "{}");
        assert_eq!(other.felts(bytes).unwrap(), list("0x0,0x7b226279746573223a226666227d,0xe"));
    }

    proptest! {
        #[test]
        fn no_schema_fails(schema in r#"[{}\[\]",: a1]{0,24}|\{"(properties|required|type|items)":[{}"a\[\]:,]{0,12}\}"#) {
            let function = Binding::from_schemas("t", &schema, Some(&schema)).function().canonical();
            prop_assert!(parse(&function).is_ok(), "{}", function);
        }
    }
}
