//! What expressions may call: each file has the table of its functions first, then what they do.
//!
//! A function is given arguments that are counted, converted and known; its fault says what it
//! cannot work with. All of them are pure but for those marked so, and for the files, which
//! the caller hands in.

mod argument;
mod collections;
mod combine;
mod csv;
mod decimal;
mod digests;
mod encoding;
mod files;
mod format;
mod graphemes;
mod numbers;
mod patterns;
mod random;
mod sets;
mod text;
pub mod time;
mod types;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::diagnostic::Code;
use crate::expr::Source;
use crate::value::{NumberError, Type, Value};

pub(crate) use argument::argument;
use argument::is_list;

/// A function as expressions know it.
#[derive(Debug)]
pub(crate) struct Function {
    /// How it is called, such as `substr(s, offset, len)`.
    pub(crate) usage: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// What any number of further arguments are.
    pub(crate) rest: Option<Parameter>,
    /// How many of the last parameters may be left out.
    pub(crate) optional: usize,
    /// What it gives, where the arguments are not known yet.
    pub(crate) gives: fn(&[Value]) -> Type,
    pub(crate) sight: Sight,
    /// Does it ask the clock or chance?
    pub(crate) is_impure: bool,
    pub(crate) run: fn(&Call<'_>) -> Result<Value, Fault>,
}

/// What an argument must be, and is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// Anything, `null` too.
    Any,
    Text,
    Number,
    /// A list, set or tuple.
    List,
    /// The same, of texts.
    Texts,
    /// The same, of numbers.
    Numbers,
    /// A map or object.
    Map,
    /// Any of these.
    Collection,
}

/// Does a function look into the elements of a collection? If not, those may be unknown or
/// sensitive without the result being so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    Deep,
    Shallow,
}

/// What a function is given.
pub(crate) struct Call<'a> {
    pub(crate) arguments: &'a [Value],
    pub(crate) at: &'a Source<'a>,
    /// What the function did beyond looking at its arguments and making its result.
    pub(crate) steps: Cell<u64>,
}

/// Why there is no result.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Which argument it is about.
    pub(crate) argument: Option<usize>,
    pub(crate) help: Option<String>,
}

type Outcome = Result<Value, Fault>;

const fn function(
    usage: &'static str,
    parameters: &'static [Parameter],
    gives: fn(&[Value]) -> Type,
    run: fn(&Call<'_>) -> Outcome,
) -> Function {
    Function {
        usage,
        parameters,
        rest: None,
        optional: 0,
        gives,
        sight: Sight::Deep,
        is_impure: false,
        run,
    }
}

impl Function {
    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.usage.split('(').next().unwrap_or(self.usage)
    }

    const fn rest(mut self, parameter: Parameter) -> Function {
        self.rest = Some(parameter);
        self
    }

    const fn optional(mut self, count: usize) -> Function {
        self.optional = count;
        self
    }

    const fn shallow(mut self) -> Function {
        self.sight = Sight::Shallow;
        self
    }

    const fn impure(mut self) -> Function {
        self.is_impure = true;
        self
    }
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let tables = [
        numbers::FUNCTIONS,
        text::FUNCTIONS,
        format::FUNCTIONS,
        patterns::FUNCTIONS,
        collections::FUNCTIONS,
        combine::FUNCTIONS,
        sets::FUNCTIONS,
        encoding::FUNCTIONS,
        csv::FUNCTIONS,
        digests::FUNCTIONS,
        time::FUNCTIONS,
        types::FUNCTIONS,
        random::FUNCTIONS,
        files::FUNCTIONS,
    ];
    tables.into_iter().flatten().map(|function| (function.name(), function)).collect()
});

/// The function of this name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name).copied()
}

/// All names, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.keys().copied()
}

/// How each function is called, sorted by name.
pub fn usages() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.values().map(|function| function.usage)
}

impl Fault {
    /// The same, about this argument.
    fn of(mut self, argument: usize) -> Fault {
        self.argument = Some(argument);
        self
    }

    fn help(mut self, help: impl Into<String>) -> Fault {
        self.help = Some(help.into());
        self
    }

    /// Says nothing of the values, which are sensitive.
    pub(crate) fn hide(&mut self) {
        if !matches!(self.code, Code::TooBig | Code::NumberTooLarge | Code::DivisionByZero) {
            self.message = "the argument, which is sensitive, cannot be used".to_owned();
        }
    }
}

impl From<NumberError> for Fault {
    fn from(error: NumberError) -> Fault {
        let code = match error {
            NumberError::TooLarge => Code::NumberTooLarge,
            NumberError::DivisionByZero => Code::DivisionByZero,
            NumberError::NotDecimal => Code::BadArgument,
        };
        Fault { code, ..bad(error.to_string()) }
    }
}

fn bad(message: impl Into<String>) -> Fault {
    Fault { code: Code::BadArgument, message: message.into(), argument: None, help: None }
}

fn too_big() -> Fault {
    let message = "the result is too big: at most 1000000 elements and 16 MiB of text are allowed";
    Fault { code: Code::TooBig, ..bad(message) }
}

/// Text, unless there is too much of it.
fn text_of(text: impl Into<Arc<str>>) -> Outcome {
    Ok(Value::string(text))
}

/// What functions give.
mod gives {
    use super::{Type, Value};

    pub(super) fn text(_: &[Value]) -> Type {
        Type::String
    }

    pub(super) fn number(_: &[Value]) -> Type {
        Type::Number
    }

    pub(super) fn bool(_: &[Value]) -> Type {
        Type::Bool
    }

    pub(super) fn any(_: &[Value]) -> Type {
        Type::Any
    }

    pub(super) fn texts(_: &[Value]) -> Type {
        Type::List(Box::new(Type::String))
    }

    pub(super) fn numbers(_: &[Value]) -> Type {
        Type::List(Box::new(Type::Number))
    }

    /// A list of what the first argument is a list of.
    pub(super) fn list_like_first(arguments: &[Value]) -> Type {
        match arguments.first().map(Value::ty) {
            Some(Type::List(element) | Type::Set(element)) => Type::List(element),
            _ => Type::Any,
        }
    }

    /// An element of the first argument.
    pub(super) fn element_of_first(arguments: &[Value]) -> Type {
        match arguments.first().map(Value::ty) {
            Some(Type::List(element) | Type::Set(element) | Type::Map(element)) => *element,
            _ => Type::Any,
        }
    }
}
