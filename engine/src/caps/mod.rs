//! Plain caps as mainstream frameworks ship them.

mod rule;

pub use rule::Rule;
