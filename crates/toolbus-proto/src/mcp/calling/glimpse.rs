//! Whose answer a line was that is too long or too deep to be read (`docs/protocols/mcp.md` 2.10).

use crate::json::Scanner;
use crate::jsonrpc::string;

/// The id of the answer, if an end of the line shows it.
pub(super) fn id(head: &[u8], tail: &[u8]) -> Option<u64> {
    in_front(head).or_else(|| at_the_end(tail))
}

fn number(raw: &str) -> Option<u64> {
    string(raw).map_or_else(|| raw.parse().ok(), |text| text.parse().ok())
}

/// Among the members that are whole in the beginning of an object.
fn in_front(head: &[u8]) -> Option<u64> {
    let valid = head.utf8_chunks().next()?.valid();
    let mut scanner = Scanner::new(valid);
    let mut first = scanner.enter_object();
    while let Ok(Some((key, value))) = scanner.member(first) {
        first = false;
        if string(key).as_deref() == Some("id") {
            return number(value);
        }
    }
    None
}

/// The last member of the object, which is all that can be told from its end.
fn at_the_end(tail: &[u8]) -> Option<u64> {
    let valid = tail.utf8_chunks().last()?.valid();
    let object = valid.trim_end().strip_suffix('}')?;
    let (_, value) = object.rsplit_once("\"id\"")?;
    number(value.trim_start().strip_prefix(':')?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glimpse(head: &str, tail: &str) -> Option<u64> {
        id(head.as_bytes(), tail.as_bytes())
    }

    #[test]
    fn an_id_is_found_at_either_end() {
        assert_eq!(glimpse(r#"{"jsonrpc":"2.0","id":7,"result":{"a":"xxx"#, "xxx\"}}"), Some(7));
        assert_eq!(glimpse(r#"{"result":{"id":9,"a":"xxx"#, r#"xxx"},"id" : 8 } "#), Some(8));
        assert_eq!(glimpse(r#"{"result":{"id":9,"a":"xxx"#, r#"xxx","id":8}}"#), None);
        assert_eq!(glimpse(r#"{"id":"5","#, ""), Some(5));
        assert_eq!(glimpse("xxx", "xxx"), None);
    }
}
