//! Tables of a TOML text, added, replaced and taken out.
//!
//! A table of a family, `[back.x]`, reaches from its header to its last key, with its sub-tables. It
//! may also be written otherwise, as `x = {…}` below `[back]` or by keys with dots; such a one is
//! taken out key by key.

use std::ops::Range;

use toml_parser::parser::{Event, EventKind, parse_document};
use toml_parser::{ParseError, Source};

use super::{BYTE_ORDER_MARK, line_end, with_line_ends};

/// Where a new table goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablePlace {
    /// Behind the last table of its family; at the end if there is none.
    BehindItsFamily,
    /// At the end.
    AtTheEnd,
}

/// Why nothing can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotEdit {
    /// It is not TOML.
    Syntax,
    /// The family is one inline table, `back = {…}`.
    Inline,
}

/// A text, and where its headers and keys stand.
#[derive(Debug, Clone)]
pub struct Tables<'a> {
    text: &'a str,
    statements: Vec<Statement>,
}

/// A header, or a key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Statement {
    is_header: bool,
    /// The whole name, that of the table included.
    path: Vec<String>,
    /// All of its lines, their ends included.
    lines: Range<usize>,
}

impl<'a> Tables<'a> {
    /// Finds the tables of a text.
    pub fn read(text: &'a str) -> Result<Tables<'a>, CannotEdit> {
        Ok(Tables { text, statements: statements(text).ok_or(CannotEdit::Syntax)? })
    }

    /// Is there a table of this name in a family?
    pub fn has(&self, family: &str, name: &str) -> bool {
        self.statements.iter().any(|statement| statement.is_of(family, name))
    }

    /// Is the family one inline table, `back = {…}`?
    pub fn is_inline(&self, family: &str) -> bool {
        let is_family = |statement: &Statement| {
            !statement.is_header && statement.path.len() == 1 && statement.path[0] == family
        };
        self.statements.iter().any(is_family)
    }

    /// The text with one more table; `table` is its lines, each with its end, comments above them
    /// included.
    pub fn with(&self, family: &str, table: &str, place: TablePlace) -> Result<String, CannotEdit> {
        if self.is_inline(family) {
            return Err(CannotEdit::Inline);
        }
        let at = match place {
            TablePlace::BehindItsFamily => self.end_of(family).unwrap_or(self.text.len()),
            TablePlace::AtTheEnd => self.text.len(),
        };
        let (before, behind) = self.text.split_at(at);
        let end = line_end(self.text);
        let mut with = before.to_owned();
        if !before.trim_start_matches(BYTE_ORDER_MARK).is_empty() {
            if !before.ends_with('\n') {
                with.push_str(end);
            }
            with.push_str(end);
        }
        with.push_str(&with_line_ends(table, end));
        with.push_str(behind);
        Ok(with)
    }

    /// The text with a table in place of the one of this name, which must be there. Comments above it
    /// stay.
    pub fn replaced(
        &self,
        family: &str,
        name: &str,
        table: &str,
        place: TablePlace,
    ) -> Result<String, CannotEdit> {
        let regions = self.regions(family, name);
        let Some(first) = regions.iter().position(|region| region.has_header) else {
            let without = self.without(family, name);
            return Tables::read(&without)?.with(family, table, place);
        };
        let mut text = self.text.to_owned();
        for (index, region) in regions.iter().enumerate().rev() {
            let new = match index == first {
                true => with_line_ends(table, line_end(self.text)),
                false => String::new(),
            };
            text.replace_range(region.lines.clone(), &new);
        }
        Ok(text)
    }

    /// The text without the table of this name: with it go the comments directly above its header and
    /// one empty line before them.
    pub fn without(&self, family: &str, name: &str) -> String {
        self.cut(family, name, true)
    }

    /// The same, and the comments stay: they are of somebody else than the table.
    pub fn without_alone(&self, family: &str, name: &str) -> String {
        self.cut(family, name, false)
    }

    fn cut(&self, family: &str, name: &str, with_comments: bool) -> String {
        let mut text = self.text.to_owned();
        for region in self.regions(family, name).iter().rev() {
            let start = match region.has_header {
                true => self.begin_of(region, with_comments),
                false => region.lines.start,
            };
            text.replace_range(start..region.lines.end, "");
        }
        text
    }

    /// Where a table begins with the comments that belong to its header, or with the empty line before.
    fn begin_of(&self, region: &Region, with_comments: bool) -> usize {
        let mut start = region.lines.start;
        while with_comments && let Some(above) = self.line_above(start, region.behind) {
            let line = self.text[above..start].trim_start_matches(BYTE_ORDER_MARK).trim();
            if !line.starts_with('#') || line.starts_with("#:schema") {
                break;
            }
            start = above;
        }
        match self.line_above(start, region.behind) {
            Some(above) if self.text[above..start].trim_matches(['\r', '\n']).is_empty() => above,
            _ => start,
        }
    }

    /// Where the line begins that ends here, if it stands behind `least`.
    fn line_above(&self, end: usize, least: usize) -> Option<usize> {
        let before = self.text[..end].strip_suffix('\n')?;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let start = match self.text[start..end].starts_with(BYTE_ORDER_MARK) {
            true => start + BYTE_ORDER_MARK.len_utf8(),
            false => start,
        };
        (least <= start && start < end).then_some(start)
    }

    /// The end of the last line that belongs to the last table of a family that has a header.
    fn end_of(&self, family: &str) -> Option<usize> {
        let of_family = |header: &Statement| header.path.first().is_some_and(|own| own == family);
        let last = self
            .statements
            .iter()
            .rposition(|statement| statement.is_header && of_family(statement))?;
        let next = self.statements[last + 1..].iter().position(|statement| statement.is_header);
        let end = next.map_or(self.statements.len(), |next| last + 1 + next);
        Some(self.statements[end - 1].lines.end)
    }

    /// What belongs to a table: statements that follow each other are one region.
    fn regions(&self, family: &str, name: &str) -> Vec<Region> {
        let mut regions: Vec<Region> = Vec::new();
        let mut header_is_its = false;
        let mut last = None;
        for (index, statement) in self.statements.iter().enumerate() {
            if statement.is_header {
                header_is_its = statement.is_of(family, name);
            }
            if !statement.is_of(family, name) {
                continue;
            }
            // Keys with dots stand among others, and comments between them are not theirs.
            let goes_on = header_is_its && last.is_some_and(|last: usize| last + 1 == index);
            match regions.last_mut().filter(|region| goes_on && region.has_header) {
                Some(region) => region.lines.end = statement.lines.end,
                None => {
                    let behind = index.checked_sub(1).map_or(0, |at| self.statements[at].lines.end);
                    let (lines, has_header) = (statement.lines.clone(), statement.is_header);
                    regions.push(Region { lines, has_header, behind });
                }
            }
            last = Some(index);
        }
        regions
    }
}

/// Lines of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Region {
    lines: Range<usize>,
    has_header: bool,
    /// Where what stands before it ends.
    behind: usize,
}

