#![no_main]

#[path = "../../crates/toolbus-orchard/tests/it/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::expression(data));
