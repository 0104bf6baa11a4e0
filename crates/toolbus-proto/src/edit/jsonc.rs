//! A member of a JSON text, put in, replaced and taken out: the text may have comments and commas too
//! many, as editors allow them.
//!
//! The new member comes last in its object, written as its neighbours are.

use std::ops::Range;

use serde_json::Value;

use super::{BYTE_ORDER_MARK, line_end, with_line_ends};

/// So deep may a text be.
const DEPTH_MAX: usize = 128;

/// Why nothing can be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotEdit {
    /// It is not JSON, from this line on.
    Syntax {
        /// Counted from one.
        line: usize,
    },
    /// A member on the way is there twice.
    Doubled(String),
    /// A member on the way, or the whole, is no object.
    NoObject(String),
}

/// Where a value stands, and what it is made of.
#[derive(Debug, Clone)]
struct ValueSpan {
    span: Range<usize>,
    kind: NodeKind,
}

#[derive(Debug, Clone)]
enum NodeKind {
    Object(Vec<MemberSpan>),
    Array(Vec<ValueSpan>),
    Scalar,
}

#[derive(Debug, Clone)]
struct MemberSpan {
    name: String,
    start: usize,
    value: ValueSpan,
    /// The comma behind it.
    comma: Option<usize>,
}

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    text: &'a str,
    root: ValueSpan,
}

impl<'a> Document<'a> {
    /// Reads a text that is one object.
    pub fn read(text: &'a str) -> Result<Document<'a>, CannotEdit> {
        let mark = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        let mut reader = JsoncReader { text, at: mark };
        let wrong = |reader: &JsoncReader<'_>| {
            let until = reader.at.min(text.len());
            let line = text.as_bytes()[..until].iter().filter(|&&byte| byte == b'\n').count() + 1;
            CannotEdit::Syntax { line }
        };
        let read = reader.blank().and_then(|()| reader.value(0)).and_then(|root| {
            reader.blank()?;
            (reader.at == text.len()).then_some(root)
        });
        let root = read.ok_or_else(|| wrong(&reader))?;
        match root.kind {
            NodeKind::Object(_) => Ok(Document { text, root }),
            _ => Err(CannotEdit::NoObject(String::new())),
        }
    }

    /// The value at this path, if there is one.
    pub fn value(&self, path: &[&str]) -> Result<Option<Value>, CannotEdit> {
        let (found, left) = self.find(path)?;
        Ok(left.is_empty().then(|| self.of(found)))
    }

    /// Is there an object at this path?
    pub fn is_object(&self, path: &[&str]) -> bool {
        self.find(path)
            .is_ok_and(|(found, left)| left.is_empty() && matches!(found.kind, NodeKind::Object(_)))
    }

    /// The text with a member at this path, in objects that are made where they are missing. One that
    /// is there is written anew.
    pub fn with(&self, path: &[&str], value: &Value) -> Result<String, CannotEdit> {
        let (found, left) = self.find(path)?;
        let Some((name, missing)) = left.split_first() else {
            let style = self.style_around(found);
            return Ok(self.put(found.span.clone(), &style.written(value)));
        };
        let NodeKind::Object(members) = &found.kind else {
            let at = path[..path.len() - left.len()].last().copied().unwrap_or_default();
            return Err(CannotEdit::NoObject(at.to_owned()));
        };
        let nested = missing.iter().rev().fold(value.clone(), |value, name| {
            Value::Object([((*name).to_owned(), value)].into_iter().collect())
        });
        let style = self.style_in(found, members);
        let (colon, member) = (style.colon(), Value::from(*name));
        let member = format!("{member}{colon}{}", style.written(&nested));
        let at = members.last().map_or(found.span.start + 1, |last| last.value.span.end);
        let comma = if members.is_empty() { "" } else { "," };
        let inserted = match &style {
            Style::OneLine { comma_gap, .. } => {
                let gap = if members.is_empty() { "" } else { comma_gap };
                format!("{comma}{gap}{member}")
            }
            Style::Lines { indent, .. } => format!("{comma}\n{indent}{member}"),
        };
        Ok(self.put(at..at, &inserted))
    }

