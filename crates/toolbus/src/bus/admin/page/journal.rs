//! The journal, the last written first: read backwards on a thread of its own, so that a long one
//! keeps no call waiting.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::page::{CallFilter, EndedAt, FilteredCall, JsonMembers, Parameters};

use super::Page;
use super::requests::{Asker, PageRefusal, filter_of, json};
use crate::bus::journal::read::{Entry, open_all};
use crate::secrets::masked_json;
use crate::task::spawn_local;

/// So much is read for one request.
const BYTES_MAX: u64 = 64 << 20;
/// So long.
const TIME_MAX: Duration = Duration::from_secs(2);
/// So much at once.
const CHUNK_BYTES: u64 = 256 << 10;
/// Longer than any line that was ever written.
const LINE_BYTES_MAX: usize = 16 << 20;
/// What stands in lines only if the config says so.
const VALUES: [&str; 3] = ["arguments", "result", "failure"];

/// Where a page of entries ends: in the file of this number, before this byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    device: u64,
    inode: u64,
    end: u64,
}

impl Cursor {
    fn parse(text: &str) -> Option<Cursor> {
        let mut numbers = text.split('-').map(|part| {
            let is_hex = !part.is_empty() && part.bytes().all(|it| it.is_ascii_hexdigit());
            u64::from_str_radix(part, 16).ok().filter(|_| is_hex)
        });
        let mut next = || numbers.next().flatten();
        let cursor = Cursor { device: next()?, inode: next()?, end: next()? };
        (text.split('-').count() == 3).then_some(cursor)
    }

    fn text(self) -> String {
        format!("{:x}-{:x}-{:x}", self.device, self.inode, self.end)
    }
}

/// What is asked for.
struct WantedEntries {
    path: PathBuf,
    filter: CallFilter,
    before: Option<Cursor>,
    limit: usize,
    has_values: bool,
}

/// What was found.
#[derive(Debug, Default)]
struct PageOfEntries {
    entries: Vec<String>,
    next: Option<Cursor>,
    scanned: u64,
    passed_over: u64,
}

impl Page {
    /// Answers with a page of the journal.
    pub(super) fn read_journal(&self, parameters: &Parameters, asker: Asker) {
        let wanted = match self.wanted(parameters) {
            Ok(wanted) => wanted,
            Err(refusal) => return asker.tell(Err(refusal)),
        };
        if self.is_reading.replace(true) {
            return asker.tell(Err(PageRefusal::busy("the journal is being read already")));
        }
        let (tell, told) = oneshot::channel();
        let read = thread::Builder::new().name("page-journal".to_owned());
        let read = read.spawn(move || tell.send(page_of(&wanted)));
        let this = self.this.clone();
        drop(spawn_local(async move {
            let found = match read {
                Ok(_) => told.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())),
                Err(error) => Err(error),
            };
            if let Some(page) = this.upgrade() {
                page.is_reading.set(false);
            }
            let found = found.map_err(|error| {
                PageRefusal::not_found(format!("the journal cannot be read: {error}"))
            });
            asker.tell(found.map(|found| json(found.written())));
        }));
    }

    fn wanted(&self, parameters: &Parameters) -> Result<WantedEntries, PageRefusal> {
        let filter = filter_of(parameters)?;
        let limit = parameters.limit()?;
        let before = match parameters.get("before") {
            None => None,
            Some(text) => {
                let message = "the parameter `before` must be a `next` that was given out";
                Some(Cursor::parse(text).ok_or_else(|| PageRefusal::invalid(message))?)
            }
        };
        let facts = self.facts.borrow();
        let journal = facts.journal.as_ref().ok_or_else(|| {
            PageRefusal::not_found("there is no journal: `[journal]` in the config names one")
        })?;
        let (path, has_values) = (journal.path.clone(), self.allows_values());
        Ok(WantedEntries { path, filter, before, limit, has_values })
    }
}

impl PageOfEntries {
    fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut members = JsonMembers::begin(&mut out);
        members.array("entries", &self.entries, |out, entry| {
            let entry = Json::from_trusted(entry.clone());
            out.extend_from_slice(masked_json(&entry).as_bytes());
        });
        members.text_if("next", self.next.map(Cursor::text).as_deref());
        members.number("scanned", self.scanned);
        members.number("passed_over", self.passed_over);
        members.end();
        out
    }

    /// Takes a line; tells whether there are enough.
    fn take(&mut self, line: &[u8], wanted: &WantedEntries) -> bool {
        let text =
            str::from_utf8(line).ok().filter(|text| Json::parse(text.as_bytes().to_vec()).is_ok());
        match Entry::parse(line).zip(text) {
            Some((entry, text)) if wanted.filter.takes(&filtered(&entry)) => {
                let mut text = text.trim().to_owned();
                for name in VALUES.iter().filter(|_| !wanted.has_values) {
                    text = edit::without(&text, name);
                }
                self.entries.push(text);
            }
            Some(_) => {}
            None if line.iter().all(u8::is_ascii_whitespace) => {}
            None => self.passed_over += 1,
        }
        wanted.limit <= self.entries.len()
    }
}

fn filtered<'a>(entry: &'a Entry<'_>) -> FilteredCall<'a> {
    FilteredCall {
        back: entry.back.as_deref(),
        tool: &entry.tool,
        front: &entry.front,
        caller: entry.caller.as_deref(),
        outcome: &entry.outcome,
        trace: entry.trace.as_deref(),
        ended: EndedAt::Text(&entry.time),
        millis: entry.duration,
    }
}

