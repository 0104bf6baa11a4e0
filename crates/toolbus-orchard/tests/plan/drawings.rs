//! Problems drawn into their source: places of every shape, plain and in colour.

use std::path::PathBuf;

use toolbus_orchard::diagnostic::{Code, FileId, Problem, Span};
use toolbus_orchard::show::problems::{self, Look};
use toolbus_orchard::source::Sources;

/// The first place is the problem's own, the others are labels. `⟦` and `⟧` stand around each.
struct Shape {
    name: &'static str,
    source: String,
    /// What stands at the places, in the order in which they begin; of the first it may be nothing.
    labels: &'static [&'static str],
    message: &'static str,
    help: Option<&'static str>,
    is_warning: bool,
    width: usize,
}

fn shape(name: &'static str, source: &str, labels: &'static [&'static str]) -> Shape {
    Shape {
        name,
        source: source.to_owned(),
        labels,
        message: "it does not fit",
        help: None,
        is_warning: false,
        width: 60,
    }
}

const LONG: &str = "this is a message of so many words that it does not fit on one line of the page, \
    with `a-name-in-backticks/and/a/path`, 3.5% of it (or \"quoted - so\") and an \
    end, https://example.com/a/very/long/address/that/goes/on?and=on&on=1 included";

fn shapes() -> Vec<Shape> {
    let wide = "幅の広い文字は二つの桁を取るので、折り返しもそれに合わせる。「括弧」も同じ、そして \
                e\u{301}te\u{301} 👩‍👩‍👧 naïve — “quoted” … end";
    let unbroken = "a_word_without_any_place_at_which_it_could_be_broken_that_is_longer_than_a_line\
                    _so_that_it_has_to_be_cut_somewhere";
    let far: String = (1..30).map(|line| format!("line{line} = {line}\n")).collect();
    vec![
        shape("a word", "a = 1\nb = ⟦wrong⟧ + 1\nc = 3\nd = 4\n", &[""]),
        shape("a word with a text", "b = ⟦wrong⟧ + 1\n", &["of type `string`"]),
        shape("one letter", "b = ⟦w⟧\n", &["here"]),
        shape("nothing", "b = ⟦⟧ 1\n", &["expected a value"]),
        shape("nothing, without a text", "b = ⟦⟧ 1\n", &[""]),
        shape("the end of a file", "a = 1\nb =⟦⟧", &[""]),
        shape("behind the last line", "a = 1\nb =\n⟦⟧", &[""]),
        shape("an empty file", "⟦⟧", &[""]),
        shape("the end of a line", "a = 1⟦\n⟧b = 2\n", &["a line ends"]),
        shape("a line that ends as on Windows", "a = 1\r\nb = ⟦2\r\n⟧c = 3\r\n", &["and here"]),
        shape("two on a line", "⟦a⟧ = ⟦b⟧ + c\n", &["", "second"]),
        shape("three on a line", "⟦aaa⟧ = ⟦bbb⟧ + ⟦ccc⟧\n", &["one", "two", "three"]),
        shape("one within another", "⟦aaa = ⟦bbb⟧⟧ + c\n", &["outer", "inner"]),
        shape("neighbours", "⟦aaa⟧⟦bbb⟧ + c\n", &["left", "right"]),
        shape("the same twice", "a = ⟦⟦bbb⟧⟧ + c\n", &["", "twice"]),
        shape("four colours", "⟦a⟧ ⟦b⟧ ⟦c⟧ ⟦d⟧ ⟦e⟧\n", &["1", "2", "3", "4", "5"]),
        shape("neighbouring lines", "a = ⟦1⟧\n\na = ⟦2⟧\n", &["first here", "again"]),
        shape("far from each other", &format!("a = ⟦1⟧\n{far}a = ⟦2⟧\n"), &["first", "again"]),
        shape("late and far", &format!("{far}a = ⟦1⟧\n{far}a = ⟦2⟧\n"), &["first", "again"]),
        shape("a place before", &format!("⟦a⟧ = 1\n{far}a = 2\n"), &["first here"]),
        shape("lines", "a = ⟦[\n  1,\n  2,\n]⟧\nb = 1\n", &[""]),
        shape("lines with a text", "a = ⟦[\n  1,\n  2,\n]⟧\nb = 1\n", &["a list"]),
        shape("a word in lines", "a = ⟦[\n  ⟦1⟧,\n  2,\n]⟧\nb = 1\n", &["a list", "a number"]),
        shape("lines in lines", "⟦a {\n  b = ⟦[\n 1 ]⟧\n c\n}⟧\nd\n", &["a block", "a list"]),
        shape("lines in lines, one end", "⟦a {\n  b = ⟦[\n 1 ] }⟧⟧\nd\n", &["a block", "a list"]),
        shape("lines behind lines", "a = ⟦[\n 1 ]⟧\nb = ⟦[\n 1 ]⟧\nd\n", &["", "a second list"]),
        shape("lines that overlap", "⟦a\nb\n⟦c\nd⟧\ne\nf⟧\ng\n", &["long", ""]),
        shape("a word behind lines", "a = ⟦[\n 1 ]⟧ + ⟦b⟧\nd\n", &["a list", "a word"]),
        shape("tabs", "\ta\t= ⟦wrong\tword⟧\t+ ⟦1⟧\n", &["here", "and here"]),
        shape("wide letters", "名前 = ⟦幅の広い⟧ + ⟦1⟧ # 注\n", &["広い", "here"]),
        shape("marks and smileys", "e\u{301} = ⟦e\u{301}e\u{301}⟧ + ⟦👩‍👩‍👧⟧ ⟦x⟧\n", &["1", "2", "3"]),
        shape("what a terminal obeys", "a\u{1b}[31m = ⟦\u{85}b\u{202e}⟧\u{7}\n", &["\u{1b}[0m"]),
        shape("a long line", &format!("a = ⟦{}⟧ + 1\n", "x".repeat(150)), &["long"]),
        shape("line numbers that grow", &format!("{far}⟦a⟧\n"), &[""]),
        shape("from nine to ten", "\n\n\n\n\n\n\n\n⟦a⟧\nb\n", &[""]),
        Shape { is_warning: true, ..shape("a warning", "⟦a⟧ = 1\n", &[""]) },
        Shape { help: Some("write `b`"), ..shape("help", "⟦a⟧ = 1\n", &[""]) },
        Shape { help: Some("help\nof lines\n"), ..shape("lines of help", "⟦a⟧ = 1\n", &[""]) },
        Shape { message: "", help: Some(""), ..shape("empty texts", "⟦a⟧ = 1\n", &[""]) },
        Shape { message: "  two\n\nlines ", ..shape("lines of text", "⟦a⟧ = 1\n", &["x"]) },
        Shape { message: LONG, help: Some(LONG), ..shape("a long text", "⟦a⟧ = 1\n", &[""]) },
        Shape { message: wide, help: Some(wide), ..shape("a wide text", "⟦a⟧ = 1\n", &[""]) },
        Shape { message: unbroken, width: 40, ..shape("a long word", "⟦a⟧ = 1\n", &[""]) },
        Shape { message: LONG, width: 1, ..shape("a narrow page", "⟦a⟧ = 1\n", &[LONG]) },
        Shape { message: LONG, width: 400, ..shape("a wide page", "⟦a⟧ = 1\n", &[""]) },
    ]
}

/// The places that are marked, and the text without its marks.
fn places(marked: &str) -> (String, Vec<std::ops::Range<usize>>) {
    let (mut text, mut places, mut open) = (String::new(), Vec::new(), Vec::new());
    for char in marked.chars() {
        match char {
            '⟦' => {
                open.push(places.len());
                places.push(text.len()..text.len());
            }
            '⟧' => places[open.pop().unwrap()].end = text.len(),
            char => text.push(char),
        }
    }
    (text, places)
}

fn drawn(shape: &Shape, look: Look) -> String {
    let mut sources = Sources::default();
    let (text, places) = places(&shape.source);
    let file = sources.add(PathBuf::from("/shop.hcl"), "shop.hcl", text.as_bytes()).0;
    let mut problem = match shape.is_warning {
        true => Problem::warning(Code::Duplicate, shape.message),
        false => Problem::error(Code::TypeMismatch, shape.message),
    };
    for (at, (place, label)) in places.into_iter().zip(shape.labels).enumerate() {
        let span = Span::new(file, place);
        if at == 0 {
            problem = problem.at(span.clone());
        }
        if at != 0 || !label.is_empty() {
            problem = problem.label(span, *label);
        }
    }
    if let Some(help) = shape.help {
        problem = problem.help(help);
    }
    problems::text(&[problem], &sources, Look { width: shape.width, ..look })
}

#[test]
fn places_of_every_shape_are_drawn() {
    let mut page = String::new();
    for shape in shapes() {
        page.push_str(&format!("=== {}\n{}", shape.name, drawn(&shape, Look::PLAIN)));
    }
    for shape in shapes() {
        let look = Look { terminal: true, color: true, ..Look::PLAIN };
        let told = drawn(&shape, look).replace('\u{1b}', "^");
        page.push_str(&format!("=== {}, in colour on a terminal\n{told}", shape.name));
    }
    expect_test::expect_file!["drawings.txt"].assert_eq(&page);
}

/// A problem with places in two further files, one without a place, and one behind the file's end.
#[test]
fn places_in_other_files_are_drawn_below() {
    let mut sources = Sources::default();
    let mut add = |name: &str, text: &str| {
        sources.add(PathBuf::from("/").join(name), name, text.as_bytes()).0
    };
    let (shop, part, other) =
        (add("shop.hcl", "a = 1\nb = 2\n"), add("part.hcl", "x {\n}\n"), add("o.hcl", "o"));
    let span = |file: FileId, range| Span::new(file, range);
    let problems = [
        Problem::error(Code::Cycle, "they need each other")
            .at(span(shop, 6..7))
            .label(span(part, 0..5), "this needs `b`, as is told here in more words than fit")
            .label(span(shop, 0..1), "and `a`")
            .label(span(other, 0..1), "which needs `x`")
            .help("cut the circle"),
        Problem::error(Code::UnknownTarget, "nothing to point at").help("look elsewhere"),
        Problem::warning(Code::Syntax, "behind the end").at(span(shop, 100..200)),
    ];
    let mut page = String::new();
    for (color, terminal) in [(false, false), (true, false), (false, true), (true, true)] {
        let look = Look { color, terminal, width: 50 };
        page.push_str(&format!("=== color {color}, terminal {terminal}\n"));
        page.push_str(&problems::text(&problems, &sources, look).replace('\u{1b}', "^"));
    }
    expect_test::expect_file!["drawings_of_files.txt"].assert_eq(&page);
}
