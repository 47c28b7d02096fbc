//! Seeded providers, tools, faults and kills that drive the limits engine, and the tallies of what
//! happened.
#![warn(missing_docs)]

pub mod bound;
pub mod campaign;
pub mod conformance;
pub mod driver;
pub mod explain;
pub mod luck;
pub mod part;
pub mod policy;
pub mod records;
pub mod runner;
pub mod sampler;
mod sharing;
pub mod tally;
pub mod vectors;
pub mod workload;
pub mod world;
