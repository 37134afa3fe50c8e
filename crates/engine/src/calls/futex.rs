//! futex(2): the waits beneath every lock, condition variable, semaphore and join of libc.
//!
//! Waiters stand in buckets by address. For a word in memory that other processes may share, the
//! kernel does the work. Helpers make the waits, and the engine passes the wakes on.

use core::sync::atomic::{AtomicU32, Ordering};

use libc::{
    FUTEX_CLOCK_REALTIME, FUTEX_CMP_REQUEUE, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_OWNER_DIED,
    FUTEX_PRIVATE_FLAG, FUTEX_REQUEUE, FUTEX_TID_MASK, FUTEX_TRYLOCK_PI, FUTEX_UNLOCK_PI,
    FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAITERS, FUTEX_WAKE, FUTEX_WAKE_BITSET, FUTEX_WAKE_OP,
};

use crate::calls::buckets::{first_at, insert, next_at, remove};
use crate::calls::shared_memory;
use crate::kernel::clock::{self, NEVER, Nanoseconds};
use crate::kernel::frame::Frame;
use crate::kernel::lock::{Locked, Setting, lock};
use crate::kernel::sys::{
    self, EAGAIN, EFAULT, EINTR, EINVAL, ENOSYS, ETIMEDOUT, RESTART, error, sys,
};
use crate::kernel::user;
use crate::schedule::scheduler::{park, wake};
use crate::schedule::thread::{self, MAIN, ThreadRef, is_ours};
use crate::schedule::waiter::Reason;
use crate::schedule::worker::current;
use crate::workers::helpers::{Interrupted, offload};

/// A wait without a set of bits takes every wake.
pub(crate) const ANY: u32 = u32::MAX;
/// Waiters for a lock with priority inheritance, which no ordinary wake reaches.
const OWNERSHIP: u32 = 0;

/// The key of waiters for a word. As in the kernel, a wait that says that the word is private does
/// not meet a wake that does not. Converted programs have the lowest bit for keys of their own.
fn key_of(word: usize, operation: i32) -> usize {
    let is_private = operation & FUTEX_PRIVATE_FLAG != 0;
    if is_private || ONE_KIND.get() { word } else { word | NOT_PRIVATE }
}

const NOT_PRIVATE: usize = 2;

/// Whether waits and wakes of both kinds meet.
static ONE_KIND: Setting<bool> = Setting::new(false);

/// Has waits and wakes of both kinds meet, for a converted program. Its tasks wait at a word, and
/// libc and libstdc++ wake there in either way.
pub(crate) fn have_one_kind() {
    ONE_KIND.set(true);
}

/// Wakes up to `most` waiters at `key` with one of `bits`. Returns how many waiters it woke.
pub(crate) fn wake_at(locked: &mut Locked, key: usize, most: i32, bits: u32) -> isize {
    let mut woken = 0;
    let mut next = first_at(locked, key);
    while let Some(thread) = next {
        if woken >= most as isize {
            break;
        }
        next = next_at(locked.held(), thread, key);
        if thread.futex_bits.get(locked.held()) & bits != 0 {
            remove(locked, thread);
            wake(locked, thread, Reason::Woken);
            woken += 1;
        }
    }
    if IN_KERNEL.load(Ordering::SeqCst) > 0 {
        for kind in [FUTEX_PRIVATE_FLAG, 0] {
            let is_meant = ONE_KIND.get() || (key & NOT_PRIVATE == 0) == (kind != 0);
            let left = most as isize - woken;
            if is_meant && left > 0 {
                let (word, operation) = (key & !NOT_PRIVATE, FUTEX_WAKE_BITSET | kind);
                woken += sys!(SYS_futex, word, operation, left, 0, 0, bits).max(0);
            }
        }
    }
    woken
}

/// Waits of this process in the kernel, for memory of its own.
static IN_KERNEL: AtomicU32 = AtomicU32::new(0);

/// futex_waitv(2), futex_wait(2): a helper waits for several words. Meanwhile the engine passes
/// wakes on to the kernel.
pub(crate) fn wait_in_kernel(frame: &mut Frame) -> isize {
    IN_KERNEL.fetch_add(1, Ordering::SeqCst);
    let result = offload(frame.number(), frame.arguments(), Interrupted::Fails);
    IN_KERNEL.fetch_sub(1, Ordering::SeqCst);
    result
}

