#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holdback_fuzz::feed("engine_caps", bytes));