impl Statement {
    fn is_of(&self, family: &str, name: &str) -> bool {
        matches!(self.path.as_slice(), [first, second, ..] if first == family && second == name)
    }
}

/// The headers and keys of a text; `None` if it is not TOML.
fn statements(text: &str) -> Option<Vec<Statement>> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let mut errors: Vec<ParseError> = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    parse_document(&tokens, &mut |event: Event| events.push(event), &mut errors);
    let mut statements: Vec<Statement> = Vec::new();
    let mut table: Vec<String> = Vec::new();
    let mut open: Option<Open> = None;
    let mut depth = 0_usize;
    for event in &events {
        let span = event.span().start()..event.span().end();
        match event.kind() {
            EventKind::Whitespace | EventKind::Comment => continue,
            EventKind::Newline if depth == 0 => {
                if let Some(open) = open.take() {
                    statements.push(open.closed(&mut table, text));
                }
                continue;
            }
            EventKind::Newline => continue,
            EventKind::InlineTableOpen | EventKind::ArrayOpen => depth += 1,
            EventKind::InlineTableClose | EventKind::ArrayClose => depth = depth.checked_sub(1)?,
            EventKind::Error => return None,
            _ => {}
        }
        let open = open.get_or_insert_with(|| Open { start: span.start, ..Open::default() });
        open.end = span.end;
        match event.kind() {
            EventKind::StdTableOpen | EventKind::ArrayTableOpen => open.is_header = true,
            EventKind::KeyValSep if depth == 0 => open.has_value = true,
            EventKind::SimpleKey if depth == 0 && !open.has_value => {
                let mut key = String::new();
                source.get(event)?.decode_key(&mut key, &mut errors);
                open.keys.push(key);
            }
            _ => {}
        }
    }
    if let Some(open) = open.take() {
        statements.push(open.closed(&mut table, text));
    }
    errors.is_empty().then_some(statements)
}

/// A statement that is not at its end yet.
#[derive(Default)]
struct Open {
    start: usize,
    end: usize,
    is_header: bool,
    has_value: bool,
    keys: Vec<String>,
}

