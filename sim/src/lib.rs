//! See the crate description.
#![warn(missing_docs)]

pub mod conformance;
