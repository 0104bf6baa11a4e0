//! Reading the text of signatures.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Function, Members, NESTING_MAX, SignatureError, SignatureFault, TEXT_BYTES_MAX, Type, TypeId,
    Types,
};
use crate::oracle::json::{self, Cursor};

/// Reads a text of signatures: at least one function, and the structs and enums they use.
pub fn parse(text: &str) -> Result<Vec<Function>, SignatureError> {
    if TEXT_BYTES_MAX < text.len() {
        return Err(SignatureError { offset: 0, fault: SignatureFault::TooLong });
    }
    let mut parser = Parser {
        text,
        at: 0,
        types: Vec::new(),
        offsets: Vec::new(),
        named: HashMap::new(),
        functions: Vec::new(),
        function_names: HashSet::new(),
    };
    while !parser.is_at_end() {
        parser.item()?;
    }
    parser.finish()
}

/// A name that needs no quotes where a field is named.
pub(super) fn is_identifier(name: &str) -> bool {
    starts_a_name(name) && name.bytes().all(continues_identifier)
}

/// A name that needs no quotes where a function is named.
pub(super) fn is_function_name(name: &str) -> bool {
    starts_a_name(name)
        && name.bytes().all(continues_function_name)
        && !matches!(name, "fn" | "struct" | "enum")
}

fn starts_a_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn continues_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn continues_function_name(byte: u8) -> bool {
    continues_identifier(byte) || b".:/@-".contains(&byte)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// `None` is a definition that was mentioned and is still to come.
    types: Vec<Option<Type>>,
    /// Where each of them stands, for errors that are found later.
    offsets: Vec<usize>,
    named: HashMap<&'a str, TypeId>,
    functions: Vec<Declared>,
    function_names: HashSet<String>,
}

struct Declared {
    name: String,
    params: Members<TypeId>,
    result: TypeId,
}

impl<'a> Parser<'a> {
    fn item(&mut self) -> Result<(), SignatureError> {
        let offset = self.at;
        match self.word(continues_function_name) {
            Some("struct") => self.struct_definition()?,
            Some("enum") => self.enum_definition()?,
            Some("fn") => self.function()?,
            _ => {
                // It is read again, as the name of a function.
                self.at = offset;
                self.function()?;
            }
        }
        self.take(b';');
        Ok(())
    }

    fn struct_definition(&mut self) -> Result<(), SignatureError> {
        let (name, id) = self.defined_name()?;
        self.expect(b'{', "`{`")?;
        let fields = self.members(b'}', |parser| parser.field(1))?;
        self.types[id.place()] = Some(Type::Struct(name, fields));
        Ok(())
    }

    fn enum_definition(&mut self) -> Result<(), SignatureError> {
        let (name, id) = self.defined_name()?;
        self.expect(b'{', "`{`")?;
        if self.peek() == Some(b'}') {
            return Err(self.unexpected("the name of a variant"));
        }
        let variants = self.members(b'}', |parser| {
            let name = parser.identifier("the name of a variant")?;
            let payload = if parser.take(b':') { Some(parser.ty(1)?) } else { None };
            Ok((name.to_owned(), payload))
        })?;
        self.types[id.place()] = Some(Type::Enum(name, variants));
        Ok(())
    }

    fn function(&mut self) -> Result<(), SignatureError> {
        self.skip_blanks();
        let offset = self.at;
        let name = match self.string()? {
            Some(name) => name,
            None => match self.word(continues_function_name) {
                Some(name) if is_function_name(name) => name.to_owned(),
                _ => {
                    self.at = offset;
                    return Err(self.unexpected("the name of a function"));
                }
            },
        };
        if !self.function_names.insert(name.clone()) {
            let name = json::shown(&name);
            return Err(SignatureError { offset, fault: SignatureFault::FunctionTwice { name } });
        }
        self.expect(b'(', "`(` and the parameters")?;
        let params = self.members(b')', |parser| parser.field(0))?;
        let result = match self.arrow()? {
            true => self.ty(0)?,
            false => self.add(self.at, Type::Tuple(Vec::new())),
        };
        self.functions.push(Declared { name, params, result });
        Ok(())
    }

