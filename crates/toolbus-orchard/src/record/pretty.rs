//! JSON for people: a member a line, and not a digit of it changed.

/// The text, which is compact JSON, with line breaks and two blanks a level.
pub(super) fn pretty(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let mut bytes = compact.as_bytes().iter().enumerate().peekable();
    let mut copied = 0;
    let mut in_string = false;
    while let Some((at, byte)) = bytes.next() {
        if in_string {
            match byte {
                b'\\' => _ = bytes.next(),
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                let closing = if *byte == b'{' { b'}' } else { b']' };
                out.push_str(&compact[copied..=at]);
                copied = at + 1;
                if bytes.peek().is_some_and(|(_, next)| **next == closing) {
                    bytes.next();
                    out.push(char::from(closing));
                    copied += 1;
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                out.push_str(&compact[copied..at]);
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                copied = at;
            }
            b',' => {
                out.push_str(&compact[copied..=at]);
                copied = at + 1;
                line(&mut out, depth);
            }
            b':' => {
                out.push_str(&compact[copied..=at]);
                copied = at + 1;
                out.push(' ');
            }
            _ => {}
        }
    }
    out.push_str(&compact[copied..]);
    out.push('\n');
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    (0..depth).for_each(|_| out.push_str("  "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_a_line() {
        let compact = r#"{"a":[1.50,{"b\":{":"x, [y]"},[],{}],"c":{}}"#;
        let expected = r#"{
  "a": [
    1.50,
    {
      "b\":{": "x, [y]"
    },
    [],
    {}
  ],
  "c": {}
}
"#;
        assert_eq!(pretty(compact), expected);
    }
}
