//! Templates with mistakes. With any template, the server goes on and the page ends.

#![no_main]

use duality_services::fuzzing::guestbook::Page;
use duality_services::store::Remark;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    // The engine builds all of `"x" * 10000000` before it writes, and so before the bound on a
    // page's length applies. Such a template uses the operator's own memory, and no client can ask
    // for it.
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    if source.contains('*') && source.as_bytes().windows(5).any(|five| five.iter().all(is_digit)) {
        return;
    }
    let Some(page) = Page::of(source) else { return };
    let remark = Remark { guest: "<Ada>".to_owned(), text: "{{ visitors }}".to_owned() };
    // The library itself checks the length of the page.
    let _ = page.with(&remark);
    let _ = page.refusing("<Ada>", "");
});
