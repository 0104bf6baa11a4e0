//! Streams of events, whichever wire they carry.

use bytes::BytesMut;
use toolbus_proto::frame::lines::TooLong;
use toolbus_proto::frame::sse::{Event, Events};

use super::super::{Piece, pieces};
use super::BYTES_MAX;

/// Room for the name of a field before its value.
const FIELD_NAME_MAX: usize = 64;

/// Any bytes are events wherever a read ends, and no more of them is kept than one may have.
pub fn events(data: &[u8]) {
    let whole: Vec<u8> = pieces(data).flat_map(|piece| bytes_of(&piece).to_vec()).collect();
    let in_pieces = read(pieces(data).map(|piece| bytes_of(&piece).to_vec()));
    assert_eq!(in_pieces, read([whole.clone()].into_iter()));
    assert_eq!(in_pieces, read(whole.into_iter().map(|byte| vec![byte])));
}

fn bytes_of<'a>(piece: &Piece<'a>) -> &'a [u8] {
    match piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Event(_) => &[],
    }
}

fn read(reads: impl Iterator<Item = Vec<u8>>) -> Vec<Result<Event, TooLong>> {
    let mut events = Events::new(BYTES_MAX);
    let (mut input, mut out) = (BytesMut::new(), Vec::new());
    for read in reads {
        input.extend_from_slice(&read);
        while let Some(event) = events.next(&mut input) {
            out.push(event);
        }
        assert!(input.len() <= BYTES_MAX + FIELD_NAME_MAX, "no more than an event is kept");
    }
    out.extend(events.last(&mut input));
    assert!(input.is_empty());
    out
}
