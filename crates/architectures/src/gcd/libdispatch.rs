//! The part of libdispatch that blocks need, loaded at run time.
//!
//! Source: dispatch_async(3), dispatch_queue_create(3), and `dispatch/queue.h` of
//! swift-corelibs-libdispatch.

use std::env;
use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStringExt;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// The environment variable that names the library's file, if it is not a system library.
const VARIABLE: &str = "DUALITY_LIBDISPATCH";

/// The name by which the system's loader finds the library.
const OF_THE_SYSTEM: &CStr = c"libdispatch.so";

type Function = extern "C" fn(*mut c_void);
type QueueCreate = unsafe extern "C" fn(*const c_char, *const c_void) -> *mut c_void;
type AsyncF = unsafe extern "C" fn(*mut c_void, *mut c_void, Function);
type Release = unsafe extern "C" fn(*mut c_void);

/// The library, which stays loaded.
#[derive(Debug)]
pub(super) struct Library {
    queue_create: QueueCreate,
    async_f: AsyncF,
    release: Release,
    /// `DISPATCH_QUEUE_CONCURRENT`.
    concurrent: NonNull<c_void>,
}

// SAFETY: the library's functions may be called from any thread, and `concurrent` is the address of
// a constant.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// The library. If it cannot be loaded, one line that says why, and how to install it.
pub(super) fn library() -> Result<&'static Library, &'static io::Error> {
    static LIBRARY: OnceLock<io::Result<Library>> = OnceLock::new();
    LIBRARY.get_or_init(Library::load).as_ref()
}

impl Library {
    fn load() -> io::Result<Self> {
        let name = named_file().unwrap_or_else(|| OF_THE_SYSTEM.to_owned());
        let file = name.to_string_lossy();
        // SAFETY: the name ends with a zero byte. We trust the library's constructors, as we trust
        // its functions.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let Some(handle) = NonNull::new(handle) else {
            return Err(io::Error::other(format!(
                "{file} cannot be loaded: build libdispatch (github.com/swiftlang/swift-corelibs-libdispatch) and name its file by {VARIABLE}"
            )));
        };
        let symbol = |name: &CStr| {
            // SAFETY: the handle comes from dlopen(3), and is never closed; the name ends with a
            // zero byte.
            NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) }).ok_or_else(|| {
                let name = name.to_string_lossy();
                io::Error::other(format!("{file} is not libdispatch: it has no {name}"))
            })
        };
        let (queue_create, async_f) =
            (symbol(c"dispatch_queue_create")?, symbol(c"dispatch_async_f")?);
        let release = symbol(c"dispatch_release")?;
        let concurrent = symbol(c"_dispatch_queue_attr_concurrent")?;
        // SAFETY: these are the types that the library's header gives to these names.
        Ok(unsafe {
            Self {
                queue_create: mem::transmute::<NonNull<c_void>, QueueCreate>(queue_create),
                async_f: mem::transmute::<NonNull<c_void>, AsyncF>(async_f),
                release: mem::transmute::<NonNull<c_void>, Release>(release),
                concurrent,
            }
        })
    }

    /// A queue with items that begin in order and run side by side.
    pub(super) fn concurrent_queue(&'static self) -> io::Result<Queue> {
        self.queue(self.concurrent.as_ptr()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// A queue with items that run one after the other.
    ///
    /// # Panics
    ///
    /// Never: without memory, libdispatch itself ends the process.
    pub(super) fn serial_queue(&'static self) -> Queue {
        self.queue(ptr::null()).expect("libdispatch makes a queue or ends the process")
    }

    fn queue(&'static self, kind: *const c_void) -> Option<Queue> {
        // SAFETY: the label may be null. The kind is null, which means serial, or the library's
        // constant.
        let queue = unsafe { (self.queue_create)(ptr::null(), kind) };
        NonNull::new(queue).map(|queue| Queue { library: self, queue })
    }
}

/// The file that the environment names. `None` if the program has more privileges than its caller
/// (AT_SECURE of getauxval(3), for example by a file capability). The library's constructors would
/// run with these privileges.
fn named_file() -> Option<CString> {
    // SAFETY: getauxval(3) has no preconditions.
    let has_privileges = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if has_privileges {
        return None;
    }
    CString::new(env::var_os(VARIABLE)?.into_vec()).ok()
}

/// A queue of libdispatch. Its items run even if this value is dropped earlier.
pub(super) struct Queue {
    library: &'static Library,
    queue: NonNull<c_void>,
}

// SAFETY: a queue may be used and released from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Runs `item` once, on a thread of libdispatch. A panic in `item` ends the process.
    pub(super) fn put<F: FnOnce() + Send + 'static>(&self, item: F) {
        extern "C" fn run<F: FnOnce()>(item: *mut c_void) {
            // SAFETY: `put` made `item` from a box of this type, and the library calls this
            // function once for it.
            let item = unsafe { Box::from_raw(item.cast::<F>()) };
            item();
        }
        let item = Box::into_raw(Box::new(item)).cast::<c_void>();
        // SAFETY: the queue is not released before this value is dropped, and `run` takes over the
        // box of `item`.
        unsafe { (self.library.async_f)(self.queue.as_ptr(), item, run::<F>) };
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: this was the last use of the queue here. The library keeps the queue for as long
        // as it has items.
        unsafe { (self.library.release)(self.queue.as_ptr()) };
    }
}
