//! ADR-0078 as amended by ADR-0115: steps, model calls, tool calls, tokens, money and time, with
//! synthesis reserves.

mod rule;

pub use rule::Rule;
