//! Finds every `syscall` instruction of a loaded object, and writes the jumps that replace them.
//!
//! ```text
//!   image.rs     an object: segments of bytes at addresses, and its table of functions
//!   sections.rs  which parts of a segment hold code, and not data
//!   sites.rs     candidates (the bytes 0f 05) → functions that hold one → instructions → sites
//!   liveness.rs  whether a vector register is alive across the call
//!   stubs.rs     a site → five bytes of jump in the text, and a near stub into the dispatcher
//! ```
//!
//! No instruction is patched because of its bytes alone. A candidate counts only if decoding its
//! function from the first instruction meets it at an instruction boundary. Data is never changed:
//! a candidate counts only inside a section that holds code. In an object without section headers,
//! it counts only between the first function and the end of the last one. The crate changes no
//! memory; it returns the bytes to write. `duality run` applies the crate to the running process,
//! and `duality run --check` applies it to files.
//!
//! A system call clobbers only `rcx` and `r11`, so a stub may use only these two registers.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod image;
mod liveness;
mod sections;
mod sites;
mod stubs;

pub use image::{Image, Segment};
pub use sections::code_sections;
pub use sites::{Findings, Kind, Relative, Site, find_sites, has_candidates};
pub use stubs::{Entries, MAX_STUB_BYTES, Patch, THUNK_BYTES, patch};

/// Changes with the code that finds sites, so that what an older patcher found is not used.
pub const SEARCH: u64 = {
    const SOURCES: [&[u8]; 4] = [
        include_bytes!("image.rs"),
        include_bytes!("liveness.rs"),
        include_bytes!("sections.rs"),
        include_bytes!("sites.rs"),
    ];
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut source = 0;
    while source < SOURCES.len() {
        let mut at = 0;
        while at < SOURCES[source].len() {
            hash = (hash ^ SOURCES[source][at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        source += 1;
    }
    hash
};
