//! The folder in which the command keeps what it can make again.

use std::env;
use std::path::{Path, PathBuf};

/// The folder `duality` of the user's cache folder: `$XDG_CACHE_HOME`, or `~/.cache`. `None` for a
/// user without a home. The folder may not exist yet.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|path| !path.is_empty());
    let base = named("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| named("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(base.join("duality"))
}
