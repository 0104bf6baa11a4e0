//! Access tokens, one rule after the other.

use std::time::Duration;

use toolbus_proto::oauth::base64url::base64url;
use toolbus_proto::oauth::claims::ClaimRules;
use toolbus_proto::oauth::jwt::{Jwt, TOKEN_BYTES_MAX};
use toolbus_proto::oauth::keyset::{Algorithm, KeySet};
use toolbus_testkit::tokens::{Signer, key_set};

const NOW: f64 = 1_000_000.0;
const CLAIMS: &str =
    r#"{"iss":"https://a.example","aud":"tools","sub":"ann","exp":1000060,"scope":"read"}"#;

fn rules() -> ClaimRules {
    ClaimRules {
        issuers: vec!["https://a.example".into()],
        audience: vec!["tools".into()],
        skew: Duration::from_secs(30),
    }
}

fn keys() -> KeySet {
    let keys = [Signer::rsa().jwk("r"), Signer::p256().jwk("p"), Signer::ed25519(1).jwk("e")];
    KeySet::read(key_set(&keys).as_bytes()).unwrap()
}

fn judged(token: &str, algorithms: &[Algorithm]) -> String {
    let judged = Jwt::read(token, algorithms).and_then(|jwt| jwt.judge(NOW, &rules(), &keys()));
    match judged {
        Ok(claims) => format!("{} may {}", claims.subject, claims.scopes.join(" ")),
        Err(fault) => format!("{}: {fault}", fault.outcome()),
    }
}

fn told(token: &str) -> String {
    judged(token, &Algorithm::ALL)
}

fn by(signer: &Signer, header: &str) -> String {
    told(&signer.token(header, CLAIMS))
}

const GOOD: &str = "ann may read";

