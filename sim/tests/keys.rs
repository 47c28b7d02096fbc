//! Every key of the scenario format does what its documentation says: turning it alone moves a measure.

mod common;

use common::{caps, policy, record, run_limits, scenario, tally, usage_limits};
use holdback_engine::Money;
use holdback_engine::protocol::Reason;
use holdback_scenarios::{Loader, Policy, Scenario};
use holdback_sim::tally::{Cause, Event, Outcome, Tally};

/// Enough for a rate to move by far more than its standard error of at most 3%.
const RUNS: u64 = 300;

/// How a measure moves when a key is turned.
#[derive(Clone, Copy, Debug)]
enum Moves {
    Up,
    Down,
    /// From exactly one number a run to exactly another.
    FromTo(f64, f64),
}
use Moves::{Down, FromTo, Up};

type Measure = fn(&Tally) -> f64;

/// One key, turned from `off` to `on`.
struct Case {
    key: &'static str,
    off: String,
    on: String,
    policy: Policy,
    measure: Measure,
    moves: Moves,
}

/// The workload in which keys are turned: six results at a call a turn, then the answer.
const PLAIN: [(&str, &str); 9] = [
    ("model.price.input_per_mtok", "1"),
    ("model.price.output_per_mtok", "5"),
    ("model.base_input_tokens", "1000"),
    ("model.output_tokens", "100"),
    ("model.final_output_tokens", "300"),
    ("model.latency_s", "2"),
    ("model.demand", "6"),
    ("tools.cost_usd", "\"0.01\""),
    ("tools.result_tokens", "500"),
];

/// A drawn scenario: [`PLAIN`], overwritten by `with`. `tools.` is the first tool, `second.` another.
fn drawn(with: &[(&str, &str)]) -> String {
    let mut all: Vec<(&str, &str)> = PLAIN.to_vec();
    for (key, value) in with {
        all.retain(|(given, _)| given != key);
        if !value.is_empty() {
            all.push((key, value));
        }
    }
    let mut text = String::new();
    let mut tools = [("tools.", String::new()), ("second.", String::new())];
    for (key, value) in all {
        match tools
            .iter_mut()
            .find(|(prefix, _)| key.starts_with(*prefix))
        {
            Some((prefix, tool)) => {
                let key = key.trim_start_matches(*prefix);
                tool.push_str(&format!(", {key} = {value}"));
            }
            None => text.push_str(&format!("{key} = {value}\n")),
        }
    }
    let named = |name: &str, keys: &str| match keys.contains("name =") {
        true => format!("{{ {} }}", keys.trim_start_matches(", ")),
        false => format!("{{ name = \"{name}\"{keys} }}"),
    };
    text.push_str(&format!("tools = [{}", named("t", &tools[0].1)));
    if !tools[1].1.is_empty() {
        text.push_str(&format!(", {}", named("u", &tools[1].1)));
    }
    text.push_str("]\n");
    text
}

/// A key of a drawn scenario; an empty `off` leaves it out.
fn key(
    key: &'static str,
    (off, on): (&str, &str),
    with: &[(&str, &str)],
    policy: Policy,
    measure: Measure,
    moves: Moves,
) -> Case {
    let turned = |value| drawn(&[with, &[(key, value)]].concat());
    Case {
        key,
        off: turned(off),
        on: turned(on),
        policy,
        measure,
        moves,
    }
}

/// A key of one of two kinds of runs; `always` holds for that kind whether or not the key is turned.
fn kind(
    key: &'static str,
    (off, on): (&str, &str),
    always: &str,
    with: &[(&str, &str)],
    policy: Policy,
    measure: Measure,
    moves: Moves,
) -> Case {
    let turned = |value: &str| {
        let mut keys = vec!["name = \"k\""];
        keys.extend([value, always].into_iter().filter(|key| !key.is_empty()));
        let kinds = format!("[{{ {} }}, {{ name = \"other\" }}]", keys.join(", "));
        drawn(&[with, &[("kinds", &kinds)]].concat())
    };
    Case {
        key,
        off: turned(off),
        on: turned(on),
        policy,
        measure,
        moves,
    }
}

/// A key of a scripted scenario, with both texts written out.
fn script(
    key: &'static str,
    (off, on): (&str, &str),
    policy: Policy,
    measure: Measure,
    moves: Moves,
) -> Case {
    Case {
        key,
        off: off.to_owned(),
        on: on.to_owned(),
        policy,
        measure,
        moves,
    }
}

fn billed(tally: &Tally) -> f64 {
    tally.sums.billed.to_f64()
}
fn ledger(tally: &Tally) -> f64 {
    tally.sums.ledger.to_f64()
}
fn overspend(tally: &Tally) -> f64 {
    tally.sums.overspend.to_f64()
}
fn answered(tally: &Tally) -> f64 {
    tally.answered as f64
}
fn truncated(tally: &Tally) -> f64 {
    cause(tally, Outcome::Partial, Cause::Truncated)
}
fn overflowed(tally: &Tally) -> f64 {
    let reason = Cause::Engine(Reason::ContextOverflow);
    cause(tally, Outcome::Unanswered, reason)
}
fn cause(tally: &Tally, outcome: Outcome, cause: Cause) -> f64 {
    tally.causes.get(&(outcome, cause)).copied().unwrap_or(0) as f64
}
fn evidence(tally: &Tally) -> f64 {
    tally.sums.evidence as f64
}
fn entries(tally: &Tally) -> f64 {
    tally.sums.evidence_entries as f64
}
fn input(tally: &Tally) -> f64 {
    tally.sums.input_tokens as f64
}
fn cached(tally: &Tally) -> f64 {
    tally.sums.cached_tokens as f64
}
fn output(tally: &Tally) -> f64 {
    tally.sums.output_tokens as f64
}
fn reasoning(tally: &Tally) -> f64 {
    tally.sums.reasoning_tokens as f64
}
fn requests(tally: &Tally) -> f64 {
    tally.sums.model_calls as f64
}
fn steps(tally: &Tally) -> f64 {
    tally.sums.steps as f64
}
fn calls(tally: &Tally) -> f64 {
    tally.sums.tool_calls as f64
}
fn denied(tally: &Tally) -> f64 {
    tally.sums.denied_calls as f64
}
fn seconds(tally: &Tally) -> f64 {
    tally.sums.duration_us as f64 / 1e6
}
fn kills(tally: &Tally) -> f64 {
    tally.sums.kills as f64
}
fn repaid(tally: &Tally) -> f64 {
    tally.sums.repaid.to_f64()
}
fn tail_losses(tally: &Tally) -> f64 {
    tally.seen[Event::ResumeAfterTailLoss as usize] as f64
}
fn rate_limits(tally: &Tally) -> f64 {
    tally.seen[Event::RateLimited as usize] as f64
}

