//! Places drawn into their source: its lines with their numbers, what is meant underlined, and
//! below it what is said of it. Places of several lines have a bracket on their left.

use std::ops::Range;

use super::wrap::{columns_of, wrapped};
use crate::source::SourceFile;

const TAB_COLUMNS: usize = 2;

/// What lines and arrows are made of.
struct Signs {
    horizontal: &'static str,
    vertical: &'static str,
    /// At the left of lines that are not in the source.
    margin: &'static str,
    up: &'static str,
    right: &'static str,
    top_left: &'static str,
    bottom_left: &'static str,
    branch: &'static str,
    underline: &'static str,
    /// The part of an underline from which its text hangs.
    hanger: &'static str,
    error: &'static str,
    warning: &'static str,
    advice: &'static str,
}

const ASCII: Signs = Signs {
    horizontal: "-",
    vertical: "|",
    margin: ":",
    up: "^",
    right: ">",
    top_left: ",",
    bottom_left: "`",
    branch: "|",
    underline: "^",
    hanger: "|",
    error: "x",
    warning: "!",
    advice: ">",
};

const UNICODE: Signs = Signs {
    horizontal: "─",
    vertical: "│",
    margin: "·",
    up: "▲",
    right: "▶",
    top_left: "╭",
    bottom_left: "╰",
    branch: "├",
    underline: "─",
    hanger: "┬",
    error: "×",
    warning: "⚠",
    advice: "☞",
};

/// A colour or another look of text, as terminals number it.
#[derive(Debug, Clone, Copy)]
struct Style(&'static str);

const RED: Style = Style("31");
const YELLOW: Style = Style("33");
const CYAN: Style = Style("36");
const DIM: Style = Style("2");
const LINK: Style = Style("36;1;4");
/// Labels have them in turn.
const LABELS: [Style; 3] = [Style("35;1"), Style("33;1"), Style("32;1")];

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Error,
    Warning,
    Advice,
}

/// A place, and what is said of it.
pub(super) struct Label {
    pub(super) range: Range<usize>,
    pub(super) text: Option<String>,
    /// Its line and column are named.
    pub(super) is_primary: bool,
}

/// A file in which places are found without reading it from its beginning each time.
pub(super) struct Source {
    name: String,
    text: String,
    /// Where lines begin.
    lines: Vec<usize>,
}

/// Draws what is handed to it, one below the other.
pub(super) struct Page {
    out: String,
    signs: &'static Signs,
    color: bool,
    width: usize,
}

impl Page {
    pub(super) fn new(terminal: bool, color: bool, width: usize) -> Page {
        Page { out: String::new(), signs: if terminal { &UNICODE } else { &ASCII }, color, width }
    }

