//! Where the keys of a front come from, and when they are got anew; and issuers that are asked.

use std::fs;

use serde_json::json;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::tokens::{Signer, key_set};

use super::issuer::{Issuer, claims};
use super::{EDDSA, front, post, told};
use crate::callers::{ask, status};
use crate::mcp::INITIALIZE;
use crate::serve::{BUILTIN, Config, MCP};

#[test]
fn keys_that_are_new_are_known_at_once_and_those_that_are_gone_are_gone() {
    let (old, new, third) = (Signer::ed25519(1), Signer::ed25519(2), Signer::ed25519(3));
    let issuer = Issuer::with(&[(&old, "old")]);
    let server = Config::of(&front(&issuer.url, "")).serve(1);
    let url = server.url();
    let by = |signer: &Signer, id: &str| {
        let header = format!(r#"{{"alg":"EdDSA","kid":"{id}"}}"#);
        let token = signer.token(&header, &issuer.claims(&json!({})));
        status(&post(url, &token, "", INITIALIZE)).to_owned()
    };
    assert_eq!(by(&old, "old"), "200");
    issuer.has_keys(&[(&new, "new")]);
    assert_eq!(by(&old, "old"), "200", "they hold until they are got anew");
    assert_eq!(by(&new, "new"), "200", "an unknown name has them got");
    assert_eq!(by(&old, "old"), "401", "it is gone at once");
    assert_eq!(issuer.asked("/keys").len(), 2);
    // Another name within ten seconds has nothing got.
    issuer.has_keys(&[(&new, "new"), (&third, "third")]);
    assert_eq!(by(&third, "third"), "401");
    assert_eq!(by(&new, "new"), "200");
    assert_eq!(issuer.asked("/keys").len(), 2);
}

#[test]
fn an_issuer_that_cannot_be_asked_is_no_fault_of_the_token() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    issuer.answers("/keys", 500, "", "");
    let server = Config::of(&front(&issuer.url, "")).serve(1);
    let good = ed.token(EDDSA, &issuer.claims(&json!({})));
    let answer = post(server.url(), &good, "", INITIALIZE);
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(answer.to_ascii_lowercase().contains("retry-after: 5"), "{answer}");
    // What needs no keys is told as ever.
    assert_eq!(told(&post(server.url(), "x", "", INITIALIZE)), "401 the token is not valid");
    issuer.has_keys(&[(&ed, "e")]);
    assert_eq!(status(&post(server.url(), &good, "", INITIALIZE)), "200");
}

#[test]
fn keys_may_be_in_a_file_or_at_a_url() {
    let (ed, rsa) = (Signer::ed25519(1), Signer::rsa());
    let issuer = Issuer::with(&[]);
    issuer.says("/elsewhere", &key_set(&[ed.jwk("e")]));
    let scratch = Scratch::new();
    let file = scratch.file("keys.json");
    fs::write(&file, key_set(&[rsa.jwk("r"), ed.jwk("e")])).unwrap();
    for jwks in [file, format!("{}/elsewhere", issuer.url)] {
        let config = front("https://a.example", &format!("jwks = \"{jwks}\"\n"));
        let server = Config::of(&config).serve(1);
        let good = ed.token(EDDSA, &claims("https://a.example", &json!({})));
        assert_eq!(status(&post(server.url(), &good, "", INITIALIZE)), "200", "{jwks}");
        let other = Signer::ed25519(2).token(EDDSA, &claims("https://a.example", &json!({})));
        assert_eq!(status(&post(server.url(), &other, "", INITIALIZE)), "401");
    }
    assert!(issuer.asked("/.well-known/oauth-authorization-server").is_empty());
}