fn free() -> Policy {
    run_limits("")
}

fn with_steps_reserve() -> Policy {
    run_limits("max_steps = 5, synthesis_reserve_steps = 1")
}

fn final_turn() -> Policy {
    caps("max_turns = 3, on_exhausted = \"final_turn\"")
}

fn model_cases() -> Vec<Case> {
    let caching = [
        ("model.cache_hit", "1"),
        ("model.price.cached_input_per_mtok", "0.1"),
    ];
    let long = |key: &'static str, off, on| {
        let with = [
            ("model.long_context.above_tokens", "1500"),
            ("model.long_context.input_multiplier", "1"),
        ];
        key_case_up(key, off, on, &with)
    };
    vec![
        key(
            "budget_usd",
            ("\"100\"", "\"0.01\""),
            &[],
            free(),
            overspend,
            Up,
        ),
        key_case_up("model.price.input_per_mtok", "1", "2", &[]),
        key_case_up("model.price.output_per_mtok", "5", "6", &[]),
        key(
            "model.price.cached_input_per_mtok",
            ("", "0.1"),
            &[("model.cache_hit", "0.5")],
            free(),
            billed,
            Down,
        ),
        key(
            "model.price.cache_write_per_mtok",
            ("", "1.25"),
            &[("model.cache_hit", "0.5")],
            free(),
            billed,
            Up,
        ),
        long("model.long_context.input_multiplier", "1", "2"),
        long("model.long_context.output_multiplier", "1", "1.5"),
        key(
            "model.long_context.above_tokens",
            ("100000", "1500"),
            &[("model.long_context.input_multiplier", "2")],
            free(),
            billed,
            Up,
        ),
        key(
            "model.long_context.price",
            (
                "{ input_per_mtok = 1, output_per_mtok = 5 }",
                "{ input_per_mtok = 2, output_per_mtok = 5 }",
            ),
            &[("model.long_context.above_tokens", "1500")],
            free(),
            billed,
            Up,
        ),
        key(
            "model.context_window",
            ("10000", "3000"),
            &[],
            free(),
            overflowed,
            FromTo(0.0, 1.0),
        ),
        key(
            "model.clamp_to_window",
            ("false", "true"),
            &[
                ("model.context_window", "5000"),
                ("model.max_output_tokens", "4000"),
            ],
            free(),
            answered,
            FromTo(0.0, 1.0),
        ),
        key(
            "model.max_output_tokens",
            ("", "299"),
            &[],
            free(),
            truncated,
            FromTo(0.0, 1.0),
        ),
        key(
            "model.base_input_tokens",
            ("1000", "1001"),
            &[],
            free(),
            input,
            FromTo(19600.0, 19607.0),
        ),
        key(
            "model.cache_hit",
            ("0.1", "0.9"),
            &caching[1..],
            free(),
            cached,
            Up,
        ),
        key(
            "model.cache_prefix_tokens",
            ("1", "900"),
            &[("model.cache_hit", "0"), caching[1]],
            free(),
            cached,
            Up,
        ),
        key(
            "model.cache_up_to_tokens",
            ("100000", "1500"),
            &caching,
            free(),
            cached,
            Down,
        ),
        key(
            "model.cache_ttl_s",
            ("1000", "300"),
            &[caching[0], caching[1], ("tools.latency_s", "400")],
            free(),
            cached,
            Down,
        ),
        key(
            "model.cache_hit_under_control",
            ("1", "0"),
            &[caching[0], caching[1], ("model.demand", "\"endless\"")],
            with_steps_reserve(),
            cached,
            Down,
        ),
        key(
            "model.output_tokens",
            ("100", "110"),
            &[],
            free(),
            output,
            FromTo(900.0, 960.0),
        ),
        key(
            "model.reasoning_tokens",
            ("", "50"),
            &[],
            free(),
            reasoning,
            FromTo(0.0, 350.0),
        ),
        key(
            "model.final_output_tokens",
            ("300", "310"),
            &[],
            free(),
            output,
            FromTo(900.0, 910.0),
        ),
        key(
            "model.latency_s",
            ("2", "2.5"),
            &[],
            free(),
            seconds,
            FromTo(14.0, 17.5),
        ),
        key(
            "model.demand",
            ("6", "\"endless\""),
            &[],
            run_limits("max_steps = 10"),
            evidence,
            FromTo(6.0, 10.0),
        ),
        key(
            "model.batch",
            ("1", "3"),
            &[],
            free(),
            steps,
            FromTo(7.0, 3.0),
        ),
        key(
            "model.estimate_error",
            ("1", "{ dist = \"uniform\", low = 9, high = 9.2 }"),
            &[("model.demand", "0")],
            policy("family = \"usage_limits\"\nlimits = {}\nbudget = { ceiling_usd = 0.01 }"),
            truncated,
            FromTo(0.0, 1.0),
        ),
        key(
            "model.compliance.synthesis_only",
            ("1", "0"),
            &[("model.demand", "\"endless\"")],
            with_steps_reserve(),
            answered,
            FromTo(1.0, 0.0),
        ),
        key(
            "model.compliance.tools_withheld",
            ("1", "0"),
            &[],
            final_turn(),
            answered,
            FromTo(1.0, 0.0),
        ),
        key(
            "model.compliance.budget_notice",
            ("1", "0"),
            &[("model.demand", "\"endless\""), ("model.batch", "5")],
            usage_limits("maxToolCalls = 20, toolBudgetNotices = true"),
            steps,
            FromTo(13.0, 5.0),
        ),
        key(
            "model.compliance.window",
            ("1", "0"),
            &[("model.demand", "\"endless\"")],
            usage_limits(
                "maxTurns = 20, maxToolCalls = 9, finalizationWindow = { reserveCalls = 3, allow = [] }",
            ),
            answered,
            FromTo(1.0, 0.0),
        ),
        key(
            "model.habits.repeat_call",
            ("", "0.5"),
            &[("model.demand", "\"endless\"")],
            usage_limits("maxToolCalls = 20"),
            evidence,
            Down,
        ),
        key(
            "model.habits.repeat_same",
            ("0", "1"),
            &[("model.demand", "20"), ("model.habits.repeat_call", "0.3")],
            run_limits("max_steps = 100, max_model_calls = 100, max_tool_calls = 100"),
            answered,
            Down,
        ),
        key(
            "model.habits.gives_up",
            ("0", "1"),
            &[],
            free(),
            answered,
            FromTo(1.0, 0.0),
        ),
        key(
            "model.cache_hit_share",
            ("1", "0.5"),
            &[("model.cache_hit", "1")],
            free(),
            cached,
            Down,
        ),
        kind(
            "kinds.gives_up",
            ("", "gives_up = 1"),
            "",
            &[],
            free(),
            answered,
            Down,
        ),
        kind(
            "kinds.weight",
            ("weight = 0", "weight = 3"),
            "demand = 2",
            &[],
            free(),
            evidence,
            Down,
        ),
        kind(
            "kinds.demand",
            ("", "demand = 3"),
            "",
            &[],
            free(),
            evidence,
            Down,
        ),
        kind(
            "kinds.output_scale",
            ("", "output_scale = 2"),
            "weight = 1e6",
            &[],
            free(),
            output,
            Up,
        ),
        kind(
            "kinds.reasoning_scale",
            ("", "reasoning_scale = 2"),
            "",
            &[("model.reasoning_tokens", "10")],
            free(),
            reasoning,
            Up,
        ),
        kind(
            "kinds.result_scale",
            ("", "result_scale = 0.5"),
            "",
            &[],
            free(),
            input,
            Down,
        ),
        kind(
            "kinds.cache_hit",
            ("", "cache_hit = 1"),
            "",
            &[("model.cache_hit", "0")],
            free(),
            cached,
            Up,
        ),
        kind(
            "kinds.repeat_call",
            ("", "repeat_call = 0.5"),
            "",
            &[("model.demand", "\"endless\"")],
            usage_limits("maxToolCalls = 20"),
            evidence,
            Down,
        ),
        key(
            "model.habits.record_evidence",
            ("", "1"),
            &[],
            free(),
            entries,
            FromTo(0.0, 5.0),
        ),
        key(
            "model.spike.probability",
            ("", "0.3"),
            &[("model.spike.output_multiplier", "10")],
            free(),
            output,
            Up,
        ),
        key(
            "model.spike.output_multiplier",
            ("10", "20"),
            &[("model.spike.probability", "0.3")],
            free(),
            output,
            Up,
        ),
        key(
            "model.reporting.missing",
            ("", "0.5"),
            &[],
            free(),
            ledger,
            Down,
        ),
        key(
            "model.reporting.factor",
            ("1", "2"),
            &[],
            free(),
            ledger,
            FromTo(0.0241, 0.0482),
        ),
    ]
}

