//! Replies of a server, which may be hostile, to the client of http.
//!
//! The reply does not depend on where the bytes are cut. A reply takes and holds no more bytes than
//! came.

#![no_main]

use duality_fuzz::{bytewise, split};
use duality_load::fuzzing::{http::reply, visitors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = reply(&[bytes]);
    assert_eq!(whole, reply(&split(bytes)));
    assert_eq!(whole, reply(&bytewise(bytes)));
    let Ok(Some(reply)) = whole else { return };
    assert!(reply.head <= reply.taken && reply.taken <= bytes.len());
    assert!(reply.content.len() <= reply.taken - reply.head);
    assert!(reply.taken == bytes.len() || reply.is_complete, "bytes were left, but for what?");
    assert!(reply.may_end || !reply.is_complete);
    assert!(reply.status <= 999);
    let _ = visitors(&reply.content);
});
