//! Gives libFuzzer `txweir_fuzzed::tc_line`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::tc_line(data));
