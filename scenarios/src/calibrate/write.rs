//! The scenario file of a source, with comments that say where each number comes from.

use std::fmt::Write as _;

use super::caching::{Caching, Reads};
use super::fit::{Fit, empirical, rounded};
use super::kinds::MOST_KEPT;
use super::kinds::Usual;
use super::price::{FoundPrice, PriceSource};
use super::sample::{Law, Sample};
use super::{CONTINUE, FEW_RUNS, Observed, ToolSeen};
use crate::dist::{Dist, Quantity, Shape};
use crate::price::{ModelPrice, PriceTable};
use crate::read::{FileError, Loader, one_line};
use crate::scenario::Scenario;

/// A scenario fitted to the runs of a source.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The scenario as the strict reader takes it from `text`.
    pub scenario: Scenario,
    /// The file.
    pub text: String,
    /// How well each fitted distribution matches the record.
    pub rows: Vec<FitRow>,
    /// The price, where one was found.
    pub price: Option<FoundPrice>,
    /// What the user should know, one line each.
    pub warnings: Vec<String>,
}

/// A fitted distribution beside the record.
#[derive(Clone, Debug)]
pub struct FitRow {
    /// Which quantity of the scenario.
    pub quantity: String,
    /// The family, or `empirical`.
    pub kept: &'static str,
    /// Observations.
    pub number: u64,
    /// Kolmogorov-Smirnov distance.
    pub ks: f64,
    /// Wasserstein distance over the observed mean.
    pub moved: f64,
    /// Mean, 10th, 50th, 90th and 99th percentile, recorded and fitted.
    pub values: [(f64, f64); 5],
}

impl FitRow {
    fn new(quantity: &str, fit: &Fit, unit: f64) -> FitRow {
        let at = |u: f64| {
            let (data, fitted) = fit.at(u);
            (data / unit, fitted / unit)
        };
        const POINTS: u32 = 1000;
        let fitted_mean = (0..POINTS)
            .map(|at| {
                let u = (f64::from(at) + 0.5) / f64::from(POINTS);
                fit.quantity.quantile_count(u) as f64
            })
            .sum::<f64>()
            / f64::from(POINTS);
        FitRow {
            quantity: quantity.to_owned(),
            kept: fit.family(),
            number: fit.number,
            ks: fit.ks,
            moved: fit.moved,
            values: [
                (fit.law.mean() / unit, fitted_mean / unit),
                at(0.1),
                at(0.5),
                at(0.9),
                at(0.99),
            ],
        }
    }
}

/// Where the tokens of the scenario come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    Tokens,
    /// Costs without tokens: an output token stands for a millionth of a dollar.
    Costs,
    Nothing,
}

pub(super) fn calibrated(
    seen: Observed,
    label: &str,
    given: Option<&ModelPrice>,
    table: &PriceTable,
) -> Result<Calibrated, FileError> {
    if seen.runs == 0 || seen.tools.values().all(|tool| tool.fresh == 0) {
        let found = match seen.runs {
            0 => "no run with a turn".to_owned(),
            runs => format!("{runs} runs, none with anything before its answer"),
        };
        let expected = "at least one run with a tool call or a turn before its last";
        return Err(FileError::of_file(label, found, expected));
    }
    let usage = if !seen.output.is_empty() || !seen.base_input.is_empty() {
        Usage::Tokens
    } else if !seen.turn_cost.is_empty() || !seen.final_cost.is_empty() {
        Usage::Costs
    } else {
        Usage::Nothing
    };
    let model = seen.models.iter().max_by_key(|(_, runs)| **runs);
    let price = match usage {
        Usage::Tokens => seen
            .costed
            .price(given, model.map(|(name, _)| name.as_str()), table),
        Usage::Costs | Usage::Nothing => None,
    };
    let mut writer = Writer {
        seen: &seen,
        usage,
        price: price.as_ref(),
        rows: Vec::new(),
        warnings: Vec::new(),
    };
    let text = writer.file(label);
    let Writer { rows, warnings, .. } = writer;
    let scenario = Loader::with_prices(table.clone()).scenario_from_toml(label, &text)?;
    Ok(Calibrated {
        scenario,
        text,
        rows,
        price,
        warnings,
    })
}

