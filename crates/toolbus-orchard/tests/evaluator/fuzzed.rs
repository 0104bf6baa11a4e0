//! Any text as an expression, for the fuzzer and, over its seeds, as a plain test.
//!
//! This file is also compiled into `fuzz/`, so it depends on nothing beside it.

use std::io;
use std::path::Path;

use toolbus_orchard::diagnostic::{FileId, Problem};
use toolbus_orchard::expr::{
    Files, Impure, Random, Reference, Resolved, Scope, Source, evaluate, parse, references,
};
use toolbus_orchard::value::{Type, Value, convert};

/// Some names mean a known value, some an unknown one, some a sensitive one.
struct Names {
    is_known: bool,
}

impl Scope for Names {
    fn variable(&self, reference: &Reference, _: &Source<'_>) -> Result<Resolved, Problem> {
        let value = match reference.root.as_bytes().first() {
            Some(b's') => Value::from("secret").sensitive(),
            Some(b'n') => Value::NULL,
            _ if self.is_known => Value::tuple(vec![Value::from("a"), Value::bool(true)]),
            _ => Value::unknown(Type::Any),
        };
        Ok(Resolved { value, steps: reference.path.len().min(1) })
    }
}

struct OneFile;

impl Files for OneFile {
    fn read(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(b"a,b\n1,2\n".to_vec())
    }

    fn exists(&self, _: &Path) -> bool {
        true
    }
}

/// Reads the bytes as an expression and evaluates it as the plan and the run do. What holds of
/// every value must hold of this one.
pub(crate) fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(expression) = parse(text, FileId(0)) else { return };
    for reference in references(&expression) {
        assert!(reference.span.end <= text.len());
    }
    let random = Random::new(1, "action.a.b");
    let folder = Path::new("");
    let impure = Impure::Known { now: 0, random: &random };
    for (is_known, impure) in [(true, impure), (false, Impure::Unknown)] {
        let source = Source { file: FileId(0), folder, files: &OneFile, impure };
        match evaluate(&expression, &Names { is_known }, &source) {
            Ok(value) => sound(&value),
            Err(problem) => {
                assert!(!problem.message.is_empty());
                assert!(!problem.message.contains("secret") || text.contains("secret"));
                let span = problem.span.expect("a place");
                assert!(span.range.start <= span.range.end && span.range.end <= text.len());
            }
        }
    }
}

fn sound(value: &Value) {
    assert!(!value.summary().is_too_big());
    assert_eq!(convert(value, &value.ty()).map(|same| same == *value), Ok(true));
    assert_eq!(value.to_json().is_err(), value.contains_unknown());
    if let Ok(json) = value.to_json() {
        let again = Value::from_json(&Type::Any, &json).expect("our own JSON");
        assert_eq!(again.to_json().expect("is known"), json);
    }
    let _ = value.shown();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn seeds() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/orchard_expressions");
        let mut count = 0;
        for entry in std::fs::read_dir(seeds).unwrap() {
            let seed = std::fs::read(entry.unwrap().path()).unwrap();
            // Cut at every byte, as a fuzzer would.
            (0..=seed.len()).for_each(|end| super::expression(&seed[..end]));
            count += 1;
        }
        assert!(5 <= count);
    }

    /// Pieces of the language in any order.
    fn pieces() -> impl Strategy<Value = String> {
        let names: Vec<&str> = toolbus_orchard::function::names().collect();
        let marks = vec![
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            ".",
            "...",
            "? ",
            " : ",
            "=> ",
            " = ",
            "\"",
            "${",
            "%{",
            "~}",
            "}",
            " + ",
            " - ",
            " * ",
            " / ",
            " % ",
            " == ",
            " && ",
            " || ",
            "!",
            "[*]",
            ".*",
            "for x in ",
            " if ",
            "\n",
            "<<E\n",
            "\nE\n",
            "x",
            "s",
            "n",
            "1",
            "0",
            "-1",
            "1e38",
            "0.5",
            "true",
            "null",
            "\"a\"",
            "\"é\"",
            "[1, 2]",
            "{ a = 1 }",
            "[for x in ",
            " : x]",
            "\"2026-01-01T00:00:00Z\"",
            "\"/a(b)/\"",
            "\"%5d\"",
        ];
        let call = (prop::sample::select(names), prop::collection::vec(argument(), 0..4))
            .prop_map(|(name, arguments)| format!("{name}({})", arguments.join(", ")));
        let piece = prop_oneof![prop::sample::select(marks).prop_map(str::to_owned), call];
        prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
    }

    fn argument() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "x",
            "s",
            "n",
            "u",
            "1",
            "-1",
            "0",
            "2.5",
            "1e38",
            "100000",
            "true",
            "\"\"",
            "\"a\"",
            "\"1h\"",
            "\"é,b\\n1,2\"",
            "\"2026-01-01T00:00:00Z\"",
            "\"[a-z]+(x)?\"",
            "\"%s %d\"",
            "\"YYYY\"",
            "\"{}\"",
            "[]",
            "[1, \"a\", null]",
            "[[1], [2, [3]]]",
            "{ a = 1, b = [\"c\"] }",
            "toset([2, 1])",
            "tolist([\"b\", \"a\"])",
            "tomap({ a = s })",
            "[\"a\"]...",
            "sensitive([1])",
            "null",
            "uuid()",
        ])
        .prop_map(str::to_owned)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn pieces_in_any_order(text in pieces()) {
            super::expression(text.as_bytes());
        }

        #[test]
        fn any_call(name in prop::sample::select(toolbus_orchard::function::names().collect::<Vec<_>>()), arguments in prop::collection::vec(argument(), 0..4)) {
            super::expression(format!("{name}({})", arguments.join(", ")).as_bytes());
        }
    }
}
