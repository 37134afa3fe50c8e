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
pub use sites::{Findings, Kind, Relative, Site, find_sites};
pub use stubs::{Entries, MAX_STUB_BYTES, Patch, THUNK_BYTES, patch};
