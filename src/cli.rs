//! The command line, as clap reads it. What the words mean is decided elsewhere.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdback_scenarios::import;

/// Size the reserve that guarantees an agent's final answer, before the agent is deployed.
#[derive(Debug, Parser)]
#[command(name = "holdback", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// As [`whole`], for what is counted in memory.
fn count(text: &str) -> Result<usize, String> {
    whole(text).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// A whole number that an option takes, so that a wrong one is told in our words.
fn whole(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| "expected a whole number of at most 64 bits".to_owned())
}

/// A number that an option takes.
fn number(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.trim().parse().ok();
    value
        .filter(|value| value.is_finite())
        .ok_or_else(|| "expected a number".to_owned())
}

/// A probability that an option takes.
fn probability(text: &str) -> Result<f64, String> {
    let value = text.trim().parse().ok();
    value
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "expected a probability from 0 to 1".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulate scenarios under policies and compare them, run by run on the same luck
    #[command(
        after_help = "Example: holdback compare --scenario scheduled-briefing --runs 20000 --out report"
    )]
    Compare(Compare),
    /// Play recorded runs under policies
    #[command(
        after_help = "Example: holdback replay runs.jsonl.gz --policy production.json --policy candidate.json"
    )]
    Replay(Replay),
    /// Show one run event by event, under one policy or beside another on the same luck
    #[command(
        after_help = "Example: holdback explain --scenario tool-hungry --policy \"no reserve\" --run 0 --against \"steps reserve 1\""
    )]
    Explain(Explain),
    /// Write simulated runs as reference vectors, to replay them on a runtime of one's own
    #[command(
        after_help = "Example: holdback vectors --scenario coding-agent --policy \"cost reserve 0.25\" --runs 50 -o runs.jsonl"
    )]
    Vectors(Vectors),
    /// Fit a scenario to the recorded runs of each source and say how well it fits
    #[command(after_help = "Example: holdback calibrate spans.json.gz --source shop -o shop.toml")]
    Calibrate(Calibrate),
    /// Write a study, a scenario and a policy to start from
    #[command(after_help = "Example: holdback init limits && holdback compare limits/study.toml")]
    Init(Init),
    /// Run recorded vectors of a reference engine and show the first difference of each failing case
    #[command(after_help = "Example: holdback conformance cases.jsonl.gz invalid.jsonl")]
    Conformance(Conformance),
    /// Gate a change of limits: candidate against baseline on the same luck
    #[command(
        after_help = "Example: holdback check --baseline main.json --candidate limits.json --max-answered-drop 0.5"
    )]
    Check(Check),
    /// Find the smallest reserve that reaches a target, and prove it on fresh luck
    #[command(
        after_help = "Example: holdback size --scenario scheduled-briefing --policy \"no reserve\" \\\n  --vary synthesis_reserve_steps --target-answered 0.75"
    )]
    Size(Size),
    /// Put the shards of a study together, byte by byte as if it had run in one piece
    #[command(after_help = "Example: holdback merge shard-1 shard-2 --out report")]
    Merge(Merge),
    /// Print the JSON Schema of a file kind
    #[command(after_help = "Example: holdback schema summary > summary.schema.json")]
    Schema(Schema),
    /// Print a completion script for a shell
    #[command(after_help = "Example: holdback completions bash > /etc/bash_completion.d/holdback")]
    Completions(Completions),
    /// List what is built in
    #[command(after_help = "Example: holdback list scenarios")]
    List(List),
}

