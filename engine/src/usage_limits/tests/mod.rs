//! Properties of whole runs under random limits, models and tools.

mod defaults;
mod invariants;
mod restarts;
mod script;