fn key_case_up(name: &'static str, off: &str, on: &str, with: &[(&str, &str)]) -> Case {
    key(name, (off, on), with, free(), billed, Up)
}

fn fault_cases() -> Vec<Case> {
    let storm = [("model.faults.rate_limit", "0.1")];
    let patient =
        || policy("family = \"usage_limits\"\nretry_attempts = 1000\nlimits = { maxTurns = 1000 }");
    vec![
        key(
            "model.faults.transient",
            ("", "0.2"),
            &[],
            free(),
            requests,
            Up,
        ),
        key(
            "model.faults.transient_after_output",
            ("", "0.2"),
            &[],
            free(),
            answered,
            Down,
        ),
        key(
            "model.faults.permanent",
            ("", "0.2"),
            &[],
            free(),
            answered,
            Down,
        ),
        key(
            "model.faults.protocol",
            ("", "0.2"),
            &[],
            free(),
            answered,
            Down,
        ),
        key("model.faults.empty", ("", "0.2"), &[], free(), requests, Up),
        key("model.faults.stall", ("", "0.2"), &[], free(), seconds, Up),
        key(
            "model.faults.rate_limit",
            ("", "0.2"),
            &[],
            free(),
            rate_limits,
            Up,
        ),
        key(
            "model.faults.billed",
            ("", "1"),
            &[("model.faults.transient", "0.2")],
            free(),
            billed,
            Up,
        ),
        key(
            "model.faults.storm",
            ("1", "5"),
            &storm,
            patient(),
            requests,
            Up,
        ),
        key(
            "model.faults.retry_after_s",
            ("1", "100"),
            &storm,
            patient(),
            seconds,
            Up,
        ),
        key(
            "model.faults.transport_retries",
            ("0", "3"),
            &[("model.faults.transient", "0.5")],
            free(),
            answered,
            Up,
        ),
        key(
            "model.faults.transport_reported",
            ("\"last\"", "\"all\""),
            &[
                ("model.faults.transient", "0.5"),
                ("model.faults.billed", "1"),
                ("model.faults.transport_retries", "3"),
            ],
            free(),
            ledger,
            Up,
        ),
    ]
}

fn tool_cases() -> Vec<Case> {
    let batch = [("model.batch", "3")];
    vec![
        key(
            "tools.name",
            ("\"v\"", "\"t\""),
            &[("model.demand", "\"endless\"")],
            usage_limits("maxTurns = 10, maxCallsPerTool = { t = 2 }"),
            denied,
            FromTo(0.0, 8.0),
        ),
        key(
            "tools.weight",
            ("1", "9"),
            &[("second.cost_usd", "0")],
            free(),
            billed,
            Up,
        ),
        key(
            "tools.cost_usd",
            ("0", "\"0.01\""),
            &[],
            free(),
            billed,
            FromTo(0.0241, 0.0841),
        ),
        key(
            "tools.result_tokens",
            ("500", "501"),
            &[],
            free(),
            input,
            FromTo(19600.0, 19621.0),
        ),
        key("tools.error", ("", "0.3"), &[], free(), calls, Up),
        key(
            "tools.error_after_error",
            ("0.1", "0.9"),
            &[("tools.error", "0.1")],
            free(),
            calls,
            Up,
        ),
        key("tools.denied", ("", "0.3"), &[], free(), denied, Up),
        key("tools.novelty", ("1", "0.5"), &[], free(), calls, Up),
        key(
            "tools.latency_s",
            ("", "3"),
            &[],
            free(),
            seconds,
            FromTo(14.0, 32.0),
        ),
        key(
            "tools.parallel",
            ("false", "true"),
            &[batch[0], ("tools.latency_s", "3")],
            free(),
            seconds,
            FromTo(24.0, 12.0),
        ),
    ]
}

