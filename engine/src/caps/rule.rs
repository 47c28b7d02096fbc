//! The rules of `caps`, each with its comparison and its source.

use serde::{Deserialize, Serialize};

/// A rule of `caps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// The call passed every rule.
    Admitted,
}

impl Rule {
    /// One sentence that says what is compared with what.
    pub const fn describe(self) -> &'static str {
        match self {
            Rule::Admitted => "the call passed every rule",
        }
    }
}
