//! The built-in scenarios, policies, studies, prices and recorded runs.
//!
//! They are files of the repository, embedded at compile time. They pass the same readers as a
//! user's files; that they do is tested, so a built-in file that does not parse is a defect.
//!
//! Among the studies are public failure reports ([`incident_names`]), each a workload in a few scripted
//! turns with the policies that tell it apart. Four reports of the same collection cannot be expressed
//! yet, because a run has one agent and one kind of model call:
//! - resume attempts rationed by count and not by what each costs (a budget across runs);
//! - a child whose cap trips while its parent waits (a budget shared by parent and child);
//! - a compaction that frees nothing (side calls that shrink the context);
//! - the call that picks the next speaker (side calls beside the agent's own).

use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

use flate2::bufread::GzDecoder;
use holdback_engine::caps::presets::{self, Preset};
use serde_json::json;

use crate::price::PriceTable;
use crate::read::tree::{Node, Syntax};
use crate::read::{FileError, Loader, price_table_from_toml};
use crate::scenario::Scenario;
use crate::study::Study;
use crate::trace;

/// An embedded file: its name and its text.
type Embedded = (&'static str, &'static str);

/// Embeds files of a folder of the library.
macro_rules! embed {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$((
            concat!($folder, "/", $name, ".toml"),
            include_str!(concat!("../library/", $folder, "/", $name, ".toml")),
        )),*]
    };
}

const SCENARIOS: &[Embedded] = embed!("scenarios":
    "scheduled-briefing",
    "facility-research",
    "coding-agent",
    "retail-agent",
    "browser-task",
    "tool-hungry",
    "stubborn",
    "cost-spikes",
    "long-context",
    "cache-misses",
    "overlong-answer",
    "looping",
    "denied-calls",
    "retry-storm",
    "slow-tools",
    "kill-mid-batch",
    "repeated-kills",
    "early-finisher",
    "turns-run-out",
    "evidence-behind",
    "child-short-of-entries",
    "starved-worker",
    "whole-budget-in-one-batch",
    "summary-never-granted",
);

const STUDIES: &[Embedded] = embed!("studies": "default", "usage-limits", "families");

const INCIDENTS: &[Embedded] = embed!("incidents":
    "last-batch-unread",
    "narration-unreserved",
    "denials-loop",
    "same-call-again",
    "cached-tokens-twice",
    "hidden-reasoning",
    "call-never-returns",
    "truncated-not-finished",
    "one-token-too-many",
    "money-in-doubles",
    "continue-raises-nothing",
    "resume-with-tighter-limits",
    "tokens-that-measure-nothing",
    "storm-outlasts-retries",
    "retries-multiply",
    "picture-eats-output",
    "empty-body",
    "price-of-being-safe",
    "talk-deny-talk",
    "forced-to-call",
);

const POLICIES: Embedded = ("policies.toml", include_str!("../library/policies.toml"));

const PRICES: Embedded = ("prices.toml", include_str!("../prices/prices.toml"));

/// Recorded runs for a replay without a file; `sample-runs.md` says where they come from.
const SAMPLE_RUNS: &[u8] = include_bytes!("../library/sample-runs.jsonl.gz");

/// The name of the study that runs when none is named.
pub const DEFAULT_STUDY: &str = "default";

