//! Scenario files.

use holdback_engine::Money;
use holdback_engine::protocol::Micros;
use serde_json::{Value, json};

use super::error::FileError;
use super::fields::{Field, Table};
use super::quantity::quantity;
use super::script;
use super::tree::Node;
use crate::dist::Quantity;
use crate::price::{LongContext, Price, PriceTable};
use crate::scenario::{
    Compliance, Demand, Faults, Habits, Kills, Kind, Model, Probability, Reporting, Scenario,
    Spike, Tool, TransportReported,
};

/// The version of the format.
const SCHEMA: i64 = 1;
/// The most tokens of any one thing.
pub(crate) const MAX_TOKENS: f64 = 1e8;
/// The longest wait or latency, in seconds (about 115 days).
pub(crate) const MAX_SECONDS: f64 = 1e7;
/// The most results that a task can need, and the most calls of a batch.
const MAX_DEMAND: f64 = 1e6;
const MAX_BATCH: f64 = 10_000.0;
/// The largest factor.
const MAX_FACTOR: f64 = 1e6;
/// The most tools.
const MAX_TOOLS: usize = 1000;
/// The most kinds of runs.
const MAX_KINDS: usize = 1000;
/// The most exact kill positions, and the highest.
const MAX_KILLS: usize = 10_000;
const MAX_ORDINAL: u32 = 1_000_000_000;
/// The built-in tool that records evidence.
pub(crate) const RECORD_EVIDENCE: &str = "record_evidence";

/// Reads a scenario from its document.
pub(crate) fn scenario(
    file: &str,
    root: &Node,
    prices: &PriceTable,
) -> Result<Scenario, FileError> {
    let root = Field::root(file, root);
    let mut table = root.table()?;
    table.or("schema", SCHEMA, |field| field.integer(SCHEMA, SCHEMA))?;
    let name = table
        .require("name", "the scenario's name")?
        .name()?
        .to_owned();
    let summary = table.maybe("summary", |field| field.text().map(str::to_owned))?;
    let source = table.maybe("source", |field| field.text().map(str::to_owned))?;
    let budget = table.maybe("budget_usd", positive_money)?;
    let tools = table.or("tools", Vec::new(), tools)?;
    let script = script::script(&mut table)?;
    let model_field = table.take("model");
    let kills = table.or("kills", Kills::default(), kills)?;
    let checkpoint_cost = table.or("storage", Money::ZERO, storage)?;
    let scripted = script.is_some();
    let model = match &model_field {
        Some(field) => model(field.table()?, scripted, prices)?,
        None if scripted => scripted_model(),
        None => {
            let field = table.require("model", "a table [model]")?;
            model(field.table()?, scripted, prices)?
        }
    };
    let kinds = match table.take("kinds") {
        Some(field) if scripted => {
            return Err(field.error("kinds of runs beside a script", "one of the two"));
        }
        Some(field) => kinds(&field, &model)?,
        None => Vec::new(),
    };
    table.finish()?;
    if tools.is_empty() && !scripted {
        return Err(root.error("no [[tools]]", "at least one tool, or a script"));
    }
    if let Some(script) = &script {
        script::check_prices(&root, script, model.price.as_ref())?;
    }
    let document = document(root.node, &model);
    Ok(Scenario {
        name,
        summary: summary.unwrap_or_default(),
        source,
        budget,
        model,
        kinds,
        tools,
        checkpoint_cost,
        kills,
        script,
        document,
    })
}

/// The document with the price that a name stood for written out.
fn document(root: &Node, model: &Model) -> Value {
    let mut document = root.to_value();
    let Some(table) = document.get_mut("model") else {
        return document;
    };
    let named = table.get("price").is_some_and(Value::is_string);
    if let (true, Some(price)) = (named, &model.price) {
        table["price"] = price.to_json();
        if let (Some(long), true) = (&model.long_context, table.get("long_context").is_none()) {
            table["long_context"] = json!({
                "above_tokens": long.above_tokens,
                "price": long.price.to_json(),
            });
        }
    }
    document
}

fn positive_money(field: &Field<'_>) -> Result<Money, FileError> {
    let amount = field.money()?;
    if amount == Money::ZERO {
        return Err(field.wrong("an amount above 0"));
    }
    Ok(amount)
}

fn tokens(field: &Field<'_>) -> Result<Quantity, FileError> {
    quantity(field, MAX_TOKENS)
}

