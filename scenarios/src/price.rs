//! What a provider charges.

use holdback_engine::Money;
use holdback_engine::protocol::Usage;

/// Rates a token, exact. Where a file does not give a rate, the input rate stands in: absent is
/// never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// An input token that is neither read from nor written to the cache.
    pub input: Money,
    /// An input token read from the cache.
    pub cached_input: Money,
    /// An input token written to the cache.
    pub cache_write: Money,
    /// An output token, reasoning included.
    pub output: Money,
}

impl Price {
    /// What a request costs. Cached and written tokens are part of the input.
    pub fn cost(&self, usage: &Usage) -> Money {
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let plain = usage
            .input
            .saturating_sub(usage.cached)
            .saturating_sub(usage.cache_write);
        self.input.times(count(plain))
            + self.cached_input.times(count(usage.cached))
            + self.cache_write.times(count(usage.cache_write))
            + self.output.times(count(usage.output))
    }
}

/// Rates of a request whose input is above a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongContext {
    /// The rates below hold for a request with more input tokens than this.
    pub above_tokens: u64,
    /// The multiplied rates, all of them, for the whole request.
    pub price: Price,
}