    /// The text without the member at this path, with its comma and its line.
    pub fn without(&self, path: &[&str]) -> Result<String, CannotEdit> {
        let Some((name, above)) = path.split_last() else { return Ok(self.text.to_owned()) };
        let (found, left) = self.find(above)?;
        let NodeKind::Object(members) = &found.kind else { return Ok(self.text.to_owned()) };
        let index = members.iter().position(|member| member.name == *name);
        let Some(index) = index.filter(|_| left.is_empty()) else {
            return Ok(self.text.to_owned());
        };
        let own = &members[index];
        let before = index.checked_sub(1).map(|at| &members[at]);
        let behind = before.map_or(found.span.start + 1, |before| before.value.span.end);
        let between = &self.text[behind..own.start];
        let is_bare = between.bytes().all(|byte| byte.is_ascii_whitespace() || byte == b',');
        let end = own.value.span.end;
        let whole = self.line_of(own, behind);
        let mut gone: Vec<Range<usize>> = Vec::new();
        match (before, own.comma) {
            // The comma behind it becomes that of the one before.
            (Some(_), _) if is_bare => gone.push(behind..end),
            (None, Some(comma)) if is_bare => {
                gone.push(behind..end);
                gone.push(comma..comma + 1);
            }
            (None, None) if is_bare => gone.push(behind..end),
            (_, Some(comma)) => {
                gone.extend((whole.end <= comma).then(|| comma..comma + 1));
                gone.push(whole);
            }
            (Some(before), None) => {
                gone.extend(before.comma.map(|comma| comma..comma + 1));
                gone.push(whole);
            }
            (None, None) => gone.push(whole),
        }
        let mut text = self.text.to_owned();
        gone.sort_by_key(|range| range.start);
        for range in gone.into_iter().rev() {
            text.replace_range(range, "");
        }
        Ok(text)
    }

    /// A member with its comma, and with its line if nothing else stands there.
    fn line_of(&self, member: &MemberSpan, behind: usize) -> Range<usize> {
        let (own, text) = (&member.value.span, self.text);
        let before = text[behind..member.start].trim_end_matches([' ', '\t']).len() + behind;
        let is_first = text[..before].ends_with('\n');
        let start = if is_first { before } else { member.start };
        let comma = member.comma.filter(|&comma| text[own.end..comma].trim().is_empty());
        if comma.is_none() && member.comma.is_some() {
            return start..own.end;
        }
        let end = comma.map_or(own.end, |comma| comma + 1);
        let line = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        match is_first && text[end..line].trim().is_empty() {
            true => start..line,
            false => start..end,
        }
    }

    fn put(&self, at: Range<usize>, new: &str) -> String {
        let new = with_line_ends(new, line_end(self.text));
        [&self.text[..at.start], &new, &self.text[at.end..]].concat()
    }

