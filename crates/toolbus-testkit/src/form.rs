//! How long a form a test has: short in `cargo test`, long in the stage `long` of `.ci/run`.
//!
//! A test that tries something at many moments or over many pairs is one test with two counts,
//! so that nothing is left out: the short form tries all there is to see, the long one more of
//! it. Here is the only place that reads which one is wanted, and the seed of all randomness.

use std::env;

/// Set to `1` where the long form is wanted.
const LONG: &str = "TOOLBUS_LONG";
/// The number that all randomness begins with, where it shall be another than the usual one.
const SEED: &str = "TOOLBUS_SEED";
/// The usual one; `.cargo/config.toml` has the same for proptest.
const USUAL_SEED: u64 = 22;

/// Is the long form wanted?
pub fn is_long() -> bool {
    env::var_os(LONG).is_some_and(|value| value == "1")
}

/// The first in the short form, the second in the long one.
pub fn short_or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// What randomness begins with. It is printed, so that a run that fails can be repeated.
pub fn seed() -> u64 {
    let seed = match env::var(SEED) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED}: `{text}` is no number")),
        Err(_) => USUAL_SEED,
    };
    println!("{SEED}={seed}");
    seed
}
