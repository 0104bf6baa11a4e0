//! Members of raw JSON objects, found and changed without touching a byte of the rest.
//!
//! What passes through between two ends of one era keeps its key order, number text and
//! escapes; only an id or a token inside it is exchanged. The text is known to be valid.

use std::borrow::Cow;

use crate::json::{Scanner, write_string};
use crate::jsonrpc::string;

/// The members of an object, in order; none if the value is no object.
pub fn members(object: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    raw_members(object).filter_map(|(key, value)| Some((string(key)?, value)))
}

/// The value of the member `name`; of the last, as most readers do, if it stands twice.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    members(object).filter(|(key, _)| key == name).last().map(|(_, value)| value)
}

/// The values of several members, found in one look; of the last, where one stands twice.
pub fn pick<'a, const COUNT: usize>(
    object: &'a str,
    names: [&str; COUNT],
) -> [Option<&'a str>; COUNT] {
    let mut found = [None; COUNT];
    for (key, value) in members(object) {
        if let Some(place) = names.iter().position(|name| *name == key) {
            found[place] = Some(value);
        }
    }
    found
}

/// The characters of the member `name`, if it is a string.
pub fn text<'a>(object: &'a str, name: &str) -> Option<Cow<'a, str>> {
    member(object, name).and_then(string)
}

/// The value of a member that is a text, and is there once: who reads it otherwise reads the same.
pub fn only_text(object: &str, name: &str) -> Option<String> {
    let mut found = members(object).filter(|(known, _)| *known == name);
    let (first, second) = (found.next()?, found.next());
    second.is_none().then(|| string(first.1)).flatten().map(Cow::into_owned)
}

/// The elements of an array, in order; none if the value is no array.
pub fn elements(array: &str) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner::new(array);
    let mut open = scanner.enter_array();
    let mut first = true;
    std::iter::from_fn(move || {
        let element = if open { scanner.element(first).ok().flatten() } else { None };
        open = element.is_some();
        first = false;
        element
    })
}

/// The array with what `keep` makes of each of its elements; what it makes `None` of goes, with the
/// comma that parted it from its neighbour. Every other byte stays.
pub fn kept<'a>(array: &'a str, mut keep: impl FnMut(&'a str) -> Option<Cow<'a, str>>) -> String {
    let mut out = String::with_capacity(array.len());
    // Where the element before ended, and whether any was kept.
    let (mut end, mut is_first) = (None, true);
    for element in elements(array) {
        let at = offset(array, element);
        let before = &array[end.unwrap_or_default()..at];
        let begins = end.is_none();
        end = Some(at + element.len());
        if begins {
            out.push_str(before);
        }
        let Some(kept) = keep(element) else { continue };
        if !std::mem::take(&mut is_first) {
            out.push_str(before);
        }
        out.push_str(&kept);
    }
    out.push_str(&array[end.unwrap_or_default()..]);
    out
}

/// The object with another value for its member `name`, or `None` if it has no such member.
pub fn replaced(object: &str, name: &str, value: &str) -> Option<String> {
    spliced(object, all(object, name), value)
}

/// The object with another value for the member `name` of its member `outer`, or `None` if there
/// is no such member.
pub fn replaced_inside(object: &str, outer: &str, name: &str, value: &str) -> Option<String> {
    let outers: Vec<_> = all(object, outer).collect();
    let changed = replaced(outers.last()?, name, value)?;
    spliced(object, outers, &changed)
}

/// Every one of them: who knows which of two the other side reads.
fn all<'a>(object: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    members(object).filter(move |(key, _)| key == name).map(|(_, value)| value)
}

/// `object` with `value` in the place of these parts of it, if there are some.
fn spliced<'a>(
    object: &'a str,
    parts: impl IntoIterator<Item = &'a str>,
    value: &str,
) -> Option<String> {
    let mut out = String::with_capacity(object.len() + value.len());
    let mut kept_from = 0;
    for old in parts {
        let at = offset(object, old);
        out.push_str(&object[kept_from..at]);
        out.push_str(value);
        kept_from = at + old.len();
    }
    if kept_from == 0 {
        return None;
    }
    out.push_str(&object[kept_from..]);
    Some(out)
}

