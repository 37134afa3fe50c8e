//! Several ways to run one program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The ways to run one program, if the experiment compares these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// The subject that is the program as it is.
    pub native: String,
    /// What is asked of each other subject, such as "Should you run it so?".
    pub questions: BTreeMap<String, String>,
}
