//! Statistics, tables and reports that compare ways of setting the limits.
#![warn(missing_docs)]

pub mod stats;
