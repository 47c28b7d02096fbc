//! Price lists as others publish them: LiteLLM's `model_prices_and_context_window.json` and the
//! `api.json` of models.dev.
//!
//! Rates are parsed from their digits, never through a double, and rounded half to even at 1e-12 USD a
//! token: a published `4.9999999999999996e-07` is 5e-07 again. Entries without an input rate (pictures,
//! speech, flat fees) are left out.

use std::collections::BTreeMap;

use holdback_engine::Money;

use super::error::FileError;
use super::tree::{Entry, Kind, Node};
use crate::price::{LongContext, ModelPrice, Price, PriceTable};

/// Where lists may put the border to dearer long requests, in thousands of tokens.
const LONG: [u64; 4] = [128, 200, 256, 272];

/// The table of a published list; `None` if the document is none.
pub(super) fn price_table(file: &str, root: &Node) -> Option<Result<PriceTable, FileError>> {
    let entries = entries(root);
    if entries
        .iter()
        .any(|entry| entry.node.get("input_cost_per_token").is_some())
    {
        return Some(litellm(file, entries));
    }
    if entries
        .iter()
        .any(|entry| entry.node.get("models").is_some())
    {
        return Some(models_dev(file, entries));
    }
    None
}

fn entries(node: &Node) -> &[Entry] {
    match &node.kind {
        Kind::Table(entries) => entries,
        _ => &[],
    }
}

/// A rate under a key, in USD for `tokens` tokens; `None` where there is none.
fn rate(
    file: &str,
    path: &str,
    node: &Node,
    key: &str,
    tokens: i128,
) -> Result<Option<Money>, FileError> {
    let Some(value) = node.get(key) else {
        return Ok(None);
    };
    let digits = match &value.kind {
        Kind::Null => return Ok(None),
        Kind::Number(digits) | Kind::Text(digits) => digits,
        _ => return Err(wrong(file, path, key, value)),
    };
    match Money::parse_rounded(digits) {
        Ok(amount) if !amount.is_negative() => Ok(Some(shared(amount, tokens))),
        _ => Err(wrong(file, path, key, value)),
    }
}

/// An amount divided by a number of tokens, rounded half to even.
fn shared(amount: Money, tokens: i128) -> Money {
    let (whole, rest) = (amount.picos() / tokens, amount.picos() % tokens);
    let up = 2 * rest > tokens || (2 * rest == tokens && whole % 2 == 1);
    Money::from_picos(whole + i128::from(up))
}

fn wrong(file: &str, path: &str, key: &str, value: &Node) -> FileError {
    let mut error = FileError::of_file(file, value.describe(), "a price in USD, not below 0");
    error.path = super::one_line(&format!("{path}.{key}")).into();
    error
}

/// The four rates by their keys; `None` without an input rate.
fn price(
    file: &str,
    path: &str,
    node: &Node,
    keys: [&str; 4],
    tokens: i128,
) -> Result<Option<Price>, FileError> {
    let rate = |key| rate(file, path, node, key, tokens);
    let Some(input) = rate(keys[0])? else {
        return Ok(None);
    };
    Ok(Some(Price {
        input,
        cached_input: rate(keys[1])?.unwrap_or(input),
        cache_write: rate(keys[2])?.unwrap_or(input),
        output: rate(keys[3])?.unwrap_or(input),
    }))
}

fn litellm(file: &str, entries: &[Entry]) -> Result<PriceTable, FileError> {
    const KEYS: [&str; 4] = [
        "input_cost_per_token",
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost",
        "output_cost_per_token",
    ];
    let mut models = Vec::new();
    for entry in entries.iter().filter(|entry| entry.key != "sample_spec") {
        let Some(base) = price(file, &entry.key, &entry.node, KEYS, 1)? else {
            continue;
        };
        let mut long_context = None;
        for thousands in LONG {
            let keys = KEYS.map(|key| format!("{key}_above_{thousands}k_tokens"));
            let keys = [&keys[0], &keys[1], &keys[2], &keys[3]].map(String::as_str);
            if let Some(dearer) = price(file, &entry.key, &entry.node, keys, 1)? {
                long_context = Some(LongContext {
                    above_tokens: thousands * 1000,
                    price: dearer,
                });
            }
        }
        models.push(ModelPrice {
            name: entry.key.clone(),
            aliases: Vec::new(),
            provider: text(&entry.node, "litellm_provider"),
            price: base,
            long_context,
            date: String::new(),
            source: text(&entry.node, "source"),
        });
    }
    some(file, models)
}

