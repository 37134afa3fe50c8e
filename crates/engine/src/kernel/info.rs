//! The fields of a `siginfo_t` that the engine reads and writes, by the layout of the kernel
//! (sigaction(2), `asm-generic/siginfo.h`).
//!
//! libc's type has only the first three fields, since the other fields depend on the sender.

use crate::kernel::plain::zeroed;

/// The whole structure, as on 64-bit processors.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fields {
    number: i32,
    error: i32,
    code: i32,
    padding: i32,
    /// The sender's process and user. For a timer: its number, and how often it has expired since.
    pair: [i32; 2],
    /// The value of a queued signal, or of a timer's.
    value: usize,
    rest: [u64; 12],
}

/// The structure as words, for fields that only one kind of signal has.
pub(crate) type Words = [u64; 16];

const _: () = {
    assert!(size_of::<Fields>() == size_of::<libc::siginfo_t>());
    assert!(align_of::<Fields>() == align_of::<libc::siginfo_t>());
    assert!(size_of::<Words>() == size_of::<libc::siginfo_t>());
    assert!(align_of::<Words>() == align_of::<libc::siginfo_t>());
};

fn fields(info: &libc::siginfo_t) -> &Fields {
    // SAFETY: size and alignment are the same, and any bytes are integers.
    unsafe { &*(&raw const *info).cast() }
}

fn fields_mut(info: &mut libc::siginfo_t) -> &mut Fields {
    // SAFETY: as in `fields`; any bytes are a `siginfo_t`.
    unsafe { &mut *(&raw mut *info).cast() }
}

/// A signal with a number and a code, and nothing else.
pub(crate) fn bare(number: i32, code: i32) -> libc::siginfo_t {
    let mut info: libc::siginfo_t = zeroed();
    info.si_signo = number;
    info.si_code = code;
    info
}

/// The value that a signal carries.
pub(crate) fn value(info: &libc::siginfo_t) -> usize {
    fields(info).value
}

/// A queued signal that carries a value.
pub(crate) fn queued(number: i32, value: usize) -> libc::siginfo_t {
    let mut info = bare(number, libc::SI_QUEUE);
    fields_mut(&mut info).value = value;
    info
}

/// Sets the process and the user that a signal comes from.
pub(crate) fn set_sender(info: &mut libc::siginfo_t, sender: [i32; 2]) {
    fields_mut(info).pair = sender;
}

/// The number of the timer that sent a signal, and how often it has expired since.
pub(crate) fn timer(info: &libc::siginfo_t) -> [i32; 2] {
    fields(info).pair
}

/// Sets how often the timer of a signal has expired since.
pub(crate) fn set_overrun(info: &mut libc::siginfo_t, times: i32) {
    fields_mut(info).pair[1] = times;
}

/// All words of a signal.
pub(crate) fn words(info: &libc::siginfo_t) -> &Words {
    // SAFETY: `Words` has the size and alignment of a `siginfo_t`, and any bytes are both.
    unsafe { &*(&raw const *info).cast() }
}

/// The signal that has these words.
pub(crate) fn of_words(words: &Words) -> &libc::siginfo_t {
    // SAFETY: `Words` has the size and alignment of a `siginfo_t`, and any bytes are both.
    unsafe { &*(&raw const *words).cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_libc_finds_them() {
        let mut info = queued(40, 0x1234_5678_9abc);
        // SAFETY: a queued signal has a value and a sender.
        assert_eq!(unsafe { info.si_value() }.sival_ptr as usize, 0x1234_5678_9abc);
        set_sender(&mut info, [77, 88]);
        // SAFETY: a queued signal has a sender, which was set just now.
        assert_eq!(unsafe { (info.si_pid(), info.si_uid()) }, (77, 88));
        assert_eq!((info.si_signo, info.si_code), (40, libc::SI_QUEUE));
        assert_eq!(value(of_words(words(&info))), 0x1234_5678_9abc);
    }

    #[test]
    fn a_timer_and_its_overruns_stand_side_by_side() {
        let mut info = bare(34, libc::SI_TIMER);
        set_sender(&mut info, [3, 0]);
        set_overrun(&mut info, 9);
        assert_eq!(timer(&info), [3, 9]);
    }
}
