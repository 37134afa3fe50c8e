//! Templates of an operator who slips: whatever is in the file, the server goes on, and the page has
//! an end.

#![no_main]

use duality_services::fuzzing::guestbook::Page;
use duality_services::store::Remark;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    let Some(page) = Page::of(source) else { return };
    let remark = Remark { guest: "<Ada>".to_owned(), text: "{{ visitors }}".to_owned() };
    // The length of what is rendered is checked beyond these calls.
    let _ = page.with(&remark);
    let _ = page.refusing("<Ada>", "");
});
