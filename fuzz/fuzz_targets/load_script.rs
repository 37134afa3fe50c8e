//! Files of URLs, tables of values and expectations, as users give them to `duality load`.
//!
//! The text is a file of URLs. A line `---` may follow, and after it a table of values. For any
//! content, each request has one head with the given headers, and its whole body. No value adds a
//! line to the head.

#![no_main]

use duality_load::fuzzing::{expectation, script};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (statuses, _) = expectation(text);
    if let Some(statuses) = statuses {
        assert!(!statuses.contains(199) && !statuses.contains(1000));
    }
    let (urls, values) = match text.split_once("\n---\n") {
        Some((urls, values)) => (urls, Some(values.as_bytes())),
        None => (text, None),
    };
    let Some(requests) = script(urls, values) else { return };
    for (listed, bytes) in requests {
        assert!(listed.weight > 0 && listed.line > 0);
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut read = httparse::Request::new(&mut headers);
        let parsed = read.parse(&bytes).expect("a request that is sent is well formed");
        let httparse::Status::Complete(head) = parsed else { panic!("the head has an end") };
        assert_eq!(read.method, Some(listed.request.method.to_string().as_str()));
        // The client adds Host, User-Agent and Content-Length.
        let given = listed.request.headers.len();
        assert!((given..=given + 3).contains(&read.headers.len()), "{:?}", read.headers);
        let is_length = |header: &&httparse::Header<'_>| header.name == "Content-Length";
        let length = read.headers.iter().find(is_length).map_or(0, |header| {
            std::str::from_utf8(header.value).unwrap().parse::<usize>().unwrap()
        });
        assert_eq!(bytes.len() - head, length);
    }
});
