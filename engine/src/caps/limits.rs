//! The limits object as a user writes it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Dimension;
use super::config::DEFAULT_ATTEMPTS;
use crate::Money;
use crate::protocol::Micros;

/// The limits of a `caps` policy, as they stand in a policy file.
///
/// Every field is optional. A field that is left out takes the value of the `preset`, if one is
/// named, and else the default given here; `"unlimited"` takes a preset's cap away.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Name of a preset ([`super::presets`]) that fills what is left out here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Turns, counted as `count_turns` says; retries of a turn are not counted.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_turns: Limit<u64>,
    /// Requests to the model, retries included.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_model_calls: Limit<u64>,
    /// Tool calls that ran (failed ones too, denied ones not).
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_tool_calls: Limit<u64>,
    /// The same for single tools, by name. A tool that a workload does not have is never reached.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub max_calls_per_tool: BTreeMap<String, Limit<u64>>,
    /// Money charged by the provider as far as it is reported, exact to 1e-12 USD; with
    /// `count_tool_cost` what tools charge too.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_cost_usd: Limit<Money>,
    /// Input tokens of all requests together, cached ones included: a context that is sent again
    /// counts again.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_input_tokens: Limit<u64>,
    /// Output tokens of all requests together, reasoning included.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_output_tokens: Limit<u64>,
    /// Input and output tokens of all requests together.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_total_tokens: Limit<u64>,
    /// Wall-clock seconds since the run's first start, restarts and downtime included where the
    /// state is durable.
    #[serde(skip_serializing_if = "Limit::is_unset")]
    pub max_time_s: Limit<Seconds>,
    /// What `max_turns` counts. Default: `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_turns: Option<CountTurns>,
    /// What runs of a batch that crosses a cap on tool calls. Default: `trim`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// When money and tokens are compared. Default: `before`.
    #[serde(skip_serializing_if = "ByDimension::is_unset")]
    pub check: ByDimension<Check>,
    /// What happens when a cap is exhausted. Default: `error`.
    #[serde(skip_serializing_if = "ByDimension::is_unset")]
    pub on_exhausted: ByDimension<OnExhausted>,
    /// What survives a restart. Default: `turn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<Durability>,
    /// Requests that a turn may take in all, at least 1 (no retry). Default: 3, because the client
    /// libraries that frameworks are built on retry twice. Transient faults, rate limits and broken
    /// or silent streams are retried after a pause of 0.5 s that doubles to at most 8 s, or after
    /// what the provider asks for; permanent and protocol errors are not retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The ledger counts what tools charge, and money is compared around each tool call as around
    /// a request. Default: false, as in every framework looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_tool_cost: Option<bool>,
    /// What a turn without calls is that was cut at its output cap. Default: `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_turn: Option<CutTurn>,
    /// What is delivered when the last turn's text is blank. Default: `deliver`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank_answer: Option<BlankAnswer>,
}

impl Limits {
    /// The family's defaults, where neither a policy nor its preset says anything: no cap at all,
    /// and every rule as its field describes it.
    pub fn defaults() -> Limits {
        Limits {
            count_turns: Some(CountTurns::default()),
            batch: Some(Batch::default()),
            check: ByDimension::all(Check::default()),
            on_exhausted: ByDimension::all(OnExhausted::default()),
            durable: Some(Durability::default()),
            attempts: Some(DEFAULT_ATTEMPTS),
            count_tool_cost: Some(false),
            cut_turn: Some(CutTurn::default()),
            blank_answer: Some(BlankAnswer::default()),
            ..Limits::default()
        }
    }