struct Writer<'a> {
    seen: &'a Observed,
    usage: Usage,
    price: Option<&'a FoundPrice>,
    rows: Vec<FitRow>,
    warnings: Vec<String>,
}

/// Keys of a table: those on one line come before those that need a table of their own.
#[derive(Default)]
struct Keys {
    lines: String,
    tables: String,
}

impl Writer<'_> {
    fn file(&mut self, label: &str) -> String {
        let label = one_line(label);
        let mut model = self.model();
        model += &self.kinds();
        let mut tools = String::new();
        let seen: Vec<_> = self.seen.tools.iter().collect();
        for (name, tool) in seen {
            if tool.fresh > 0 {
                tools += &self.tool(name, tool);
            }
        }
        self.warn();
        let runs = self.seen.runs;
        format!(
            "{}schema = 1\nname = {}\nsummary = {}\nsource = {}\n\n{model}{tools}",
            self.head(&label),
            quoted(&label),
            quoted(&format!("Fitted to {runs} recorded runs of {label}.")),
            quoted(&format!("{runs} recorded runs")),
        )
    }

    fn head(&self, label: &str) -> String {
        let seen = self.seen;
        let mut head = format!(
            "# {label}, after {} recorded runs ({} model calls, {} tool calls).\n#\n",
            seen.runs, seen.turns, seen.calls
        );
        head += "\
# How: a family of distributions stands where it is near the record, the recorded values where none is.
# Beside each stands how well it fits: `ks`, the largest difference of the two distribution functions
# (0 to 1), and `moved`, how far a draw must be moved on average to match, in percent of the mean.
# Shares are counted. What was not recorded is not here: limits of the model (context_window,
# max_output_tokens), faults of the provider, costs of tools, and whether the model obeys controls,
# which is taken as always.
";
        if seen.tools.contains_key(CONTINUE) {
            head += "\
# A turn without a call that is not the last is a call of the tool `continue`, whose result, a word of
# the user, is no evidence.
";
        }
        let cut = seen.demand_cut.len();
        if cut > 0 {
            let _ = writeln!(
                head,
                "# {cut} runs ended without an answer: they are a kind of their own, which gives up unless it is\n\
                 # told to answer before."
            );
        }
        head
    }

    fn warn(&mut self) {
        let seen = self.seen;
        if seen.runs < FEW_RUNS {
            self.warnings.push(format!(
                "only {} runs: below {FEW_RUNS} a fit says little about rare runs",
                seen.runs
            ));
        }
        if seen.runs > MOST_KEPT as u64 {
            self.warnings.push(format!(
                "the kinds of runs are those of the first {MOST_KEPT} of {} runs; all else counts every run",
                seen.runs
            ));
        }
        if seen.turns_without_usage > 0 && self.usage == Usage::Tokens {
            self.warnings.push(format!(
                "{} of {} model calls carry no usage and count for nothing but their calls",
                seen.turns_without_usage, seen.turns
            ));
        }
        match (self.usage, self.price) {
            (Usage::Nothing, _) => self.warnings.push(
                "neither tokens nor costs are recorded: the scenario has calls only".to_owned(),
            ),
            (Usage::Tokens, None) => self.warnings.push(
                "no cost is recorded and no model of the price table: give --price for money"
                    .to_owned(),
            ),
            (Usage::Tokens, Some(found))
                if found.compared > 0 && found.reproduced * 10 < found.compared * 9 =>
            {
                self.warnings.push(format!(
                    "the price reproduces only {} of {} recorded costs",
                    found.reproduced, found.compared
                ));
            }
            _ => {}
        }
    }

    fn model(&mut self) -> String {
        let seen = self.seen;
        let mut keys = Keys::default();
        keys.lines += "[model]\n";
        self.tokens(&mut keys);
        let mut turns = seen.demand.clone();
        turns.merge(&seen.demand_cut);
        if seen.demand.is_empty() {
            keys.lines += "demand = \"endless\"  # no recorded run has an answer\n";
        } else {
            self.fit(&mut keys, "model", "demand.turns", &turns, 1.0);
        }
        self.fit(&mut keys, "model", "batch", &seen.batch, 1.0);
        self.fit(&mut keys, "model", "latency_s", &seen.latency_ms, 1000.0);
        let mut text = keys.lines + &keys.tables;
        if seen.repeats > 0 {
            let _ = write!(
                text,
                "\n[model.habits]\nrepeat_call = {}  # {} of {} calls\n",
                share(seen.repeats, seen.could_repeat),
                seen.repeats,
                seen.could_repeat
            );
            let same = rounded(seen.again.share());
            if same > 0.0 {
                let _ = writeln!(
                    text,
                    "repeat_same = {same}  # repeats of what was repeated last, beyond chance"
                );
            }
        }
        if seen.failed_requests > 0 {
            let all = seen.failed_requests + seen.turns;
            let _ = write!(
                text,
                "\n[model.faults]\ntransient = {}  # {} of {all} requests failed and were sent again\n",
                share(seen.failed_requests, all),
                seen.failed_requests
            );
        }
        text
    }

    fn kinds(&self) -> String {
        let seen = self.seen;
        let result = seen.grown_tokens as f64 / seen.grown_calls.max(1) as f64;
        let kinds = seen.wholes.kinds(&Usual {
            base: seen.base_input.mean(),
            results: result * seen.batch.mean(),
            caching: seen.cache.caching(),
        });
        let mut text = "
# Runs differ as wholes, not only call by call. Each run is of one of these kinds, drawn by weight (its
# recorded runs); what a kind does not say is as above, and a scale multiplies what is drawn there.
# That of results makes its runs read as much input as the recorded ones did.
"
        .to_owned();
        for (at, kind) in kinds.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            let _ = write!(
                text,
                "{gap}[[kinds]]\nname = {}\nweight = {}\n",
                quoted(&kind.name),
                kind.runs
            );
            let scales = match self.usage {
                Usage::Tokens => vec![
                    ("output_scale", kind.output_scale),
                    ("reasoning_scale", kind.reasoning_scale),
                    ("result_scale", kind.result_scale),
                    ("cache_hit", kind.cache_hit),
                ],
                Usage::Costs => vec![("output_scale", kind.cost_scale)],
                Usage::Nothing => Vec::new(),
            };
            for (key, value) in scales {
                if let Some(value) = value {
                    let _ = writeln!(text, "{key} = {}", rounded(value));
                }
            }
            if seen.repeats > 0 && seen.again.share() > 0.0 {
                let _ = writeln!(text, "repeat_call = {}", rounded(kind.repeat_call));
            }
            if kind.gives_up && !seen.demand.is_empty() {
                text += "gives_up = 1\n";
            }
            if !seen.demand.is_empty() {
                text += &turns(&kind.turns);
            }
        }
        text
    }

    fn tokens(&mut self, keys: &mut Keys) {
        let seen = self.seen;
        match self.usage {
            Usage::Nothing => {}
            Usage::Costs => {
                keys.lines += "\
# Costs are recorded without tokens: an output token stands for a millionth of a dollar.
price = { input_per_mtok = \"0\", output_per_mtok = \"1\" }
";
                self.fit(keys, "model", "output_tokens", &seen.turn_cost, 1.0);
                self.fit(keys, "model", "final_output_tokens", &seen.final_cost, 1.0);
            }
            Usage::Tokens => {
                if let Some(found) = self.price {
                    keys.lines += &price_line(found);
                }
                if let Some(caching) = seen.cache.caching() {
                    keys.lines += &cache_lines(&caching, &seen.cache.reads());
                }
                self.fit(keys, "model", "base_input_tokens", &seen.base_input, 1.0);
                self.fit(keys, "model", "output_tokens", &seen.output, 1.0);
                if seen.reasoning.mean() > 0.0 {
                    self.fit(keys, "model", "reasoning_tokens", &seen.reasoning, 1.0);
                }
                self.fit(
                    keys,
                    "model",
                    "final_output_tokens",
                    &seen.final_output,
                    1.0,
                );
            }
        }
    }

    fn tool(&mut self, name: &str, tool: &ToolSeen) -> String {
        let mut keys = Keys::default();
        let _ = write!(
            keys.lines,
            "\n[[tools]]\nname = {}\nweight = {}  # calls that repeat no earlier one\n",
            quoted(&one_line(name)),
            tool.fresh.min(1_000_000)
        );
        let place = format!("tools.{}", one_line(name));
        if self.usage == Usage::Tokens {
            self.fit(&mut keys, &place, "result_tokens", &tool.result_tokens, 1.0);
        }
        let calm = tool.fresh - tool.after_error;
        let calm_errors = tool.errors - tool.errors_after_error;
        if tool.errors > 0 {
            let base = if calm > 0 {
                share(calm_errors, calm)
            } else {
                share(tool.errors, tool.fresh)
            };
            let _ = writeln!(
                keys.lines,
                "error = {base}  # {} of {} calls failed in all",
                tool.errors, tool.fresh
            );
            if tool.after_error > 0 {
                let _ = writeln!(
                    keys.lines,
                    "error_after_error = {}  # {} of {}",
                    share(tool.errors_after_error, tool.after_error),
                    tool.errors_after_error,
                    tool.after_error
                );
            }
        }
        let successes = tool.fresh - tool.errors;
        if name == CONTINUE {
            keys.lines += "novelty = 0\n";
        } else if tool.new_results < successes {
            let _ = writeln!(
                keys.lines,
                "novelty = {}  # {} of {successes} successful results were new",
                share(tool.new_results, successes),
                tool.new_results
            );
        }
        self.fit(&mut keys, &place, "latency_s", &tool.latency_ms, 1000.0);
        keys.lines + &keys.tables
    }

    fn fit(&mut self, keys: &mut Keys, place: &str, key: &str, sample: &Sample, unit: f64) {
        if !sample.is_empty() {
            self.fit_law(keys, place, key, sample.law(), sample.len(), unit);
        }
    }

    /// Writes a quantity whose observations are in `unit`ths of what the file has.
    fn fit_law(
        &mut self,
        keys: &mut Keys,
        place: &str,
        key: &str,
        law: Law,
        number: u64,
        unit: f64,
    ) {
        let fit = Fit::of(law, number, unit);
        let name = place
            .strip_prefix("tools.")
            .map_or_else(|| key.to_owned(), |tool| format!("{tool}: {key}"));
        self.rows.push(FitRow::new(&name, &fit, unit));
        let how = format!(
            "n {number}, ks {:.3}, moved {:.1}%",
            fit.ks,
            100.0 * fit.moved
        );
        match &fit.quantity {
            Quantity::Fixed(value) => {
                let _ = writeln!(keys.lines, "{key} = {}  # n {number}", scaled(*value, unit));
            }
            Quantity::Drawn(dist) => match dist.shape() {
                Shape::Empirical { .. } | Shape::Mixture { .. } => {
                    let table = if place.starts_with("tools.") {
                        "tools"
                    } else {
                        place
                    };
                    let _ = write!(
                        keys.tables,
                        "\n[{table}.{key}]  # {how}\n{}",
                        spread(dist, unit)
                    );
                }
                _ => {
                    let _ = writeln!(keys.lines, "{key} = {{ {} }}  # {how}", inline(dist, unit));
                }
            },
        }
    }
}

