//! A recycler of memory blocks: a loop keeps the blocks of tasks that have ended for tasks that begin.
//!
//! A micro-optimisation. A task may live for less than a hundred nanoseconds, and has two blocks: its state, and its join
//! cell. Without the recycler, a [`RecycledBox`] would be a `Box`.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | a quarter of the instructions of a spawn and join were those of malloc(3) and free(3) | `duality model --measure suspend spawn 5000000`, and `park` | 5 % of a spawn and join |
//!
//! ```text
//!   drop ─▶ class 24 bytes: ▢─▶▢─▶▢      one list for each size that malloc has, of the loop's own, so
//!           class 40 bytes: ▢─▶▢         without a lock; beyond `KEPT` a block goes back to malloc,
//!           …                     ─▶ new and where there is no loop, each does
//! ```

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

use super::current;

/// How many blocks of a size a loop keeps. None under a sanitizer, so that it sees uses after a free.
const KEPT: u32 = if cfg!(feature = "sanitizer") { 0 } else { 256 };

/// A box whose memory comes from the loop's lists, and goes back to them.
pub struct RecycledBox<T: ?Sized> {
    value: NonNull<T>,
    owns: PhantomData<T>,
}

impl<T: ?Sized> fmt::Debug for RecycledBox<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RecycledBox").finish_non_exhaustive()
    }
}

// SAFETY: it owns its value, and nothing else; blocks come from an allocator that serves every thread.
unsafe impl<T: ?Sized + Send> Send for RecycledBox<T> {}

impl<T> RecycledBox<T> {
    pub(crate) fn new(value: T) -> Self {
        let place = take(Layout::new::<T>()).cast::<T>();
        // SAFETY: the block is new, and has that layout.
        unsafe { place.write(value) };
        Self { value: place, owns: PhantomData }
    }
}

/// A future in a block of its own, as what a loop runs is.
pub type BoxedFuture = Pin<RecycledBox<dyn Future<Output = ()> + Send>>;

/// The same, for a future that stays on its kernel thread. It is pinned, and polled or dropped in its place.
pub(crate) struct LocalFuture(RecycledBox<dyn Future<Output = ()>>);

/// Makes a [`BoxedFuture`] of a future.
pub fn boxed_future(future: impl Future<Output = ()> + Send + 'static) -> BoxedFuture {
    // The compiler knows how to forget the type of what a `NonNull` points to.
    let future: NonNull<dyn Future<Output = ()> + Send> = RecycledBox::new(future).into_raw();
    // SAFETY: it came from `into_raw` just now, and has no other owner. What is in a block is not moved until it is dropped.
    unsafe { Pin::new_unchecked(RecycledBox::from_raw(future)) }
}

/// Makes a [`LocalFuture`] of a future.
pub(crate) fn local_future(future: impl Future<Output = ()> + 'static) -> LocalFuture {
    let future: NonNull<dyn Future<Output = ()>> = RecycledBox::new(future).into_raw();
    // SAFETY: it came from `into_raw` just now, and has no other owner.
    LocalFuture(unsafe { RecycledBox::from_raw(future) })
}

impl LocalFuture {
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: what is in a block is not moved until it is dropped, and the block has no other owner.
        unsafe { Pin::new_unchecked(&mut *self.0) }.poll(context)
    }

    /// Where the future is. It is not looked at: a future may borrow from itself, and a reference to all of it would
    /// overlap with what it borrows.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.value.addr().get()
    }
}

impl From<BoxedFuture> for LocalFuture {
    #[inline]
    fn from(future: BoxedFuture) -> Self {
        // SAFETY: it stays in its block, and a `LocalFuture` keeps it pinned.
        let future: NonNull<dyn Future<Output = ()>> =
            unsafe { Pin::into_inner_unchecked(future) }.into_raw();
        // SAFETY: it came from `into_raw` just now, and has no other owner.
        Self(unsafe { RecycledBox::from_raw(future) })
    }
}

impl<T: ?Sized> RecycledBox<T> {
    /// Its value, for the caller to see to.
    pub(crate) fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).value
    }

    /// # Safety
    ///
    /// The value is one that [`into_raw`](RecycledBox::into_raw) gave, maybe by another type, and has no other owner.
    pub(crate) unsafe fn from_raw(value: NonNull<T>) -> Self {
        Self { value, owns: PhantomData }
    }
}

impl<T: ?Sized> Deref for RecycledBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is there until this is dropped, and borrowed as this is.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for RecycledBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is there until this is dropped, and borrowed exclusively as this is.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for RecycledBox<T> {
    fn drop(&mut self) {
        /// Gives the block back also when the value's destructor panics.
        struct Block(NonNull<u8>, Layout);
        impl Drop for Block {
            fn drop(&mut self) {
                give_back(self.0, self.1);
            }
        }
        let _block = Block(self.value.cast(), Layout::for_value::<T>(self));
        // SAFETY: the value is there, and not looked at again.
        unsafe { self.value.drop_in_place() };
    }
}

/// The blocks that one loop keeps.
pub(crate) struct Blocks([Class; Class::COUNT]);

