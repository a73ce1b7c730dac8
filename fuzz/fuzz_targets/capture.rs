//! Gives libFuzzer `txweir_fuzzed::capture`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::capture(data));