    fn arrow(&mut self) -> Result<bool, SignatureError> {
        match self.peek() {
            Some(b'-') if self.text[self.at..].starts_with("->") => {
                self.at += 2;
                Ok(true)
            }
            Some(b'-') => Err(self.unexpected("`->`")),
            _ => Ok(false),
        }
    }

    fn field(&mut self, depth: usize) -> Result<(String, TypeId), SignatureError> {
        let name = match self.string()? {
            Some(name) => name,
            None => self.identifier("a name")?.to_owned(),
        };
        self.expect(b':', "`:` and a type")?;
        Ok((name, self.ty(depth)?))
    }

    /// Members up to `close`, a comma between them; none may have the name of another.
    fn members<T>(
        &mut self,
        close: u8,
        mut member: impl FnMut(&mut Self) -> Result<(String, T), SignatureError>,
    ) -> Result<Members<T>, SignatureError> {
        let mut offsets = Vec::new();
        let mut list = Vec::new();
        while !self.take(close) {
            if !list.is_empty() {
                self.expect(b',', "`,` or the end of the list")?;
                if self.take(close) {
                    break;
                }
            }
            self.skip_blanks();
            offsets.push(self.at);
            list.push(member(self)?);
        }
        Members::new(list).map_err(|(place, name)| {
            let name = json::shown(&name);
            SignatureError { offset: offsets[place], fault: SignatureFault::MemberTwice { name } }
        })
    }

    /// A type that has `depth` others around it.
    fn ty(&mut self, depth: usize) -> Result<TypeId, SignatureError> {
        self.skip_blanks();
        let offset = self.at;
        if NESTING_MAX < depth {
            return Err(SignatureError { offset, fault: SignatureFault::TooDeep });
        }
        if self.take(b'(') {
            return self.tuple(offset, depth);
        }
        if self.take(b'[') {
            let element = self.ty(depth + 1)?;
            self.expect(b';', "`;` and the number of elements")?;
            let count = self.count()?;
            self.expect(b']', "`]`")?;
            return Ok(self.add(offset, Type::Fixed(element, count)));
        }
        let word = self.identifier("a type")?;
        if is_generic(word) {
            return self.generic(offset, word, depth);
        }
        match Type::from_word(word) {
            Some(ty) => Ok(self.add(offset, ty)),
            None => Ok(self.mention(offset, word)),
        }
    }

    fn tuple(&mut self, offset: usize, depth: usize) -> Result<TypeId, SignatureError> {
        let mut members = Vec::new();
        while !self.take(b')') {
            members.push(self.ty(depth + 1)?);
            if !self.take(b',') {
                self.expect(b')', "`,` or `)`")?;
                if let [only] = members[..] {
                    return Ok(only);
                }
                break;
            }
        }
        Ok(self.add(offset, Type::Tuple(members)))
    }

    fn generic(
        &mut self,
        offset: usize,
        word: &str,
        depth: usize,
    ) -> Result<TypeId, SignatureError> {
        self.expect(b'<', "`<`")?;
        let first = self.ty(depth + 1)?;
        let ty = match word {
            "Option" => Type::Option(first),
            "Array" => Type::Array(first),
            "Span" => Type::Span(first),
            _ => {
                self.expect(b',', "`,` and the type of the error")?;
                Type::Result(first, self.ty(depth + 1)?)
            }
        };
        self.expect(b'>', "`>`")?;
        Ok(self.add(offset, ty))
    }