/// The turns of a kind, as they were recorded.
fn turns(law: &Law) -> String {
    match empirical(law) {
        Quantity::Fixed(turns) => format!("demand.turns = {turns}\n"),
        Quantity::Drawn(dist) => format!("[kinds.demand.turns]\n{}", spread(&dist, 1.0)),
    }
}

fn cache_lines(caching: &Caching, reads: &Reads) -> String {
    let mut text = format!(
        "cache_hit = {}  # requests that read the one before them from the cache, by their size\n\
         cache_hit_share = {}  # of the earlier request's input that these read\n",
        rounded(caching.hit(reads).unwrap_or(0.0)),
        rounded(caching.hit_share)
    );
    if caching.prefix > 0 {
        let _ = writeln!(
            text,
            "cache_prefix_tokens = {}  # what first requests read, left there by other runs",
            caching.prefix
        );
    }
    if let Some(most) = caching.up_to {
        let _ = writeln!(
            text,
            "cache_up_to_tokens = {most}  # larger requests read nothing"
        );
    }
    text
}

fn price_line(found: &FoundPrice) -> String {
    let how = match found.compared {
        0 => "from the price table: no cost is recorded".to_owned(),
        compared => format!(
            "reproduces {} of {compared} recorded costs",
            found.reproduced
        ),
    };
    match &found.source {
        PriceSource::Table(name) => format!("price = {}  # {how}\n", quoted(name)),
        PriceSource::Record => {
            format!("# Fitted to the recorded costs: {how}.\n{}", rates(found))
        }
        PriceSource::Given(name) => {
            format!("# Given as {}: {how}.\n{}", one_line(name), rates(found))
        }
    }
}

