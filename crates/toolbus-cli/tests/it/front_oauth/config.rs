//! What can be wrong with `[front.x.oauth]`, and with `oauth` of a caller.

use std::fs;

use expect_test::expect;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::tokens::{Signer, key_set};

use crate::page::Page;
use crate::serve::{BUILTIN, Config, MCP};

#[test]
fn all_mistakes_are_told_at_once() {
    let scratch = Scratch::new();
    let secret = r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#;
    fs::write(scratch.file("secret.json"), secret).unwrap();
    fs::write(scratch.file("ed.json"), key_set(&[Signer::ed25519(1).jwk("e")])).unwrap();
    fs::write(scratch.file("none.json"), "{}").unwrap();
    let front = |name: &str, oauth: &str| {
        format!(
            "[front.{name}]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n[front.{name}.oauth]\n{oauth}\n"
        )
    };
    let fine = "issuer = \"https://a.example\"";
    let config = [
        BUILTIN.to_owned(),
        front("a", ""),
        front("b", "issuer = \"http://a.example\"\nalgorithms = [\"RS256\", \"HS256\", \"none\"]"),
        front("c", "issuer = []\naudience = []\nalgorithms = []\nclock_skew = \"6m\"\ncache = \"6m\""),
        front("d", &format!("{fine}\njwks = \"not-there.json\"")),
        front("e", &format!("{fine}\njwks = \"secret.json\"")),
        front("f", &format!("{fine}\njwks = \"none.json\"")),
        front("g", &format!("{fine}\njwks = \"ed.json\"\nalgorithms = [\"RS256\"]")),
        front("h", "issuer = [\"https://a.example\", \"https://b.example\"]\njwks = \"ed.json\""),
        front("i", &format!("{fine}\nintrospect = true")),
        front("j", &format!("{fine}\nintrospect = \"ftp://a.example\"\nclient_id = \"x\"\nurl = \"https://u@a.example/\"")),
        front("k", &format!("{fine}\nscopes = [\"a b\"]\nscopes_for = {{ push = [\"x\"] }}\nissuers = 1")),
        "[front.t]\nserve = \"mediocre+tcp://127.0.0.1:0\"\noauth = { issuer = \"https://a.example\" }\n".to_owned(),
        "[caller.x]\noauth = {}\n[caller.y]\noauth = { sub = [], subject = \"x\", claims = {} }\n".to_owned(),
    ]
    .concat();
    let file = scratch.file("tools.toml");
    fs::write(&file, config).unwrap();
    let page = Page::of(&["config", "check", "--config", &file]).run().to_string();
    let page = page.replace(&file, "tools.toml");
    expect![[r#"
        stderr
        error: `tools.toml` line 5: `front.a.oauth.issuer` is missing
        error: `tools.toml` line 10: `front.b.oauth.issuer`: `http://a.example` is neither https nor on this machine
        error: `tools.toml` line 11: `front.b.oauth.algorithms`: algorithm `HS256` is not allowed
        error: `tools.toml` line 11: `front.b.oauth.algorithms`: algorithm `none` is not allowed
        error: `tools.toml` line 15: `front.c.oauth.issuer` is empty
        error: `tools.toml` line 16: `front.c.oauth.audience` is empty
        error: `tools.toml` line 17: `front.c.oauth.algorithms` is empty
        error: `tools.toml` line 18: `front.c.oauth.clock_skew` can be at most `5m`
        error: `tools.toml` line 19: `front.c.oauth.cache` can be at most `5m`
        error: `tools.toml` line 24: `front.d.oauth.jwks`: `not-there.json`: it cannot be read: No such file or directory (os error 2)
        error: `tools.toml` line 29: `front.e.oauth.jwks`: `secret.json`: it has a key that is to be secret (`k`)
        error: `tools.toml` line 34: `front.f.oauth.jwks`: `none.json`: it is no set of keys
        error: `tools.toml` line 39: `front.g.oauth.jwks`: `ed.json`: it has no key for the algorithms that are allowed
        error: `tools.toml` line 45: `front.h.oauth.jwks` is for one issuer, and there are several
        error: `tools.toml` line 50: `front.i.oauth.introspect` needs `client_id`
        error: `tools.toml` line 50: `front.i.oauth.introspect` needs `client_secret`
        error: `tools.toml` line 55: `front.j.oauth.introspect`: `ftp://a.example` is no URL
        error: `tools.toml` line 55: `front.j.oauth.introspect` needs `client_secret`
        error: `tools.toml` line 57: `front.j.oauth.url`: `https://a.example/` has a user part
        error: `tools.toml` line 62: `front.k.oauth.scopes`: `a b` is no scope
        error: `tools.toml` line 63: `front.k.oauth.scopes_for`: `push` can match no tool
        error: `tools.toml` line 64: there is no key `front.k.oauth.issuers`
        hint: did you mean `issuer`?
        error: `tools.toml` line 67: `front.t.oauth` is only for fronts over HTTP
        error: `tools.toml` line 69: `caller.x.oauth` is empty
        hint: give `oauth` a value, see that the variable or file it names has one, or take it out of the config
        error: `tools.toml` line 71: `caller.y.oauth.sub` is empty
        hint: give `sub` a value, see that the variable or file it names has one, or take it out of the config
        error: `tools.toml` line 71: there is no key `caller.y.oauth.subject`
        hint: it can be issuer, sub, scope, claims
        error: `tools.toml` line 71: `caller.y.oauth.claims` is empty
        hint: give `claims` a value, see that the variable or file it names has one, or take it out of the config
        exit 2
    "#]].assert_eq(&page);
}

#[test]
fn it_counts_as_protection_where_others_can_reach_a_front() {
    let front = MCP.replace("127.0.0.1", "0.0.0.0");
    let oauth = "[front.editor.oauth]\nissuer = \"https://127.0.0.1:1\"\n";
    let server = Config::of(&format!("{BUILTIN}{front}{oauth}")).serve(1);
    assert!(server.url().starts_with("http://0.0.0.0:"), "{}", server.url());
    let config = Config::of(&format!("{BUILTIN}{front}"));
    let page = Page::of(&["serve", "--config", &config.path()]).run();
    assert_eq!(page.status.code(), Some(2), "{page}");
}