    /// The name that a definition gives, and the type that its uses refer to.
    fn defined_name(&mut self) -> Result<(String, TypeId), SignatureError> {
        self.skip_blanks();
        let offset = self.at;
        let name = self.identifier("the name of the type")?;
        let shown = json::shown(name);
        if is_generic(name) || Type::from_word(name).is_some() {
            let fault = SignatureFault::DefinedByUs { name: shown };
            return Err(SignatureError { offset, fault });
        }
        let id = self.mention(offset, name);
        if self.types[id.place()].is_some() {
            return Err(SignatureError {
                offset,
                fault: SignatureFault::TypeTwice { name: shown },
            });
        }
        self.offsets[id.place()] = offset;
        Ok((name.to_owned(), id))
    }

    fn mention(&mut self, offset: usize, name: &'a str) -> TypeId {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let id = TypeId::next(&self.types);
        self.types.push(None);
        self.offsets.push(offset);
        self.named.insert(name, id);
        id
    }

    fn add(&mut self, offset: usize, ty: Type) -> TypeId {
        let id = TypeId::next(&self.types);
        self.types.push(Some(ty));
        self.offsets.push(offset);
        id
    }

    fn finish(self) -> Result<Vec<Function>, SignatureError> {
        let undefined = self.types.iter().position(Option::is_none);
        if let Some(place) = undefined {
            let offset = self.offsets[place];
            let rest = &self.text[offset..];
            let length = rest.bytes().take_while(|byte| continues_identifier(*byte)).count();
            let name = json::shown(&rest[..length]);
            return Err(SignatureError { offset, fault: SignatureFault::UnknownType { name } });
        }
        if self.functions.is_empty() {
            let fault = SignatureFault::NoFunction;
            return Err(SignatureError { offset: self.text.len(), fault });
        }
        let types = Types::new(self.types.into_iter().flatten().collect())
            .map_err(|(id, fault)| SignatureError { offset: self.offsets[id.place()], fault })?;
        let types = Arc::new(types);
        let function = |Declared { name, params, result }| Function {
            name,
            params,
            result,
            types: Arc::clone(&types),
        };
        Ok(self.functions.into_iter().map(function).collect())
    }
}

/// Tokens. Blanks and comments may stand before each.
impl<'a> Parser<'a> {
    fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\r', '\n']);
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("//") {
                return;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, wanted: &'static str) -> Result<(), SignatureError> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    fn identifier(&mut self, wanted: &'static str) -> Result<&'a str, SignatureError> {
        self.word(continues_identifier).ok_or_else(|| self.unexpected(wanted))
    }

    fn word(&mut self, continues: fn(u8) -> bool) -> Option<&'a str> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        if !starts_a_name(rest) {
            return None;
        }
        let length = rest.bytes().take_while(|byte| continues(*byte)).count();
        self.at += length;
        Some(&rest[..length])
    }

    fn string(&mut self) -> Result<Option<String>, SignatureError> {
        if self.peek() != Some(b'"') {
            return Ok(None);
        }
        let unexpected = |_| self.unexpected("a JSON string");
        let raw = Cursor::new(&self.text[self.at..]).value().map_err(|_| ()).map_err(unexpected)?;
        let string = serde_json::from_str(raw).map_err(|_| ()).map_err(unexpected)?;
        self.at += raw.len();
        Ok(Some(string))
    }

    fn count(&mut self) -> Result<u16, SignatureError> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        if digits.is_empty() {
            return Err(self.unexpected("the number of elements"));
        }
        let count = digits.parse().map_err(|_| SignatureError {
            offset: self.at,
            fault: SignatureFault::LengthTooLarge { found: json::shown(digits) },
        })?;
        self.at += digits.len();
        Ok(count)
    }

    fn unexpected(&self, wanted: &'static str) -> SignatureError {
        let rest = &self.text[self.at..];
        let found = match rest.split_whitespace().next() {
            Some(word) => format!("`{}`", json::shown(word)),
            None => "the end".to_owned(),
        };
        SignatureError { offset: self.at, fault: SignatureFault::Syntax { wanted, found } }
    }
}

fn is_generic(word: &str) -> bool {
    matches!(word, "Option" | "Result" | "Array" | "Span")
}