fn rates(found: &FoundPrice) -> String {
    let json = found.price.to_json();
    let rates: Vec<String> = json
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, rate)| format!("{key} = {rate}"))
        .collect();
    format!("price = {{ {} }}\n", rates.join(", "))
}

/// A share of counts as a probability.
fn share(part: u64, of: u64) -> f64 {
    rounded(part as f64 / of.max(1) as f64).min(1.0)
}

fn scaled(value: f64, unit: f64) -> f64 {
    if unit == 1.0 {
        value
    } else {
        rounded(value / unit)
    }
}

/// A distribution with its clamps, on one line without braces.
fn inline(dist: &Dist, unit: f64) -> String {
    let number = |value: &f64| scaled(*value, unit);
    let mut text = match dist.shape() {
        Shape::Constant { value } => format!("dist = \"constant\", value = {}", number(value)),
        Shape::Uniform { low, high } => format!(
            "dist = \"uniform\", low = {}, high = {}",
            number(low),
            number(high)
        ),
        Shape::Lognormal { median, p95 } => format!(
            "dist = \"lognormal\", median = {}, p95 = {}",
            number(median),
            number(p95)
        ),
        Shape::Exponential { mean } => format!("dist = \"exponential\", mean = {}", number(mean)),
        Shape::Pareto { min, alpha } => {
            format!("dist = \"pareto\", min = {}, alpha = {alpha}", number(min))
        }
        Shape::Geometric { mean } => format!("dist = \"geometric\", mean = {mean}"),
        Shape::Poisson { mean } => format!("dist = \"poisson\", mean = {mean}"),
        Shape::Empirical { values, weights } => format!(
            "dist = \"empirical\", values = [{}]{}",
            list(values, unit),
            weights
                .as_ref()
                .map(|weights| format!(", weights = [{}]", list(weights, 1.0)))
                .unwrap_or_default()
        ),
        Shape::Mixture { .. } => String::new(),
    };
    let (min, max) = dist.clamps();
    if let Some(min) = min {
        let _ = write!(text, ", min = {}", number(&min));
    }
    if let Some(max) = max {
        let _ = write!(text, ", max = {}", number(&max));
    }
    text
}

