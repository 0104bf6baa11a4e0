//! An element as nearly all are: an object that holds one value and nothing else.
//!
//! Found and checked in one look at its bytes. Whatever it is not, whole and without fault, is
//! left to be looked at closer, and to be told what is wrong with it.

use bytes::{Buf, BytesMut};

use super::decode::Reading;
use crate::json::{Json, Scanner};

const OPENING: &[u8] = br#"{"el":"#;

/// Takes such an element off the front of `input`: its value, and how many bytes it had.
pub(super) fn take(input: &mut BytesMut, reading: &Reading) -> Option<(Json, usize)> {
    // Nothing behind the limit is looked at.
    let window = &input[..input.len().min(reading.object_bytes_max)];
    let behind = window.strip_prefix(OPENING)?;
    let depth_max = reading.depth_max.checked_sub(1)?;
    let place = Scanner::of_bytes(behind).place_of_value(depth_max).ok()?;
    if behind.get(place.end) != Some(&b'}') || str::from_utf8(&behind[place.clone()]).is_err() {
        return None;
    }
    // Shares the buffer, and only the value keeps it.
    input.advance(OPENING.len() + place.start);
    let value = input.split_to(place.len()).freeze();
    input.advance(1);
    Some((Json::of_scanned(value), OPENING.len() + place.end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, reading: Reading) -> Option<(String, String)> {
        let mut input = BytesMut::from(text);
        let (value, len) = take(&mut input, &reading)?;
        assert_eq!(len + input.len(), text.len());
        Some((value.to_string(), String::from_utf8(input.to_vec()).unwrap()))
    }

    #[test]
    fn only_what_is_plain_and_whole_is_taken() {
        for (text, value) in [
            (r#"{"el":1}"#, Some("1")),
            (r#"{"el": {"a":["}\""]} }"#, None),
            (r#"{"el": {"a":["}\""]}}"#, Some(r#"{"a":["}\""]}"#)),
            (r#"{"el":null}"#, Some("null")),
            (r#"{"el":"é"}"#, Some(r#""é""#)),
            (r#"{"el":1,"el":1}"#, None),
            (r#"{"el":01}"#, None),
            (r#"{"el":}"#, None),
            (r#"{"elBytesFrame":"x"}"#, None),
            (r#"{ "el":1}"#, None),
        ] {
            for rest in ["", "\n{"] {
                let expected = value.map(|value| (value.to_owned(), rest.to_owned()));
                assert_eq!(taken(&format!("{text}{rest}"), Reading::default()), expected, "{text}");
            }
            for len in 0..text.len() {
                if text.is_char_boundary(len) {
                    assert_eq!(taken(&text[..len], Reading::default()), None, "{text} {len}");
                }
            }
        }
        assert_eq!(take(&mut BytesMut::from(&b"{\"el\":\"\xff\"}"[..]), &Reading::default()), None);
    }

    #[test]
    fn limits_hold_to_the_byte() {
        let limited = |object_bytes_max, depth_max| {
            let reading = Reading { object_bytes_max, depth_max, ..Reading::default() };
            taken(r#"{"el":[[]]}"#, reading).is_some()
        };
        assert!(limited(11, 3));
        assert!(!limited(10, 3));
        assert!(!limited(11, 2));
        assert!(!limited(11, 0));
    }
}
