//! Between what stands on the wire and what crosses the bus.
//!
//! Reading gives `None` for what the wire cannot mean: nested too deeply, odd hex digits, an
//! unknown kind of failure. Only the machines know what such a line is to them.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use toolbus_proto::channel::{AskId, Asked, Down, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{
    Call, CallOptions, Code, Failure, FailureKind, Outcome, Part, Piece, ToolSpec, Trace, What,
};

use super::WIRE;
use super::wire::{
    CallSays, CodeSays, FailureSays, Maybe, PartSays, SaysDown, SaysUp, ToolSays, Value,
};

impl SaysUp {
    /// A refusal is for the caller: the call cannot be said on this wire.
    pub(crate) fn of_call(call: &Call) -> Result<SaysUp, Failure> {
        let refuse = |why: &str| Err(Failure::new(FailureKind::InvalidArguments, why));
        match &call.what {
            What::Tools => Ok(SaysUp::Tools),
            What::Tool { name, args } => Ok(SaysUp::Call(CallSays {
                tool: name.as_str().to_owned(),
                args: args.as_ref().map(value),
                progress: call.options.progress,
                parts: call.options.sends_parts,
                trace: call.trace.as_ref().map(|trace| trace.parent().to_owned()),
            })),
            What::Native { wire, method, body } => {
                if *wire != WIRE {
                    return refuse("a native call of another wire");
                }
                let method = std::str::from_utf8(method).map(str::to_owned);
                match (method, Json::parse(body.clone())) {
                    (Ok(method), Ok(body)) => {
                        let body = value(&body);
                        Ok(SaysUp::Native { method, body })
                    }
                    _ => refuse("a native call here is a method in UTF-8 and a JSON value"),
                }
            }
        }
    }

    pub(crate) fn of_up(up: &Up) -> SaysUp {
        match up {
            Up::Part(part) => SaysUp::Part(PartSays::of(part)),
            Up::End(end) => SaysUp::End(maybe(end.as_ref())),
            Up::Answer(ask, answer) => SaysUp::Answer(ask.0, value(answer)),
            Up::Cancel(why) => SaysUp::Cancel(maybe(why.as_ref())),
        }
    }

    /// What it means to the answering side; nothing for a goodbye, which is no call's.
    pub(crate) fn into_asked(self, now: Instant) -> Option<Asked> {
        Some(match self {
            SaysUp::Call(says) => {
                let args = match says.args {
                    Some(args) => Some(json(&args)?),
                    None => None,
                };
                let mut call = Call::tool(now, says.tool.as_str(), args);
                call.trace = says.trace.and_then(|parent| Trace::read(&parent, None));
                call.options = CallOptions {
                    progress: says.progress,
                    sends_parts: says.parts,
                    ..CallOptions::default()
                };
                Asked::Call(call)
            }
            SaysUp::Tools => Asked::Call(Call::of(now, What::Tools)),
            SaysUp::Native { method, body } => {
                let what = What::Native {
                    wire: WIRE,
                    method: method.into(),
                    body: json(&body)?.as_bytes().clone(),
                };
                Asked::Call(Call::of(now, what))
            }
            SaysUp::Part(part) => Asked::Up(Up::Part(part.into_part()?)),
            SaysUp::End(end) => Asked::Up(Up::End(maybe_json(end)?)),
            SaysUp::Answer(ask, answer) => Asked::Up(Up::Answer(AskId(ask), json(&answer)?)),
            SaysUp::Cancel(why) => Asked::Up(Up::Cancel(maybe_json(why)?)),
            SaysUp::Bye => return None,
        })
    }
}

impl SaysDown {
    pub(crate) fn of(down: &Down) -> SaysDown {
        match down {
            Down::Begin { head, .. } => SaysDown::Begin(maybe(head.as_ref())),
            Down::Part(part) => SaysDown::Part(PartSays::of(part)),
            Down::Progress(progress) => SaysDown::Progress(value(progress)),
            Down::Log(log) => SaysDown::Log(value(log)),
            Down::Ask(ask, question) => SaysDown::Ask(ask.0, value(question)),
            Down::Done(Ok(Outcome::Value(json))) => SaysDown::Value(value(json)),
            Down::Done(Ok(Outcome::Text(text))) => SaysDown::Text(text.clone()),
            Down::Done(Ok(Outcome::End(end))) => SaysDown::End(maybe(end.as_ref())),
            Down::Done(Ok(Outcome::Native(body))) => match Json::parse(body.clone()) {
                Ok(body) => SaysDown::Native(value(&body)),
                Err(error) => SaysDown::failed(&Failure::new(
                    FailureKind::BrokeProtocol,
                    format!("the native answer is {error}"),
                )),
            },
            Down::Done(Ok(Outcome::Tools(tools))) => {
                SaysDown::Tools(tools.iter().map(ToolSays::of).collect())
            }
            Down::Done(Ok(_)) => SaysDown::failed(&Failure::new(
                FailureKind::BrokeProtocol,
                "an outcome that this wire cannot say",
            )),
            Down::Done(Err(failure)) => SaysDown::failed(failure),
        }
    }