/// The object with `name` as its first member, in the place of any it had.
pub fn with_first(object: &str, name: &str, value: &str) -> String {
    if let Some(replaced) = replaced(object, name, value) {
        return replaced;
    }
    let mut out = b"{".to_vec();
    write_string(&mut out, name);
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
    let rest = object.trim_start().trim_start_matches('{');
    if raw_members(object).next().is_some() {
        out.push(b',');
    }
    out.extend_from_slice(rest.as_bytes());
    String::from_utf8(out).expect("made of text")
}

/// The object without its member `name`.
pub fn without(object: &str, name: &str) -> String {
    let mut out = String::with_capacity(object.len());
    out.push('{');
    for (key, value) in raw_members(object) {
        if string(key).is_some_and(|key| key == name) {
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        // Blanks around a member go with it; inside it everything stays.
        out.push_str(&object[offset(object, key)..offset(object, value) + value.len()]);
    }
    out.push('}');
    out
}

/// The object without its first member of this name and without the comma that parted it from its
/// neighbour, or `None` if it has no such member. Every other byte stays.
pub fn removed(object: &str, name: &str) -> Option<String> {
    let mut before = None;
    let mut members = raw_members(object);
    while let Some((key, value)) = members.next() {
        let end = offset(object, value) + value.len();
        if string(key).is_none_or(|key| key != name) {
            before = Some(end);
            continue;
        }
        let (from, to) = match (members.next(), before) {
            (Some((next, _)), _) => (offset(object, key), offset(object, next)),
            (None, Some(before)) => (before, end),
            (None, None) => (offset(object, key), end),
        };
        return Some(format!("{}{}", &object[..from], &object[to..]));
    }
    None
}

/// The object with a member of this name behind its member `after`, or `None` if it has no such
/// member. Every other byte stays.
pub fn with_behind(object: &str, after: &str, name: &str, value: &str) -> Option<String> {
    let (_, last) = raw_members(object)
        .filter(|(key, _)| string(key).is_some_and(|key| key == after))
        .last()?;
    let at = offset(object, last) + last.len();
    let mut member = b",".to_vec();
    write_string(&mut member, name);
    member.push(b':');
    member.extend_from_slice(value.as_bytes());
    let member = String::from_utf8(member).expect("made of text");
    Some(format!("{}{member}{}", &object[..at], &object[at..]))
}

/// The members of an object with their keys as they are written, quotes and escapes included.
pub(crate) fn raw_members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut scanner = Scanner::new(object);
    let mut open = scanner.enter_object();
    let mut first = true;
    std::iter::from_fn(move || {
        let member = if open { scanner.member(first).ok().flatten() } else { None };
        open = member.is_some();
        first = false;
        member
    })
}

