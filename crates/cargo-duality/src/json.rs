//! What `cargo duality check-tokio --json` prints. The keys are in the order of their names.
//!
//! The schema in `schemas/` is made of these types by a test of the crate `duality`, which has this
//! file, too. So the file uses no other.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the form. The version changes when a key changes its meaning, and not for a new
/// key.
pub(crate) const VERSION: u32 = 1;

/// What a check has found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Told<'r> {
    /// The version of the crate bytes in `Cargo.lock`.
    pub(crate) bytes: Option<&'r str>,
    /// The command after the lines.
    pub(crate) command: String,
    /// Whether the locked tokio has a newer interface than the patch.
    pub(crate) is_newer_than_patch: bool,
    /// The number of errors that come without the patch, too.
    pub(crate) known_errors: usize,
    /// The lines for `Cargo.toml`.
    pub(crate) lines: &'r str,
    /// The version of tokio in `Cargo.lock`.
    pub(crate) locked_tokio: &'r str,
    /// The places that do not compile with the patch.
    pub(crate) missing: &'r [Missing],
    /// Settings without an effect.
    pub(crate) notes: &'r [Note],
    /// Packages with a tokio before 1, such as 0.2.
    pub(crate) older: &'r [User],
    /// The version of the patch.
    pub(crate) patch: &'r str,
    /// Packages that keep a tokio 1 of crates.io.
    pub(crate) pinned: &'r [User],
    /// The reason why cargo cannot put the patch in: a package wants another version.
    pub(crate) refused: Option<&'r str>,
    /// The workspace's packages that were not compiled, since they use one that did not compile.
    pub(crate) unchecked: &'r [String],
    /// The version of this form.
    #[cfg_attr(test, schemars(extend("const" = VERSION)))]
    pub(crate) version: u32,
    /// Whether everything compiles with the patch, and the patch reaches every tokio 1.
    pub(crate) works: bool,
}

/// A place that does not compile with the patch.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Missing {
    /// The column, from 1.
    pub(crate) column: u64,
    /// The file.
    pub(crate) file: String,
    /// What is missing, such as `tokio::time::pause`.
    pub(crate) item: Option<String>,
    /// The line, from 1.
    pub(crate) line: u64,
    /// What the compiler says.
    pub(crate) message: String,
    /// The package's name and version.
    pub(crate) package: String,
    /// What docs/tokio-patch.md says to use instead. `none`: nothing replaces it.
    pub(crate) remedy: Option<String>,
}

/// A place that the user should know of.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Note {
    /// The file.
    pub(crate) file: String,
    /// The line, from 1.
    pub(crate) line: usize,
    /// What has no effect, and what has one.
    pub(crate) text: String,
}

/// A package that uses a tokio which the patch does not replace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct User {
    /// The package's name and version.
    pub(crate) package: String,
    /// The version of tokio.
    pub(crate) tokio: String,
}
