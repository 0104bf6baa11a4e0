//! Files, which the caller reads, and the text of paths.

use std::io;
use std::path::PathBuf;

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, text_of};
use crate::diagnostic::{Code, excerpt};
use crate::value::{TEXT_BYTES_MAX, Value};

const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("file(path)", &[S], gives::text, |call| {
        let text = String::from_utf8(read(call, TEXT_BYTES_MAX)?);
        text_of(text.map_err(|_| {
            let fault = bad(format!("{} holds no text (UTF-8)", excerpt(call.text(0)))).of(0);
            fault.help("bytes are read by `filebase64(path)`")
        })?)
    }),
    function("fileexists(path)", &[S], gives::bool, |call| {
        Ok(Value::bool(call.at.files.exists(&path(call))))
    }),
    function("filebase64(path)", &[S], gives::text, |call| {
        text_of(super::encoding::base64(&read(call, TEXT_BYTES_MAX / 4 * 3)?))
    }),
    function("basename(p)", &[S], gives::text, |call| {
        let path = call.text(0).trim_end_matches('/');
        text_of(match (path, call.text(0)) {
            ("", "") => "",
            ("", _) => "/",
            (path, _) => path.rsplit('/').next().unwrap_or(path),
        })
    }),
    function("dirname(p)", &[S], gives::text, dirname),
    function("pathjoin(p…)", &[S], gives::text, pathjoin).rest(S),
];

/// Relative to the file that holds the call.
fn path(call: &Call<'_>) -> PathBuf {
    call.at.folder.join(call.text(0))
}

fn read(call: &Call<'_>, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    call.at.files.read(&path(call), bytes_max).map_err(|error| {
        let fault = bad(format!("cannot read {}: {error}", excerpt(call.text(0)))).of(0);
        match error.kind() {
            io::ErrorKind::FileTooLarge => Fault { code: Code::TooBig, ..fault },
            io::ErrorKind::NotFound => {
                fault.help("paths are relative to the folder of the file that holds the call")
            }
            _ => fault,
        }
    })
}

fn dirname(call: &Call<'_>) -> Outcome {
    let path = call.text(0).trim_end_matches('/');
    text_of(match path.rsplit_once('/') {
        Some((folder, _)) => match folder.trim_end_matches('/') {
            "" => "/",
            folder => folder,
        },
        None if path.is_empty() && call.text(0).starts_with('/') => "/",
        None => ".",
    })
}

/// With one slash between the parts; one that begins at the root stands for itself.
fn pathjoin(call: &Call<'_>) -> Outcome {
    let mut joined = String::new();
    for part in call.arguments.iter().filter_map(Value::as_str).filter(|part| !part.is_empty()) {
        if part.starts_with('/') {
            joined.clear();
        } else if !joined.is_empty() && !joined.ends_with('/') {
            joined.push('/');
        }
        joined.push_str(part);
    }
    text_of(joined)
}
