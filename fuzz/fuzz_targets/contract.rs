#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| run_operator_fuzz::service::properties::contract(input));
