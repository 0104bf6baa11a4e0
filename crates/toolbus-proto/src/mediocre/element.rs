//! The fast way for an element of the usual form: an object that holds `el` and nothing else.
//!
//! Found and checked in one look at its bytes. An object that is not whole, not valid or not
//! of this form is left in place for the decoder, which reads any object and finds its faults.

use bytes::{Buf, BytesMut};

use super::decode::{Reading, count_blanks};
use crate::json::{Json, Scanner};

const OPENING: &[u8; 6] = br#"{"el":"#;

/// Takes such an element off the front of `input`, with the blanks before it: its value, and
/// how many bytes were taken.
pub(super) fn take(input: &mut BytesMut, reading: &Reading) -> Option<(Json, usize)> {
    let blanks = count_blanks(input);
    let window = &input[blanks..];
    // Nothing behind the limit is looked at.
    let window = &window[..window.len().min(reading.object_bytes_max)];
    let (_, behind) = window.split_first_chunk().filter(|(opening, _)| *opening == OPENING)?;
    let depth_max = reading.depth_max.checked_sub(1)?;
    let place = Scanner::of_bytes(behind).place_of_value(depth_max).ok()?;
    let text = &behind[place.clone()];
    let is_text = text.is_ascii() || str::from_utf8(text).is_ok();
    if behind.get(place.end) != Some(&b'}') || !is_text {
        return None;
    }
    let value_at = blanks + OPENING.len() + place.start;
    let len = blanks + OPENING.len() + place.end + 1;
    // Shares the buffer, and only the value keeps it.
    let mut value = input.split_to(len);
    value.advance(value_at);
    value.truncate(place.len());
    Some((Json::of_scanned(value.freeze()), len))
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
            (" \n{\"el\":1}", Some("1")),
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
