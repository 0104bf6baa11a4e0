use proptest::prelude::*;

use super::*;
use crate::orchard::types::parse;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

#[test]
fn what_the_type_does_not_have_is_dropped_and_told() {
    let ty = parse("object({a=string,o=optional(object({x=number}))})").unwrap();
    let value = json(r#"{"z":[1],"o":{"y":1,"x":"2"},"a":1.50,"odd key":null}"#);
    let converted = convert(&ty, &value).unwrap();
    assert_eq!(converted.value.as_str(), r#"{"a":"1.5","o":{"x":2}}"#);
    assert_eq!(converted.dropped, [".z", ".o.y", "[\"odd key\"]"]);
}

#[test]
fn a_long_number_keeps_its_text() {
    for (ty, value) in
        [("number", "1.50"), ("any", "[12345678901234567890123456789012345678901.10]")]
    {
        assert_eq!(convert(&parse(ty).unwrap(), &json(value)).unwrap().value.as_str(), value);
    }
}

#[test]
fn a_check_converts_nothing() {
    for (ty, value, refusal) in [
        ("string", r#""a""#, None),
        ("string", "5", Some("want string, got number")),
        ("number", r#""5""#, Some("want number, got string")),
        ("bool", "null", Some("want bool, got null")),
        ("any", "null", None),
        ("list(string)", r#"["a",1]"#, Some("[1]: want string, got number")),
        ("set(any)", r#"[2,1,"x"]"#, None),
        ("map(bool)", r#"{"a":true,"odd key":1}"#, Some("[\"odd key\"]: want bool, got number")),
        ("tuple([string,number])", r#"["a",1]"#, None),
        ("tuple([string,number])", r#"["a",1,2]"#, Some("want a list of 2, got a list of 3")),
        ("object({a=string,b=optional(number)})", r#"{"more":1,"b":null,"a":""}"#, None),
        ("object({a=string,b=optional(number)})", r#"{"b":1}"#, Some("a: required")),
        (
            "object({a=object({b=list(any)})})",
            r#"{"a":{"b":{}}}"#,
            Some("a.b: want list, got object"),
        ),
    ] {
        let found = check(&parse(ty).unwrap(), value).err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), refusal, "{ty} {value}");
    }
    let mismatch = check(&parse("list(string)").unwrap(), "[5]").unwrap_err().under("attrs.l");
    assert_eq!(mismatch.to_string(), "attrs.l[0]: want string, got number");
}

/// Some JSON, with keys that repeat and stand in any order.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|bool| bool.to_string()),
        "-?(0|[1-9][0-9]{0,4})(\\.[0-9]{1,3})?([eE][-+]?[0-9])?",
        "\"(true|false|-?[0-9]{1,3}(\\.[0-9])?|[a-c]{0,2}|\\\\u0061|\\\\n)\"",
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let member =
            ("[a-d]", inner.clone()).prop_map(|(key, value)| format!("\"{key}\" : {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|all| format!("[{}]", all.join(" ,"))),
            prop::collection::vec(member, 0..5).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

/// The text of some type.
fn any_type() -> impl Strategy<Value = String> {
    let leaf =
        prop::sample::select(&["string", "number", "bool", "any"][..]).prop_map(str::to_owned);
    leaf.prop_recursive(3, 16, 3, |inner| {
        let field = ("[a-d]", inner.clone(), 0..3).prop_map(|(key, ty, optional)| match optional {
            0 => (key, ty),
            1 => (key, format!("optional({ty})")),
            _ => (key, format!("optional({ty},null)")),
        });
        prop_oneof![
            inner.clone().prop_map(|ty| format!("list({ty})")),
            inner.clone().prop_map(|ty| format!("set({ty})")),
            inner.clone().prop_map(|ty| format!("map({ty})")),
            prop::collection::vec(inner, 0..3)
                .prop_map(|all| format!("tuple([{}])", all.join(","))),
            prop::collection::vec(field, 0..4).prop_map(|fields| {
                let fields: std::collections::BTreeMap<_, _> = fields.into_iter().collect();
                let fields: Vec<_> = fields.iter().map(|(key, ty)| format!("{key}={ty}")).collect();
                format!("object({{{}}})", fields.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_converted_stays_as_it_is(ty in any_type(), value in any_json()) {
        let ty = parse(&ty).unwrap();
        if let Ok(converted) = convert(&ty, &json(&value)) {
            let again = convert(&ty, &converted.value).unwrap();
            prop_assert_eq!(&again.value, &converted.value);
            prop_assert_eq!(again.dropped, Vec::<String>::new());
        }
    }

    #[test]
    fn what_fits_as_it_is_can_be_converted(ty in any_type(), value in any_json()) {
        let ty = parse(&ty).unwrap();
        if check(&ty, &value).is_ok() {
            prop_assert!(convert(&ty, &json(&value)).is_ok(), "{}", ty);
        }
    }

    #[test]
    fn anything_keeps_its_meaning(value in any_json()) {
        let converted = convert(&Type::Any, &json(&value)).unwrap().value;
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        // Floats by their value: digits are written out, and `100.0` is `100`.
        prop_assert_eq!(floats(read(converted.as_str())), floats(read(&value)));
    }
}

fn floats(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => Value::from(number.as_f64().unwrap()),
        Value::Array(all) => all.into_iter().map(floats).collect(),
        Value::Object(all) => all.into_iter().map(|(key, value)| (key, floats(value))).collect(),
        other => other,
    }
}
