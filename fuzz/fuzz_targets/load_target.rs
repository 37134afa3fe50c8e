//! Targets of loads, as users write them.
//!
//! The shown form of a target can be read again and means the same. No target can put its own line
//! into the head of a request.

#![no_main]

use duality_load::fuzzing::target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(read) = target(text) else { return };
    let shown = read.to_string();
    let again = target(&shown).expect("what is shown can be read");
    assert_eq!(format!("{again:?}"), format!("{read:?}"));
    assert!(read.check().is_ok());
    if let Some(page) = read.page() {
        assert!(page.path.starts_with('/'));
        let both = page.path.bytes().chain(page.host.bytes());
        assert!(both.into_iter().all(|byte| byte.is_ascii_graphic()), "{shown:?}");
    }
});
