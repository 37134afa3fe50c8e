//! The object that `duality simulate` has loaded before the C library, so that code which asks the
//! machine is answered by the simulation (the crate `duality-outside`). The object knows nothing of
//! simulations: it asks the command, by one function.
//!
//! ```text
//!   std, ring ─▶ getrandom ─▶ the object ─▶ ask ─▶ duality_simulate::outside
//! ```

use std::sync::OnceLock;

/// Answers the object. The number says what is asked, and the bytes are the question's or the
/// answer's.
pub type Answer = fn(question: u32, bytes: &mut [u8], number: u64) -> i64;

/// The function that the object calls.
type Ask = extern "C" fn(u32, *mut u8, usize, u64) -> i64;

static ANSWER: OnceLock<Answer> = OnceLock::new();

/// Gives the object the function that answers it. False if the object is not loaded.
#[must_use]
pub fn join(answer: Answer) -> bool {
    // SAFETY: the name is a string of C.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"duality_outside_join".as_ptr()) };
    if found.is_null() {
        return false;
    }
    let _ = ANSWER.set(answer);
    // SAFETY: the object defines this function with this type.
    let join: extern "C" fn(Ask) = unsafe { std::mem::transmute(found) };
    join(ask);
    true
}

extern "C" fn ask(question: u32, bytes: *mut u8, length: usize, number: u64) -> i64 {
    let mut none = [];
    let bytes = match length {
        0 => &mut none[..],
        // SAFETY: the object gives initialised bytes of this length, which nothing else uses.
        length => unsafe { std::slice::from_raw_parts_mut(bytes, length) },
    };
    ANSWER.get().map_or(-1, |answer| answer(question, bytes, number))
}