    /// How far a path leads: the value there, and the names that are left.
    fn find<'p>(&self, path: &'p [&'p str]) -> Result<(&ValueSpan, &'p [&'p str]), CannotEdit> {
        let mut node = &self.root;
        for (at, name) in path.iter().enumerate() {
            let NodeKind::Object(members) = &node.kind else {
                let above = at.checked_sub(1).map_or("", |at| path[at]);
                return Err(CannotEdit::NoObject(above.to_owned()));
            };
            let mut named = members.iter().filter(|member| member.name == *name);
            match (named.next(), named.next()) {
                (None, _) => return Ok((node, &path[at..])),
                (Some(only), None) => node = &only.value,
                (Some(_), Some(_)) => return Err(CannotEdit::Doubled((*name).to_owned())),
            }
        }
        Ok((node, &[]))
    }

    fn of(&self, node: &ValueSpan) -> Value {
        match &node.kind {
            NodeKind::Scalar => {
                serde_json::from_str(&self.text[node.span.clone()]).unwrap_or_default()
            }
            NodeKind::Array(items) => items.iter().map(|item| self.of(item)).collect(),
            NodeKind::Object(members) => {
                let member = |member: &MemberSpan| (member.name.clone(), self.of(&member.value));
                Value::Object(members.iter().map(member).collect())
            }
        }
    }

    /// How members of an object are written.
    fn style_in(&self, object: &ValueSpan, members: &[MemberSpan]) -> Style {
        let inside = &self.text[object.span.clone()];
        let Some(last) = members.last() else {
            return match inside.contains('\n') {
                true => {
                    let outer = self.indent_at(object.span.end - 1);
                    let unit = self.unit();
                    Style::Lines { indent: format!("{outer}{unit}"), unit }
                }
                false => self.one_line(),
            };
        };
        if !self.is_in_lines(object, members) {
            let (colon, gap) = (self.colon_of(last), self.gap_of(members));
            return Style::OneLine { colon, comma_gap: gap };
        }
        let indent = self.indent_at(last.start);
        let outer = self.indent_at(object.span.end - 1);
        let unit = match indent.strip_prefix(&outer) {
            Some(unit) if !unit.is_empty() => unit.to_owned(),
            _ => self.unit(),
        };
        Style::Lines { indent, unit }
    }

    /// Does a member of it begin a line?
    fn is_in_lines(&self, object: &ValueSpan, members: &[MemberSpan]) -> bool {
        let first = members.first().map_or(object.span.end, |member| member.start);
        self.text[object.span.start..first].contains('\n')
            || members
                .windows(2)
                .any(|pair| self.text[pair[0].value.span.end..pair[1].start].contains('\n'))
    }

    /// How a value is written that stands where this one does.
    fn style_around(&self, node: &ValueSpan) -> Style {
        // Its object is the innermost one around it.
        let mut around = &self.root;
        loop {
            let NodeKind::Object(members) = &around.kind else { return self.one_line() };
            let holds = |member: &&MemberSpan| {
                member.value.span.start <= node.span.start && node.span.end <= member.value.span.end
            };
            let Some(member) = members.iter().find(holds) else { return self.one_line() };
            if member.value.span != node.span {
                around = &member.value;
                continue;
            }
            return match self.style_in(around, members) {
                Style::Lines { unit, .. } => {
                    Style::Lines { indent: self.indent_at(member.start), unit }
                }
                one_line => one_line,
            };
        }
    }

    fn one_line(&self) -> Style {
        let NodeKind::Object(members) = &self.root.kind else {
            return Style::OneLine { colon: ": ".to_owned(), comma_gap: " ".to_owned() };
        };
        let colon = members.last().map_or(": ".to_owned(), |last| self.colon_of(last));
        Style::OneLine { colon, comma_gap: self.gap_of(members) }
    }

    /// What stands between a name and its value.
    fn colon_of(&self, member: &MemberSpan) -> String {
        let between = &self.text[member.start..member.value.span.start];
        if between.ends_with(':') { ":".to_owned() } else { ": ".to_owned() }
    }

    /// What stands between a comma and what follows.
    fn gap_of(&self, members: &[MemberSpan]) -> String {
        let is_tight = members
            .windows(2)
            .any(|pair| pair[0].comma.is_some_and(|comma| comma + 1 == pair[1].start));
        let is_tight = is_tight
            || members.len() == 1 && members.first().is_some_and(|own| self.colon_of(own) == ":");
        if is_tight { String::new() } else { " ".to_owned() }
    }

    /// The blanks that the line begins with in which this stands.
    fn indent_at(&self, at: usize) -> String {
        let start = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[start..].trim_start_matches(BYTE_ORDER_MARK);
        line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
    }

    /// One step of indentation.
    fn unit(&self) -> String {
        match &self.root.kind {
            NodeKind::Object(members) if self.is_in_lines(&self.root, members) => {
                let first = members.first().map(|first| self.indent_at(first.start));
                first.filter(|unit| !unit.is_empty()).unwrap_or_else(|| "  ".to_owned())
            }
            _ => "  ".to_owned(),
        }
    }
}

/// How a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Style {
    /// Its object stands on one line.
    OneLine { colon: String, comma_gap: String },
    /// Each member stands on a line of its own.
    Lines { indent: String, unit: String },
}

impl Style {
    fn colon(&self) -> &str {
        match self {
            Style::OneLine { colon, .. } => colon,
            Style::Lines { .. } => ": ",
        }
    }

    fn written(&self, value: &Value) -> String {
        match self {
            Style::OneLine { colon, comma_gap } => {
                let mut text = String::new();
                in_one_line(value, colon, &format!(",{comma_gap}"), &mut text);
                text
            }
            Style::Lines { indent, unit } => in_lines(value, indent, unit),
        }
    }
}

