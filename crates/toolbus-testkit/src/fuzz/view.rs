//! The room of views: patterns of names, and what becomes of arguments and schemas where a view fills
//! some in.

use bytes::Bytes;
use toolbus_proto::json::{Json, Kind, edit};
use toolbus_proto::pattern::{matches, may_begin};
use toolbus_proto::tool::FailureKind;
use toolbus_proto::view::{Fixed, Pattern, filled_in, without_fixed};

/// A pattern, a zero, and a name: whether one stands for the other is what a slow way says that is
/// hard to get wrong.
pub fn patterns(data: &[u8]) {
    let Some((pattern, name)) = two_texts(data) else { return };
    let signs: Vec<char> = pattern.chars().take(300).collect();
    let chars: Vec<char> = name.chars().take(300).collect();
    let (pattern, name) = (signs.iter().collect::<String>(), chars.iter().collect::<String>());
    let is_match = matches(&pattern, &name);
    assert_eq!(is_match, matches_slowly(&signs, &chars), "{pattern:?} {name:?}");
    for (at, _) in name.char_indices().filter(|_| is_match) {
        assert!(may_begin(&pattern, &name[..at]), "{pattern:?} {name:?} {at}");
    }
    let read = Pattern::new(&pattern);
    assert_eq!(read.to_string(), pattern);
    // A `?` may stand for the dot, but a config has to write it.
    if !read.can_match() && !pattern.contains('?') {
        assert!(!read.matches("a.b"), "{pattern:?}");
    }
}

/// Which beginnings of the name each beginning of the pattern stands for.
fn matches_slowly(pattern: &[char], name: &[char]) -> bool {
    let mut stands_for = vec![false; name.len() + 1];
    stands_for[0] = true;
    for sign in pattern {
        let before = stands_for.clone();
        for at in 0..stands_for.len() {
            stands_for[at] = match sign {
                '*' => before[at] || 0 < at && stands_for[at - 1],
                sign => 0 < at && before[at - 1] && (*sign == '?' || *sign == name[at - 1]),
            };
        }
    }
    stands_for[name.len()]
}

/// What is fixed, a zero, and what is given: a caller's own members keep their bytes and their order,
/// what is fixed comes behind them, and nothing that is fixed can be given.
pub fn arguments(data: &[u8]) {
    let Some((fixed, given)) = two_texts(data) else { return };
    let json = |text: &str| Json::parse(Bytes::copy_from_slice(text.as_bytes())).ok();
    let (Some(fixed), Some(given)) = (json(&fixed), json(&given)) else { return };
    let fixed: Fixed = edit::members(fixed.as_str())
        .map(|(name, value)| (name.into_owned(), json(value).expect("a part of JSON is JSON")))
        .collect();
    filled(&fixed, &given);
    asked_for(&fixed, given.as_str());
}

fn filled(fixed: &Fixed, given: &Json) {
    let own: Vec<_> = edit::members(given.as_str()).collect();
    let is_said = own.iter().any(|(name, _)| fixed.has(name));
    match filled_in("t", Some(given), fixed) {
        Ok(filled) => {
            assert!(!is_said && matches!(given.kind(), Kind::Object | Kind::Null), "{given}");
            assert!(Json::parse(filled.as_bytes().clone()).is_ok(), "{filled}");
            let all: Vec<_> = edit::members(filled.as_str()).collect();
            let (kept, behind) = all.split_at(own.len());
            assert_eq!(kept, own);
            assert!(behind.iter().map(|(name, _)| &**name).eq(fixed.names()), "{filled}");
            let values = fixed.iter().map(|(_, value)| value.as_str());
            assert!(behind.iter().map(|(_, value)| *value).eq(values), "{filled}");
        }
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::InvalidArguments);
            assert!(is_said || !matches!(given.kind(), Kind::Object | Kind::Null), "{given}");
        }
    }
}

fn asked_for(fixed: &Fixed, schema: &str) {
    let changed = without_fixed(schema, fixed);
    assert!(Json::parse(changed.clone()).is_ok(), "{changed}");
    let others = |schema: &str| -> Vec<(String, String)> {
        let others =
            edit::members(schema).filter(|(name, _)| !matches!(&**name, "properties" | "required"));
        others.map(|(name, value)| (name.into_owned(), value.to_owned())).collect()
    };
    assert_eq!(others(schema), others(&changed));
    let properties = edit::member(&changed, "properties").unwrap_or_default();
    assert!(!edit::members(properties).any(|(name, _)| fixed.has(&name)), "{changed}");
    let required = edit::member(&changed, "required").unwrap_or_default();
    let mut required = edit::elements(required).filter_map(json_text);
    assert!(!required.any(|name| fixed.has(&name)), "{changed}");
}

fn json_text(text: &str) -> Option<String> {
    Json::parse(text.to_owned()).ok()?.string()
}

fn two_texts(data: &[u8]) -> Option<(String, String)> {
    let at = data.iter().position(|byte| *byte == 0)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some((text(&data[..at])?, text(&data[at + 1..])?))
}
