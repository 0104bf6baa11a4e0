//! Access tokens that are signed: JSON Web Tokens (RFC 7519, RFC 9068), read as strictly as they
//! can be.
//!
//! A token is read by [`Jwt::read`], which trusts nothing of it; [`Jwt::issuer`] says whose keys are
//! needed, and [`Jwt::judge`] checks signature and claims. No key ever comes from a token.

use serde_json::{Map, Value};

use super::base64url::from_base64url;
use super::claims::{CLAIMS_DEPTH_MAX, ClaimRules, Claims, TokenFault};
use super::document::object;
use super::keyset::{Algorithm, KeySet};

/// How long a token may be.
pub const TOKEN_BYTES_MAX: usize = 16_384;

/// A token of which nothing is known but that it is well written.
#[derive(Debug)]
pub struct Jwt<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Map<String, Value>,
    signed: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> Jwt<'a> {
    /// Takes a token apart that is signed in one of these ways.
    pub fn read(token: &'a str, algorithms: &[Algorithm]) -> Result<Jwt<'a>, TokenFault> {
        let malformed = TokenFault::Malformed;
        if TOKEN_BYTES_MAX < token.len() {
            return Err(malformed("it is too long"));
        }
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("it has not three parts"));
        };
        let bytes = |part: &str| from_base64url(part).ok_or(malformed("a part is no base64url"));
        let read = |part: &str| {
            let json = bytes(part)?;
            object(&json, CLAIMS_DEPTH_MAX).map_err(|_| malformed("a part is no JSON object"))
        };
        let header_members = read(header)?;
        let algorithm = match header_members.get("alg") {
            Some(Value::String(name)) => Algorithm::named(name),
            _ => return Err(malformed("its `alg` is no text")),
        };
        let algorithm = algorithm.filter(|it| algorithms.contains(it));
        let algorithm = algorithm.ok_or(TokenFault::Algorithm)?;
        check_header(&header_members)?;
        let key_id = match header_members.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(malformed("its `kid` is no text")),
        };
        let claims_members = read(claims)?;
        let signature = bytes(signature)?;
        let signed = &token.as_bytes()[..header.len() + 1 + claims.len()];
        Ok(Jwt { algorithm, key_id, claims: claims_members, signed, signature })
    }

    /// The issuer that it says it is from, if tokens of that are let in.
    pub fn issuer<'r>(&self, rules: &'r ClaimRules) -> Result<&'r String, TokenFault> {
        rules.issuer(&self.claims)
    }

    /// Does it name a key that is not in the set? Another set may have it.
    pub fn wants_other(&self, keys: &KeySet) -> bool {
        self.key_id.as_deref().is_some_and(|id| !keys.has(id))
    }

    /// Judges it by the keys of its issuer; `now` in Unix seconds.
    pub fn judge(self, now: f64, rules: &ClaimRules, keys: &KeySet) -> Result<Claims, TokenFault> {
        let issuer = self.issuer(rules)?;
        let key = keys.find(self.algorithm, self.key_id.as_deref()).ok_or(TokenFault::Key)?;
        if !key.has_signed(self.signed, &self.signature) {
            return Err(TokenFault::Signature);
        }
        rules.judge(now, issuer, self.claims)
    }
}

/// What a header may not say, and what it must if it says it.
fn check_header(header: &Map<String, Value>) -> Result<(), TokenFault> {
    const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];
    let is_type = |kind: &Value| {
        kind.as_str().is_some_and(|kind| TYPES.iter().any(|it| kind.eq_ignore_ascii_case(it)))
    };
    if header.get("typ").is_some_and(|kind| !is_type(kind)) {
        return Err(TokenFault::Malformed("its `typ` is not that of an access token"));
    }
    // Each would have it be read otherwise than we do.
    match ["crit", "b64", "enc", "zip"].iter().any(|name| header.contains_key(*name)) {
        true => Err(TokenFault::Malformed("its header asks for what is not known")),
        false => Ok(()),
    }
}