fn kill_cases() -> Vec<Case> {
    let dies = [("kills.per_tool_call", "0.5")];
    let planned = [("kills.after_tool_calls", "[3]")];
    vec![
        key(
            "storage.checkpoint_usd",
            ("", "\"0.5\""),
            &[],
            caps("max_turns = 10"),
            billed,
            FromTo(0.0841, 3.0841),
        ),
        key("kills.per_model_call", ("", "0.2"), &[], free(), kills, Up),
        key("kills.per_tool_call", ("", "0.2"), &[], free(), kills, Up),
        key(
            "kills.after_model_calls",
            ("", "[1, 3]"),
            &[],
            free(),
            kills,
            FromTo(0.0, 2.0),
        ),
        key(
            "kills.after_tool_calls",
            ("", "[1, 3]"),
            &[],
            free(),
            kills,
            FromTo(0.0, 2.0),
        ),
        key("kills.max", ("", "1"), &dies, free(), kills, Down),
        key(
            "kills.downtime_s",
            ("", "60"),
            &planned,
            free(),
            seconds,
            FromTo(14.0, 74.0),
        ),
        key(
            "kills.journal_tail_loss",
            ("", "1"),
            &planned,
            free(),
            tail_losses,
            FromTo(0.0, 1.0),
        ),
        // Without its newest checkpoint the run repeats a request as well as a call.
        key(
            "kills.journal_tail_loss",
            ("", "1"),
            &planned,
            caps("max_turns = 20"),
            repaid,
            Up,
        ),
    ]
}

fn script_cases() -> Vec<Case> {
    let turn = |key, (off, on): (&str, &str), measure, moves| {
        let text = |turn: &str| {
            format!(
                "model.price = {{ input_per_mtok = 2, cached_input_per_mtok = 1, cache_write_per_mtok = 3 }}\nturn = [{{ {turn} }}, {{ answer = \"done\" }}]"
            )
        };
        script(key, (&text(off), &text(on)), free(), measure, moves)
    };
    let million = "calls = [\"t\"], input_tokens = 1000000";
    let tokens = |more: &str| format!("{million}, {more}");
    vec![
        turn(
            "turn.calls",
            ("calls = { t = 2 }", "calls = [\"t\", \"t\", \"t\"]"),
            calls,
            FromTo(2.0, 3.0),
        ),
        turn(
            "turn.times",
            (million, &tokens("times = 4")),
            calls,
            FromTo(1.0, 4.0),
        ),
        turn(
            "turn.cost_usd",
            ("calls = [\"t\"]", "calls = [\"t\"], cost_usd = \"1.5\""),
            billed,
            FromTo(0.0, 1.5),
        ),
        turn(
            "turn.input_tokens",
            (million, "calls = [\"t\"], input_tokens = 500000"),
            billed,
            FromTo(2.0, 1.0),
        ),
        turn(
            "turn.output_tokens",
            (million, &tokens("output_tokens = 500000")),
            billed,
            FromTo(2.0, 3.0),
        ),
        turn(
            "turn.cached_tokens",
            (million, &tokens("cached_tokens = 500000")),
            billed,
            FromTo(2.0, 1.5),
        ),
        turn(
            "turn.cache_write_tokens",
            (million, &tokens("cache_write_tokens = 500000")),
            billed,
            FromTo(2.0, 2.5),
        ),
        turn(
            "turn.reasoning_tokens",
            (
                &tokens("output_tokens = 9"),
                &tokens("output_tokens = 9, reasoning_tokens = 4"),
            ),
            reasoning,
            FromTo(0.0, 4.0),
        ),
        turn(
            "turn.latency_s",
            (million, &tokens("latency_s = 7")),
            seconds,
            FromTo(0.0, 7.0),
        ),
        turn(
            "turn.answer",
            ("answer = \" \"", "answer = \"done\""),
            answered,
            FromTo(0.0, 1.0),
        ),
        turn(
            "turn.fault",
            (million, "fault = \"permanent\""),
            answered,
            FromTo(1.0, 0.0),
        ),
        script(
            "turn.text",
            (
                "turn = [{ calls = [\"t\"], times = 9 }]",
                "turn = [{ calls = [\"t\"], times = 9, text = \"so far\" }]",
            ),
            caps("max_turns = 3, on_exhausted = \"stop\""),
            |tally| tally.partial as f64,
            FromTo(0.0, 1.0),
        ),
        script(
            "on_end",
            (
                "on_end = \"answer\"\nturn = [{ calls = [\"t\"] }]",
                "on_end = \"hungry\"\nturn = [{ calls = [\"t\"] }]",
            ),
            caps("max_turns = 5"),
            calls,
            FromTo(1.0, 5.0),
        ),
    ]
}

fn closing_cases() -> Vec<Case> {
    // Two tool turns, then the model is told to finish.
    let closing = |key, (off, on): (&str, &str), measure, moves| {
        let text = |closing: &str| {
            format!(
                "on_end = \"hungry\"\nmodel.price = {{ input_per_mtok = 2, cached_input_per_mtok = 1, cache_write_per_mtok = 3 }}\nturn = [{{ calls = [\"t\"] }}]\nclosing = [{{ {closing} }}]"
            )
        };
        let policy = run_limits("max_steps = 3, synthesis_reserve_steps = 1");
        script(key, (&text(off), &text(on)), policy, measure, moves)
    };
    let million = "answer = \"done\", input_tokens = 1000000";
    let tokens = |more: &str| format!("{million}, {more}");
    vec![
        closing(
            "closing.answer",
            ("answer = \" \"", "answer = \"done\""),
            answered,
            FromTo(0.0, 1.0),
        ),
        closing(
            "closing.text",
            ("fault = \"empty\"", "text = \"done\""),
            answered,
            FromTo(0.0, 1.0),
        ),
        closing(
            "closing.calls",
            (million, "calls = [\"verify\"]"),
            answered,
            FromTo(1.0, 0.0),
        ),
        closing(
            "closing.fault",
            (million, "fault = \"permanent\""),
            answered,
            FromTo(1.0, 0.0),
        ),
        closing(
            "closing.cost_usd",
            ("answer = \"done\"", "answer = \"done\", cost_usd = \"1.5\""),
            billed,
            FromTo(0.0, 1.5),
        ),
        closing(
            "closing.input_tokens",
            (million, "answer = \"done\", input_tokens = 500000"),
            billed,
            FromTo(2.0, 1.0),
        ),
        closing(
            "closing.output_tokens",
            (million, &tokens("output_tokens = 500000")),
            billed,
            FromTo(2.0, 3.0),
        ),
        closing(
            "closing.cached_tokens",
            (million, &tokens("cached_tokens = 500000")),
            billed,
            FromTo(2.0, 1.5),
        ),
        closing(
            "closing.cache_write_tokens",
            (million, &tokens("cache_write_tokens = 500000")),
            billed,
            FromTo(2.0, 2.5),
        ),
        closing(
            "closing.reasoning_tokens",
            (
                &tokens("output_tokens = 9"),
                &tokens("output_tokens = 9, reasoning_tokens = 4"),
            ),
            reasoning,
            FromTo(0.0, 4.0),
        ),
        closing(
            "closing.latency_s",
            (million, &tokens("latency_s = 7")),
            seconds,
            FromTo(0.0, 7.0),
        ),
    ]
}

