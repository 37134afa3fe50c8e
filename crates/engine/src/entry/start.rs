//! The first code of the engine. The dynamic linker calls it before any other constructor.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::HEAP;
use crate::calls::{futex, processes, rseq};
use crate::descriptors::engine_files;
use crate::descriptors::registry;
use crate::entry::table;
use crate::kernel::clock;
use crate::kernel::frame::duality_entry;
use crate::kernel::lock::{self, lock};
use crate::kernel::settings;
use crate::kernel::sys::{self, sys};
use crate::objects::patching;
use crate::schedule::context::stack_pointer;
use crate::schedule::inspection;
use crate::schedule::thread::{MAIN, THREADS};
use crate::schedule::waiter::State;
use crate::schedule::worker::{FIRST, set_in_engine};
use crate::show::dump;
use crate::show::report::{self, say};
use crate::signals::handling;
use crate::workers::more_workers;
use crate::workers::pump;

/// Entries of the auxiliary vector (getauxval(3)).
const AT_SYSINFO_EHDR: usize = 33;
const AT_HWCAP2: usize = 26;
/// A program may use `wrgsbase` and `wrfsbase`.
const FSGSBASE: usize = 2;

/// The address at which a converted program enters the engine with its own calls
/// (`entry/tasks.rs`). Zero until the engine has been started.
#[cfg_attr(engine_object, unsafe(export_name = "duality_engine_entry"))]
pub static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Prepares the engine and patches the loaded objects.
///
/// # Safety
///
/// `environment` is the array of the process, with the auxiliary vector behind it.
pub unsafe extern "C" fn start(_count: usize, arguments: *mut *mut u8, environment: *mut *mut u8) {
    // This call comes before the array is shortened. SAFETY: the caller keeps the promise above.
    let auxiliary = unsafe { auxiliary_vector(environment) };
    // SAFETY: the caller gives the array of the process, and nothing else uses it yet.
    if unsafe { settings::take(environment) }.is_none() {
        return;
    }
    // The kernel has put the arguments above the first frame.
    begin(auxiliary(AT_SYSINFO_EHDR), auxiliary(AT_HWCAP2), arguments as usize);
}

/// Starts the engine for a converted program, which has loaded it by itself:
/// `convert/runtime/start.c`.
///
/// # Safety
///
/// `settings` is a text like the value of `DUALITY_RUN`, and the two numbers are what getauxval(3)
/// gives for `AT_SYSINFO_EHDR` and `AT_HWCAP2`. The process has one thread.
#[cfg_attr(engine_object, unsafe(no_mangle))]
pub unsafe extern "C" fn duality_engine_start(
    settings: *const core::ffi::c_char,
    vdso: usize,
    capabilities: usize,
) {
    // SAFETY: the caller gives a text that ends with a zero.
    let given = unsafe { core::ffi::CStr::from_ptr(settings) };
    settings::read(given.to_bytes());
    futex::have_one_kind();
    /// More than all frames of `main`'s callers.
    const ABOVE: usize = 1 << 20;
    begin(vdso, capabilities, stack_pointer() as usize + ABOVE);
}

fn begin(vdso: usize, capabilities: usize, stack_high: usize) {
    if capabilities & FSGSBASE == 0 {
        say(format_args!(
            "the processor's FSGSBASE is not available: the kernel is older than Linux 5.9, or an \
             emulator \
             hides it, as valgrind does; run the program without duality there"
        ));
        sys::exit_group(2);
    }
    if has_shadow_stack() {
        say(format_args!(
            "the program uses shadow stacks, which threads here do not have; \
             set GLIBC_TUNABLES=glibc.cpu.x86_shstk=off"
        ));
        sys::exit_group(2);
    }
    clock::find(vdso);
    FIRST.adopt();
    lock::know_workers();
    set_in_engine(true);
    MAIN.set_stack(stack_high.saturating_sub(longest_stack())..stack_high);
    let ready = prepare();
    if let Err(error) = ready {
        say(format_args!("cannot start: error {}", -error));
        sys::exit_group(1);
    }
    if let Err(site) = patching::patch_loaded() {
        patching::refuse(&site);
    }
    // The search for system calls needed more memory than the engine will.
    HEAP.give_back();
    set_in_engine(false);
    ENTRY.store(duality_entry as *const () as usize, Ordering::Relaxed);
}

/// How long the first thread's stack may become.
fn longest_stack() -> usize {
    const LEAST: u64 = 8 << 20;
    const MOST: u64 = 1 << 30;
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_STACK, 0, &mut limits);
    limits[0].clamp(LEAST, MOST) as usize
}

/// # Safety
///
/// See [`start`].
unsafe fn auxiliary_vector(environment: *mut *mut u8) -> impl Fn(usize) -> usize {
    let mut end = environment.cast::<usize>().cast_const();
    // SAFETY: the array ends with a null pointer, and the vector follows.
    let vector = unsafe {
        while *end != 0 {
            end = end.add(1);
        }
        end.add(1)
    };
    move |key| {
        let mut at = vector;
        // SAFETY: pairs of a key and a value, up to the key zero.
        unsafe {
            while *at != 0 {
                if *at == key {
                    return *at.add(1);
                }
                at = at.add(2);
            }
        }
        0
    }
}

fn prepare() -> Result<(), isize> {
    let out_of_memory = sys::error(libc::ENOMEM);
    let reserved = THREADS.of(&mut lock()).reserve() && registry::reserve();
    if !reserved {
        return Err(out_of_memory);
    }
    registry::inherit();
    let (table, used) = THREADS.of(&mut lock()).for_inspection();
    inspection::describe(table, used);
    let id = sys!(SYS_getpid) as i32;
    FIRST.kernel_id.set(id);
    MAIN.id.set(id);
    THREADS.of(&mut lock()).number_for(id);
    MAIN.state.set(lock().held(), State::Running);
    FIRST.current.set(&MAIN);
    MAIN.fs.set(thread_storage());
    let (mut robust, mut size) = (0usize, 0usize);
    sys!(SYS_get_robust_list, 0, &mut robust, &mut size);
    MAIN.robust_list.set(robust);
    let mut name = [0u8; 16];
    sys!(SYS_prctl, libc::PR_GET_NAME, &mut name);
    MAIN.name.set(lock().held(), name);
    // The kernel would clear this word when the main thread ends. Here the engine clears it.
    let mut clear_id = 0usize;
    sys!(SYS_prctl, libc::PR_GET_TID_ADDRESS, &mut clear_id);
    MAIN.clear_id.set(clear_id);
    pump::FINISH_THREAD.set(Some(processes::finish_thread));
    report::DUMP.set(Some(dump::dump));
    report::NAMES.set(Some(table::name));
    more_workers::prepare()?;
    engine_files::open(&mut lock())?;
    handling::take_over();
    rseq::leave();
    Ok(())
}

/// Whether the processor checks return addresses (`ARCH_SHSTK_STATUS` of arch_prctl(2)).
fn has_shadow_stack() -> bool {
    const STATUS: usize = 0x5005;
    const ENABLED: u64 = 1;
    let mut features = 0u64;
    sys!(SYS_arch_prctl, STATUS, &mut features);
    features & ENABLED != 0
}

/// The address of the main thread's storage.
fn thread_storage() -> usize {
    let address: usize;
    // SAFETY: reads a register; the start has checked that the instruction is allowed.
    unsafe { core::arch::asm!("rdfsbase {}", out(reg) address, options(nomem, nostack)) };
    address
}