    /// These limits, with what they leave open taken from `base`; `preset` is not inherited.
    pub fn over(&self, base: &Limits) -> Limits {
        let mut max_calls_per_tool = base.max_calls_per_tool.clone();
        max_calls_per_tool.extend(self.max_calls_per_tool.clone());
        Limits {
            preset: self.preset.clone(),
            max_turns: self.max_turns.or(base.max_turns),
            max_model_calls: self.max_model_calls.or(base.max_model_calls),
            max_tool_calls: self.max_tool_calls.or(base.max_tool_calls),
            max_calls_per_tool,
            max_cost_usd: self.max_cost_usd.or(base.max_cost_usd),
            max_input_tokens: self.max_input_tokens.or(base.max_input_tokens),
            max_output_tokens: self.max_output_tokens.or(base.max_output_tokens),
            max_total_tokens: self.max_total_tokens.or(base.max_total_tokens),
            max_time_s: self.max_time_s.or(base.max_time_s),
            count_turns: self.count_turns.or(base.count_turns),
            batch: self.batch.or(base.batch),
            check: self.check.over(base.check),
            on_exhausted: self.on_exhausted.over(base.on_exhausted),
            durable: self.durable.or(base.durable),
            attempts: self.attempts.or(base.attempts),
            count_tool_cost: self.count_tool_cost.or(base.count_tool_cost),
            cut_turn: self.cut_turn.or(base.cut_turn),
            blank_answer: self.blank_answer.or(base.blank_answer),
        }
    }
}

/// What `max_turns` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountTurns {
    /// Turns of the model. A cap of n ends the run before request n + 1 (retries apart); the tools
    /// of turn n have run.
    #[default]
    Model,
    /// Turns with calls that were not all refused by a cap. A cap of n lets the model answer after its n-th tool turn; if it
    /// asks for tools once more, none of them runs.
    ToolTurns,
    /// Steps of a graph in which the model is one and its tools another: n tool turns and an answer
    /// are 2n + 1. Compared before each of the two.
    Supersteps,
}

/// What runs of a batch that crosses `max_tool_calls` or `max_calls_per_tool`.
///
/// Calls that do not run get error results. Then `on_exhausted` of the crossed cap decides how the
/// run goes on; where both are crossed, `max_tool_calls` goes first unless only it blocks tools.
/// Calls that the permission policy denies take no place in the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Batch {
    /// Nothing of it. With `block_tools` a later, smaller batch may still fit.
    Reject,
    /// What fits, in source order.
    #[default]
    Trim,
    /// All of it, if it starts below the cap; nothing of a batch (for a cap on one tool: of that
    /// tool) that starts at the cap or past it.
    RunAll,
}

/// When a cap on money or tokens is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Before a request: spent >= cap refuses it.
    #[default]
    Before,
    /// After a request: spent > cap ends the run. A cap that is met exactly permits one more.
    After,
    /// Both.
    Both,
}

impl Check {
    pub(super) fn before(self) -> bool {
        self != Check::After
    }

    pub(super) fn after(self) -> bool {
        self != Check::Before
    }
}

/// What happens when a cap is exhausted.
///
/// A complete answer (a turn without calls) that itself takes money or tokens past an `after` check
/// needs no cap to end the run: it stands, except under `error`, where it is discarded.
///
/// The *closing turn* of `final_turn` and `final_turn_inside` offers no tools and ends the run
/// whatever it brings; calls in it are dropped. It is retried as any turn, within the caps in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The run fails; nothing is delivered. Works with every cap.
    #[default]
    Error,
    /// The run ends with its last text that is not blank, if any. Works with every cap.
    Stop,
    /// The run ends with a fixed text of the framework. Works with every cap.
    Canned,
    /// One closing turn past the cap. Pending calls get error results. Works with every cap; past
    /// `max_model_calls` it is one request that cannot be retried. Other caps hold for it, except
    /// those that grant a final turn themselves: it is one turn for all of them.
    FinalTurn,
    /// The last request inside the cap is the closing turn: for `max_turns` and `max_model_calls`
    /// the last that is left, for `max_tool_calls` and `count_turns = "tool_turns"` (which no
    /// request uses up) the next after the cap is reached. Money, tokens and time have no
    /// foreseeable last request and a cap on one tool none at all: there it is refused. A request
    /// lost to a fault is not made up for: if none is left, the run fails.
    FinalTurnInside,
    /// Calls past the cap get error results and the model goes on until another cap. Works with
    /// `max_tool_calls`, `max_calls_per_tool` and `count_turns = "tool_turns"`. Given as the one
    /// value for all, it means `error` for every other cap.
    BlockTools,
}

