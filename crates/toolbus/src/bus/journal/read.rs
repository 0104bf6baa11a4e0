//! Reading a journal: its files in their order, line by line, each line as an [`Entry`].
//!
//! What was left half-way by a machine that died is no entry, and does no harm to the next. Lines
//! look as `line` writes them, or like any JSON with the same members.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::file::{KEPT, kept};

/// Longer than any line that was ever written: what comes without an end is not kept.
const LINE_BYTES_MAX: usize = 16 << 20;
/// What is read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// What a line says of a call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Entry<'a> {
    /// When it ended, in UTC: texts that are later are greater.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The id of its trace.
    #[serde(borrow, default)]
    pub trace: Option<Cow<'a, str>>,
    /// The front that it came from.
    #[serde(borrow, default)]
    pub front: Cow<'a, str>,
    /// Who called there, where callers are told apart.
    #[serde(borrow, default)]
    pub caller: Option<Cow<'a, str>>,
    /// The view in which its tool was shown, if there was one.
    #[serde(borrow, default)]
    pub view: Option<Cow<'a, str>>,
    /// The back that it went to, if there was one.
    #[serde(borrow, default)]
    pub back: Option<Cow<'a, str>>,
    /// The tool.
    #[serde(borrow)]
    pub tool: Cow<'a, str>,
    /// `ok`, or the kind of failure.
    #[serde(borrow)]
    pub outcome: Cow<'a, str>,
    /// How long it took, in milliseconds.
    pub duration: f64,
    /// The bytes that passed.
    #[serde(default)]
    pub bytes: Passed,
}

/// How many bytes passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Passed {
    /// Towards the tool.
    #[serde(default)]
    pub r#in: u64,
    /// Back.
    #[serde(default)]
    pub out: u64,
}

impl Entry<'_> {
    /// What a line says; `None` if it is no line of a journal.
    pub fn parse(line: &[u8]) -> Option<Entry<'_>> {
        let line = str::from_utf8(line).ok()?;
        Usual(line).entry().or_else(|| serde_json::from_str(line).ok())
    }

    /// The front that it came from with its caller behind it, if it has one: `web/ann`.
    pub fn origin(&self) -> Cow<'_, str> {
        match &self.caller {
            Some(caller) => format!("{}/{caller}", self.front).into(),
            None => Cow::Borrowed(&*self.front),
        }
    }

    /// Its tool with the name of its back before it: `math.add`.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.back {
            Some(back) => format!("{back}.{}", self.tool).into(),
            None => Cow::Borrowed(&*self.tool),
        }
    }
}

/// A line as we write it, with neither arguments nor results: read in one pass.
struct Usual<'a>(&'a str);

impl<'a> Usual<'a> {
    /// `None` if anything is different.
    fn entry(mut self) -> Option<Entry<'a>> {
        let time = self.take("{\"time\":").and_then(|()| self.text())?;
        let trace = self.text_if(",\"trace\":")?;
        let front = self.take(",\"front\":").and_then(|()| self.text())?;
        let caller = self.text_if(",\"caller\":")?;
        let view = self.text_if(",\"view\":")?;
        let back = self.text_if(",\"back\":")?;
        let tool = self.take(",\"tool\":").and_then(|()| self.text())?;
        let outcome = self.take(",\"outcome\":").and_then(|()| self.text())?;
        let duration = self.take(",\"duration\":").and_then(|()| self.millis())?;
        self.take(",\"bytes\":{\"in\":")?;
        let r#in = self.number()?;
        self.take(",\"out\":")?;
        let bytes = Passed { r#in, out: self.number()? };
        let is_all = self.0 == "}}";
        let entry =
            Entry { time, trace, front, caller, view, back, tool, outcome, duration, bytes };
        is_all.then_some(entry)
    }

    fn take(&mut self, wanted: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    fn text_if(&mut self, key: &str) -> Option<Option<Cow<'a, str>>> {
        match self.take(key) {
            Some(()) => self.text().map(Some),
            None => Some(None),
        }
    }

    fn text(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.0.strip_prefix('"')?;
        let end = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        // Nearly no name has a character that is escaped.
        let behind = rest[end..].strip_prefix('"')?;
        self.0 = behind;
        Some(Cow::Borrowed(&rest[..end]))
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.0.bytes().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits.parse().ok()
    }

    /// `12.345`.
    fn millis(&mut self) -> Option<f64> {
        let whole = self.number()?;
        self.take(".")?;
        let (digits, rest) = self.0.split_at_checked(3)?;
        self.0 = rest;
        let micros: u32 = digits.parse().ok()?;
        Some(whole as f64 + f64::from(micros) / 1000.0)
    }
}

