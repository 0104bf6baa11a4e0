//! What `sink` counts: elements, bytes, and their hash.

use sha2::{Digest, Sha256};
use toolbus_proto::collect::from_base64;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, Part, Piece};

use super::args::{Args, invalid, members};

/// Counts elements of both kinds, and hashes all bytes in their order.
pub(super) struct Tally {
    elements: u64,
    bytes: u64,
    hash: Option<Sha256>,
}

impl Tally {
    pub(super) fn new(args: &Args) -> Result<Tally, Failure> {
        let wants_hash = args.bool_if_any("hash")?.unwrap_or(true);
        Ok(Tally { elements: 0, bytes: 0, hash: wants_hash.then(Sha256::new) })
    }

    /// Counts the elements that stand in the arguments.
    pub(super) fn of_args(args: Option<&Json>) -> Result<Json, Failure> {
        let args = Args::of(args)?;
        let mut tally = Tally::new(&args)?;
        for (index, element) in args.array_if_any("elements")?.iter().flatten().enumerate() {
            match blob(element) {
                None => tally.elements += 1,
                Some(Some(blob)) => tally.take_bytes(&blob, true),
                Some(None) => {
                    let place = format!("argument `elements[{index}].$bytes`");
                    return Err(invalid(format!("{place} must be a string of base64")));
                }
            }
        }
        Ok(tally.told())
    }

    pub(super) fn take(&mut self, part: &Part) {
        match part {
            Part::Text(_) | Part::Json(_) => self.elements += 1,
            Part::Bytes(Piece { data, last, .. }) => self.take_bytes(data, *last),
        }
    }

    fn take_bytes(&mut self, data: &[u8], is_last: bool) {
        self.bytes += data.len() as u64;
        self.elements += u64::from(is_last);
        if let Some(hash) = &mut self.hash {
            hash.update(data);
        }
    }

    pub(super) fn told(self) -> Json {
        let Tally { elements, bytes, hash } = self;
        let hash = hash.map_or(String::new(), |hash| {
            let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            format!(r#","sha256":"{hex}""#)
        });
        Json::from_trusted(format!(r#"{{"elements":{elements},"bytes":{bytes}{hash}}}"#))
    }
}

/// The bytes of `{"$bytes":"<base64>"}`: `None` for any other value, `Some(None)` if they
/// cannot be read.
fn blob(element: &Json) -> Option<Option<Vec<u8>>> {
    let members = members(element)?;
    let [(name, text)] = members.as_slice() else { return None };
    (name == "$bytes").then(|| from_base64(&text.string()?))
}
