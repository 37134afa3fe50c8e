//! Signals: the first SIGTERM or SIGINT drains, the second ends at once. SIGHUP reloads.
//!
//! | signal | does |
//! | --- | --- |
//! | SIGTERM, SIGINT | drain; the second one exits with 1 |
//! | SIGHUP | reload: logs are opened again, and `--root` is read again ([`reload`]) |
//! | SIGHUP, the server's terminal has gone | drain, as by SIGTERM |
//! | SIGHUP, ignored at the start (nohup) | nothing |
//! | SIGUSR1 | a dump of the tasks, by the thread that watches this process |
//! | SIGUSR2 | drain: how a parent process passes it on to its children |
//! | SIGIO | nothing; the system call that it interrupts begins again ([`drain::LOOK_AGAIN`]) |
//! | SIGALRM | the drain has taken too long: exit with 1 |

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use duality_runtime::{drain, reload, visibility};
use rustix::fs::{Mode, OFlags};
use rustix::process::getpid;

static RECEIVED: AtomicU32 = AtomicU32::new(0);

/// The process that installed the handlers.
static SERVER: AtomicI32 = AtomicI32::new(0);

/// The messages at SIGHUP.
const RELOADS: &[u8] =
    b"duality: SIGHUP: opening logs, and reading --root and certificates again; \
    for other settings, start the server again\n";
const TERMINAL_GONE: &[u8] = b"duality: SIGHUP: the terminal has gone; draining\n";

/// Whether the server had a terminal when it started.
static HAD_TERMINAL: AtomicBool = AtomicBool::new(false);

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
    if !is_ignored(libc::SIGHUP)? {
        HAD_TERMINAL.store(has_terminal(), Ordering::Relaxed);
        reload::prepare();
        handle(libc::SIGHUP, hang_up)?;
    }
    visibility::prepare_dumps()?;
    handle(drain::LOOK_AGAIN, nothing)?;
    handle(libc::SIGUSR1, dump)?;
    handle(libc::SIGUSR2, pass_on)?;
    handle(libc::SIGALRM, too_long)
}

fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`: no flags, an empty mask, the default handler.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is valid, and its handler is async-signal-safe.
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

extern "C" fn terminate(_: i32) {
    if RECEIVED.fetch_add(1, Ordering::Relaxed) > 0 {
        exit(b"duality: a second signal: exiting at once\n");
    }
    drain_within_limit();
}

/// SIGHUP comes from a closed terminal, or from an operator that wants a reload. It may go to the
/// child processes too, which reload with their parent.
extern "C" fn hang_up(signal: i32) {
    let is_server = getpid().as_raw_pid() == SERVER.load(Ordering::Relaxed);
    keeping_errno(|| {
        let has_gone = HAD_TERMINAL.load(Ordering::Relaxed) && !has_terminal();
        if has_gone {
            // If the terminal is closed, replies still end in full.
            terminate(signal);
        } else if is_server {
            reload::request();
        }
        if is_server {
            write(if has_gone { TERMINAL_GONE } else { RELOADS });
        }
    });
}

/// Whether this process has a terminal that controls it. Async-signal-safe.
fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(c"/dev/tty", flags, Mode::empty()).is_ok()
}

extern "C" fn nothing(_: i32) {}

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

/// Restores errno, because a handler must not disturb the code that it interrupts.
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

/// Writes to standard error, and ignores failures.
fn write(message: &[u8]) {
    // SAFETY: write(2) of a valid buffer is async-signal-safe.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
}
