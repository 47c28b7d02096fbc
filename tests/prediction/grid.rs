//! The limits under which simulation and replay are compared, from the quantiles of a source.

use holdback_scenarios::{Policy, read};

/// Quantiles of what runs of a source need, left alone.
pub(crate) struct Needs {
    /// Model calls of each run, ascending.
    pub(crate) turns: Vec<u64>,
    /// Tool calls of each run, turns without any counted as one; ascending.
    pub(crate) calls: Vec<u64>,
    /// Bill of each run in millionths of a dollar, ascending.
    pub(crate) micros: Vec<u64>,
}

fn at(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Eighteen ways of limiting turns, tool calls and money, of all three families, with and without
/// reserves; the first one is no limit at all.
pub(crate) fn policies(needs: &Needs) -> Vec<Policy> {
    let turns = |share| at(&needs.turns, share).max(2);
    let calls = |share| at(&needs.calls, share).max(2);
    let cost = |share| format!("{:.6}", at(&needs.micros, share) as f64 / 1e6);
    let money_reserve = format!("{:.6}", at(&needs.micros, 0.5) as f64 / 1e7);
    let run_limits = |name: &str, limits: String, rules: &str| {
        let mut all = String::new();
        for key in ["max_steps", "max_model_calls", "max_tool_calls"] {
            if !limits.contains(&format!("{key} ")) {
                all += &format!("{key} = \"unlimited\", ");
            }
        }
        format!("name = \"{name}\"\nfamily = \"run_limits\"\nlimits = {{ {all}{limits} }}\n{rules}")
    };
    let plain = |name: &str, limits: String| run_limits(name, limits, "");
    let mut texts = vec![plain("no limit", "max_cost = \"1000000\"".to_owned())];
    for (name, share) in [("p30", 0.3), ("p50", 0.5), ("p70", 0.7), ("p90", 0.9)] {
        let limits = format!("max_steps = {}", turns(share));
        texts.push(plain(&format!("steps {name}"), limits));
    }
    for (name, share) in [("p50", 0.5), ("p80", 0.8)] {
        let limits = format!("max_tool_calls = {}", calls(share));
        texts.push(plain(&format!("tool calls {name}"), limits));
    }
    for (name, share) in [("p30", 0.3), ("p50", 0.5), ("p80", 0.8), ("p95", 0.95)] {
        let limits = format!("max_cost = \"{}\"", cost(share));
        texts.push(plain(&format!("cost {name}"), limits));
    }
    texts.push(plain(
        "steps p50, reserve 1",
        format!("max_steps = {}, synthesis_reserve_steps = 1", turns(0.5)),
    ));
    texts.push(plain(
        "tool calls p50, reserve 1",
        format!(
            "max_tool_calls = {}, synthesis_reserve_tool_calls = 1",
            calls(0.5)
        ),
    ));
    texts.push(run_limits(
        "cost p50, reserve, announced",
        format!(
            "max_cost = \"{}\", synthesis_reserve_cost = \"{money_reserve}\"",
            cost(0.5)
        ),
        "rules = { crossing_turn = \"refuse_then_synthesize\" }\n",
    ));
    texts.push(format!(
        "name = \"usage limits: turns p60\"\nfamily = \"usage_limits\"\nlimits = {{ maxTurns = {} }}\n",
        turns(0.6)
    ));
    texts.push(format!(
        "name = \"usage limits: tool calls p60, window\"\nfamily = \"usage_limits\"\nlimits = {{ maxTurns = 10000, maxToolCalls = {}, finalizationWindow = {{ reserveCalls = 1, allow = [] }} }}\n",
        calls(0.6)
    ));
    texts.push(format!(
        "name = \"caps: cost p70\"\nfamily = \"caps\"\nlimits = {{ max_cost_usd = \"{}\", on_exhausted = \"error\" }}\n",
        cost(0.7)
    ));
    texts.push(format!(
        "name = \"caps: turns p40, final turn\"\nfamily = \"caps\"\nlimits = {{ max_turns = {}, on_exhausted = \"final_turn\" }}\n",
        turns(0.4)
    ));
    texts
        .iter()
        .map(|text| read::policy_from_toml("grid", text).unwrap())
        .collect()
}