/// Where `part` begins, which is cut out of `whole`.
pub(crate) fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_the_named_member_changes() {
        let object = r#"{ "a" : 1.0 , "\u0062":[ 2e2 ],"a":"\u00e9" }"#;
        assert_eq!(member(object, "a"), Some(r#""\u00e9""#));
        assert_eq!(text(object, "a").as_deref(), Some("é"));
        assert_eq!(pick(object, ["c", "a", "b"]), [None, Some(r#""\u00e9""#), Some("[ 2e2 ]")]);
        assert_eq!(
            replaced(object, "b", "7").unwrap(),
            r#"{ "a" : 1.0 , "\u0062":7,"a":"\u00e9" }"#
        );
        assert_eq!(replaced(object, "a", "0").unwrap(), r#"{ "a" : 0 , "\u0062":[ 2e2 ],"a":0 }"#);
        assert_eq!(replaced(object, "c", "0"), None);
        assert_eq!(without(object, "a"), r#"{"\u0062":[ 2e2 ]}"#);
        assert_eq!(without(object, "b"), r#"{"a" : 1.0,"a":"\u00e9"}"#);
        assert_eq!(with_first("{}", "t", "1"), r#"{"t":1}"#);
        assert_eq!(with_first(r#" {"t":"x","p":1.0}"#, "t", "2"), r#" {"t":2,"p":1.0}"#);
        assert_eq!(with_first(r#"{ "p":1.0}"#, "t", "2"), r#"{"t":2, "p":1.0}"#);
    }

    #[test]
    fn a_member_of_a_member_changes_alike_wherever_it_stands() {
        let object = r#"{"a":{"b":1}, "a" : {"c":2, "b":3}}"#;
        let twice = r#"{"a":{"c":2, "b":0}, "a" : {"c":2, "b":0}}"#;
        assert_eq!(replaced_inside(object, "a", "b", "0").unwrap(), twice);
        assert_eq!(replaced_inside(object, "a", "d", "0"), None);
        assert_eq!(replaced_inside(object, "d", "b", "0"), None);
    }

    #[test]
    fn a_member_goes_with_its_comma_and_comes_behind_another() {
        let object = r#"{ "a" : 1.0 , "\u0062":[ 2e2 ], "c":"\u00e9" }"#;
        assert_eq!(removed(object, "a").unwrap(), r#"{ "\u0062":[ 2e2 ], "c":"\u00e9" }"#);
        assert_eq!(removed(object, "b").unwrap(), r#"{ "a" : 1.0 , "c":"\u00e9" }"#);
        assert_eq!(removed(object, "c").unwrap(), r#"{ "a" : 1.0 , "\u0062":[ 2e2 ] }"#);
        assert_eq!(removed(object, "d"), None);
        assert_eq!(removed(r#"{ "a":1 }"#, "a").unwrap(), "{  }");
        let behind = r#"{ "a" : 1.0 , "\u0062":[ 2e2 ],"x":7, "c":"\u00e9" }"#;
        assert_eq!(with_behind(object, "b", "x", "7").unwrap(), behind);
        assert_eq!(with_behind(object, "x", "y", "7"), None);
    }

    #[test]
    fn elements_go_with_their_comma_and_change_in_their_place() {
        let shown = |array: &'static str, gone: &str| {
            kept(array, |element| match element {
                "0" => Some("zero".into()),
                _ => (!gone.contains(element)).then_some(element.into()),
            })
        };
        let array = "[ 1 , 0,\n2 ,3 ]";
        assert_eq!(shown(array, ""), "[ 1 , zero,\n2 ,3 ]");
        assert_eq!(shown(array, "1"), "[ zero,\n2 ,3 ]");
        assert_eq!(shown(array, "2"), "[ 1 , zero ,3 ]");
        assert_eq!(shown(array, "23"), "[ 1 , zero ]");
        assert_eq!(shown("[1, 2]", "12"), "[]");
        assert_eq!(shown("[ ]", ""), "[ ]");
        assert_eq!(shown("{}", ""), "{}");
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        assert_eq!(member("[1]", "a"), None);
        assert_eq!(elements("{}").count(), 0);
        assert_eq!(elements("[1, [2] ,\"]\"]").collect::<Vec<_>>(), ["1", "[2]", "\"]\""]);
    }

    /// Any JSON with blanks, odd numbers and escapes in it.
    pub(crate) fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-1.50E+2".to_owned()),
            Just("123456789012345678901234567890".to_owned()),
            Just(r#""\u0061\/\"}{""#.to_owned()),
            "[ a-zé]{0,6}".prop_map(|text| Value::from(text).to_string()),
        ];
        let key = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), "[a-d]{1,2}"];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            let member = (key.clone(), "[ \t]{0,2}", inner.clone());
            let member = member.prop_map(|(key, blank, value)| {
                format!("{blank}\"{key}\"{blank}:{blank}{value}{blank}")
            });
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(|all| format!("[{}]", all.join(" ,"))),
                prop::collection::vec(member, 0..5)
                    .prop_map(|all| format!("{{{}}}", all.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_member_replaced_and_put_back_leaves_every_byte(object in any_json()) {
            let Some(before) = member(&object, "a").map(str::to_owned) else {
                prop_assert_eq!(replaced(&object, "a", "1"), None);
                return Ok(());
            };
            let changed = replaced(&object, "a", "\"other\"").unwrap();
            prop_assert_eq!(member(&changed, "a"), Some("\"other\""));
            if members(&object).filter(|(key, _)| key == "a").count() == 1 {
                prop_assert_eq!(replaced(&changed, "a", &before).unwrap(), object);
            }
        }

        #[test]
        fn other_members_keep_their_text(object in any_json()) {
            let others = |object: &str| -> Vec<(String, String)> {
                let others = members(object).filter(|(key, _)| key != "a");
                others.map(|(key, value)| (key.into_owned(), value.to_owned())).collect()
            };
            if object.starts_with('{') {
                for changed in [without(&object, "a"), with_first(&object, "a", "[1.0]")] {
                    prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&changed).is_ok());
                    prop_assert_eq!(others(&changed), others(&object));
                }
                let without = without(&object, "a");
                prop_assert_eq!(member(&without, "a"), None);
            }
        }
    }
}
