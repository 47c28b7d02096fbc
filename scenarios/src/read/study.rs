//! Study files.

use std::path::{Path, PathBuf};

use super::Loader;
use super::error::FileError;
use super::expand::{MAX_CELLS, Source, baseline, expand};
use super::fields::Field;
use super::policy::policy_table;
use super::tree::{Kind, Node};
use crate::library;
use crate::scenario::Scenario;
use crate::study::{Gates, Study};

/// More gates than there are measures make no sense.
const MOST_GATES: usize = 200;

/// The most runs of a cell.
pub(crate) const MAX_RUNS: u64 = 1_000_000_000;
/// What a study takes that gives no number of runs, or no seed.
const DEFAULT_RUNS: u64 = 10_000;
const DEFAULT_SEED: u64 = 7;

/// Reads a study from its document. Files that it names are looked for beside it.
pub(crate) fn study(
    file: &str,
    folder: Option<&Path>,
    root: &Node,
    loader: &Loader,
) -> Result<Study, FileError> {
    let root = Field::root(file, root);
    let mut table = root.table()?;
    table.or("schema", 1, |field| field.integer(1, 1))?;
    let name = table
        .require("name", "the study's name")?
        .name()?
        .to_owned();
    let summary = table.maybe("summary", |field| field.text().map(str::to_owned))?;
    let seed = table.or("seed", DEFAULT_SEED, |field| {
        field.count(0, i64::MAX as u64)
    })?;
    let runs = table.or("runs", DEFAULT_RUNS, |field| field.count(1, MAX_RUNS))?;
    let scenario_list = table.require("scenarios", "a list of scenarios")?;
    let scenarios = scenarios(&scenario_list, folder, loader)?;
    let mut sources = Vec::new();
    let mut policy_place = root.clone();
    if let Some(field) = table.take("policies") {
        named_policies(&field, folder, &mut sources)?;
        policy_place = field;
    }
    if let Some(field) = table.take("policy") {
        sources.extend(field.list(MAX_CELLS)?.into_iter().map(source));
        policy_place = field;
    }
    if sources.is_empty() {
        return Err(policy_place.error("no policies", "at least one [[policy]]"));
    }
    let wanted = table.take("baseline");
    let gates = table.or("gates", Gates::default(), gates)?;
    table.finish()?;
    let expanded = expand(&sources, &built_in_policy, &library::policy_names())?;
    let baseline = baseline(&expanded.policies, wanted.as_ref(), &policy_place)?;
    let cells = scenarios.len() * expanded.policies.len();
    if cells > MAX_CELLS {
        let found = format!(
            "{} scenarios times {} policies",
            scenarios.len(),
            expanded.policies.len()
        );
        return Err(root.error(found, format!("at most {MAX_CELLS} cells")));
    }
    Ok(Study {
        name,
        summary,
        seed,
        runs,
        scenarios,
        policies: expanded.policies,
        skipped: expanded.skipped,
        baseline,
        gates,
    })
}

/// Scenarios by name, by file, or written out in place.
fn scenarios(
    field: &Field<'_>,
    folder: Option<&Path>,
    loader: &Loader,
) -> Result<Vec<Scenario>, FileError> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for item in field.list(MAX_CELLS)? {
        let scenario = match &item.node.kind {
            Kind::Table(_) => super::scenario::scenario(item.file, item.node, &loader.prices)
                .map_err(|error| inside(&item, error))?,
            Kind::Text(name) => loader
                .scenario_from(&beside(folder, name))
                .map_err(|error| missing_reference(&item, name, error))?,
            _ => return Err(item.wrong("the name or file of a scenario")),
        };
        if scenarios.iter().any(|other| other.name == scenario.name) {
            let found = format!("a second scenario named `{}`", scenario.name);
            return Err(item.error(found, "scenarios of different names"));
        }
        scenarios.push(scenario);
    }
    if scenarios.is_empty() {
        return Err(field.wrong("at least one scenario"));
    }
    Ok(scenarios)
}

