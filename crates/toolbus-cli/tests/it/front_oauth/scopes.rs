//! Calls that need more than every request does: several at once, and tools that reach others.

use serde_json::json;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::tokens::Signer;

use super::issuer::Issuer;
use super::{EDDSA, call, end, front, header, post};
use crate::callers::status;
use crate::mcp::{INITIALIZE, legacy_call};
use crate::serve::Config;

#[test]
fn none_of_several_calls_is_made_if_one_may_not_be() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    let scratch = Scratch::new();
    let journal = scratch.file("calls.jsonl");
    let config = front(&issuer.url, "scopes_for = { \"try.add\" = [\"math\"] }\n")
        + &format!("[journal]\npath = \"{journal}\"\n");
    let server = Config::of(&config).serve(1);
    let url = server.url();
    let token = |scope: &str| ed.token(EDDSA, &issuer.claims(&json!({"scope": scope})));
    let (plain, math) = (token("tools"), token("tools math"));
    let batch = |token: &str| {
        let answer = post(url, token, "", &INITIALIZE.replace("2025-11-25", "2025-03-26"));
        let session = header(&answer, "mcp-session-id").unwrap_or_else(|| panic!("{answer}"));
        let fields = format!("Mcp-Session-Id: {session}\r\n");
        let calls = [
            legacy_call(1, "upper", r#"{"text":"ab"}"#),
            legacy_call(2, "add", r#"{"a":1,"b":2}"#),
        ];
        post(url, token, &fields, &format!("[{}]", calls.join(",")))
    };
    let refused = batch(&plain);
    assert_eq!(status(&refused), "403", "{refused}");
    let challenge = header(&refused, "www-authenticate").unwrap();
    assert!(challenge.contains(r#"error="insufficient_scope", scope="math""#), "{challenge}");
    let answered = batch(&math);
    assert_eq!(status(&answered), "200", "{answered}");
    assert!(answered.contains("AB") && answered.contains(r#""text":"3""#), "{answered}");
    end(server);
    // The call before the one that was refused was not made either.
    let lines = std::fs::read_to_string(&journal).unwrap();
    assert_eq!(lines.matches(r#""tool":"upper""#).count(), 1, "{lines}");
}

#[test]
fn a_tool_that_reaches_others_needs_what_they_need() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    let back = format!(
        "[back.o]\nconnect = \"oracle+stdio:{} oracle serve builtin:\"\n",
        env!("CARGO_BIN_EXE_toolbus")
    );
    let scopes = "scopes_for = { \"o.add\" = [\"math\"] }\n";
    let server = Config::of(&(back + &front(&issuer.url, scopes))).serve(1);
    let url = server.url();
    let token = |scope: &str| ed.token(EDDSA, &issuer.claims(&json!({"scope": scope})));
    let (plain, math) = (token("tools"), token("tools math"));
    let invoke = |token: &str, args: &str| status(&call(url, token, "o_invoke", args)).to_owned();
    let upper = r#"{"selector":"upper","calldata":[]}"#;
    assert_ne!(invoke(&plain, upper), "403");
    for hidden in [
        r#"{"selector":"add","calldata":[]}"#,
        // What reads the last of them would reach it.
        r#"{"selector":"upper","selector":"add","calldata":[]}"#,
        r#"{"selector":"toolbus.call","calldata":[]}"#,
        "{}",
    ] {
        assert_eq!(invoke(&plain, hidden), "403", "{hidden}");
        assert_ne!(invoke(&math, hidden), "403", "{hidden}");
    }
}
