//! The UsageLimits vocabulary of Rulvar with its USD ceiling.

mod rule;

pub use rule::Rule;
