//! Problems as people see them: the place in its source, drawn by miette, and what to do.

use std::collections::BTreeMap;
use std::fmt;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError,
    MietteSpanContents, SourceCode, SourceSpan, SpanContents, ThemeCharacters,
};
use toolbus_proto::json::write_string;

use crate::diagnostic::{FileId, Problem, Severity, Span};
use crate::source::{SourceFile, Sources};

/// How problems are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// With colours.
    pub color: bool,
    /// For a terminal, with lines that only one can draw.
    pub terminal: bool,
    /// How many columns there are.
    pub width: usize,
}

impl Look {
    /// For files and pipes.
    pub const PLAIN: Look = Look { color: false, terminal: false, width: 100 };
}

/// Draws all problems, one behind the other.
pub fn text(problems: &[Problem], sources: &Sources, look: Look) -> String {
    let theme = match (look.terminal, look.color) {
        (true, true) => GraphicalTheme::unicode(),
        (true, false) => GraphicalTheme::unicode_nocolor(),
        (false, true) => {
            GraphicalTheme { characters: ThemeCharacters::ascii(), ..GraphicalTheme::unicode() }
        }
        (false, false) => GraphicalTheme::none(),
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_links(false)
        .with_width(look.width.max(40))
        .with_context_lines(1)
        .tab_width(2);
    let mut files: BTreeMap<FileId, Text> = BTreeMap::new();
    for span in problems.iter().flat_map(spans) {
        files.entry(span.file).or_insert_with(|| Text::new(sources.file(span.file)));
    }
    let mut out = String::new();
    for problem in problems {
        let drawn = Drawn::new(problem, &files);
        // Writing to a string does not fail; what miette refuses is told without its source.
        if handler.render_report(&mut out, &drawn).is_err() {
            out.push_str(&format!("{}: {}\n", problem.code, problem.message));
        }
        out.push('\n');
    }
    // Lines without an end are of no use to those who cut and compare.
    out.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// `error: 2 problems in shop.hcl`, without its end of line; `None` if there is no error.
pub fn summary(problems: &[Problem], shown: &str) -> Option<String> {
    let is_error = |problem: &&Problem| problem.severity == Severity::Error;
    match problems.iter().filter(is_error).count() {
        0 => None,
        1 => Some(format!("1 problem in {shown}")),
        count => Some(format!("{count} problems in {shown}")),
    }
}

/// A problem as one object of JSON, behind what is in `out`.
pub fn write_json(out: &mut Vec<u8>, problem: &Problem, sources: &Sources) {
    out.extend_from_slice(b"{");
    json_members(out, problem, sources);
    out.push(b'}');
}

/// The members of that object.
pub fn json_members(out: &mut Vec<u8>, problem: &Problem, sources: &Sources) {
    let text = |out: &mut Vec<u8>, name: &str, value: &str| {
        out.extend_from_slice(name.as_bytes());
        write_string(out, value);
    };
    text(out, "\"severity\":", problem.severity.as_str());
    text(out, ",\"code\":", problem.code.as_str());
    text(out, ",\"message\":", &problem.message);
    if let Some(help) = &problem.help {
        text(out, ",\"help\":", help);
    }
    let Some(span) = &problem.span else {
        let none = b",\"file\":null,\"line\":null,\"column\":null,\"start\":null,\"end\":null";
        out.extend_from_slice(none);
        return;
    };
    let file = sources.file(span.file);
    let (line, column) = file.line_column(span.range.start);
    let (start, end) = (file.offset_in_file(span.range.start), file.offset_in_file(span.range.end));
    text(out, ",\"file\":", &file.shown);
    let place = format!(",\"line\":{line},\"column\":{column},\"start\":{start},\"end\":{end}");
    out.extend_from_slice(place.as_bytes());
}

fn spans(problem: &Problem) -> impl Iterator<Item = &Span> {
    problem.span.iter().chain(problem.labels.iter().map(|(span, _)| span))
}

/// A file in which places are found without reading it from its beginning each time.
struct Text {
    name: String,
    text: String,
    /// Where lines begin.
    lines: Vec<usize>,
}

impl Text {
    fn new(file: &SourceFile) -> Text {
        let text = harmless(&file.text);
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        Text { name: file.shown.clone(), text, lines }
    }

    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|begun| *begun <= offset).saturating_sub(1)
    }

    fn floor(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        (0..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

impl SourceCode for Text {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let start = self.floor(span.offset());
        let end = self.floor(span.offset() + span.len()).max(start);
        let (first, last) = (self.line_of(start), self.line_of(end.saturating_sub(1).max(start)));
        let (from, line, column) = match before {
            0 => {
                let begun = self.lines[first];
                (start, first, self.text[begun..start].chars().count())
            }
            _ => {
                let line = first.saturating_sub(before);
                (self.lines[line], line, 0)
            }
        };
        let to = match after {
            0 => end,
            _ => self.lines.get(last + after + 1).map_or(self.text.len(), |next| *next),
        };
        let data = &self.text.as_bytes()[from..to.max(from)];
        let part = SourceSpan::new(from.into(), data.len());
        let name = self.name.clone();
        Ok(Box::new(MietteSpanContents::new_named(name, data, part, line, column, last + 1)))
    }
}

/// The text with all that moves a terminal's cursor or turns text around replaced, byte for byte:
/// places stay where they are.
fn harmless(text: &str) -> String {
    let is_harmful = |char: char| {
        (char.is_control() && char != '\n' && char != '\t' && char != '\r')
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let replaced = |char: char| match (is_harmful(char), char.len_utf8()) {
        (false, _) => char,
        (true, 1) => '?',
        (true, 2) => '¿',
        (true, _) => '\u{fffd}',
    };
    text.chars().map(replaced).collect()
}

/// A problem as miette wants it.
struct Drawn<'a> {
    problem: &'a Problem,
    source: Option<&'a Text>,
    labels: Vec<LabeledSpan>,
    /// Places in other files.
    elsewhere: Vec<Elsewhere<'a>>,
}

impl<'a> Drawn<'a> {
    fn new(problem: &'a Problem, files: &'a BTreeMap<FileId, Text>) -> Drawn<'a> {
        let file = problem.span.as_ref().map(|span| span.file);
        let mut labels: Vec<LabeledSpan> = Vec::new();
        let mut elsewhere = Vec::new();
        let has_text = |span: &Span| problem.labels.iter().any(|(labelled, _)| labelled == span);
        if let Some(span) = problem.span.as_ref().filter(|span| !has_text(span)) {
            labels.push(LabeledSpan::new_primary_with_span(None, span.range.clone()));
        }
        for (span, text) in &problem.labels {
            if Some(span.file) != file {
                elsewhere.extend(files.get(&span.file).map(|source| Elsewhere {
                    span,
                    text,
                    source,
                }));
                continue;
            }
            let (text, range) = (Some(harmless(text)), span.range.clone());
            labels.push(match Some(span) == problem.span.as_ref() {
                true => LabeledSpan::new_primary_with_span(text, range),
                false => LabeledSpan::new_with_span(text, range),
            });
        }
        let source = file.and_then(|file| files.get(&file));
        Drawn { problem, source, labels, elsewhere }
    }
}

impl fmt::Debug for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl fmt::Display for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harmless(&self.problem.message))
    }
}

impl std::error::Error for Drawn<'_> {}

impl Diagnostic for Drawn<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        Some(Box::new(self.problem.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.problem.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        let help = self.problem.help.as_ref()?;
        Some(Box::new(harmless(help)))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        match self.labels.is_empty() {
            true => None,
            false => Some(Box::new(self.labels.iter().cloned())),
        }
    }

    fn related<'b>(&'b self) -> Option<Box<dyn Iterator<Item = &'b dyn Diagnostic> + 'b>> {
        match self.elsewhere.is_empty() {
            true => None,
            false => Some(Box::new(self.elsewhere.iter().map(|it| it as &dyn Diagnostic))),
        }
    }
}

/// A place in another file that has to do with a problem.
struct Elsewhere<'a> {
    span: &'a Span,
    text: &'a str,
    source: &'a Text,
}

impl fmt::Debug for Elsewhere<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.span.fmt(f)
    }
}

impl fmt::Display for Elsewhere<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harmless(self.text))
    }
}

impl std::error::Error for Elsewhere<'_> {}

impl Diagnostic for Elsewhere<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(miette::Severity::Advice)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_primary_with_span(None, self.span.range.clone());
        Some(Box::new(std::iter::once(label)))
    }
}
