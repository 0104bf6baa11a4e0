//! How the other files evaluate.

use std::io;
use std::path::Path;

use serde_json::Value as Json;
use toolbus_orchard::diagnostic::{Code, FileId, Problem};
use toolbus_orchard::expr::{
    self, Files, Impure, Random, Reference, Resolved, Scope, Source, evaluate,
};
use toolbus_orchard::value::{Type, Value};

/// Names for tests: `u` is unknown, `us` an unknown string, `ul` an unknown list of strings, `uo`
/// an unknown object with `a` (number), `n` is null, `s` is the sensitive text `secret`.
pub(crate) struct Names;

impl Scope for Names {
    fn variable(&self, reference: &Reference, at: &Source<'_>) -> Result<Resolved, Problem> {
        let unknown = |text: &str| {
            Value::unknown(toolbus_proto::orchard::types::parse(text).expect("a type"))
        };
        let value = match reference.root.as_str() {
            "u" => Value::unknown(Type::Any),
            "us" => unknown("string"),
            "un" => unknown("number"),
            "ub" => unknown("bool"),
            "ul" => unknown("list(string)"),
            "um" => unknown("map(number)"),
            "uo" => unknown("object({a=number})"),
            "ut" => unknown("tuple([string,number])"),
            "n" => Value::NULL,
            "s" => Value::from("secret").sensitive(),
            "sb" => Value::bool(true).sensitive(),
            _ => {
                let problem = Problem::error(Code::UnknownReference, "no such name");
                return Err(problem.at(at.span(reference.span.clone())));
            }
        };
        Ok(Resolved { value, steps: 0 })
    }
}

/// A folder with `a.txt`, and `b.bin`, which is no text.
struct Folder;

impl Files for Folder {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/folder/a.txt") => Ok(b"in a\n".to_vec()),
            Some("/folder/b.bin") => Ok(vec![0xff, 0]),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.read(path, 0).is_ok()
    }
}

fn source(impure: Impure<'_>) -> Source<'_> {
    Source { file: FileId(0), folder: Path::new("/folder"), files: &Folder, impure }
}

/// As the plan does: impure functions are unknown.
pub(crate) fn planned(text: &str) -> Result<Value, Problem> {
    let expression = expr::parse(text, FileId(0))?;
    evaluate(&expression, &Names, &source(Impure::Unknown))
}

/// As the run does, at noon of a day in 2026.
pub(crate) fn run(text: &str, seed: u64, address: &str) -> Result<Value, Problem> {
    let expression = expr::parse(text, FileId(0))?;
    let random = Random::new(seed, address);
    evaluate(&expression, &Names, &source(Impure::Known { now: 1_790_000_000, random: &random }))
}

/// A line for tables: the value as it is shown, or `error CODE`.
pub(crate) fn shown(text: &str) -> String {
    match planned(text) {
        Ok(value) => value.shown(),
        Err(problem) => format!("error {}", problem.code),
    }
}

/// Each expression and what it is shown as.
pub(crate) fn check(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .map(|(text, expected)| (text, expected, shown(text)))
        .filter(|(_, expected, found)| found != *expected)
        .map(|(text, expected, found)| {
            let message = planned(text).err().map(|problem| problem.message).unwrap_or_default();
            format!("{text}\n  want {expected}\n  got  {found} {message}")
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Each expression and what its type is.
pub(crate) fn check_types(table: &[(&str, &str)]) {
    for (text, expected) in table {
        let found = planned(text).map(|value| value.ty().to_string());
        assert_eq!(found.as_deref(), Ok(*expected), "{text}");
    }
}

/// Numbers by their text: no float may stand between.
pub(crate) fn same(value: &Value, json: &Json) -> bool {
    let json = json.to_string();
    value.to_json().is_ok_and(|found| found.as_str() == json)
}