    /// All that was drawn.
    pub(super) fn into_text(self) -> String {
        // Spaces at the end of a line are of no use to those who cut and compare.
        self.out.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    /// Text as it is.
    pub(super) fn plain(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A word that says what comes.
    pub(super) fn title(&mut self, weight: Weight, title: &str) {
        let (style, _) = self.look(weight);
        let title = self.paint(style, title);
        self.out.push_str(&format!("{title}\n\n"));
    }

    /// What is wrong, behind its sign.
    pub(super) fn message(&mut self, weight: Weight, text: &str) {
        let (style, sign) = self.look(weight);
        let first = format!("  {} ", self.paint(style, sign));
        let other = format!("  {} ", self.paint(style, self.signs.vertical));
        self.indented(&first, &other, "  x ".len(), text);
    }

    /// What can be done.
    pub(super) fn help(&mut self, text: &str) {
        let first = "  help: ";
        self.indented(&self.paint(CYAN, first), &" ".repeat(first.len()), first.len(), text);
    }

    /// The parts of a source in which the labels stand. What is near to each other is one part.
    pub(super) fn labels(&mut self, source: &Source, mut labels: Vec<Label>) {
        labels.sort_by_key(|label| label.range.start);
        let mut parts: Vec<Range<usize>> = Vec::new();
        for label in &labels {
            let (line, _) = source.shown_lines(&label.range);
            match parts.last_mut() {
                Some(part) if line <= reach(source.shown_lines(part)) => {
                    part.end = part.end.max(label.range.end);
                }
                _ => parts.push(label.range.clone()),
            }
        }
        for part in parts {
            self.part(source, &part, &labels);
        }
    }

    fn part(&mut self, source: &Source, part: &Range<usize>, labels: &[Label]) {
        let lines = source.lines_around(part);
        let styles = LABELS.iter().cycle();
        let marks: Vec<Mark<'_>> =
            labels.iter().zip(styles).map(|(label, style)| Mark { label, style: *style }).collect();
        let crossing = |line: &Line<'_>| marks.iter().filter(|mark| mark.crosses(line)).count();
        let margin = Margin {
            digits: lines.last().map_or(1, |line| line.number.to_string().len()),
            brackets: lines.iter().map(crossing).max().unwrap_or(0),
        };
        let is_inside =
            |label: &&Label| part.start <= label.range.start && label.range.end <= part.end;
        let primary = labels.iter().filter(is_inside).find(|label| label.is_primary);
        let named = primary.or_else(|| labels.iter().find(is_inside)).map_or(part, |it| &it.range);

        let Signs { horizontal, top_left, bottom_left, .. } = self.signs;
        let edge = " ".repeat(margin.digits + 2);
        let place = self.paint(LINK, &source.place(named.start));
        self.out.push_str(&format!("{edge}{top_left}{horizontal}[{place}]\n"));
        for line in &lines {
            self.line(line, &margin, &marks);
        }
        self.out.push_str(&format!("{edge}{bottom_left}{}\n", horizontal.repeat(4)));
    }

    fn line(&mut self, line: &Line<'_>, margin: &Margin, marks: &[Mark<'_>]) {
        let number = self.paint(DIM, &format!("{:>1$}", line.number, margin.digits));
        self.out.push_str(&format!(" {number} {} ", self.signs.vertical));
        self.brackets(line, margin, marks);
        let mut column = 0;
        for char in line.text.chars() {
            let width = width_at(column, char);
            match char {
                '\t' => self.out.push_str(&" ".repeat(width)),
                char => self.out.push(char),
            }
            column += width;
        }
        self.out.push('\n');

        let within: Vec<&Mark<'_>> =
            marks.iter().filter(|mark| mark.part_in(line) == Some(Part::Whole)).collect();
        if !within.is_empty() {
            let hangers = self.underlines(line, margin, marks, &within);
            for mark in within.iter().rev() {
                if let Some(text) = &mark.label.text {
                    self.below(line, margin, marks);
                    self.hanging_text(mark, text, &hangers);
                }
            }
        }
        for mark in marks.iter().filter(|mark| mark.part_in(line) == Some(Part::End)) {
            if let Some(text) = &mark.label.text {
                self.below(line, margin, marks);
                let horizontal = self.paint(mark.style, self.signs.horizontal);
                let text = self.paint(mark.style, text);
                self.out.push_str(&format!("{horizontal} {text}\n"));
            }
        }
    }

    /// The brackets of places of several lines, beside a line of the source.
    fn brackets(&mut self, line: &Line<'_>, margin: &Margin, marks: &[Mark<'_>]) {
        if margin.brackets == 0 {
            return;
        }
        let signs = self.signs;
        let mut drawn = String::new();
        let mut free = margin.brackets + 3;
        for (at, mark) in marks.iter().filter(|mark| mark.crosses(line)).enumerate() {
            let corner = match mark.part_in(line) {
                Some(Part::Begin) => signs.top_left,
                Some(Part::End) if mark.label.text.is_some() => signs.branch,
                Some(Part::End) => signs.bottom_left,
                _ => {
                    drawn.push_str(&self.paint(mark.style, signs.vertical));
                    free -= 1;
                    continue;
                }
            };
            drawn.push_str(&self.paint(mark.style, corner));
            drawn.push_str(&self.paint(mark.style, &signs.horizontal.repeat(margin.brackets - at)));
            drawn.push_str(&self.paint(mark.style, signs.right));
            free = 1;
            break;
        }
        self.out.push_str(&drawn);
        self.out.push_str(&" ".repeat(free));
    }

