//! The frames we put around blobs (`docs/protocols/mediocre.md` 4).
//!
//! A capital letter and 24 small letters or digits: no beginning of such a frame is also its
//! end, so that data before it cannot move the place where it is found.

use bytes::Bytes;

/// A frame is a secret while its blob is open, so outside of tests its chance is the operating
/// system's.
pub use crate::chance::Random;

const FRAME_LEN: usize = 25;
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const OTHERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A frame that was never used before.
pub fn draw(chance: &mut impl Random) -> Bytes {
    let mut frame = [0; FRAME_LEN];
    for (index, letter) in frame.iter_mut().enumerate() {
        let letters = if index == 0 { CAPITALS } else { OTHERS };
        let mut bytes = [0; 4];
        chance.fill(&mut bytes);
        // Scaled, not cut off: no letter is likelier than another by more than one in 2^26.
        let at = (u64::from(u32::from_le_bytes(bytes)) * letters.len() as u64) >> 32;
        *letter = letters[at as usize];
    }
    Bytes::copy_from_slice(&frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_of_the_letters_they_should_be() {
        assert_eq!(draw(&mut |bytes: &mut [u8]| bytes.fill(0)), "A".to_owned() + &"a".repeat(24));
        assert_eq!(draw(&mut |bytes: &mut [u8]| bytes.fill(255)), "Z".to_owned() + &"9".repeat(24));
        let mut next = 0u8;
        let mut counting = |bytes: &mut [u8]| {
            next = next.wrapping_add(37);
            bytes.fill(next);
        };
        let frames: Vec<_> = (0..3).map(|_| draw(&mut counting)).collect();
        assert_eq!(frames[0], "Dkpu05afkqv05aglqv06bglqw");
        assert_ne!(frames[0], frames[1]);
        assert_ne!(frames[1], frames[2]);
    }
}
