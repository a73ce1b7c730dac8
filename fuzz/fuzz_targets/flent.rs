//! Gives libFuzzer `txweir_fuzzed::flent`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::flent(data));