fn seconds(field: &Field<'_>) -> Result<Quantity, FileError> {
    quantity(field, MAX_SECONDS)
}

fn factor(field: &Field<'_>) -> Result<Quantity, FileError> {
    quantity(field, MAX_FACTOR)
}

fn probability(field: &Field<'_>) -> Result<Probability, FileError> {
    field.probability()
}

fn whole_tokens(field: &Field<'_>) -> Result<u64, FileError> {
    field.count(1, MAX_TOKENS as u64)
}

fn duration(field: &Field<'_>) -> Result<Micros, FileError> {
    field.seconds(MAX_SECONDS)
}

/// The model of a script that has no `[model]`.
fn scripted_model() -> Model {
    Model {
        price: None,
        long_context: None,
        context_window: None,
        clamp_to_window: false,
        max_output_tokens: None,
        base_input_tokens: Quantity::ZERO,
        cache_hit: None,
        cache_hit_share: Probability::ALWAYS,
        cache_prefix: 0,
        cache_up_to: None,
        cache_ttl: None,
        cache_hit_under_control: None,
        output_tokens: Quantity::ZERO,
        reasoning_tokens: Quantity::ZERO,
        final_output_tokens: Quantity::ZERO,
        latency_s: Quantity::ZERO,
        demand: Demand::Endless,
        batch: Quantity::ONE,
        estimate_error: Quantity::ONE,
        compliance: Compliance::default(),
        habits: Habits::default(),
        faults: Faults::default(),
        reporting: Reporting::default(),
        spike: Spike::default(),
    }
}

fn model(mut table: Table<'_>, scripted: bool, prices: &PriceTable) -> Result<Model, FileError> {
    let off = scripted_model();
    let (price, named_long) = match table.take("price") {
        Some(field) => {
            let (price, long) = price_or_name(&field, prices)?;
            (Some(price), long)
        }
        None => (None, None),
    };
    let long_context = match table.take("long_context") {
        Some(field) => Some(long_context(&field, price.as_ref())?),
        None => named_long,
    };
    let demand = match table.take("demand") {
        Some(field) => demand(&field)?,
        None if scripted => Demand::Endless,
        None => demand(&table.require("demand", "the results the task needs, or \"endless\"")?)?,
    };
    let cache_hit = table.maybe("cache_hit", probability)?;
    let under_control = table.maybe("cache_hit_under_control", probability)?;
    let hit_share = table.maybe("cache_hit_share", probability)?;
    let prefix = table.maybe("cache_prefix_tokens", whole_tokens)?;
    let model = Model {
        price,
        long_context,
        context_window: table.maybe("context_window", whole_tokens)?,
        clamp_to_window: table.or("clamp_to_window", false, Field::bool)?,
        max_output_tokens: table.maybe("max_output_tokens", whole_tokens)?,
        base_input_tokens: table.or("base_input_tokens", off.base_input_tokens, tokens)?,
        cache_hit,
        cache_hit_share: hit_share.unwrap_or(off.cache_hit_share),
        cache_prefix: prefix.unwrap_or(off.cache_prefix),
        cache_up_to: table.maybe("cache_up_to_tokens", whole_tokens)?,
        cache_ttl: table.maybe("cache_ttl_s", duration)?,
        cache_hit_under_control: under_control.or(cache_hit),
        output_tokens: table.or("output_tokens", off.output_tokens, tokens)?,
        reasoning_tokens: table.or("reasoning_tokens", off.reasoning_tokens, tokens)?,
        final_output_tokens: table.or("final_output_tokens", off.final_output_tokens, tokens)?,
        latency_s: table.or("latency_s", off.latency_s, seconds)?,
        demand,
        batch: table.or("batch", off.batch, |field| quantity(field, MAX_BATCH))?,
        estimate_error: table.or("estimate_error", off.estimate_error, factor)?,
        compliance: table.or("compliance", off.compliance, compliance)?,
        habits: table.or("habits", off.habits, habits)?,
        faults: table.or("faults", off.faults, faults)?,
        reporting: table.or("reporting", off.reporting, reporting)?,
        spike: table.or("spike", off.spike, spike)?,
    };
    let window_alone = model.clamp_to_window && model.context_window.is_none();
    let of_cache = under_control.is_some()
        || hit_share.is_some()
        || prefix.is_some()
        || model.cache_up_to.is_some()
        || model.cache_ttl.is_some();
    let cache_alone = cache_hit.is_none() && of_cache;
    let place = table.place().clone();
    table.finish()?;
    if cache_alone {
        let needs = "a `cache_hit` beside it (0 = every request misses)";
        return Err(place.error("another key of the cache without `cache_hit`", needs));
    }
    if window_alone {
        let needs = "a `context_window` beside it";
        return Err(place.error("`clamp_to_window` without a window", needs));
    }
    Ok(model)
}

