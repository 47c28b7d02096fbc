//! The price behind recorded costs.

use std::fmt;

use holdback_engine::Money;
use holdback_engine::protocol::Usage;

use crate::price::{ModelPrice, Price, PriceTable};

/// The most turns that are kept to find a price with.
const MOST_KEPT: usize = 4096;
/// A price is that of the costs if it reproduces this share of them.
const ENOUGH: f64 = 0.9;

/// Turns with tokens and a recorded cost; the first ones of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct CostedTurns(Vec<(Usage, Money)>);

/// Where a price comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceSource {
    /// A model of the price table, by name.
    Table(String),
    /// The recorded costs themselves.
    Record,
    /// The user named it.
    Given(String),
}

impl fmt::Display for PriceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PriceSource::Table(name) => f.write_str(name),
            PriceSource::Record => f.write_str("fitted to the record"),
            PriceSource::Given(name) => write!(f, "{name}, as given"),
        }
    }
}

/// A price with how many of the recorded costs it reproduces.
#[derive(Clone, Debug)]
pub struct FoundPrice {
    /// The rates.
    pub price: Price,
    /// Where they come from.
    pub source: PriceSource,
    /// Recorded costs that it was compared with.
    pub compared: u64,
    /// Those that it reproduces to a hundredth of a percent.
    pub reproduced: u64,
}

impl CostedTurns {
    pub(super) fn add(&mut self, usage: Usage, cost: Money) {
        if self.0.len() < MOST_KEPT && cost > Money::ZERO {
            self.0.push((usage, cost));
        }
    }

    /// The price the user gave; else that of the named model where it reproduces the costs or there
    /// are none; else any model's that reproduces them; else rates fitted to them.
    pub(super) fn price(
        &self,
        given: Option<&ModelPrice>,
        model: Option<&str>,
        table: &PriceTable,
    ) -> Option<FoundPrice> {
        if let Some(given) = given {
            return Some(self.found(given.price, PriceSource::Given(given.name.clone())));
        }
        let of_table =
            |entry: &ModelPrice| self.found(entry.price, PriceSource::Table(entry.name.clone()));
        let named = model.and_then(|model| lookup(table, model)).map(of_table);
        if self.0.is_empty() {
            return named;
        }
        if let Some(named) = named.filter(FoundPrice::is_enough) {
            return Some(named);
        }
        let mut best: Option<FoundPrice> = None;
        for found in table.models().iter().map(of_table) {
            if best
                .as_ref()
                .is_none_or(|best| found.reproduced > best.reproduced)
            {
                best = Some(found);
            }
        }
        best.filter(FoundPrice::is_enough).or_else(|| self.fitted())
    }

    fn found(&self, price: Price, source: PriceSource) -> FoundPrice {
        let near = |(usage, cost): &&(Usage, Money)| is_near(price.cost(usage), *cost);
        FoundPrice {
            price,
            source,
            compared: self.0.len() as u64,
            reproduced: self.0.iter().filter(near).count() as u64,
        }
    }

    /// Least squares on input that is not cached, cached input and output, first over all turns, then
    /// over those that the rates so far explain.
    fn fitted(&self) -> Option<FoundPrice> {
        const ROUNDS: usize = 6;
        let mut kept: Vec<&(Usage, Money)> = self.0.iter().collect();
        let mut best: Option<FoundPrice> = None;
        for _ in 0..ROUNDS {
            let Some(price) = least_squares(&kept) else {
                break;
            };
            let found = self.found(price, PriceSource::Record);
            let mut errors: Vec<_> = self
                .0
                .iter()
                .map(|turn| (relative_error(price.cost(&turn.0), turn.1), turn))
                .collect();
            if best
                .as_ref()
                .is_none_or(|best| found.reproduced >= best.reproduced)
            {
                best = Some(found);
            }
            errors.sort_by(|a, b| a.0.total_cmp(&b.0));
            errors.truncate((errors.len() * 4 / 5).max(3));
            kept = errors.into_iter().map(|(_, turn)| turn).collect();
        }
        best
    }
}

impl FoundPrice {
    fn is_enough(&self) -> bool {
        self.compared > 0 && self.reproduced as f64 >= ENOUGH * self.compared as f64
    }
}

/// A model of the table by the name a provider gives it: `vendor/` in front and a date or `-preview`
/// behind are no part of the name.
fn lookup<'t>(table: &'t PriceTable, model: &str) -> Option<&'t ModelPrice> {
    let bare = model.rsplit('/').next().unwrap_or(model);
    let dated = bare.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let plain = bare.strip_suffix("-preview").unwrap_or(bare);
    [model, bare, plain, dated]
        .into_iter()
        .find_map(|name| table.get(name))
}

