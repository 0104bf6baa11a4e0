//! Pictures of a screen, one after the other, as one SVG that needs no script.
//!
//! The pictures lie below each other on a strip, and the strip is moved from one to the next. The
//! last lies first: where nothing moves, it is what can be seen. A line that several pictures have
//! is written once.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::screen::{Line, Look, Screen};
use super::{COLUMNS, ROWS};

/// A cell's size, and where the first stands.
const WIDTH: f32 = 8.0;
const HEIGHT: f32 = 18.0;
const LEFT: f32 = 16.0;
const TOP: f32 = 44.0;

/// What the sixteen colours are.
const COLORS: [&str; 16] = [
    "#5c6370", "#f7768e", "#9ece6a", "#e0af68", "#7aa2f7", "#bb9af7", "#7dcfff", "#c0caf5",
    "#737c99", "#ff899d", "#b9f27c", "#ffc777", "#8db4ff", "#c9a9ff", "#a4daff", "#ffffff",
];

#[derive(Debug, Default)]
pub(crate) struct Film {
    pictures: Vec<Picture>,
}

#[derive(Debug)]
struct Picture {
    lines: Vec<Line>,
    lasts: Duration,
}

impl Film {
    /// The screen looked like this for so long.
    pub(crate) fn add(&mut self, lasts: Duration, screen: &Screen) {
        match self.pictures.last_mut() {
            Some(last) if last.lines == screen.lines() => last.lasts += lasts,
            // What is gone at once cannot be seen.
            Some(last) if last.lasts < Duration::from_millis(30) => {
                last.lines = screen.lines().to_vec();
                last.lasts += lasts;
            }
            _ => self.pictures.push(Picture { lines: screen.lines().to_vec(), lasts }),
        }
    }

    /// Makes it faster if it takes longer than this.
    pub(crate) fn fit(&mut self, max: Duration) {
        let total = self.total();
        if max < total {
            let speed = max.as_secs_f64() / total.as_secs_f64();
            let pictures = self.pictures.iter_mut();
            pictures.for_each(|picture| picture.lasts = picture.lasts.mul_f64(speed));
        }
    }

    fn total(&self) -> Duration {
        self.pictures.iter().map(|picture| picture.lasts).sum()
    }

    /// Where on the strip a picture lies.
    fn place(&self, index: usize) -> usize {
        (index + 1) % self.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.pictures.len()
    }

