//! `toolbus oracle invoke CONNECTION -`: one call for each line of standard input.

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use toolbus_proto::frame::lines::Lines;
use toolbus_proto::json::{Json, Kind};
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::signature::Function;
use toolbus_proto::oracle::{codec, felts};
use toolbus_proto::tool::{Failure, FailureKind};

use super::invoke::{Client, first_failed};
use super::outcome;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::{self, failure};
use crate::stdio;

pub(super) async fn run(
    executor: &Client,
    functions: &[Function],
    leniency: Leniency,
    line_bytes_max: usize,
) -> Result<(), Failed> {
    let cannot_read = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot read standard input").caused_by(&error)
    };
    let mut stdin = stdio::stdin().map_err(cannot_read)?;
    let mut input = BytesMut::new();
    let mut lines = Lines::new(line_bytes_max);
    let mut first = None;
    loop {
        let line = match lines.next(&mut input) {
            Some(line) => line,
            None if stdin.read(&mut input).await.map_err(cannot_read)? > 0 => continue,
            None => match lines.last(&mut input) {
                Some(line) => line,
                None => return first_failed(first),
            },
        };
        let exit = match line {
            Ok(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(line) => answer(executor, functions, leniency, &line).await?,
            Err(too_long) => show(executor, &Err(invalid(too_long.to_string())))?,
        };
        first = first.or(exit);
    }
}

/// Answers one line, and gives the exit code if it failed.
async fn answer(
    executor: &Client,
    functions: &[Function],
    leniency: Leniency,
    line: &Bytes,
) -> Result<Option<Exit>, Failed> {
    let asked = match Asked::read(functions, leniency, line) {
        Ok(asked) => asked,
        Err(failure) => return show(executor, &Err(failure)),
    };
    let outcome = executor.call(&asked.selector, asked.calldata).await;
    show(executor, &outcome::value(executor.form, asked.function, outcome))
}

fn show(executor: &Client, value: &Result<Json, Failure>) -> Result<Option<Exit>, Failed> {
    if let Some(line) = outcome::line(executor.form, value) {
        render::print(&line)?;
    }
    Ok(value.as_ref().err().map(failure::exit))
}

/// What one line asks for.
struct Asked<'a> {
    selector: String,
    calldata: Bytes,
    /// Its result is shown by this signature.
    function: Option<&'a Function>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedLine<'a> {
    selector: String,
    #[serde(borrow, default, deserialize_with = "present")]
    calldata: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    args: Option<&'a RawValue>,
}

/// A member that is there has a value, and be it null: only one that is not there is absent.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl<'a> Asked<'a> {
    fn read(
        functions: &'a [Function],
        leniency: Leniency,
        line: &[u8],
    ) -> Result<Asked<'a>, Failure> {
        // Checked first: nesting is bounded, and whatever serde takes out of it is sound.
        let json = Json::parse(Bytes::copy_from_slice(line))
            .map_err(|error| invalid(error.to_string()))?;
        // Serde would also take an array for the members in their order.
        if json.kind() != Kind::Object {
            let message = "a call is an object, `{\"selector\":…,\"calldata\":[…]}`";
            return Err(invalid(message.to_owned()));
        }
        let AskedLine { selector, calldata, args } =
            json.read().map_err(|error| invalid(format!("not a call: {error}")))?;
        let (found, function) = match (calldata, args) {
            (Some(_), Some(_)) => {
                return Err(invalid("a call has `calldata` or `args`, not both".to_owned()));
            }
            (None, None) => (Vec::new(), None),
            (Some(calldata), None) => {
                let found = felts::read(calldata.get(), leniency);
                (found.map_err(|error| invalid(error.to_string()))?, None)
            }
            (None, Some(args)) => {
                let function = functions.iter().find(|function| function.name() == selector);
                let function = function.ok_or_else(|| {
                    invalid(format!(
                        "`args` need a signature, and `--fn` gives none for `{selector}`"
                    ))
                })?;
                let found = codec::encode_args(function, args.get());
                (found.map_err(|error| invalid(error.to_string()))?, Some(function))
            }
        };
        let mut calldata = Vec::new();
        felts::write(&found, &mut calldata);
        Ok(Asked { selector, calldata: calldata.into(), function })
    }
}

fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::InvalidArguments, message)
}