/// Where runs come from and how many.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// A study: a built-in name or a TOML or JSON file; the built-in default study without it
    pub(crate) study: Option<String>,
    /// A scenario: a name of the study, a built-in name or a file; may be repeated
    #[arg(long = "scenario", value_name = "S")]
    pub(crate) scenarios: Vec<String>,
    /// A policy: a name of the study, a built-in name or a file; may be repeated
    #[arg(long = "policy", value_name = "P")]
    pub(crate) policies: Vec<String>,
    /// The policy that the others are compared with; the first one without it
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Runs of each scenario under each policy
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) runs: Option<u64>,
    /// Seed of all luck
    #[arg(long, value_name = "S", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Run until the answered rate of every cell is known to this many percentage points
    #[arg(long, value_name = "PP", value_parser = number, allow_negative_numbers = true)]
    pub(crate) precision: Option<f64>,
    /// A file of model prices, looked at before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Run only this share of the runs and write its parts to --out, for `holdback merge`; `auto`
    /// takes it from the environment of a Slurm array task or a Kubernetes indexed job
    #[arg(
        long,
        value_name = "K/N",
        requires = "out",
        conflicts_with = "precision"
    )]
    pub(crate) shard: Option<String>,
    /// Go on with what an interrupted run left in --out
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// A change of limits.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The limits as they are: a policy (built-in name or file), or a saved summary.json, whose baseline is
    /// simulated again and must reproduce its counts
    #[arg(long, value_name = "P|FILE")]
    pub(crate) baseline: String,
    /// The limits as they would be: a policy (built-in name or file)
    #[arg(long, value_name = "P")]
    pub(crate) candidate: String,
    /// A study whose scenarios, runs, seed and gates to use; the built-in default study without it
    #[arg(long, value_name = "F")]
    pub(crate) study: Option<String>,
    /// A scenario: a name of the study, a built-in name or a file; may be repeated
    #[arg(long = "scenario", value_name = "S")]
    pub(crate) scenarios: Vec<String>,
    /// How far the answered rate may fall, in percentage points
    #[arg(long, value_name = "PP", value_parser = number)]
    pub(crate) max_answered_drop: Option<f64>,
    /// How far the mean overspend may rise, in USD
    #[arg(long, value_name = "USD", value_parser = number)]
    pub(crate) max_overspend_increase: Option<f64>,
    /// How far the mean bill may rise, in percent
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) max_cost_increase: Option<f64>,
    /// Fail also where these runs cannot tell
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the verdicts as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Runs of each scenario under each policy
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) runs: Option<u64>,
    /// Seed of all luck
    #[arg(long, value_name = "S", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// A file of model prices, looked at before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// No progress and no remarks
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// A question about limits.
#[derive(Debug, Args)]
pub(crate) struct Size {
    /// A scenario that the limits must serve: a name of the study, a built-in name or a file; may be repeated
    #[arg(
        long = "scenario",
        value_name = "S",
        required_unless_present = "traces"
    )]
    pub(crate) scenarios: Vec<String>,
    /// Recorded runs instead of scenarios, in any format that `replay` reads: one half is searched, the
    /// other proves; may be repeated
    #[arg(long, value_name = "F", conflicts_with = "scenarios", num_args = 1..)]
    pub(crate) traces: Vec<PathBuf>,
    /// Only the recorded runs of this source
    #[arg(long, value_name = "LABEL", requires = "traces")]
    pub(crate) source: Option<String>,
    /// Whether recorded input tokens include the cached ones
    #[arg(long, value_enum, value_name = "HOW", default_value_t = InputTokens::Inclusive, requires = "traces")]
    pub(crate) input_tokens: InputTokens,
    /// Price of recorded turns without a cost, as in `replay`
    #[arg(long, value_name = "MODEL|SPEC", requires = "traces")]
    pub(crate) price: Option<String>,
    /// Chance that the model of a recorded run obeys a control, as in `replay`
    #[arg(value_parser = probability, allow_negative_numbers = true, long, value_name = "X", default_value_t = 1.0, requires = "traces")]
    pub(crate) compliance: f64,
    /// The limits to start from: a policy (name of the study, built-in name or file)
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
    /// A field to vary, by its dotted path; a reserve's range is 0 to below its limit without one;
    /// several fields are a grid
    #[arg(long, value_name = "FIELD[=LO..HI[:STEP]]", required = true)]
    pub(crate) vary: Vec<String>,
    /// The share of runs that must be answered, in every scenario [default: 0.99]
    #[arg(long, value_name = "X", value_parser = number, conflicts_with = "target_delivered")]
    pub(crate) target_answered: Option<f64>,
    /// The share of runs that must deliver an answer or other text, in every scenario
    #[arg(long, value_name = "X", value_parser = number)]
    pub(crate) target_delivered: Option<f64>,
    /// 99% of the runs may overspend by at most this
    #[arg(long, value_name = "USD")]
    pub(crate) max_overspend_p99: Option<String>,
    /// How much less evidence may be gathered than without the reserve, in percent
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) max_evidence_loss: Option<f64>,
    /// How much more a run may cost than without the reserve, in percent
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) max_cost_increase: Option<f64>,
    /// How sure the recommendation must be
    #[arg(long, value_name = "X", value_parser = number, default_value_t = 0.95)]
    pub(crate) confidence: f64,
    /// A study whose scenarios and policies may be named
    #[arg(long, value_name = "F")]
    pub(crate) study: Option<String>,
    /// Runs of each scenario that prove a recommendation, and at most that many of each candidate in
    /// the search
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = whole,
        allow_negative_numbers = true,
        conflicts_with = "traces"
    )]
    pub(crate) runs: u64,
    /// The master seed, from which the seeds of search and proof are derived
    #[arg(long, value_name = "S", default_value_t = 7, value_parser = whole, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// A file of model prices, looked at before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Write size.json, size.md, plots and limits.json into this folder; where nothing reaches the goal
    /// best-reachable.json instead of the last
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// No progress and no remarks
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// `5` and `5%` are the same percentage.
fn percent(text: &str) -> Result<f64, String> {
    let written = text.trim();
    number(written.strip_suffix('%').unwrap_or(written))
        .map_err(|_| "expected a percentage such as 5 or 5%".to_owned())
}