fn in_one_line(value: &Value, colon: &str, comma: &str, text: &mut String) {
    match value {
        Value::Object(members) => {
            text.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { comma });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push_str(colon);
                in_one_line(value, colon, comma, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, value) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { comma });
                in_one_line(value, colon, comma, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// A value over several lines; the first of them is not indented.
pub fn in_lines(value: &Value, indent: &str, unit: &str) -> String {
    let inner = format!("{indent}{unit}");
    let block = |open: char, lines: Vec<String>, close: char| match lines.is_empty() {
        true => format!("{open}{close}"),
        false => format!("{open}\n{inner}{}\n{indent}{close}", lines.join(&format!(",\n{inner}"))),
    };
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), in_lines(value, &inner, unit))
            };
            block('{', members.iter().map(member).collect(), '}')
        }
        Value::Array(items) => {
            block('[', items.iter().map(|item| in_lines(item, &inner, unit)).collect(), ']')
        }
        scalar => scalar.to_string(),
    }
}

/// Reads a text from left to right; `None` where it is not JSON.
struct JsoncReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsoncReader<'_> {
    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Blanks and comments.
    fn blank(&mut self) -> Option<()> {
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                self.at += 2 + comment.find("*/")? + 2;
            } else if self.next().is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.at += 1;
            } else {
                return Some(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<ValueSpan> {
        let start = self.at;
        let kind = match self.next()? {
            _ if DEPTH_MAX < depth => return None,
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => {
                self.string()?;
                NodeKind::Scalar
            }
            _ => {
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c));
                let rest = &self.text[start..];
                self.at += rest.find(is_end).unwrap_or(rest.len());
                let word = &self.text[start..self.at];
                serde_json::from_str::<Value>(word).ok().filter(|_| !word.is_empty())?;
                NodeKind::Scalar
            }
        };
        Some(ValueSpan { span: start..self.at, kind })
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if !self.takes(b'"') {
            return None;
        }
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        serde_json::from_str(self.text.get(start..self.at)?).ok()
    }

    fn object(&mut self, depth: usize) -> Option<NodeKind> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            if self.takes(b'}') {
                return Some(NodeKind::Object(members));
            }
            // Between two members stands a comma.
            if members.last().is_some_and(|last: &MemberSpan| last.comma.is_none()) {
                return None;
            }
            let start = self.at;
            let name = self.string()?;
            self.blank()?;
            if !self.takes(b':') {
                return None;
            }
            self.blank()?;
            let value = self.value(depth + 1)?;
            self.blank()?;
            let comma = self.at;
            let comma = self.takes(b',').then_some(comma);
            members.push(MemberSpan { name, start, value, comma });
        }
    }

    fn array(&mut self, depth: usize) -> Option<NodeKind> {
        let mut items = Vec::new();
        let mut may_go_on = true;
        self.at += 1;
        loop {
            self.blank()?;
            if self.takes(b']') {
                return Some(NodeKind::Array(items));
            }
            if !may_go_on {
                return None;
            }
            items.push(self.value(depth + 1)?);
            self.blank()?;
            may_go_on = self.takes(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: [&str; 2] = ["mcpServers", "toolbus"];

    fn with(text: &str) -> String {
        let value = json!({"args": ["mcp"], "command": "/t"});
        Document::read(text).unwrap().with(&AT, &value).unwrap()
    }

    fn without(text: &str) -> String {
        Document::read(text).unwrap().without(&AT).unwrap()
    }

    #[test]
    fn a_member_comes_last_written_as_its_neighbours() {
        let cases = [
            (
                "{\n  \"mcpServers\": {\n    \"a\": {} // one\n    ,\n  }\n}\n",
                "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"toolbus\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"/t\"\n    } // one\n    ,\n  }\n}\n",
            ),
            (
                "{\"mcpServers\":{\"a\":{}}}",
                "{\"mcpServers\":{\"a\":{},\"toolbus\":{\"args\":[\"mcp\"],\"command\":\"/t\"}}}",
            ),
            (
                "{\"mcpServers\": {\"a\": {}, \"b\": 1}}",
                "{\"mcpServers\": {\"a\": {}, \"b\": 1, \"toolbus\": {\"args\": [\"mcp\"], \"command\": \"/t\"}}}",
            ),
            (
                "// c\r\n{\r\n\t\"mcpServers\": {\r\n\t}\r\n}",
                "// c\r\n{\r\n\t\"mcpServers\": {\r\n\t\t\"toolbus\": {\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"mcp\"\r\n\t\t\t],\r\n\t\t\t\"command\": \"/t\"\r\n\t\t}\r\n\t}\r\n}",
            ),
            (
                "{ \"mcpServers\": { } }",
                "{ \"mcpServers\": {\"toolbus\": {\"args\": [\"mcp\"], \"command\": \"/t\"} } }",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(with(text), expected);
            assert_eq!(without(expected), text);
        }
    }

    #[test]
    fn objects_that_are_missing_are_made() {
        assert_eq!(
            with("{\n\t\"theme\": \"x\", /* last */\n}\n"),
            "{\n\t\"theme\": \"x\",\n\t\"mcpServers\": {\n\t\t\"toolbus\": {\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t],\n\t\t\t\"command\": \"/t\"\n\t\t}\n\t}, /* last */\n}\n"
        );
        assert_eq!(
            with("{}"),
            "{\"mcpServers\": {\"toolbus\": {\"args\": [\"mcp\"], \"command\": \"/t\"}}}"
        );
    }

    #[test]
    fn a_value_is_replaced_in_its_place() {
        assert_eq!(
            with("{\n \"mcpServers\": {\n  \"toolbus\": 1, // c\n  \"a\": 2\n }\n}"),
            "{\n \"mcpServers\": {\n  \"toolbus\": {\n   \"args\": [\n    \"mcp\"\n   ],\n   \"command\": \"/t\"\n  }, // c\n  \"a\": 2\n }\n}"
        );
    }

    #[test]
    fn a_member_goes_with_its_comma_and_its_line() {
        let cases = [
            ("{\"mcpServers\": {\"toolbus\": 1, \"a\": 2}}", "{\"mcpServers\": { \"a\": 2}}"),
            ("{\"mcpServers\": {\"toolbus\": 1,}}", "{\"mcpServers\": {}}"),
            (
                "{\"mcpServers\": {\n  \"toolbus\": 1,\n  \"a\": 2\n}}",
                "{\"mcpServers\": {\n  \"a\": 2\n}}",
            ),
            (
                "{\"mcpServers\": {\n  \"a\": 2, // a\n  \"toolbus\": 1\n}}",
                "{\"mcpServers\": {\n  \"a\": 2 // a\n}}",
            ),
            (
                "{\"mcpServers\": {\n  // t\n  \"toolbus\": 1, // u\n  \"a\": 2\n}}",
                "{\"mcpServers\": {\n  // t\n // u\n  \"a\": 2\n}}",
            ),
            (
                "{\"mcpServers\": {\n  // t\n  \"toolbus\": 1, \"a\": 2\n}}",
                "{\"mcpServers\": {\n  // t\n \"a\": 2\n}}",
            ),
            (
                "{\"mcpServers\": { // t\n  \"toolbus\": 1 /* u */, // v\n}}",
                "{\"mcpServers\": { // t\n /* u */ // v\n}}",
            ),
            ("{\"other\": 1}", "{\"other\": 1}"),
        ];
        for (text, expected) in cases {
            assert_eq!(without(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_left_alone() {
        let read = |text: &str| Document::read(text).map(|_| ()).unwrap_err();
        for text in [
            "",
            "{",
            "{\"a\" 1}",
            "{a: 1}",
            "{\"a\": 1 \"b\": 2}",
            "{,}",
            "{\"a\": \"\\q\"}",
            "{} x",
            "{\"a\": tru}",
            "{/* ",
            "{\"\\",
        ] {
            assert!(matches!(read(text), CannotEdit::Syntax { .. }), "{text}");
        }
        assert_eq!(read("\n[1]"), CannotEdit::NoObject(String::new()));
        let at = |text: &str| Document::read(text).unwrap().with(&AT, &json!(1)).unwrap_err();
        assert_eq!(at("{\"mcpServers\": 1}"), CannotEdit::NoObject("mcpServers".into()));
        assert_eq!(
            at("{\"mcpServers\": {}, \"mcpServers\": {}}"),
            CannotEdit::Doubled("mcpServers".into())
        );
    }
}
