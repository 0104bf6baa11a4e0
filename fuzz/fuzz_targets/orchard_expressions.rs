#![no_main]

#[path = "../../crates/toolbus-orchard/tests/evaluator/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::expression(data));
