//! Blobs: through sockets against a bare pair, from somebody who means it ill, and what the
//! decoder alone makes of them.

use bytes::{Bytes, BytesMut};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::decode::Direction;
use toolbus_proto::mediocre::event::Said;
use toolbus_proto::mediocre::{Decoder, Reading};
use toolbus_proto::tool::{Part, Piece};

use crate::bare::{BLOB_BYTES, ChildHandle, PIECE_BYTES, Pair};
use crate::ours::{Asked, Client};
use crate::random;
use crate::table::{Contender, Table, Unit};

/// As ours are made: a capital, then small letters and digits.
const FRAME: &str = "Kq3v0c8w2m5x7z1a9b4d6e0fg";

pub(crate) fn through_sockets(rounds: usize) {
    let title = "a blob into `sink`, client and server of ours, Unix socket";
    let mut table = Table::new(title, Unit::GibPerSecond(BLOB_BYTES));
    table.add("a bare socket pair, 64 KiB at once", Pair::new(random(PIECE_BYTES)));
    table.add("a bare socket pair, 128 KiB at once", Pair::new(random(2 * PIECE_BYTES)));
    table.add("sized", Blobs::new(Some(BLOB_BYTES as u64)));
    table.add("unsized", Blobs::new(None));
    table.measure(rounds);
}

/// One blob after the other into `sink`.
struct Blobs {
    client: Client,
    len: Option<u64>,
    piece: Bytes,
}

impl Blobs {
    fn new(len: Option<u64>) -> Blobs {
        Blobs { client: Client::over_unix(), len, piece: random(PIECE_BYTES).into() }
    }
}

impl Contender for Blobs {
    fn turns(&mut self, count: u32) {
        let (len, piece) = (self.len, self.piece.clone());
        self.client.run(async move |back| {
            for _ in 0..count {
                let args = Json::from_trusted(r#"{"hash":false}"#);
                let asked = Asked::stream(&back, "sink", Some(args));
                let pieces = BLOB_BYTES / PIECE_BYTES;
                for at in 1..=pieces {
                    let (data, last) = (piece.clone(), at == pieces);
                    asked.send(Part::Bytes(Piece { data, media_type: None, len, last })).await;
                }
                asked.end();
                let told = format!(r#"{{"elements":1,"bytes":{BLOB_BYTES}}}"#);
                assert_eq!(asked.answer().await.as_str(), told);
            }
        });
    }
}

/// Data that makes a search for the frame hard, whatever frame the sender chose.
fn hard() -> [(&'static str, String, Vec<u8>); 6] {
    let of = |period: &[u8]| {
        let mut bytes: Vec<u8> = period.iter().copied().cycle().take(PIECE_BYTES).collect();
        // Or the end of a piece and the beginning of the next could be a frame.
        bytes[PIECE_BYTES - 1] = b'?';
        bytes
    };
    let near = format!("{}?", &FRAME[..FRAME.len() - 1]);
    let long = "a".repeat(255);
    let late = format!("{}b", "a".repeat(254));
    let periodic = format!("{}a", "ab".repeat(127));
    [
        ("plain", FRAME.to_owned(), random(PIECE_BYTES)),
        ("nothing but first characters of the frame", FRAME.to_owned(), of(b"K")),
        ("frames whose last character is wrong", FRAME.to_owned(), of(near.as_bytes())),
        ("frame of 254 `a` and a `b`, nothing but `a`", late, of(b"a")),
        ("frame of 255 `a`, every 25th byte a `b`", long, of(b"aaaaaaaaaaaaaaaaaaaaaaaab")),
        ("frame `abab…aba` of 255, data `baaaaab`", periodic, of(b"baaaaab")),
    ]
}

pub(crate) fn from_an_adversary(rounds: usize) {
    let title = "an unsized blob from a bare hand into our `sink`, Unix socket";
    let mut table = Table::new(title, Unit::GibPerSecond(BLOB_BYTES));
    for (name, frame, bytes) in hard() {
        table.add(name, ChildHandle::new(&frame, bytes));
    }
    table.measure(rounds);
}

pub(crate) fn decoded(rounds: usize) {
    let title = "the decoder alone, an unsized blob in reads of 64 KiB";
    let mut table = Table::new(title, Unit::GibPerSecond(BLOB_BYTES));
    for (name, frame, bytes) in hard() {
        table.add(name, Decoded::new(&frame, &bytes));
    }
    table.measure(rounds);
}

/// Reads one blob after the other from memory.
struct Decoded {
    decoder: Decoder,
    header: Vec<u8>,
    end: Vec<u8>,
    piece: Vec<u8>,
    input: BytesMut,
}

impl Decoded {
    fn new(frame: &str, bytes: &[u8]) -> Decoded {
        let decoder = Decoder::new(Direction::Call, Reading::default());
        let header = format!("{{\"elBytesFrame\":\"{frame}\"}}\n{frame}").into();
        let mut decoded = Decoded {
            decoder,
            header,
            end: format!("{frame}\n").into(),
            piece: bytes.to_vec(),
            input: BytesMut::new(),
        };
        decoded.read(br#"{"method":"m","streamStart":true}"#);
        decoded
    }

    /// So many bytes of a blob were in these.
    fn read(&mut self, bytes: &[u8]) -> usize {
        // The copy is a part of what is measured: so a read would put it there.
        self.input.extend_from_slice(bytes);
        let mut count = 0;
        while let Some(event) = self.decoder.next(&mut self.input) {
            if let Said::Piece(piece) = event.expect("it is well-formed").said {
                count += piece.len();
            }
        }
        count
    }
}

impl Contender for Decoded {
    fn turns(&mut self, count: u32) {
        let (header, end, piece) = (self.header.clone(), self.end.clone(), self.piece.clone());
        for _ in 0..count {
            let mut bytes = self.read(&header);
            for _ in 0..BLOB_BYTES / PIECE_BYTES {
                bytes += self.read(&piece);
            }
            bytes += self.read(&end);
            assert_eq!(bytes, BLOB_BYTES);
        }
    }
}
