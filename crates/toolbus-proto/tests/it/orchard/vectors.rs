//! The vectors of `transcripts/orchard/`, a JSON object a line.

use std::collections::BTreeMap;
use std::{fs, path::Path};

use serde_json::Value;
use serde_json::value::RawValue;
use toolbus_proto::json::Json;
use toolbus_proto::orchard::translate::Served;
use toolbus_proto::orchard::types::{parse, schema};
use toolbus_proto::orchard::value;
use toolbus_proto::tool::ToolSpec;

type Vector = BTreeMap<String, Box<RawValue>>;

/// Runs `check` on each line and counts them, since an empty file would prove nothing.
fn for_each_vector(file: &str, check: impl Fn(&Vector, &str)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts/orchard").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(4 < text.lines().count(), "{file} has too few lines");
    for line in text.lines() {
        let vector: Vector = serde_json::from_str(line).expect("a vector is JSON");
        check(&vector, line);
    }
}

fn text(vector: &Vector, name: &str) -> Option<String> {
    vector.get(name).map(|raw| serde_json::from_str(raw.get()).unwrap())
}

fn json(vector: &Vector, name: &str) -> Option<Json> {
    vector.get(name).map(|raw| Json::parse(raw.get().to_owned()).unwrap())
}

#[test]
fn types() {
    for_each_vector("types.jsonl", |vector, line| {
        let parsed = parse(&text(vector, "type").unwrap());
        if let Some(part) = text(vector, "error") {
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains(&part), "{line}: {error}");
            return;
        }
        let ty = parsed.unwrap();
        assert_eq!(ty.to_string(), text(vector, "canonical").unwrap(), "{line}");
        assert_eq!(parse(&ty.to_string()).unwrap(), ty, "{line}");
        assert_eq!(schema::of(&ty), json(vector, "schema").unwrap(), "{line}");
        assert_eq!(schema::read(schema::of(&ty).as_str()).ty, ty, "{line}");
    });
}

#[test]
fn from_schema() {
    for_each_vector("from_schema.jsonl", |vector, line| {
        let spec = ToolSpec::new("t", json(vector, "schema").unwrap());
        let served = Served::new(&spec);
        let attrs = served.action().attrs.iter();
        let attrs: BTreeMap<_, _> = attrs
            .map(|(name, attr)| (name.clone(), (attr.ty.to_string(), attr.required)))
            .collect();
        let expected: BTreeMap<String, (String, bool)> =
            serde_json::from_str(vector["attrs"].get()).unwrap();
        assert_eq!(attrs, expected, "{line}");
        if let Some(attr) = served.action().attrs.get("a_b") {
            assert!(attr.sensitive && attr.default.is_some(), "{line}");
        }
    });
}

#[test]
fn conversions() {
    for_each_vector("conversions.jsonl", |vector, line| {
        let ty = parse(&text(vector, "type").unwrap()).unwrap();
        let given = json(vector, "json").unwrap();
        let converted = value::convert(&ty, &given).map_err(|error| error.to_string());
        match text(vector, "error") {
            Some(error) => assert_eq!(converted.unwrap_err(), error, "{line}"),
            None => {
                let wanted = json(vector, "value").unwrap_or_else(|| given.clone());
                assert_eq!(converted.unwrap().value, wanted, "{line}");
            }
        }
        let fits = value::check(&ty, given.as_str()).is_ok();
        let expected: Value =
            vector.get("fits").map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
        assert_eq!(fits, expected.as_bool().unwrap_or(false), "{line}");
    });
}