/// Opens the files of a journal, the oldest first. None that is there is left out and none opened
/// twice if it is rotated meanwhile.
pub fn open_all(path: &Path) -> io::Result<Vec<File>> {
    let mut files: Vec<File> = Vec::new();
    let mut seen = Vec::new();
    // The youngest first: by a rotation they move into the direction in which we look.
    let older = (1..=KEPT).map(|number| kept(path, number));
    for path in std::iter::once(path.to_owned()).chain(older) {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let id = id_of(&file.metadata()?);
        if !seen.contains(&id) {
            seen.push(id);
            files.push(file);
        }
    }
    files.reverse();
    if files.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(files)
}

/// The file that was begun when this one was rotated: itself as long as it was not, the oldest if
/// it is no longer kept; `None` as long as there is none.
pub fn behind(path: &Path, file: &File) -> io::Result<Option<PathBuf>> {
    let id = id_of(&file.metadata()?);
    let is_it = |path: &Path| fs::metadata(path).is_ok_and(|found| id_of(&found) == id);
    if is_it(path) {
        return Ok(Some(path.to_owned()));
    }
    let younger = (1..=KEPT).find(|number| is_it(&kept(path, *number))).map(|number| number - 1);
    let names = (0..=younger.unwrap_or(KEPT)).rev().map(|number| match number {
        0 => path.to_owned(),
        number => kept(path, number),
    });
    Ok(names.into_iter().find(|name| name.exists()))
}

fn id_of(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The lines of a file, as far as it goes; it may be gone on with when there are more.
pub struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The line is handed out, and the next begins.
    is_handed_out: bool,
    /// It is too long, and the rest of it thrown away.
    is_skipping: bool,
}

impl<R: Read> Lines<R> {
    /// Those of `source`.
    pub fn new(source: R) -> Lines<R> {
        let reader = BufReader::with_capacity(CHUNK_BYTES, source);
        Lines { reader, line: Vec::new(), is_handed_out: false, is_skipping: false }
    }

    /// Where they come from.
    pub fn source(&self) -> &R {
        self.reader.get_ref()
    }

    /// The next whole line, without its end; `None` if there is none yet. In place of one that is
    /// too long there is one that is no [`Entry`].
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        if std::mem::take(&mut self.is_handed_out) {
            self.line.clear();
        }
        loop {
            let room = LINE_BYTES_MAX + 1 - self.line.len();
            let mut reader = self.reader.by_ref().take(room as u64);
            // Told of the end, a file is asked again when there is more of it.
            if reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line.ends_with(b"\n") {
                self.line.pop();
                self.is_handed_out = true;
                if std::mem::take(&mut self.is_skipping) {
                    self.line.clear();
                    self.line.push(b'?');
                }
                return Ok(Some(&self.line));
            }
            if LINE_BYTES_MAX < self.line.len() {
                self.line.clear();
                self.is_skipping = true;
            }
        }
    }

    /// What stands behind the last end of a line: the rest never came, or comes yet.
    pub fn unfinished(&self) -> &[u8] {
        match self.is_handed_out {
            true => &[],
            false => &self.line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"time":"2026-11-16T02:14:19.250Z","trace":"0af7651916cd43dd8448eb211c80319c","front":"editor","back":"math","tool":"add","outcome":"ok","duration":12.345,"bytes":{"in":13,"out":1}}"#;

    #[test]
    fn a_line_is_read_alike_in_both_ways() {
        let usual = Usual(LINE).entry().unwrap();
        assert_eq!(usual, serde_json::from_str::<Entry<'_>>(LINE).unwrap());
        assert_eq!((usual.duration, usual.bytes.r#in, &*usual.name()), (12.345, 13, "math.add"));
        let more = LINE.replace("}}", r#"},"arguments":{"a":[1,2]}}"#);
        assert!(Usual(&more).entry().is_none());
        assert_eq!(Entry::parse(more.as_bytes()).unwrap(), usual);
        let called = LINE.replace(r#""back""#, r#""caller":"ann","view":"a+b","back""#);
        let called = Usual(&called).entry().unwrap();
        assert_eq!((&*called.origin(), called.view.as_deref()), ("editor/ann", Some("a+b")));
        let escaped = LINE.replace(r#""add""#, r#""a\"d""#);
        assert_eq!(Entry::parse(escaped.as_bytes()).unwrap().tool, "a\"d");
        let bare = r#"{"time":"t","front":"call","tool":"x","outcome":"failed","duration":0.000,"bytes":{"in":0,"out":0}}"#;
        assert_eq!(Usual(bare).entry().unwrap(), serde_json::from_str(bare).unwrap());
    }

    #[test]
    fn a_line_that_is_cut_anywhere_is_none() {
        let more = LINE.replace("}}", r#"},"arguments":{"a":[1,2]}}"#);
        for line in [LINE, &more] {
            for end in 0..line.len() {
                assert_eq!(Entry::parse(&line.as_bytes()[..end]), None, "{}", &line[..end]);
            }
        }
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let long = "x".repeat(LINE_BYTES_MAX * 2);
        let text = format!("first\n{long}\nlast\nun");
        let mut lines = Lines::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
        assert_eq!(found, ["first", "?", "last"]);
        assert_eq!(lines.unfinished(), b"un");
    }
}
