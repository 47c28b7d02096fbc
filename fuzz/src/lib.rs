//! What the fuzzers feed: one function a target, from bytes to a panic if something is wrong.
//!
//! The tests of the main workspace include this module and run the kept corpus through the same
//! functions, so nothing here depends on the fuzzer.
// The module is public to the fuzz targets and private in the tests.
#![allow(unreachable_pub)]

mod bytes;
mod engines;
mod inputs;

/// A target: its name, which is that of its corpus folder, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 14] = [
    ("scenario", inputs::scenario),
    ("policy", inputs::policy),
    ("study", inputs::study),
    ("traces_neutral", inputs::traces),
    ("traces_otlp", inputs::traces),
    ("traces_mini_swe", inputs::traces),
    ("traces_tau2", inputs::traces),
    ("prices", inputs::prices),
    ("parts", inputs::parts),
    ("vectors", inputs::vectors),
    ("checkpoints", engines::checkpoints),
    ("engine_run_limits", engines::run_limits),
    ("engine_usage_limits", engines::usage_limits),
    ("engine_caps", engines::caps),
];

/// Feeds the target of this name.
///
/// # Panics
/// If there is no such target, or if the bytes bring a defect to light.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.expect("the target is in the table");
    target(bytes);
}
