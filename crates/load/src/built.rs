//! How this program is compiled. Figures of programs that are compiled otherwise do not compare.

/// The compiler's settings in words: `level 3, profile release, no further flags`.
///
/// The level is that of this crate. All code that requests run through has the same level, and the
/// same link-time optimisation, in each profile of the workspace. The test
/// `crates/conformance/tests/all/alike.rs` checks this.
pub fn built() -> String {
    let level = env!("DUALITY_BUILT_LEVEL");
    let profile = env!("DUALITY_BUILT_PROFILE");
    // The profiles of the workspace's Cargo.toml. Another workspace has profiles of its own.
    let linked = match profile {
        "dist" => ", thin LTO",
        "release" | "debug" => ", no LTO",
        _ => "",
    };
    let flags = match env!("DUALITY_BUILT_FLAGS") {
        "" => "no further flags (processor: generic)",
        flags => flags,
    };
    let checks = if cfg!(debug_assertions) { ", with debug assertions" } else { "" };
    format!("level {level}, profile {profile}{linked}, {flags}{checks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_and_the_profile_are_told() {
        let text = built();
        assert!(text.starts_with("level ") && text.contains(", profile "), "{text}");
    }
}
