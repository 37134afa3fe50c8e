//! What the entry is on x86_64. Another processor has a folder with the same files.

pub(crate) mod assembly;
pub(crate) mod table;
