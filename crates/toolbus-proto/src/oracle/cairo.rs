//! The Cairo side of a call: what the program hands to its cheatcode, and what it gets back.

use super::{
    codec::{CodecError, CodecFault, Misfit, Reader, Whole, push_byte_array},
    felt::Felt,
};

/// How the program spells the selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorForm {
    /// As a `ByteArray`.
    #[default]
    ByteArray,
    /// As one short string of at most 31 bytes, the older layout.
    ShortString,
}

/// One call as the cheatcode's felts say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cheatcode<'a> {
    /// Which oracle is asked.
    pub connection: String,
    /// Which of its functions is called.
    pub selector: String,
    /// The arguments.
    pub calldata: &'a [Felt],
}

impl<'a> Cheatcode<'a> {
    /// Reads the felts of `oracle_invoke`.
    pub fn parse(felts: &'a [Felt], form: SelectorForm) -> Result<Cheatcode<'a>, CodecError> {
        let mut reader = Reader::new(felts);
        let connection = text(&mut reader, "connection", Reader::byte_array)?;
        let selector = match form {
            SelectorForm::ByteArray => text(&mut reader, "selector", Reader::byte_array)?,
            SelectorForm::ShortString => text(&mut reader, "selector", Reader::short_string)?,
        };
        Ok(Cheatcode { connection, selector, calldata: reader.rest() })
    }
}

/// What the program receives for a result: `Ok` and the felts.
pub fn ok(felts: &[Felt]) -> Vec<Felt> {
    [&[Felt::ZERO], felts].concat()
}

/// What the program receives for a failure: `Err` and the message.
pub fn error(message: &str) -> Vec<Felt> {
    let mut felts = vec![Felt::ONE];
    push_byte_array(message.as_bytes(), &mut felts);
    felts
}

fn text<'a>(
    reader: &mut Reader<'a>,
    param: &str,
    read: fn(&mut Reader<'a>) -> Result<Vec<u8>, CodecFault>,
) -> Result<String, CodecError> {
    let index = reader.index();
    let not_utf8 = |_| CodecFault::TextNotUtf8 { index };
    read(reader)
        .and_then(|bytes| String::from_utf8(bytes).map_err(not_utf8))
        .map_err(|fault| Misfit::from(fault).in_member(param).of(Whole::Parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{felt::Leniency, felts};

    fn list(words: &[&str]) -> Vec<Felt> {
        felts::read_words(words.iter().copied(), Leniency::Strict).unwrap()
    }

    fn printed(felts: &[Felt]) -> String {
        let mut out = Vec::new();
        felts::write(felts, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_result_and_a_failure_are_told_apart_by_the_first_felt() {
        assert_eq!(printed(&ok(&list(&["0x7"]))), r#"["0x0","0x7"]"#);
        assert_eq!(
            printed(&error("value must be even")),
            r#"["0x1","0x0","0x76616c7565206d757374206265206576656e","0x12"]"#
        );
        assert_eq!(printed(&error("")), r#"["0x1","0x0","0x0","0x0"]"#);
    }

    #[test]
    fn both_layouts_of_the_selector_are_read() {
        let arrays = list(&["0x0", "0x737464696f3a78", "0x7", "0x0", "0x66", "0x1", "0x5"]);
        let short = list(&["0x0", "0x737464696f3a78", "0x7", "0x66", "0x5"]);
        for (felts, form) in
            [(&arrays, SelectorForm::ByteArray), (&short, SelectorForm::ShortString)]
        {
            let Cheatcode { connection, selector, calldata } =
                Cheatcode::parse(felts, form).unwrap();
            assert_eq!((connection.as_str(), selector.as_str()), ("stdio:x", "f"));
            assert_eq!(calldata, list(&["0x5"]));
        }
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        for (words, want) in [
            (&[][..], "parameter `connection` needs felt 0, which is missing"),
            (&["0x0", "0x61", "0x1"], "parameter `selector` needs felt 3, which is missing"),
            (
                &["0x0", "0xff", "0x1"],
                "parameter `connection` must be UTF-8, but the text that begins at felt 0 is not",
            ),
        ] {
            let error = Cheatcode::parse(&list(words), SelectorForm::ByteArray).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }
}
