#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| toolbus_testkit::fuzz::view::arguments(data));