impl Default for Blocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Class::default()))
    }
}

/// Those of one size.
#[derive(Default)]
struct Class {
    first: Cell<Option<NonNull<Kept>>>,
    count: Cell<u32>,
}

/// What is written into a block that is not in use.
struct Kept {
    next: Option<NonNull<Kept>>,
}

impl Class {
    /// Up to 1,016 bytes.
    const COUNT: usize = 64;

    /// The class of the smallest blocks that are long enough: 24, 40, 56, …, the sizes of malloc's blocks.
    #[inline]
    const fn of(layout: Layout) -> Option<usize> {
        let class = layout.size().saturating_sub(24).div_ceil(16);
        if class < Self::COUNT && layout.align() <= 16 { Some(class) } else { None }
    }

    /// What the blocks of a class are asked from the allocator by.
    #[inline]
    const fn layout(class: usize) -> Layout {
        match Layout::from_size_align(24 + 16 * class, 16) {
            Ok(layout) => layout,
            Err(_) => unreachable!(),
        }
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        let kept = self.first.get()?;
        // SAFETY: it is on the list, so it was written by `push`, and has no other owner.
        self.first.set(unsafe { kept.read() }.next);
        self.count.set(self.count.get() - 1);
        Some(kept.cast())
    }

    /// Keeps a block of this class that is no longer in use; false when there are enough.
    #[inline]
    fn push(&self, block: NonNull<u8>) -> bool {
        if self.count.get() == KEPT {
            return false;
        }
        let block = block.cast::<Kept>();
        // SAFETY: the smallest block is as long as this, and all are aligned to 16 bytes.
        unsafe { block.write(Kept { next: self.first.get() }) };
        self.first.set(Some(block));
        self.count.set(self.count.get() + 1);
        true
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (number, class) in self.0.iter().enumerate() {
            while let Some(block) = class.pop() {
                // SAFETY: every block of a class was allocated by the layout of the class.
                unsafe { dealloc(block.as_ptr(), Class::layout(number)) };
            }
        }
    }
}

/// A block of memory for a value of that layout.
#[inline]
fn take(layout: Layout) -> NonNull<u8> {
    if layout.size() == 0 {
        let nowhere = ptr::without_provenance_mut(layout.align());
        return NonNull::new(nowhere).expect("no alignment is zero");
    }
    let Some(class) = Class::of(layout) else { return allocate(layout) };
    let kept = current::with_loop(|core| core.and_then(|core| core.blocks.0[class].pop()));
    kept.unwrap_or_else(|| allocate(Class::layout(class)))
}

/// Takes back what [`take`] gave for the same layout.
#[inline]
fn give_back(block: NonNull<u8>, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    let class = Class::of(layout);
    let is_kept = class.is_some_and(|class| {
        current::with_loop(|core| core.is_some_and(|core| core.blocks.0[class].push(block)))
    });
    if !is_kept {
        // SAFETY: it was allocated by this layout, which `take` chose in the same way.
        unsafe { dealloc(block.as_ptr(), class.map_or(layout, Class::layout)) };
    }
}

/// # Panics
///
/// When the layout is of size zero.
#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0, "a value without bytes has no block");
    // SAFETY: the layout has bytes.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_class_has_room_and_wastes_little(size in 1_usize..2000) {
            let layout = Layout::from_size_align(size, 8).unwrap();
            match Class::of(layout) {
                Some(class) => {
                    let block = Class::layout(class).size();
                    prop_assert!(block >= size && (block < size + 16 || block == 24));
                }
                None => prop_assert!(size > 1016),
            }
        }
    }

    #[test]
    fn a_list_gives_what_it_was_given_and_no_more() {
        let class = Class::default();
        let blocks: Vec<_> = (0..=KEPT).map(|_| allocate(Class::layout(0))).collect();
        let kept = blocks.iter().filter(|block| class.push(**block)).count();
        assert_eq!(kept, KEPT as usize);
        let given: Vec<_> = std::iter::from_fn(|| class.pop()).collect();
        assert!(given.iter().rev().eq(&blocks[..kept]));
        for block in blocks {
            // SAFETY: it was allocated above, once.
            unsafe { dealloc(block.as_ptr(), Class::layout(0)) };
        }
    }

    #[test]
    fn values_of_any_shape_are_dropped_once() {
        #[repr(align(64))]
        struct Aligned(Rc<()>);
        let alive = Rc::new(());
        let small = RecycledBox::new(alive.clone());
        let large = RecycledBox::new((alive.clone(), [0_u8; 5000]));
        let aligned = RecycledBox::new(Aligned(alive.clone()));
        let nothing = RecycledBox::new(());
        assert_eq!((Rc::strong_count(&alive), *nothing), (4, ()));
        assert_eq!((&raw const aligned.0).addr() % 64, 0);
        drop((small, large, aligned, nothing));
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    #[test]
    fn a_destructor_that_panics_does_so_once() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let value = RecycledBox::new((Panics, 1_u64));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(value))).is_err());
    }
}
