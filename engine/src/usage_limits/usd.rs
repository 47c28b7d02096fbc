//! Money of `usage_limits`: the one place of the engine that decides on floating-point numbers.
//!
//! The deployed engine compares IEEE-754 doubles, so the same operations in the same order decide
//! here (section 11 of the semantics). They are additions, multiplications and divisions only, which
//! IEEE-754 rounds identically on every machine.

use serde::{Deserialize, Serialize};

use crate::Money;
use crate::protocol::Usage;

/// Prices of one model, in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Input tokens that are neither read from nor written to the cache.
    pub input_per_mtok: f64,
    /// Output tokens, reasoning included.
    pub output_per_mtok: f64,
    /// Input tokens read from the cache; the input price where absent.
    pub cache_read_per_mtok: Option<f64>,
    /// Input tokens written to the cache; the input price where absent.
    pub cache_write_per_mtok: Option<f64>,
}

impl Prices {
    /// What a usage costs, summed from left to right: input, output, cache reads, cache writes.
    pub fn price(&self, usage: &Usage) -> f64 {
        let plain = (usage.input as f64 - usage.cached as f64 - usage.cache_write as f64).max(0.0);
        let read = self.cache_read_per_mtok.unwrap_or(self.input_per_mtok);
        let write = self.cache_write_per_mtok.unwrap_or(self.input_per_mtok);
        (plain / MILLION) * self.input_per_mtok
            + (usage.output as f64 / MILLION) * self.output_per_mtok
            + (usage.cached as f64 / MILLION) * read
            + (usage.cache_write as f64 / MILLION) * write
    }

    /// What a prompt of an estimated size costs.
    fn prompt(&self, tokens: f64) -> f64 {
        (tokens / MILLION) * self.input_per_mtok
    }

    /// How many output tokens a sum buys; may be negative.
    fn output_tokens(&self, usd: f64) -> f64 {
        ((usd / self.output_per_mtok) * MILLION).floor()
    }
}

const MILLION: f64 = 1e6;

/// How the ledger learns what a model call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum PriceSource {
    /// Prices are unknown: nothing is debited, no output cap is clamped.
    #[default]
    Unknown,
    /// The engine prices the reported usage.
    Priced(Prices),
    /// The driver reports the cost of each call; no output cap is clamped. For recorded runs.
    AsReported,
}

/// The account of a run: what is spent of it, and what the run's own calls cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Account {
    /// Spent in all, with what was spent before the run.
    spent: f64,
    /// Cost of this run's model calls, summed call by call.
    cost: f64,
    /// What the attempt in flight has been debited so far.
    attempt: f64,
}

impl Account {
    /// An account at the start of a process.
    pub(super) fn open(already_spent: f64) -> Account {
        Account {
            spent: already_spent,
            ..Account::default()
        }
    }

    /// After a restart: debits the price of the *aggregate* restored usage at once, while the run's
    /// cost goes on from the sum call by call. The two may differ in the last bits.
    pub(super) fn restore(&mut self, source: PriceSource, usage: &Usage, cost: f64) {
        self.spent += match source {
            PriceSource::Unknown => 0.0,
            PriceSource::Priced(prices) => prices.price(usage),
            PriceSource::AsReported => cost,
        };
        self.cost = cost;
    }

    /// A new attempt: nothing of it is debited.
    pub(super) fn begin_attempt(&mut self) {
        self.attempt = 0.0;
    }

    /// Debits the growth of the attempt's own accumulated price.
    pub(super) fn debit(&mut self, source: PriceSource, usage: &Usage, reported: Money) {
        let price = match source {
            PriceSource::Unknown => return,
            PriceSource::Priced(prices) => prices.price(usage),
            PriceSource::AsReported => reported.to_f64(),
        };
        let growth = price - self.attempt;
        self.spent += growth;
        self.cost += growth;
        self.attempt = price;
    }

    /// Spent in all.
    pub(super) fn spent(&self) -> f64 {
        self.spent
    }

    /// Cost of this run's model calls.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    /// What is left under a ceiling, never negative.
    pub(super) fn left(&self, ceiling: f64) -> f64 {
        (ceiling - self.spent).max(0.0)
    }
}

