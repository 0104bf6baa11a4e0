//! Callers of the config that are known by their tokens.

use serde_json::{Value, json};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::tokens::Signer;

use super::issuer::Issuer;
use super::{EDDSA, body, call, front, post};
use crate::callers::status;
use crate::mcp::INITIALIZE;
use crate::serve::Config;

#[test]
fn a_token_is_that_of_the_first_caller_of_the_front_that_fits() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    let scratch = Scratch::new();
    let journal = scratch.file("calls.jsonl");
    let callers = format!(
        r#"[caller.eve]
oauth = {{ sub = ["eve", "root"] }}
[caller.ops]
oauth = {{ claims = {{ groups = "ops", tenant = ["t1", "t2"] }} }}
[caller.all]
oauth = {{ issuer = "{}", scope = "tools" }}
[caller.fixed]
token = "fixed-token"
[journal]
path = "{journal}"
"#,
        issuer.url
    );
    let config = front(&issuer.url, "").replace(
        "[front.editor.oauth]",
        "callers = [\"all\", \"ops\", \"fixed\"]\n[front.editor.oauth]",
    );
    let server = Config::of(&format!("{config}{callers}")).serve(1);
    let url = server.url();
    let token = |changed: Value| ed.token(EDDSA, &issuer.claims(&changed));
    let add = |token: &str| call(url, token, "add", r#"{"a":1,"b":2}"#);
    for token in [
        token(json!({"groups": ["dev", "ops"], "tenant": "t2"})),
        token(json!({"sub": "eve"})),
        token(json!({"groups": "ops", "tenant": "t3"})),
        "fixed-token".to_owned(),
    ] {
        let answer = add(&token);
        assert!(answer.contains(r#""text":"3""#), "{answer}");
    }
    let lines = std::fs::read_to_string(&journal).unwrap();
    let names: Vec<_> = lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["caller"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    assert_eq!(names, ["ops", "all", "all", "fixed"]);
    assert!(!lines.contains("t2") && !lines.contains("eyJ"), "{lines}");
    // One of whom no caller of the front is, and one of whom none is.
    let answer = post(url, &token(json!({"sub": "eve", "scope": "other"})), "", INITIALIZE);
    assert_eq!(status(&answer), "403", "{answer}");
    assert!(body(&answer).contains("this front is not for caller `eve`"), "{answer}");
    let answer = post(url, &token(json!({"scope": "other"})), "", INITIALIZE);
    assert_eq!(status(&answer), "403", "{answer}");
    let said = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no caller of this front fits the token"}}"#;
    assert_eq!(body(&answer), said);
    assert!(!answer.contains("www-authenticate"), "{answer}");
    assert_eq!(status(&post(url, "", "", INITIALIZE)), "401");
}
