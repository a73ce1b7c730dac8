//! Gives libFuzzer `txweir_fuzzed::dump`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::dump(data));
