//! The functions that are known of an oracle, and what calling one of them means in felts.
//!
//! They come from the config or from the oracle's own `ready`; the config wins (H1). Whatever
//! is known, a caller that speaks felts itself can call any selector.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::felt::Leniency;
use super::felts;
use super::signature::{self, Function};
use crate::channel::Notice;
use crate::json::{Json, Kind};
use crate::jsonrpc::kind;
use crate::tool::{Failure, FailureKind, Outcome, ToolSpec, What, Wire};

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
pub(super) struct Prepared {
    pub(super) selector: String,
    /// The text of an array of felts.
    pub(super) calldata: Bytes,
    pub(super) reading: Reading,
}

/// What the felts of an answer mean to the caller.
#[derive(Debug, Clone)]
pub(super) enum Reading {
    /// Just felts.
    Felts,
}

impl Functions {
    /// What the config knows.
    pub fn from_config(functions: impl IntoIterator<Item = Function>) -> Functions {
        let known = |function| Known { function: Arc::new(function), from_config: true };
        let by_name = functions
            .into_iter()
            .map(|function| (function.name().to_owned(), known(function)))
            .collect();
        Functions { by_name }
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Function> {
        self.by_name.values().map(|known| &*known.function)
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
        [].into()
    }

    /// Makes a call into a selector and felts.
    pub(super) fn prepare(&self, what: &What) -> Result<Prepared, Failure> {
        match what {
            What::Native { wire: Wire::Oracle, method, body } => Ok(Prepared {
                selector: String::from_utf8_lossy(method).into_owned(),
                calldata: body.clone(),
                reading: Reading::Felts,
            }),
            What::Native { wire, .. } => {
                let message = format!("an oracle cannot take a native call of {wire:?}");
                Err(Failure::new(FailureKind::InvalidArguments, message))
            }
            What::Tool { name, .. } => {
                let message = format!("no such function: `{name}`");
                Err(Failure::new(FailureKind::UnknownTool, message))
            }
            What::Tools => Err(Failure::new(FailureKind::UnknownTool, "not on this wire")),
        }
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
                let shown = crate::shown::printable(other.as_bytes(), 80);
                return Err(broke(format!("the result must be an array of felts, not {shown}")));
            }
        };
        let felts = felts::canonical(raw, leniency).map_err(|error| broke(error.to_string()))?;
        let text = match felts {
            std::borrow::Cow::Borrowed(text) if !text.is_empty() && raw != "[]" => {
                Json::part_of(line, text)
            }
            text => Json::from_trusted(text.into_owned()),
        };
        match self {
            Reading::Felts => Ok(Outcome::Value(text)),
        }
    }
}
