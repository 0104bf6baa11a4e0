//! The types of a text, kept in one table, where each is known by its number.
//!
//! A type may be used many times and may hold itself inside an array, so types refer to each
//! other by number. What is to be known about each is computed once, by [`Types::new`].

use std::ops::Index;

use super::{NESTING_MAX, SignatureFault};
use crate::printable::beginning;

pub(crate) enum Type {
    Felt252,
    Bool,
    Integer(Integer),
    ByteArray,
    ShortString,
    Bytes31,
    Json,
    Option(TypeId),
    Result(TypeId, TypeId),
    Array(TypeId),
    Span(TypeId),
    Fixed(TypeId, u16),
    /// Without members it is `()`.
    Tuple(Vec<TypeId>),
    Struct(String, Members<TypeId>),
    Enum(String, Members<Option<TypeId>>),
}

/// The place of a type in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) name: &'static str,
    pub(crate) bits: u32,
    pub(crate) signed: bool,
}

pub(crate) const INTEGERS: [Integer; 12] = {
    const fn integer(name: &'static str, bits: u32, signed: bool) -> Integer {
        Integer { name, bits, signed }
    }
    [
        integer("u8", 8, false),
        integer("u16", 16, false),
        integer("u32", 32, false),
        integer("u64", 64, false),
        U128,
        integer("usize", 32, false),
        integer("u256", 256, false),
        integer("i8", 8, true),
        integer("i16", 16, true),
        integer("i32", 32, true),
        integer("i64", 64, true),
        I128,
    ]
};
pub(crate) const U128: Integer = Integer { name: "u128", bits: 128, signed: false };
pub(crate) const I128: Integer = Integer { name: "i128", bits: 128, signed: true };

impl Type {
    /// The type that one word means by itself.
    pub(crate) fn from_word(word: &str) -> Option<Type> {
        Some(match word {
            "felt252" => Type::Felt252,
            "bool" => Type::Bool,
            "ByteArray" => Type::ByteArray,
            "shortstring" => Type::ShortString,
            "bytes31" => Type::Bytes31,
            "json" => Type::Json,
            _ => Type::Integer(*INTEGERS.iter().find(|integer| integer.name == word)?),
        })
    }

    /// The types whose values stand, felt by felt, inside a value of this one.
    fn contained(&self) -> Vec<TypeId> {
        match self {
            Type::Option(inner) | Type::Fixed(inner, _) => vec![*inner],
            Type::Result(ok, err) => vec![*ok, *err],
            Type::Tuple(members) => members.clone(),
            Type::Struct(_, fields) => fields.iter().map(|(_, field)| *field).collect(),
            Type::Enum(_, variants) => variants.iter().filter_map(|(_, inner)| *inner).collect(),
            // An array may be empty: how deep its elements go is seen in each value.
            _ => Vec::new(),
        }
    }
}

/// Named things in order, found by name without looking at each.
#[derive(Clone, Debug)]
pub(crate) struct Members<T> {
    list: Vec<(String, T)>,
    by_name: Vec<u32>,
}

impl<T> Members<T> {
    /// Fails with the second of two that have one name.
    pub(crate) fn new(list: Vec<(String, T)>) -> Result<Members<T>, (usize, String)> {
        let name = |place: &u32| &list[*place as usize].0;
        let mut by_name: Vec<u32> = (0..list.len() as u32).collect();
        by_name.sort_by_key(name);
        if let Some(pair) = by_name.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
            return Err((pair[1] as usize, name(&pair[1]).clone()));
        }
        Ok(Members { list, by_name })
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &T)> {
        self.list.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn at(&self, place: usize) -> Option<(&str, &T)> {
        self.list.get(place).map(|(name, value)| (name.as_str(), value))
    }

    /// The place of the member of this name. The `likely` one is looked at first.
    pub(crate) fn find(&self, name: &str, likely: usize) -> Option<usize> {
        if self.at(likely).is_some_and(|(here, _)| here == name) {
            return Some(likely);
        }
        let name_at = |place: &u32| self.list[*place as usize].0.as_str();
        let found = self.by_name.binary_search_by_key(&name, name_at).ok()?;
        Some(self.by_name[found] as usize)
    }
}

/// All types of one text.
pub(crate) struct Types {
    list: Vec<Type>,
    felts_min: Vec<u64>,
}

