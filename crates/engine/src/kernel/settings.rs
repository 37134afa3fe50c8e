//! The settings of `duality run` for the engine, in one environment variable that the program does
//! not see.
//!
//! `DUALITY_RUN=fd=19990:cores=2:uring=0:tick=10000:stats=1:children=0:signal=0:stack=0:`
//! `assertions=0:cache=/…:preload=…` and `LD_PRELOAD`. The last item is the value that `LD_PRELOAD`
//! had before.

use alloc::vec::Vec;

use crate::kernel::assertions;
use crate::kernel::lock::Setting;
use crate::kernel::lock_counts;
use crate::kernel::sys::{failed, sys};
use crate::kernel::user;

/// The variable.
const VARIABLE: &[u8] = b"DUALITY_RUN=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Microseconds of processor time between two ticks; zero for none.
pub(crate) static TICK: Setting<u64> = Setting::new(0);
/// Workers that may run the program's threads.
pub(crate) static CORES: Setting<usize> = Setting::new(1);
/// Threads receive by way of io_uring.
pub(crate) static URING: Setting<bool> = Setting::new(false);
/// Programs that the program starts run with the engine too.
pub(crate) static CHILDREN: Setting<bool> = Setting::new(false);
/// Print counters at the end.
pub(crate) static STATS: Setting<bool> = Setting::new(false);
/// The signal on which all threads are listed; zero for none.
pub(crate) static DUMP_SIGNAL: Setting<i32> = Setting::new(0);
/// Milliseconds that a thread may keep its worker before a warning. Zero means no warning.
pub(crate) static STALL: Setting<u64> = Setting::new(0);
/// Milliseconds that a task may hold its loop before a line reports it. Zero means no report.
/// `None` is the default.
pub(crate) static HELD: Setting<Option<u64>> = Setting::new(None);
/// The limit of the stack that the program began with: `--stack-size` changed the limit that libc
/// sees.
static STACK_LIMIT: Setting<u64> = Setting::new(0);
/// The folder of the cache of sites, without a slash at its end; empty for none.
static CACHE: crate::kernel::lock::Guarded<Vec<u8>> = crate::kernel::lock::Guarded::new(Vec::new());
/// The descriptor of the library, from which other programs load it.
static LIBRARY: Setting<i32> = Setting::new(-1);
/// The process that `duality run` started.
static FIRST_PROCESS: Setting<i32> = Setting::new(0);
/// The original values of the two variables, for programs that are executed with the engine.
static OWN: crate::kernel::lock::Guarded<[Vec<u8>; 2]> =
    crate::kernel::lock::Guarded::new([Vec::new(), Vec::new()]);

/// Reads the settings, and takes them out of the environment. `None`: the library was not loaded by
/// `duality run`.
///
/// # Safety
///
/// `environment` is the array of the process.
pub(crate) unsafe fn take(environment: *mut *mut u8) -> Option<()> {
    // SAFETY: the caller gives the array of the process, which ends with a null pointer.
    let list = unsafe { Environment::new(environment) };
    let settings = list.remove(VARIABLE)?;
    let preload = list.find(PRELOAD)?;
    {
        let mut locked = crate::kernel::lock::lock();
        let own = OWN.of(&mut locked);
        own[0] = settings.to_vec();
        own[1] = preload.to_vec();
    }
    let before = read(&settings[VARIABLE.len()..]);
    list.replace_preload(before);
    keep_library();
    restore_stack_limit();
    Some(())
}

/// Reads the settings: the value of the variable. Returns the value that `LD_PRELOAD` had before.
pub(crate) fn read(settings: &[u8]) -> &[u8] {
    let mut before: &[u8] = b"";
    for item in settings.split(|&byte| byte == b':') {
        let Some(equals) = item.iter().position(|&byte| byte == b'=') else { continue };
        let (key, value) = (&item[..equals], &item[equals + 1..]);
        let number = number(value);
        match key {
            b"fd" => LIBRARY.set(number as i32),
            b"tick" => TICK.set(number),
            b"cores" => CORES.set(number.max(1) as usize),
            b"uring" => URING.set(number != 0),
            b"stats" => {
                STATS.set(number != 0);
                if number != 0 {
                    lock_counts::switch_on();
                }
            }
            b"assertions" if number != 0 => assertions::switch_on(),
            b"children" => CHILDREN.set(number != 0),
            b"signal" => DUMP_SIGNAL.set(number as i32),
            b"stall" => STALL.set(number),
            b"held" => HELD.set(Some(number)),
            b"stack" => STACK_LIMIT.set(number),
            b"cache" => *CACHE.of(&mut crate::kernel::lock::lock()) = value.to_vec(),
            _ => {}
        }
        if key == b"preload" {
            // The rest of the text, colons included.
            let at = item.as_ptr() as usize - settings.as_ptr() as usize + equals + 1;
            before = &settings[at..];
            break;
        }
    }
    FIRST_PROCESS.set(sys!(SYS_getpid) as i32);
    before
}

fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// The library's descriptor is no longer inherited, unless a call of exec wants it.
fn keep_library() {
    sys!(SYS_fcntl, LIBRARY.get(), libc::F_SETFD, libc::FD_CLOEXEC);
}

fn restore_stack_limit() {
    if STACK_LIMIT.get() != 0 {
        let mut limits = [0u64; 2];
        sys!(SYS_prlimit64, 0, libc::RLIMIT_STACK, 0, &mut limits);
        limits[0] = STACK_LIMIT.get();
        sys!(SYS_prlimit64, 0, libc::RLIMIT_STACK, &limits, 0);
    }
}

/// Whether a program that `process` executes now runs with the engine. A converted program brings
/// its own engine.
pub(crate) fn follows_exec(process: i32) -> bool {
    LIBRARY.get() >= 0 && (CHILDREN.get() || process == FIRST_PROCESS.get())
}

/// The name of the command that started the program, for messages. A converted program brings its
/// own engine.
pub(crate) fn command() -> &'static str {
    if LIBRARY.get() >= 0 { "run" } else { "cc" }
}

/// The folder of the cache of sites (`objects/site_cache.rs`).
pub(crate) fn cache() -> Option<Vec<u8>> {
    let folder = CACHE.of(&mut crate::kernel::lock::lock()).clone();
    (!folder.is_empty()).then_some(folder)
}

/// The library's descriptor, which the program must not close.
pub(crate) fn library() -> i32 {
    LIBRARY.get()
}

/// An environment with the engine's variables, for a call of exec.
pub(crate) struct List(Vec<usize>);

impl List {
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// Copies the program's list of variables, and adds the engine's variables.
///
/// # Errors
///
/// The error: the list cannot be read.
pub(crate) fn environment_with_engine(address: usize) -> Result<List, isize> {
    let mut list = Vec::new();
    let mut at = address;
    while at != 0 {
        let variable: usize = user::read(at)?;
        if variable == 0 {
            break;
        }
        let mut start = [0; PRELOAD.len()];
        let preload = user::read_text(variable, &mut start)? == PRELOAD;
        if !preload {
            list.push(variable);
        }
        at += size_of::<usize>();
    }
    let descriptor = LIBRARY.get();
    if !failed(sys!(SYS_fcntl, descriptor, libc::F_SETFD, 0)) {
        let mut locked = crate::kernel::lock::lock();
        list.extend(OWN.of(&mut locked).iter().map(|own| own.as_ptr() as usize));
    }
    list.push(0);
    Ok(List(list))
}

/// The array of the process's environment variables.
struct Environment(*mut *mut u8);

impl Environment {
    /// # Safety
    ///
    /// `array` ends with a null pointer, and each text in it ends with a zero. No other code uses
    /// the array meanwhile.
    unsafe fn new(array: *mut *mut u8) -> Self {
        Self(array)
    }

    fn index(&self, prefix: &[u8]) -> Option<usize> {
        let mut index = 0;
        loop {
            // SAFETY: the array ends with a null pointer, and the loop does not go beyond it.
            let text = unsafe { *self.0.add(index) };
            if text.is_null() {
                return None;
            }
            // SAFETY: as above; the comparison ends at the first difference, so it never reads past
            // the text's zero.
            let same =
                prefix.iter().enumerate().all(|(at, &byte)| unsafe { *text.add(at) == byte });
            if same {
                return Some(index);
            }
            index += 1;
        }
    }

    fn text(&self, index: usize) -> &'static [u8] {
        // SAFETY: promised to `new`. The texts are at the top of the stack, where they stay.
        unsafe {
            let text = *self.0.add(index);
            let mut length = 0;
            while *text.add(length) != 0 {
                length += 1;
            }
            // The text includes its terminating zero, as before.
            core::slice::from_raw_parts(text, length + 1)
        }
    }

    fn find(&self, prefix: &[u8]) -> Option<&'static [u8]> {
        Some(self.text(self.index(prefix)?))
    }

    fn remove(&self, prefix: &[u8]) -> Option<&'static [u8]> {
        let mut index = self.index(prefix)?;
        let text = self.text(index);
        loop {
            // SAFETY: `index` is before the null pointer, so the place after it is in the array.
            unsafe {
                let next = *self.0.add(index + 1);
                *self.0.add(index) = next;
                if next.is_null() {
                    return Some(text);
                }
            }
            index += 1;
        }
    }

    /// Puts the value that `LD_PRELOAD` had before `duality run` back in its place.
    fn replace_preload(&self, before: &[u8]) {
        let before = before.strip_suffix(&[0]).unwrap_or(before);
        if before.is_empty() {
            self.remove(PRELOAD);
            return;
        }
        if let Some(index) = self.index(PRELOAD) {
            // SAFETY: the former value stands at the end of ours, so it is shorter.
            unsafe {
                let value = (*self.0.add(index)).add(PRELOAD.len());
                for (at, &byte) in before.iter().enumerate() {
                    *value.add(at) = byte;
                }
                *value.add(before.len()) = 0;
            }
        }
    }
}
