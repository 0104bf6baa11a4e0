//! Problems as people see them: the place in its source, and what to do.

use std::collections::BTreeMap;

use toolbus_proto::json::write_string;

use super::drawing::{Label, Page, Source, Weight, harmless};
use crate::diagnostic::{FileId, Problem, Severity, Span};
use crate::source::Sources;

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

/// No page is narrower.
const WIDTH_MIN: usize = 40;

/// Draws all problems, one behind the other.
pub fn text(problems: &[Problem], sources: &Sources, look: Look) -> String {
    let mut page = Page::new(look.terminal, look.color, look.width.max(WIDTH_MIN));
    let mut files: BTreeMap<FileId, Source> = BTreeMap::new();
    for span in problems.iter().flat_map(spans) {
        files.entry(span.file).or_insert_with(|| Source::new(sources.file(span.file)));
    }
    for problem in problems {
        draw(&mut page, problem, &files);
        page.plain("\n");
    }
    page.into_text()
}

fn draw(page: &mut Page, problem: &Problem, files: &BTreeMap<FileId, Source>) {
    let weight = match problem.severity {
        Severity::Error => Weight::Error,
        Severity::Warning => Weight::Warning,
    };
    page.title(weight, problem.code.as_str());
    page.message(weight, &harmless(&problem.message));
    let place = problem.span.as_ref();
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        problem.labels.iter().partition(|(span, _)| place.is_some_and(|it| it.file == span.file));
    if let Some((place, source)) = place.and_then(|place| Some((place, files.get(&place.file)?))) {
        let bare = Label { range: place.range.clone(), text: None, is_primary: true };
        let has_text = here.iter().any(|(span, _)| span == place);
        let labels = here.iter().map(|(span, text)| Label {
            range: span.range.clone(),
            text: Some(harmless(text)),
            is_primary: span == place,
        });
        page.labels(source, (!has_text).then_some(bare).into_iter().chain(labels).collect());
    }
    if let Some(help) = &problem.help {
        page.help(&harmless(help));
    }
    for (span, text) in elsewhere {
        let Some(source) = files.get(&span.file) else { continue };
        page.plain("\nAdvice:\n");
        page.message(Weight::Advice, &harmless(text));
        let label = Label { range: span.range.clone(), text: None, is_primary: true };
        page.labels(source, vec![label]);
    }
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
