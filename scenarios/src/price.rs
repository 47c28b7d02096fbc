//! What a provider charges.

use holdback_engine::Money;
use holdback_engine::protocol::Usage;
use serde_json::{Value, json};

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

    /// The rates a million tokens, as a file gives them.
    pub fn to_json(&self) -> Value {
        let per_mtok = |rate: Money| rate.times(1_000_000).to_string();
        json!({
            "input_per_mtok": per_mtok(self.input),
            "cached_input_per_mtok": per_mtok(self.cached_input),
            "cache_write_per_mtok": per_mtok(self.cache_write),
            "output_per_mtok": per_mtok(self.output),
        })
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

/// The published price of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPrice {
    /// The name that scenarios and the command line use.
    pub name: String,
    /// Other names of the same model.
    pub aliases: Vec<String>,
    /// Who charges it.
    pub provider: String,
    /// The rates.
    pub price: Price,
    /// The rates of long requests, where they differ.
    pub long_context: Option<LongContext>,
    /// The day on which the price list was read, as `YYYY-MM-DD`.
    pub date: String,
    /// Where the price list is.
    pub source: String,
}

/// Prices by model name, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    models: Vec<ModelPrice>,
}

impl PriceTable {
    /// A table of models; of two with one name the first is found.
    pub fn new(models: Vec<ModelPrice>) -> PriceTable {
        PriceTable { models }
    }

    /// The price of a model by its name or an alias.
    pub fn get(&self, name: &str) -> Option<&ModelPrice> {
        let named = |model: &&ModelPrice| {
            model.name == name || model.aliases.iter().any(|alias| alias == name)
        };
        self.models.iter().find(named)
    }

    /// All models.
    pub fn models(&self) -> &[ModelPrice] {
        &self.models
    }

    /// All names and aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.iter().flat_map(|model| {
            std::iter::once(model.name.as_str()).chain(model.aliases.iter().map(String::as_str))
        })
    }
}