fn demand(field: &Field<'_>) -> Result<Demand, FileError> {
    if field.text().is_ok_and(|text| text.parse::<f64>().is_err()) {
        return field.word(&[("endless", ())]).map(|()| Demand::Endless);
    }
    if field.node.get("turns").is_some() {
        let mut table = field.table()?;
        let turns = table.require("turns", "the planning turns the task takes")?;
        let turns = quantity(&turns, MAX_DEMAND)?;
        table.finish()?;
        return Ok(Demand::Turns(turns));
    }
    quantity(field, MAX_DEMAND).map(Demand::Results)
}

/// A price a million tokens, as an exact amount a token.
fn rate(field: &Field<'_>) -> Result<Money, FileError> {
    const TOKENS: i128 = 1_000_000;
    let per_mtok = field.money()?;
    if per_mtok.picos() % TOKENS != 0 {
        return Err(field.wrong("at most 6 decimals, so that the price of a token is exact"));
    }
    Ok(Money::from_picos(per_mtok.picos() / TOKENS))
}

/// A table of rates; where one is not given, the input rate stands in.
pub(crate) fn price(field: &Field<'_>) -> Result<Price, FileError> {
    let mut table = field.table()?;
    let price = rates(&mut table)?;
    table.finish()?;
    Ok(price)
}

/// The four rates out of a table that may hold more.
pub(crate) fn rates(table: &mut Table<'_>) -> Result<Price, FileError> {
    let input = rate(&table.require("input_per_mtok", "the price of a million input tokens")?)?;
    Ok(Price {
        input,
        cached_input: table.or("cached_input_per_mtok", input, rate)?,
        cache_write: table.or("cache_write_per_mtok", input, rate)?,
        output: table.or("output_per_mtok", input, rate)?,
    })
}

fn price_or_name(
    field: &Field<'_>,
    prices: &PriceTable,
) -> Result<(Price, Option<LongContext>), FileError> {
    if field.table().is_ok() {
        return Ok((price(field)?, None));
    }
    let name = field
        .text()
        .map_err(|_| field.wrong("a table of prices or the name of a model"))?;
    match prices.get(name) {
        Some(entry) => Ok((entry.price, entry.long_context)),
        None => Err(field
            .wrong("the name of a model in the price table")
            .nearest(name, prices.names())),
    }
}

/// Multipliers of the price, or, in a written-out document, the multiplied rates themselves.
pub(crate) fn long_context(
    field: &Field<'_>,
    base: Option<&Price>,
) -> Result<LongContext, FileError> {
    let mut table = field.table()?;
    let above = table.require(
        "above_tokens",
        "the number of input tokens above which it holds",
    )?;
    let above_tokens = above.count(1, MAX_TOKENS as u64)?;
    let price = match table.take("price") {
        Some(rates) => price(&rates)?,
        None => {
            let base = base.ok_or_else(|| {
                field.error("a `long_context` without a price", "a `price` to multiply")
            })?;
            let input = table.take("input_multiplier");
            let output = table.take("output_multiplier");
            let times = |rate: Money, by: &Option<Field<'_>>| multiplied(rate, by.as_ref());
            Price {
                input: times(base.input, &input)?,
                cached_input: times(base.cached_input, &input)?,
                cache_write: times(base.cache_write, &input)?,
                output: times(base.output, &output)?,
            }
        }
    };
    table.finish()?;
    Ok(LongContext {
        above_tokens,
        price,
    })
}

/// A rate times a decimal multiplier, exact.
fn multiplied(rate: Money, by: Option<&Field<'_>>) -> Result<Money, FileError> {
    let Some(field) = by else {
        return Ok(rate);
    };
    // A multiplier is a decimal as an amount is, so it is read as one.
    let unit = Money::from_dollars(1).picos();
    let factor = field.money().map_err(|error| FileError {
        expected: "a decimal factor from 0 to 1000".into(),
        ..error
    })?;
    if factor > Money::from_dollars(1000) {
        return Err(field.wrong("a decimal factor from 0 to 1000"));
    }
    let product = rate.picos() * factor.picos();
    if product % unit != 0 {
        return Err(field.wrong("a factor that leaves the price of a token exact to 1e-12 USD"));
    }
    Ok(Money::from_picos(product / unit))
}

