//! Type expressions read from text: `object({ name = string, tags = optional(set(string)) })`.
//!
//! The grammar is that of HCL, as far as types go: blanks, line breaks and comments are free,
//! keys are identifiers or quoted, entries of an object end at a comma or a line break.

use std::collections::BTreeMap;

use super::print::{begins_identifier, continues_identifier};
use super::{DEPTH_MAX, Field, Presence, Type, TypeError, TypeFault};
use crate::did_you_mean::nearest;
use crate::json::{Json, write_string};
use crate::orchard::number;
use crate::orchard::value;

const NAMES: [&str; 9] =
    ["string", "number", "bool", "any", "list", "set", "map", "tuple", "object"];

/// Reads one type expression.
pub fn parse(text: &str) -> Result<Type, TypeError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let ty = parser.ty()?;
    parser.blanks();
    match parser.peek() {
        None => Ok(ty),
        Some(_) => Err(parser.expected("the end of the type")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn ty(&mut self) -> Result<Type, TypeError> {
        self.blanks();
        let at = self.at;
        match self.identifier() {
            Some("optional") => Err(error(at, TypeFault::Optional)),
            Some(name) => self.named(at, name),
            None => Err(self.expected("a type")),
        }
    }

    /// A type of this name, which begins at `at`.
    fn named(&mut self, at: usize, name: &'a str) -> Result<Type, TypeError> {
        let of = |element: Type, make: fn(Box<Type>) -> Type| make(Box::new(element));
        match name {
            "string" => Ok(Type::String),
            "number" => Ok(Type::Number),
            "bool" => Ok(Type::Bool),
            "any" => Ok(Type::Any),
            "list" => Ok(of(self.element(at, name)?, Type::List)),
            "set" => Ok(of(self.element(at, name)?, Type::Set)),
            "map" => Ok(of(self.element(at, name)?, Type::Map)),
            "tuple" => self.in_parentheses(at, name, Parser::tuple),
            "object" => self.in_parentheses(at, name, Parser::object),
            _ => {
                let fault =
                    TypeFault::Unknown { name: name.to_owned(), meant: nearest(name, NAMES) };
                Err(error(at, fault))
            }
        }
    }

    fn element(&mut self, at: usize, name: &str) -> Result<Type, TypeError> {
        if !self.takes('(') {
            return Err(error(at, TypeFault::Bare { name: name.to_owned() }));
        }
        self.inside(|parser| {
            let element = parser.ty()?;
            parser.expect(')', "`)`")?;
            Ok(element)
        })
    }

    fn in_parentheses(
        &mut self,
        at: usize,
        name: &str,
        parts: fn(&mut Self) -> Result<Type, TypeError>,
    ) -> Result<Type, TypeError> {
        if !self.takes('(') {
            return Err(error(at, TypeFault::NoParts { name: name.to_owned() }));
        }
        self.inside(|parser| {
            let ty = parts(parser)?;
            parser.expect(')', "`)`")?;
            Ok(ty)
        })
    }

    fn tuple(&mut self) -> Result<Type, TypeError> {
        self.expect('[', "`[`")?;
        let mut elements = Vec::new();
        while !self.takes(']') {
            elements.push(self.ty()?);
            if !self.takes(',') {
                self.expect(']', "`,` or `]`")?;
                break;
            }
        }
        Ok(Type::Tuple(elements))
    }

    fn object(&mut self) -> Result<Type, TypeError> {
        let mut fields = BTreeMap::new();
        self.entries(|parser, at, name| {
            let field = parser.field()?;
            match fields.insert(name.clone(), field) {
                None => Ok(()),
                Some(_) => Err(error(at, TypeFault::Repeated(name))),
            }
        })?;
        Ok(Type::Object(fields))
    }

    fn field(&mut self) -> Result<Field, TypeError> {
        self.blanks();
        let before = self.at;
        if self.identifier() != Some("optional") {
            self.at = before;
            return Ok(Field::required(self.ty()?));
        }
        self.expect('(', "`(`")?;
        let ty = self.ty()?;
        let default = if self.takes(',') { self.default(&ty)? } else { None };
        self.expect(')', "`)`")?;
        Ok(Field { ty, presence: Presence::Optional(default) })
    }

    /// The default of an optional key, of its type; `null` is none.
    fn default(&mut self, ty: &Type) -> Result<Option<Json>, TypeError> {
        self.blanks();
        let at = self.at;
        let mut literal = Vec::new();
        self.literal(&mut literal)?;
        let literal = Json::from_trusted(literal);
        let default = value::convert(ty, &literal)
            .map_err(|mismatch| error(at, TypeFault::Default(mismatch)))?;
        Ok(Some(default.value).filter(|default| !default.is_null()))
    }

    /// A value that means itself, written as JSON.
    fn literal(&mut self, out: &mut Vec<u8>) -> Result<(), TypeError> {
        self.blanks();
        let at = self.at;
        match self.peek() {
            Some('"') => write_string(out, &self.string()?),
            Some('[') => {
                self.at += 1;
                out.push(b'[');
                self.inside(|parser| parser.elements(out))?;
                out.push(b']');
            }
            Some('{') => {
                let mut members = BTreeMap::new();
                self.inside(|parser| {
                    parser.entries(|parser, at, name| {
                        let mut member = Vec::new();
                        parser.literal(&mut member)?;
                        match members.insert(name.clone(), member) {
                            None => Ok(()),
                            Some(_) => Err(error(at, TypeFault::Repeated(name))),
                        }
                    })
                })?;
                out.push(b'{');
                for (index, (name, member)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(out, name);
                    out.push(b':');
                    out.extend_from_slice(member);
                }
                out.push(b'}');
            }
            Some('-' | '0'..='9') => {
                let end = self.text[at..].find(|char: char| !is_of_number(char));
                let end = end.map_or(self.text.len(), |end| at + end);
                let number = number::from_text(&self.text[at..end]);
                let number = number.ok_or_else(|| error(at, TypeFault::NotPlain))?;
                out.extend_from_slice(number.as_bytes());
                self.at = end;
            }
            Some(_) => match self.identifier() {
                Some(word @ ("true" | "false" | "null")) => out.extend_from_slice(word.as_bytes()),
                Some(_) => return Err(error(at, TypeFault::NotPlain)),
                None => return Err(self.expected("a plain value")),
            },
            None => return Err(self.expected("a plain value")),
        }
        Ok(())
    }

    fn elements(&mut self, out: &mut Vec<u8>) -> Result<(), TypeError> {
        let mut first = true;
        while !self.takes(']') {
            if !first {
                out.push(b',');
            }
            first = false;
            self.literal(out)?;
            if !self.takes(',') {
                return self.expect(']', "`,` or `]`");
            }
        }
        Ok(())
    }

    /// `{ key = …, key = … }`: `entry` takes what stands behind each `=`, and is told where
    /// its key stands.
    fn entries(
        &mut self,
        mut entry: impl FnMut(&mut Self, usize, String) -> Result<(), TypeError>,
    ) -> Result<(), TypeError> {
        self.expect('{', "`{`")?;
        loop {
            if self.takes('}') {
                return Ok(());
            }
            self.blanks();
            let at = self.at;
            let name = self.key()?;
            if !self.takes('=') && !self.takes(':') {
                return Err(self.expected("`=`"));
            }
            entry(self, at, name)?;
            let line_broke = self.blanks();
            if !self.takes(',') && !line_broke && self.peek() != Some('}') {
                return Err(self.expected("`,`, a line break or `}`"));
            }
        }
    }

    fn key(&mut self) -> Result<String, TypeError> {
        if self.peek() == Some('"') {
            return self.string();
        }
        match self.identifier() {
            Some(name) => Ok(name.to_owned()),
            None => Err(self.expected("a key or `}`")),
        }
    }

    fn identifier(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        if !rest.starts_with(begins_identifier) {
            return None;
        }
        let end = rest.find(|char| !continues_identifier(char)).unwrap_or(rest.len());
        self.at += end;
        Some(&rest[..end])
    }

    /// The characters of a quoted string. A template in it would have to be evaluated.
    fn string(&mut self) -> Result<String, TypeError> {
        let begun = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(char) = rest.chars().next() else {
                return Err(self.expected("`\"`"));
            };
            if rest.starts_with("$${") || rest.starts_with("%%{") {
                out.extend([char, '{']);
                self.at += 3;
                continue;
            }
            if rest.starts_with("${") || rest.starts_with("%{") {
                return Err(error(begun, TypeFault::NotPlain));
            }
            self.at += char.len_utf8();
            match char {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                '\n' => return Err(self.expected("`\"`")),
                char => out.push(char),
            }
        }
    }

    /// What the escape behind a backslash stands for: those of HCL, and of JSON.
    fn escape(&mut self) -> Result<char, TypeError> {
        let wrong = error(self.at, TypeFault::Escape);
        let Some(char) = self.peek() else { return Err(wrong) };
        self.at += char.len_utf8();
        let digits = match char {
            '"' | '\\' | '/' => return Ok(char),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            'u' => 4,
            'U' => 8,
            _ => return Err(wrong),
        };
        let code = self.text.get(self.at..self.at + digits);
        let code = code.filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        self.at += digits;
        code.and_then(char::from_u32).ok_or(wrong)
    }

    fn inside<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, TypeError>,
    ) -> Result<T, TypeError> {
        if self.depth == DEPTH_MAX {
            return Err(error(self.at, TypeFault::TooDeep));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Steps over blanks and comments. Was a line break among them?
    fn blanks(&mut self) -> bool {
        let begun = self.at;
        loop {
            let rest = &self.text[self.at..];
            let to_line_end = || rest.find('\n').unwrap_or(rest.len());
            self.at += match rest.chars().next() {
                Some(blank) if blank.is_whitespace() => blank.len_utf8(),
                Some('#') => to_line_end(),
                Some('/') if rest.starts_with("//") => to_line_end(),
                Some('/') if rest.starts_with("/*") => {
                    rest.find("*/").map_or(rest.len(), |end| end + 2)
                }
                _ => return self.text[begun..self.at].contains('\n'),
            };
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Takes this mark if it comes next. Line breaks before it do not matter then.
    fn takes(&mut self, mark: char) -> bool {
        let before = self.at;
        self.blanks();
        let found = self.peek() == Some(mark);
        self.at = if found { self.at + mark.len_utf8() } else { before };
        found
    }

    fn expect(&mut self, mark: char, shown: &'static str) -> Result<(), TypeError> {
        match self.takes(mark) {
            true => Ok(()),
            false => Err(self.expected(shown)),
        }
    }

    fn expected(&mut self, expected: &'static str) -> TypeError {
        self.blanks();
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(char) => format!("`{}`", char.escape_debug()),
        };
        error(self.at, TypeFault::Expected { expected, found })
    }
}

fn is_of_number(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '+' | '.')
}

fn error(offset: usize, fault: TypeFault) -> TypeError {
    TypeError { offset, fault }
}
