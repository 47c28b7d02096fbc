//! From a policy file's values to an engine's configuration.

use holdback_engine::protocol::{Micros, ToolId};
use holdback_engine::usage_limits::{PriceSource, Prices};
use holdback_engine::{Money, caps, run_limits, usage_limits};
use holdback_scenarios::Policy;
use holdback_scenarios::policy::{
    AnswerOverCap, CapsSettings, CrossingTurn, ExposureWait, RunLimitsSettings, Settings,
    UsageLimitsSettings,
};
use holdback_scenarios::price::Price;
use serde_json::{Map, Value};

use super::{CompiledPolicy, Configs, Engine, Facts, ToolNames};
use crate::luck::Chance;

/// Why a policy cannot be used with a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy `{policy}`: {field}: found {found}, expected {expected}")]
pub struct CompileError {
    /// The policy.
    pub policy: String,
    /// Path of the field.
    pub field: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

/// Where the money in the engine's ledger comes from, and what a workload costs beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ledger {
    /// The model's price; the clamp of `usage_limits` needs it.
    pub price: Option<Price>,
    /// The ledger is debited what the driver reports instead of tokens times price (replay).
    pub as_reported: bool,
    /// Overspend is measured against this where a policy has no money cap.
    pub budget: Option<Money>,
    /// Billed for each checkpoint written.
    pub checkpoint_cost: Money,
}

type Limits = Map<String, Value>;

/// Compiles a policy for a workload with these tools and this ledger.
///
/// # Errors
/// If the engine's own validation refuses the limits, which the strict readers should have done.
pub fn compile(
    policy: &Policy,
    names: &mut ToolNames,
    ledger: &Ledger,
) -> Result<CompiledPolicy, CompileError> {
    let compiler = Compiler { policy, ledger };
    compiler.check_price()?;
    let mut facts = Facts {
        family: Some(policy.family),
        money_cap: policy.money_cap().or(ledger.budget),
        ..Facts::default()
    };
    let engine = match &policy.settings {
        Settings::RunLimits(settings) => {
            facts.time_limit = settings.deadline;
            Engine::RunLimits(Box::new(
                compiler.both(|limits| compiler.run_limits(limits, settings))?,
            ))
        }
        Settings::UsageLimits(settings) => {
            facts.time_limit =
                whole(policy.limits.get("timeoutMs")).map(|ms| (ms.min(1 << 52) as Micros) * 1000);
            facts.output_cap = whole(policy.limits.get("maxOutputTokensPerTurn"));
            let of_reserve = policy
                .limits
                .get("finalizationReserve")
                .and_then(|reserve| whole(reserve.get("maxOutputTokens")));
            facts.closing_output_cap = facts.output_cap.into_iter().chain(of_reserve).min();
            facts.min_entries = settings.evidence.map(|evidence| evidence.min_entries);
            facts.terminal_tool = settings
                .terminal_tool
                .as_ref()
                .map(|tool| names.resolve(&tool.name).0);
            facts.typed = Chance::new(settings.schema.map_or(1.0, |schema| schema.valid.get()));
            facts.already_spent = settings
                .budget
                .and_then(|budget| Money::from_f64_rounded(budget.already_spent_usd))
                .unwrap_or(Money::ZERO);
            Engine::UsageLimits(Box::new(
                compiler.both(|limits| compiler.usage_limits(limits, settings, names))?,
            ))
        }
        Settings::Caps(settings) => {
            let configs = compiler.both(|limits| compiler.caps(limits, settings, names))?;
            let resolved = compiler.resolved_caps(&policy.limits, settings)?;
            facts.money_cap = resolved.max_cost_usd.value().or(ledger.budget);
            facts.time_limit = resolved.max_time_s.value().map(|seconds| seconds.0);
            Engine::Caps(Box::new(configs))
        }
    };
    Ok(CompiledPolicy {
        name: policy.name.clone(),
        family: policy.family,
        facts,
        engine,
        checkpoint_cost: ledger.checkpoint_cost,
    })
}

/// The limits object of a `caps` policy with what stands beside it; the preset is not filled in yet.
pub(super) fn caps_limits(
    limits: &Limits,
    settings: &CapsSettings,
) -> Result<caps::Limits, serde_json::Error> {
    let mut object = limits.clone();
    if let Some(preset) = &settings.preset {
        object.insert("preset".to_owned(), Value::String(preset.clone()));
    }
    if settings.count_tool_cost {
        object.insert("count_tool_cost".to_owned(), Value::Bool(true));
    }
    serde_json::from_value(Value::Object(object))
}

