//! Each preset at its limit, with a model that calls two tools a turn while any are offered.

use serde_json::json;

use super::*;

#[test]
fn each_preset_ends_as_its_framework_does() {
    let (done, failed, stopped, canned) = (
        Status::Completed,
        Status::Failed,
        Status::Stopped,
        Status::Canned,
    );
    for (limits, numbers, status) in [
        (json!({"preset": "pydantic-ai"}), (50, 100, 0), failed),
        (
            json!({"preset": "pydantic-ai", "max_tool_calls": 5}),
            (3, 4, 2),
            failed,
        ),
        (
            json!({"preset": "langchain-model-call-limit", "max_turns": 4}),
            (4, 8, 0),
            canned,
        ),
        (
            json!({"preset": "langchain-tool-call-limit", "max_tool_calls": 5}),
            (5_004, 5, 10_003),
            failed,
        ),
        (
            json!({"preset": "langchain-tool-call-limit-end", "max_tool_calls": 5}),
            (3, 4, 2),
            canned,
        ),
        (
            json!({"preset": "langchain-tool-call-limit-error", "max_tool_calls": 5}),
            (3, 4, 2),
            failed,
        ),
        (json!({"preset": "langgraph"}), (5_004, 10_006, 0), failed),
        (
            json!({"preset": "langgraph-prebuilt", "max_turns": 25}),
            (13, 24, 0),
            canned,
        ),
        (json!({"preset": "crewai"}), (26, 50, 0), done),
        (json!({"preset": "smolagents"}), (21, 40, 0), done),
        (json!({"preset": "openai-agents"}), (10, 20, 0), failed),
        (json!({"preset": "vercel-ai-sdk"}), (20, 40, 0), stopped),
        (
            json!({"preset": "claude-agent-sdk", "max_turns": 4}),
            (4, 8, 0),
            failed,
        ),
        (
            json!({"preset": "claude-agent-sdk", "max_cost_usd": "0.35"}),
            (4, 8, 0),
            failed,
        ),
        // Calls of 0.10: the 31st passes USD 3, and its tools do not run.
        (json!({"preset": "swe-agent"}), (31, 60, 0), stopped),
        (
            json!({"preset": "mini-swe-agent", "max_cost_usd": "0.40"}),
            (4, 8, 0),
            failed,
        ),
    ] {
        let outcome = run(limits.clone(), World::hungry(2));
        assert_eq!(
            (outcome.numbers(), outcome.ending.status),
            (numbers, status),
            "{limits}"
        );
    }
}