    pub(crate) fn to_svg(&self, title: &str) -> String {
        let (width, inner) = (COLUMNS as f32 * WIDTH + 2.0 * LEFT, ROWS as f32 * HEIGHT);
        let height = inner + TOP + 14.0;
        let total = self.total();
        let mut moves = String::new();
        let mut at = Duration::ZERO;
        for (index, picture) in self.pictures.iter().enumerate() {
            let percent = at.as_secs_f64() / total.as_secs_f64() * 100.0;
            let place = self.place(index) as f32 * inner;
            let _ = write!(moves, "{percent:.3}%{{transform:translateY(-{place}px)}}");
            at += picture.lasts;
        }
        let title = escaped(title);
        let mut svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" xml:space="preserve" role="img" aria-label="{title}">
<title>{title}</title>
<style>
text{{font:13.2px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c0caf5;white-space:pre}}
.b{{font-weight:700}}.f{{opacity:.65}}.u{{text-decoration:underline}}
{}
#strip{{animation:play {:.2}s step-end infinite}}
@keyframes play{{{moves}}}
@media (prefers-reduced-motion:reduce){{#strip{{animation:none}}}}
</style>
<rect width="100%" height="100%" rx="10" fill="#1a1b26"/>
<circle cx="20" cy="20" r="6" fill="#f7768e"/><circle cx="40" cy="20" r="6" fill="#e0af68"/><circle cx="60" cy="20" r="6" fill="#9ece6a"/>
<text x="50%" y="24" text-anchor="middle" class="f">{title}</text>
<svg x="0" y="{TOP}" width="{width}" height="{inner}">
"##,
            colors(),
            total.as_secs_f64(),
        );
        let (lines, strip) = self.strip(inner);
        let _ =
            write!(svg, "<defs>\n{lines}</defs>\n<g id=\"strip\">\n{strip}</g>\n</svg>\n</svg>\n");
        svg
    }

    /// The lines, each once, and the strip that is made of them.
    fn strip(&self, inner: f32) -> (String, String) {
        let (mut lines, mut strip) = (String::new(), String::new());
        let mut known: HashMap<&Line, usize> = HashMap::new();
        let last = self.pictures.len().saturating_sub(1);
        let pictures = self.pictures[last..].iter().chain(&self.pictures[..last]);
        for (place, picture) in pictures.enumerate() {
            let _ = write!(strip, "<g transform=\"translate({LEFT} {})\">", place as f32 * inner);
            for (row, line) in picture.lines.iter().enumerate() {
                if line.iter().all(|(c, _)| *c == ' ') {
                    continue;
                }
                let next = known.len();
                let id = *known.entry(line).or_insert_with(|| {
                    let _ = writeln!(lines, "<g id=\"l{next}\">{}</g>", runs(line));
                    next
                });
                let y = (row as f32 + 0.75) * HEIGHT;
                let _ = write!(strip, "<use href=\"#l{id}\" y=\"{y}\"/>");
            }
            strip.push_str("</g>\n");
        }
        (lines, strip)
    }
}

fn colors() -> String {
    COLORS.iter().enumerate().map(|(code, color)| format!(".c{code}{{fill:{color}}}")).collect()
}

/// A line as texts of one look each, held to their cells whatever the font is.
fn runs(line: &Line) -> String {
    let mut texts = String::new();
    let mut at = 0;
    for run in line.chunk_by(|one, next| one.1 == next.1) {
        let text: String = run.iter().map(|cell| cell.0).collect();
        let begin = text.chars().take_while(|c| *c == ' ').count();
        let text = text.trim();
        if !text.is_empty() {
            let (x, long) = ((at + begin) as f32 * WIDTH, text.chars().count() as f32 * WIDTH);
            let class = class(run[0].1);
            let text = escaped(text);
            let _ = write!(texts, r#"<text x="{x}"{class} textLength="{long}">{text}</text>"#);
        }
        at += run.len();
    }
    texts
}

fn class(look: Look) -> String {
    let color = look.color.map(|color| format!("c{color}"));
    let flags = [(look.is_bold, "b"), (look.is_faint, "f"), (look.is_underlined, "u")];
    let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned());
    let all: Vec<_> = color.into_iter().chain(flags).collect();
    if all.is_empty() { String::new() } else { format!(" class=\"{}\"", all.join(" ")) }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_and_looks_as_it_did() {
        let mut screen = Screen::new(COLUMNS, ROWS);
        let mut film = Film::default();
        screen.feed(b"\x1b[1;32m$\x1b[0m a <b>\r\n");
        film.add(Duration::from_secs(1), &screen);
        film.add(Duration::from_secs(1), &screen);
        screen.feed(b"c");
        film.add(Duration::from_secs(2), &screen);
        assert_eq!(film.len(), 2);
        let (lines, strip) = film.strip(468.0);
        expect_test::expect![[r##"
            <g id="l0"><text x="0" class="c2 b" textLength="8">$</text><text x="16" textLength="40">a &lt;b&gt;</text></g>
            <g id="l1"><text x="0" textLength="8">c</text></g>
            <g transform="translate(16 0)"><use href="#l0" y="13.5"/><use href="#l1" y="31.5"/></g>
            <g transform="translate(16 468)"><use href="#l0" y="13.5"/></g>
        "##]]
        .assert_eq(&format!("{lines}{strip}"));
        // The last picture is the one that is seen where nothing moves.
        let svg = film.to_svg("t");
        let moves = "0.000%{transform:translateY(-468px)}50.000%{transform:translateY(-0px)}";
        assert!(svg.contains(moves), "{svg}");
        assert!(svg.contains(" xml:space=\"preserve\" "), "{svg}");
        film.fit(Duration::from_secs(1));
        assert!(film.to_svg("t").contains("animation:play 1.00s"));
    }
}
