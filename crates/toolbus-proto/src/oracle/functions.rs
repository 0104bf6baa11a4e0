//! The functions that are known of an oracle, and what calling one of them means in felts.
//!
//! They come from the config or from the oracle's own `ready`; the config wins (H1). Whatever
//! is known, any selector can be called by the generic tool `invoke`, or natively by a caller
//! that speaks felts itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::codec::{self, Reader};
use super::felt::{Felt, Leniency};
use super::signature::{self, Function};
use super::{felts, known, schema};
use crate::channel::Notice;
use crate::json::{Json, Kind};
use crate::jsonrpc::kind;
use crate::oracle::WIRE;
use crate::printable::printable;
use crate::tool::{Failure, FailureKind, Native, Outcome, ToolName, ToolSpec, What};

/// The functions known of one oracle, by name.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    by_name: BTreeMap<String, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    function: Arc<Function>,
    from_config: bool,
}

/// A call in the terms of the wire.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) selector: Cow<'a, str>,
    /// The text of an array of felts.
    pub(super) calldata: Bytes,
    pub(super) reading: Reading,
}

/// What the felts of an answer mean to the caller.
#[derive(Debug, Clone)]
pub(super) enum Reading {
    /// Just felts.
    Felts,
    /// What this function gives.
    ResultOf(Arc<Function>),
}

/// The tool that calls any selector.
static INVOKE: LazyLock<Function> = LazyLock::new(known::generic_invoke);

impl Functions {
    /// What the config knows. Of two of one name the last counts.
    pub fn from_config(functions: impl IntoIterator<Item = Function>) -> Functions {
        let known = |function| Known { function: Arc::new(function), from_config: true };
        let by_name = functions
            .into_iter()
            .map(|function: Function| (function.name().to_owned(), known(function)))
            .collect();
        Functions { by_name }
    }

    /// The function of this name.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name).map(|known| &*known.function)
    }

    /// How many there are, without the generic `invoke`.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All of them, sorted by name; the generic `invoke` among them.
    pub fn iter(&self) -> impl Iterator<Item = &Function> {
        let known = self.by_name.values().map(|known| &*known.function);
        let generic = (!self.by_name.contains_key(INVOKE.name())).then_some(&*INVOKE);
        known.chain(generic)
    }

    /// The oracle offers a text of signatures.
    pub(super) fn offer(&mut self, text: &str) -> Vec<Notice> {
        let functions = match signature::parse(text) {
            Ok(functions) => functions,
            Err(error) => {
                return vec![Notice::LeftOut { text: text.to_owned(), why: error.to_string() }];
            }
        };
        let mut notices = Vec::new();
        for function in functions {
            let name = function.name().to_owned();
            if self.by_name.get(&name).is_some_and(|known| known.from_config) {
                continue;
            }
            notices.push(Notice::Offered(function.canonical()));
            self.by_name.insert(name, Known { function: Arc::new(function), from_config: false });
        }
        notices
    }

    /// The functions as tools of the hub.
    pub(super) fn tools(&self) -> Arc<[ToolSpec]> {
        self.iter().map(tool).collect()
    }

    /// Makes a call into a selector and felts.
    pub(super) fn prepare<'a>(&self, what: &'a What) -> Result<Prepared<'a>, Failure> {
        match what {
            What::Native { wire: WIRE, method, body } => Ok(Prepared {
                selector: String::from_utf8_lossy(method),
                calldata: body.clone(),
                reading: Reading::Felts,
            }),
            What::Tool { name, args } => self.prepare_tool(name, args.as_ref()),
            What::Native { wire, .. } => Err(refused(format!("a native call of {wire:?}"))),
            What::Tools => Err(refused("a question for tools".to_owned())),
        }
    }

    fn prepare_tool<'a>(
        &self,
        name: &'a ToolName,
        args: Option<&Json>,
    ) -> Result<Prepared<'a>, Failure> {
        let args = args.filter(|args| !args.is_null());
        let args = args.map_or("{}", Json::as_str);
        let invalid = |error: String| Failure::new(FailureKind::InvalidArguments, error);
        let encode = |function: &Function| {
            codec::encode_args(function, args).map_err(|error| invalid(error.to_string()))
        };
        if let Some(known) = self.by_name.get(name.as_str()) {
            return Ok(Prepared {
                selector: name.as_str().into(),
                calldata: text_of(&encode(&known.function)?),
                reading: Reading::ResultOf(known.function.clone()),
            });
        }
        if name.as_str() != INVOKE.name() {
            let message = format!("no such function: `{name}`");
            return Err(Failure::new(FailureKind::UnknownTool, message));
        }
        let felts = encode(&INVOKE)?;
        let mut reader = Reader::new(&felts);
        let selector = reader.byte_array().map_err(|error| invalid(error.to_string()))?;
        let selector = String::from_utf8(selector)
            .map_err(|_| invalid("argument `selector` must be text".to_owned()))?;
        // Behind the selector: how many, and the felts themselves.
        let calldata = text_of(&reader.rest()[1..]);
        Ok(Prepared { selector: selector.into(), calldata, reading: Reading::Felts })
    }
}

impl Reading {
    /// What the `result` of an answer is to the caller (I2). `line` is the buffer it stands in.
    pub(super) fn outcome(
        &self,
        line: &Bytes,
        result: Option<&str>,
        leniency: Leniency,
    ) -> Result<Outcome, Failure> {
        let broke = |message: String| Failure::new(FailureKind::BrokeProtocol, message);
        let raw = match result.map(|raw| (kind(raw), raw)) {
            None | Some((Kind::Null, _)) => "[]",
            Some((Kind::Array, raw)) => raw,
            Some((_, other)) => {
                let shown = printable(other.as_bytes(), 80);
                return Err(broke(format!("the result must be an array of felts, not {shown}")));
            }
        };
        match self {
            Reading::Felts => {
                let felts = felts::canonical(raw, leniency);
                Ok(Outcome::Value(match felts.map_err(|error| broke(error.to_string()))? {
                    Cow::Borrowed(_) if result.is_none() => Json::from_trusted("[]"),
                    Cow::Borrowed("[]") => Json::from_trusted("[]"),
                    Cow::Borrowed(text) => Json::part_of(line, text),
                    Cow::Owned(text) => Json::from_trusted(text),
                }))
            }
            Reading::ResultOf(function) => {
                let felts = felts::read(raw, leniency).map_err(|error| broke(error.to_string()))?;
                let value = codec::decode_result(function, &felts);
                let value = value.map_err(|error| broke(error.to_string()))?;
                Ok(Outcome::Value(Json::from_trusted(value)))
            }
        }
    }
}

/// One function as a tool of the hub.
pub(super) fn tool(function: &Function) -> ToolSpec {
    let input = Json::from_trusted(schema::input_schema(function));
    let output = Json::from_trusted(schema::output_schema(function));
    let native = Native { wire: WIRE, text: function.canonical().into() };
    let spec = ToolSpec::new(function.name(), input);
    ToolSpec { output: Some(output), native: Some(native), ..spec }
}

fn text_of(felts: &[Felt]) -> Bytes {
    let mut text = Vec::new();
    felts::write(felts, &mut text);
    text.into()
}

fn refused(what: String) -> Failure {
    let message = format!("the oracle wire has no place for {what}");
    Failure::new(FailureKind::InvalidArguments, message)
}
