//! Sizing: the smallest reserve that does the job, proven on luck that the search never saw.
//!
//! It lives in the binary, because it needs campaigns (`holdback-sim`) and exact limits
//! (`holdback-reports`) and neither of those may know the other way round. Each module is one step:
//!
//! - [`axis`]: a field and the values that it may take; [`grid`]: the policies that they make;
//! - [`goal`]: what is asked for, and whether some runs show it;
//! - [`search`]: which candidate is the first to show it, in as few runs as possible (pure);
//! - [`world`]: where candidates are tried, drawn or recorded; [`lab`]: the runs themselves;
//! - [`seeds`]: the luck of search, proof and what comes after;
//! - [`solve`]: search, proof, and the picture around the result;
//! - [`closing`]: what the closing call costs, from first principles;
//! - [`report`]: the result as data; [`text`]: for people.

pub(crate) mod axis;
pub(crate) mod closing;
pub(crate) mod goal;
pub(crate) mod grid;
pub(crate) mod lab;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod seeds;
pub(crate) mod solve;
pub(crate) mod text;
pub(crate) mod world;
