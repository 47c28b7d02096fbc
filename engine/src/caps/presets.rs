//! Settings under which `caps` behaves as a named framework does when a limit is reached.
//!
//! Read from the frameworks' sources and documentation at the versions named. Requests that a
//! client library makes again are not counted by any of them, so their caps on "requests", "model
//! calls" or "steps" are `max_turns` here, which leaves retries out.

use super::{Batch, ByDimension, Check, CountTurns, Dimension, Limit, Limits, OnExhausted};
use crate::Money;

/// A framework's limits and rules.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What `preset` names.
    pub name: &'static str,
    /// The framework, and the part of it.
    pub framework: &'static str,
    /// The version whose behaviour it is.
    pub version: &'static str,
    /// What happens when the limit is reached, in one or two sentences.
    pub summary: &'static str,
    /// What the framework does that these settings do not.
    pub cannot_carry: &'static [&'static str],
    /// Fields of which at least one has to be given beside the preset, because the framework has
    /// no default; empty if it has one.
    pub needs: &'static [&'static str],
    limits: fn() -> Limits,
}

impl Preset {
    /// The limits object; what a user gives goes over it ([`Limits::over`]).
    pub fn limits(&self) -> Limits {
        (self.limits)()
    }
}

/// All presets, by framework.
pub fn all() -> &'static [Preset] {
    &PRESETS
}

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

const NO_DURABILITY_OF_ITS_OWN: &str =
    "whether state survives a restart is up to the application: set `durable`";

