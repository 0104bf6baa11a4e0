//! What a fuzzer throws bytes at: functions that panic if a machine breaks its word.
//!
//! The targets in `fuzz/` call them, and so do plain tests, over the seeds in `fuzz/seeds` and
//! over bytes by chance. They stay fast and have no state.

pub mod edit;
pub mod godex;
pub mod lock;
pub mod mcp;
pub mod mediocre;
pub mod nats;
pub mod oracle;
pub mod orchard;
pub mod orchestra;
pub mod registry;
pub mod view;

use bytes::Bytes;
use toolbus_proto::json::Json;

/// All that we say is whole lines of JSON.
fn assert_lines(said: &Bytes) {
    assert!(said.is_empty() || said.ends_with(b"\n"), "{said:?}");
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        assert!(Json::parse(Bytes::copy_from_slice(line)).is_ok(), "{line:?}");
    }
}

enum Piece<'a> {
    Bytes(&'a [u8]),
    /// Something else happens, of a kind that this number tells.
    Event(u8),
}

/// The data as reads that end at 0xFE, and events behind 0xFF: two bytes that no text has.
fn pieces(data: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    data.split(|byte| *byte == 0xfe).flat_map(|part| match part {
        [0xff, event, rest @ ..] => vec![Piece::Event(*event), Piece::Bytes(rest)],
        part => vec![Piece::Bytes(part)],
    })
}
