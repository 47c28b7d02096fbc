//! Grants of further calls: one gate for three sites (section 6 of the semantics).

use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{GrantSite, Phase};
use super::thresholds::Threshold;
use super::window::Binding;
use crate::protocol::{Action, JournalEntry, Limiter, Notice, Observer, Verdict};

impl<O: Observer> Machine<'_, O> {
    /// Asks for a grant at an expired call.
    pub(super) fn grant_at_expiry(&mut self) -> Option<Action> {
        self.ask_grant(GrantSite::Expiry)
    }

    /// Asks for a grant before a refusal inside the window: only if calls hold it open and the grant
    /// would clear the reserve as configured, not as widened.
    pub(super) fn grant_in_window(&mut self, binding: &Binding) -> Option<Action> {
        let increment = self.config.extension?.increment;
        let window = self.config.window?;
        if binding.dimension != Limiter::ToolCalls {
            return None;
        }
        let after = binding.remaining.saturating_add(increment);
        self.compared(Threshold::WindowCalls, i128::from(after) - 1);
        if after <= window.calls {
            return None;
        }
        self.ask_grant(GrantSite::Window)
    }

    /// Asks for a grant at a boundary where the calls left do not cover the evidence deficit.
    pub(super) fn grant_for_deficit(&mut self) -> Option<Action> {
        let extension = self.config.extension?;
        self.config.max_tool_calls?;
        let deficit = self.state.deficit(self.config);
        let remaining = self.state.cap.saturating_sub(self.state.used());
        if !extension.cover_evidence_deficit || remaining >= deficit {
            return None;
        }
        self.ask_grant(GrantSite::Deficit)
    }

    fn ask_grant(&mut self, site: GrantSite) -> Option<Action> {
        let extension = self.config.extension?;
        self.config.max_tool_calls?;
        if let Some(obstacle) = self.grant_obstacle() {
            self.decided(Verdict::NotGranted, obstacle);
            return None;
        }
        self.state.phase = Phase::Granting(site);
        Some(Action::Journal(JournalEntry::Grant {
            ordinal: self.state.grants + 1,
            cap: self.state.cap.saturating_add(extension.increment),
            trigger: site.limiter(),
        }))
    }

    /// The first of the three gates that says no.
    fn grant_obstacle(&self) -> Option<Because> {
        let extension = self.config.extension?;
        let state = &*self.state;
        if state.grants >= extension.max_extensions {
            let max = extension.max_extensions;
            return Some(Because::counts(
                Limiter::ToolCalls,
                Rule::GrantsExhausted,
                state.grants,
                max,
            ));
        }
        let evidence = state.guards.distinct_results();
        if extension.require_new_evidence && evidence <= state.evidence_at_grant {
            let rule = Rule::GrantNeedsEvidence;
            return Some(Because::counts(
                Limiter::Evidence,
                rule,
                evidence,
                state.evidence_at_grant,
            ));
        }
        let ceiling = self.config.budget.and_then(|budget| budget.ceiling_usd)?;
        let left = state.account.left(ceiling);
        let needed = extension.min_headroom_usd;
        let enough = if needed > 0.0 {
            left >= needed
        } else {
            left > 0.0
        };
        (!enough).then(|| Because::usd(Limiter::Cost, Rule::GrantNeedsHeadroom, left, needed))
    }

    /// The grant is durable: it takes effect.
    pub(super) fn granted(&mut self, site: GrantSite) -> Action {
        let (increment, max_grants) = self.config.extension.map_or((0, 0), |extension| {
            (extension.increment, extension.max_extensions)
        });
        let state = &mut *self.state;
        let remaining_before = state.cap.saturating_sub(state.used());
        state.grants += 1;
        state.cap = state.cap.saturating_add(increment);
        state.evidence_at_grant = state.guards.distinct_results();
        let deficit = state.deficit(self.config);
        state.queue.push_extension(Notice::Extension {
            grant: state.grants,
            max_grants,
            used: state.used(),
            cap: state.cap,
            remaining: state.cap.saturating_sub(state.used()),
            deficit: (site == GrantSite::Deficit).then_some(deficit),
        });
        match site {
            GrantSite::Expiry => {
                let (used, cap) = (self.state.used(), self.state.cap);
                self.told_grant(Rule::GrantAtExpiry, used, cap);
                self.ask_expiry_again()
            }
            GrantSite::Window => {
                let reserve = self.config.window.map_or(0, |window| window.calls);
                self.told_grant(Rule::GrantInWindow, remaining_before + increment, reserve);
                self.admit_after_grant()
            }
            GrantSite::Deficit => {
                self.told_grant(Rule::GrantForDeficit, remaining_before, deficit);
                self.close_boundary()
            }
        }
    }

    fn told_grant(&mut self, rule: Rule, left: u64, right: u64) {
        self.decided(
            Verdict::Granted,
            Because::counts(Limiter::ToolCalls, rule, left, right),
        );
    }
}
