//! From felts to JSON.

use std::io::Write;

use super::{ArgsForm, CodecFault, JSON_BYTES_MAX, Misfit, Reader, read::WORD_BYTES};
use crate::json::{Json, JsonError, write_string};
use crate::oracle::{
    felt::Felt,
    signature::{Integer, Members, NESTING_MAX, Type, TypeId, Types},
    wide::{self, Wide},
};
use crate::printable::beginning;

pub(super) struct Decoder<'a> {
    types: &'a Types,
    numbers: Numbers,
    felts: Reader<'a>,
    out: Vec<u8>,
    depth: usize,
}

/// How integers are written that many JSON readers would round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// As numbers all the same.
    Exact,
    /// As decimal strings.
    Safe,
}

/// The largest integer that every JSON reader takes as it is.
const SAFE_MAX: u128 = (1 << 53) - 1;

impl<'a> Decoder<'a> {
    pub(super) fn new(types: &'a Types, numbers: Numbers, felts: &'a [Felt]) -> Decoder<'a> {
        Decoder { types, numbers, felts: Reader::new(felts), out: Vec::new(), depth: 0 }
    }

    pub(super) fn args(
        mut self,
        params: &Members<TypeId>,
        form: ArgsForm,
    ) -> Result<String, Misfit> {
        match (form, params.at(0)) {
            (ArgsForm::Whole, Some((name, param))) if params.len() == 1 => {
                self.value(*param).map_err(|misfit| misfit.in_member(name))?;
            }
            (ArgsForm::Signature, _) => self.members(params)?,
            (ArgsForm::Plain | ArgsForm::Whole, _) => self.plain_members(params)?,
        }
        let last = params.iter().next_back().map(|(name, _)| name);
        self.finish().map_err(|misfit| match last {
            Some(name) => misfit.in_member(name),
            None => misfit,
        })
    }

    pub(super) fn result(mut self, ty: TypeId) -> Result<String, Misfit> {
        self.value(ty)?;
        self.finish()
    }

    fn finish(self) -> Result<String, Misfit> {
        if !self.felts.rest().is_empty() {
            return Err(CodecFault::FeltLeftOver { index: self.felts.index() }.into());
        }
        Ok(String::from_utf8(self.out).expect("only text was written"))
    }

    fn value(&mut self, id: TypeId) -> Result<(), Misfit> {
        if JSON_BYTES_MAX < self.out.len() {
            // Long names and types that take no felts make much text of little.
            return Err(CodecFault::TooMuchJson.into());
        }
        let types = self.types;
        match &types[id] {
            Type::Felt252 => {
                let felt = self.felts.felt()?;
                self.quoted_hex(felt);
            }
            Type::Bytes31 => {
                let felt = self.checked("bytes31", |felt| {
                    let fits = felt.wide().bits() as usize <= WORD_BYTES * 8;
                    fits.then_some(felt)
                })?;
                self.quoted_hex(felt);
            }
            Type::Bool => {
                let value = self.checked("bool", |felt| match felt.to_u128() {
                    Some(0) => Some("false"),
                    Some(1) => Some("true"),
                    _ => None,
                })?;
                self.text(value);
            }
            Type::Integer(integer) => self.integer(*integer)?,
            Type::ByteArray => {
                let bytes = self.felts.byte_array()?;
                self.bytes(std::str::from_utf8(&bytes).ok(), &bytes);
            }
            Type::ShortString => {
                let bytes = self.felts.short_string()?;
                let is_text = bytes.iter().all(|byte| matches!(byte, 0x01..=0x7f));
                self.bytes(std::str::from_utf8(&bytes).ok().filter(|_| is_text), &bytes);
            }
            Type::Json => self.json()?,
            Type::Option(inner) => match self.variant("Option", 2)? {
                0 if types.some_is_spelled_out(*inner) => self.tagged("Some", *inner)?,
                0 => self.value(*inner)?,
                _ => self.text("null"),
            },
            Type::Result(ok, err) => match self.variant("Result", 2)? {
                0 => self.tagged("Ok", *ok)?,
                _ => self.tagged("Err", *err)?,
            },
            Type::Enum(name, variants) => {
                let index = self.variant(name, variants.len())?;
                match variants.at(index) {
                    Some((name, Some(payload))) => self.tagged(name, *payload)?,
                    Some((name, None)) => write_string(&mut self.out, name),
                    None => unreachable!("the index was checked"),
                }
            }
            Type::Struct(_, fields) => self.members(fields)?,
            Type::Tuple(members) if members.is_empty() => self.text("null"),
            Type::Tuple(members) => self.elements(members.iter().copied())?,
            Type::Fixed(element, count) => {
                self.elements((0..*count).map(|_| *element))?;
            }
            Type::Array(element) | Type::Span(element) => {
                let length = self.felts.length(types.felts_min(*element))?;
                self.elements((0..length).map(|_| *element))?;
            }
        }
        Ok(())
    }

    fn integer(&mut self, integer: Integer) -> Result<(), Misfit> {
        let (negative, value) = match integer {
            Integer { bits: 256, .. } => {
                let low = self.checked("u256", Felt::to_u128)?;
                let high = self.checked("u256", Felt::to_u128)?;
                (false, Wide { high, low })
            }
            Integer { name, bits, signed: false } => {
                let fits = |felt: Felt| (felt.wide().bits() <= bits).then_some(felt.wide());
                (false, self.checked(name, fits)?)
            }
            Integer { name, bits, signed: true } => self.checked(name, |felt| {
                let minus = felt.negated().wide();
                if felt.wide().bits() < bits {
                    Some((false, felt.wide()))
                } else if minus <= Wide::from(1 << (bits - 1)) {
                    Some((true, minus))
                } else {
                    None
                }
            })?,
        };
        let quote = self.numbers == Numbers::Safe && Wide::from(SAFE_MAX) < value;
        let (quote, sign) = (if quote { "\"" } else { "" }, if negative { "-" } else { "" });
        write!(self.out, "{quote}{sign}{value}{quote}").expect("a vector takes all bytes");
        Ok(())
    }

    fn json(&mut self) -> Result<(), Misfit> {
        let index = self.felts.index();
        let bytes = self.felts.byte_array()?;
        let value = Json::parse(bytes).map_err(|error| match error {
            JsonError::TooDeep => CodecFault::TooDeep,
            JsonError::NotUtf8 | JsonError::Unexpected { .. } => CodecFault::TextNotJson { index },
        })?;
        self.text(value.compact().as_str());
        Ok(())
    }

    /// The index of one of so many variants.
    fn variant(&mut self, wanted: &str, count: usize) -> Result<usize, Misfit> {
        self.checked(wanted, |felt| {
            let index = felt.to_u128().and_then(|index| usize::try_from(index).ok());
            index.filter(|index| *index < count)
        })
    }

    /// One felt that must be right for the type that is wanted.
    fn checked<T>(
        &mut self,
        wanted: &str,
        check: impl FnOnce(Felt) -> Option<T>,
    ) -> Result<T, Misfit> {
        let index = self.felts.index();
        let found = self.felts.felt()?;
        check(found).ok_or_else(|| {
            let wanted = beginning(&format!("of type {wanted}"));
            CodecFault::FeltWrong { wanted, index, found }.into()
        })
    }

    fn members(&mut self, members: &Members<TypeId>) -> Result<(), Misfit> {
        self.open("{")?;
        for (place, (name, member)) in members.iter().enumerate() {
            self.comma(place == 0);
            self.member(name, *member)?;
        }
        self.close("}");
        Ok(())
    }

    /// Members as tools take them: an option that is absent is left out.
    fn plain_members(&mut self, members: &Members<TypeId>) -> Result<(), Misfit> {
        self.open("{")?;
        let mut first = true;
        for (name, member) in members.iter() {
            let present = match &self.types[*member] {
                Type::Option(inner) => {
                    let variant = self.variant("Option", 2);
                    (variant.map_err(|misfit| misfit.in_member(name))? == 0).then_some(*inner)
                }
                _ => Some(*member),
            };
            if let Some(ty) = present {
                self.comma(first);
                self.member(name, ty)?;
                first = false;
            }
        }
        self.close("}");
        Ok(())
    }

    fn tagged(&mut self, name: &str, payload: TypeId) -> Result<(), Misfit> {
        self.open("{")?;
        self.member(name, payload)?;
        self.close("}");
        Ok(())
    }

    fn member(&mut self, name: &str, ty: TypeId) -> Result<(), Misfit> {
        write_string(&mut self.out, name);
        self.out.push(b':');
        self.value(ty).map_err(|misfit| misfit.in_member(name))
    }

    fn elements(&mut self, types: impl Iterator<Item = TypeId>) -> Result<(), Misfit> {
        self.open("[")?;
        for (index, ty) in types.enumerate() {
            self.comma(index == 0);
            self.value(ty).map_err(|misfit| misfit.in_element(index))?;
        }
        self.close("]");
        Ok(())
    }

    fn open(&mut self, bracket: &str) -> Result<(), Misfit> {
        if self.depth == NESTING_MAX {
            return Err(CodecFault::TooDeep.into());
        }
        self.depth += 1;
        self.text(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: &str) {
        self.depth -= 1;
        self.text(bracket);
    }

    fn comma(&mut self, first: bool) {
        self.text(if first { "" } else { "," });
    }

    fn quoted_hex(&mut self, felt: Felt) {
        self.out.push(b'"');
        felt.write_hex(&mut self.out);
        self.out.push(b'"');
    }

    fn bytes(&mut self, as_text: Option<&str>, bytes: &[u8]) {
        if let Some(text) = as_text {
            write_string(&mut self.out, text);
            return;
        }
        self.text(r#"{"bytes":""#);
        wide::write_hex_bytes(bytes, &mut self.out);
        self.text(r#""}"#);
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}