/// A parsed library.
struct Library {
    scenarios: Vec<(&'static str, String, Node)>,
    policies: Vec<(String, Node)>,
    studies: Vec<(&'static str, String, Node)>,
    incidents: Vec<(&'static str, String, Node)>,
    prices: PriceTable,
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library {
        scenarios: SCENARIOS.iter().map(named).collect(),
        policies: policies(),
        studies: STUDIES.iter().map(named).collect(),
        incidents: INCIDENTS.iter().map(named).collect(),
        prices: built_in(price_table_from_toml(PRICES.0, PRICES.1)),
    })
}

/// The tests read every embedded file, so no user meets this panic.
fn built_in<T>(read: Result<T, FileError>) -> T {
    read.unwrap_or_else(|error| panic!("a built-in file is broken: {error}"))
}

fn named(embedded: &Embedded) -> (&'static str, String, Node) {
    let node = built_in(Node::parse(embedded.0, embedded.1, Syntax::Toml));
    (embedded.0, name_of(&node), node)
}

fn name_of(node: &Node) -> String {
    let name = node.get("name").map(Node::to_value);
    name.as_ref()
        .and_then(|name| name.as_str())
        .unwrap_or_default()
        .to_owned()
}

fn policies() -> Vec<(String, Node)> {
    let root = built_in(Node::parse(POLICIES.0, POLICIES.1, Syntax::Toml));
    let of_file = root
        .get("policy")
        .map(Node::items)
        .unwrap_or_default()
        .iter()
        .cloned();
    of_file
        .chain(presets::all().iter().filter_map(policy_of_preset))
        .map(|node| (name_of(&node), node))
        .collect()
}

/// A framework as it is when nobody sets anything; `None` where it then has no limit at all.
fn policy_of_preset(preset: &Preset) -> Option<Node> {
    preset.needs.is_empty().then(|| {
        Node::from_value(&json!({
            "name": preset.name,
            "summary": format!("{}, {}: {}", preset.framework, preset.version, preset.summary),
            "family": "caps",
            "preset": preset.name,
        }))
    })
}

/// The names of the built-in scenarios.
pub fn scenario_names() -> Vec<&'static str> {
    library()
        .scenarios
        .iter()
        .map(|(_, name, _)| name.as_str())
        .collect()
}

/// The names of the built-in policies.
pub fn policy_names() -> Vec<&'static str> {
    library()
        .policies
        .iter()
        .map(|(name, _)| name.as_str())
        .collect()
}

/// The names of the built-in studies.
pub fn study_names() -> Vec<&'static str> {
    library()
        .studies
        .iter()
        .map(|(_, name, _)| name.as_str())
        .collect()
}

/// The names of the built-in studies that restate a public failure report.
pub fn incident_names() -> Vec<&'static str> {
    library()
        .incidents
        .iter()
        .map(|(_, name, _)| name.as_str())
        .collect()
}

/// The built-in scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let loader = Loader::default();
    scenario_names()
        .into_iter()
        .map(|name| built_in(loader.scenario(name)))
        .collect()
}

/// The built-in policies, sweeps written out.
pub fn all_policies() -> Vec<crate::policy::Policy> {
    let loader = Loader::default();
    let of = |name| built_in(loader.policies(name)).0;
    policy_names().into_iter().flat_map(of).collect()
}

/// The study that runs when none is named.
pub fn default_study() -> Study {
    built_in(Loader::default().study(DEFAULT_STUDY))
}

/// The text of a built-in scenario, as a start for one's own.
pub fn scenario_text(name: &str) -> Option<&'static str> {
    let at = library()
        .scenarios
        .iter()
        .position(|(_, other, _)| other == name)?;
    Some(SCENARIOS[at].1)
}

/// The text of a built-in study, as a start for one's own.
pub fn study_text(name: &str) -> Option<&'static str> {
    let (file, _) = study_node(name)?;
    let mut embedded = STUDIES.iter().chain(INCIDENTS);
    embedded
        .find(|(other, _)| *other == file)
        .map(|(_, text)| *text)
}

/// The built-in price table.
pub fn prices() -> PriceTable {
    library().prices.clone()
}

/// A reader of the built-in recorded runs.
pub fn sample_runs() -> trace::Reader<Box<dyn BufRead + Send>> {
    let unpacked = BufReader::new(GzDecoder::new(SAMPLE_RUNS));
    trace::Reader::new("the built-in sample of recorded runs", Box::new(unpacked))
}

pub(crate) fn scenario_node(name: &str) -> Option<(&'static str, Node)> {
    let (file, _, node) = library()
        .scenarios
        .iter()
        .find(|(_, other, _)| other == name)?;
    Some((file, node.clone()))
}

