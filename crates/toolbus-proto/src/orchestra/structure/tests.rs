use proptest::prelude::*;

use super::*;

fn of(json: &str) -> Struct {
    Struct::of_json(json).unwrap()
}

fn read(bytes: &[u8]) -> Result<Struct, Malformed> {
    Struct::read(&Bytes::copy_from_slice(bytes))
}

#[test]
fn numbers_are_written_as_they_are_read_back() {
    for (number, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-3.0, "-3"),
        (1.5, "1.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (12_345_678_901_234_567_890.0, "12345678901234567000"),
        (9_007_199_254_740_993.0, "9007199254740992"),
        (1e20, "100000000000000000000"),
        (1e21, "1e21"),
        (1.5e300, "1.5e300"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (f64::MAX, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
        (f64::NAN, "null"),
        (f64::INFINITY, "null"),
        (f64::NEG_INFINITY, "null"),
    ] {
        let mut out = Vec::new();
        write_number(&mut out, number);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
    assert_eq!(of(r#"{"a":1e999,"b":-1e999}"#).to_json().as_str().matches("e308").count(), 2);
}

#[test]
fn the_last_of_two_keys_counts_and_keys_are_sorted() {
    let json = of(r#"{ "b": 1, "a": [true, null, {}], "b": "\u00e9<&>\u2028\n" }"#).to_json();
    assert_eq!(json.as_str(), "{\"a\":[true,null,{}],\"b\":\"é<&>\u{2028}\\n\"}");
}

#[test]
fn what_is_no_object_is_no_struct() {
    assert_eq!(Struct::of_json("[1]"), Err(NotAStruct::NotAnObject));
    assert!(matches!(Struct::of_json(r#"{"a":"\ud800"}"#), Err(NotAStruct::Json(_))));
}

#[test]
fn what_is_given_twice_is_merged() {
    let twice = [&of(r#"{"a":1,"b":1}"#).0[..], &of(r#"{"b":2,"c":3}"#).0[..]].concat();
    assert_eq!(read(&twice).unwrap().to_json().as_str(), r#"{"a":1,"b":2,"c":3}"#);
    // One entry whose value holds a struct twice, then a list twice.
    let value =
        b"\x2a\x0a\x0a\x08\x0a\x01a\x12\x03\x1a\x01x\x2a\x0a\x0a\x08\x0a\x01b\x12\x03\x1a\x01y";
    let entry = [b"\x0a\x01k\x12", &[value.len() as u8][..], value].concat();
    let fields = [b"\x0a", &[entry.len() as u8][..], &entry].concat();
    assert_eq!(read(&fields).unwrap().to_json().as_str(), r#"{"k":{"a":"x","b":"y"}}"#);
    let lists = b"\x0a\x11\x0a\x01k\x12\x0c\x32\x04\x0a\x02\x20\x01\x32\x04\x0a\x02\x08\x00";
    assert_eq!(read(lists).unwrap().to_json().as_str(), r#"{"k":[true,null]}"#);
    // A value without a member is null, and so is an entry without a value.
    assert_eq!(read(b"\x0a\x05\x0a\x01k\x12\x00").unwrap().to_json().as_str(), r#"{"k":null}"#);
    assert_eq!(read(b"\x0a\x03\x0a\x01k").unwrap().to_json().as_str(), r#"{"k":null}"#);
}

#[test]
fn a_wrong_wire_type_is_malformed_anywhere() {
    for bytes in [
        &b"\x08\x01"[..],
        b"\x0a\x02\x08\x01",
        b"\x0a\x02\x10\x01",
        b"\x0a\x04\x12\x02\x10\x01",
        b"\x0a\x05\x12\x03\x0a\x01x",
    ] {
        assert!(matches!(read(bytes), Err(Malformed::WrongType(_))), "{bytes:?}");
    }
    assert_eq!(read(b"\x0a\x05\x12\x03\x1a\x01\xff"), Err(Malformed::NotUtf8(3)));
}

#[test]
fn a_hundred_and_twenty_eight_levels_pass_and_no_more() {
    for (open, close) in [("{\"a\":", "}"), ("[", "]")] {
        let nested = |levels: usize| {
            format!("{{\"a\":{}null{}}}", open.repeat(levels), close.repeat(levels))
        };
        let deepest = nested(127);
        assert_eq!(of(&deepest).to_json().as_str(), deepest);
        // What cannot be written from JSON can still arrive.
        let inner = of(&deepest).0;
        let value = [&b"\x2a"[..], &len(inner.len()), &inner].concat();
        let entry = [&b"\x0a\x01a\x12"[..], &len(value.len()), &value].concat();
        let deeper = [&b"\x0a"[..], &len(entry.len()), &entry].concat();
        assert_eq!(read(&deeper), Err(Malformed::TooDeep));
    }
}

fn len(len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    super::super::protobuf::write::put_varint(&mut out, len as u64);
    out
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n))),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The same value with every number a double, since this wire has no others.
fn doubles(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => number.as_f64().map(Value::from).unwrap(),
        Value::Array(values) => values.into_iter().map(doubles).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, doubles(value))).collect(),
        other => other,
    }
}

proptest! {
    #[test]
    fn an_object_comes_back_as_it_was(value in any_json()) {
        let object = serde_json::json!({ "k": value });
        let text = object.to_string();
        let there = of(&text);
        let back = there.to_json();
        let found: serde_json::Value = back.read().unwrap();
        prop_assert_eq!(doubles(found), doubles(object));
        prop_assert_eq!(of(back.as_str()), there, "one form only");
    }

    #[test]
    fn a_number_comes_back_as_it_was(bits in any::<u64>()) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let mut text = Vec::new();
        write_number(&mut text, number);
        let text = String::from_utf8(text).unwrap();
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
        prop_assert_eq!(of(&format!("{{\"n\":{text}}}")).to_json().to_string(), format!("{{\"n\":{text}}}"));
    }

    #[test]
    fn bytes_by_chance_are_refused_or_printed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(found) = read(&bytes) {
            let json = found.to_json();
            prop_assert_eq!(of(json.as_str()).to_json(), json);
        }
    }
}