static PRESETS: [Preset; 14] = [
    Preset {
        name: "pydantic-ai",
        framework: "pydantic-ai UsageLimits",
        version: "source of August 2026",
        summary: "50 requests; the 51st raises an exception. A batch that would pass the tool call \
                  limit is refused whole, tokens are compared after a response, money before and \
                  after; an answer that passes them is lost with the exception.",
        cannot_carry: &[
            "counts only tool calls that succeeded; here failed ones count too",
            "with a model it has no price for, it warns and the cost limit does not bind",
            "can count the tokens of a request beforehand (off by default)",
        ],
        needs: &[],
        limits: pydantic_ai,
    },
    Preset {
        name: "langchain-model-call-limit",
        framework: "LangChain ModelCallLimitMiddleware, exit_behavior `end` (default)",
        version: "1.5.2",
        summary: "Before a model call, at the limit, the run ends normally with a fixed message.",
        cannot_carry: &[
            "counts across the runs of a thread (thread_limit)",
            "exit_behavior `error` raises instead: set `on_exhausted` to \"error\"",
        ],
        needs: &["max_turns"],
        limits: langchain_model_call_limit,
    },
    Preset {
        name: "langchain-tool-call-limit",
        framework: "LangChain ToolCallLimitMiddleware, exit_behavior `continue` (default)",
        version: "1.5.2",
        summary: "What fits of a batch runs, every call past the limit gets an error result, and \
                  the model goes on until the graph's recursion limit (10,007 super-steps, which \
                  are 5,004 model turns) raises an exception.",
        cannot_carry: &[
            "counts across the runs of a thread (thread_limit)",
            "tools of the last super-step are not run; here those of the last model turn are",
        ],
        needs: &["max_tool_calls", "max_calls_per_tool"],
        limits: langchain_tool_call_limit,
    },
    Preset {
        name: "langchain-tool-call-limit-end",
        framework: "LangChain ToolCallLimitMiddleware, exit_behavior `end`",
        version: "1.5.2",
        summary: "Nothing of the batch that passes the limit runs: every call of it gets a result \
                  and the run ends normally with a fixed message.",
        cannot_carry: &[
            "counts across the runs of a thread (thread_limit)",
            "with a limit on one tool, a batch that also calls other tools is an error there",
        ],
        needs: &["max_tool_calls", "max_calls_per_tool"],
        limits: langchain_tool_call_limit_end,
    },
    Preset {
        name: "langchain-tool-call-limit-error",
        framework: "LangChain ToolCallLimitMiddleware, exit_behavior `error`",
        version: "1.5.2",
        summary: "Nothing of the batch that passes the limit runs; an exception ends the run.",
        cannot_carry: &["counts across the runs of a thread (thread_limit)"],
        needs: &["max_tool_calls", "max_calls_per_tool"],
        limits: langchain_tool_call_limit_error,
    },
    Preset {
        name: "langgraph",
        framework: "LangGraph recursion_limit",
        version: "default 10,007 (older versions: 25)",
        summary: "Model and tools are a super-step each; the super-step past the limit is not \
                  started and an exception ends the run.",
        cannot_carry: &[
            "graphs with other nodes use up super-steps of their own",
            NO_DURABILITY_OF_ITS_OWN,
        ],
        needs: &[],
        limits: langgraph,
    },
    Preset {
        name: "langgraph-prebuilt",
        framework: "LangGraph prebuilt agent",
        version: "recursion_limit default 10,007 (older versions: 25)",
        summary: "As `langgraph`, but a tool turn for which no super-steps are left is swapped for \
                  a fixed text and the run ends normally.",
        cannot_carry: &[
            "swaps as soon as fewer than 2 steps remain; under an even limit the last tools run \
             here before the fixed text, and do not run there",
            NO_DURABILITY_OF_ITS_OWN,
        ],
        needs: &[],
        limits: langgraph_prebuilt,
    },
    Preset {
        name: "crewai",
        framework: "CrewAI max_iter",
        version: "snapshot of 2026",
        summary: "25 iterations, then one more call without tools for the final answer; an empty \
                  one raises an exception.",
        cannot_carry: &[
            "an empty final answer raises; here it ends the run as a blank (unanswered) one",
        ],
        needs: &[],
        limits: crewai,
    },
    Preset {
        name: "smolagents",
        framework: "smolagents max_steps",
        version: "snapshot of 2026",
        summary: "20 action steps, then one more call without tools for the final answer; the run \
                  carries the state max_steps_error beside the answer.",
        cannot_carry: &[
            "a step whose model call fails counts and the run goes on; here it is retried and then \
             fails the run",
            "the state max_steps_error; here the ending names the limiter",
        ],
        needs: &[],
        limits: smolagents,
    },
    Preset {
        name: "openai-agents",
        framework: "OpenAI Agents SDK max_turns",
        version: "snapshot of 2026",
        summary: "10 model calls; the 11th raises an exception, after the tools of the 10th ran.",
        cannot_carry: &[
            "an error handler may supply a fixed output instead: set `on_exhausted` to \"canned\"",
            "turns of agents that it hands over to count together",
        ],
        needs: &[],
        limits: openai_agents,
    },
    Preset {
        name: "vercel-ai-sdk",
        framework: "Vercel AI SDK stopWhen (stepCountIs)",
        version: "snapshot of 2026, default for agents",
        summary: "20 steps; after the tools of the 20th ran, the run ends with the last step, whose \
                  text may be empty.",
        cannot_carry: &[
            "returns the text of the last step only; here an earlier text stands in for an empty one",
            "conditions and preparations programmed for a step, such as a final step without tools: \
             set `on_exhausted` to \"final_turn_inside\"",
        ],
        needs: &[],
        limits: vercel_ai_sdk,
    },
    Preset {
        name: "claude-agent-sdk",
        framework: "Claude Agent SDK max_turns, max_budget_usd",
        version: "documentation of 2026",
        summary: "Tool-use turns and money are compared between turns, after the batch ran; the run \
                  ends with an error result and no answer. A turn without tools ends the run before \
                  it is compared, so counting model turns gives the same numbers.",
        cannot_carry: &["compaction of the context and calls of subagents join its cost"],
        needs: &["max_turns", "max_cost_usd"],
        limits: claude_agent_sdk,
    },
    Preset {
        name: "swe-agent",
        framework: "SWE-agent per-instance cost limit",
        version: "snapshot of 2026",
        summary: "USD 3 an instance, compared after each call: the call that passes it ends the run \
                  and the work so far is submitted.",
        cannot_carry: &[
            "submits the state of the repository; here the last text is what is delivered",
            "also caps calls: set `max_turns`",
        ],
        needs: &[],
        limits: swe_agent,
    },
    Preset {
        name: "mini-swe-agent",
        framework: "mini-swe-agent step_limit, cost_limit",
        version: "snapshot of 2026",
        summary: "Steps and cost are compared before each query, at >=; LimitsExceeded ends the run \
                  and nothing is submitted.",
        cannot_carry: &["one action a turn; here a turn may call several tools"],
        needs: &["max_turns", "max_cost_usd"],
        limits: mini_swe_agent,
    },
];

fn pydantic_ai() -> Limits {
    Limits {
        max_turns: Limit::At(50),
        batch: Some(Batch::Reject),
        check: ByDimension::all(Check::After).with(Dimension::Cost, Check::Both),
        on_exhausted: ByDimension::all(OnExhausted::Error),
        ..Limits::default()
    }
}

fn langchain_model_call_limit() -> Limits {
    Limits {
        on_exhausted: ByDimension::all(OnExhausted::Canned),
        ..Limits::default()
    }
}

/// Model turns that fit into 10,007 super-steps, of which the model's are every other.
const TURNS_IN_RECURSION_LIMIT: u64 = 10_007 / 2 + 1;

fn langchain_tool_call_limit() -> Limits {
    Limits {
        max_turns: Limit::At(TURNS_IN_RECURSION_LIMIT),
        batch: Some(Batch::Trim),
        on_exhausted: ByDimension::all(OnExhausted::BlockTools),
        ..Limits::default()
    }
}

fn langchain_tool_call_limit_end() -> Limits {
    Limits {
        batch: Some(Batch::Reject),
        on_exhausted: ByDimension::all(OnExhausted::Canned),
        ..Limits::default()
    }
}

fn langchain_tool_call_limit_error() -> Limits {
    Limits {
        batch: Some(Batch::Reject),
        on_exhausted: ByDimension::all(OnExhausted::Error),
        ..Limits::default()
    }
}