impl Open {
    fn closed(self, table: &mut Vec<String>, text: &str) -> Statement {
        let path = match self.is_header {
            true => {
                table.clone_from(&self.keys);
                self.keys
            }
            false => table.iter().cloned().chain(self.keys).collect(),
        };
        let start = text[..self.start].rfind('\n').map_or(0, |at| at + 1);
        let start = match text[start..].starts_with(BYTE_ORDER_MARK) {
            true => start + BYTE_ORDER_MARK.len_utf8(),
            false => start,
        };
        let end = text[self.end..].find('\n').map_or(text.len(), |at| self.end + at + 1);
        Statement { is_header: self.is_header, path, lines: start..end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str, table: &str) -> String {
        Tables::read(text).unwrap().with("back", table, TablePlace::BehindItsFamily).unwrap()
    }

    fn remove(text: &str, name: &str) -> String {
        Tables::read(text).unwrap().without("back", name)
    }

    const NEW: &str = "[back.new]\nconnect = \"x\"\n";

    #[test]
    fn a_table_goes_behind_the_last_of_its_family() {
        let cases = [
            ("", "[back.new]\nconnect = \"x\"\n"),
            ("\u{feff}", "\u{feff}[back.new]\nconnect = \"x\"\n"),
            ("# c\n", "# c\n\n[back.new]\nconnect = \"x\"\n"),
            ("# c", "# c\n\n[back.new]\nconnect = \"x\"\n"),
            ("a = 1\r\n", "a = 1\r\n\r\n[back.new]\r\nconnect = \"x\"\r\n"),
            (
                "[back.a]\nconnect = '''\n[front.x]\n''' # c\n[back.a.oauth]\nx = [\n1,\n]\n# of the front\n[front.x]\nserve = 1\n",
                "[back.a]\nconnect = '''\n[front.x]\n''' # c\n[back.a.oauth]\nx = [\n1,\n]\n\n[back.new]\nconnect = \"x\"\n# of the front\n[front.x]\nserve = 1\n",
            ),
            (
                "[front.x]\n[back]\na = { connect = \"x\" }\n\n[journal]\n",
                "[front.x]\n[back]\na = { connect = \"x\" }\n\n[back.new]\nconnect = \"x\"\n\n[journal]\n",
            ),
            (
                "back.a.connect = \"x\"\n[journal]\npath = 1\n",
                "back.a.connect = \"x\"\n[journal]\npath = 1\n\n[back.new]\nconnect = \"x\"\n",
            ),
        ];
        for (text, with) in cases {
            assert_eq!(add(text, NEW), with);
            let end = if text.ends_with(['\n', '\u{feff}']) || text.is_empty() { "" } else { "\n" };
            assert_eq!(remove(with, "new"), format!("{text}{end}"));
        }
        let inline = Tables::read("back = { a = { connect = \"x\" } }\n").unwrap();
        assert_eq!(inline.with("back", NEW, TablePlace::BehindItsFamily), Err(CannotEdit::Inline));
        assert_eq!(Tables::read("[back").err(), Some(CannotEdit::Syntax));
    }

    #[test]
    fn a_table_is_taken_out_with_what_stands_above_it() {
        let cases = [
            ("#:schema x\n[back.a]\nx = 1\n", "#:schema x\n"),
            ("# far\n\n# one\n# two\n[back.a]\nx = 1\n\n[back.b]\n", "# far\n\n[back.b]\n"),
            ("x = \"\"\"\n# y\"\"\"\n[back.a]\n", "x = \"\"\"\n# y\"\"\"\n"),
            ("[back.a]\n[front.x]\n[back.a.oauth]\nx = 1\n[back.b]\n", "[front.x]\n[back.b]\n"),
            ("back.a.connect = \"x\"\nback.b.x = 1\nback.a.timeout = \"1s\"", "back.b.x = 1\n"),
            ("[back]\n# c\na = { x = 1 }\nb.x = 1\n", "[back]\n# c\nb.x = 1\n"),
            ("[ back . \"a\" ] # c\nx = [\n# d\n]\n", ""),
        ];
        for (text, without) in cases {
            assert_eq!(remove(text, "a"), without, "{text}");
        }
    }

    #[test]
    fn a_table_alone_is_taken_out() {
        let cases = [
            ("x = 1\n\n# one\n[back.a]\nx = 1\n", "x = 1\n\n# one\n"),
            ("# one\n\n[back.a]\nx = 1\n# two\n", "# one\n# two\n"),
        ];
        for (text, without) in cases {
            assert_eq!(Tables::read(text).unwrap().without_alone("back", "a"), without, "{text}");
        }
    }

    #[test]
    fn a_table_is_replaced_in_its_place() {
        let cases = [
            (
                "# stays\n[back.new]\nx = 1 # goes\n[back.new.oauth]\ny = 1\n# stays\n[back.b]\n",
                "# stays\n[back.new]\nconnect = \"x\"\n# stays\n[back.b]\n",
            ),
            ("back.new.x = 1\n[back.b]\n", "[back.b]\n\n[back.new]\nconnect = \"x\"\n"),
        ];
        for (text, replaced) in cases {
            let tables = Tables::read(text).unwrap();
            assert!(tables.has("back", "new") && !tables.has("back", "other"));
            let with = tables.replaced("back", "new", NEW, TablePlace::BehindItsFamily).unwrap();
            assert_eq!(with, replaced);
        }
    }
}
