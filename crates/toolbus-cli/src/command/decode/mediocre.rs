//! `toolbus decode mediocre`: the events of one direction as lines of JSON.

use std::io::{self, Read as _};

use bytes::BytesMut;
use sha2::{Digest as _, Sha256};
use toolbus_proto::collect::base64;
use toolbus_proto::mediocre::event::{Event, Said};
use toolbus_proto::mediocre::{Decoder, Reading, printed};

use super::MediocreArgs;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;

/// A blob over this is told by its length and hash.
const BLOB_SHOWN_MAX: usize = 16 << 20;
const READ_BYTES: usize = 64 * 1024;

pub(crate) fn mediocre(args: &MediocreArgs) -> Result<(), Failed> {
    let reading =
        Reading { blob_len: args.blob_len.into(), is_strict: args.strict, ..Reading::default() };
    let mut shown = Shown {
        decoder: Decoder::new(args.side.into(), reading),
        blob: Blob::default(),
        lines: String::new(),
        had_error: false,
    };
    let mut input = BytesMut::new();
    let mut chunk = vec![0; READ_BYTES];
    let mut stdin = io::stdin().lock();
    loop {
        let count = match stdin.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let failed = Failed::new(Exit::Failed, "cannot read from standard input");
                return Err(failed.caused_by(&error));
            }
        };
        input.extend_from_slice(&chunk[..count]);
        let is_over = shown.take(&mut input, count == 0);
        // All that one read made known goes out at once.
        render::print(&std::mem::take(&mut shown.lines))?;
        if is_over {
            break;
        }
    }
    // The lines have said all there is to say.
    if shown.had_error { Err(Failed::quietly(Exit::Unreachable)) } else { Ok(()) }
}

/// Events made into lines.
struct Shown {
    decoder: Decoder,
    blob: Blob,
    lines: String,
    had_error: bool,
}

impl Shown {
    /// Takes what has arrived. Tells whether that was the last.
    fn take(&mut self, input: &mut BytesMut, is_eof: bool) -> bool {
        while let Some(next) = self.decoder.next(input) {
            match next {
                Ok(event) => self.event(&event),
                Err(error) => {
                    self.had_error = true;
                    self.line(&printed::error(&error));
                    return true;
                }
            }
        }
        if is_eof {
            let last = match self.decoder.end(input) {
                Ok(()) => printed::end(),
                Err(error) => {
                    self.had_error = true;
                    printed::error(&error)
                }
            };
            self.line(&last);
        }
        is_eof
    }

    fn event(&mut self, event: &Event) {
        self.had_error |= matches!(event.said, Said::MethodMissing { .. });
        match &event.said {
            Said::Piece(data) => self.blob.take(data),
            Said::BlobEnd => {
                let line = std::mem::take(&mut self.blob).line();
                self.line(&line);
            }
            _ => {
                if let Some(line) = printed::event(event) {
                    self.line(&line);
                }
            }
        }
        for note in printed::notes(event) {
            self.line(&note);
        }
    }

    fn line(&mut self, line: &str) {
        self.lines.push_str(line);
        self.lines.push('\n');
    }
}

/// The blob that is arriving; kept only as long as it can be shown.
#[derive(Default)]
pub(crate) struct Blob {
    kept: Vec<u8>,
    /// Since it is too large: its hash and length so far.
    large: Option<(Sha256, u64)>,
}

impl Blob {
    pub(crate) fn take(&mut self, data: &[u8]) {
        if self.large.is_none() && BLOB_SHOWN_MAX < self.kept.len() + data.len() {
            let kept = std::mem::take(&mut self.kept);
            self.large = Some((Sha256::new_with_prefix(&kept), kept.len() as u64));
        }
        match &mut self.large {
            Some((hash, len)) => {
                hash.update(data);
                *len += data.len() as u64;
            }
            None => self.kept.extend_from_slice(data),
        }
    }

    pub(crate) fn line(self) -> String {
        match self.large {
            None => printed::blob(&base64(&self.kept)),
            Some((hash, len)) => {
                let hash = hash.finalize();
                let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                printed::large_blob(len, &hex)
            }
        }
    }
}