fn call_cases() -> Vec<Case> {
    let twice = |key, (off, on): (&str, &str), policy, measure, moves| {
        let text = |call: &str| {
            format!(
                "tools = [{{ name = \"t\", latency_s = 1 }}]\nturn = [{{ calls = [{{ tool = \"t\"{call} }}], times = 2 }}, {{ answer = \"done\" }}]"
            )
        };
        script(key, (&text(off), &text(on)), policy, measure, moves)
    };
    vec![
        script(
            "turn.calls.tool",
            (
                "tools = [{ name = \"t\" }]\nturn = [{ calls = [{ tool = \"t\" }] }, { answer = \"done\" }]",
                "tools = [{ name = \"t\" }]\nturn = [{ calls = [{ tool = \"unknown\" }] }, { answer = \"done\" }]",
            ),
            free(),
            evidence,
            FromTo(1.0, 0.0),
        ),
        twice(
            "turn.calls.args",
            ("", ", args = { url = \"x\" }"),
            usage_limits("maxRepeatedToolSignature = 1"),
            denied,
            FromTo(0.0, 1.0),
        ),
        twice(
            "turn.calls.raw_args",
            ("", ", raw_args = \"not json\""),
            usage_limits("maxRepeatedToolSignature = 1"),
            denied,
            FromTo(0.0, 1.0),
        ),
        twice(
            "turn.calls.result",
            ("", ", result = { page = 1 }"),
            free(),
            evidence,
            FromTo(2.0, 1.0),
        ),
        twice(
            "turn.calls.content",
            ("", ", content = \"same\""),
            free(),
            evidence,
            FromTo(2.0, 1.0),
        ),
        twice(
            "turn.calls.error",
            ("", ", error = true"),
            free(),
            evidence,
            FromTo(2.0, 0.0),
        ),
        twice(
            "turn.calls.denied",
            ("", ", denied = true"),
            free(),
            denied,
            FromTo(0.0, 2.0),
        ),
        twice(
            "turn.calls.latency_s",
            ("", ", latency_s = 5"),
            free(),
            seconds,
            FromTo(2.0, 10.0),
        ),
    ]
}

