//! A loop's spare memory for bytes that come and go: taken when there are some, given back when they are gone.
//!
//! It is a few pairs of moves to take a block and to give it back, and no lock, for it is the loop's own. In
//! the block world nothing is given back: each task is a kernel thread there, and has its blocks to itself.

use std::cell::RefCell;
use std::mem;

use crate::world;

/// How many blocks of a kind a loop keeps. More are in use where many connections are within a request.
const KEPT: usize = 64;
/// The longest that it keeps, in bytes.
const LONGEST: usize = 32 << 10;

/// What memory is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// All of it has been written once.
    Reading,
    /// It is empty, and has a capacity.
    Writing,
}

/// The spare blocks of one loop.
#[derive(Default)]
pub(crate) struct Spare {
    reading: RefCell<Vec<Vec<u8>>>,
    writing: RefCell<Vec<Vec<u8>>>,
}

impl Spare {
    fn of(&self, purpose: Purpose) -> &RefCell<Vec<Vec<u8>>> {
        match purpose {
            Purpose::Reading => &self.reading,
            Purpose::Writing => &self.writing,
        }
    }
}

/// Puts the block that was given back last, if there is one, in the place of `bytes`, which has no memory.
#[inline]
pub(crate) fn borrow(purpose: Purpose, bytes: &mut Vec<u8>) {
    world::with_loop(|core| {
        let spare = core.and_then(|core| core.spare.of(purpose).borrow_mut().pop());
        if let Some(spare) = spare {
            *bytes = spare;
        }
    });
}

/// Takes away the memory of `bytes`, in which there is nothing that anyone needs. Not in the block world.
#[inline]
pub(crate) fn give_back(purpose: Purpose, bytes: &mut Vec<u8>) {
    world::with_loop(|core| {
        let Some(core) = core else { return };
        if bytes.capacity() == 0 {
            return;
        }
        let block = mem::take(bytes);
        let mut kept = core.spare.of(purpose).borrow_mut();
        if kept.len() < KEPT && block.capacity() <= LONGEST {
            kept.push(block);
        }
    });
}
