//! Seeded providers, tools, faults and kills that drive the limits engine, and the tallies of what
//! happened.
#![warn(missing_docs)]

pub mod luck;
pub mod tally;