    /// Begins a line that is not in the source, below one that is.
    fn below(&mut self, line: &Line<'_>, margin: &Margin, marks: &[Mark<'_>]) {
        let signs = self.signs;
        self.out.push_str(&format!(" {:1$} {2} ", "", margin.digits, signs.margin));
        if margin.brackets == 0 {
            return;
        }
        let mut columns = 0;
        for (at, mark) in marks.iter().filter(|mark| mark.crosses(line)).enumerate() {
            if mark.part_in(line) == Some(Part::End) {
                let length = margin.brackets - at + 2;
                let corner = self.paint(mark.style, signs.bottom_left);
                let bar = self.paint(mark.style, &signs.horizontal.repeat(length));
                self.out.push_str(&format!("{corner}{bar}"));
                columns += length + 1;
                break;
            }
            let bar = self.paint(mark.style, signs.vertical);
            self.out.push_str(&bar);
            columns += 1;
        }
        self.out.push_str(&" ".repeat((margin.brackets + 3).saturating_sub(columns)));
    }

    /// Underlines what is within a line, and says in which columns texts hang.
    fn underlines<'m>(
        &mut self,
        line: &Line<'_>,
        margin: &Margin,
        marks: &[Mark<'_>],
        within: &[&'m Mark<'m>],
    ) -> Vec<(&'m Mark<'m>, usize)> {
        self.below(line, margin, marks);
        let signs = self.signs;
        let (mut hangers, mut reached) = (Vec::new(), 0);
        for mark in within {
            let Range { start: from, end: to } = mark.label.range;
            let start = line.column(from).max(reached);
            let end = if from == to { start + 1 } else { line.column(to).max(start + 1) };
            let hanger = (start + end) / 2;
            let sign = match &mark.label.text {
                _ if from == to => signs.up,
                Some(_) => signs.hanger,
                None => signs.underline,
            };
            let (left, right) = (hanger - start, end - hanger - 1);
            let (left, right) = (signs.underline.repeat(left), signs.underline.repeat(right));
            let line = format!("{}{left}{sign}{right}", " ".repeat(start - reached));
            let line = self.paint(mark.style, &line);
            self.out.push_str(&line);
            reached = end;
            hangers.push((*mark, hanger));
        }
        self.out.push('\n');
        hangers
    }

    /// The text of a mark, and the lines on which those of the marks before it will hang.
    fn hanging_text(&mut self, hung: &Mark<'_>, text: &str, hangers: &[(&Mark<'_>, usize)]) {
        let Signs { horizontal, vertical, bottom_left, .. } = self.signs;
        let mut column = 0;
        for (mark, hanger) in hangers {
            self.out.push_str(&" ".repeat(hanger.saturating_sub(column)));
            column = column.max(*hanger);
            if mark.is_same(hung) {
                let text = self.paint(hung.style, text);
                let line = format!("{bottom_left}{} {text}", horizontal.repeat(2));
                let line = self.paint(hung.style, &line);
                self.out.push_str(&line);
                break;
            }
            let bar = self.paint(mark.style, vertical);
            self.out.push_str(&bar);
            column += 1;
        }
        self.out.push('\n');
    }

    fn look(&self, weight: Weight) -> (Style, &'static str) {
        match weight {
            Weight::Error => (RED, self.signs.error),
            Weight::Warning => (YELLOW, self.signs.warning),
            Weight::Advice => (CYAN, self.signs.advice),
        }
    }

    fn indented(&mut self, first: &str, other: &str, indent: usize, text: &str) {
        let columns = self.width.saturating_sub(2 + indent);
        for (at, line) in wrapped(text, columns).into_iter().enumerate() {
            let indent = if at == 0 { first } else { other };
            self.out.push_str(&format!("{indent}{line}\n"));
        }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        match self.color {
            true => format!("\u{1b}[{}m{text}\u{1b}[0m", style.0),
            false => text.to_owned(),
        }
    }
}

