//! Several ways to run one program.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ways to run one program, if the experiment compares such ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ways {
    /// The subject that is the program as it is.
    pub native: String,
    /// The question about each other subject, such as "Should you run it so?".
    pub questions: BTreeMap<String, String>,
}
