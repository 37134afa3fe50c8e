//! The objects of the process, for walks through stacks.

use alloc::vec::Vec;
use core::ops::Range;

use duality_patcher::Image;

use crate::kernel::lock::{Guarded, Locked, lock};

/// An object of the process, for code that looks at stacks.
pub(crate) struct LoadedObject {
    pub(crate) name: Vec<u8>,
    pub(crate) base: u64,
    /// The table of functions (`.eh_frame_hdr`).
    pub(crate) functions: u64,
    text: Range<u64>,
}

/// The name of the program itself, which the dynamic linker does not tell.
pub(crate) const PROGRAM: &[u8] = b"the program";

impl LoadedObject {
    pub(crate) fn is_program(&self) -> bool {
        self.name == PROGRAM
    }
}

static KNOWN: Guarded<Vec<LoadedObject>> = Guarded::new(Vec::new());

/// The object that has code at `address`.
pub(crate) fn find(locked: &mut Locked, address: u64) -> Option<&LoadedObject> {
    KNOWN.of(locked).iter().find(|known| known.text.contains(&address))
}

/// Takes note of an object when its code has been mapped. Forgets the objects that were at its
/// addresses before.
pub(crate) fn remember(image: &Image<'_>, name: &[u8], base: u64) {
    let texts = image.segments.iter().filter(|segment| segment.executable);
    let functions = image.functions.unwrap_or(0);
    let mut locked = lock();
    for segment in texts {
        let text = segment.address..segment.address + segment.bytes.len() as u64;
        let known = KNOWN.of(&mut locked);
        known.retain(|other| other.text.end <= text.start || text.end <= other.text.start);
        known.push(LoadedObject { name: name.to_vec(), base, functions, text });
    }
}
