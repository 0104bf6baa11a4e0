//! The pure part of streamable HTTP (`specs` 1.5, 1.6, 2.8, 2.9).

mod headers;

pub use headers::{BadMirror, Mirror, Mirrored, decode_value, encode_value, mirror_of, mirrored};
