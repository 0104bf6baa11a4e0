//! The same tool as `echo_text`, for large texts: they pass as they are, never unescaped.

use std::process::ExitCode;

use toolbus::author::{Failure, FailureKind, Raw, Tool, Tools};

const SCHEMA: &str =
    r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;

fn echo(arguments: Raw) -> Result<Raw, Failure> {
    let text = arguments.member("text").filter(|text| text.as_str().starts_with('"'));
    let message = "argument `text`: expected a string";
    text.ok_or_else(|| Failure::new(FailureKind::InvalidArguments, message))
}

fn main() -> ExitCode {
    let schema = Raw::parse(SCHEMA).expect("it was written by us");
    let echo = Tool::new("echo", echo).description("Say the text back.").input_schema(schema);
    Tools::new("echo_raw", "1.0.0").with(echo).run()
}
