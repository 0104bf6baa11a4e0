//! The text of a lock file. Its bytes are a promise: the same lock is the same file.

use std::fmt::Write as _;

use super::definition::{Definition, Held, PinKind};
use super::hidden::is_hidden;
use super::lock::{Lock, Pinned, Visible};
use super::value::{JsonTree, write_pretty};

const HEAD: &str = "\
# toolbus.lock, written by `toolbus lock`: what each back showed when it was last approved.
# Review its changes as you review code; `toolbus lock diff` shows what has changed since.
version = 1
";

impl Lock {
    /// The file.
    pub fn write(&self) -> String {
        let mut out = HEAD.to_owned();
        for (name, back) in &self.backs {
            let path = format!("back.{}", key(name));
            write_back(&mut out, &path, back);
        }
        out
    }
}

fn write_back(out: &mut String, path: &str, back: &Pinned) {
    let _ = write!(out, "\n[{path}]\n");
    write_text(out, "connect", &back.connect);
    write_text(out, "wire", &back.wire);
    for (key, value) in back.noted.entries() {
        if let Some(value) = value {
            write_text(out, key, value);
        }
    }
    if let Some(resources) = &back.resources {
        write_text(out, "resources", resources);
    }
    if let Some(capabilities) = &back.capabilities {
        write_json(out, "capabilities", capabilities);
    }
    if let Some(instructions) = &back.shown.instructions {
        write_text(out, "instructions", instructions);
    }
    write_text(out, "digest", &back.digest().to_string());
    write_shown(out, path, &back.shown);
    if let Some(legacy) = &back.legacy {
        let path = format!("{path}.legacy");
        if let Some(instructions) = &legacy.instructions {
            let _ = write!(out, "\n[{path}]\n");
            write_text(out, "instructions", instructions);
        }
        write_shown(out, &path, legacy);
    }
}

fn write_shown(out: &mut String, path: &str, shown: &Visible) {
    for kind in PinKind::ALL {
        for (name, definition) in shown.of(kind) {
            let _ = write!(out, "\n[{path}.{}.{}]\n", kind.as_str(), key(name));
            write_definition(out, definition);
        }
    }
}

fn write_definition(out: &mut String, definition: &Definition) {
    write_text(out, "digest", &definition.digest.to_string());
    for (key, held) in definition.members() {
        match held {
            Held::Text(text) => write_text(out, key, text),
            Held::Json(json) => write_json(out, key, json),
        }
    }
}

/// A name in the head of a table.
fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(is_bare) {
        return name.to_owned();
    }
    let mut out = String::new();
    write_line(&mut out, name);
    out
}

fn write_json(out: &mut String, key: &str, json: &str) {
    let _ = writeln!(out, "{key} = '''");
    // Kept as text that was read as JSON.
    if let Ok(value) = JsonTree::parse(json) {
        write_pretty(out, &value, 0, 0);
    }
    out.push_str("\n'''\n");
}

fn write_text(out: &mut String, key: &str, text: &str) {
    let _ = write!(out, "{key} = ");
    match text.contains('\n') {
        true => write_lines(out, text),
        false => write_line(out, text),
    }
    out.push('\n');
}

fn write_line(out: &mut String, text: &str) {
    out.push('"');
    each(text, |before, c, after| match c {
        '"' => out.push_str("\\\""),
        '\n' => out.push_str("\\n"),
        _ => write_char(out, before, c, after),
    });
    out.push('"');
}

fn write_lines(out: &mut String, text: &str) {
    out.push_str("\"\"\"\n");
    each(text, |before, c, after| match (c, after) {
        ('\n', _) => out.push('\n'),
        ('"', after) if before == Some('"') || after.is_none() => out.push_str("\\\""),
        ('"', _) => out.push('"'),
        // Some editors take away what stands at the end of a line.
        (' ', None | Some('\n')) => out.push_str("\\u0020"),
        _ => write_char(out, before, c, after),
    });
    out.push_str("\"\"\"");
}

fn write_char(out: &mut String, before: Option<char>, c: char, after: Option<char>) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        _ if c.is_control() || is_hidden(before, c, after) => {
            let code = u32::from(c);
            let _ = match code {
                0..=0xffff => write!(out, "\\u{code:04X}"),
                _ => write!(out, "\\U{code:08X}"),
            };
        }
        _ => out.push(c),
    }
}

/// Shows each character with its neighbours.
fn each(text: &str, mut see: impl FnMut(Option<char>, char, Option<char>)) {
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        see(before, c, rest.peek().copied());
        before = Some(c);
    }
}