/// Shards to put together.
#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// The output folders of all shards
    #[arg(required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// Write the report's files into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Recorded runs, plain or gzip: JSON lines, OTLP/JSON with GenAI spans, mini-swe-agent trajectories
    /// or tau2 results; an embedded sample without any
    pub(crate) traces: Vec<PathBuf>,
    /// Whether recorded input tokens include the cached ones
    #[arg(long, value_enum, value_name = "HOW", default_value_t = InputTokens::Inclusive)]
    pub(crate) input_tokens: InputTokens,
    /// A policy: a built-in name or a file; may be repeated
    #[arg(long = "policy", value_name = "P")]
    pub(crate) policies: Vec<String>,
    /// The policy that the others are compared with; the first one without it
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Price of turns without a recorded cost: a model's name, or input=3,output=15[,cached_input=..]
    #[arg(long, value_name = "MODEL|SPEC")]
    pub(crate) price: Option<String>,
    /// Chance that the model obeys a control
    #[arg(value_parser = probability, allow_negative_numbers = true, long, value_name = "X", default_value_t = 1.0)]
    pub(crate) compliance: f64,
    /// Leave out runs in which a turn before the last has no tool call
    #[arg(long)]
    pub(crate) skip_dialogue: bool,
    /// Seed of the luck of obedience
    #[arg(long, value_name = "S", default_value_t = 7, value_parser = whole, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// A file of model prices, looked at before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// How runs are made; no result depends on it.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Threads; all cores without it
    #[arg(long, value_name = "T", value_parser = count, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Simulate every policy on its own, also where policies that differ in limits alone could share
    /// a run until a limit tells them apart (slower, for comparison)
    #[arg(long)]
    pub(crate) no_sharing: bool,
}

/// What `compare` and `replay` have in common.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Write the report's files into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write each run as a line of runs.csv (needs --out)
    #[arg(long, requires = "out")]
    pub(crate) per_run: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Add cost, answers lost and overspend at this many runs a month
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) runs_per_month: Option<u64>,
    /// No progress and no remarks
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Where the names of scenarios and policies are looked up, before built-in ones and files.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// A study whose names may be used: a built-in name or a file; the default study without it
    #[arg(long, value_name = "F")]
    pub(crate) study: Option<String>,
    /// A file whose scenario may be named; may be repeated
    #[arg(long = "scenario-file", value_name = "FILE")]
    pub(crate) scenario_files: Vec<String>,
    /// A file whose policies may be named; may be repeated
    #[arg(long = "policy-file", value_name = "FILE")]
    pub(crate) policy_files: Vec<String>,
    /// A file of model prices, looked at before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