fn cases() -> Vec<Case> {
    [
        model_cases(),
        fault_cases(),
        tool_cases(),
        kill_cases(),
        script_cases(),
        closing_cases(),
        call_cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn turning_a_key_alone_moves_its_measure_as_documented() {
    let mut wrong = Vec::new();
    for case in cases() {
        let measured = |text: &str| (case.measure)(&tally(&scenario(text), &case.policy, RUNS));
        let (off, on) = (measured(&case.off), measured(&case.on));
        let close = |sum: f64, a_run: f64| {
            let expected = a_run * RUNS as f64;
            (sum - expected).abs() <= 1e-9 * (1.0 + expected.abs())
        };
        let moved = match case.moves {
            Up => on > off,
            Down => on < off,
            FromTo(from, to) => close(off, from) && close(on, to),
        };
        if !moved {
            let (off, on) = (off / RUNS as f64, on / RUNS as f64);
            wrong.push(format!(
                "{}: {off} -> {on}, expected {:?}",
                case.key, case.moves
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Tables, whose keys have entries of their own.
const TABLES: [&str; 17] = [
    "kinds",
    "model",
    "model.price",
    "model.long_context",
    "model.compliance",
    "model.habits",
    "model.faults",
    "model.reporting",
    "model.spike",
    "tools",
    "storage",
    "kills",
    "turn",
    "turn.calls",
    "closing",
    "closing.calls",
    "",
];
/// Keys that say what a scenario is and not what happens in it; the name has a test of its own.
const SAID: [&str; 5] = ["schema", "name", "summary", "source", "kinds.name"];

/// The keys that the reader of a table knows, as it tells whoever gives one that it does not know.
fn known_keys(table: &str) -> Vec<String> {
    const UNKNOWN: &str = "zzqqzz = 1";
    let drawn = |assignment: &str| format!("{}{assignment}\n", drawn(&[]));
    let text = match table {
        "" => drawn(UNKNOWN),
        "model.long_context" => {
            let long = format!("model.long_context = {{ above_tokens = 9, {UNKNOWN} }}");
            drawn(&long)
        }
        "kinds" => drawn(&format!("kinds = [{{ name = \"k\", {UNKNOWN} }}]")),
        "tools" => format!("model.demand = 1\ntools = [{{ name = \"t\", {UNKNOWN} }}]\n"),
        "turn" => format!("turn = [{{ answer = \"a\", {UNKNOWN} }}]\n"),
        "closing" => {
            format!("turn = [{{ answer = \"a\" }}]\nclosing = [{{ answer = \"a\", {UNKNOWN} }}]\n")
        }
        "turn.calls" | "closing.calls" => {
            format!("turn = [{{ calls = [{{ tool = \"t\", {UNKNOWN} }}] }}]\n")
        }
        table => drawn(&format!("{table}.{UNKNOWN}")),
    };
    let error = Loader::default()
        .scenario_from_toml("s.toml", &format!("name = \"s\"\n{text}"))
        .expect_err("the key is unknown");
    let hint = error.hint.as_deref().unwrap_or_default();
    let listed = hint
        .strip_prefix("valid keys: ")
        .unwrap_or_else(|| panic!("{table}: {error}"));
    listed.split(", ").map(str::to_owned).collect()
}

#[test]
fn no_key_of_the_format_is_without_its_entry() {
    let cases = cases();
    let mut known = Vec::new();
    for table in TABLES {
        for key in known_keys(table) {
            known.push(match table {
                "" => key,
                table => format!("{table}.{key}"),
            });
        }
    }
    assert!(known.len() > 90, "{}", known.len());
    let has_entry = |key: &str| {
        // What a closing turn calls is read by what reads the calls of any turn.
        let key = key.replace("closing.calls.", "turn.calls.");
        TABLES.contains(&key.as_str())
            || SAID.contains(&key.as_str())
            || cases.iter().any(|case| case.key == key)
    };
    let missing: Vec<&String> = known.iter().filter(|key| !has_entry(key)).collect();
    assert!(missing.is_empty(), "without an entry: {missing:?}");
    let stale: Vec<&str> = cases
        .iter()
        .map(|case| case.key)
        .filter(|key| !known.iter().any(|known| known == key))
        .collect();
    assert!(stale.is_empty(), "no longer keys: {stale:?}");
}

#[test]
fn the_name_of_a_scenario_addresses_its_luck() {
    let draws = |name: &str| {
        let text = drawn(&[("model.demand", "{ dist = \"geometric\", mean = 50 }")]);
        let scenario = Loader::default()
            .scenario_from_toml("s.toml", &format!("name = \"{name}\"\n{text}"))
            .unwrap();
        tally(&scenario, &free(), 50).sums.evidence
    };
    assert_eq!(draws("a"), draws("a"));
    assert_ne!(draws("a"), draws("b"));
}

mod billing {
    use super::*;

    const ATTEMPT: &str = "family = \"run_limits\"\nattempts = 1\nlimits = {}";

    /// Charge and seconds of one attempt that meets this fault, with 1,000 tokens of input at 1 and
    /// 100 of output at 5 (300 where the model would have answered).
    fn fault(kind: &str, demand: &str, policy: &Policy) -> (i128, i64) {
        let key = format!("model.faults.{kind}");
        let text = drawn(&[
            (key.as_str(), "1"),
            ("model.faults.billed", "0.25"),
            ("model.demand", demand),
        ]);
        let run = record(&scenario(&text), policy);
        assert_eq!(run.model_calls, 1, "{kind}");
        assert_eq!(run.outcome, Outcome::Unanswered);
        assert_eq!(run.billed, run.ledger);
        (run.billed.picos() / 1_000_000, run.duration / 1_000_000)
    }

    #[test]
    fn a_refused_request_is_billed_its_share_and_one_that_was_worked_on_its_input() {
        let policy = policy(ATTEMPT);
        for kind in ["transient", "permanent", "protocol", "rate_limit"] {
            assert_eq!(fault(kind, "6", &policy), (250, 2), "{kind}");
        }
        assert_eq!(fault("transient_after_output", "6", &policy), (1250, 2));
        assert_eq!(fault("transient_after_output", "0", &policy), (1750, 2));
        assert_eq!(fault("stall", "6", &policy), (1250, 600));
        assert_eq!(fault("empty", "6", &policy), (1000, 2));
    }

    #[test]
    fn a_stall_lasts_as_long_as_the_idle_timeout() {
        let policy = policy(
            "family = \"usage_limits\"\nretry_attempts = 1\nlimits = { streamIdleTimeoutMs = 90000 }",
        );
        assert_eq!(fault("stall", "6", &policy), (1250, 90));
    }

    #[test]
    fn a_fault_reads_the_cache_as_any_request_does() {
        let text = drawn(&[
            ("model.cache_hit", "1"),
            ("model.price.cached_input_per_mtok", "0"),
            ("model.price.cache_write_per_mtok", "2"),
            ("model.faults.empty", "1"),
        ]);
        let policy = policy("family = \"run_limits\"\nattempts = 2\nlimits = {}");
        let run = record(&scenario(&text), &policy);
        // All of it is written by the first request and read by the second.
        assert_eq!((run.written_tokens, run.cached_tokens), (1000, 1000));
        assert_eq!(run.billed.picos(), 2_000_000_000);
    }

    #[test]
    fn a_refused_request_leaves_the_cache_as_it_was() {
        let text = drawn(&[("model.cache_hit", "1"), ("model.faults.transient", "0.5")]);
        let tally = tally(&scenario(&text), &free(), 100);
        let sums = &tally.sums;
        // Whatever was retried, each token of an answered run was written once.
        assert!(sums.written_tokens <= 4600 * 100);
        assert_eq!(sums.input_tokens, sums.written_tokens + sums.cached_tokens);
    }

    #[test]
    fn without_a_cache_all_input_is_billed_at_its_own_price_and_a_miss_at_the_write_price() {
        let price = ("model.price.cache_write_per_mtok", "2");
        let billed = |cache: &str| {
            let text = drawn(&[price, ("model.cache_hit", cache), ("model.demand", "0")]);
            record(&scenario(&text), &free()).billed.picos() / 1_000_000
        };
        assert_eq!(billed(""), 1000 + 1500);
        assert_eq!(billed("0"), 2000 + 1500);
    }

    #[test]
    fn the_ledger_knows_no_price_tier_and_no_tool_cost() {
        let text = drawn(&[
            ("model.long_context.above_tokens", "1"),
            ("model.long_context.input_multiplier", "2"),
        ]);
        for policy in [free(), usage_limits(""), caps("max_turns = 100")] {
            let run = record(&scenario(&text), &policy);
            assert_eq!(run.ledger.to_f64(), 0.0241);
            assert_eq!(run.billed.to_f64(), 0.0241 + 0.0196 + 0.06);
        }
    }

    #[test]
    fn a_model_without_a_price_and_a_cap_on_money_is_an_error() {
        let text = drawn(&[
            ("model.price.input_per_mtok", ""),
            ("model.price.output_per_mtok", ""),
        ]);
        let scenario = scenario(&text);
        let capped = [run_limits("max_cost = \"5\"")];
        let error = holdback_sim::workload::Prepared::new(&scenario, &capped, 7).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("without any price"), "{message}");
        assert_eq!(record(&scenario, &free()).outcome, Outcome::Answered);
    }
}

mod turns {
    use super::*;

    #[test]
    fn a_cut_turn_writes_exactly_the_cap_and_is_no_answer() {
        let text = drawn(&[
            ("model.demand", "0"),
            ("model.reasoning_tokens", "80"),
            ("model.max_output_tokens", "200"),
        ]);
        for policy in [free(), usage_limits(""), caps("max_turns = 9")] {
            let run = record(&scenario(&text), &policy);
            assert_eq!((run.output_tokens, run.reasoning_tokens), (200, 80));
            assert_eq!(
                (run.outcome, run.cause),
                (Outcome::Partial, Cause::Truncated)
            );
        }
    }

    #[test]
    fn a_turn_whose_reasoning_takes_the_whole_cap_says_nothing() {
        let text = drawn(&[
            ("model.demand", "0"),
            ("model.reasoning_tokens", "500"),
            ("model.max_output_tokens", "200"),
        ]);
        let run = record(&scenario(&text), &usage_limits(""));
        assert_eq!((run.output_tokens, run.reasoning_tokens), (200, 200));
        let truncated = Cause::Engine(Reason::OutputTruncated);
        assert_eq!((run.outcome, run.cause), (Outcome::Unanswered, truncated));
    }

    #[test]
    fn an_overflow_is_a_cause_of_its_own_in_every_family_and_free() {
        let text = drawn(&[("model.context_window", "900")]);
        for policy in [free(), usage_limits(""), caps("max_turns = 9")] {
            let run = record(&scenario(&text), &policy);
            let overflow = Cause::Engine(Reason::ContextOverflow);
            assert_eq!((run.outcome, run.cause), (Outcome::Unanswered, overflow));
            assert_eq!((run.billed, run.model_calls), (Money::ZERO, 1));
        }
    }

    #[test]
    fn the_next_input_is_this_one_with_what_was_written_and_what_came_back() {
        let text = drawn(&[
            ("model.demand", "1"),
            ("model.reasoning_tokens", "70"),
            ("tools.error", "1"),
        ]);
        let run = record(&scenario(&text), &run_limits("max_steps = 3"));
        // Reasoning is not sent back; the results of failed calls are.
        assert_eq!(run.input_tokens, 1000 + 1600 + 2200);
    }

    #[test]
    fn a_tool_without_news_brings_none_not_even_first() {
        let text = drawn(&[("tools.novelty", "0")]);
        let run = record(&scenario(&text), &run_limits("max_steps = 5"));
        assert_eq!((run.evidence, run.tool_calls), (0, 5));
    }

    #[test]
    fn a_demand_of_turns_is_met_by_turns_whatever_they_bring() {
        let text = drawn(&[
            ("model.demand", "{ turns = 4 }"),
            ("model.batch", "3"),
            ("tools.novelty", "0"),
        ]);
        let run = record(&scenario(&text), &free());
        assert_eq!(run.outcome, Outcome::Answered);
        assert_eq!((run.steps, run.tool_calls, run.evidence), (5, 12, 0));
    }

    #[test]
    fn kinds_of_runs_are_drawn_by_their_weights() {
        let kinds = "[{ name = \"short\", weight = 1, demand = 1 }, { name = \"long\", weight = 3, demand = 5 }]";
        let text = drawn(&[("kinds", kinds)]);
        let runs = 2000;
        let evidence = tally(&scenario(&text), &free(), runs).sums.evidence as f64 / runs as f64;
        // 1/4 x 1 + 3/4 x 5, with a standard deviation of 4 sqrt(3/16) a run.
        assert!(
            (evidence - 4.0).abs() < 4.0 * 1.74 / (runs as f64).sqrt(),
            "{evidence}"
        );
    }

    #[test]
    fn a_repeated_call_brings_what_the_call_that_it_repeats_brought() {
        // Half of the calls fail, and then the next fresh one does not; repeats copy either result, so
        // that as many results as there are fresh successes have digests of their own.
        let text = drawn(&[
            ("model.demand", "\"endless\""),
            ("model.habits.repeat_call", "0.5"),
            ("tools.error", "0.5"),
            ("tools.error_after_error", "0"),
        ]);
        let policy = usage_limits("maxToolCalls = 60, maxNoNewEvidenceCalls = 1");
        for number in 0..20 {
            let run = common::watched(&scenario(&text), &policy, number, &mut ());
            // The engine trips at the first success that is not new, whatever failed before.
            assert_eq!(run.cause, Cause::Engine(Reason::Exploration), "{number}");
            let mut results = Results::default();
            common::watched(&scenario(&text), &policy, number, &mut results);
            let (last, before) = results.0.split_last().unwrap();
            assert!(before.contains(last), "{number}");
            assert_eq!(run.evidence, before.len() as u64);
        }
    }

    #[derive(Default)]
    struct Results(Vec<holdback_engine::protocol::Digest>);

    impl holdback_engine::protocol::Observer for Results {
        const ACTIVE: bool = false;
        fn decided(&mut self, _decision: holdback_engine::protocol::Decision) {}
    }

    impl holdback_sim::driver::Witness for Results {
        fn ran(
            &mut self,
            _now: i64,
            _call: &holdback_engine::protocol::Call,
            ran: &holdback_sim::world::Ran,
            _recovered: bool,
        ) {
            self.0.extend(ran.result.digest);
        }
    }

    #[test]
    fn a_model_that_has_enough_answers_also_where_it_would_write_nothing_without_tools() {
        let text = drawn(&[
            ("model.compliance.tools_withheld", "0"),
            ("model.demand", "2"),
        ]);
        let inside = caps("max_turns = 3, on_exhausted = \"final_turn_inside\"");
        assert_eq!(record(&scenario(&text), &inside).outcome, Outcome::Answered);
    }

    #[test]
    fn a_model_in_a_window_records_once_what_it_owes_and_then_answers() {
        let text = drawn(&[("model.demand", "\"endless\"")]);
        let policy = |allow: &str, evidence: &str| {
            policy(&format!(
                "family = \"usage_limits\"\n{evidence}\nlimits = {{ maxTurns = 30, maxToolCalls = 20, finalizationWindow = {{ reserveCalls = 16, allow = [{allow}] }} }}"
            ))
        };
        let all = record(&scenario(&text), &policy("\"record_evidence\"", ""));
        assert_eq!(
            (all.evidence, all.evidence_entries, all.model_calls),
            (4, 4, 6)
        );
        let owed = policy("\"record_evidence\"", "evidence = { min_entries = 2 }");
        let owed = record(&scenario(&text), &owed);
        assert_eq!((owed.evidence_entries, owed.model_calls), (2, 6));
        // Where recording is not admitted the model does not insist.
        let refused = record(&scenario(&text), &policy("", ""));
        assert_eq!((refused.refused_calls, refused.model_calls), (4, 6));
        for run in [all, owed, refused] {
            assert_eq!(run.outcome, Outcome::Answered);
        }
    }

    #[test]
    fn an_answer_without_tools_is_a_text_also_where_the_policy_has_a_terminal_tool() {
        let text = drawn(&[("model.demand", "\"endless\"")]);
        let policy = policy(
            "family = \"usage_limits\"\nterminal_tool = { name = \"finish\" }\nlimits = { maxToolCalls = 3, finalizationReserve = {} }",
        );
        let run = record(&scenario(&text), &policy);
        let limit = Cause::Engine(Reason::MaxToolCalls);
        assert_eq!((run.outcome, run.cause), (Outcome::Partial, limit));
        let asked = record(&scenario(&drawn(&[])), &policy);
        assert_eq!(asked.cause, limit);
        let enough = record(&scenario(&drawn(&[("model.demand", "2")])), &policy);
        assert_eq!(enough.outcome, Outcome::Answered);
    }

    #[test]
    fn a_denied_call_may_be_repeated_and_then_ends_a_run() {
        let text = drawn(&[
            ("model.demand", "\"endless\""),
            ("tools.denied", "1"),
            ("model.habits.repeat_call", "1"),
        ]);
        let run = record(&scenario(&text), &free());
        assert_eq!(run.cause, Cause::Engine(Reason::RepeatedDenial));
        assert_eq!((run.denied_calls, run.tool_calls), (3, 0));
    }
}

mod scripts {
    use super::*;

    fn of(text: &str, policy: &Policy) -> holdback_sim::tally::RunRecord {
        record(&scenario(text), policy)
    }

    #[test]
    fn each_end_of_a_script_goes_on_in_its_own_way() {
        let end = |word: &str| {
            let text = format!("on_end = \"{word}\"\nturn = [{{ calls = {{ s = 2 }} }}]");
            of(&text, &run_limits("max_steps = 6"))
        };
        assert_eq!(
            (end("answer").outcome, end("answer").steps),
            (Outcome::Answered, 2)
        );
        assert_eq!((end("hungry").steps, end("hungry").evidence), (6, 12));
        // The same arguments bring the same results, and the fifth time is a loop.
        let repeat = end("repeat");
        assert_eq!(repeat.cause, Cause::Engine(Reason::ToolLoopDetected));
        assert_eq!((repeat.steps, repeat.evidence), (5, 2));
        assert_eq!(end("stop").cause, Cause::Engine(Reason::EmptyModelTurn));
    }

    #[test]
    fn each_scripted_fault_is_what_it_is_called() {
        let fault = |word: &str| {
            let text = format!(
                "turn = [{{ fault = \"{word}\", cost_usd = 1, latency_s = 3 }}, {{ answer = \"done\" }}]"
            );
            of(&text, &free())
        };
        for (word, requests, seconds) in [
            ("transient", 2, 3),
            ("rate_limit", 2, 3),
            ("empty", 2, 3),
            ("stall", 2, 600),
        ] {
            let run = fault(word);
            assert_eq!(
                (run.outcome, run.model_calls),
                (Outcome::Answered, requests),
                "{word}"
            );
            assert_eq!(
                (run.billed.to_f64(), run.duration),
                (1.0, seconds * 1_000_000)
            );
        }
        let reason = |word: &str| fault(word).cause;
        assert_eq!(
            reason("transient_after_output"),
            Cause::Engine(Reason::MaxAttemptsExceeded)
        );
        assert_eq!(
            reason("permanent"),
            Cause::Engine(Reason::ModelPermanentError)
        );
        assert_eq!(
            reason("protocol"),
            Cause::Engine(Reason::ModelPermanentError)
        );
        assert_eq!(fault("truncated").outcome, Outcome::Partial);
    }

    #[test]
    fn an_obeying_model_ignores_a_fault_that_is_scripted_where_it_was_told_to_finish() {
        let text = "turn = [{ calls = [\"s\"] }, { fault = \"permanent\", cost_usd = 2 }]";
        let run = of(
            text,
            &run_limits("max_steps = 2, synthesis_reserve_steps = 1"),
        );
        assert_eq!((run.outcome, run.billed.to_f64()), (Outcome::Answered, 2.0));
    }

    #[test]
    fn raw_arguments_decide_under_run_limits_and_canonical_ones_under_usage_limits() {
        let text = "turn = [{ calls = [{ tool = \"s\", args = { a = 1, b = 2 }, raw_args = \"{\\\"a\\\":1,\\\"b\\\":2}\" }, { tool = \"s\", args = { b = 2, a = 1 }, raw_args = \"{\\\"b\\\":2,\\\"a\\\":1}\" }] }]";
        let twice = policy("family = \"run_limits\"\nidentical_calls = 2\nlimits = {}");
        assert_eq!(of(text, &twice).outcome, Outcome::Answered);
        let once = usage_limits("maxRepeatedToolSignature = 1");
        assert_eq!(of(text, &once).denied_calls, 1);
    }

    #[test]
    fn reporting_and_a_told_pause_hold_for_scripts_as_well() {
        let text = |model: &str| {
            format!(
                "{model}\nturn = [{{ fault = \"rate_limit\" }}, {{ answer = \"done\", cost_usd = 1 }}]"
            )
        };
        let plain = of(&text(""), &usage_limits(""));
        assert_eq!((plain.ledger.to_f64(), plain.duration), (1.0, 500_000));
        let half = of(&text("model.reporting.factor = 0.5"), &usage_limits(""));
        assert_eq!((half.ledger.to_f64(), half.billed.to_f64()), (0.5, 1.0));
        let lost = of(&text("model.reporting.missing = 1"), &usage_limits(""));
        assert_eq!(
            (lost.ledger, lost.outcome),
            (Money::ZERO, Outcome::Answered)
        );
        let told = of(&text("model.faults.retry_after_s = 40"), &usage_limits(""));
        assert_eq!(told.duration, 40_000_000);
    }

    #[test]
    fn results_are_unread_if_the_run_ends_behind_them() {
        let script: fn(&str) -> Scenario = scenario;
        let hungry = script("on_end = \"hungry\"\nturn = [{ calls = { s = 2 } }]");
        let run = record(&hungry, &run_limits("max_model_calls = 3"));
        assert_eq!(
            (run.model_calls, run.tool_calls, run.unread_results),
            (3, 6, 2)
        );
        let reserved = caps("max_model_calls = 3, on_exhausted = \"final_turn_inside\"");
        let run = record(&hungry, &reserved);
        assert_eq!(
            (run.tool_calls, run.unread_results, run.outcome),
            (4, 0, Outcome::Answered)
        );
    }
}
