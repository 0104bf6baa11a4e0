//! Reading the text of signatures.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Function, Members, NESTING_MAX, SignatureError, SignatureFault, TEXT_BYTES_MAX, Type, TypeId,
    Types,
    tokens::{Tokens, is_function_name},
};
use crate::printable::beginning;

/// Reads a text of signatures: at least one function, and the structs and enums they use.
pub fn parse(text: &str) -> Result<Vec<Function>, SignatureError> {
    if TEXT_BYTES_MAX < text.len() {
        return Err(SignatureFault::TooLong.at(0));
    }
    let mut parser = Parser {
        tokens: Tokens::new(text),
        types: Vec::new(),
        offsets: Vec::new(),
        named: HashMap::new(),
        functions: Vec::new(),
        function_names: HashSet::new(),
    };
    while !parser.tokens.is_at_end() {
        parser.item()?;
    }
    parser.finish()
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    /// `None` is a definition that was mentioned and is still to come.
    types: Vec<Option<Type>>,
    /// Where each of them stands, for errors that are found later.
    offsets: Vec<usize>,
    named: HashMap<&'a str, TypeId>,
    functions: Vec<Declared>,
    function_names: HashSet<String>,
}

/// A function whose types are not all known yet.
struct Declared {
    name: String,
    params: Members<TypeId>,
    result: TypeId,
}

impl<'a> Parser<'a> {
    fn item(&mut self) -> Result<(), SignatureError> {
        let before = self.tokens;
        match self.tokens.item_word() {
            Some("struct") => self.struct_definition()?,
            Some("enum") => self.enum_definition()?,
            Some("fn") => self.function()?,
            _ => {
                // It is read again, as the name of a function.
                self.tokens = before;
                self.function()?;
            }
        }
        self.tokens.take(b';');
        Ok(())
    }

    fn struct_definition(&mut self) -> Result<(), SignatureError> {
        let (name, id) = self.defined_name()?;
        self.tokens.expect(b'{', "`{`")?;
        let fields = self.members(b'}', |parser| parser.field(1))?;
        self.types[id.place()] = Some(Type::Struct(name, fields));
        Ok(())
    }

    fn enum_definition(&mut self) -> Result<(), SignatureError> {
        let (name, id) = self.defined_name()?;
        self.tokens.expect(b'{', "`{`")?;
        if self.tokens.peek() == Some(b'}') {
            return Err(self.tokens.unexpected("the name of a variant"));
        }
        let variants = self.members(b'}', |parser| {
            let name = parser.tokens.identifier("the name of a variant")?;
            let payload = if parser.tokens.take(b':') { Some(parser.ty(1)?) } else { None };
            Ok((name.to_owned(), payload))
        })?;
        self.types[id.place()] = Some(Type::Enum(name, variants));
        Ok(())
    }

    fn function(&mut self) -> Result<(), SignatureError> {
        let offset = self.tokens.offset();
        let before = self.tokens;
        let name = match self.tokens.string()? {
            Some(name) => name,
            None => match self.tokens.item_word() {
                Some(name) if is_function_name(name) => name.to_owned(),
                _ => return Err(before.unexpected("the name of a function")),
            },
        };
        if !self.function_names.insert(name.clone()) {
            let name = beginning(&name);
            return Err(SignatureFault::FunctionTwice { name }.at(offset));
        }
        self.tokens.expect(b'(', "`(` and the parameters")?;
        let params = self.members(b')', |parser| parser.field(0))?;
        let result = match self.tokens.arrow()? {
            true => self.ty(0)?,
            false => self.add(offset, Type::Tuple(Vec::new())),
        };
        self.functions.push(Declared { name, params, result });
        Ok(())
    }

    fn field(&mut self, depth: usize) -> Result<(String, TypeId), SignatureError> {
        let name = match self.tokens.string()? {
            Some(name) => name,
            None => self.tokens.identifier("a name")?.to_owned(),
        };
        self.tokens.expect(b':', "`:` and a type")?;
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
        while !self.tokens.take(close) {
            if !list.is_empty() {
                self.tokens.expect(b',', "`,` or the end of the list")?;
                if self.tokens.take(close) {
                    break;
                }
            }
            offsets.push(self.tokens.offset());
            list.push(member(self)?);
        }
        Members::new(list).map_err(|(place, name)| {
            let name = beginning(&name);
            SignatureFault::MemberTwice { name }.at(offsets[place])
        })
    }

    /// A type that has `depth` others around it.
    fn ty(&mut self, depth: usize) -> Result<TypeId, SignatureError> {
        let offset = self.tokens.offset();
        if NESTING_MAX < depth {
            return Err(SignatureFault::TooDeep.at(offset));
        }
        if self.tokens.take(b'(') {
            return self.tuple(offset, depth);
        }
        if self.tokens.take(b'[') {
            let element = self.ty(depth + 1)?;
            self.tokens.expect(b';', "`;` and the number of elements")?;
            let count = self.tokens.count()?;
            self.tokens.expect(b']', "`]`")?;
            return Ok(self.add(offset, Type::Fixed(element, count)));
        }
        let word = self.tokens.identifier("a type")?;
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
        while !self.tokens.take(b')') {
            members.push(self.ty(depth + 1)?);
            if !self.tokens.take(b',') {
                self.tokens.expect(b')', "`,` or `)`")?;
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
        self.tokens.expect(b'<', "`<`")?;
        let first = self.ty(depth + 1)?;
        let ty = match word {
            "Option" => Type::Option(first),
            "Array" => Type::Array(first),
            "Span" => Type::Span(first),
            _ => {
                self.tokens.expect(b',', "`,` and the type of the error")?;
                Type::Result(first, self.ty(depth + 1)?)
            }
        };
        self.tokens.expect(b'>', "`>`")?;
        Ok(self.add(offset, ty))
    }

    /// The name that a definition gives, and the type that its uses refer to.
    fn defined_name(&mut self) -> Result<(String, TypeId), SignatureError> {
        let offset = self.tokens.offset();
        let name = self.tokens.identifier("the name of the type")?;
        let shown = beginning(name);
        if is_generic(name) || Type::from_word(name).is_some() {
            return Err(SignatureFault::DefinedByUs { name: shown }.at(offset));
        }
        let id = self.mention(offset, name);
        if self.types[id.place()].is_some() {
            return Err(SignatureFault::TypeTwice { name: shown }.at(offset));
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

    fn finish(mut self) -> Result<Vec<Function>, SignatureError> {
        let undefined = self.named.iter().filter(|(_, id)| self.types[id.place()].is_none());
        if let Some((name, id)) = undefined.min_by_key(|(_, id)| id.place()) {
            let name = beginning(name);
            return Err(SignatureFault::UnknownType { name }.at(self.offsets[id.place()]));
        }
        if self.functions.is_empty() {
            return Err(SignatureFault::NoFunction.at(self.tokens.offset()));
        }
        let types = Types::new(self.types.into_iter().flatten().collect())
            .map_err(|(id, fault)| fault.at(self.offsets[id.place()]))?;
        let types = Arc::new(types);
        let function = |declared: Declared| Function {
            name: declared.name,
            params: declared.params,
            result: declared.result,
            types: Arc::clone(&types),
        };
        Ok(self.functions.into_iter().map(function).collect())
    }
}

fn is_generic(word: &str) -> bool {
    matches!(word, "Option" | "Result" | "Array" | "Span")
}
