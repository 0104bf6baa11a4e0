//! The smallest MCP server that parses what it is asked: one tool, `echo`, whose text is passed on
//! as it was written. One thread that waits in reads and writes.

use std::io::{Write, stdin, stdout};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lines::Lines;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
    #[serde(borrow, rename = "protocolVersion")]
    version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

/// Serves until the client has closed its end; answers what came together in one write.
pub(crate) fn serve() {
    let (input, mut output) = (stdin(), stdout().lock());
    let mut lines = Lines::new();
    let mut answers = Vec::new();
    while lines.read(&input).is_ok_and(|count| count > 0) {
        while let Some(line) = lines.next() {
            answer(line, &mut answers);
        }
        // The line buffer of the standard library would copy and search it all again.
        let mut rest = &answers[..];
        while !rest.is_empty() {
            let count = rustix::io::retry_on_intr(|| rustix::io::write(&output, rest));
            let Ok(count) = count else { return };
            rest = &rest[count..];
        }
        answers.clear();
    }
    let _ = output.flush();
}

fn answer(line: &[u8], out: &mut Vec<u8>) {
    let request: Request<'_> = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => panic!("the client wrote no request: {error}"),
    };
    let Some(id) = request.id else { return };
    let params = request.params.as_ref();
    let _ = match request.method {
        "tools/call" => {
            let text = params.and_then(|params| params.arguments.as_ref()).map(|it| it.text.get());
            let text = text.unwrap_or("\"\"");
            write!(
                out,
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#
            )
        }
        "initialize" => {
            let version = params.and_then(|params| params.version);
            let version = version.map_or("\"2025-06-18\"", RawValue::get);
            write!(
                out,
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":{version},"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"0"}}}}}}"#
            )
        }
        method => write!(
            out,
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no {method} here"}}}}"#
        ),
    };
    out.push(b'\n');
}
