//! Between the tools of the bus, which speak JSON, and oracle calls, which speak felts.
//!
//! A [`Binding`] is how one tool is offered to Cairo programs: by which signature, and how
//! felts become its arguments and its reply becomes felts.

use serde_json::value::RawValue;

use super::{
    codec::{self, ArgsForm, CodecError, CodecFault, Misfit, Whole, push_byte_array},
    felt::Felt,
    infer,
    signature::{Function, Type},
};
use crate::json::{Json, compact};

/// A tool as an oracle's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    function: Function,
    form: ArgsForm,
}

/// What a tool answered, when all of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Plain text.
    Text(&'a str),
    /// One JSON value.
    Json(&'a str),
}

impl Binding {
    /// A tool that is an oracle's function itself: nothing of its signature may be lost.
    pub fn of_oracle(function: Function) -> Binding {
        Binding { function, form: ArgsForm::Signature }
    }

    /// A tool whose signature was given by the user; its input schema says how it is called.
    pub fn declared(function: Function, input_schema: &str) -> Binding {
        let takes_all = function.params.len() == 1
            && function.params.at(0).is_some_and(|(name, param)| {
                name == infer::ALL_ARGUMENTS && matches!(function.types[*param], Type::Json)
            });
        let is_whole = takes_all && !infer::names_its_arguments(input_schema);
        let form = if is_whole { ArgsForm::Whole } else { ArgsForm::Plain };
        Binding { function, form }
    }

    /// A tool of which only the schemas are known. What they say that felts cannot say
    /// becomes `json`.
    pub fn from_schemas(tool: &str, input: &str, output: Option<&str>) -> Binding {
        let function = infer::function(tool, input, output);
        let form = match infer::names_its_arguments(input) {
            true => ArgsForm::Plain,
            false => ArgsForm::Whole,
        };
        Binding { function, form }
    }

    /// The signature it is offered by.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The arguments of a call, as the tool takes them.
    pub fn arguments(&self, calldata: &[Felt]) -> Result<String, CodecError> {
        codec::decode_args(&self.function, self.form, calldata)
    }

    /// The result of a call.
    pub fn felts(&self, answer: Answer<'_>) -> Result<Vec<Felt>, CodecError> {
        let fail = |fault: CodecFault| Misfit::from(fault).of(Whole::Result);
        match (&self.function.types[self.function.result], answer) {
            (Type::ByteArray, Answer::Text(text)) => Ok(byte_array(text)),
            // Between two oracles it is one of two ways to write a ByteArray; every other
            // tool means what it says, and it is passed on as text.
            (Type::ByteArray, Answer::Json(value))
                if self.form != ArgsForm::Signature && !value.trim_start().starts_with('"') =>
            {
                Ok(byte_array(&compact(value)))
            }
            (Type::Json, Answer::Text(text)) => {
                codec::encode_result(&self.function, Json::of(text).as_str())
            }
            (_, Answer::Text(text)) => {
                let value: &RawValue =
                    serde_json::from_str(text).map_err(|_| fail(CodecFault::NotJson))?;
                codec::encode_result(&self.function, value.get())
            }
            (_, Answer::Json(value)) => codec::encode_result(&self.function, value),
        }
    }
}

fn byte_array(text: &str) -> Vec<Felt> {
    let mut felts = Vec::new();
    push_byte_array(text.as_bytes(), &mut felts);
    felts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{
        felt::Leniency,
        felts, known,
        signature::{self, parse},
    };

    fn list(text: &str) -> Vec<Felt> {
        felts::read_words(text.split(',').filter(|word| !word.is_empty()), Leniency::Strict)
            .unwrap()
    }

    #[test]
    fn arguments_are_what_the_tool_expects() {
        let one_json = list("0x0,0x7b7d,0x2");
        let whole = Binding::from_schemas("t", "{}", None);
        assert_eq!(whole.arguments(&one_json).unwrap(), "{}");
        let named = r#"{"properties":{"arguments":{}},"required":["arguments"]}"#;
        let by_name = Binding::from_schemas("t", named, None);
        assert_eq!(by_name.arguments(&one_json).unwrap(), r#"{"arguments":{}}"#);

        let echo = known::builtin("echo").unwrap();
        assert_eq!(Binding::declared(echo.clone(), "{}").arguments(&one_json).unwrap(), "{}");
        let by_name = Binding::declared(echo, named);
        assert_eq!(by_name.arguments(&one_json).unwrap(), r#"{"arguments":{}}"#);

        let fail = Binding::declared(known::builtin("fail").unwrap(), r#"{"properties":{}}"#);
        assert_eq!(fail.arguments(&list("0x0,0x61,0x1,0x1")).unwrap(), r#"{"message":"a"}"#);
    }

    #[test]
    fn an_answer_becomes_the_felts_of_its_type() {
        let abc = "0x0,0x616263,0x3";
        for (ty, answer, want) in [
            ("ByteArray", Answer::Text("abc"), abc),
            ("ByteArray", Answer::Json(r#""abc""#), abc),
            ("ByteArray", Answer::Json("[1, 2]"), "0x0,0x5b312c325d,0x5"),
            ("json", Answer::Text("1"), "0x0,0x223122,0x3"),
            ("json", Answer::Json("1"), "0x0,0x31,0x1"),
            ("u8", Answer::Text(" 7 "), "0x7"),
            ("u8", Answer::Json("7"), "0x7"),
            ("Option<ByteArray>", Answer::Json(r#""abc""#), "0x0,0x0,0x616263,0x3"),
        ] {
            let function = signature::parse(&format!("f() -> {ty}")).unwrap().remove(0);
            let binding = Binding::declared(function, "{}");
            assert_eq!(binding.felts(answer).unwrap(), list(want), "{ty} {answer:?}");
        }
        let number = Binding::declared(parse("f() -> u8").unwrap().remove(0), "{}");
        let error = number.felts(Answer::Text("many")).unwrap_err();
        assert_eq!(error.to_string(), "the result is not JSON");
        let error = number.felts(Answer::Json(r#""many""#)).unwrap_err();
        assert_eq!(error.to_string(), r#"the result must be an integer of type u8, not "many""#);
    }

    #[test]
    fn bytes_survive_the_way_from_oracle_to_oracle() {
        let bytes = Answer::Json(r#"{"bytes":"ff"}"#);
        let function = parse("f() -> ByteArray").unwrap().remove(0);
        let oracle = Binding::of_oracle(function.clone());
        assert_eq!(oracle.felts(bytes).unwrap(), list("0x0,0xff,0x1"));
        let other = Binding::declared(function, "{}");
        assert_eq!(other.felts(bytes).unwrap(), list("0x0,0x7b226279746573223a226666227d,0xe"));
    }
}