fn models_dev(file: &str, entries: &[Entry]) -> Result<PriceTable, FileError> {
    const KEYS: [&str; 4] = ["input", "cache_read", "cache_write", "output"];
    const TOKENS: i128 = 1_000_000;
    let mut models = Vec::new();
    for provider in entries {
        let Some(list) = provider.node.get("models") else {
            continue;
        };
        for model in self::entries(list) {
            let Some(cost) = model.node.get("cost") else {
                continue;
            };
            let path = format!("{}.models.{}.cost", provider.key, model.key);
            let Some(base) = price(file, &path, cost, KEYS, TOKENS)? else {
                continue;
            };
            let dearer = match cost.get("context_over_200k") {
                Some(long) => price(file, &path, long, KEYS, TOKENS)?,
                None => None,
            };
            models.push(ModelPrice {
                name: format!("{}/{}", provider.key, model.key),
                aliases: vec![model.key.clone()],
                provider: provider.key.clone(),
                price: base,
                long_context: dearer.map(|price| LongContext {
                    above_tokens: 200_000,
                    price,
                }),
                date: text(&model.node, "last_updated"),
                source: "https://models.dev/api.json".to_owned(),
            });
        }
    }
    drop_ambiguous(&mut models);
    some(file, models)
}

/// A bare model name that providers charge differently names none of them.
fn drop_ambiguous(models: &mut [ModelPrice]) {
    let mut charged: BTreeMap<String, Option<Price>> = BTreeMap::new();
    for model in models.iter() {
        for alias in &model.aliases {
            charged
                .entry(alias.clone())
                .and_modify(|price| *price = price.filter(|price| *price == model.price))
                .or_insert(Some(model.price));
        }
    }
    for model in models {
        model
            .aliases
            .retain(|alias| matches!(charged.get(alias), Some(Some(_))));
    }
}

fn some(file: &str, models: Vec<ModelPrice>) -> Result<PriceTable, FileError> {
    if models.is_empty() {
        let found = "a price list without any price of a token";
        return Err(FileError::of_file(
            file,
            found,
            "at least one model with an input price",
        ));
    }
    Ok(PriceTable::new(models))
}

fn text(node: &Node, key: &str) -> String {
    match node.get(key).map(|value| &value.kind) {
        Some(Kind::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Syntax;
    use super::*;

    fn table(text: &str) -> Result<PriceTable, FileError> {
        let root = Node::parse("p.json", text, Syntax::Json).unwrap();
        price_table("p.json", &root).unwrap()
    }

    fn per_mtok(rate: Money) -> String {
        rate.times(1_000_000).to_string()
    }

    #[test]
    fn rates_of_litellm_are_exact_in_spite_of_their_doubles() {
        let table = table(
            r#"{"sample_spec": {"input_cost_per_token": 0.0, "mode": "x"},
            "m": {"input_cost_per_token": 4.9999999999999996e-07, "output_cost_per_token": 1.5e-05,
              "cache_read_input_token_cost": 5e-08, "input_cost_per_token_above_200k_tokens": 1e-06,
              "output_cost_per_token_above_200k_tokens": 2.25e-05, "litellm_provider": "p"},
            "picture": {"output_cost_per_image": 0.04}}"#,
        )
        .unwrap();
        assert_eq!(table.models().len(), 1);
        let model = table.get("m").unwrap();
        assert_eq!(per_mtok(model.price.input), "0.5");
        assert_eq!(per_mtok(model.price.cached_input), "0.05");
        assert_eq!(
            model.price.cache_write, model.price.input,
            "absent is never zero"
        );
        let long = model.long_context.unwrap();
        assert_eq!(
            (long.above_tokens, per_mtok(long.price.output)),
            (200_000, "22.5".to_owned())
        );
    }

    #[test]
    fn a_bare_name_of_models_dev_counts_only_where_providers_agree() {
        let table = table(
            r#"{"a": {"models": {"x": {"cost": {"input": 2.5, "output": 10, "cache_read": 0.0375}},
                                 "y": {"cost": {"input": 1, "output": 2}}}},
                "b": {"models": {"x": {"cost": {"input": 3, "output": 10}}, "free": {}}}}"#,
        )
        .unwrap();
        assert_eq!(table.models().len(), 3);
        assert!(table.get("x").is_none() && table.get("y").is_some());
        let model = table.get("a/x").unwrap();
        assert_eq!(model.price.cached_input, Money::from_picos(37_500));
    }

    #[test]
    fn a_price_that_is_none_is_named_by_its_path() {
        let error = table(r#"{"m": {"input_cost_per_token": "cheap"}}"#).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("p.json: m.input_cost_per_token: found "),
            "{message}"
        );
    }
}