#[test]
fn tokens_of_all_three_algorithms_are_good() {
    for (signer, header) in [
        (Signer::rsa(), r#"{"alg":"RS256","kid":"r"}"#),
        (Signer::rsa(), r#"{"alg":"RS256","typ":"at+jwt"}"#),
        (Signer::p256(), r#"{"alg":"ES256","typ":"JWT","kid":"p"}"#),
        (Signer::ed25519(1), r#"{"alg":"EdDSA","typ":"application/AT+JWT"}"#),
        // Keys and where they are do not come from a token.
        (Signer::ed25519(1), r#"{"alg":"EdDSA","jku":"https://evil.example","x5c":["AAAA"]}"#),
    ] {
        assert_eq!(by(&signer, header), GOOD, "{header}");
    }
}

#[test]
fn headers_that_are_not_ours_are_refused() {
    let ed = Signer::ed25519(1);
    let unknown = "malformed: its header asks for what is not known";
    for (header, expected) in [
        (r#"{"alg":"none"}"#, "algorithm: its algorithm is not allowed"),
        (r#"{"alg":"HS256"}"#, "algorithm: its algorithm is not allowed"),
        (r#"{"alg":"eddsa"}"#, "algorithm: its algorithm is not allowed"),
        (r#"{"alg":"RS512"}"#, "algorithm: its algorithm is not allowed"),
        (r#"{"alg":["EdDSA"]}"#, "malformed: its `alg` is no text"),
        (r#"{"typ":"JWT"}"#, "malformed: its `alg` is no text"),
        (
            r#"{"alg":"EdDSA","typ":"id_token+jwt"}"#,
            "malformed: its `typ` is not that of an access token",
        ),
        (r#"{"alg":"EdDSA","typ":null}"#, "malformed: its `typ` is not that of an access token"),
        (r#"{"alg":"EdDSA","crit":["exp"]}"#, unknown),
        (r#"{"alg":"EdDSA","crit":[]}"#, unknown),
        (r#"{"alg":"EdDSA","b64":true}"#, unknown),
        (r#"{"alg":"EdDSA","enc":"A128GCM"}"#, unknown),
        (r#"{"alg":"EdDSA","zip":"DEF"}"#, unknown),
        (r#"{"alg":"EdDSA","kid":7}"#, "malformed: its `kid` is no text"),
        (r#"{"alg":"EdDSA","kid":"x"}"#, "key: there is no key for it"),
        (r#"{"alg":"EdDSA","kid":"p"}"#, "key: there is no key for it"),
        // The key of another kind, whatever the token says.
        (r#"{"alg":"ES256","kid":"e"}"#, "key: there is no key for it"),
        (r#"{"alg":"EdDSA","alg":"EdDSA"}"#, "malformed: a part is no JSON object"),
        (r#"["EdDSA"]"#, "malformed: a part is no JSON object"),
        (r#"{"alg":"EdDSA"} x"#, "malformed: a part is no JSON object"),
    ] {
        assert_eq!(by(&ed, header), expected, "{header}");
    }
    let token = ed.token(r#"{"alg":"EdDSA"}"#, CLAIMS);
    assert_eq!(judged(&token, &[Algorithm::Rs256]), "algorithm: its algorithm is not allowed");
}

#[test]
fn a_token_is_three_parts_that_have_one_spelling() {
    let good = Signer::ed25519(1).token(r#"{"alg":"EdDSA"}"#, CLAIMS);
    assert_eq!(told(&good), GOOD);
    let parts: Vec<&str> = good.split('.').collect();
    let [header, claims, signature] = parts[..] else { unreachable!("it has three parts") };
    let parts = "malformed: it has not three parts";
    let letters = "malformed: a part is no base64url";
    for (token, expected) in [
        (String::new(), parts),
        (format!("{header}.{claims}"), parts),
        (format!("{good}."), parts),
        (format!("{good}.{signature}.{signature}"), parts),
        (format!("{header}=.{claims}.{signature}"), letters),
        (format!("{header}.{claims} .{signature}"), letters),
        (format!("{header}.{claims}\n.{signature}"), letters),
        (format!("{header}.{claims}.+{signature}"), letters),
        (format!("{header}.{claims}.{signature}A"), "signature: its signature is wrong"),
        (format!("{header}.{claims}."), "signature: its signature is wrong"),
        (
            format!("{header}.{}.{signature}", base64url(b"{}")),
            "issuer: it is of another issuer (`iss`)",
        ),
        (
            format!("{header}.{}.{signature}", base64url(b"\xff")),
            "malformed: a part is no JSON object",
        ),
        (format!(".{claims}.{signature}"), "malformed: a part is no JSON object"),
        ("a".repeat(TOKEN_BYTES_MAX + 1), "malformed: it is too long"),
    ] {
        assert_eq!(told(&token), expected, "{token}");
    }
    // The last letter of a signature of 64 bytes has two bits that say nothing.
    let last = signature.chars().last().unwrap();
    let other = char::from(last as u8 + 1);
    let spelled = format!("{}{other}", &good[..good.len() - 1]);
    assert!(matches!(&*told(&spelled), it if it == letters || it.starts_with("signature")));
}

#[test]
fn claims_have_no_member_twice_and_are_not_deep() {
    let ed = Signer::ed25519(1);
    let no_object = "malformed: a part is no JSON object";
    let claims = |claims: &str| told(&ed.token(r#"{"alg":"EdDSA"}"#, claims));
    assert_eq!(claims(&CLAIMS.replace('{', r#"{"sub":"eve","#)), no_object);
    assert_eq!(claims(&CLAIMS.replace('{', r#"{"x":{"a":1,"\u0061":2},"#)), no_object);
    let deep = |depth: usize| format!(r#"{{"x":{}{},"#, "[".repeat(depth), "]".repeat(depth));
    assert_eq!(claims(&CLAIMS.replacen('{', &deep(15), 1)), GOOD);
    assert_eq!(claims(&CLAIMS.replacen('{', &deep(16), 1)), no_object);
    assert_eq!(claims(&CLAIMS.replace("1000060", "1e400")), no_object);
}

#[test]
fn signatures_are_those_of_the_key() {
    let header = r#"{"alg":"EdDSA"}"#;
    assert_eq!(by(&Signer::ed25519(2), header), "signature: its signature is wrong");
    let wrong = "signature: its signature is wrong";
    // Of another message.
    let token = Signer::p256().token(r#"{"alg":"ES256"}"#, CLAIMS);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let more = base64url(CLAIMS.replace("ann", "eve").as_bytes());
    assert_eq!(told(&format!("{header}.{more}.{signature}")), wrong);
    // Zeros are no signature, and neither is one in DER.
    assert_eq!(told(&format!("{signed}.{}", base64url(&[0; 64]))), wrong);
    let der = [&[0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01][..]].concat();
    assert_eq!(told(&format!("{signed}.{}", base64url(&der))), wrong);
    // A public key is no secret by which to sign.
    assert_eq!(
        told(&Signer::rsa().token(r#"{"alg":"HS256","kid":"r"}"#, CLAIMS)),
        "algorithm: its algorithm is not allowed"
    );
}
