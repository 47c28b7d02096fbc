//! Tokens and costs as providers report them.

use std::fmt;
use std::num::NonZeroU64;

use holdback_engine::protocol::Micros;
use holdback_engine::{Money, signature};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;

use crate::trace::{MAX_DOLLARS, MAX_TOKENS, Turn};

/// A number of tokens; some exporters write it as a string or with a decimal point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tokens(pub(super) u64);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tokens, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Tokens;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a whole number of tokens from 0 to {MAX_TOKENS}, or null"
                )
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Tokens, E> {
                if number > MAX_TOKENS {
                    return Err(E::invalid_value(
                        serde::de::Unexpected::Unsigned(number),
                        &self,
                    ));
                }
                Ok(Tokens(number))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Tokens, E> {
                if number >= 0.0 && number.fract() == 0.0 && number <= MAX_TOKENS as f64 {
                    return Ok(Tokens(number as u64));
                }
                Err(E::invalid_value(
                    serde::de::Unexpected::Float(number),
                    &self,
                ))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Tokens, E> {
                match text.parse() {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        from.deserialize_any(Whole)
    }
}

/// A recorded amount, rounded half to even at 1e-12 USD from its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dollars(pub(super) Money);

impl Dollars {
    pub(super) fn parse(digits: &str) -> Result<Dollars, String> {
        match Money::parse_rounded(digits.trim_matches('"')) {
            Ok(cost) if !cost.is_negative() && cost <= Money::from_dollars(MAX_DOLLARS) => {
                Ok(Dollars(cost))
            }
            _ => Err(format!(
                "a cost of {}, not an amount from 0 to {MAX_DOLLARS} USD or null",
                digits.chars().take(40).collect::<String>()
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Dollars, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Dollars::parse(raw.get()).map_err(D::Error::custom)
    }
}

/// The usage object of a chat completion (OpenAI's names, and Anthropic's beside them).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatUsage {
    #[serde(alias = "input_tokens")]
    prompt_tokens: Option<Tokens>,
    #[serde(alias = "output_tokens")]
    completion_tokens: Option<Tokens>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    cache_read_input_tokens: Option<Tokens>,
    cache_creation_input_tokens: Option<Tokens>,
    pub(super) cost: Option<Dollars>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<Tokens>,
    cache_write_tokens: Option<Tokens>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<Tokens>,
}

impl ChatUsage {
    /// A turn with this usage; what is not recorded stays so.
    pub(super) fn turn(&self) -> Turn {
        let count = |tokens: Option<Tokens>| tokens.map(|tokens| tokens.0);
        let prompt = self.prompt_tokens_details.as_ref();
        let completion = self.completion_tokens_details.as_ref();
        Turn {
            input_tokens: count(self.prompt_tokens),
            output_tokens: count(self.completion_tokens),
            cached_tokens: count(
                prompt
                    .and_then(|details| details.cached_tokens)
                    .or(self.cache_read_input_tokens),
            ),
            cache_write_tokens: count(
                prompt
                    .and_then(|details| details.cache_write_tokens)
                    .or(self.cache_creation_input_tokens),
            ),
            reasoning_tokens: count(completion.and_then(|details| details.reasoning_tokens)),
            cost: self.cost.map(|cost| cost.0),
            ..Turn::default()
        }
    }
}

/// The identity of a text, such as arguments or a result.
pub(super) fn identity(text: &str) -> NonZeroU64 {
    signature::raw("", text).0
}

/// Seconds as microseconds; `None` for what is no duration.
pub(super) fn micros(seconds: f64) -> Option<Micros> {
    const MOST: f64 = 1e7;
    (0.0..=MOST)
        .contains(&seconds)
        .then_some((seconds * 1e6 + 0.5) as Micros)
}
