//! Chunked bodies, as the http service reads them.
//!
//! The result does not depend on where the bytes are cut. The kept bytes are bounded. The client of
//! `duality load` reads every body that the service accepts, with the same result. A body may have
//! any content.

#![no_main]

use duality_fuzz::{bytewise, split};
use duality_load::fuzzing::http as client;
use duality_services::fuzzing::http::{Ended, chunked};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 2000;
const ROOM: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let ended = chunked(&[bytes], LIMIT, ROOM);
    assert_eq!(ended, chunked(&split(bytes), LIMIT, ROOM));
    assert_eq!(ended, chunked(&bytewise(bytes), LIMIT, ROOM));
    if let Ended::Finished(taken, content) = ended {
        assert!(content.len() <= ROOM && content.len() <= taken && taken as u64 <= LIMIT);
        assert!(bytes[..taken].ends_with(b"\r\n\r\n"));
        // The bytes after the body have no influence.
        assert_eq!(
            chunked(&[&bytes[..taken]], LIMIT, ROOM),
            Ended::Finished(taken, content.clone())
        );
        assert_eq!(client::chunked(bytes), Some((content, taken)));
    }

    let mut sent = Vec::new();
    for piece in split(bytes) {
        sent.extend(format!("{:x}\r\n", piece.len()).bytes());
        sent.extend(piece);
        sent.extend(b"\r\n");
    }
    sent.extend(b"0\r\n\r\n");
    assert_eq!(
        chunked(&split(&sent), u64::MAX, usize::MAX),
        Ended::Finished(sent.len(), bytes.to_vec())
    );
});