/// What survives a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The state after each completed turn (a model turn with its tools).
    #[default]
    Turn,
    /// Nothing: the run starts over, its counters at zero.
    None,
}

/// What a turn without calls is that was cut at its output cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutTurn {
    /// The end of the run, as any turn without calls.
    #[default]
    End,
    /// A turn like any other; the model is asked to go on while the caps allow it.
    Continue,
}

/// What is delivered when a turn that ends the run has a blank text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlankAnswer {
    /// That text.
    #[default]
    Deliver,
    /// The last text that was not blank, if there is one.
    LastText,
}

/// A cap that may be left open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit<T> {
    /// Not mentioned: a preset's value, or none.
    #[default]
    Unset,
    /// No cap, whatever a preset says.
    Unlimited,
    /// This much is permitted.
    At(T),
}

impl<T: Copy> Limit<T> {
    /// True if it is not mentioned.
    pub fn is_unset(&self) -> bool {
        matches!(self, Limit::Unset)
    }

    /// The cap, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Limit::At(value) => Some(value),
            Limit::Unset | Limit::Unlimited => None,
        }
    }

    fn or(self, base: Limit<T>) -> Limit<T> {
        match self {
            Limit::Unset => base,
            set => set,
        }
    }
}

const UNLIMITED: &str = "unlimited";

impl<T: Serialize> Serialize for Limit<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::At(value) => value.serialize(serializer),
            Limit::Unset | Limit::Unlimited => serializer.serialize_str(UNLIMITED),
        }
    }
}

/// A kind of number that can be a cap.
trait CapValue: Sized {
    const EXPECTED: &'static str;
    /// Reads what was written as a number.
    fn from_number(text: &str) -> Option<Self>;
    /// Reads what was written as a string.
    fn from_string(text: &str) -> Option<Self>;
}

impl CapValue for u64 {
    const EXPECTED: &'static str = "a whole number of at least 0, or \"unlimited\"";

    fn from_number(text: &str) -> Option<u64> {
        text.parse()
            .ok()
            .filter(|count| i64::try_from(*count).is_ok())
    }

    fn from_string(_text: &str) -> Option<u64> {
        None
    }
}

impl CapValue for Money {
    const EXPECTED: &'static str =
        "an amount of USD of at least 0 with at most 12 decimals, or \"unlimited\"";

    fn from_number(text: &str) -> Option<Money> {
        Money::from_string(text)
    }

    fn from_string(text: &str) -> Option<Money> {
        Money::parse_exact(text)
            .ok()
            .filter(|usd| !usd.is_negative())
    }
}

/// A span of time, written as decimal seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(
    /// The span in microseconds.
    pub Micros,
);

/// Picodollars in a dollar are to microseconds in a second as this to one.
const PICOS_A_MICRO: i128 = 1_000_000;

impl CapValue for Seconds {
    const EXPECTED: &'static str =
        "a number of seconds of at least 0 with at most 6 decimals, or \"unlimited\"";

    fn from_number(text: &str) -> Option<Seconds> {
        Seconds::from_string(text)
    }

    /// Money's exact decimal reader serves for seconds too, so that 0.1 is exactly 100,000 µs.
    fn from_string(text: &str) -> Option<Seconds> {
        let exact = Money::parse_exact(text).ok()?;
        if exact.is_negative() || exact.picos() % PICOS_A_MICRO != 0 {
            return None;
        }
        i64::try_from(exact.picos() / PICOS_A_MICRO)
            .ok()
            .map(Seconds)
    }
}

/// Written as a decimal string, as money is.
impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Money::from_micros(self.0))
    }
}

impl<'de> Deserialize<'de> for Limit<u64> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Limit<Money> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Limit<Seconds> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor(PhantomData))
    }
}

struct LimitVisitor<T>(PhantomData<T>);

impl<T: CapValue> LimitVisitor<T> {
    fn number<E: de::Error>(&self, text: &str, found: de::Unexpected<'_>) -> Result<Limit<T>, E> {
        T::from_number(text)
            .map(Limit::At)
            .ok_or_else(|| E::invalid_value(found, &T::EXPECTED))
    }
}

