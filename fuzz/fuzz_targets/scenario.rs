//! Gives libFuzzer `txweir_fuzzed::scenario`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::scenario(data));
