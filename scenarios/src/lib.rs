//! What could happen to an agent: scenario, policy and study files, the built-in library and the
//! import of recorded runs.
//!
//! Files become the plain types of [`scenario`], [`policy`], [`study`] and [`trace`]; nothing here
//! simulates or decides anything.
#![warn(missing_docs)]

pub mod calibrate;
pub mod dist;
pub mod import;
pub mod library;
mod normal;
pub mod policy;
pub mod price;
pub mod read;
pub mod scenario;
pub mod schema;
pub mod script;
pub mod study;
pub mod trace;

pub use dist::{Dist, Quantity};
pub use policy::Policy;
pub use read::{FileError, Loader};
pub use scenario::Scenario;
pub use study::Study;