impl Types {
    /// Takes a table that is to be trusted from now on: no type contains itself, none is
    /// nested too deeply, and the length of an array always stands before felts.
    pub(crate) fn new(list: Vec<Type>) -> Result<Types, (TypeId, SignatureFault)> {
        let mut survey = Survey { seen: list.iter().map(|_| Seen::Not).collect(), list: &list };
        let felts_min = (0..list.len() as u32)
            .map(|place| survey.visit(TypeId(place), 0).map(|size| size.felts_min))
            .collect::<Result<Vec<u64>, _>>()?;
        let types = Types { list, felts_min };
        for (place, ty) in types.list.iter().enumerate() {
            if let Type::Array(element) | Type::Span(element) = ty
                && types.felts_min(*element) == 0
            {
                let id = TypeId(place as u32);
                let name = beginning(&types.name(id));
                return Err((id, SignatureFault::EmptyElements { name }));
            }
        }
        Ok(types)
    }

    /// The fewest felts that a value of this type takes. Zero means that it never takes any.
    pub(crate) fn felts_min(&self, id: TypeId) -> u64 {
        self.felts_min[id.0 as usize]
    }

    /// `Some` cannot be told from `None` by its value alone, so JSON has to say `Some`.
    pub(crate) fn some_is_spelled_out(&self, inner: TypeId) -> bool {
        matches!(&self[inner], Type::Option(_) | Type::Json) || self.is_unit(inner)
    }

    pub(crate) fn is_unit(&self, id: TypeId) -> bool {
        matches!(&self[id], Type::Tuple(members) if members.is_empty())
    }
}

impl Index<TypeId> for Types {
    type Output = Type;

    fn index(&self, id: TypeId) -> &Type {
        &self.list[id.0 as usize]
    }
}

impl TypeId {
    /// The number of the type that is pushed next onto this table.
    pub(crate) fn next<T>(table: &[T]) -> TypeId {
        // A text of TEXT_BYTES_MAX has fewer types than bytes; schemas are bounded by lines.
        TypeId(u32::try_from(table.len()).expect("fewer types than bytes in a line"))
    }

    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy)]
struct Size {
    felts_min: u64,
    height: usize,
}

#[derive(Clone, Copy)]
enum Seen {
    Not,
    Open,
    Done(Size),
}

/// Visits each type once, however often it is used.
struct Survey<'a> {
    list: &'a [Type],
    seen: Vec<Seen>,
}

impl Survey<'_> {
    fn visit(&mut self, id: TypeId, depth: usize) -> Result<Size, (TypeId, SignatureFault)> {
        let ty = &self.list[id.place()];
        match self.seen[id.place()] {
            Seen::Done(size) => return Ok(size),
            Seen::Open => {
                return Err((id, SignatureFault::ContainsItself));
            }
            // This bounds our own recursion too.
            Seen::Not if NESTING_MAX < depth => return Err((id, SignatureFault::TooDeep)),
            Seen::Not => self.seen[id.place()] = Seen::Open,
        }
        let mut sizes = Vec::new();
        for inner in ty.contained() {
            sizes.push(self.visit(inner, depth + 1)?);
        }
        let height = sizes.iter().map(|size| 1 + size.height).max().unwrap_or(0);
        if NESTING_MAX < height {
            return Err((id, SignatureFault::TooDeep));
        }
        let felts_min = felts_min(ty, sizes.iter().map(|size| size.felts_min));
        let size = Size { felts_min, height };
        self.seen[id.place()] = Seen::Done(size);
        Ok(size)
    }
}

fn felts_min(ty: &Type, mut inner: impl Iterator<Item = u64>) -> u64 {
    match ty {
        Type::Felt252 | Type::Bool | Type::ShortString | Type::Bytes31 => 1,
        Type::Integer(integer) => u64::from(integer.bits.div_ceil(128)),
        Type::ByteArray | Type::Json => 3,
        // A length of 0, or the index of None.
        Type::Array(_) | Type::Span(_) | Type::Option(_) => 1,
        Type::Result(..) => inner.min().unwrap_or(0).saturating_add(1),
        Type::Enum(_, variants) => {
            let all_have_payloads = variants.iter().all(|(_, payload)| payload.is_some());
            let smallest = if all_have_payloads { inner.min().unwrap_or(0) } else { 0 };
            smallest.saturating_add(1)
        }
        Type::Fixed(_, count) => inner.next().unwrap_or(0).saturating_mul(u64::from(*count)),
        Type::Tuple(_) | Type::Struct(..) => inner.fold(0, u64::saturating_add),
    }
}