impl<T: CapValue> Visitor<'_> for LimitVisitor<T> {
    type Value = Limit<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Limit<T>, E> {
        self.number(&value.to_string(), de::Unexpected::Unsigned(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Limit<T>, E> {
        self.number(&value.to_string(), de::Unexpected::Signed(value))
    }

    /// The shortest decimal that reads back as this double is what the user wrote.
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Limit<T>, E> {
        self.number(&value.to_string(), de::Unexpected::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Limit<T>, E> {
        if value == UNLIMITED {
            return Ok(Limit::Unlimited);
        }
        T::from_string(value)
            .map(Limit::At)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(value), &T::EXPECTED))
    }
}

/// A setting with one value for all dimensions, or a table by dimension in which `default` stands
/// for those not named: `"stop"` or `{ default = "error", turns = "final_turn" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByDimension<T> {
    /// The value where the table has none.
    pub default: Option<T>,
    /// The table, indexed by [`Dimension`].
    pub table: [Option<T>; Dimension::COUNT],
}

impl<T: Copy> ByDimension<T> {
    /// One value for all.
    pub fn all(value: T) -> ByDimension<T> {
        ByDimension {
            default: Some(value),
            table: [None; Dimension::COUNT],
        }
    }

    /// This setting, with another value for one dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, value: T) -> ByDimension<T> {
        self.table[dimension as usize] = Some(value);
        self
    }

    /// True if nothing is said.
    pub fn is_unset(&self) -> bool {
        self.default.is_none() && self.table.iter().all(Option::is_none)
    }

    /// What is said of one dimension by name.
    pub fn named(&self, dimension: Dimension) -> Option<T> {
        self.table[dimension as usize]
    }

    /// This setting where it says something, else `base`. A value for all replaces `base` whole.
    fn over(self, base: ByDimension<T>) -> ByDimension<T> {
        if self.default.is_some() {
            return self;
        }
        let mut merged = base;
        for (slot, value) in merged.table.iter_mut().zip(self.table) {
            *slot = value.or(*slot);
        }
        merged
    }
}

const DEFAULT: &str = "default";

impl<T: Copy + Serialize> Serialize for ByDimension<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (Some(value), true) = (self.default, self.table.iter().all(Option::is_none)) {
            return value.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        if let Some(value) = self.default {
            map.serialize_entry(DEFAULT, &value)?;
        }
        for dimension in Dimension::ALL {
            if let Some(value) = self.named(dimension) {
                map.serialize_entry(dimension.as_str(), &value)?;
            }
        }
        map.end()
    }
}

impl<'de, T: Copy + Deserialize<'de>> Deserialize<'de> for ByDimension<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByDimensionVisitor(PhantomData))
    }
}

struct ByDimensionVisitor<T>(PhantomData<T>);

const KEYS: [&str; Dimension::COUNT + 1] = [
    DEFAULT,
    "time",
    "turns",
    "model_calls",
    "cost",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "tool_calls",
    "calls_per_tool",
];

