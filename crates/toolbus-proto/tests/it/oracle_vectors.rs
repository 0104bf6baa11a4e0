//! The vectors of `transcripts/oracle/`, a JSON object a line.

use std::{borrow::Cow, fs, path::Path};

use serde_json::Value;
use toolbus_proto::oracle::{codec, felt::Leniency, felts, signature};

/// Runs `check` on each line and counts them, since an empty file would prove nothing.
fn for_each_vector(file: &str, check: impl Fn(&Value)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts/oracle").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let vectors: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a vector is JSON")).collect();
    assert!(10 < vectors.len(), "{file} has too few lines");
    vectors.iter().for_each(check);
}

#[test]
fn felts() {
    for_each_vector("felts.jsonl", |vector| {
        let list = format!("[{}]", vector["json"]);
        let read = |leniency| felts::canonical(&list, leniency).map(Cow::into_owned);
        let want = |felt: &Value| Ok(format!("[{felt}]"));
        let strict = read(Leniency::Strict);
        let lenient = read(Leniency::Lenient);
        if !vector["felt"].is_null() {
            assert_eq!(strict, want(&vector["felt"]), "{vector}");
            assert_eq!(lenient, strict, "{vector}");
            return;
        }
        assert!(strict.unwrap_err().to_string().starts_with("felt 0 "), "{vector}");
        match &vector["lenient"] {
            Value::Null => assert!(lenient.is_err(), "{vector}"),
            felt => assert_eq!(lenient, want(felt), "{vector}"),
        }
    });
}

#[test]
fn signatures() {
    for_each_vector("signatures.jsonl", |vector| {
        let parsed = signature::parse(vector["text"].as_str().unwrap());
        let Value::Array(canonical) = &vector["canonical"] else {
            assert!(parsed.is_err(), "{vector}");
            return;
        };
        let parsed = parsed.unwrap_or_else(|error| panic!("{vector}: {error}"));
        let printed: Vec<Value> =
            parsed.iter().map(|function| function.canonical().into()).collect();
        assert_eq!(&printed, canonical);
    });
}

#[test]
fn serde() {
    for_each_vector("serde.jsonl", |vector| {
        let define = vector["define"].as_str().unwrap_or_default();
        let ty = vector["type"].as_str().unwrap();
        let function = signature::parse(&format!("{define}f(x: {ty}) -> {ty}")).unwrap().remove(0);
        let felts = felts::read(&vector["felts"].to_string(), Leniency::Strict).unwrap();
        if let Some(part) = vector["error"].as_str() {
            let error = codec::decode_result(&function, &felts).unwrap_err().to_string();
            assert!(error.contains(part), "{vector}: {error}");
            return;
        }
        let json = vector["json"].to_string();
        assert_eq!(codec::decode_result(&function, &felts).as_ref(), Ok(&json), "{vector}");
        assert_eq!(codec::encode_result(&function, &json).as_ref(), Ok(&felts), "{vector}");
        assert_eq!(codec::encode_args(&function, &format!("[{json}]")), Ok(felts), "{vector}");
    });
}
