//! `SHA256SUMS`, and what else packages say in numbers: sums and times.

use sha2::{Digest as _, Sha256};

use super::Packed;

/// A line for each file, as `sha256sum` writes them.
pub(super) fn file(files: &[Packed]) -> Packed {
    let line = |file: &Packed| format!("{}  {}\n", hex(&file.bytes), file.path);
    Packed::file("SHA256SUMS", files.iter().map(line).collect::<String>())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sum as wheels write it: base64 for URLs, without padding.
pub(super) fn base64_of(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in Sha256::digest(bytes).chunks(3) {
        let number = three.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            text.push(char::from(LETTERS[number >> (18 - 6 * at) & 63]));
        }
    }
    text
}

/// A time as JSON has it: `2026-01-02T03:04:05Z`.
pub(super) fn time_of(seconds: u64) -> String {
    let (year, month, day) = date_of(seconds);
    let of_day = seconds % 86_400;
    let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// Year, month and day of a time.
pub(super) fn date_of(seconds: u64) -> (u64, u64, u64) {
    let mut days = seconds / 86_400;
    let mut year = 1970;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        (days, year) = (days - length, year + 1);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        (days, month) = (days - length, month + 1);
    }
    (year, month, days + 1)
}