impl<'de, T: Copy + Deserialize<'de>> Visitor<'de> for ByDimensionVisitor<T> {
    type Value = ByDimension<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value for all dimensions or a table by dimension")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<ByDimension<T>, E> {
        T::deserialize(StrDeserializer::new(value)).map(ByDimension::all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByDimension<T>, A::Error> {
        let mut read = ByDimension {
            default: None,
            table: [None; Dimension::COUNT],
        };
        while let Some(key) = map.next_key::<String>()? {
            let value = Some(map.next_value()?);
            match Dimension::ALL.into_iter().find(|d| d.as_str() == key) {
                Some(dimension) => read.table[dimension as usize] = value,
                None if key == DEFAULT => read.default = value,
                None => return Err(de::Error::unknown_field(&key, &KEYS)),
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: serde_json::Value) -> Result<Limits, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_written_as_in_production_and_read_back_unchanged() {
        let limits = read(json!({
            "preset": "crewai", "max_turns": 5, "max_tool_calls": "unlimited",
            "max_calls_per_tool": {"search": 3}, "max_cost_usd": "5.00", "max_time_s": 0.1,
            "count_turns": "tool_turns", "batch": "run_all",
            "check": {"cost": "both", "default": "after"}, "on_exhausted": "stop",
            "durable": "none", "attempts": 2, "count_tool_cost": true,
        }))
        .unwrap();
        assert_eq!(limits.max_turns, Limit::At(5));
        assert_eq!(limits.max_tool_calls, Limit::Unlimited);
        assert_eq!(limits.max_model_calls, Limit::Unset);
        assert_eq!(limits.max_cost_usd, Limit::At(Money::from_dollars(5)));
        assert_eq!(limits.max_time_s, Limit::At(Seconds(100_000)));
        assert_eq!(
            limits.check,
            ByDimension::all(Check::After).with(Dimension::Cost, Check::Both)
        );
        let again = read(serde_json::to_value(&limits).unwrap()).unwrap();
        assert_eq!(again, limits);
    }

    #[test]
    fn a_decimal_may_be_a_number_and_is_read_as_written() {
        for (value, picos) in [(json!(0.1), 100_000_000_000), (json!(5), 5_000_000_000_000)] {
            let limits = read(json!({"max_cost_usd": value})).unwrap();
            assert_eq!(limits.max_cost_usd, Limit::At(Money::from_picos(picos)));
        }
    }

    #[test]
    fn what_cannot_be_a_cap_is_refused_with_what_was_expected() {
        for (value, expected) in [
            (
                json!({"max_turns": -1}),
                "integer `-1`, expected a whole number",
            ),
            (
                json!({"max_turns": 2.5}),
                "floating point `2.5`, expected a whole number",
            ),
            (
                json!({"max_turns": "5"}),
                "string \"5\", expected a whole number",
            ),
            (
                json!({"max_cost_usd": "-1"}),
                "string \"-1\", expected an amount of USD",
            ),
            (
                json!({"max_cost_usd": "0.0000000000001"}),
                "at most 12 decimals",
            ),
            (json!({"max_time_s": 0.0000001}), "at most 6 decimals"),
            (json!({"max_turn": 3}), "unknown field `max_turn`"),
            (
                json!({"on_exhausted": {"turn": "stop"}}),
                "unknown field `turn`, expected one of",
            ),
            (json!({"on_exhausted": "halt"}), "unknown variant `halt`"),
            (
                json!({"check": {"cost": "never"}}),
                "unknown variant `never`",
            ),
            (json!({"max_turns": null}), "expected a whole number"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }

    #[test]
    fn every_dimension_has_its_word_in_the_tables() {
        let words: Vec<_> = Dimension::ALL.iter().map(|d| d.as_str()).collect();
        assert_eq!(words, KEYS[1..]);
    }

    #[test]
    fn own_limits_go_over_those_of_a_base_key_by_key() {
        let base = read(json!({
            "max_turns": 25, "max_cost_usd": 3, "max_calls_per_tool": {"a": 1, "b": 2},
            "on_exhausted": {"default": "stop", "turns": "final_turn"},
        }))
        .unwrap();
        let own = read(json!({
            "max_turns": "unlimited", "max_calls_per_tool": {"b": 9},
            "on_exhausted": {"cost": "canned"},
        }))
        .unwrap();
        let merged = own.over(&base);
        assert_eq!(merged.max_turns.value(), None);
        assert_eq!(merged.max_cost_usd.value(), Some(Money::from_dollars(3)));
        assert_eq!(merged.max_calls_per_tool["a"], Limit::At(1));
        assert_eq!(merged.max_calls_per_tool["b"], Limit::At(9));
        assert_eq!(
            merged.on_exhausted.named(Dimension::Turns),
            Some(OnExhausted::FinalTurn)
        );
        assert_eq!(
            merged.on_exhausted.named(Dimension::Cost),
            Some(OnExhausted::Canned)
        );
        assert_eq!(merged.on_exhausted.default, Some(OnExhausted::Stop));

        let single = read(json!({"on_exhausted": "error"})).unwrap().over(&base);
        assert_eq!(single.on_exhausted, ByDimension::all(OnExhausted::Error));
    }
}
