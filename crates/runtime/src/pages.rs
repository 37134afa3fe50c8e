//! Memory from the kernel, in whole pages. The memory stays in place until it is given back.
//!
//! Miri knows neither shared mappings nor a change of access. Under Miri the allocator gives the
//! memory, so that the tables in it can be checked.

pub(crate) use self::source::{give_back, limit, make_usable, reserve, share};

#[cfg(not(miri))]
mod source {
    use std::io;
    use std::ptr::{self, NonNull};

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
    use rustix::process::{Resource, getrlimit};

    /// The most bytes of address space that this process may have (`RLIMIT_AS`); `None` without a
    /// limit.
    pub(crate) fn limit() -> Option<u64> {
        getrlimit(Resource::As).current
    }

    /// Memory that child processes will share, all zeroes. Only touched pages take memory.
    pub(crate) fn share(bytes: usize) -> io::Result<NonNull<u8>> {
        map(bytes, MapFlags::SHARED, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Address space without access, to be used with [`make_usable`].
    pub(crate) fn reserve(bytes: usize) -> io::Result<NonNull<u8>> {
        map(bytes, MapFlags::PRIVATE, ProtFlags::empty())
    }

    fn map(bytes: usize, kind: MapFlags, access: ProtFlags) -> io::Result<NonNull<u8>> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let place =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, kind | MapFlags::NORESERVE)? };
        Ok(NonNull::new(place.cast()).expect("mmap never returns null"))
    }

    /// Makes a part of reserved memory readable and writable.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for the part.
    ///
    /// # Safety
    ///
    /// The part is whole pages, within memory that [`reserve`] gave to the caller.
    pub(crate) unsafe fn make_usable(part: NonNull<u8>, bytes: usize) -> io::Result<()> {
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the part is the caller's, and the call adds access.
        Ok(unsafe { mprotect(part.as_ptr().cast(), bytes, access) }?)
    }

    /// Gives back memory of [`reserve`].
    ///
    /// # Safety
    ///
    /// The mapping has the requested number of bytes, and is not used again.
    pub(crate) unsafe fn give_back(place: NonNull<u8>, bytes: usize) {
        // SAFETY: the mapping is separate, and the caller promises that it is not used again.
        let unmapped = unsafe { munmap(place.as_ptr().cast(), bytes) };
        debug_assert_eq!(unmapped, Ok(()), "to unmap a whole mapping cannot fail");
    }
}

#[cfg(miri)]
mod source {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    const PAGE: usize = 4096;

    /// The limit is so low that a table of this size costs Miri no time.
    pub(crate) fn limit() -> Option<u64> {
        Some(1 << 29)
    }

    pub(crate) fn share(bytes: usize) -> io::Result<NonNull<u8>> {
        reserve(bytes)
    }

    pub(crate) fn reserve(bytes: usize) -> io::Result<NonNull<u8>> {
        assert!(bytes > 0, "a mapping has pages");
        // SAFETY: the layout has bytes.
        NonNull::new(unsafe { alloc_zeroed(layout(bytes)) })
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the kernel may refuse")]
    pub(crate) unsafe fn make_usable(_: NonNull<u8>, _: usize) -> io::Result<()> {
        Ok(())
    }

    pub(crate) unsafe fn give_back(place: NonNull<u8>, bytes: usize) {
        // SAFETY: `reserve` has allocated the memory with this layout, and the caller promises that
        // it is not used again.
        unsafe { dealloc(place.as_ptr(), layout(bytes)) };
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, PAGE).expect("a table has not that many bytes")
    }
}
