//! The face.
fn main() {}
