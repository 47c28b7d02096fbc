//! What configurations of one family may differ in without a run noticing, until a comparison does.
//!
//! Most limits are numbers that the engine only ever compares with what is used. Two configurations
//! that differ in such numbers alone lead a run the same way for as long as each comparison comes out
//! the same, so a simulator can drive them as one and part them at the first comparison that tells
//! them apart. For that the engine tells its observer each comparison that it makes
//! ([`super::Observer::compared`]), not only those that decide something.

/// A configuration with limits that are only ever compared.
pub trait Thresholds {
    /// The numbers that are only compared, as `used >= threshold`; those that no use reaches are
    /// `i128::MAX`. Their number and order are the family's.
    fn thresholds(&self) -> Vec<i128>;

    /// True if the two differ in nothing that decides but their thresholds.
    fn differs_in_thresholds_only(&self, other: &Self) -> bool;
}