/// How far down the next place may begin to be still in the same part.
fn reach((first, last): (usize, usize)) -> usize {
    first + last + 1
}

/// What is kept free on the left of all lines of a part.
struct Margin {
    /// Of the largest line number.
    digits: usize,
    /// How many brackets there are at most beside one line.
    brackets: usize,
}

/// A label in its colour.
struct Mark<'a> {
    label: &'a Label,
    style: Style,
}

/// How much of a place is in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Begin,
    Middle,
    End,
}

impl Mark<'_> {
    fn part_in(&self, line: &Line<'_>) -> Option<Part> {
        let Range { start, end } = self.label.range;
        match (line.start <= start, end <= line.end) {
            (true, _) if line.end <= start => None,
            (false, _) if end <= line.start => None,
            (true, true) => Some(Part::Whole),
            (true, false) => Some(Part::Begin),
            (false, false) => Some(Part::Middle),
            (false, true) => Some(Part::End),
        }
    }

    fn crosses(&self, line: &Line<'_>) -> bool {
        !matches!(self.part_in(line), None | Some(Part::Whole))
    }

    fn is_same(&self, other: &Mark<'_>) -> bool {
        self.label.range == other.label.range && self.label.text == other.label.text
    }
}

/// A line of a source.
struct Line<'a> {
    number: usize,
    /// From where to where, its end included.
    start: usize,
    end: usize,
    /// Without its end.
    text: &'a str,
}

impl Line<'_> {
    /// In which column of the page an offset of the source stands.
    fn column(&self, offset: usize) -> usize {
        let offset = offset - self.start;
        let mut column = 0;
        for (_, char) in self.text.char_indices().take_while(|(at, _)| *at < offset) {
            column += width_at(column, char);
        }
        // What goes on behind the end of a line is shown as one more column.
        column + usize::from(self.text.len() < offset)
    }
}

fn width_at(column: usize, char: char) -> usize {
    match char {
        '\t' => TAB_COLUMNS - column % TAB_COLUMNS,
        char => columns_of(char),
    }
}

impl Source {
    pub(super) fn new(file: &SourceFile) -> Source {
        let text = harmless(&file.text);
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        Source { name: file.shown.clone(), text, lines }
    }

    /// Name, line and column.
    fn place(&self, offset: usize) -> String {
        let offset = self.floor(offset);
        let line = self.line_of(offset);
        let column = self.text[self.lines[line]..offset].chars().count();
        format!("{}:{}:{}", self.name, line + 1, column + 1)
    }

    /// The first line that is shown around a range, and the last one that is in it.
    fn shown_lines(&self, range: &Range<usize>) -> (usize, usize) {
        let start = self.floor(range.start);
        let end = self.floor(range.end).max(start);
        let last = self.line_of(end.saturating_sub(1).max(start));
        (self.line_of(start).saturating_sub(1), last)
    }

    /// The lines of a range, with one before and one behind them.
    fn lines_around(&self, range: &Range<usize>) -> Vec<Line<'_>> {
        let (first, last) = self.shown_lines(range);
        let start_of = |line: usize| self.lines.get(line).copied().unwrap_or(self.text.len());
        let lines = (first..last + 2).map(|line| {
            let (start, end) = (start_of(line), start_of(line + 1));
            let text = self.text[start..end].strip_suffix('\n');
            let text = text.map(|text| text.strip_suffix('\r').unwrap_or(text));
            Line { number: line + 1, start, end, text: text.unwrap_or(&self.text[start..end]) }
        });
        lines.filter(|line| line.start < line.end).collect()
    }

    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|begun| *begun <= offset).saturating_sub(1)
    }

    fn floor(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        (0..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// The text with all that moves a terminal's cursor or turns text around replaced, byte for byte:
/// places stay where they are.
pub(super) fn harmless(text: &str) -> String {
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
