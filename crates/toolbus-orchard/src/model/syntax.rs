//! Text as HCL: what the parser takes, and what it should not have taken.

use std::collections::HashMap;
use std::ops::Range;

use hcl_edit::expr::{Expression, Object, ObjectKey};
use hcl_edit::structure::{BlockLabel, Body};
use hcl_edit::template::{Element, StringTemplate};
use hcl_edit::visit::{self, Visit};
use hcl_edit::{Decorated, Span as _};

use crate::diagnostic::{Code, FileId, Problem, Span};

/// The text as HCL, or what is wrong with it.
pub fn parse_body(file: FileId, text: &str) -> Result<Body, Problem> {
    let body: Body = text.parse().map_err(|error| not_hcl(file, text, &error))?;
    let mut strict = Strict { file, text, fault: None };
    strict.visit_body(&body);
    match strict.fault {
        Some(fault) => Err(fault),
        None => Ok(body),
    }
}

/// The text as one expression.
pub(crate) fn parse_expression(file: FileId, text: &str) -> Result<Expression, Problem> {
    let expression: Expression = text.parse().map_err(|error| not_hcl(file, text, &error))?;
    let mut strict = Strict { file, text, fault: None };
    strict.visit_expr(&expression);
    match strict.fault {
        Some(fault) => Err(fault),
        None => Ok(expression),
    }
}

fn not_hcl(file: FileId, text: &str, error: &hcl_edit::parser::Error) -> Problem {
    let start = error.location().offset().min(text.len());
    let start = (0..=start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    // One character, or the end of the text.
    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    let message = error.message();
    let problem = match message.split_once("found redefined ") {
        Some((_, what)) => Problem::error(Code::Syntax, format!("the {what} is written twice"))
            .help("keep one of them"),
        None => Problem::error(Code::Syntax, plainly(message)),
    };
    let problem = problem.at(Span::new(file, start..end));
    match hint(text, start) {
        Some(hint) if problem.help.is_none() => problem.help(hint),
        _ => problem,
    }
}

/// The parser's words where they would list half of the keyboard.
fn plainly(message: &str) -> &str {
    match message.split_once(';') {
        Some(("invalid expression", _)) => "a value is expected here",
        _ => message,
    }
}

/// What those who know other languages do.
fn hint(text: &str, at: usize) -> Option<&'static str> {
    match text[at..].chars().next()? {
        ',' => Some("attributes of a block stand on lines of their own, without commas"),
        '\'' => Some("strings are written with double quotes"),
        ':' => Some("attributes are written `name = value`"),
        _ => None,
    }
}

/// Finds what the parser lets pass.
struct Strict<'a> {
    file: FileId,
    text: &'a str,
    /// The first.
    fault: Option<Problem>,
}

impl Strict<'_> {
    fn fault(&mut self, message: String, range: Range<usize>, help: &str) {
        let problem = Problem::error(Code::Syntax, message).at(Span::new(self.file, range));
        self.fault.get_or_insert(problem.help(help));
    }

    /// The text of a string or of a part of one.
    fn one_line(&mut self, range: Option<Range<usize>>) {
        let Some(range) = range else { return };
        let Some(text) = self.text.get(range.clone()) else { return };
        if let Some(at) = text.find('\n') {
            let at = range.start + at;
            let help = "write `\\n`, or use a heredoc: `<<EOT`";
            self.fault("a line ends inside a string".to_owned(), at..at + 1, help);
        }
    }
}

impl Visit for Strict<'_> {
    fn visit_string(&mut self, node: &Decorated<String>) {
        self.one_line(node.span());
    }

    fn visit_block_label(&mut self, node: &BlockLabel) {
        self.one_line(node.span());
    }

    fn visit_string_template(&mut self, node: &StringTemplate) {
        for element in node {
            if let Element::Literal(literal) = element {
                self.one_line(literal.span());
            }
        }
        visit::visit_string_template(self, node);
    }

    fn visit_object(&mut self, node: &Object) {
        // The parser knows `a` and `a` to be the same, and takes `"a"` for another.
        let mut seen = HashMap::with_capacity(node.len());
        for (key, value) in node {
            let (name, range) = match key {
                ObjectKey::Ident(name) => (name.as_str(), name.span()),
                ObjectKey::Expression(Expression::String(name)) => (name.as_str(), name.span()),
                ObjectKey::Expression(_) => continue,
            };
            if seen.insert(name, ()).is_some() {
                // Keys without quotes have no place of their own.
                let range = range.or_else(|| value.expr().span()).unwrap_or_default();
                self.fault(
                    format!("the object key `{name}` is written twice"),
                    range,
                    "keep one of them",
                );
            }
        }
        visit::visit_object(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hcl_is_told_with_its_place() {
        for (text, message, start) in [
            ("a = \"x\ny\"\n", "a line ends inside a string", 6),
            ("a = \"${x}\n\"\n", "a line ends inside a string", 9),
            ("a \"x\ny\" {}\n", "a line ends inside a string", 4),
            ("a = 1\na = 2\n", "the attribute is written twice", 6),
            ("a = { x = 1, x = 2 }\n", "the object key is written twice", 13),
            ("a = { x = 1, \"x\" = 2 }\n", "the object key `x` is written twice", 13),
            ("a {", "invalid block body; expected `}`, newline or identifier", 2),
        ] {
            let problem = parse_body(FileId(0), text).unwrap_err();
            let at = problem.span.as_ref().map(|span| span.range.start);
            assert_eq!((problem.message.as_str(), at), (message, Some(start)), "{text}");
            assert_eq!(problem.code, Code::Syntax);
        }
        for text in ["a = \"${\n1\n}\"\n", "a = <<E\nx\ny\nE\n", "a = { x = 1, (x) = 2 }\n", ""] {
            assert!(parse_body(FileId(0), text).is_ok(), "{text}");
        }
    }
}
