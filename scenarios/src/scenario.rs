//! A scenario: one workload, that is a model with its provider, tools, faults and kills.
//!
//! What is not given is off: probabilities, prices and sizes are 0, weights and factors 1.

use holdback_engine::Money;
use holdback_engine::protocol::Micros;

use crate::dist::Quantity;
use crate::price::{LongContext, Price};
use crate::script::Script;

/// A probability: a finite number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0.0);
    /// Always.
    pub const ALWAYS: Probability = Probability(1.0);

    /// `None` unless the number lies from 0 to 1.
    pub fn new(p: f64) -> Option<Probability> {
        (0.0..=1.0).contains(&p).then_some(Probability(p))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// True if the uniform `u` in [0, 1) says yes: never at 0, always at 1.
    pub fn holds(self, u: f64) -> bool {
        u < self.0
    }
}

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name in tables and on the command line.
    pub name: String,
    /// One or two sentences for people.
    pub summary: String,
    /// Where its numbers come from.
    pub source: Option<String>,
    /// The operator's intent: overspend is measured against it where a policy has no money cap.
    pub budget: Option<Money>,
    /// The model and its provider.
    pub model: Model,
    /// Kinds of runs, one of which is drawn for each run; without any all runs are as the model says.
    pub kinds: Vec<Kind>,
    /// The tools that the run offers. Empty only in scripts, where every name is then known.
    pub tools: Vec<Tool>,
    /// Billed for each checkpoint written.
    pub checkpoint_cost: Money,
    /// Deaths of the process.
    pub kills: Kills,
    /// Fixed behaviour instead of the drawn one.
    pub script: Option<Script>,
    /// The scenario as one JSON document, prices resolved: what `summary.json` embeds and what
    /// [`crate::read::scenario_from_json`] reads back.
    pub document: serde_json::Value,
}

impl Scenario {
    /// The position of a tool by its name.
    pub fn tool_index(&self, name: &str) -> Option<usize> {
        self.tools.iter().position(|tool| tool.name == name)
    }
}

/// The model and its provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What tokens cost. `None` is an error where a money cap is in force and the script gives no
    /// cost.
    pub price: Option<Price>,
    /// Higher rates for long requests.
    pub long_context: Option<LongContext>,
    /// A request with more input tokens than this fails; `None` = unbounded.
    pub context_window: Option<u64>,
    /// The output cap on the wire is also at most window - input.
    pub clamp_to_window: bool,
    /// The model's own cap on the output tokens of a call; `None` = none.
    pub max_output_tokens: Option<u64>,
    /// System prompt and task, tokens; drawn once a run.
    pub base_input_tokens: Quantity,
    /// Chance that the previous request's input is billed at the cached price and the growth at the
    /// cache-write price; a miss is billed at the cache-write price as a whole. `None` = nothing is
    /// cached, all input is billed at the input price.
    pub cache_hit: Option<Probability>,
    /// Share of the previous request's input that a hit reads from the cache; the rest is written anew.
    pub cache_hit_share: Probability,
    /// The start of every request that other runs share and keep in the cache (instructions, tools), in
    /// tokens: the first request of a run and every miss still read it.
    pub cache_prefix: u64,
    /// A request with more input tokens than this reads nothing from the cache; `None` = no such bound.
    pub cache_up_to: Option<u64>,
    /// A pause longer than this since the previous request is always a miss; `None` = never.
    pub cache_ttl: Option<Micros>,
    /// As `cache_hit`, for a request that carries a control or withholds tools; the same unless given.
    pub cache_hit_under_control: Option<Probability>,
    /// Visible output tokens of a planning turn.
    pub output_tokens: Quantity,
    /// Reasoning tokens of any turn: billed as output, not added to the context.
    pub reasoning_tokens: Quantity,
    /// Visible output tokens of the final answer; drawn once a run.
    pub final_output_tokens: Quantity,
    /// Seconds that a request takes.
    pub latency_s: Quantity,
    /// Successful, novel tool results that the task needs; drawn once a run.
    pub demand: Demand,
    /// Tool calls proposed in a planning turn; at least 1.
    pub batch: Quantity,
    /// The prompt estimate of `usage_limits` is the exact input times this.
    pub estimate_error: Quantity,
    /// Obedience to controls.
    pub compliance: Compliance,
    /// Habits of the model.
    pub habits: Habits,
    /// Faults of the provider.
    pub faults: Faults,
    /// What the engine is told about usage.
    pub reporting: Reporting,
    /// Cost spikes.
    pub spike: Spike,
}