/// The call.
pub(crate) fn futex(frame: &mut Frame) -> isize {
    let operation = frame.argument(1) as i32;
    let command = operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    let inherits =
        matches!(command, FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_TRYLOCK_PI | FUTEX_UNLOCK_PI);
    let is_shared = operation & FUTEX_PRIVATE_FLAG == 0
        && shared_memory::contains(&mut lock(), frame.argument(0));
    if is_shared && !inherits {
        return shared(frame, command);
    }
    if !frame.argument(0).is_multiple_of(4) {
        return EINVAL;
    }
    if operation & FUTEX_PRIVATE_FLAG == 0 && !is_there(frame, command) {
        return EFAULT;
    }
    let key = key_of(frame.argument(0), operation);
    let result = match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => wait(frame, operation, command),
        FUTEX_WAKE => Ok(wake_at(&mut lock(), key, (frame.argument(2) as i32).max(1), ANY)),
        FUTEX_WAKE_BITSET if frame.argument(5) as u32 == 0 => Err(EINVAL),
        FUTEX_WAKE_BITSET => Ok(wake_at(
            &mut lock(),
            key,
            (frame.argument(2) as i32).max(1),
            frame.argument(5) as u32,
        )),
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => requeue(frame, operation, command),
        FUTEX_WAKE_OP => wake_operation(frame, operation),
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_TRYLOCK_PI => {
            own(frame, operation, command, is_shared)
        }
        FUTEX_UNLOCK_PI => disown(frame, is_shared),
        _ => Err(ENOSYS),
    };
    result.unwrap_or_else(|error| error)
}

/// Whether the words are in mapped memory. The kernel checks the words unless the call says that
/// they are private.
fn is_there(frame: &Frame, command: i32) -> bool {
    let two = matches!(command, FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_WAKE_OP);
    user::load_word(frame.argument(0)).is_ok()
        && (!two || user::load_word(frame.argument(4)).is_ok())
}

fn shared(frame: &Frame, command: i32) -> isize {
    match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            let timed = frame.argument(3) != 0;
            let interrupted = if timed { Interrupted::Fails } else { Interrupted::Restarts };
            offload(frame.number(), frame.arguments(), interrupted)
        }
        _ => frame.pass(),
    }
}

fn deadline(frame: &Frame, operation: i32, command: i32) -> Result<Nanoseconds, isize> {
    let Some(time) = user::read_optional::<libc::timespec>(frame.argument(3))? else {
        return Ok(NEVER);
    };
    if !clock::valid(&time) {
        return Err(EINVAL);
    }
    let realtime = operation & FUTEX_CLOCK_REALTIME != 0 || command == FUTEX_LOCK_PI;
    Ok(match command {
        FUTEX_WAIT => clock::after(&time),
        _ if realtime => clock::at(&time, libc::CLOCK_REALTIME),
        _ => clock::at(&time, libc::CLOCK_MONOTONIC),
    })
}

fn wait(frame: &Frame, operation: i32, command: i32) -> Result<isize, isize> {
    let word = frame.argument(0);
    let bits = if command == FUTEX_WAIT { ANY } else { frame.argument(5) as u32 };
    if bits == 0 {
        return Err(EINVAL);
    }
    let deadline = deadline(frame, operation, command)?;
    let mut locked = lock();
    if user::load_word(word)? != frame.argument(2) as u32 {
        return Err(EAGAIN);
    }
    let thread = current();
    thread.waits_for.set(word);
    insert(&mut locked, thread, key_of(word, operation), bits);
    let reason = park(&mut locked, deadline);
    assert!(thread.waits_for.get() == word, "a thread goes on from another word's wait");
    // If a wake comes together with a signal or the deadline, the wake counts.
    let woken = !thread.futex_queued.get(locked.held());
    remove(&mut locked, thread);
    match reason {
        _ if woken => Ok(0),
        Reason::Woken => Ok(0),
        Reason::TimedOut => Err(ETIMEDOUT),
        Reason::Interrupted if deadline != NEVER => Err(EINTR),
        Reason::Interrupted | Reason::Suspended => Err(RESTART),
    }
}

