#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| { let _ = (duality_load::run as usize, duality_lab::plan::cells as usize, duality_services::find(std::str::from_utf8(bytes).unwrap_or(""))); });
