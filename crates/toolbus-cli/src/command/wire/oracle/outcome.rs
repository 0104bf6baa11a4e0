//! How an oracle's answer is shown: felts, a value by its signature, or what Cairo receives.

use toolbus_proto::json::Json;
use toolbus_proto::oracle::felt::{Felt, Leniency};
use toolbus_proto::oracle::signature::Function;
use toolbus_proto::oracle::{cairo, codec, felts};
use toolbus_proto::tool::{Code, Failure, FailureKind, Outcome};

/// What one line of output looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The result itself; failures are not shown.
    Bare,
    /// `{"ok":…}` or `{"error":…}`.
    Tagged,
    /// The felts that the Cairo program receives, failures included.
    Cairo,
}

/// The felts of an answer, or the value they are by `function`.
pub(super) fn value(
    form: Form,
    function: Option<&Function>,
    outcome: Result<Outcome, Failure>,
) -> Result<Json, Failure> {
    let Outcome::Value(felts) = outcome? else {
        return Err(broke("expected an array of felts".to_owned()));
    };
    match function.filter(|_| form != Form::Cairo) {
        None => Ok(felts),
        Some(function) => {
            let value = codec::decode_result(function, &read(&felts)?);
            Ok(Json::from_trusted(value.map_err(|error| broke(error.to_string()))?))
        }
    }
}

/// The line that is printed, if there is one.
pub(super) fn line(form: Form, value: &Result<Json, Failure>) -> Option<String> {
    Some(match (form, value) {
        (Form::Bare, Ok(value)) => format!("{value}\n"),
        (Form::Bare, Err(_)) => return None,
        (Form::Tagged, Ok(value)) => format!("{{\"ok\":{value}}}\n"),
        (Form::Tagged, Err(failure)) => error_line(failure),
        (Form::Cairo, Ok(felts)) => text_of(&cairo::ok(&read(felts).unwrap_or_default())),
        (Form::Cairo, Err(failure)) => text_of(&cairo::error(&failure.message)),
    })
}

fn error_line(failure: &Failure) -> String {
    let mut error = format!("{{\"message\":{}", Json::of(&failure.message));
    match &failure.code {
        Some(Code::Number(code)) => error.push_str(&format!(",\"code\":{code}")),
        Some(Code::Word(code)) => error.push_str(&format!(",\"code\":{}", Json::of(code))),
        None => {}
    }
    if let Some(data) = &failure.detail {
        error.push_str(&format!(",\"data\":{}", data.compact()));
    }
    format!("{{\"error\":{error},\"kind\":\"{}\"}}}}\n", failure.kind)
}

fn text_of(felts: &[Felt]) -> String {
    let mut text = Vec::new();
    felts::write(felts, &mut text);
    text.push(b'\n');
    String::from_utf8(text).expect("felts are written in ASCII")
}

/// What we printed or checked before is read strictly: it is canonical.
fn read(felts: &Json) -> Result<Vec<Felt>, Failure> {
    felts::read(felts.as_str(), Leniency::Strict).map_err(|error| broke(error.to_string()))
}

fn broke(message: String) -> Failure {
    Failure::new(FailureKind::BrokeProtocol, message)
}
