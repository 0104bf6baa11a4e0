use proptest::prelude::*;

use super::*;

#[test]
fn a_value_keeps_its_text() {
    for text in ["1.50", "1e400", "-0", r#""\u0041\/""#, r#"{"b":1,"a":[ 2 ]}"#, "null"] {
        let padded = format!(" \t{text}\r\n");
        assert_eq!(Json::parse(padded).unwrap().as_str(), text);
    }
}

#[test]
fn what_is_not_one_value_is_refused_where_it_goes_wrong() {
    for (text, why) in [
        ("", "not JSON: unexpected end at byte 0"),
        ("{\"a\":}", "not JSON: unexpected `}` at byte 5"),
        ("[1,]", "not JSON: unexpected `]` at byte 3"),
        ("01", "not JSON: unexpected `1` at byte 1"),
        ("1 2", "not JSON: unexpected `2` at byte 2"),
        ("\"a\nb\"", "not JSON: unexpected byte 0x0a at byte 2"),
        ("\"\\x\"", "not JSON: unexpected `x` at byte 2"),
        ("[}", "not JSON: unexpected `}` at byte 1"),
        ("nul", "not JSON: unexpected end at byte 3"),
        ("-", "not JSON: unexpected end at byte 1"),
        ("{'a':1}", "not JSON: unexpected `'` at byte 1"),
    ] {
        assert_eq!(Json::parse(text).unwrap_err().to_string(), why, "{text:?}");
    }
    assert_eq!(Json::parse(&b"\"\xff\""[..]).unwrap_err(), JsonError::NotUtf8);
}

#[test]
fn what_is_known_to_come_is_taken_piece_by_piece() {
    let mut scanner = Scanner::new(r#" { "\u0061" : [ "b" , "\n" ] , "c":"\ud800" } "#);
    assert!(scanner.enter_object());
    assert_eq!(scanner.more(true, b'}'), Ok(true));
    assert_eq!(scanner.name().unwrap(), "a");
    assert_eq!(scanner.next_byte(), Some(b'['));
    assert!(scanner.enter(b'['));
    assert_eq!(scanner.more(true, b']'), Ok(true));
    assert_eq!(scanner.string().unwrap(), "b");
    assert_eq!(scanner.more(false, b']'), Ok(true));
    assert_eq!(scanner.string().unwrap(), "\n");
    assert_eq!(scanner.more(false, b']'), Ok(false));
    assert_eq!(scanner.more(false, b'}'), Ok(true));
    assert_eq!(scanner.name().unwrap(), "c");
    // Half a character is none.
    assert!(scanner.string().is_err());
    assert_eq!(scanner.more(false, b'}'), Ok(false));
    assert_eq!(scanner.end(), Ok(()));
}

#[test]
fn depth_is_bounded_without_recursion() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(Json::parse(nested(DEPTH_MAX)).is_ok());
    assert_eq!(Json::parse(nested(DEPTH_MAX + 1)).unwrap_err(), JsonError::TooDeep);
    assert_eq!(Json::parse("[".repeat(1_000_000)).unwrap_err(), JsonError::TooDeep);
    let mixed = r#"{"a":["#.repeat(64) + "1" + &"]}".repeat(64);
    assert!(Json::parse(mixed).is_ok());
    // Read member by member it is as deep as it is when read in one go.
    let message = |levels: usize| format!(r#"{{"a":{},"b":[]}}"#, nested(levels - 1));
    let members = |text: &str| {
        let mut scanner = Scanner::new(text);
        assert!(scanner.enter_object());
        let mut first = true;
        while scanner.member(std::mem::take(&mut first))?.is_some() {}
        scanner.end()
    };
    assert!(members(&message(DEPTH_MAX)).is_ok());
    assert_eq!(members(&message(DEPTH_MAX + 1)), Err(JsonError::TooDeep));
}

#[test]
fn members_and_elements_are_slices_of_the_text() {
    let mut scanner = Scanner::new(r#" { "a" : [1, 2] , "b":{} } "#);
    assert!(scanner.enter_object());
    assert_eq!(scanner.member(true).unwrap(), Some((r#""a""#, "[1, 2]")));
    assert_eq!(scanner.member(false).unwrap(), Some((r#""b""#, "{}")));
    assert_eq!(scanner.member(false).unwrap(), None);
    scanner.end().unwrap();

    let mut scanner = Scanner::new("[[],1]");
    assert!(!scanner.enter_object());
    assert!(scanner.enter_array());
    assert_eq!(scanner.element(true).unwrap(), Some("[]"));
    assert_eq!(scanner.element(false).unwrap(), Some("1"));
    assert_eq!(scanner.element(false).unwrap(), None);
}

#[test]
fn compact_touches_nothing_inside_strings() {
    let json = Json::parse("{ \"a b\" :\n [ 1 , \" \\\" \" ] }").unwrap();
    assert_eq!(json.compact().as_str(), r#"{"a b":[1," \" "]}"#);
    let already = Json::parse("[1]").unwrap();
    assert_eq!(already.compact(), already);
}

#[test]
fn shown_is_the_string_itself_or_the_compact_value() {
    assert_eq!(Json::parse(r#""a\nb""#).unwrap().shown(), "a\nb");
    assert_eq!(Json::parse("[ 1 ]").unwrap().shown(), "[1]");
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_writes_we_take(value in any_json()) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let json = Json::parse(pretty).unwrap();
        prop_assert_eq!(json.compact().to_string(), serde_json::to_string(&value).unwrap());
    }

    #[test]
    fn we_and_serde_agree_on_what_is_json(text in r#"[\[\]{}:,"\\ 0-9eE.+\-a-cnulltrfs\n]{0,24}"#) {
        let ours = Json::parse(text.clone()).is_ok();
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(ours, theirs, "{:?}", text);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Json::parse(bytes);
    }

    #[test]
    fn a_written_string_reads_back(text in any::<String>()) {
        let mut out = Vec::new();
        write_string(&mut out, &text);
        prop_assert_eq!(Json::parse(out).unwrap().string(), Some(text));
    }
}

#[test]
fn a_string_ends_where_it_ends_however_long_it_is() {
    for len in (0..200).chain([1000, 4096]) {
        for end in [&b"\""[..], b"\\", b"\x1f", b"\n"] {
            for behind in [0, 1, 7, 64, 100] {
                let text = ["é".repeat(len / 2).as_bytes(), end, &b"x".repeat(behind)].concat();
                assert_eq!(scan::plain_prefix(&text), len / 2 * 2, "{len} {end:?} {behind}");
            }
        }
        assert_eq!(scan::plain_prefix(&b"~".repeat(len)), len);
    }
}

#[test]
fn a_value_is_written_inside_others_as_it_is() {
    let json = Json::parse(r#"{"b":1.00, "a":"\u0061"}"#).unwrap();
    assert_eq!(Json::try_of(&json).unwrap(), json);
    assert_eq!(Json::try_of(&[&json]).unwrap().as_str(), format!("[{json}]"));
    let keyed_by_lists = std::collections::BTreeMap::from([(vec![1], 2)]);
    assert!(Json::try_of(&keyed_by_lists).is_err());
}
