//! What converted programs are linked with: the one place where that is decided.
//!
//! The runtime of the product will stand on the engine of `duality run`. Until it is there, only the reference runtime
//! of the tests exists (`crates/convert/check`). It is for one kernel thread and for tests, so no program gets it unless
//! the environment names its objects.

use std::env;
use std::ffi::OsString;

/// Names the objects of a runtime, separated by colons. For tests.
const HIDDEN: &str = "DUALITY_CC_RUNTIME";

/// What the pass says where a program needs a runtime.
pub(super) const MISSING: &str = "the runtime of converted programs is not part of this version of Duality; use `duality run` on the native program";

/// The objects and flags to link with, if there is a runtime.
pub(super) fn choose() -> Option<Vec<OsString>> {
    let named = env::var_os(HIDDEN).filter(|named| !named.is_empty())?;
    Some(env::split_paths(&named).map(OsString::from).collect())
}
