//! Gives libFuzzer `txweir_fuzzed::batch`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::batch(data));
