//! Felts taken one after another, each with its number at hand for the report.

use super::CodecFault;
use crate::oracle::felt::Felt;

pub(crate) struct Reader<'a> {
    felts: &'a [Felt],
    at: usize,
}

/// A word of a `ByteArray`, and all a `shortstring` may hold.
pub(crate) const WORD_BYTES: usize = 31;

impl<'a> Reader<'a> {
    pub(crate) fn new(felts: &'a [Felt]) -> Reader<'a> {
        Reader { felts, at: 0 }
    }

    /// The number of the felt that comes next.
    pub(crate) fn index(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [Felt] {
        &self.felts[self.at..]
    }

    pub(crate) fn felt(&mut self) -> Result<Felt, CodecFault> {
        let felt = self.rest().first().ok_or(CodecFault::FeltMissing { index: self.at })?;
        self.at += 1;
        Ok(*felt)
    }

    /// A length of things that take at least so many felts each, and that are all there.
    pub(crate) fn length(&mut self, felts_min: u64) -> Result<usize, CodecFault> {
        let index = self.at;
        let felt = self.felt()?;
        let left = self.rest().len();
        // Asked for before anything is made of it: a length alone must cost nothing.
        let fits = |length: &u128| length.saturating_mul(felts_min.into()) <= left as u128;
        match felt.to_u128().filter(fits).map(usize::try_from) {
            Some(Ok(length)) => Ok(length),
            _ => Err(CodecFault::LengthWrong { length: felt, index, left }),
        }
    }

    pub(crate) fn byte_array(&mut self) -> Result<Vec<u8>, CodecFault> {
        let words = self.length(1)?;
        let mut bytes = Vec::with_capacity((words + 1) * WORD_BYTES);
        for _ in 0..words {
            let index = self.at;
            push_word(self.felt()?, WORD_BYTES, index, &mut bytes)?;
        }
        let index = self.at;
        let pending = self.felt()?;
        let length = self.felt()?;
        match length.to_u128() {
            Some(count) if count < WORD_BYTES as u128 => {
                push_word(pending, count as usize, index, &mut bytes)?;
                Ok(bytes)
            }
            _ => Err(CodecFault::FeltWrong {
                wanted: "a ByteArray with at most 30 bytes in its last word".to_owned(),
                index: index + 1,
                found: length,
            }),
        }
    }

    /// The bytes of a short string: those of the number, so none of them is a leading NUL.
    pub(crate) fn short_string(&mut self) -> Result<Vec<u8>, CodecFault> {
        let index = self.at;
        let felt = self.felt()?;
        let length = felt.wide().bits().div_ceil(8) as usize;
        if WORD_BYTES < length {
            let wanted = "a shortstring of at most 31 bytes".to_owned();
            return Err(CodecFault::FeltWrong { wanted, index, found: felt });
        }
        Ok(felt.to_bytes()[32 - length..].to_vec())
    }
}

/// Appends the so many bytes that a felt is.
fn push_word(
    felt: Felt,
    count: usize,
    index: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), CodecFault> {
    if count * 8 < felt.wide().bits() as usize {
        let wanted = format!("a ByteArray with {count} bytes in this word");
        return Err(CodecFault::FeltWrong { wanted, index, found: felt });
    }
    bytes.extend_from_slice(&felt.to_bytes()[32 - count..]);
    Ok(())
}