fn requeue(frame: &Frame, operation: i32, command: i32) -> Result<isize, isize> {
    let mut locked = lock();
    if command == FUTEX_CMP_REQUEUE
        && user::load_word(frame.argument(0))? != frame.argument(5) as u32
    {
        return Err(EAGAIN);
    }
    let [from, to] = [frame.argument(0), frame.argument(4)].map(|word| key_of(word, operation));
    let woken = wake_at(&mut locked, from, frame.argument(2) as i32, ANY);
    let mut moved = 0;
    let most = frame.argument(3) as i32 as isize;
    let mut next = first_at(&mut locked, from);
    while let Some(thread) = next {
        if moved >= most {
            break;
        }
        next = next_at(locked.held(), thread, from);
        let bits = thread.futex_bits.get(locked.held());
        remove(&mut locked, thread);
        insert(&mut locked, thread, to, bits);
        moved += 1;
    }
    Ok(if command == FUTEX_REQUEUE { woken } else { woken + moved })
}

/// `FUTEX_WAKE_OP`: changes a second word and wakes waiters at the first. Also wakes waiters at the
/// second word if its old value asks for that.
fn wake_operation(frame: &Frame, flags: i32) -> Result<isize, isize> {
    let encoded = frame.argument(5) as u32;
    let signed = |shift: u32| ((encoded << (20 - shift)) as i32) >> 20;
    let mut operand = signed(12) as u32;
    let compared = signed(0);
    if encoded >> 31 != 0 {
        operand = 1u32.wrapping_shl(operand);
    }
    let operation = (encoded >> 28) & 7;
    if operation > 4 {
        return Err(ENOSYS);
    }
    let mut locked = lock();
    let old = user::update_word(frame.argument(4), |word| match operation {
        0 => operand,
        1 => word.wrapping_add(operand),
        2 => word | operand,
        3 => word & !operand,
        _ => word ^ operand,
    })? as i32;
    let holds = match (encoded >> 24) & 15 {
        0 => old == compared,
        1 => old != compared,
        2 => old < compared,
        3 => old <= compared,
        4 => old > compared,
        5 => old >= compared,
        _ => return Err(ENOSYS),
    };
    let [first, second] = [frame.argument(0), frame.argument(4)].map(|word| key_of(word, flags));
    let mut woken = wake_at(&mut locked, first, frame.argument(2) as i32, ANY);
    if holds {
        woken += wake_at(&mut locked, second, frame.argument(3) as i32, ANY);
    }
    Ok(woken)
}

/// Takes a lock with priority inheritance. One worker has no priorities to pass on, so the engine
/// tracks only ownership.
///
/// A lock in shared memory may belong to a thread of ours, or of another process on an engine. The
/// kernel does not know such an owner. So the engine polls if the owner is in another process.
fn own(frame: &Frame, operation: i32, command: i32, is_shared: bool) -> Result<isize, isize> {
    /// Nanoseconds between two looks.
    const LOOKS: Nanoseconds = 1_000_000;
    let key = frame.argument(0);
    let deadline =
        if command == FUTEX_TRYLOCK_PI { NEVER } else { deadline(frame, operation, command)? };
    let thread = current();
    let mine = thread.id.get() as u32;
    let mut locked = lock();
    loop {
        let word = user::load_word(key)?;
        let owner = word & FUTEX_TID_MASK;
        if owner == 0 {
            let flags = word & (FUTEX_OWNER_DIED | FUTEX_WAITERS);
            if user::exchange_word(key, word, mine | flags)?.is_ok() {
                return Ok(0);
            }
            continue;
        }
        if owner == mine {
            return Err(error(libc::EDEADLK));
        }
        if command == FUTEX_TRYLOCK_PI {
            return Err(EAGAIN);
        }
        let ours = thread::find(&mut locked, owner as i32).is_some();
        let alive = ours || (is_shared && may_live(owner as i32));
        if !alive {
            return Err(sys::ESRCH);
        }
        if user::exchange_word(key, word, word | FUTEX_WAITERS)?.is_err() {
            continue;
        }
        insert(&mut locked, thread, key, OWNERSHIP);
        let until = if ours {
            deadline
        } else {
            let soon = clock::now() + LOOKS;
            if deadline == NEVER { soon } else { deadline.min(soon) }
        };
        let reason = park(&mut locked, until);
        remove(&mut locked, thread);
        if user::load_word(key)? & FUTEX_TID_MASK == mine {
            return Ok(0);
        }
        match reason {
            Reason::Woken => {}
            Reason::TimedOut if until != deadline => {}
            Reason::TimedOut => return Err(ETIMEDOUT),
            Reason::Interrupted | Reason::Suspended => return Err(RESTART),
        }
    }
}