/// A distribution as the lines of a table of its own.
fn spread(dist: &Dist, unit: f64) -> String {
    match dist.shape() {
        Shape::Mixture { parts } => {
            let mut text = "dist = \"mixture\"\nparts = [\n".to_owned();
            for (weight, part) in parts {
                let _ = writeln!(text, "  {{ weight = {weight}, {} }},", inline(part, unit));
            }
            text + "]\n"
        }
        Shape::Empirical { values, weights } => {
            let mut text = format!(
                "dist = \"empirical\"\nvalues = [{}]\n",
                wrapped(values, unit)
            );
            if let Some(weights) = weights {
                let _ = writeln!(text, "weights = [{}]", wrapped(weights, 1.0));
            }
            text
        }
        _ => inline(dist, unit).replace(", ", "\n") + "\n",
    }
}

fn list(values: &[f64], unit: f64) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|value| scaled(*value, unit).to_string())
        .collect();
    texts.join(", ")
}

/// As [`list`], over lines of at most 100 columns where one does not hold it.
fn wrapped(values: &[f64], unit: f64) -> String {
    const WIDTH: usize = 96;
    let one = list(values, unit);
    if one.len() < WIDTH - 12 {
        return one;
    }
    let mut text = String::from("\n");
    let mut line = String::from(" ");
    for item in one.split(", ") {
        if line.len() + item.len() + 2 > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from(" ");
        }
        let _ = write!(line, " {item},");
    }
    let _ = writeln!(text, "{line}");
    text
}

/// A TOML string of one line.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    serde_json::Value::from(plain).to_string()
}
