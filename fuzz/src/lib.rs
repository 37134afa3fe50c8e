//! Shared by the fuzz targets: other ways in which the same bytes could come.
//!
//! Each target is one file in `fuzz_targets/`, with readable seeds in `corpus/TARGET/` and a line
//! in `Cargo.toml`. `cargo xtask fuzz` builds and runs them; so does `cargo fuzz run TARGET`.

#![forbid(unsafe_code)]

/// Cuts bytes into pieces as a network could. The bytes alone decide where. So a seed is exactly
/// what a peer sends, and a crash is reproducible.
#[must_use]
pub fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut random = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Mostly short pieces, and a long one now and then.
        let longest = if random & 7 == 0 { 200 } else { 12 };
        let length = 1 + (random >> 8) as usize % longest;
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Cuts bytes into single ones.
#[must_use]
pub fn bytewise(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.chunks(1).collect()
}
