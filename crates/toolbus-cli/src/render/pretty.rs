//! JSON for people: indented and coloured, its numbers and the order of its members as they came.

use super::style::Paint;

/// The value over several lines. It is known to be JSON, and to be harmless on a terminal.
pub(crate) fn json(json: &str, paint: Paint) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut rest = json.trim();
    // For each object or array that is open: is it an object?
    let mut open: Vec<bool> = Vec::new();
    let mut is_key = false;
    while let Some(first) = rest.chars().next() {
        let (token, behind) = rest.split_at(length(rest));
        rest = behind.trim_start();
        match first {
            '{' | '[' => {
                out.push_str(token);
                if let Some(closing) = rest.chars().next().filter(|c| matches!(c, '}' | ']')) {
                    out.push(closing);
                    rest = rest[1..].trim_start();
                } else {
                    open.push(first == '{');
                    is_key = first == '{';
                    line(&mut out, open.len());
                }
            }
            '}' | ']' => {
                open.pop();
                line(&mut out, open.len());
                out.push_str(token);
            }
            ',' => {
                out.push(',');
                is_key = open.last() == Some(&true);
                line(&mut out, open.len());
            }
            ':' => {
                out.push_str(": ");
                is_key = false;
            }
            '"' if is_key => out.push_str(&paint.key(token)),
            '"' => out.push_str(&paint.string(token)),
            _ => out.push_str(&paint.literal(token)),
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

/// The bytes of the token that a text of JSON begins with.
fn length(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes[0] {
        b'"' => {
            let mut at = 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            (at + 1).min(bytes.len())
        }
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        _ => {
            let ends = |c: char| c.is_whitespace() || "{}[],:\"".contains(c);
            text.find(ends).unwrap_or(text.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_is_in_something_stands_under_it() {
        let value = r#"{"b":1.50,"a\"":["x",{},[],{"n":null}],"e":true}"#;
        expect![[r#"
            {
              "b": 1.50,
              "a\"": [
                "x",
                {},
                [],
                {
                  "n": null
                }
              ],
              "e": true
            }"#]]
        .assert_eq(&json(value, Paint { on: false }));
        assert_eq!(json(" \"a b\" ", Paint { on: false }), "\"a b\"");
    }

    #[test]
    fn colour_is_on_the_tokens() {
        let colored = json(r#"{"a":"b","c":1}"#, Paint { on: true });
        assert!(colored.contains("\x1b["), "{colored:?}");
        let mut plain = String::new();
        let mut inside = false;
        for c in colored.chars() {
            match c {
                '\x1b' => inside = true,
                'm' if inside => inside = false,
                _ if !inside => plain.push(c),
                _ => {}
            }
        }
        assert_eq!(plain, "{\n  \"a\": \"b\",\n  \"c\": 1\n}");
    }
}