/// Whether a thread of another process may still be alive.
fn may_live(id: i32) -> bool {
    is_ours(i64::from(id)) || sys!(SYS_tkill, id, 0) != sys::ESRCH
}

/// Gives a lock with priority inheritance to its first waiter.
fn disown(frame: &Frame, is_shared: bool) -> Result<isize, isize> {
    let key = frame.argument(0);
    let mut locked = lock();
    if user::load_word(key)? & FUTEX_TID_MASK != current().id.get() as u32 {
        return Err(error(libc::EPERM));
    }
    let heir = first_at(&mut locked, key);
    if is_shared && heir.is_none() && current().is(&MAIN) {
        // The kernel knows the main thread, and programs without an engine may wait for that
        // thread.
        return Ok(frame.pass());
    }
    hand_on(&mut locked, key, 0)?;
    Ok(0)
}

/// Makes the first waiter at `key` the owner, with `flags` in the word.
fn hand_on(locked: &mut Locked, key: usize, flags: u32) -> Result<(), isize> {
    let Some(heir) = first_at(locked, key) else {
        user::write(key, &flags)?;
        return Ok(());
    };
    remove(locked, heir);
    assert!(heir.home().is_none(), "a task inherits a lock of threads");
    let more = first_at(locked, key).is_some();
    let waiters = if more { FUTEX_WAITERS } else { 0 };
    user::write(key, &(thread::of(heir).id.get() as u32 | waiters | flags))?;
    wake(locked, heir, Reason::Woken);
    Ok(())
}

/// Marks the mutexes of a thread that ends as given up, as the kernel does (get_robust_list(2)).
pub(crate) fn give_up_robust(locked: &mut Locked, thread: ThreadRef) {
    /// A longer list must have a cycle.
    const LONGEST: usize = 2048;
    let head = thread.robust_list.get();
    if head == 0 {
        return;
    }
    let _ended_early = (|| -> Result<(), isize> {
        let first: usize = user::read(head)?;
        let offset: usize = user::read(head + 8)?;
        let pending: usize = user::read(head + 16)?;
        let mut entry = first;
        for _ in 0..LONGEST {
            if entry & !1 == head || entry == 0 {
                break;
            }
            let next = user::read(entry & !1);
            if entry & !1 != pending & !1 {
                give_up(locked, thread, (entry & !1).wrapping_add(offset), entry & 1 != 0)?;
            }
            entry = next?;
        }
        if pending & !1 != 0 {
            give_up(locked, thread, (pending & !1).wrapping_add(offset), pending & 1 != 0)?;
        }
        Ok(())
    })();
}

fn give_up(
    locked: &mut Locked,
    thread: ThreadRef,
    word: usize,
    inherits: bool,
) -> Result<(), isize> {
    let value = user::load_word(word)?;
    if value & FUTEX_TID_MASK != thread.id.get() as u32 {
        return Ok(());
    }
    if inherits {
        return hand_on(locked, word, FUTEX_OWNER_DIED);
    }
    user::update_word(word, |value| (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED)?;
    if value & FUTEX_WAITERS != 0 {
        wake_any_kind(locked, word, 1);
        if shared_memory::contains(locked, word) {
            sys!(SYS_futex, word, FUTEX_WAKE, 1);
        }
    }
    Ok(())
}

/// Wakes waiters for a word, whether or not they have said that it is private.
fn wake_any_kind(locked: &mut Locked, word: usize, most: i32) {
    let woken = wake_at(locked, word | NOT_PRIVATE, most, ANY);
    wake_at(locked, word, most.saturating_sub(woken as i32), ANY);
}

/// Clears the ending thread's `CLONE_CHILD_CLEARTID` word, and wakes the thread that joins it.
pub(crate) fn clear_and_wake(locked: &mut Locked, word: usize) {
    if user::write(word, &0u32) == Err(EFAULT) {
        return;
    }
    wake_any_kind(locked, word, i32::MAX);
    if shared_memory::contains(locked, word) {
        sys!(SYS_futex, word, FUTEX_WAKE, 1);
    }
}