fn page_of(wanted: &WantedEntries) -> io::Result<PageOfEntries> {
    let mut found = PageOfEntries::default();
    let files = match open_all(Path::new(&wanted.path)) {
        // It is made by the first call.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        files => files?,
    };
    let until = Instant::now() + TIME_MAX;
    let mut is_due = wanted.before.is_none();
    for file in files.iter().rev() {
        let metadata = file.metadata()?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let is_it = |cursor: &Cursor| (cursor.device, cursor.inode) == (device, inode);
        let mut end = metadata.len();
        if let Some(cursor) = wanted.before.filter(|_| !is_due) {
            if !is_it(&cursor) {
                continue;
            }
            end = end.min(cursor.end);
            is_due = true;
        }
        if let Some(end) = read_back(file, end, until, wanted, &mut found)? {
            found.next = Some(Cursor { device, inode, end });
            break;
        }
    }
    // What is older than all there is has no next.
    let oldest = files.first().map(File::metadata).transpose()?;
    let is_at_end = |cursor: &Cursor| {
        oldest.as_ref().is_some_and(|oldest| cursor.inode == oldest.ino() && cursor.end == 0)
    };
    found.next = found.next.filter(|next| !is_at_end(next));
    Ok(found)
}

/// Reads the lines before `end`, the last first. Gives where it stopped, if not at the beginning.
fn read_back(
    file: &File,
    mut end: u64,
    until: Instant,
    wanted: &WantedEntries,
    found: &mut PageOfEntries,
) -> io::Result<Option<u64>> {
    // What stands before the first end of a line that was seen.
    let mut rest: Vec<u8> = Vec::new();
    let mut is_too_long = false;
    while 0 < end {
        let from = end.saturating_sub(CHUNK_BYTES);
        let mut chunk = vec![0; usize::try_from(end - from).unwrap_or_default()];
        file.read_exact_at(&mut chunk, from)?;
        found.scanned += chunk.len() as u64;
        chunk.extend_from_slice(&rest);
        let mut behind = chunk.len();
        while let Some(at) = chunk[..behind].iter().rposition(|byte| *byte == b'\n') {
            let line = &chunk[at + 1..behind];
            behind = at;
            if std::mem::take(&mut is_too_long) {
                found.passed_over += 1;
            } else if !line.is_empty() && found.take(line, wanted) {
                return Ok(Some(from + at as u64 + 1));
            }
        }
        chunk.truncate(behind);
        rest = chunk;
        end = from;
        if LINE_BYTES_MAX < rest.len() {
            is_too_long = true;
            rest.clear();
        }
        if 0 < end && (BYTES_MAX <= found.scanned || until <= Instant::now()) {
            // The line that was begun is read again.
            return Ok(Some(end + rest.len() as u64));
        }
    }
    match is_too_long {
        true => found.passed_over += 1,
        false if !rest.is_empty() && found.take(&rest, wanted) => return Ok(Some(0)),
        false => {}
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use toolbus_testkit::scratch::Scratch;

    use super::*;

    fn line(tool: &str) -> String {
        format!(
            "{{\"time\":\"2026-11-16T02:14:19.250Z\",\"front\":\"call\",\"back\":\"try\",\"tool\":\"{tool}\",\"outcome\":\"ok\",\"duration\":0.412,\"bytes\":{{\"in\":13,\"out\":1}},\"arguments\":{{}}}}\n"
        )
    }

    fn tools(found: &PageOfEntries) -> Vec<String> {
        let tool = |entry: &String| edit::text(entry, "tool").unwrap().into_owned();
        found.entries.iter().map(tool).collect()
    }

    #[test]
    fn pages_go_back_through_all_files_without_a_gap() {
        let scratch = Scratch::new();
        let path = PathBuf::from(scratch.file("j"));
        let lines = |numbers: std::ops::Range<usize>| -> String {
            numbers.map(|number| line(&format!("t{number}"))).collect()
        };
        std::fs::write(path.with_extension("1"), lines(0..7)).unwrap();
        std::fs::rename(path.with_extension("1"), format!("{}.1", path.display())).unwrap();
        let cut = "{\"time\":\"2026";
        std::fs::write(&path, format!("{}{cut}\nnone\n{}{cut}", lines(7..10), lines(10..12)))
            .unwrap();
        let mut before = None;
        let mut all = Vec::new();
        let mut passed_over = 0;
        loop {
            let filter = CallFilter::parse("back:try", SystemTime::now()).unwrap();
            let wanted =
                WantedEntries { path: path.clone(), filter, before, limit: 3, has_values: false };
            let found = page_of(&wanted).unwrap();
            assert!(found.entries.iter().all(|entry| !entry.contains("arguments")));
            all.extend(tools(&found));
            passed_over += found.passed_over;
            before = found.next;
            assert_eq!(before, before.and_then(|cursor| Cursor::parse(&cursor.text())));
            if before.is_none() {
                break;
            }
        }
        let expected: Vec<_> = (0..12).rev().map(|number| format!("t{number}")).collect();
        assert_eq!((all, passed_over), (expected, 3));
        assert_eq!(Cursor::parse("1-2"), None);
        assert_eq!(Cursor::parse("1-2-3-4"), None);
        assert_eq!(Cursor::parse("1-2-+3"), None);
    }
}