struct Compiler<'p> {
    policy: &'p Policy,
    ledger: &'p Ledger,
}

impl Compiler<'_> {
    /// The configuration from the start, and the one after the first restart if there is one.
    fn both<C>(
        &self,
        mut one: impl FnMut(&Limits) -> Result<C, CompileError>,
    ) -> Result<Configs<C>, CompileError> {
        Ok(Configs {
            first: one(&self.policy.limits)?,
            resumed: self
                .policy
                .resume_limits
                .as_ref()
                .map(&mut one)
                .transpose()?,
        })
    }

    /// A ledger that prices tokens needs a price where a cap on money is in force.
    fn check_price(&self) -> Result<(), CompileError> {
        match self.policy.money_cap() {
            Some(cap) if self.ledger.price.is_none() && !self.ledger.as_reported => {
                Err(CompileError {
                    policy: self.policy.name.clone(),
                    field: "money cap".to_owned(),
                    found: format!("{cap} USD and a model without any price"),
                    expected: "a `model.price` in the scenario, or no cap on money".to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    fn error(&self, field: &str, found: impl ToString, expected: impl ToString) -> CompileError {
        CompileError {
            policy: self.policy.name.clone(),
            field: format!("limits.{field}"),
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    fn run_limits(
        &self,
        limits: &Limits,
        settings: &RunLimitsSettings,
    ) -> Result<run_limits::Config, CompileError> {
        let limits = self.typed_run_limits(limits)?;
        let rules = &settings.rules;
        let rules = run_limits::Rules {
            attempts: settings.attempts,
            identical_calls: settings.identical_calls,
            identical_denials: settings.identical_denials,
            crossing_turn: match rules.crossing_turn {
                CrossingTurn::Fail => run_limits::CrossingTurn::Fail,
                CrossingTurn::RefuseThenSynthesize => {
                    run_limits::CrossingTurn::RefuseThenSynthesize
                }
                CrossingTurn::RunThenSynthesize => run_limits::CrossingTurn::RunThenSynthesize,
            },
            answer_over_cap: match rules.answer_over_cap {
                AnswerOverCap::Discard => run_limits::AnswerOverCap::Discard,
                AnswerOverCap::Keep => run_limits::AnswerOverCap::Keep,
            },
            reserve_tool_allowance: rules.reserve_tool_allowance,
            reserve_fraction: run_limits::Fraction::parse(&rules.reserve_fraction.to_string())
                .map_err(|error| {
                    self.error("rules.reserve_fraction", rules.reserve_fraction, error)
                })?,
            count_tool_cost: rules.count_tool_cost,
        };
        Ok(run_limits::Config::new(&limits, &rules, settings.deadline))
    }

    fn typed_run_limits(&self, limits: &Limits) -> Result<run_limits::Limits, CompileError> {
        let defaults = run_limits::Limits::default();
        let count = |key: &str, default: i64| match limits.get(key) {
            None => default,
            Some(Value::Null) => run_limits::UNLIMITED,
            Some(value) => value.as_i64().unwrap_or(run_limits::UNLIMITED),
        };
        let optional = |key: &str| limits.get(key).and_then(Value::as_i64);
        Ok(run_limits::Limits {
            max_steps: count("max_steps", defaults.max_steps),
            max_model_calls: count("max_model_calls", defaults.max_model_calls),
            max_tool_calls: count("max_tool_calls", defaults.max_tool_calls),
            max_input_tokens: optional("max_input_tokens"),
            max_output_tokens: optional("max_output_tokens"),
            max_cost: self.money(limits, "max_cost")?,
            synthesis_reserve_steps: optional("synthesis_reserve_steps").unwrap_or(0),
            synthesis_reserve_model_calls: optional("synthesis_reserve_model_calls").unwrap_or(0),
            synthesis_reserve_tool_calls: optional("synthesis_reserve_tool_calls").unwrap_or(0),
            synthesis_reserve_cost: self
                .money(limits, "synthesis_reserve_cost")?
                .unwrap_or(Money::ZERO),
        })
    }

    fn money(&self, limits: &Limits, key: &str) -> Result<Option<Money>, CompileError> {
        match limits.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Money::parse_exact(text)
                .map(Some)
                .map_err(|error| self.error(key, text, error)),
            Some(other) => Err(self.error(key, other, "a decimal")),
        }
    }

    fn usage_limits(
        &self,
        limits: &Limits,
        settings: &UsageLimitsSettings,
        names: &mut ToolNames,
    ) -> Result<usage_limits::Config, CompileError> {
        // What is unlimited is absent in this family.
        let present: Limits = limits
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let typed = usage_limits::UsageLimits::from_json(&Value::Object(present))
            .map_err(|invalid| self.error("", format!("{invalid:?}"), "valid UsageLimits"))?;
        let mut compiled = usage_limits::Settings::new(typed);
        let prices = self.ledger.price.map_or(PriceSource::AsReported, |price| {
            PriceSource::Priced(doubles(&price))
        });
        compiled.budget = Some(usage_limits::limits::Budget {
            ceiling_usd: settings.budget.and_then(|budget| budget.ceiling_usd),
            already_spent_usd: settings
                .budget
                .map_or(0.0, |budget| budget.already_spent_usd),
            prices,
            exposure: settings.budget.and_then(|budget| {
                budget
                    .exposure_cap_usd
                    .map(|cap_usd| usage_limits::limits::Exposure {
                        cap_usd,
                        wait: match budget.exposure_wait {
                            ExposureWait::Child => usage_limits::limits::ExposureWait::Child,
                            ExposureWait::Yes => usage_limits::limits::ExposureWait::Others,
                            ExposureWait::No => usage_limits::limits::ExposureWait::Never,
                        },
                    })
            }),
        });
        compiled.evidence =
            settings
                .evidence
                .map(|evidence| usage_limits::limits::EvidenceContract {
                    min_entries: evidence.min_entries,
                    refuse: evidence.refuse,
                });
        compiled.terminal_tool =
            settings
                .terminal_tool
                .as_ref()
                .map(|tool| usage_limits::limits::TerminalTool {
                    repair_turn_reserve: u64::from(tool.repair_turn_reserve),
                });
        compiled.schema = settings
            .schema
            .map(|schema| usage_limits::limits::SchemaRun {
                retry_attempts: schema.retry_attempts.map_or(2, u64::from),
            });
        if let Some(attempts) = settings.retry_attempts {
            compiled.attempts = attempts;
        }
        if let Some(min) = settings.model_caps.min_output_tokens_per_turn {
            compiled.model.min_output_tokens = min;
        }
        if let Some(max) = settings.model_caps.max_output_tokens {
            compiled.model.max_output_tokens = max;
        }
        let offered = names.offered(
            settings
                .terminal_tool
                .as_ref()
                .map(|tool| tool.name.as_str()),
        );
        Ok(usage_limits::Config::compile(&compiled, &offered, |name| {
            names.resolve(name).0
        }))
    }

    fn resolved_caps(
        &self,
        limits: &Limits,
        settings: &CapsSettings,
    ) -> Result<caps::Limits, CompileError> {
        caps_limits(limits, settings)
            .map_err(|error| self.error("", error, "valid caps"))?
            .resolved()
            .map_err(|invalid| self.first(&invalid))
    }

    fn caps(
        &self,
        limits: &Limits,
        settings: &CapsSettings,
        names: &mut ToolNames,
    ) -> Result<caps::Config, CompileError> {
        let resolved = self.resolved_caps(limits, settings)?;
        let known = |name: &str| -> Option<ToolId> { Some(names.resolve(name).0) };
        resolved
            .compile(known)
            .map_err(|invalid| self.first(&invalid))
    }

    fn first(&self, invalid: &[caps::InvalidLimits]) -> CompileError {
        match invalid.first() {
            Some(one) => self.error(&one.field, &one.value, &one.expected),
            None => self.error("", "invalid caps", "valid caps"),
        }
    }
}

fn whole(value: Option<&Value>) -> Option<u64> {
    value.and_then(Value::as_u64)
}

/// The limits of a `run_limits` policy as its engine compares them.
pub(crate) fn run_limits_of(
    policy: &Policy,
    ledger: &Ledger,
) -> Result<run_limits::Limits, CompileError> {
    Compiler { policy, ledger }.typed_run_limits(&policy.limits)
}

/// Rates per million tokens as the doubles that `usage_limits` computes with.
pub(crate) fn doubles(price: &Price) -> Prices {
    let per_mtok = |rate: Money| rate.times(1_000_000).to_f64();
    Prices {
        input_per_mtok: per_mtok(price.input),
        output_per_mtok: per_mtok(price.output),
        cache_read_per_mtok: Some(per_mtok(price.cached_input)),
        cache_write_per_mtok: Some(per_mtok(price.cache_write)),
    }
}
