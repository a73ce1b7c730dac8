//! Gives libFuzzer `txweir_fuzzed::protocol`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::protocol(data));