/// One run of a scenario, or of recorded runs.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("origin").required(true).args(["scenario", "traces"])))]
pub(crate) struct Explain {
    /// A scenario: a name of the study, a built-in name or a file
    #[arg(long, value_name = "S")]
    pub(crate) scenario: Option<String>,
    /// Recorded runs in any format that `replay` reads, plain or gzip; the embedded sample without any
    /// file
    #[arg(long, value_name = "F", num_args = 0..)]
    pub(crate) traces: Option<Vec<PathBuf>>,
    /// Whether recorded input tokens include the cached ones, as in `replay`
    #[arg(long, value_enum, value_name = "HOW", default_value_t = InputTokens::Inclusive, requires = "traces")]
    pub(crate) input_tokens: InputTokens,
    /// A policy: a name of the study, a built-in name or a file
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
    /// The run's number, from 0; of recorded runs the position among the played ones of the source,
    /// as runs.csv counts them, or the run_id
    #[arg(long, value_name = "N")]
    pub(crate) run: String,
    /// A policy to show beside it, on the same luck
    #[arg(long, value_name = "P")]
    pub(crate) against: Option<String>,
    /// Seed of all luck; the study's without it
    #[arg(long, value_name = "S", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) names: Names,
    /// The source of the recorded run, where a position alone does not tell
    #[arg(long, value_name = "LABEL", requires = "traces")]
    pub(crate) source: Option<String>,
    /// Price of turns without a recorded cost, as in `replay`
    #[arg(long, value_name = "MODEL|SPEC", requires = "traces")]
    pub(crate) price: Option<String>,
    /// Chance that the model obeys a control, as in `replay`
    #[arg(value_parser = probability, allow_negative_numbers = true, long, value_name = "X", requires = "traces")]
    pub(crate) compliance: Option<f64>,
    /// Number the played runs as `replay --skip-dialogue` does
    #[arg(long, requires = "traces")]
    pub(crate) skip_dialogue: bool,
    /// Columns to fit; those of the terminal without it, 100 elsewhere
    #[arg(long, value_name = "N")]
    pub(crate) width: Option<usize>,
    /// Every event as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Simulated runs that become vectors.
#[derive(Debug, Args)]
pub(crate) struct Vectors {
    /// A scenario: a name of the study, a built-in name or a file
    #[arg(long, value_name = "S")]
    pub(crate) scenario: String,
    /// A policy of run_limits or usage_limits: a name of the study, a built-in name or a file
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
    /// How many runs, from run 0 on
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole, allow_negative_numbers = true)]
    pub(crate) runs: u64,
    /// One run by its number instead; may be repeated
    #[arg(long, value_name = "N", conflicts_with = "runs", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) run: Vec<u64>,
    /// Seed of all luck; the study's without it
    #[arg(long, value_name = "S", value_parser = whole, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) names: Names,
    /// Write here instead of to stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What is printed to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// The whole summary as JSON
    Json,
    /// One line a cell
    Csv,
    /// For a pull request or a job summary
    Markdown,
}

/// Recorded runs to fit scenarios to.
#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Recorded runs, plain or gzip: JSON lines, OTLP/JSON with GenAI spans, mini-swe-agent trajectories
    /// or tau2 results
    #[arg(required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Only the runs of this source
    #[arg(long, value_name = "LABEL")]
    pub(crate) source: Option<String>,
    /// Whether recorded input tokens include the cached ones
    #[arg(long, value_enum, value_name = "HOW", default_value_t = InputTokens::Inclusive)]
    pub(crate) input_tokens: InputTokens,
    /// The price, where it is not that of the record: a model's name, or input=3,output=15[,cached_input=..]
    #[arg(long, value_name = "MODEL|SPEC")]
    pub(crate) price: Option<String>,
    /// A file of model prices, looked at before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// The scenario file to write, or a folder for one file a source
    #[arg(short, long, value_name = "FILE|DIR")]
    pub(crate) output: PathBuf,
    /// No remarks
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Where to write files to start from.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder; the current one without it
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
}

/// Whether recorded input tokens include the cached ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputTokens {
    /// They do, as OpenAI, Google and the GenAI conventions count
    Inclusive,
    /// Cached tokens come on top, as Anthropic's own API counts
    Exclusive,
}

impl InputTokens {
    /// The option as it must be written, unless it is the default.
    pub(crate) fn option(self) -> Option<String> {
        (self == InputTokens::Exclusive).then(|| "--input-tokens exclusive".to_owned())
    }
}

impl From<InputTokens> for import::InputTokens {
    fn from(words: InputTokens) -> import::InputTokens {
        match words {
            InputTokens::Inclusive => import::InputTokens::Inclusive,
            InputTokens::Exclusive => import::InputTokens::Exclusive,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Vectors as JSON lines, plain or gzip
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The kind of file
    #[arg(value_enum)]
    pub(crate) kind: SchemaKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaKind {
    /// A workload
    Scenario,
    /// One way of setting the limits, or several
    Policy,
    /// Scenarios times policies
    Study,
    /// Model prices for --prices
    Prices,
    /// A line of recorded runs
    Traces,
    /// `summary.json`
    Summary,
    /// `manifest.json`
    Manifest,
    /// `size.json`
    Size,
    /// What `explain --json` prints
    Explanation,
    /// `parts/study.json` of a study under way or of a shard
    Parts,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// What to list
    #[arg(value_enum, default_value_t = Listed::Scenarios)]
    pub(crate) what: Listed,
    /// How to print it
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) format: ListFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Built-in scenarios
    Scenarios,
    /// Built-in policies and presets
    Policies,
    /// Built-in studies
    Studies,
    /// Built-in model prices
    Prices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// For people
    Table,
    /// One name a line
    Names,
    /// For programs
    Json,
}
