//! Metrics as Prometheus reads them: its text format, version 0.0.4.

use std::fmt::{self, Display, Write as _};

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page, family by family.
#[derive(Default)]
pub(super) struct Page(String);

/// What kind of number a family holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One family of numbers: all its lines stand together.
pub(super) struct Family<'a> {
    page: &'a mut String,
    name: &'static str,
    kind: Kind,
    help: &'static str,
    has_begun: bool,
}

impl Page {
    /// Begins a family. A family without numbers is not shown.
    pub(super) fn family(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &'static str,
    ) -> Family<'_> {
        Family { page: &mut self.0, name, kind, help, has_begun: false }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// One number.
    pub(super) fn put(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.put_as("", labels, value);
    }

    /// One number under the name of the family and a `suffix`, such as `_bucket`.
    pub(super) fn put_as(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.begin();
        // Writing to a string cannot fail.
        let _ = writeln!(self.page, "{}{suffix}{} {value}", self.name, Labels(labels));
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let (name, help) = (self.name, self.help);
        let _ = write!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }
}

/// `{back="a",tool="b"}`, or nothing.
struct Labels<'a>(&'a [(&'a str, &'a str)]);

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}=\"", if at == 0 { '{' } else { ',' })?;
            for c in value.chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    c => f.write_char(c)?,
                }
            }
            f.write_char('"')?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_char('}') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_family_stand_together_and_labels_are_escaped() {
        let mut page = Page::default();
        let mut calls = page.family("calls_total", Kind::Counter, "Calls.");
        calls.put(&[], 1);
        calls.put(&[("tool", "a\"b\\c\nd"), ("back", "ü")], 2);
        page.family("nothing", Kind::Gauge, "Is not shown.");
        page.family("s", Kind::Histogram, "Seconds.").put_as("_sum", &[], 0.25);
        let expected = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 1\n\
             calls_total{tool=\"a\\\"b\\\\c\\nd\",back=\"ü\"} 2\n\
             # HELP s Seconds.\n# TYPE s histogram\ns_sum 0.25\n";
        assert_eq!(page.into_text(), expected);
    }
}
