//! `duality cc --doctor`: lists installed tools, missing tools, and the packages that contain them.

use std::path::PathBuf;

use super::{runtime, toolchain};

/// A line for each tool that `duality cc` needs, and whether all are installed.
pub(crate) fn doctor() -> (String, bool) {
    let mut text = String::new();
    let mut complete = true;
    let mut line = |name: &str, found: Option<PathBuf>, remedy: &str, needed: bool| match found {
        Some(place) => text += &format!("{name:<12} {}\n", place.display()),
        None => {
            text += &format!("{name:<12} missing: {remedy}\n");
            complete &= !needed;
        }
    };
    for name in ["clang", "ld.lld", "llvm-ar", "llvm-ranlib", "llvm-nm", "llvm-objcopy"] {
        line(name, toolchain::find(name), toolchain::PACKAGES, true);
    }
    line("pass", toolchain::pass(), &toolchain::missing_pass(), true);
    line("runtime", runtime::place(), runtime::MISSING, true);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dot =
        std::env::split_paths(&path).map(|folder| folder.join("dot")).find(|dot| dot.is_file());
    line("dot", dot, "apt-get install graphviz (for the SVG of --graph only)", false);
    (text, complete)
}
