//! Statistics, tables and reports that compare ways of setting the limits.
//!
//! A [`study::StudyResult`] (tallies with names) becomes a [`summary::Summary`], which holds every
//! number once. All formats read the summary and compute nothing:
//!
//! - [`table`]: the terminal;
//! - [`csv`], [`summary::Summary::to_json`], [`runs`], [`manifest`]: data files.
#![warn(missing_docs)]

mod cap;
pub mod check;
pub mod csv;
mod definition;
pub mod explain;
mod findings;
pub mod folder;
pub mod html;
pub mod manifest;
pub mod markdown;
pub mod measure;
pub mod numbers;
mod observed;
pub mod plots;
mod reserves;
pub mod runs;
pub mod stats;
pub mod study;
pub mod summary;
pub mod table;

pub use findings::recommended;

#[cfg(test)]
extern crate self as holdback_reports;
#[cfg(test)]
#[path = "../tests/common/sample.rs"]
mod sample;
