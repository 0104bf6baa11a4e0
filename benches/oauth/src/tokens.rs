//! A token that is not known: read, checked and judged, against the check of its signature alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use toolbus_proto::oauth::base64url::from_base64url;
use toolbus_proto::oauth::claims::ClaimRules;
use toolbus_proto::oauth::jwt::Jwt;
use toolbus_proto::oauth::keyset::{Algorithm, KeySet};
use toolbus_testkit::tokens::{Signer, key_set};

use crate::{Plan, median};

/// As sign-in servers write them.
const CLAIMS: &str = r#"{"iss":"https://id.example.com/realms/tools","aud":["https://tools.example.com/mcp","account"],"sub":"6f0c1c46-3c3e-4a38-9c5b-1a1d1c0f2a77","exp":2000600,"iat":2000000,"jti":"9b0a8a1e-2f5d-4f6a-9a7e-0f6b1f0e8b2c","client_id":"editor","scope":"openid tools git:write","groups":["dev","ops"],"email":"ann@example.com"}"#;

pub(crate) fn measure(plan: &Plan) {
    println!("| algorithm | signature alone | the whole token | ratio |\n|---|---|---|---|");
    for signer in [Signer::p256(), Signer::rsa(), Signer::ed25519(1)] {
        let algorithm = signer.algorithm();
        let header = format!(r#"{{"alg":"{algorithm}","typ":"at+jwt","kid":"k"}}"#);
        let token = signer.token(&header, CLAIMS);
        let jwk = signer.jwk("k");
        let keys = KeySet::read(key_set(std::slice::from_ref(&jwk)).as_bytes()).expect("a set");
        let rules = ClaimRules {
            issuers: vec!["https://id.example.com/realms/tools".to_owned()],
            audience: vec!["https://tools.example.com/mcp".to_owned()],
            skew: Duration::from_secs(30),
        };
        let whole = || {
            let jwt = Jwt::read(black_box(&token), &Algorithm::ALL).expect("it is well written");
            black_box(jwt.judge(2_000_100.0, &rules, &keys).expect("it is good"));
        };
        let (signed, signature) = token.rsplit_once('.').expect("it has three parts");
        let signature = from_base64url(signature).expect("it was written so");
        let part = |name: &str| {
            let (_, rest) = jwk.split_once(&format!("\"{name}\":\"")).unwrap_or_default();
            from_base64url(rest.split('"').next().unwrap_or_default()).unwrap_or_default()
        };
        let (n, e, x, y) = (part("n"), part("e"), part("x"), part("y"));
        let point = [&[4][..], &x, &y].concat();
        let alone = || {
            let signed = black_box(signed.as_bytes());
            let checked = match algorithm {
                "RS256" => RsaPublicKeyComponents { n: &n, e: &e }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, signed, &signature),
                "ES256" => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point)
                    .verify(signed, &signature),
                _ => UnparsedPublicKey::new(&ED25519, &x).verify(signed, &signature),
            };
            checked.expect("it is its signature");
        };
        let (mut of_alone, mut of_whole) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            of_alone.push(time(plan.count, alone));
            of_whole.push(time(plan.count, whole));
        }
        let (alone, whole) = (median(of_alone), median(of_whole));
        let ratio = whole.as_secs_f64() / alone.as_secs_f64();
        println!("| {algorithm} | {alone:.1?} | {whole:.1?} | {ratio:.2} |");
    }
}

/// How long one takes.
fn time(count: usize, one: impl Fn()) -> Duration {
    let begun = Instant::now();
    (0..count).for_each(|_| one());
    begun.elapsed() / u32::try_from(count).expect("they are few")
}
