//! Fronts that let in who shows a token of a sign-in server: which tokens, and what all others are
//! told.

mod callers;
mod config;
mod issuer;
mod keys;
mod scopes;
mod sessions;

use serde_json::{Value, json};
use toolbus_proto::oauth::base64url::base64url;
use toolbus_testkit::tokens::Signer;

use self::issuer::{Issuer, now};
use crate::callers::{ask, status};
use crate::listening::Server;
use crate::mcp::{INITIALIZE, META, request};
use crate::serve::{BUILTIN, Config, MCP};

const EDDSA: &str = r#"{"alg":"EdDSA","typ":"at+jwt","kid":"e"}"#;
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// A config with an MCP front that asks for tokens of this issuer, for `tools`.
fn front(issuer: &str, more: &str) -> String {
    format!(
        "{BUILTIN}{MCP}[front.editor.oauth]\nissuer = \"{issuer}\"\naudience = \"tools\"\n{more}"
    )
}

fn post(url: &str, token: &str, fields: &str, body: &str) -> String {
    ask(url, "POST", "/mcp", token, fields, body)
}

/// A call of 2026-07-28, which needs no session.
fn call(url: &str, token: &str, tool: &str, args: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{args},{META}}}"#);
    let fields = format!(
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
    );
    post(url, token, &fields, &request(1, "tools/call", &params))
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (known, value) = line.split_once(": ")?;
        known.eq_ignore_ascii_case(name).then_some(value)
    })
}

fn body(answer: &str) -> &str {
    answer.split_once("\n\n").map_or("", |(_, body)| body.trim_end())
}

/// Status, and what is wrong as a client reads it.
fn told(answer: &str) -> String {
    let challenge = header(answer, "www-authenticate").unwrap_or_default();
    let said = challenge.split_once("error_description=\"").map(|(_, rest)| rest);
    let said = said.and_then(|rest| rest.split('"').next()).unwrap_or_default();
    format!("{} {said}", status(answer)).trim_end().to_owned()
}

