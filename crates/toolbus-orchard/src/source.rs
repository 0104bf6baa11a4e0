//! The text of scenario and component files, by number, with the places that problems name.
//!
//! Bytes are handed in: who reads them from a disk is elsewhere.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Code, FileId, Problem, Span};

/// The largest file that is read.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// What some editors put before the text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// One file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Where it is, as the user would say.
    pub shown: String,
    /// What is in it, without a byte order mark.
    pub text: Arc<str>,
    has_byte_order_mark: bool,
}

impl SourceFile {
    /// The folder that it is in.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The bytes as they were read.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.has_byte_order_mark {
            true => [BYTE_ORDER_MARK.as_bytes(), self.text.as_bytes()].concat().into(),
            false => self.text.as_bytes().into(),
        }
    }

    /// Where an offset of the text stands in the bytes of the file.
    pub fn offset_in_file(&self, offset: usize) -> usize {
        offset + if self.has_byte_order_mark { BYTE_ORDER_MARK.len() } else { 0 }
    }

    /// Line and column of an offset, both from 1, the column in characters.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.floor(offset)];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let begun = before.rfind('\n').map_or(0, |at| at + 1);
        (line, before[begun..].chars().count() + 1)
    }

    /// The text of a range; what is outside of the file is left out.
    pub fn slice(&self, range: &std::ops::Range<usize>) -> &str {
        let start = self.floor(range.start);
        &self.text[start..self.floor(range.end).max(start)]
    }

    fn floor(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        (0..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// All files of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Takes one more file. One that is no text is taken too, as far as it is, so that the
    /// problem can be shown.
    pub fn add(
        &mut self,
        path: PathBuf,
        shown: impl Into<String>,
        bytes: &[u8],
    ) -> (FileId, Result<(), Problem>) {
        let file = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        let kept = &bytes[..bytes.len().min(FILE_BYTES_MAX)];
        let (text, fault) = match std::str::from_utf8(kept) {
            _ if FILE_BYTES_MAX < bytes.len() => {
                let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
                ("", Some(Problem::error(Code::TooBig, message).at(Span::new(file, 0..0))))
            }
            Ok(text) => (text, None),
            Err(error) => {
                let end = error.valid_up_to();
                let text = std::str::from_utf8(&kept[..end]).unwrap_or_default();
                let message = format!("the file is not UTF-8: byte {end} begins no character");
                let problem = Problem::error(Code::Syntax, message);
                (text, Some(problem.help("save the file as UTF-8")))
            }
        };
        let without_mark = text.strip_prefix(BYTE_ORDER_MARK);
        let text = without_mark.unwrap_or(text);
        let fault = fault.map(|fault| match fault.span {
            Some(_) => fault,
            None => fault.at(Span::new(file, text.len()..text.len())),
        });
        self.files.push(SourceFile {
            path,
            shown: shown.into(),
            text: text.into(),
            has_byte_order_mark: without_mark.is_some(),
        });
        (file, fault.map_or(Ok(()), Err))
    }

    /// A file that was taken.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// All of them, in the order of reading.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        (0..).map(FileId).zip(&self.files)
    }

    /// The text at a place.
    pub fn slice(&self, span: &Span) -> &str {
        self.file(span.file).slice(&span.range)
    }
}

/// A path without `.` and, where what they take back is named, `..`.
pub fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(tidy.components().next_back(), Some(Component::Normal(_))) =>
            {
                tidy.pop();
            }
            Component::ParentDir if tidy.has_root() => {}
            part => tidy.push(part),
        }
    }
    if tidy.as_os_str().is_empty() { PathBuf::from(".") } else { tidy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let mut sources = Sources::default();
        let (id, fault) =
            sources.add("/x.hcl".into(), "x.hcl", b"\xef\xbb\xbfa = 1\n  \xc3\xa4 = 2");
        fault.unwrap();
        let file = sources.file(id);
        assert_eq!(&*file.text, "a = 1\n  ä = 2");
        assert_eq!(&*file.bytes(), b"\xef\xbb\xbfa = 1\n  \xc3\xa4 = 2");
        assert_eq!(file.offset_in_file(2), 5);
        assert_eq!(file.line_column(0), (1, 1));
        assert_eq!(file.line_column(11), (2, 5));
        assert_eq!(file.line_column(99), (2, 8));
    }

    #[test]
    fn what_is_no_text_is_told_where_it_stops() {
        let mut sources = Sources::default();
        let (id, fault) = sources.add("/x.hcl".into(), "x.hcl", b"ab\xff");
        let problem = fault.unwrap_err();
        assert_eq!((problem.code, problem.span), (Code::Syntax, Some(Span::new(id, 2..2))));
        let (_, fault) = sources.add("/y.hcl".into(), "y.hcl", &vec![b' '; FILE_BYTES_MAX + 1]);
        assert_eq!(fault.unwrap_err().code, Code::TooBig);
    }

    #[test]
    fn paths_are_tidied_by_their_text() {
        for (path, tidied) in [
            ("./a/../b.hcl", "b.hcl"),
            ("../x", "../x"),
            ("/a/./b/../../../c", "/c"),
            (".", "."),
            ("a/..", "."),
        ] {
            assert_eq!(tidy(Path::new(path)), Path::new(tidied), "{path}");
        }
    }
}
