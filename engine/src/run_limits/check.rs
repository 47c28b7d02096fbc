//! The hard checks: before an operation, and after its usage was recorded (reference, sections 4
//! and 5).
//!
//! All comparisons of a check are made at once: nearly always, none of them holds.

use super::cause::Cause;
use super::config::Config;
use super::rule::Rule;
use crate::protocol::{Counters, Limiter, Micros, Quantity};

/// The deadline has come.
pub(super) const fn past_deadline(config: &Config, now: Micros) -> bool {
    now >= config.deadline
}

/// Why a step may not start, if it may not: deadline, then cost, then steps. A limit that is
/// reached refuses.
pub(super) fn before_step(config: &Config, used: &Counters, now: Micros) -> Option<Cause> {
    let time = past_deadline(config, now);
    let cost = used.cost >= config.cost;
    let steps = used.steps >= config.steps;
    if !(time | cost | steps) {
        return None;
    }
    let rule = Rule::BeforeStep;
    Some(if time {
        deadline(rule, config, now)
    } else if cost {
        money(rule, config, used)
    } else {
        Cause::counts(rule, Limiter::Steps, used.steps, config.steps)
    })
}

/// Why an attempt may not start, if it may not: deadline, cost, model calls, input tokens, output
/// tokens. A limit that is reached refuses. Tool calls are not looked at.
pub(super) fn before_attempt(config: &Config, used: &Counters, now: Micros) -> Option<Cause> {
    let (input, output) = (tokens(used.usage.input), tokens(used.usage.output));
    let time = past_deadline(config, now);
    let cost = used.cost >= config.cost;
    let model_calls = used.model_calls >= config.model_calls;
    let input_tokens = input >= config.input_tokens;
    let output_tokens = output >= config.output_tokens;
    if !(time | cost | model_calls | input_tokens | output_tokens) {
        return None;
    }
    let rule = Rule::BeforeAttempt;
    Some(if time {
        deadline(rule, config, now)
    } else if cost {
        money(rule, config, used)
    } else if model_calls {
        Cause::counts(
            rule,
            Limiter::ModelCalls,
            used.model_calls,
            config.model_calls,
        )
    } else if input_tokens {
        Cause::counts(rule, Limiter::InputTokens, input, config.input_tokens)
    } else {
        Cause::counts(rule, Limiter::OutputTokens, output, config.output_tokens)
    })
}

/// The first limit that recorded usage has passed, if one has: model calls, tool calls, input
/// tokens, output tokens, cost. Reaching a limit is fine (rl-02118).
///
/// Inside the loop, tool calls can only be above a negative limit, and then the first *model*
/// recording finds it (section 13.6).
pub(super) fn after_recording(config: &Config, used: &Counters) -> Option<Cause> {
    let (input, output) = (tokens(used.usage.input), tokens(used.usage.output));
    let model_calls = used.model_calls > config.model_calls;
    let tool_calls = used.tool_calls > config.tool_calls;
    let input_tokens = input > config.input_tokens;
    let output_tokens = output > config.output_tokens;
    let cost = used.cost > config.cost;
    if !(model_calls | tool_calls | input_tokens | output_tokens | cost) {
        return None;
    }
    let rule = Rule::AfterRecording;
    Some(if model_calls {
        Cause::counts(
            rule,
            Limiter::ModelCalls,
            used.model_calls,
            config.model_calls,
        )
    } else if tool_calls {
        Cause::counts(rule, Limiter::ToolCalls, used.tool_calls, config.tool_calls)
    } else if input_tokens {
        Cause::counts(rule, Limiter::InputTokens, input, config.input_tokens)
    } else if output_tokens {
        Cause::counts(rule, Limiter::OutputTokens, output, config.output_tokens)
    } else {
        money(rule, config, used)
    })
}

const fn money(rule: Rule, config: &Config, used: &Counters) -> Cause {
    Cause {
        rule,
        limiter: Limiter::Cost,
        left: Quantity::Money(used.cost),
        right: Quantity::Money(config.cost),
    }
}

/// The deadline as a cause.
pub(super) const fn deadline(rule: Rule, config: &Config, now: Micros) -> Cause {
    Cause {
        rule,
        limiter: Limiter::Time,
        left: Quantity::Micros(now),
        right: Quantity::Micros(config.deadline),
    }
}

/// Token counts as limits compare them.
pub(super) fn tokens(used: u64) -> i64 {
    i64::try_from(used).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Money;
    use crate::protocol::Usage;
    use crate::run_limits::{Limits, Rules};

    fn limits() -> Limits {
        Limits {
            max_input_tokens: Some(100),
            max_output_tokens: Some(50),
            max_cost: Some(Money::from_dollars(2)),
            ..Limits::default()
        }
    }

    fn used(count: i64, input: u64, output: u64, dollars: i64) -> Counters {
        Counters {
            steps: count,
            model_calls: count,
            tool_calls: 2 * count,
            usage: Usage {
                input,
                output,
                ..Usage::default()
            },
            cost: Money::from_dollars(dollars),
        }
    }

    fn limiter(cause: Option<Cause>) -> Option<Limiter> {
        cause.map(|cause| cause.limiter)
    }

    #[test]
    fn a_reached_limit_refuses_and_a_passed_one_fails() {
        let config = Config::new(&limits(), &Rules::default(), None);
        let reached = used(12, 100, 50, 2);
        assert_eq!(limiter(after_recording(&config, &reached)), None);
        assert_eq!(
            limiter(before_step(&config, &reached, 0)),
            Some(Limiter::Cost)
        );
        assert_eq!(
            limiter(before_step(&config, &used(12, 0, 0, 1), 0)),
            Some(Limiter::Steps)
        );
        assert_eq!(
            limiter(before_attempt(&config, &used(11, 100, 50, 1), 0)),
            Some(Limiter::InputTokens)
        );
        assert_eq!(
            limiter(before_attempt(&config, &used(11, 99, 49, 1), 0)),
            None
        );
    }

    #[test]
    fn after_a_recording_model_calls_come_first_and_cost_last() {
        let config = Config::new(&limits(), &Rules::default(), None);
        let order = [
            (used(13, 101, 51, 3), Limiter::ModelCalls),
            (used(12, 101, 51, 3), Limiter::InputTokens),
            (used(12, 100, 51, 3), Limiter::OutputTokens),
            (used(12, 100, 50, 3), Limiter::Cost),
        ];
        for (used, expected) in order {
            assert_eq!(limiter(after_recording(&config, &used)), Some(expected));
        }
    }

    #[test]
    fn the_deadline_outranks_every_other_limit() {
        let config = Config::new(&limits(), &Rules::default(), Some(5));
        assert_eq!(
            limiter(before_step(&config, &used(12, 0, 0, 2), 5)),
            Some(Limiter::Time)
        );
        assert_eq!(
            limiter(before_attempt(&config, &used(12, 0, 0, 2), 6)),
            Some(Limiter::Time)
        );
        assert_eq!(limiter(before_attempt(&config, &used(1, 0, 0, 1), 4)), None);
    }

    #[test]
    fn a_negative_tool_limit_is_found_by_the_first_recording() {
        let limits = Limits {
            max_tool_calls: -1,
            ..Limits::default()
        };
        let config = Config::new(&limits, &Rules::default(), None);
        let one_model_call = Counters {
            model_calls: 1,
            ..Counters::default()
        };
        assert_eq!(
            limiter(after_recording(&config, &one_model_call)),
            Some(Limiter::ToolCalls)
        );
    }
}
