//! Gives libFuzzer `txweir_fuzzed::trace`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::trace(data));
