//! Signals: the first SIGTERM, SIGINT or SIGHUP drains, the second ends at once.
//!
//! | signal | does |
//! | --- | --- |
//! | SIGTERM, SIGINT | drain; the second one exits with 1 |
//! | SIGHUP | the same, and says so; nothing if it was ignored at the start (nohup) |
//! | SIGUSR1 | a dump of the tasks, by the thread that watches this process |
//! | SIGUSR2 | drain: how a parent process passes it on to its children |
//! | SIGALRM | the drain has taken too long: exit with 1 |

use std::io;
use std::mem;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use duality_runtime::{drain, visibility};
use rustix::process::getpid;

static RECEIVED: AtomicU32 = AtomicU32::new(0);

/// The process that installed the handlers.
static SERVER: AtomicI32 = AtomicI32::new(0);

/// The message at SIGHUP. Other servers read their configuration again at this signal.
const NO_RELOAD: &[u8] = b"duality: SIGHUP drains and ends this server, as SIGTERM does; \
    for other settings, start it again\n";

/// Seconds that a drain may take.
static LIMIT: AtomicU32 = AtomicU32::new(30);

/// Installs the handlers. A drain ends after at most `limit_seconds`.
///
/// # Errors
///
/// The errors of `sigaction(2)`.
pub fn install(limit_seconds: u32) -> io::Result<()> {
    LIMIT.store(limit_seconds.max(1), Ordering::Relaxed);
    SERVER.store(getpid().as_raw_pid(), Ordering::Relaxed);
    handle(libc::SIGTERM, terminate)?;
    handle(libc::SIGINT, terminate)?;
    // SIGHUP drains, so a closed terminal cuts no reply short.
    if !is_ignored(libc::SIGHUP)? {
        handle(libc::SIGHUP, terminate)?;
    }
    visibility::prepare_dumps()?;
    handle(libc::SIGUSR1, dump)?;
    handle(libc::SIGUSR2, pass_on)?;
    handle(libc::SIGALRM, too_long)
}

fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`: no flags, an empty mask, the default handler.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is valid, and its handler does only what a handler may.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: all zeroes is a valid `sigaction`, to be written over.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: no action is installed, and the place for the present one is valid.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

extern "C" fn terminate(signal: i32) {
    if RECEIVED.fetch_add(1, Ordering::Relaxed) > 0 {
        exit(b"duality: a second signal: exiting at once\n");
    }
    drain_within_limit();
    // A terminal sends it to the child processes, too.
    if signal == libc::SIGHUP && getpid().as_raw_pid() == SERVER.load(Ordering::Relaxed) {
        keeping_errno(|| write(NO_RELOAD));
    }
}

extern "C" fn dump(_: i32) {
    keeping_errno(visibility::request_dump);
}

extern "C" fn pass_on(_: i32) {
    drain_within_limit();
}

extern "C" fn too_long(_: i32) {
    exit(b"duality: the drain took too long: connections are cut off\n");
}

fn drain_within_limit() {
    keeping_errno(|| {
        // SAFETY: alarm(2) has no preconditions, and is async-signal-safe.
        unsafe { libc::alarm(LIMIT.load(Ordering::Relaxed)) };
        drain::request();
    });
}

/// A handler must not disturb the code that it interrupts, so it restores errno.
fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: the location of this thread's errno is always valid; asking for it is
    // async-signal-safe.
    let errno = unsafe { *libc::__errno_location() };
    work();
    // SAFETY: the thread is the same, and so is the location of its errno.
    unsafe { *libc::__errno_location() = errno };
}

fn exit(message: &[u8]) -> ! {
    write(message);
    // SAFETY: _exit(2) has no preconditions, and is async-signal-safe.
    unsafe { libc::_exit(1) }
}

/// Writes to standard error, if that can be.
fn write(message: &[u8]) {
    // SAFETY: write(2) of a valid buffer is async-signal-safe.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
}
