//! One blob on its way: its first frame, its bytes in pieces, its second frame.

use bytes::{Bytes, BytesMut};

use super::decode::{BlobLen, skip_blanks};
use super::event::{Event, FramingCode, FramingError, Note, Notes, Said};
use super::matcher::Matcher;

#[derive(Debug)]
pub(super) struct Blob {
    state: BlobState,
    matcher: Matcher,
    /// The announced length, where it decides where the blob ends.
    exact: Option<u64>,
    /// The announced length, where it is only a hint.
    hint: Option<u64>,
    /// So many bytes have been told.
    told: u64,
    /// The offset of the object that announced the blob.
    header: u64,
    notes: Notes,
}

#[derive(Debug)]
enum BlobState {
    /// So much of the first frame stands there.
    Prefix(usize),
    /// So many bytes are missing.
    Sized(u64),
    Scan,
    /// Bytes that are found and not yet told; perhaps the second frame stands behind them.
    Found {
        data: Bytes,
        is_end: bool,
    },
    /// So much of the second frame stands there.
    Suffix(usize),
    Over,
}

impl Blob {
    pub(super) fn new(
        frame: Bytes,
        blob_len: BlobLen,
        len: Option<u64>,
        header: u64,
        notes: Notes,
    ) -> Blob {
        let (exact, hint) = match blob_len {
            BlobLen::Exact => (len, None),
            BlobLen::Hint => (None, len),
        };
        let matcher = Matcher::new(frame);
        Blob { state: BlobState::Prefix(0), matcher, exact, hint, told: 0, header, notes }
    }

    /// The offset of the object that announced the blob.
    pub(super) fn header(&self) -> u64 {
        self.header
    }

    /// The next event, or `None` until more arrives. `offset` is that of the input's first byte.
    pub(super) fn next(
        &mut self,
        input: &mut BytesMut,
        mut offset: u64,
    ) -> Option<Result<Event, FramingError>> {
        loop {
            match &mut self.state {
                BlobState::Prefix(matched) => {
                    if *matched == 0 {
                        offset += skip_blanks(input);
                    }
                    match take_frame(self.matcher.frame(), matched, input, offset) {
                        Ok(is_whole) => is_whole.then_some(())?,
                        Err(offset) => {
                            let code = FramingCode::BlobPrefix;
                            return Some(Err(FramingError { code, offset }));
                        }
                    }
                    self.state = self.exact.map_or(BlobState::Scan, BlobState::Sized);
                    return Some(Ok(Event::new(Said::BlobBegin, Notes::default())));
                }
                BlobState::Sized(0) => self.state = BlobState::Suffix(0),
                BlobState::Sized(missing) => {
                    let len = usize::try_from(*missing).unwrap_or(usize::MAX).min(input.len());
                    *missing -= len as u64;
                    return self.piece(input.split_to(len).freeze());
                }
                BlobState::Scan if input.is_empty() => return None,
                BlobState::Scan => {
                    let first = self.scan(input);
                    if !first.is_empty() {
                        return self.piece(first);
                    }
                }
                BlobState::Found { data, is_end } => {
                    let data = std::mem::take(data);
                    self.state = if *is_end { BlobState::Over } else { BlobState::Scan };
                    if !data.is_empty() {
                        return self.piece(data);
                    }
                }
                BlobState::Suffix(matched) => {
                    match take_frame(self.matcher.frame(), matched, input, offset) {
                        Ok(is_whole) => is_whole.then_some(())?,
                        Err(offset) => {
                            let code = FramingCode::BlobLength;
                            return Some(Err(FramingError { code, offset }));
                        }
                    }
                    self.state = BlobState::Over;
                }
                BlobState::Over => {
                    let is_as_announced = self.hint.is_none_or(|hint| hint == self.told);
                    self.notes.add_if(!is_as_announced, Note::BlobLenHintWrong);
                    return Some(Ok(Event::new(Said::BlobEnd, self.notes)));
                }
            }
        }
    }

    /// Searches the input for the second frame and takes the bytes that are certain to be data.
    /// Gives those of an earlier read that were held back; the others wait in [`BlobState::Found`].
    fn scan(&mut self, input: &mut BytesMut) -> Bytes {
        let look = self.matcher.look(input);
        let taken = look.end.unwrap_or(input.len());
        let data = input.split_to(taken).freeze().slice(..look.data);
        self.state = BlobState::Found { data, is_end: look.end.is_some() };
        self.matcher.frame().slice(..look.released)
    }

    fn piece(&mut self, data: Bytes) -> Option<Result<Event, FramingError>> {
        if data.is_empty() {
            return None;
        }
        self.told += data.len() as u64;
        Some(Ok(Event::new(Said::Piece(data), Notes::default())))
    }
}

/// Takes as much of the frame as is there. Tells whether it is whole, or where it differs.
fn take_frame(
    frame: &Bytes,
    matched: &mut usize,
    input: &mut BytesMut,
    offset: u64,
) -> Result<bool, u64> {
    let same = input.iter().zip(&frame[*matched..]).take_while(|(a, b)| a == b).count();
    *matched += same;
    let _ = input.split_to(same);
    if *matched < frame.len() && !input.is_empty() {
        return Err(offset + same as u64);
    }
    Ok(*matched == frame.len())
}