fn langgraph() -> Limits {
    Limits {
        max_turns: Limit::At(10_007),
        count_turns: Some(CountTurns::Supersteps),
        on_exhausted: ByDimension::all(OnExhausted::Error),
        ..Limits::default()
    }
}

fn langgraph_prebuilt() -> Limits {
    Limits {
        on_exhausted: ByDimension::all(OnExhausted::Canned),
        ..langgraph()
    }
}

fn crewai() -> Limits {
    Limits {
        max_turns: Limit::At(25),
        batch: Some(Batch::RunAll),
        on_exhausted: ByDimension::all(OnExhausted::FinalTurn),
        ..Limits::default()
    }
}

fn smolagents() -> Limits {
    Limits {
        max_turns: Limit::At(20),
        ..crewai()
    }
}

fn openai_agents() -> Limits {
    Limits {
        max_turns: Limit::At(10),
        batch: Some(Batch::RunAll),
        on_exhausted: ByDimension::all(OnExhausted::Error),
        ..Limits::default()
    }
}

fn vercel_ai_sdk() -> Limits {
    Limits {
        max_turns: Limit::At(20),
        batch: Some(Batch::RunAll),
        on_exhausted: ByDimension::all(OnExhausted::Stop),
        ..Limits::default()
    }
}

fn claude_agent_sdk() -> Limits {
    Limits {
        batch: Some(Batch::RunAll),
        check: ByDimension::all(Check::Before),
        on_exhausted: ByDimension::all(OnExhausted::Error),
        ..Limits::default()
    }
}

fn swe_agent() -> Limits {
    Limits {
        max_cost_usd: Limit::At(Money::from_dollars(3)),
        check: ByDimension::all(Check::After),
        on_exhausted: ByDimension::all(OnExhausted::Stop),
        ..Limits::default()
    }
}

fn mini_swe_agent() -> Limits {
    claude_agent_sdk()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::{Config, Seconds};
    use crate::protocol::ToolId;

    /// The preset, with small values for what it needs.
    fn compile(preset: &Preset) -> Config {
        let mut limits = Limits {
            preset: Some(preset.name.to_owned()),
            ..Limits::default()
        };
        for field in preset.needs {
            match *field {
                "max_turns" => limits.max_turns = Limit::At(4),
                "max_cost_usd" => limits.max_cost_usd = Limit::At(Money::from_dollars(1)),
                "max_tool_calls" => limits.max_tool_calls = Limit::At(4),
                "max_calls_per_tool" => {
                    limits
                        .max_calls_per_tool
                        .insert("search".to_owned(), Limit::At(2));
                }
                other => panic!("{}: {other} is no cap", preset.name),
            }
        }
        limits
            .compile(|_| Some(ToolId(0)))
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn every_preset_compiles_and_says_what_it_models() {
        for preset in all() {
            compile(preset);
            assert!(!preset.summary.is_empty() && !preset.version.is_empty());
            assert!(!preset.cannot_carry.is_empty(), "{}", preset.name);
            assert_eq!(preset.limits().preset, None);
        }
    }

    #[test]
    fn names_are_unique_and_find_their_preset() {
        for preset in all() {
            assert_eq!(
                all()
                    .iter()
                    .filter(|other| other.name == preset.name)
                    .count(),
                1
            );
            assert_eq!(
                find(preset.name).map(|found| found.framework),
                Some(preset.framework)
            );
        }
        assert!(find("crew").is_none());
    }

    #[test]
    fn the_framework_defaults_are_those_of_the_versions_named() {
        for (name, turns) in [
            ("pydantic-ai", 50),
            ("langgraph", 10_007),
            ("langgraph-prebuilt", 10_007),
            ("crewai", 25),
            ("smolagents", 20),
            ("openai-agents", 10),
            ("vercel-ai-sdk", 20),
        ] {
            let limits = find(name).map(Preset::limits).unwrap();
            assert_eq!(limits.max_turns, Limit::At(turns), "{name}");
        }
        let swe_agent = find("swe-agent").map(Preset::limits).unwrap();
        assert_eq!(swe_agent.max_cost_usd, Limit::At(Money::from_dollars(3)));
    }

    #[test]
    fn the_page_on_caps_has_a_row_for_every_preset() {
        let page = include_str!("../../../docs/caps.md");
        for preset in all() {
            let row = format!("| `{}` |", preset.name);
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
    }

    #[test]
    fn own_limits_go_over_those_of_the_preset() {
        let own = Limits {
            preset: Some("crewai".to_owned()),
            max_turns: Limit::At(7),
            max_time_s: Limit::At(Seconds(5)),
            ..Limits::default()
        };
        let config = own.compile(|_| None).unwrap();
        assert_eq!(config.cap(Dimension::Turns), Some(7));
        assert_eq!(config.cap(Dimension::Time), Some(5));
        assert_eq!(config.action(Dimension::Turns), OnExhausted::FinalTurn);
    }
}
