//! Characters as people see them: `é` is one, however it is written.

use unicode_segmentation::UnicodeSegmentation;

/// The characters of a text.
pub(super) fn of(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.graphemes(true)
}

/// How many there are.
pub(super) fn count(text: &str) -> usize {
    // As nearly all text is; `\r\n` is the one pair in it.
    if text.is_ascii() && !text.contains('\r') {
        return text.len();
    }
    of(text).count()
}