#[test]
fn a_front_says_what_it_wants_and_where_it_is_had() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    let scopes = "scopes = [\"tools\"]\nscopes_for = { \"try.add\" = [\"math\"] }\n";
    let server = Config::of(&front(&issuer.url, scopes)).serve(1);
    let url = server.url();
    let metadata_url = url.replace("/mcp", &format!("{METADATA}/mcp"));
    for path in [METADATA.to_owned(), format!("{METADATA}/mcp")] {
        // An origin is not looked at, and neither is a token.
        let got = ask(url, "GET", &path, "", "Origin: https://any.example\r\n", "");
        assert_eq!(status(&got), "200", "{got}");
        assert_eq!(header(&got, "access-control-allow-origin"), Some("*"));
        assert_eq!(header(&got, "cache-control"), Some("max-age=300"));
        assert_eq!(header(&got, "content-type"), Some("application/json"));
        let said: Value = serde_json::from_str(body(&got)).unwrap();
        let expected = json!({
            "resource": url, "authorization_servers": [issuer.url],
            "scopes_supported": ["tools", "math"], "bearer_methods_supported": ["header"],
            "resource_name": "toolbus",
        });
        assert_eq!(said, expected);
        let head = ask(url, "HEAD", &path, "", "", "");
        assert_eq!((status(&head), body(&head)), ("200", ""), "{head}");
        let asks = "Origin: https://any.example\r\nAccess-Control-Request-Headers: x-a\r\n";
        let options = ask(url, "OPTIONS", &path, "", asks, "");
        assert_eq!(status(&options), "204", "{options}");
        assert_eq!(header(&options, "access-control-allow-methods"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(header(&options, "access-control-allow-headers"), Some("x-a"));
        let foreign = ask(url, "GET", &path, "", "Host: evil.example\r\n", "");
        assert_eq!(status(&foreign), "403", "{foreign}");
    }
    assert_eq!(status(&ask(url, "GET", &format!("{METADATA}/else"), "", "", "")), "401");
    // Without a token, with another scheme, with two: exact, as clients read it.
    let wanted = format!("Bearer resource_metadata=\"{metadata_url}\", scope=\"tools\"");
    for fields in ["", "Authorization: Basic YTpi\r\n"] {
        let answer = post(url, "", fields, INITIALIZE);
        assert_eq!((status(&answer), header(&answer, "www-authenticate")), ("401", Some(&*wanted)));
        assert!(body(&answer).starts_with(r#"{"jsonrpc":"2.0","id":null,"error":"#), "{answer}");
    }
    let unclear = format!("Bearer error=\"invalid_request\", resource_metadata=\"{metadata_url}\"");
    for fields in [
        "Authorization: Bearer\r\n",
        "Authorization: Bearer a b\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n",
    ] {
        let answer = post(url, "", fields, INITIALIZE);
        let said = header(&answer, "www-authenticate");
        assert_eq!((status(&answer), said), ("400", Some(&*unclear)), "{fields}");
    }
    let invalid = format!(
        "Bearer error=\"invalid_token\", error_description=\"the token is not valid\", \
         resource_metadata=\"{metadata_url}\", scope=\"tools\""
    );
    let answer = post(url, "nothing", "", INITIALIZE);
    assert_eq!((status(&answer), header(&answer, "www-authenticate")), ("401", Some(&*invalid)));
    // The path is no question before the token is.
    assert_eq!(status(&ask(url, "GET", "/else?access_token=x", "", "", "")), "401");
    // Scopes.
    let none = ed.token(EDDSA, &issuer.claims(&json!({"scope": "other"})));
    let lacking = |scope: &str| {
        format!(
            "Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{metadata_url}\""
        )
    };
    let answer = post(url, &none, "", INITIALIZE);
    let said = header(&answer, "www-authenticate");
    assert_eq!((status(&answer), said), ("403", Some(&*lacking("tools"))), "{answer}");
    let good = ed.token(EDDSA, &issuer.claims(&json!({})));
    assert_eq!(status(&post(url, &good, "", INITIALIZE)), "200");
    let answer = call(url, &good, "add", r#"{"a":1,"b":2}"#);
    let said = header(&answer, "www-authenticate");
    assert_eq!((status(&answer), said), ("403", Some(&*lacking("tools math"))), "{answer}");
    assert!(body(&answer).starts_with(r#"{"jsonrpc":"2.0","id":null,"error":"#), "{answer}");
    assert_eq!(status(&call(url, &good, "upper", r#"{"text":"a"}"#)), "200");
    let more = ed.token(EDDSA, &issuer.claims(&json!({"scope": "tools", "scp": ["math"]})));
    let answer = call(url, &more, "add", r#"{"a":1,"b":2}"#);
    assert!(answer.contains(r#""text":"3""#), "{answer}");
}

#[test]
fn without_the_table_there_is_no_metadata() {
    let server = Config::of(&format!("{BUILTIN}{MCP}")).serve(1);
    for path in [METADATA.to_owned(), format!("{METADATA}/mcp")] {
        assert_eq!(status(&ask(server.url(), "GET", &path, "", "", "")), "404");
    }
}

/// What is true of each of these tokens, by its name.
fn hostile(issuer: &Issuer, ed: &Signer) -> Vec<(&'static str, String, &'static str)> {
    const NOT_VALID: &str = "401 the token is not valid";
    const ENDED: &str = "401 the token has ended";
    const ELSEWHERE: &str = "401 the token is not for this server";
    let good = issuer.claims(&json!({}));
    let with = |changed: Value| ed.token(EDDSA, &issuer.claims(&changed));
    let headed = |header: &str| ed.token(header, &good);
    let token = ed.token(EDDSA, &good);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let other = Signer::ed25519(9);
    let own_key = format!(r#"{{"alg":"EdDSA","kid":"x","jwk":{}}}"#, other.jwk("x"));
    let by_url = r#"{"alg":"EdDSA","kid":"x","jku":"http://127.0.0.1:1/keys"}"#;
    let (p256, rsa) = (Signer::p256(), Signer::rsa());
    let ended = json!(now() - 100);
    vec![
        ("no token at all", "x".into(), NOT_VALID),
        ("no signature", format!("{signed}."), NOT_VALID),
        ("two parts", signed.into(), NOT_VALID),
        ("five parts", format!("{token}.a.b"), NOT_VALID),
        ("padded", format!("{header}=.{claims}.{signature}"), NOT_VALID),
        ("of the other alphabet", format!("{header}.{claims}.{}", "+".repeat(86)), NOT_VALID),
        ("too long", format!("{token}{}", "A".repeat(16_384)), NOT_VALID),
        ("header no JSON", format!("{}.{claims}.{signature}", base64url(b"x")), NOT_VALID),
        ("claims no object", ed.token(EDDSA, "[]"), NOT_VALID),
        (
            "claims not UTF-8",
            format!("{header}.{}.{signature}", base64url(b"{\"\xff\":1}")),
            NOT_VALID,
        ),
        ("alg none", format!("{}.{claims}.", base64url(br#"{"alg":"none"}"#)), NOT_VALID),
        ("alg None", headed(r#"{"alg":"None","kid":"e"}"#), NOT_VALID),
        ("alg HS256", headed(r#"{"alg":"HS256","kid":"e"}"#), NOT_VALID),
        ("alg in lower case", headed(r#"{"alg":"eddsa","kid":"e"}"#), NOT_VALID),
        ("alg of another key", headed(r#"{"alg":"ES256","kid":"e"}"#), NOT_VALID),
        ("alg twice", headed(r#"{"alg":"none","alg":"EdDSA"}"#), NOT_VALID),
        ("alg not allowed here", rsa.token(r#"{"alg":"RS256"}"#, &good), NOT_VALID),
        ("an id token", headed(r#"{"alg":"EdDSA","typ":"id+jwt"}"#), NOT_VALID),
        ("crit", headed(r#"{"alg":"EdDSA","kid":"e","crit":["x"],"x":1}"#), NOT_VALID),
        ("b64", headed(r#"{"alg":"EdDSA","kid":"e","b64":false}"#), NOT_VALID),
        ("zip", headed(r#"{"alg":"EdDSA","kid":"e","zip":"DEF"}"#), NOT_VALID),
        ("enc", headed(r#"{"alg":"EdDSA","kid":"e","enc":"A256GCM"}"#), NOT_VALID),
        ("kid a number", headed(r#"{"alg":"EdDSA","kid":1}"#), NOT_VALID),
        ("kid unknown", headed(r#"{"alg":"EdDSA","kid":"../../etc/passwd"}"#), NOT_VALID),
        ("its own key", other.token(&own_key, &good), NOT_VALID),
        ("its own key's place", other.token(by_url, &good), NOT_VALID),
        ("another's signature", other.token(EDDSA, &good), NOT_VALID),
        ("no kid, two keys", p256.token(r#"{"alg":"ES256"}"#, &good), NOT_VALID),
        (
            "a changed claim",
            format!("{header}.{}.{signature}", base64url(good.replace("ann", "eve").as_bytes())),
            NOT_VALID,
        ),
        ("iss of another", with(json!({"iss": "https://evil.example"})), NOT_VALID),
        ("iss with a slash", with(json!({"iss": format!("{}/", issuer.url)})), NOT_VALID),
        ("iss missing", with(json!({"iss": null})), NOT_VALID),
        ("iss a list", with(json!({"iss": [issuer.url]})), NOT_VALID),
        ("aud of another", with(json!({"aud": "https://other.example"})), ELSEWHERE),
        ("aud missing", with(json!({"aud": null})), ELSEWHERE),
        ("aud a prefix", with(json!({"aud": ["tool", "tools2"]})), ELSEWHERE),
        ("aud an object", with(json!({"aud": {"tools": true}})), NOT_VALID),
        ("aud of another and ended", with(json!({"aud": "x", "exp": ended})), NOT_VALID),
        ("ended", with(json!({"exp": ended})), ENDED),
        ("ended long ago", with(json!({"exp": -1})), ENDED),
        (
            "ended, signed by another",
            other.token(EDDSA, &issuer.claims(&json!({"exp": ended}))),
            NOT_VALID,
        ),
        ("exp missing", with(json!({"exp": null})), NOT_VALID),
        ("exp a text", with(json!({"exp": (now() + 600).to_string()})), NOT_VALID),
        (
            "exp too large",
            ed.token(EDDSA, &good.replace("\"exp\":", "\"exp\":1e999,\"was\":")),
            NOT_VALID,
        ),
        ("nbf in the future", with(json!({"nbf": now() + 100})), NOT_VALID),
        ("iat in the future", with(json!({"iat": now() + 100})), NOT_VALID),
        ("sub missing", with(json!({"sub": null})), NOT_VALID),
        ("sub empty", with(json!({"sub": ""})), NOT_VALID),
        ("sub too long", with(json!({"sub": "a".repeat(256)})), NOT_VALID),
        ("sub twice", ed.token(EDDSA, &good.replacen('{', "{\"sub\":\"eve\",", 1)), NOT_VALID),
        ("bound to a key", with(json!({"cnf": {"jkt": "x"}})), NOT_VALID),
        ("scope a list", with(json!({"scope": ["tools"]})), NOT_VALID),
        ("scp a number", with(json!({"scp": 7})), NOT_VALID),
        (
            "too deep",
            ed.token(
                EDDSA,
                &good.replacen('{', &format!("{{\"x\":{}{},", "[".repeat(16), "]".repeat(16)), 1),
            ),
            NOT_VALID,
        ),
        ("far too deep", ed.token(EDDSA, &"[".repeat(10_000)), NOT_VALID),
    ]
}

#[test]
fn hostile_tokens_are_told_no_more_than_they_need_to_know() {
    let ed = Signer::ed25519(1);
    let (p256, rsa) = (Signer::p256(), Signer::rsa());
    let issuer = Issuer::with(&[(&ed, "e"), (&p256, "p"), (&p256, "q"), (&rsa, "r")]);
    let server = Config::of(&front(&issuer.url, "algorithms = [\"EdDSA\", \"ES256\"]\n")).serve(1);
    let url = server.url();
    let good = ed.token(EDDSA, &issuer.claims(&json!({})));
    assert_eq!(status(&post(url, &good, "", INITIALIZE)), "200");
    let cases = hostile(&issuer, &ed);
    assert!(40 <= cases.len());
    for (name, token, expected) in cases {
        let answer = post(url, &token, "", INITIALIZE);
        assert_eq!(told(&answer), expected, "{name}: {answer}");
    }
    // Within what clocks may differ.
    for claims in [json!({"exp": now() - 20}), json!({"nbf": now() + 20, "iat": now() + 20})] {
        let token = ed.token(EDDSA, &issuer.claims(&claims));
        assert_eq!(status(&post(url, &token, "", INITIALIZE)), "200", "{claims}");
    }
    let by_name = p256.token(r#"{"alg":"ES256","kid":"q"}"#, &issuer.claims(&json!({})));
    assert_eq!(status(&post(url, &by_name, "", INITIALIZE)), "200");
    // None of it had the keys got more than once for their unknown names.
    assert!(issuer.asked("/keys").len() <= 2, "{:?}", issuer.asked("/keys"));
    let said = end(server);
    assert!(!said.contains("eyJ") && !said.contains("ann"), "{said}");
}

fn end(server: Server) -> String {
    server.signal(rustix::process::Signal::TERM);
    server.end()
}
