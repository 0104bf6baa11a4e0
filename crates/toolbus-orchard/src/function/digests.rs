//! Digests, and what is made of them.

use md5::Md5;
use sha1::Sha1;
use sha2::digest::Digest;
use sha2::{Sha256, Sha512};

use super::encoding::{from_hex, hex};
use super::{Call, Function, Outcome, Parameter, bad, function, gives, text_of};

const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("md5(s)", &[S], gives::text, digest::<Md5>),
    function("sha1(s)", &[S], gives::text, digest::<Sha1>),
    function("sha256(s)", &[S], gives::text, digest::<Sha256>),
    function("sha512(s)", &[S], gives::text, digest::<Sha512>),
    function("hmacsha256(key, s)", &[S, S], gives::text, hmacsha256),
    function("uuidv5(namespace, name)", &[S, S], gives::text, uuidv5),
];

fn digest<D: Digest>(call: &Call<'_>) -> Outcome {
    text_of(hex(&D::digest(call.text(0))))
}

/// RFC 2104.
fn hmacsha256(call: &Call<'_>) -> Outcome {
    const BLOCK: usize = 64;
    let key = call.text(0).as_bytes();
    let mut block = [0u8; BLOCK];
    match key.len() <= BLOCK {
        true => block[..key.len()].copy_from_slice(key),
        false => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36));
    let inner = inner.chain_update(call.text(1)).finalize();
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    text_of(hex(&outer.chain_update(inner).finalize()))
}

/// RFC 9562, with the namespaces of its appendix by name.
fn uuidv5(call: &Call<'_>) -> Outcome {
    let namespace = match call.text(0) {
        "dns" => "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "url" => "6ba7b811-9dad-11d1-80b4-00c04fd430c8",
        "oid" => "6ba7b812-9dad-11d1-80b4-00c04fd430c8",
        "x500" => "6ba7b814-9dad-11d1-80b4-00c04fd430c8",
        namespace => namespace,
    };
    let lengths = namespace.split('-').map(str::len);
    let bytes = lengths.eq([8, 4, 4, 4, 12]).then(|| from_hex(&namespace.replace('-', "")));
    let bytes = bytes
        .flatten()
        .ok_or_else(|| bad("the namespace must be `dns`, `url`, `oid`, `x500` or a UUID").of(0))?;
    let digest = Sha1::new().chain_update(bytes).chain_update(call.text(1)).finalize();
    let mut uuid = [0u8; 16];
    uuid.copy_from_slice(&digest[..16]);
    text_of(uuid_text(uuid, 5))
}

/// A UUID of this version as text; the bits that say so are set here.
pub(super) fn uuid_text(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