    pub(crate) fn failed(failure: &Failure) -> SaysDown {
        SaysDown::Failed(FailureSays {
            kind: failure.kind.as_str().to_owned(),
            code: failure.code.clone().map(|code| match code {
                Code::Number(number) => CodeSays::Number(number),
                Code::Word(word) => CodeSays::Word(word),
            }),
            message: failure.message.clone(),
            detail: failure.detail.as_ref().map(value),
        })
    }

    /// What it means to the caller; nothing for a greeting, which is no call's.
    pub(crate) fn into_down(self) -> Option<Down> {
        Some(match self {
            SaysDown::Ready(_) => return None,
            SaysDown::Begin(head) => Down::Begin { head: maybe_json(head)?, parts: None },
            SaysDown::Part(part) => Down::Part(part.into_part()?),
            SaysDown::Progress(progress) => Down::Progress(json(&progress)?),
            SaysDown::Log(log) => Down::Log(json(&log)?),
            SaysDown::Ask(ask, question) => Down::Ask(AskId(ask), json(&question)?),
            SaysDown::Value(value) => Down::Done(Ok(Outcome::Value(json(&value)?))),
            SaysDown::Text(text) => Down::Done(Ok(Outcome::Text(text))),
            SaysDown::End(end) => Down::Done(Ok(Outcome::End(maybe_json(end)?))),
            SaysDown::Tools(tools) => {
                let tools = tools.into_iter().map(ToolSays::into_spec);
                Down::Done(Ok(Outcome::Tools(tools.collect::<Option<_>>()?)))
            }
            SaysDown::Native(body) => {
                Down::Done(Ok(Outcome::Native(json(&body)?.as_bytes().clone())))
            }
            SaysDown::Failed(says) => Down::Done(Err(says.into_failure()?)),
        })
    }
}

impl ToolSays {
    fn of(tool: &ToolSpec) -> ToolSays {
        ToolSays {
            name: tool.name.as_str().to_owned(),
            description: tool.description.clone(),
            input: value(&tool.input),
        }
    }

    fn into_spec(self) -> Option<ToolSpec> {
        let input = json(&self.input)?;
        Some(ToolSpec { description: self.description, ..ToolSpec::new(self.name.as_str(), input) })
    }
}

impl PartSays {
    fn of(part: &Part) -> PartSays {
        match part {
            Part::Text(text) => PartSays::Text(text.clone()),
            Part::Json(json) => PartSays::Json(value(json)),
            Part::Bytes(piece) => PartSays::Bytes {
                hex: piece.data.iter().map(|byte| format!("{byte:02x}")).collect(),
                media: piece.media_type.as_deref().map(str::to_owned),
                last: piece.last,
            },
        }
    }

    fn into_part(self) -> Option<Part> {
        Some(match self {
            PartSays::Text(text) => Part::Text(text),
            PartSays::Json(value) => Part::Json(json(&value)?),
            PartSays::Bytes { hex, media, last } => Part::Bytes(Piece {
                data: unhex(&hex)?.into(),
                media_type: media.map(Arc::from),
                len: None,
                last,
            }),
        })
    }
}

impl FailureSays {
    fn into_failure(self) -> Option<Failure> {
        let kind = FailureKind::ALL.into_iter().find(|kind| kind.as_str() == self.kind)?;
        Some(Failure {
            code: self.code.map(|code| match code {
                CodeSays::Number(number) => Code::Number(number),
                CodeSays::Word(word) => Code::Word(word),
            }),
            detail: match self.detail {
                Some(detail) => Some(json(&detail)?),
                None => None,
            },
            from_peer: true,
            ..Failure::new(kind, self.message)
        })
    }
}

fn value(json: &Json) -> Value {
    RawValue::from_string(json.as_str().to_owned()).expect("a `Json` is JSON")
}

fn json(value: &Value) -> Option<Json> {
    Json::parse(value.get().to_owned()).ok()
}

fn maybe(json: Option<&Json>) -> Maybe {
    json.map(|json| (value(json),))
}

/// `None` is no value that can be used, `Some(None)` no value at all.
fn maybe_json(maybe: Maybe) -> Option<Option<Json>> {
    match maybe {
        Some((value,)) => json(&value).map(Some),
        None => Some(None),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}
