//! Stack colours: how far from its top each stack begins.
//!
//! A micro-optimisation. A *colour* is a number of cache lines that are left out at the top of a stack, another number for
//! each stack and its neighbours. Without colours, what all stacks touch would have the same few places in a page, which
//! are the same few sets of each cache. More colours would gain a little more, and have more stacks begin a second page.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | a wake among 1,000 threads took 33 ns instead of 41; among 100, 10,000 and 100,000 the same within a tenth (two alternating runs) | `cargo bench -p duality-runtime --bench wakes` | 3 % of a wake among 1,000 threads |

/// How many colours there are: a power of two, and less than the bytes of a page.
pub(crate) const COLOURS: usize = 16;
/// The most bytes that a colour leaves out.
pub(crate) const MOST: usize = crate::LINE * (COLOURS - 1);

/// The colour of the stack of that number in its slab.
pub(crate) const fn of(index: usize) -> usize {
    index % COLOURS
}

/// How many bytes a colour leaves out.
pub(crate) const fn bytes(colour: usize) -> usize {
    crate::LINE * colour
}
