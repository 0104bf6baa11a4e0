//! JSON Schemas of what a function takes and gives, for callers that go by schemas.

use super::signature::{Function, Integer, Members, Type, TypeId, Types};
use crate::json::{Json, write_string};

/// The schema of the arguments, given by name.
pub fn input_schema(function: &Function) -> String {
    let mut writer = Writer::new(&function.types);
    writer.members(&function.params);
    writer.finish()
}

/// The schema of the result.
pub fn output_schema(function: &Function) -> String {
    let mut writer = Writer::new(&function.types);
    writer.ty(function.result);
    writer.finish()
}

/// From here on definitions are left open: spelled out again at each use, a few lines of
/// signature could fill the memory.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

struct Writer<'a> {
    types: &'a Types,
    out: Vec<u8>,
    /// The definitions that are being spelled out.
    inside: Vec<TypeId>,
}

impl<'a> Writer<'a> {
    fn new(types: &'a Types) -> Writer<'a> {
        Writer { types, out: Vec::new(), inside: Vec::new() }
    }

    fn finish(self) -> String {
        String::from_utf8(self.out).expect("only text was written")
    }

    fn ty(&mut self, id: TypeId) {
        let types = self.types;
        match &types[id] {
            Type::Felt252 | Type::Bytes31 => self.text(r#"{"type":["string","integer"]}"#),
            Type::Bool => self.text(r#"{"type":"boolean"}"#),
            Type::Integer(integer) => self.integer(*integer),
            Type::ByteArray | Type::ShortString => self.text(r#"{"type":["string","object"]}"#),
            Type::Json => self.text("{}"),
            Type::Option(inner) => {
                self.text(r#"{"anyOf":["#);
                if types.some_is_spelled_out(*inner) {
                    self.tagged("Some", *inner);
                } else {
                    self.ty(*inner);
                }
                self.text(r#",{"type":"null"}]}"#);
            }
            Type::Array(element) | Type::Span(element) => {
                self.text(r#"{"type":"array","items":"#);
                self.ty(*element);
                self.text("}");
            }
            Type::Fixed(element, count) => {
                self.text(r#"{"type":"array","items":"#);
                self.ty(*element);
                self.length((*count).into());
            }
            Type::Tuple(members) if members.is_empty() => self.text(r#"{"type":"null"}"#),
            Type::Tuple(members) => {
                self.text(r#"{"type":"array","prefixItems":["#);
                self.list(members.iter(), |writer, member| writer.ty(*member));
                self.text("]");
                self.length(members.len());
            }
            Type::Result(ok, err) => {
                self.text(r#"{"oneOf":["#);
                self.tagged("Ok", *ok);
                self.text(",");
                self.tagged("Err", *err);
                self.text("]}");
            }
            Type::Struct(_, fields) => self.definition(id, |writer| writer.members(fields)),
            Type::Enum(_, variants) => self.definition(id, |writer| writer.variants(variants)),
        }
    }

    /// Spells out a definition, unless it is inside itself or there is too much already.
    fn definition(&mut self, id: TypeId, write: impl FnOnce(&mut Self)) {
        if SCHEMA_BYTES_MAX < self.out.len() || self.inside.contains(&id) {
            self.text("{}");
            return;
        }
        self.inside.push(id);
        write(self);
        self.inside.pop();
    }

    fn members(&mut self, members: &Members<TypeId>) {
        let types = self.types;
        let is_required = |ty: &TypeId| !matches!(types[*ty], Type::Option(_));
        let required = members.iter().filter(|(_, member)| is_required(member));
        self.text(r#"{"type":"object","properties":{"#);
        self.list(members.iter(), |writer, (name, member)| {
            write_string(&mut writer.out, name);
            writer.text(":");
            writer.ty(*member);
        });
        self.text(r#"},"required":["#);
        self.list(required, |writer, (name, _)| {
            write_string(&mut writer.out, name);
        });
        self.text(r#"],"additionalProperties":false}"#);
    }

    fn variants(&mut self, variants: &Members<Option<TypeId>>) {
        self.text(r#"{"oneOf":["#);
        self.list(variants.iter(), |writer, (name, payload)| match payload {
            Some(payload) => writer.tagged(name, *payload),
            None => {
                writer.text(r#"{"const":"#);
                write_string(&mut writer.out, name);
                writer.text("}");
            }
        });
        self.text("]}");
    }

    fn tagged(&mut self, name: &str, payload: TypeId) {
        let name = Json::of(name);
        self.text(&format!(r#"{{"type":"object","properties":{{{name}:"#));
        self.ty(payload);
        self.text(&format!(r#"}},"required":[{name}],"additionalProperties":false}}"#));
    }

    fn integer(&mut self, integer: Integer) {
        let Integer { bits, signed, .. } = integer;
        let (minimum, maximum) = match signed {
            _ if 32 < bits => return self.text(r#"{"type":["integer","string"]}"#),
            false => (0, (1_i64 << bits) - 1),
            true => (-1_i64 << (bits - 1), (1_i64 << (bits - 1)) - 1),
        };
        self.text(&format!(r#"{{"type":"integer","minimum":{minimum},"maximum":{maximum}}}"#));
    }

    /// Ends the schema of an array that has exactly this many elements.
    fn length(&mut self, count: usize) {
        self.text(&format!(r#","minItems":{count},"maxItems":{count}}}"#));
    }

    fn list<T>(&mut self, items: impl Iterator<Item = T>, write: impl Fn(&mut Self, T)) {
        for (place, item) in items.enumerate() {
            self.text(if place == 0 { "" } else { "," });
            write(self, item);
        }
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::signature::parse;

    fn output(text: &str) -> String {
        output_schema(&parse(text).unwrap()[0])
    }

    #[test]
    fn every_type_has_its_schema() {
        for (ty, want) in [
            ("felt252", r#"{"type":["string","integer"]}"#),
            ("bytes31", r#"{"type":["string","integer"]}"#),
            ("bool", r#"{"type":"boolean"}"#),
            ("u8", r#"{"type":"integer","minimum":0,"maximum":255}"#),
            ("usize", r#"{"type":"integer","minimum":0,"maximum":4294967295}"#),
            ("i8", r#"{"type":"integer","minimum":-128,"maximum":127}"#),
            ("i32", r#"{"type":"integer","minimum":-2147483648,"maximum":2147483647}"#),
            ("u64", r#"{"type":["integer","string"]}"#),
            ("u256", r#"{"type":["integer","string"]}"#),
            ("ByteArray", r#"{"type":["string","object"]}"#),
            ("shortstring", r#"{"type":["string","object"]}"#),
            ("json", "{}"),
            ("()", r#"{"type":"null"}"#),
            ("Option<bool>", r#"{"anyOf":[{"type":"boolean"},{"type":"null"}]}"#),
            (
                "Option<json>",
                r#"{"anyOf":[{"type":"object","properties":{"Some":{}},"required":["Some"],"additionalProperties":false},{"type":"null"}]}"#,
            ),
            ("Span<bool>", r#"{"type":"array","items":{"type":"boolean"}}"#),
            (
                "[bool; 3]",
                r#"{"type":"array","items":{"type":"boolean"},"minItems":3,"maxItems":3}"#,
            ),
            (
                "(bool, json)",
                r#"{"type":"array","prefixItems":[{"type":"boolean"},{}],"minItems":2,"maxItems":2}"#,
            ),
            (
                "Result<bool, ()>",
                r#"{"oneOf":[{"type":"object","properties":{"Ok":{"type":"boolean"}},"required":["Ok"],"additionalProperties":false},{"type":"object","properties":{"Err":{"type":"null"}},"required":["Err"],"additionalProperties":false}]}"#,
            ),
        ] {
            assert_eq!(output(&format!("f() -> {ty}")), want, "{ty}");
        }
        assert_eq!(
            output("enum Shape { Dot, Circle: bool } f() -> Shape"),
            r#"{"oneOf":[{"const":"Dot"},{"type":"object","properties":{"Circle":{"type":"boolean"}},"required":["Circle"],"additionalProperties":false}]}"#
        );
    }

    #[test]
    fn arguments_are_an_object_in_the_order_of_the_parameters() {
        let function =
            &parse("struct P { x: bool } f(z: P, a: Option<bool>, \"m n\": json)").unwrap()[0];
        assert_eq!(
            input_schema(function),
            r#"{"type":"object","properties":{"z":{"type":"object","properties":{"x":{"type":"boolean"}},"required":["x"],"additionalProperties":false},"a":{"anyOf":[{"type":"boolean"},{"type":"null"}]},"m n":{}},"required":["z","m n"],"additionalProperties":false}"#
        );
    }

    #[test]
    fn what_would_never_end_is_left_open() {
        assert_eq!(
            output("struct N { next: Array<N> } f() -> N"),
            r#"{"type":"object","properties":{"next":{"type":"array","items":{}}},"required":["next"],"additionalProperties":false}"#
        );
        let links = (1..100).map(|i| format!("struct S{i} {{ a: S{}, b: S{} }} ", i - 1, i - 1));
        let doubling = format!("struct S0 {{}} {} f() -> S99", links.collect::<String>());
        let schema = output(&doubling);
        assert!(schema.len() < 2 * SCHEMA_BYTES_MAX, "{}", schema.len());
        serde_json::from_str::<serde::de::IgnoredAny>(&schema).unwrap();
    }
}