pub(crate) fn study_node(name: &str) -> Option<(&'static str, Node)> {
    let library = library();
    let (file, _, node) = library
        .studies
        .iter()
        .chain(&library.incidents)
        .find(|(_, other, _)| other == name)?;
    Some((file, node.clone()))
}

pub(crate) fn policy_node(name: &str) -> Option<(&'static str, Node)> {
    let (_, node) = library().policies.iter().find(|(other, _)| other == name)?;
    Some((POLICIES.0, node.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Family;

    #[test]
    fn every_built_in_file_is_read_and_named_after_its_file() {
        for (scenario, (file, _)) in scenarios().iter().zip(SCENARIOS) {
            assert_eq!(*file, format!("scenarios/{}.toml", scenario.name));
            assert!(!scenario.summary.is_empty(), "{file}");
            assert!(scenario.source.is_some(), "{file}");
        }
        assert_eq!(scenarios().len(), SCENARIOS.len());
        for name in study_names() {
            assert_eq!(Loader::default().study(name).unwrap().name, name);
        }
        for (name, (file, _)) in incident_names().iter().zip(INCIDENTS) {
            assert_eq!(*file, format!("incidents/{name}.toml"));
            let study = Loader::default().study(name).unwrap();
            assert!(study.skipped.is_empty(), "{file}");
            assert!(study_text(name).unwrap().contains("# Source: "), "{file}");
        }
        assert_eq!(all_policies().len(), policy_names().len());
        for model in prices().models() {
            assert!(
                !model.date.is_empty() && model.source.starts_with("https://"),
                "{model:?}"
            );
        }
    }

    #[test]
    fn names_of_built_ins_differ() {
        let mut names = policy_names();
        names.extend(scenario_names());
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn built_in_documents_read_back_as_what_they_were() {
        for scenario in scenarios() {
            let again = crate::read::scenario_from_json("f", &scenario.document).unwrap();
            assert_eq!(again.document, scenario.document);
            assert_eq!(again, scenario);
        }
        for policy in all_policies() {
            let again = crate::read::policy_from_json("f", &policy.document).unwrap();
            assert_eq!(again, policy);
        }
    }

    #[test]
    fn the_default_study_holds_what_the_incidents_and_the_seeds_name() {
        let study = default_study();
        assert_eq!(study.policies[study.baseline].name, "no reserve");
        assert!(study.skipped.is_empty());
        let of = |name: &str| {
            study
                .policies
                .iter()
                .find(|policy| policy.name == name)
                .unwrap()
        };
        let browser = &of("browser task").limits;
        assert_eq!(browser["max_cost"], "30");
        assert_eq!(browser["synthesis_reserve_cost"], "3");
        let interactive = &of("interactive defaults").limits;
        assert_eq!(
            (&interactive["max_steps"], &interactive["max_tool_calls"]),
            (&32.into(), &64.into())
        );
        let child = &of("delegated child").limits;
        assert_eq!(child["synthesis_reserve_cost"], "0.25");
        let incident = of("32 tool calls, crossing batch fails");
        assert_eq!(incident.family, Family::Caps);
        assert_eq!(incident.limits["batch"], "reject");
    }

    #[test]
    fn a_framework_with_limits_of_its_own_is_a_policy() {
        let (policies, _) = Loader::default().policies("crewai").unwrap();
        assert_eq!(policies[0].family, Family::Caps);
        assert!(
            policies[0]
                .summary
                .as_ref()
                .is_some_and(|summary| summary.contains("CrewAI"))
        );
        assert!(
            !policy_names().contains(&"claude-agent-sdk"),
            "it has no limit of its own"
        );
    }

    #[test]
    fn the_sample_of_recorded_runs_is_fully_costed_and_small() {
        assert!(SAMPLE_RUNS.len() <= 300 * 1024);
        let mut reader = sample_runs();
        let runs: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(runs.len(), 300);
        assert!(
            runs.iter()
                .all(|run| run.turns.iter().all(|turn| turn.cost.is_some()))
        );
        assert!(reader.ignored().is_empty());
    }
}