/// Policies by name, by file, or written out in place.
fn named_policies(
    field: &Field<'_>,
    folder: Option<&Path>,
    sources: &mut Vec<Source>,
) -> Result<(), FileError> {
    for item in field.list(MAX_CELLS)? {
        match &item.node.kind {
            Kind::Table(_) => sources.push(source(item)),
            Kind::Text(name) => sources.extend(
                policy_sources(&beside(folder, name))
                    .map_err(|error| missing_reference(&item, name, error))?,
            ),
            _ => return Err(item.wrong("the name or file of a policy")),
        }
    }
    Ok(())
}

/// The policy tables of a built-in policy or of a file.
pub(crate) fn policy_sources(wanted: &Wanted) -> Result<Vec<Source>, FileError> {
    if let Some(source) = built_in_policy(&wanted.name) {
        return Ok(vec![source]);
    }
    let (file, root) = wanted.read("policy", &library::policy_names())?;
    let field = Field::root(&file, &root);
    let is_list = |key: &str| {
        root.get(key)
            .is_some_and(|node| matches!(node.kind, Kind::List(_)))
    };
    if is_list("policy") {
        let mut table = field.table()?;
        let list = table.require("policy", "at least one [[policy]]")?;
        table.finish()?;
        return Ok(list.list(MAX_CELLS)?.into_iter().map(source).collect());
    }
    let node = policy_table(&file, &root);
    Ok(vec![Source {
        file,
        path: String::new(),
        node,
    }])
}

/// A policy of the library as a source to extend.
pub(crate) fn built_in_policy(name: &str) -> Option<Source> {
    let (file, node) = library::policy_node(name)?;
    Some(Source {
        file: file.to_owned(),
        path: String::new(),
        node,
    })
}

fn source(field: Field<'_>) -> Source {
    Source {
        file: field.file.to_owned(),
        path: field.path,
        node: field.node.clone(),
    }
}

fn gates(field: &Field<'_>) -> Result<Gates, FileError> {
    let gate = |(name, threshold): (&str, Field<'_>)| {
        Ok((name.to_owned(), threshold.number(-1e12, 1e12)?))
    };
    let gates = field
        .entries(MOST_GATES)?
        .into_iter()
        .map(gate)
        .collect::<Result<_, FileError>>()?;
    Ok(Gates(gates))
}

/// A scenario or policy as the user names it: a built-in name, or a file.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Wanted {
    pub(crate) fn from_name(name: &str) -> Wanted {
        beside(None, name)
    }

    /// True for what looks like a file: it has a folder or one of the two extensions.
    fn is_file(&self) -> bool {
        let path = Path::new(&self.name);
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.components().count() > 1
            || matches!(extension, Some("toml" | "json"))
            || self.path.exists()
    }

    /// Reads the file that is meant.
    pub(crate) fn read(&self, kind: &str, built_in: &[&str]) -> Result<(String, Node), FileError> {
        if !self.is_file() {
            let expected = format!("a built-in {kind} or a .toml or .json file");
            return Err(FileError::of_file(&self.name, "no such name", expected)
                .nearest(&self.name, built_in.iter().copied()));
        }
        super::document(&self.path)
    }
}

fn beside(folder: Option<&Path>, name: &str) -> Wanted {
    let path = match folder {
        Some(folder) => folder.join(name),
        None => PathBuf::from(name),
    };
    Wanted {
        name: name.to_owned(),
        path,
    }
}

/// An error inside a table that stands in another file.
fn inside(item: &Field<'_>, error: FileError) -> FileError {
    let dot = if error.path.is_empty() { "" } else { "." };
    FileError {
        path: format!("{}{dot}{}", item.path, error.path).into(),
        ..error
    }
}

/// A name that means nothing is wrong where it is written; an error inside a file stands there.
fn missing_reference(item: &Field<'_>, name: &str, error: FileError) -> FileError {
    if &*error.file == name && error.line.is_none() && error.path.is_empty() {
        return FileError {
            hint: error.hint,
            ..item.error(
                format!("{} ({})", super::error::quoted(name), error.found),
                error.expected,
            )
        };
    }
    error
}