fn compliance(field: &Field<'_>) -> Result<Compliance, FileError> {
    let mut table = field.table()?;
    let always = Probability::ALWAYS;
    let compliance = Compliance {
        synthesis_only: table.or("synthesis_only", always, probability)?,
        tools_withheld: table.or("tools_withheld", always, probability)?,
        budget_notice: table.or("budget_notice", always, probability)?,
        window: table.or("window", always, probability)?,
    };
    table.finish()?;
    Ok(compliance)
}

fn habits(field: &Field<'_>) -> Result<Habits, FileError> {
    let mut table = field.table()?;
    let never = Probability::NEVER;
    let habits = Habits {
        repeat_call: table.or("repeat_call", never, probability)?,
        repeat_same: table.or("repeat_same", never, probability)?,
        gives_up: table.or("gives_up", never, probability)?,
        record_evidence: table.or(RECORD_EVIDENCE, never, probability)?,
    };
    table.finish()?;
    Ok(habits)
}

fn kinds(field: &Field<'_>, model: &Model) -> Result<Vec<Kind>, FileError> {
    let mut kinds: Vec<Kind> = Vec::new();
    for field in field.list(MAX_KINDS)? {
        let kind = kind(&field, model)?;
        if kinds.iter().any(|other| other.name == kind.name) {
            let found = format!("a second kind `{}`", kind.name);
            return Err(field.error(found, "kinds of different names"));
        }
        kinds.push(kind);
    }
    if !kinds.is_empty() && kinds.iter().all(|kind| kind.weight == 0.0) {
        return Err(field.error("only kinds of weight 0", "at least one weight above 0"));
    }
    Ok(kinds)
}

fn kind(field: &Field<'_>, model: &Model) -> Result<Kind, FileError> {
    let mut table = field.table()?;
    let scale = |field: &Field<'_>| field.number(0.0, MAX_FACTOR);
    let name = table.require("name", "the kind's name")?;
    let cache_hit = match table.take("cache_hit") {
        Some(field) if model.cache_hit.is_none() => {
            let needs = "a `cache_hit` of the model too (0 = every request misses)";
            return Err(field.error("`cache_hit` of a kind alone", needs));
        }
        given => given.map(|field| probability(&field)).transpose()?,
    };
    let kind = Kind {
        name: name.name()?.to_owned(),
        weight: table.or("weight", 1.0, scale)?,
        demand: table.maybe("demand", demand)?,
        output_scale: table.or("output_scale", 1.0, scale)?,
        reasoning_scale: table.or("reasoning_scale", 1.0, scale)?,
        result_scale: table.or("result_scale", 1.0, scale)?,
        cache_hit,
        repeat_call: table.maybe("repeat_call", probability)?,
        gives_up: table.maybe("gives_up", probability)?,
    };
    table.finish()?;
    Ok(kind)
}

fn faults(field: &Field<'_>) -> Result<Faults, FileError> {
    let mut table = field.table()?;
    let never = Probability::NEVER;
    let off = Faults::default();
    let faults = Faults {
        transient: table.or("transient", never, probability)?,
        transient_after_output: table.or("transient_after_output", never, probability)?,
        permanent: table.or("permanent", never, probability)?,
        protocol: table.or("protocol", never, probability)?,
        empty: table.or("empty", never, probability)?,
        stall: table.or("stall", never, probability)?,
        rate_limit: table.or("rate_limit", never, probability)?,
        billed: table.or("billed", never, probability)?,
        storm: table.or("storm", off.storm, |field| quantity(field, MAX_FACTOR))?,
        retry_after_s: table.maybe("retry_after_s", seconds)?,
        transport_retries: table.or("transport_retries", 0, |field| field.small(0, 100))?,
        transport_reported: table.or("transport_reported", off.transport_reported, |field| {
            field.word(&[
                ("last", TransportReported::Last),
                ("all", TransportReported::All),
            ])
        })?,
    };
    table.finish()?;
    let sum: f64 = faults.chances().iter().map(|chance| chance.get()).sum();
    if sum > 1.0 + 1e-9 {
        let found = format!("chances that sum to {sum}");
        return Err(field.error(found, "fault chances that sum to at most 1"));
    }
    Ok(faults)
}

