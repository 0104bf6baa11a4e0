//! Every line of `transcripts/orchard/values.jsonl`, and the conversions of the wire's own file.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use toolbus_orchard::value::{Value, convert};
use toolbus_proto::json::Json as Text;
use toolbus_proto::orchard::types;

use crate::evaluator::evaluating::{planned, same};

fn lines<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = format!("{}/../../transcripts/orchard/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a file of the repository");
    text.lines().map(|line| serde_json::from_str(line).expect("lines of JSON")).collect()
}

#[test]
fn the_transcript_of_values_holds() {
    let lines: Vec<Json> = lines("values.jsonl");
    assert!(40 <= lines.len());
    for line in lines {
        let text = line["expr"].as_str().unwrap();
        let found = planned(text);
        if let Some(code) = line["error"].as_str() {
            let problem = found.expect_err(text);
            assert_eq!(problem.code.as_str(), code, "{text}: {problem}");
            assert!(problem.span.is_some() && !problem.message.is_empty(), "{text}");
            continue;
        }
        let value = found.unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!(value.is_unknown(), line["unknown"] == true, "{text}");
        assert_eq!(value.is_sensitive(), line["sensitive"] == true, "{text}");
        if let Some(json) = line.get("value") {
            assert!(same(&value, json), "{text}: {}", value.shown());
        }
    }
}

/// Values and JSON text are converted by two pieces of code, and must agree.
#[test]
fn the_conversions_of_the_wire_hold_for_values() {
    for line in lines::<BTreeMap<String, Box<RawValue>>>("conversions.jsonl") {
        let ty: String = serde_json::from_str(line["type"].get()).unwrap();
        let ty = types::parse(&ty).unwrap();
        let text = line["json"].get().to_owned();
        // Beyond 128 bits, and so no number here.
        if text.bytes().filter(u8::is_ascii_digit).count() > 39 {
            continue;
        }
        let json = Text::parse(text.clone()).unwrap();
        let found = Value::from_json(&ty, &json);
        let by_text = toolbus_proto::orchard::value::convert(&ty, &json);
        match (found, by_text) {
            (Ok(value), Ok(converted)) => {
                let again = Value::from_json(&types::Type::Any, &converted.value).unwrap();
                assert_eq!(value.to_json(), again.to_json(), "{ty} {text}");
                assert_eq!(convert(&value, &ty).unwrap(), value);
            }
            (Err(found), Err(by_text)) => assert_eq!(found, by_text, "{ty} {text}"),
            (found, by_text) => panic!("{ty} {text}: {found:?} {by_text:?}"),
        }
    }
}