/// When the model has enough.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// Never.
    Endless,
    /// With as many successful, novel results as drawn.
    Results(Quantity),
    /// After as many planning turns as drawn, whatever they bring: what a record of a run tells.
    Turns(Quantity),
}

/// A kind of run: in what its runs as wholes differ from others, beyond the luck of each call. What is
/// `None` is as the model says; scales are finite and not negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Name, for people.
    pub name: String,
    /// Relative chance of being drawn; finite, not negative.
    pub weight: f64,
    /// When the model has enough.
    pub demand: Option<Demand>,
    /// Multiplies the visible output of planning turns.
    pub output_scale: f64,
    /// Multiplies the reasoning tokens.
    pub reasoning_scale: f64,
    /// Multiplies the results of all tools.
    pub result_scale: f64,
    /// Chance of a cache hit, under controls too unless the model tells these apart.
    pub cache_hit: Option<Probability>,
    /// Chance that a call repeats an earlier one.
    pub repeat_call: Option<Probability>,
    /// Chance that a run which has what it needs ends without a word instead of an answer.
    pub gives_up: Option<Probability>,
}

/// Chances of obeying each control; disobeying is acting as if not told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compliance {
    /// Told to answer now (also by the drained turn of `usage_limits`).
    pub synthesis_only: Probability,
    /// Offered no tool: writes an answer; else an empty turn. A model that has enough answers anyway.
    pub tools_withheld: Probability,
    /// Told how much of the tool budget is left: from then on one call a turn.
    pub budget_notice: Probability,
    /// Told that only finalization tools may run: proposes only those, once, then answers.
    pub window: Probability,
}

impl Default for Compliance {
    fn default() -> Compliance {
        Compliance {
            synthesis_only: Probability::ALWAYS,
            tools_withheld: Probability::ALWAYS,
            budget_notice: Probability::ALWAYS,
            window: Probability::ALWAYS,
        }
    }
}

/// Habits of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Habits {
    /// A proposed call repeats an earlier one that ran or that the permission policy denied.
    pub repeat_call: Probability,
    /// Chance that a repeat copies the call that was repeated last, if there is one.
    pub repeat_same: Probability,
    /// Chance, drawn once a run, that the model, when it has what it needs, ends without a word. Told to
    /// answer before, it answers.
    pub gives_up: Probability,
    /// Chance, after a novel result, of a `record_evidence` call in the next batch.
    pub record_evidence: Probability,
}

/// Faults of the provider. The seven kinds exclude each other: their chances sum to at most 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// An error worth a retry, before any output.
    pub transient: Probability,
    /// An error worth a retry, after some output.
    pub transient_after_output: Probability,
    /// An error that no retry mends.
    pub permanent: Probability,
    /// An answer that breaks the protocol.
    pub protocol: Probability,
    /// A success without text and calls.
    pub empty: Probability,
    /// The stream falls silent.
    pub stall: Probability,
    /// The provider refuses for now.
    pub rate_limit: Probability,
    /// Share of its input that a transient, permanent, protocol or rate-limited request is billed, at
    /// the prices that the whole would have had. Such a request leaves the cache as it was.
    pub billed: Probability,
    /// How many requests in a row a rate limit refuses; at least 1.
    pub storm: Quantity,
    /// What the provider tells to wait, in seconds; `None` = it does not tell.
    pub retry_after_s: Option<Quantity>,
    /// Retries below the engine: an attempt is up to 1 + this many requests.
    pub transport_retries: u32,
    /// Whose usage the engine sees, of the requests of one attempt.
    pub transport_reported: TransportReported,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            transient: Probability::NEVER,
            transient_after_output: Probability::NEVER,
            permanent: Probability::NEVER,
            protocol: Probability::NEVER,
            empty: Probability::NEVER,
            stall: Probability::NEVER,
            rate_limit: Probability::NEVER,
            billed: Probability::NEVER,
            storm: Quantity::ONE,
            retry_after_s: None,
            transport_retries: 0,
            transport_reported: TransportReported::Last,
        }
    }
}

