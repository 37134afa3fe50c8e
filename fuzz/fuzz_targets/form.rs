//! Forms that clients post to the guestbook, up to the page that shows the remark.
//!
//! Forms that a browser encodes are decoded. Accepted remarks keep their bounds. No remark brings
//! its own mark-up into a page.

#![no_main]

use std::sync::LazyLock;

use duality_services::fuzzing::guestbook::{Page, form, remark};
use duality_services::store::Remark;
use libfuzzer_sys::fuzz_target;

static PAGE: LazyLock<(Page, [usize; 4], [usize; 4])> = LazyLock::new(|| {
    let page = Page::built_in();
    let plain = Remark { guest: "x".to_owned(), text: "x".to_owned() };
    let shown = markup(&page.with(&plain).expect("the page is sound"));
    let refused = markup(&page.refusing("x", "x").expect("the page is sound"));
    (page, shown, refused)
});

fuzz_target!(|bytes: &[u8]| {
    if let Some([guest, text]) = form(bytes, ["guest-name", "guest-remarks"]) {
        let (guest, text) = (guest.unwrap_or_default(), text.unwrap_or_default());
        assert!(guest.len() + text.len() <= bytes.len());
        let swapped = form(bytes, ["guest-remarks", "guest-name"]).expect("it was a form before");
        assert_eq!(swapped.map(Option::unwrap_or_default), [text.clone(), guest.clone()]);
        show(&guest, &text);
    }

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (name, value) = text.split_once('\n').unwrap_or((text, ""));
    // The first half of the input tries empty names and repeated fields.
    if !name.is_empty() && name != "other" {
        let body = format!("other=1&{}={}", encode(name), encode(value));
        let expected = [Some(value.to_owned()), Some("1".to_owned())];
        assert_eq!(form(body.as_bytes(), [name, "other"]), Some(expected));
    }
});

/// Shows a guest's input, on the page with the remark or on the page that refuses it.
fn show(guest: &str, text: &str) {
    let (page, shown, refused) = &*PAGE;
    if let Some(remark) = remark(guest, text) {
        assert!((1..=64).contains(&remark.guest.chars().count()));
        assert!((1..=1000).contains(&remark.text.chars().count()));
        assert!(!remark.guest.contains(char::is_control));
        assert!(!remark.text.replace('\n', "").contains(char::is_control));
        assert_eq!(&markup(&page.with(&remark).expect("the page is sound")), shown);
    }
    assert_eq!(&markup(&page.refusing(guest, text).expect("the page is sound")), refused);
}

/// The number of each of HTML's special characters. `&` does not count: it begins the escapes of
/// the others.
fn markup(page: &str) -> [usize; 4] {
    ['<', '>', '"', '\''].map(|character| page.matches(character).count())
}

/// Encodes as a browser does (the URL standard, section 5.2).
fn encode(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
