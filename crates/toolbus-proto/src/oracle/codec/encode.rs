//! From JSON to felts.

use std::{fmt, ops::Range};

use super::{CodecFault, FELTS_MAX, Misfit, scalar};
use crate::json::{Scanner, compact};
use crate::oracle::{
    felt::Felt,
    signature::{Members, NESTING_MAX, Type, TypeId, Types},
};
use crate::printable::beginning;

/// Reads the JSON once, from front to back, and appends felts as it goes.
pub(super) struct Encoder<'a> {
    types: &'a Types,
    json: Scanner<'a>,
    out: Vec<Felt>,
    /// Where the felts of each member are that was met, for all objects that are open.
    met: Vec<Option<Range<usize>>>,
    depth: usize,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(types: &'a Types, json: &'a str) -> Encoder<'a> {
        Encoder { types, json: Scanner::new(json), out: Vec::new(), met: Vec::new(), depth: 0 }
    }

    pub(super) fn args(mut self, params: &Members<TypeId>) -> Result<Vec<Felt>, Misfit> {
        match self.json.next_byte() {
            Some(b'[') => self.positional(params)?,
            Some(b'{') => self.members(params)?,
            _ => return Err(wrong_at(self.json, "an array or an object")),
        }
        self.finish()
    }

    pub(super) fn result(mut self, ty: TypeId) -> Result<Vec<Felt>, Misfit> {
        self.value(ty)?;
        self.finish()
    }

    fn finish(mut self) -> Result<Vec<Felt>, Misfit> {
        self.json.end()?;
        Ok(self.out)
    }

    fn value(&mut self, id: TypeId) -> Result<(), Misfit> {
        if FELTS_MAX < self.out.len() {
            // Options that are left out make many felts of little text.
            return Err(CodecFault::TooManyFelts.into());
        }
        let types = self.types;
        let here = self.json;
        match &types[id] {
            Type::Json => {
                let compact = compact(self.json.value()?);
                scalar::push_byte_array(compact.as_bytes(), &mut self.out);
            }
            Type::Option(_) if self.json.next_byte() == Some(b'n') => {
                self.json.value()?;
                self.out.push(Felt::ONE);
            }
            Type::Option(inner) if types.some_is_spelled_out(*inner) => {
                let find = |name: &str| (name == "Some").then_some((0, Some(*inner)));
                self.tagged(r#"null or {"Some":…}"#, find)?;
            }
            Type::Option(inner) => {
                self.out.push(Felt::ZERO);
                self.value(*inner)?;
            }
            Type::Result(ok, err) => {
                self.tagged(r#"{"Ok":…} or {"Err":…}"#, |name| match name {
                    "Ok" => Some((0, Some(*ok))),
                    "Err" => Some((1, Some(*err))),
                    _ => None,
                })?;
            }
            Type::Enum(name, variants) => self.variant(name, variants)?,
            Type::Struct(_, fields) => self.members(fields)?,
            Type::Tuple(members) if members.is_empty() => {
                let raw = self.json.value()?;
                if raw != "null" && compact(raw) != "[]" {
                    return Err(wrong_at(here, "null"));
                }
            }
            Type::Tuple(members) => self.exactly(members.len(), |place| members[place])?,
            Type::Fixed(element, count) => self.exactly((*count).into(), |_| *element)?,
            Type::Array(element) | Type::Span(element) => self.array(*element)?,
            scalar => {
                let raw = self.json.value()?;
                if scalar::push(scalar, raw, &mut self.out).is_none() {
                    return Err(wrong_at(here, scalar::wanted(scalar)));
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, element: TypeId) -> Result<(), Misfit> {
        let length_at = self.out.len();
        // Known only at the end.
        self.out.push(Felt::ZERO);
        let mut length = 0;
        self.open(b'[', "an array")?;
        while self.json.more(length == 0, b']')? {
            self.value(element).map_err(|misfit| misfit.in_element(length))?;
            length += 1;
        }
        self.depth -= 1;
        self.out[length_at] = Felt::from(length as u128);
        Ok(())
    }

    fn exactly(&mut self, length: usize, ty: impl Fn(usize) -> TypeId) -> Result<(), Misfit> {
        let here = self.json;
        let wanted = Exactly(length);
        self.open(b'[', wanted)?;
        let mut index = 0;
        while self.json.more(index == 0, b']')? {
            if index == length {
                return Err(wrong_at(here, wanted));
            }
            self.value(ty(index)).map_err(|misfit| misfit.in_element(index))?;
            index += 1;
        }
        self.depth -= 1;
        if index < length {
            return Err(wrong_at(here, wanted));
        }
        Ok(())
    }

    /// An object of one member, whose name says which variant it is.
    fn tagged(
        &mut self,
        wanted: impl fmt::Display + Copy,
        find: impl Fn(&str) -> Option<(usize, Option<TypeId>)>,
    ) -> Result<(), Misfit> {
        let here = self.json;
        self.open(b'{', wanted)?;
        if !self.json.more(true, b'}')? {
            return Err(wrong_at(here, wanted));
        }
        let name = self.json.name()?;
        let Some((index, payload)) = find(&name) else {
            return Err(wrong_at(here, wanted));
        };
        self.out.push(Felt::from(index as u128));
        match payload {
            Some(payload) => self.value(payload).map_err(|misfit| misfit.in_member(&name))?,
            None if self.json.value()? == "null" => {}
            None => return Err(wrong_at(here, wanted)),
        }
        if self.json.more(false, b'}')? {
            return Err(wrong_at(here, wanted));
        }
        self.depth -= 1;
        Ok(())
    }

    fn variant(&mut self, name: &str, variants: &Members<Option<TypeId>>) -> Result<(), Misfit> {
        let here = self.json;
        let wanted = VariantOf(name);
        let find = |name: &str| {
            let index = variants.find(name, 0)?;
            Some((index, *variants.at(index)?.1))
        };
        if self.json.next_byte() != Some(b'"') {
            return self.tagged(wanted, find);
        }
        let name = self.json.string()?;
        let Some((index, None)) = find(&name) else {
            return Err(wrong_at(here, wanted));
        };
        self.out.push(Felt::from(index as u128));
        Ok(())
    }

    fn positional(&mut self, params: &Members<TypeId>) -> Result<(), Misfit> {
        self.open(b'[', "an array")?;
        let mut given = 0;
        while self.json.more(given == 0, b']')? {
            let Some((name, param)) = params.at(given) else {
                return Err(CodecFault::TooManyArguments { takes: params.len() }.into());
            };
            self.value(*param).map_err(|misfit| misfit.in_member(name))?;
            given += 1;
        }
        for (name, param) in params.iter().skip(given) {
            self.absent(name, *param)?;
        }
        Ok(())
    }

    /// Members come in any order; their felts stand in the order of the signature.
    fn members(&mut self, members: &Members<TypeId>) -> Result<(), Misfit> {
        let out_start = self.out.len();
        let met_start = self.met.len();
        self.met.resize(met_start + members.len(), None);
        self.open(b'{', "an object")?;
        let mut count = 0;
        let mut in_order = true;
        while self.json.more(count == 0, b'}')? {
            let name = self.json.name()?;
            let fail = |fault: CodecFault| Misfit::from(fault).in_member(&name);
            let place = members.find(&name, count).ok_or_else(|| fail(CodecFault::Unknown))?;
            let Some((_, member)) = members.at(place) else {
                return Err(CodecFault::NotJson.into());
            };
            if self.met[met_start + place].is_some() {
                return Err(fail(CodecFault::Twice));
            }
            let start = self.out.len();
            self.value(*member).map_err(|misfit| misfit.in_member(&name))?;
            self.met[met_start + place] = Some(start..self.out.len());
            in_order &= place == count;
            count += 1;
        }
        self.depth -= 1;
        if !in_order || count < members.len() {
            let came = self.out.split_off(out_start);
            for (place, (name, member)) in members.iter().enumerate() {
                match self.met[met_start + place].take() {
                    Some(Range { start, end }) => {
                        self.out.extend_from_slice(&came[start - out_start..end - out_start]);
                    }
                    None => self.absent(name, *member)?,
                }
            }
        }
        self.met.truncate(met_start);
        Ok(())
    }

    /// What is not given is none, if it may be.
    fn absent(&mut self, name: &str, ty: TypeId) -> Result<(), Misfit> {
        if !matches!(self.types[ty], Type::Option(_)) {
            return Err(Misfit::from(CodecFault::Missing).in_member(name));
        }
        self.out.push(Felt::ONE);
        Ok(())
    }

    fn open(&mut self, bracket: u8, wanted: impl fmt::Display) -> Result<(), Misfit> {
        if self.json.next_byte() != Some(bracket) {
            return Err(wrong_at(self.json, wanted));
        }
        if self.depth == NESTING_MAX {
            return Err(CodecFault::TooDeep.into());
        }
        self.depth += 1;
        self.json.enter(bracket);
        Ok(())
    }
}

/// The value here is not what was wanted.
fn wrong_at(mut here: Scanner<'_>, wanted: impl fmt::Display) -> Misfit {
    match here.value() {
        Ok(raw) => {
            let (wanted, found) = (wanted.to_string(), beginning(raw));
            CodecFault::Wrong { wanted, found }.into()
        }
        Err(error) => error.into(),
    }
}

/// What is wanted is put into words only when something else was found.
#[derive(Clone, Copy)]
struct Exactly(usize);

impl fmt::Display for Exactly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of exactly {}", self.0)
    }
}

#[derive(Clone, Copy)]
struct VariantOf<'a>(&'a str);

impl fmt::Display for VariantOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a variant of `{}`", beginning(self.0))
    }
}