#[test]
fn an_issuer_can_be_asked_about_every_token() {
    let issuer = Issuer::with(&[]);
    let config = |introspect: &str| {
        let keys = "client_id = \"front\"\nclient_secret = \"s3 cret-secret\"\n";
        front(&issuer.url, &format!("introspect = {introspect}\n{keys}"))
    };
    let by_url = format!("\"{}/introspect\"", issuer.url);
    for introspect in ["true", &by_url] {
        let server = Config::of(&config(introspect)).serve(1);
        let url = server.url();
        let before = issuer.asked("/introspect").len();
        let answered = |claims: &str| {
            issuer.says("/introspect", &claims.replacen('{', "{\"active\":true,", 1));
        };
        answered(&issuer.claims(&json!({})));
        assert_eq!(status(&post(url, "opaque", "", INITIALIZE)), "200");
        assert_eq!(status(&post(url, "opaque", "", INITIALIZE)), "200");
        let asked = issuer.asked("/introspect");
        assert_eq!(asked.len(), before + 1, "it was kept: {asked:?}");
        let last = asked.last().unwrap();
        assert!(last.contains("token=opaque&token_type_hint=access_token"), "{last}");
        // `front:s3%20cret-secret`, in base64.
        assert!(last.contains("basic znjvbnq6czmlmjbjcmv0lxnly3jlda=="), "{last}");
        issuer.says("/introspect", r#"{"active":false}"#);
        assert_eq!(told(&post(url, "other", "", INITIALIZE)), "401 the token is not valid");
        assert_eq!(status(&post(url, "opaque", "", INITIALIZE)), "200", "it is kept");
        answered(&issuer.claims(&json!({"aud": null})));
        let answer = post(url, "third", "", INITIALIZE);
        assert_eq!(told(&answer), "401 the token is not for this server");
        issuer.answers("/introspect", 500, "", "");
        assert_eq!(status(&post(url, "fourth", "", INITIALIZE)), "503");
    }
}

#[test]
fn what_was_shown_is_counted_by_what_became_of_it() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let config = format!("{}{admin}", front(&issuer.url, "scopes_for = { \"*\" = [\"all\"] }\n"));
    let server = Config::of(&config).serve(2);
    let (url, admin) = match server.urls[0].ends_with("/mcp") {
        true => (&server.urls[0], &server.urls[1]),
        false => (&server.urls[1], &server.urls[0]),
    };
    let good = ed.token(EDDSA, &issuer.claims(&json!({})));
    for token in ["x", "y", &good] {
        post(url, token, "", INITIALIZE);
    }
    assert_eq!(status(&super::call(url, &good, "add", r#"{"a":1,"b":2}"#)), "403");
    let page = ask(admin, "GET", "/metrics", "", "", "");
    for (outcome, count) in [("ok", 2), ("malformed", 2), ("scope", 1), ("bound", 0)] {
        let line = format!(
            "toolbus_oauth_tokens_total{{front=\"editor\",outcome=\"{outcome}\"}} {count}\n"
        );
        assert!(page.contains(&line), "{line}{page}");
    }
}

#[test]
fn mediocre_fronts_ask_for_tokens_too() {
    let ed = Signer::ed25519(1);
    let issuer = Issuer::with(&[(&ed, "e")]);
    let config = front(&issuer.url, "scopes_for = { \"try.add\" = [\"math\"] }\n")
        .replace(MCP, "[front.editor]\nserve = \"mediocre+http://127.0.0.1:0/rpc\"\n");
    assert!(config.starts_with(BUILTIN), "{config}");
    let server = Config::of(&config).serve(1);
    let url = server.url().strip_prefix("mediocre+").unwrap();
    let call = |token: &str, call: &str| ask(url, "POST", "/rpc", token, "", call);
    let metadata = ask(url, "GET", "/.well-known/oauth-protected-resource/rpc", "", "", "");
    assert!(metadata.contains(&format!("\"resource\":\"{url}\"")), "{metadata}");
    let add = r#"{"method":"try.add","args":{"a":1,"b":2}}"#;
    let answer = call("", add);
    assert_eq!(status(&answer), "401", "{answer}");
    assert!(answer.contains("www-authenticate: Bearer resource_metadata="), "{answer}");
    assert!(answer.contains(r#""err":"#), "{answer}");
    assert_eq!(told(&call("x", add)), "401 the token is not valid");
    let good = ed.token(EDDSA, &issuer.claims(&json!({})));
    let answer = call(&good, add);
    assert_eq!(status(&answer), "403", "{answer}");
    assert!(answer.contains("error=\"insufficient_scope\", scope=\"math\""), "{answer}");
    let answer = call(&good, r#"{"method":"try.upper","args":{"text":"a"}}"#);
    assert!(status(&answer) == "200" && answer.contains("\"A\""), "{answer}");
}