fn is_near(a: Money, b: Money) -> bool {
    relative_error(a, b) <= 1e-4
}

fn relative_error(a: Money, cost: Money) -> f64 {
    let apart = a.picos().abs_diff(cost.picos()) as f64;
    apart / (cost.picos().unsigned_abs() as f64).max(1.0)
}

/// Rates by the normal equations, rounded to four decimals of a dollar a million tokens.
fn least_squares(turns: &[&(Usage, Money)]) -> Option<Price> {
    let has_cache = turns.iter().any(|(usage, _)| usage.cached > 0);
    let size = if has_cache { 3 } else { 2 };
    let mut rows = [[0.0; 4]; 3];
    for (usage, cost) in turns {
        let plain = (usage.input - usage.cached.min(usage.input)) as f64;
        let output = usage.output as f64;
        let x = if has_cache {
            [plain, output, usage.cached as f64]
        } else {
            [plain, output, 0.0]
        };
        // Relative errors count, so that no single dear turn decides.
        let weight = 1.0 / (cost.picos() as f64);
        for (row, factor) in rows.iter_mut().zip(x) {
            for (cell, other) in row.iter_mut().zip(x) {
                *cell += factor * other * weight * weight;
            }
            row[3] += factor * weight;
        }
    }
    let rates = solve(rows, size)?;
    let rate = |picos: f64| {
        // One picodollar a token is a millionth of a dollar a million tokens.
        const STEP: f64 = 100.0;
        (picos > 0.0).then(|| Money::from_picos(((picos / STEP).round() * STEP) as _))
    };
    let input = rate(rates[0])?;
    Some(Price {
        input,
        cached_input: if has_cache { rate(rates[2])? } else { input },
        cache_write: input,
        output: rate(rates[1])?,
    })
}

/// Gauss-Jordan elimination with pivoting of the first `size` rows; the right side is column 3.
fn solve(mut rows: [[f64; 4]; 3], size: usize) -> Option<[f64; 3]> {
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column][column];
        if head.abs() < 1e-300 {
            return None;
        }
        for cell in &mut rows[column] {
            *cell /= head;
        }
        let done = rows[column];
        for (at, row) in rows.iter_mut().enumerate().take(size) {
            if at != column {
                let factor = row[column];
                for (cell, other) in row.iter_mut().zip(done) {
                    *cell -= factor * other;
                }
            }
        }
    }
    let mut solution = [0.0; 3];
    for (value, row) in solution.iter_mut().zip(rows) {
        *value = row[3];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: i64, cached: i64, output: i64) -> Price {
        let rate = |micros: i64| Money::from_picos((micros * 1_000_000).into());
        Price {
            input: rate(input),
            cached_input: rate(cached),
            cache_write: rate(input),
            output: rate(output),
        }
    }

    fn turns(price: &Price) -> CostedTurns {
        let mut turns = CostedTurns::default();
        for at in 0..300_u64 {
            let usage = Usage {
                input: 1000 + 37 * at,
                cached: if at % 3 == 0 { 0 } else { 900 + 11 * (at % 50) },
                output: 20 + at * at % 601,
                ..Usage::default()
            };
            // Every tenth turn was billed otherwise.
            let factor = if at % 20 == 7 { 2 } else { 1 };
            turns.add(usage, price.cost(&usage).times(factor));
        }
        turns
    }

    #[test]
    fn rates_are_recovered_exactly_from_costs_in_spite_of_strange_bills() {
        let real = price(7, 1, 29);
        let found = turns(&real)
            .price(None, Some("unknown"), &PriceTable::default())
            .unwrap();
        assert_eq!(found.source, PriceSource::Record);
        assert_eq!(found.price, real);
        assert_eq!((found.compared, found.reproduced), (300, 285));
    }

    #[test]
    fn a_model_of_the_table_that_reproduces_the_costs_is_named() {
        let table = crate::library::prices();
        let model = table.get("gemini-3-pro").unwrap();
        let found = turns(&model.price).price(None, None, &table).unwrap();
        assert!(matches!(found.source, PriceSource::Table(_)));
        assert_eq!(found.price, model.price);
    }

    #[test]
    fn without_costs_the_recorded_model_decides() {
        let table = crate::library::prices();
        let none = CostedTurns::default();
        let found = none.price(None, Some("google/gemini-3-pro-preview"), &table);
        assert_eq!(
            found.map(|found| found.source),
            Some(PriceSource::Table("gemini-3-pro".to_owned()))
        );
        assert!(none.price(None, Some("no such model"), &table).is_none());
    }
}