fn reporting(field: &Field<'_>) -> Result<Reporting, FileError> {
    let mut table = field.table()?;
    let reporting = Reporting {
        missing: table.or("missing", Probability::NEVER, probability)?,
        factor: table.or("factor", 1.0, |field| field.number(0.0, MAX_FACTOR))?,
    };
    table.finish()?;
    Ok(reporting)
}

fn spike(field: &Field<'_>) -> Result<Spike, FileError> {
    let mut table = field.table()?;
    let spike = Spike {
        probability: table.or("probability", Probability::NEVER, probability)?,
        output_multiplier: table.or("output_multiplier", Quantity::ONE, factor)?,
    };
    table.finish()?;
    Ok(spike)
}

fn storage(field: &Field<'_>) -> Result<Money, FileError> {
    let mut table = field.table()?;
    let cost = table.or("checkpoint_usd", Money::ZERO, Field::money)?;
    table.finish()?;
    Ok(cost)
}

fn tools(field: &Field<'_>) -> Result<Vec<Tool>, FileError> {
    let mut tools: Vec<Tool> = Vec::new();
    for field in field.list(MAX_TOOLS)? {
        let tool = tool(&field)?;
        if tools.iter().any(|other| other.name == tool.name) {
            let found = format!("a second tool `{}`", tool.name);
            return Err(field.error(found, "tools of different names"));
        }
        tools.push(tool);
    }
    if !tools.is_empty() && tools.iter().all(|tool| tool.weight == 0.0) {
        return Err(field.error("only tools of weight 0", "at least one weight above 0"));
    }
    Ok(tools)
}

fn tool(field: &Field<'_>) -> Result<Tool, FileError> {
    let mut table = field.table()?;
    let name = table.require("name", "the tool's name")?;
    if name.name()? == RECORD_EVIDENCE {
        let expected = "another name: `record_evidence` is built in (habits.record_evidence)";
        return Err(name.wrong(expected));
    }
    let error = table.or("error", Probability::NEVER, probability)?;
    let tool = Tool {
        name: name.name()?.to_owned(),
        weight: table.or("weight", 1.0, |field| field.number(0.0, MAX_FACTOR))?,
        cost: table.or("cost_usd", Money::ZERO, Field::money)?,
        result_tokens: table.or("result_tokens", Quantity::ZERO, tokens)?,
        error,
        error_after_error: table.or("error_after_error", error, probability)?,
        denied: table.or("denied", Probability::NEVER, probability)?,
        novelty: table.or("novelty", Probability::ALWAYS, probability)?,
        latency_s: table.or("latency_s", Quantity::ZERO, seconds)?,
        parallel: table.or("parallel", false, Field::bool)?,
    };
    table.finish()?;
    Ok(tool)
}

fn kills(field: &Field<'_>) -> Result<Kills, FileError> {
    let mut table = field.table()?;
    let off = Kills::default();
    let kills = Kills {
        per_model_call: table.or("per_model_call", Probability::NEVER, probability)?,
        per_tool_call: table.or("per_tool_call", Probability::NEVER, probability)?,
        after_tool_calls: table.or("after_tool_calls", Vec::new(), ordinals)?,
        after_model_calls: table.or("after_model_calls", Vec::new(), ordinals)?,
        max: table.maybe("max", |field| field.small(0, MAX_FACTOR as u32))?,
        downtime_s: table.or("downtime_s", off.downtime_s, seconds)?,
        journal_tail_loss: table.or("journal_tail_loss", Probability::NEVER, probability)?,
    };
    table.finish()?;
    Ok(kills)
}

/// Positions from 1, ascending and each once.
fn ordinals(field: &Field<'_>) -> Result<Vec<u32>, FileError> {
    let mut ordinals: Vec<u32> = Vec::new();
    for field in field.list(MAX_KILLS)? {
        let ordinal = field.small(1, MAX_ORDINAL)?;
        if ordinals.last().is_some_and(|last| *last >= ordinal) {
            return Err(field.wrong("positions in ascending order, each once"));
        }
        ordinals.push(ordinal);
    }
    Ok(ordinals)
}
