//! `shell:` as an oracle of our own: what may be asked of it and how it answers (`docs/protocols/oracle.md` 11).
//!
//! It has one function and runs nothing by itself: `child::shell` of the crate `toolbus` does.

use std::sync::{Arc, LazyLock};

use super::codec::{self, CodecError, CodecFault, Misfit, Reader, Whole, push_byte_array};
use super::felt::{Felt, Leniency};
use super::signature::Function;
use super::{felts, functions, known};
use crate::json::{Json, write_string};
use crate::oracle::WIRE;
use crate::tool::{Code, Failure, FailureKind, Outcome, ToolName, ToolSpec, What};

static EXEC: LazyLock<Function> = LazyLock::new(known::shell_exec);

/// A command that a caller wants to be run, and how the answer is to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    command: String,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As one JSON value, for a caller of the tool.
    Value,
    /// As felts, for a caller that speaks the oracle's wire.
    Felts,
}

impl Exec {
    /// The one tool of `shell:`.
    pub fn tools() -> Arc<[ToolSpec]> {
        Arc::new([functions::tool(&EXEC)])
    }

    /// What a call asks for, if it can be asked.
    pub fn read(what: &What, leniency: Leniency) -> Result<Exec, Failure> {
        match what {
            What::Tool { name, args } => Exec::from_args(name, args.as_ref()),
            What::Native { wire: WIRE, method, body } => {
                let selector = String::from_utf8_lossy(method);
                let calldata = String::from_utf8_lossy(body);
                let calldata = felts::read(&calldata, leniency)
                    .map_err(|error| invalid_params(error.to_string()))?;
                Exec::from_felts(&selector, &calldata)
            }
            What::Native { .. } | What::Tools => {
                let message = "the shell has no place for such a call";
                Err(Failure::new(FailureKind::InvalidArguments, message))
            }
        }
    }

    /// The same for a caller that has the felts in its hands.
    pub fn from_felts(selector: &str, calldata: &[Felt]) -> Result<Exec, Failure> {
        if selector != EXEC.name() {
            let mut message = b"unknown selector: ".to_vec();
            write_string(&mut message, selector);
            message.extend_from_slice(br#", this oracle provides: "exec""#);
            return Err(invalid_params(String::from_utf8_lossy(&message).into_owned()));
        }
        let command = command(calldata).map_err(|error| invalid_params(error.to_string()))?;
        Ok(Exec { command, form: Form::Felts })
    }

    fn from_args(name: &ToolName, args: Option<&Json>) -> Result<Exec, Failure> {
        if name.as_str() != EXEC.name() {
            let message = format!("no such function: `{name}`");
            return Err(Failure::new(FailureKind::UnknownTool, message));
        }
        let args = args.filter(|args| !args.is_null()).map_or("{}", Json::as_str);
        let command = codec::encode_args(&EXEC, args).and_then(|calldata| command(&calldata));
        let command = command
            .map_err(|error| Failure::new(FailureKind::InvalidArguments, error.to_string()))?;
        Ok(Exec { command, form: Form::Value })
    }

    /// What is to be run.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The answer, once the command has been run.
    pub fn outcome(&self, code: i32, stdout: &[u8]) -> Result<Outcome, Failure> {
        let felts = Exec::felts(code, stdout);
        let text = match self.form {
            // Bytes that are no text take twice their size, which may be too much.
            Form::Value => codec::decode_result(&EXEC, &felts)
                .map_err(|error| Failure::new(FailureKind::TooLarge, error.to_string()))?
                .into_bytes(),
            Form::Felts => {
                let mut text = Vec::new();
                felts::write(&felts, &mut text);
                text
            }
        };
        Ok(Outcome::Value(Json::from_trusted(text)))
    }

    /// The answer as felts.
    pub fn felts(code: i32, stdout: &[u8]) -> Vec<Felt> {
        let size = Felt::from(u128::from(code.unsigned_abs()));
        let mut felts = vec![if code < 0 { size.negated() } else { size }];
        push_byte_array(stdout, &mut felts);
        felts
    }
}

/// The only argument. A shell takes any bytes, but ours is handed text.
fn command(calldata: &[Felt]) -> Result<String, CodecError> {
    let mut reader = Reader::new(calldata);
    let read = |reader: &mut Reader<'_>| {
        let bytes = reader.byte_array()?;
        if !reader.rest().is_empty() {
            return Err(CodecFault::FeltLeftOver { index: reader.index() });
        }
        String::from_utf8(bytes).map_err(|_| CodecFault::TextNotUtf8 { index: 0 })
    };
    read(&mut reader)
        .map_err(|fault| Misfit::from(fault).in_member("command").of(Whole::Parameters))
}

/// We are the oracle here, and it is what an oracle would say.
fn invalid_params(message: String) -> Failure {
    Failure {
        code: Some(Code::Number(-32602)),
        from_peer: true,
        ..Failure::new(FailureKind::InvalidArguments, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn felts_of(text: &str) -> Vec<Felt> {
        felts::read(text, Leniency::Strict).unwrap()
    }

    fn native(method: &'static str, body: &'static str) -> What {
        What::Native { wire: WIRE, method: method.into(), body: body.into() }
    }

    #[test]
    fn felts_in_felts_out() {
        let exec = Exec::read(&native("exec", r#"["0x0","0x6c73","0x2"]"#), Leniency::Strict);
        let exec = exec.unwrap();
        assert_eq!(exec.command(), "ls");
        let answer = Json::from_trusted(r#"["0x7f","0x0","0x6869","0x2"]"#);
        assert_eq!(exec.outcome(127, b"hi").unwrap(), Outcome::Value(answer));
    }

    #[test]
    fn json_in_json_out() {
        let args = Some(Json::from_trusted(r#"{"command":"ls"}"#));
        let what = What::Tool { name: "exec".into(), args };
        let exec = Exec::read(&what, Leniency::Strict).unwrap();
        assert_eq!(exec.command(), "ls");
        let shown = |code, stdout| match exec.outcome(code, stdout) {
            Ok(Outcome::Value(json)) => json.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(0, b"hi\n"), r#"[0,"hi\n"]"#);
        assert_eq!(shown(-1, b"\xff"), r#"[-1,{"bytes":"ff"}]"#);
    }

    #[test]
    fn we_refuse_as_an_oracle_does() {
        for (method, body, want) in [
            ("x", "[]", r#"unknown selector: "x", this oracle provides: "exec""#),
            ("exec", "[]", "parameter `command` needs felt 0, which is missing"),
            (
                "exec",
                r#"["0x0","0x0","0x0","0x1"]"#,
                "parameter `command` ends before felt 3, which is left over",
            ),
            ("exec", r#"["10"]"#, r#"felt 0 must begin with 0x: "10""#),
        ] {
            let failure = Exec::read(&native(method, body), Leniency::Strict).unwrap_err();
            assert_eq!(failure.message, want);
            assert_eq!(failure.code, Some(Code::Number(-32602)));
            assert!(failure.from_peer);
        }
        let not_text = felts_of(r#"["0x0","0xff","0x1"]"#);
        let failure = Exec::from_felts("exec", &not_text).unwrap_err();
        assert_eq!(
            failure.message,
            "parameter `command` must be UTF-8, but the text that begins at felt 0 is not"
        );
    }
}
