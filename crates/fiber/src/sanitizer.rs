//! Tells AddressSanitizer at every switch on which stack the kernel thread is.
//!
//! Without the feature `sanitizer` this module does nothing: a stack's bounds are a type without
//! values to store. With the feature, the program links only under `-Zsanitizer=address`, which
//! provides the interface: `<sanitizer/common_interface_defs.h>` of LLVM's compiler-rt.

pub(crate) use told::{Bounds, Left, left_for_good, vacated};

#[cfg(not(feature = "sanitizer"))]
mod told {
    /// The lowest address of a stack, and its number of bytes.
    #[derive(Clone, Copy)]
    pub(crate) struct Bounds;

    impl Bounds {
        /// The bounds of the kernel thread's own stack.
        pub(crate) const UNKNOWN: Self = Self;

        #[inline(always)]
        pub(crate) fn new(_: impl FnOnce() -> (usize, usize)) -> Self {
            Self
        }
    }

    /// A stack that has been left for another stack, until it runs again.
    pub(crate) struct Left;

    impl Left {
        #[inline(always)]
        pub(crate) fn here_for(_: Bounds) -> Self {
            Self
        }

        /// The value of a fresh stack, which was never left.
        #[inline(always)]
        pub(crate) const fn never() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn back(self) {}
    }

    #[inline(always)]
    pub(crate) fn left_for_good(_: Bounds) {}

    #[inline(always)]
    pub(crate) fn vacated(_: Bounds) {}
}

#[cfg(feature = "sanitizer")]
mod told {
    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ptr;

    unsafe extern "C" {
        fn __sanitizer_start_switch_fiber(
            fake_stack: *mut *mut c_void,
            bottom: *const c_void,
            size: usize,
        );
        fn __asan_unpoison_memory_region(lowest: *const c_void, size: usize);
        fn __sanitizer_finish_switch_fiber(
            fake_stack: *mut c_void,
            bottom: *mut *const c_void,
            size: *mut usize,
        );
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Bounds(Option<(usize, usize)>);

    impl Bounds {
        pub(crate) const UNKNOWN: Self = Self(None);

        pub(crate) fn new(bounds: impl FnOnce() -> (usize, usize)) -> Self {
            Self(Some(bounds()))
        }

        /// These bounds, or the bounds of the kernel thread's own stack.
        fn get(self) -> (*const c_void, usize) {
            let (lowest, size) = self.0.unwrap_or_else(of_kernel_thread);
            (ptr::with_exposed_provenance(lowest), size)
        }
    }

    fn of_kernel_thread() -> (usize, usize) {
        let mut attributes = MaybeUninit::uninit();
        let (mut lowest, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the first call writes the attributes, the second reads them, and the third gives
        // them back.
        unsafe {
            libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr());
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        (lowest.addr(), size)
    }

    pub(crate) struct Left(*mut c_void);

    impl Left {
        pub(crate) fn here_for(next: Bounds) -> Self {
            let mut fake_stack = ptr::null_mut();
            let (lowest, size) = next.get();
            // SAFETY: the function may be called before any switch of stacks.
            unsafe { __sanitizer_start_switch_fiber(&raw mut fake_stack, lowest, size) };
            Self(fake_stack)
        }

        pub(crate) const fn never() -> Self {
            Self(ptr::null_mut())
        }

        pub(crate) fn back(self) {
            // SAFETY: the function gets the value that it gave when the stack was left.
            unsafe { __sanitizer_finish_switch_fiber(self.0, ptr::null_mut(), ptr::null_mut()) };
        }
    }

    pub(crate) fn left_for_good(next: Bounds) {
        let (lowest, size) = next.get();
        // SAFETY: the function may be called before any switch of stacks. Without a place for the
        // fake stack, the sanitizer frees it. No switch comes back to this stack.
        unsafe { __sanitizer_start_switch_fiber(ptr::null_mut(), lowest, size) };
    }

    /// Clears the marks of a stack on which nothing runs. The last functions on the stack did not
    /// return, so their marks are still there.
    pub(crate) fn vacated(bounds: Bounds) {
        let (lowest, size) = bounds.get();
        // SAFETY: the memory is a stack of ours. Only the stack's guard must not be touched, and
        // the guard protects itself.
        unsafe { __asan_unpoison_memory_region(lowest, size) };
    }
}
