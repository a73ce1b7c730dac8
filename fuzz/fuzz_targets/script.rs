//! Gives libFuzzer `txweir_fuzzed::script`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::script(data));