/// The output cap for the wire, or why the attempt is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Clamp {
    /// Send this cap (none if `None`), unchanged by money.
    Unclamped(Option<u64>),
    /// Send this cap; money allows this many tokens after the prompt.
    Clamped { cap: u64, affordable: f64 },
    /// The prompt is not affordable with the floor, the floor without the prompt is: send the floor.
    AtFloor { cap: u64, affordable: f64 },
    /// Not even the smallest answer is affordable.
    Refused { affordable: f64 },
}

/// Clamps a wanted output cap to what is left under the ceiling (section 11, steps 2 to 5). `floor`
/// is the model's smallest output, at least 1.
pub(super) fn clamp(
    wanted: Option<u64>,
    floor: u64,
    estimate: f64,
    left: f64,
    source: PriceSource,
) -> Clamp {
    let PriceSource::Priced(prices) = source else {
        return Clamp::Unclamped(wanted);
    };
    if prices.output_per_mtok == 0.0 {
        return Clamp::Unclamped(wanted);
    }
    let affordable = prices.output_tokens(left - prices.prompt(estimate));
    if affordable < floor as f64 {
        let without_prompt = prices.output_tokens(left);
        return if without_prompt < floor as f64 {
            Clamp::Refused {
                affordable: without_prompt,
            }
        } else {
            Clamp::AtFloor {
                cap: floor,
                affordable,
            }
        };
    }
    match wanted {
        Some(wanted) if wanted as f64 <= affordable => Clamp::Unclamped(Some(wanted)),
        _ => Clamp::Clamped {
            cap: affordable as u64,
            affordable,
        },
    }
}

/// What an attempt may cost at most as the exposure pool sees it: the estimated prompt and the whole
/// planned output.
pub(super) fn exposure(source: PriceSource, estimate: f64, planned_output: u64) -> f64 {
    match source {
        PriceSource::Priced(prices) => {
            prices.prompt(estimate) + (planned_output as f64 / MILLION) * prices.output_per_mtok
        }
        PriceSource::Unknown | PriceSource::AsReported => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices {
        input_per_mtok: 4.0,
        output_per_mtok: 16.0,
        cache_read_per_mtok: None,
        cache_write_per_mtok: None,
    };

    fn tokens(input: u64, output: u64) -> Usage {
        Usage {
            input,
            output,
            ..Usage::default()
        }
    }

    #[test]
    fn cached_tokens_cost_the_input_price_where_they_have_none() {
        let usage = Usage {
            input: 1_000_000,
            cached: 500_000,
            cache_write: 250_000,
            ..Usage::default()
        };
        assert_eq!(PRICES.price(&usage), 4.0);
        let discounted = Prices {
            cache_read_per_mtok: Some(0.0),
            ..PRICES
        };
        assert_eq!(discounted.price(&usage), 2.0);
    }

    #[test]
    fn a_second_report_of_an_attempt_debits_only_the_growth() {
        let mut account = Account::open(1.0);
        account.begin_attempt();
        account.debit(PriceSource::Priced(PRICES), &tokens(15_625, 0), Money::ZERO);
        account.debit(
            PriceSource::Priced(PRICES),
            &tokens(15_625, 15_625),
            Money::ZERO,
        );
        assert_eq!(account.spent(), 1.0 + 0.0625 + 0.25);
        assert_eq!(account.cost(), 0.3125);
    }

    #[test]
    fn the_floor_is_sent_where_only_the_prompt_is_unaffordable_and_refused_where_it_is_not() {
        let source = PriceSource::Priced(PRICES);
        assert!(matches!(
            clamp(None, 15_625, 1_000_000.0, 0.25, source),
            Clamp::AtFloor { cap: 15_625, .. }
        ));
        assert!(matches!(
            clamp(Some(99_999), 15_625, 0.0, 0.24, source),
            Clamp::Refused { .. }
        ));
        assert!(matches!(
            clamp(Some(99_999), 1, 0.0, 0.25, source),
            Clamp::Clamped { cap: 15_625, .. }
        ));
        assert_eq!(
            clamp(Some(10), 1, 0.0, 0.25, source),
            Clamp::Unclamped(Some(10))
        );
    }
}