impl Faults {
    /// The chances of the seven kinds, in the order of the fields.
    pub fn chances(&self) -> [Probability; 7] {
        [
            self.transient,
            self.transient_after_output,
            self.permanent,
            self.protocol,
            self.empty,
            self.stall,
            self.rate_limit,
        ]
    }
}

/// Whose usage the engine sees where the transport retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportReported {
    /// Only that of the last request.
    #[default]
    Last,
    /// The sum over all requests.
    All,
}

/// What the engine is told about usage, apart from what is billed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reporting {
    /// Chance that a request's usage is lost: the ledger records 0.
    pub missing: Probability,
    /// The ledger records this multiple of it; finite, not negative.
    pub factor: f64,
}

impl Default for Reporting {
    fn default() -> Reporting {
        Reporting {
            missing: Probability::NEVER,
            factor: 1.0,
        }
    }
}

/// Cost spikes, per model request.
#[derive(Clone, Debug, PartialEq)]
pub struct Spike {
    /// Chance of a spike.
    pub probability: Probability,
    /// The output is multiplied by this.
    pub output_multiplier: Quantity,
}

impl Default for Spike {
    fn default() -> Spike {
        Spike {
            probability: Probability::NEVER,
            output_multiplier: Quantity::ONE,
        }
    }
}

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Relative chance of being chosen; finite, not negative.
    pub weight: f64,
    /// Billed for each executed call.
    pub cost: Money,
    /// Added to the context by a result, errors too.
    pub result_tokens: Quantity,
    /// The call fails; its result is an error.
    pub error: Probability,
    /// As `error`, where this tool's previous call of the run failed.
    pub error_after_error: Probability,
    /// Denied by the permission policy.
    pub denied: Probability,
    /// Chance that a successful result has not been seen before.
    pub novelty: Probability,
    /// Seconds that a call takes.
    pub latency_s: Quantity,
    /// May run beside others of its batch.
    pub parallel: bool,
}

/// Deaths of the process, which restarts from what was durable.
#[derive(Clone, Debug, PartialEq)]
pub struct Kills {
    /// After the provider billed a call, before it was recorded.
    pub per_model_call: Probability,
    /// After a tool ran, before its result was stored.
    pub per_tool_call: Probability,
    /// Exactly at these tool executions, counted over the whole run from 1; ascending.
    pub after_tool_calls: Vec<u32>,
    /// Exactly at these model requests, counted over the whole run from 1; ascending.
    pub after_model_calls: Vec<u32>,
    /// No more kills than this in a run; `None` = no such bound was given.
    pub max: Option<u32>,
    /// Seconds until the restart.
    pub downtime_s: Quantity,
    /// Chance that the newest durable item is lost too.
    pub journal_tail_loss: Probability,
}

impl Default for Kills {
    fn default() -> Kills {
        Kills {
            per_model_call: Probability::NEVER,
            per_tool_call: Probability::NEVER,
            after_tool_calls: Vec::new(),
            after_model_calls: Vec::new(),
            max: None,
            downtime_s: Quantity::ZERO,
            journal_tail_loss: Probability::NEVER,
        }
    }
}
