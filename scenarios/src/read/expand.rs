//! From the policy tables of a study to its policies: `extends` and `sweep`.

use holdback_engine::Money;

use super::error::{FileError, nearest, quoted};
use super::fields::Field;
use super::limits;
use super::policy::{BESIDE, policy};
use super::tree::{Kind, Node};
use crate::policy::{Family, Policy};
use crate::study::Skipped;

/// The most cells (scenarios times policies) of a study, and so the most policies of it.
pub(crate) const MAX_CELLS: usize = 10_000;
/// How many policies may extend each other in a chain.
const MAX_CHAIN: usize = 32;

/// Policies and left-out combinations, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) policies: Vec<Policy>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A policy table, where it stands, and the file it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) path: String,
    pub(crate) node: Node,
}

impl Source {
    fn field(&self) -> Field<'_> {
        Field {
            file: &self.file,
            path: self.path.clone(),
            node: &self.node,
        }
    }

    fn name(&self) -> Option<&str> {
        match &self.node.get("name")?.kind {
            Kind::Text(name) => Some(name),
            _ => None,
        }
    }
}

/// Resolves `extends` (among the tables themselves, then built-in ones) and writes out `sweep`.
pub(crate) fn expand(
    sources: &[Source],
    built_in: &dyn Fn(&str) -> Option<Source>,
    built_in_names: &[&str],
) -> Result<Expanded, FileError> {
    let mut expanded = Expanded::default();
    for source in sources {
        let merged = Source {
            node: resolve(source, sources, built_in, built_in_names, MAX_CHAIN)?,
            ..source.clone()
        };
        sweep(&merged, &mut expanded)?;
        if expanded.policies.len() > MAX_CELLS {
            let error = source
                .field()
                .error("more policies", format!("at most {MAX_CELLS}"));
            return Err(error);
        }
    }
    Ok(expanded)
}

/// The table with everything that it extends below it.
fn resolve(
    source: &Source,
    sources: &[Source],
    built_in: &dyn Fn(&str) -> Option<Source>,
    built_in_names: &[&str],
    chain: usize,
) -> Result<Node, FileError> {
    let Some(extends) = source.node.get("extends") else {
        return Ok(source.node.clone());
    };
    let field = Field {
        path: format!("{}.extends", source.path)
            .trim_start_matches('.')
            .to_owned(),
        node: extends,
        file: &source.file,
    };
    let name = field.name()?;
    if chain == 0 {
        return Err(field.error("policies that extend each other", "a chain with an end"));
    }
    // A table may take the name of a built-in one and extend it.
    let other = |other: &&Source| other.name() == Some(name) && other.node != source.node;
    let base = sources
        .iter()
        .find(other)
        .cloned()
        .or_else(|| built_in(name));
    let Some(base) = base else {
        let names = sources
            .iter()
            .filter_map(Source::name)
            .chain(built_in_names.iter().copied());
        return Err(field
            .wrong("the name of another policy")
            .nearest(name, names));
    };
    let mut merged = resolve(&base, sources, built_in, built_in_names, chain - 1)?;
    for key in ["name", "summary", "sweep", "extends"] {
        merged.remove(key);
    }
    let family = |node: &Node| node.get("family").map(|family| family.kind.clone());
    if let (Some(below), Some(own)) = (family(&merged), family(&source.node))
        && below != own
    {
        return Err(field.error(
            format!("{}, a policy of another family", quoted(name)),
            "a policy of the same family",
        ));
    }
    let mut own = source.node.clone();
    own.remove("extends");
    merged.merge(&own);
    merged.line = source.node.line;
    Ok(merged)
}

/// One swept field and its values.
struct Axis<'a> {
    /// The dotted path as the file writes it.
    name: String,
    values: Vec<Field<'a>>,
    /// The values are shares of this field.
    fraction_of: Option<String>,
}

fn sweep(source: &Source, expanded: &mut Expanded) -> Result<(), FileError> {
    let mut table = source.node.clone();
    let Some(sweep_node) = table.remove("sweep") else {
        let field = Field {
            node: &table,
            ..source.field()
        };
        expanded.policies.push(policy(&field)?);
        return Ok(());
    };
    let field = Field {
        file: &source.file,
        path: format!("{}.sweep", source.path)
            .trim_start_matches('.')
            .to_owned(),
        node: &sweep_node,
    };
    let mut axes = Vec::new();
    collect_axes(&field, "", &mut axes)?;
    if axes.is_empty() {
        return Err(field.wrong("at least one field to sweep"));
    }
    let product = axes.iter().try_fold(1_usize, |product, axis| {
        product.checked_mul(axis.values.len())
    });
    let Some(product) = product.filter(|product| *product <= MAX_CELLS) else {
        return Err(field.error("more combinations", format!("at most {MAX_CELLS}")));
    };
    let before = expanded.policies.len();
    for number in 0..product {
        combination(source, &table, &axes, number, expanded)?;
    }
    if expanded.policies.len() == before {
        let why = expanded
            .skipped
            .last()
            .map_or(String::new(), |skipped| skipped.reason.clone());
        return Err(field
            .error(
                "no possible combination",
                "at least one that an engine accepts",
            )
            .with_hint(why));
    }
    Ok(())
}

/// Tables inside `sweep` are dotted paths, unless they hold `values`.
fn collect_axes<'a>(
    field: &Field<'a>,
    prefix: &str,
    axes: &mut Vec<Axis<'a>>,
) -> Result<(), FileError> {
    for (key, field) in field.entries(64)? {
        let name = if prefix.is_empty() {
            key.to_owned()
        } else {
            format!("{prefix}.{key}")
        };
        match &field.node.kind {
            Kind::Table(_) if field.node.get("fraction_of").is_some() => {
                let mut table = field.table()?;
                let of = table.require("fraction_of", "the field it is a share of")?;
                let values = table.require("values", "a list of shares")?;
                table.finish()?;
                axes.push(Axis {
                    name,
                    values: values_of(&values)?,
                    fraction_of: Some(of.name()?.to_owned()),
                });
            }
            Kind::Table(_) => collect_axes(&field, &name, axes)?,
            _ => axes.push(Axis {
                name,
                values: values_of(&field)?,
                fraction_of: None,
            }),
        }
    }
    Ok(())
}

fn values_of<'a>(field: &Field<'a>) -> Result<Vec<Field<'a>>, FileError> {
    let values = field.list(MAX_CELLS)?;
    if values.is_empty() {
        return Err(field.wrong("a list of at least one value"));
    }
    Ok(values)
}

/// One policy of a grid; the last field varies fastest.
fn combination(
    source: &Source,
    table: &Node,
    axes: &[Axis<'_>],
    number: usize,
    expanded: &mut Expanded,
) -> Result<(), FileError> {
    let mut left = number;
    let mut chosen: Vec<&Field<'_>> = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        chosen.push(&axis.values[left % axis.values.len()]);
        left /= axis.values.len();
    }
    chosen.reverse();
    let mut node = table.clone();
    // Shares are taken of what the other fields say, so those come first.
    for shares in [false, true] {
        for (axis, value) in axes.iter().zip(&chosen) {
            match &axis.fraction_of {
                None if !shares => put(&mut node, &axis.name, value.node.clone(), value)?,
                Some(of) if shares => {
                    let share = share(&node, &axis.name, of, value)?;
                    put(&mut node, &axis.name, share, value)?;
                }
                _ => {}
            }
        }
    }
    let name = name_of(source, &node, axes)?;
    node.set(
        "name",
        Node {
            line: node.get("name").map_or(0, |name| name.line),
            kind: Kind::Text(name.clone()),
        },
    );
    let field = Field {
        node: &node,
        ..source.field()
    };
    match policy(&field) {
        Ok(policy) => expanded.policies.push(policy),
        Err(error) if error.impossible => expanded.skipped.push(Skipped {
            name,
            reason: format!(
                "{}: found {}, expected {}",
                error.path, error.found, error.expected
            ),
        }),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The keys from the policy table down to a swept field.
pub(crate) fn keys(name: &str) -> Vec<&str> {
    let keys: Vec<&str> = name.split('.').collect();
    if BESIDE.contains(&keys[0]) {
        return keys;
    }
    std::iter::once("limits").chain(keys).collect()
}

fn lookup<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    keys(name)
        .into_iter()
        .try_fold(node, |node, key| node.get(key))
}

fn put(node: &mut Node, name: &str, value: Node, at: &Field<'_>) -> Result<(), FileError> {
    if node.set_path(&keys(name), value) {
        return Ok(());
    }
    Err(at.error(format!("the path `{name}`"), "a path through tables"))
}

/// A share of another field: of money exact, rounded up to 1e-12 USD; of counts rounded up.
fn share(node: &Node, name: &str, of: &str, value: &Field<'_>) -> Result<Node, FileError> {
    const UNIT: i128 = 1_000_000_000_000;
    let wrong = |error: FileError| FileError {
        expected: "a share from 0 to 1 with at most 12 decimals".into(),
        ..error
    };
    let share = value.money().map_err(wrong)?.picos();
    if share > UNIT {
        return Err(wrong(value.wrong("")));
    }
    let whole = whole(node, of).ok_or_else(|| {
        value.error(
            format!("a share of `{of}`, which is not a limited amount here"),
            "a share of a limit that the policy sets",
        )
    })?;
    let Some(product) = whole.picos().checked_mul(share) else {
        return Err(value.error(format!("a share of {whole}"), "a share of a smaller amount"));
    };
    let up = |product: i128, by: i128| product / by + i128::from(product % by != 0);
    let text = if limits::is_money(name) {
        Money::from_picos(up(product, UNIT)).to_string()
    } else {
        up(up(product, UNIT), UNIT).to_string()
    };
    Ok(Node {
        line: value.node.line,
        kind: Kind::Number(text),
    })
}

/// What a share is taken of: the field's own value, else the family's default.
fn whole(node: &Node, of: &str) -> Option<Money> {
    match lookup(node, of).map(|node| &node.kind) {
        Some(Kind::Number(digits) | Kind::Text(digits)) => Money::parse_exact(digits).ok(),
        Some(_) => None,
        None => {
            let limits = Field {
                file: "",
                path: String::new(),
                node: node.get("limits")?,
            };
            let family = match node.get("family").map(|family| &family.kind) {
                Some(Kind::Text(word)) => Family::ALL.into_iter().find(|f| f.as_str() == word),
                _ => limits::of_limits(&limits).ok(),
            };
            let count = limits::default_count(family?, of)?;
            Some(Money::from_dollars(i64::try_from(count).ok()?))
        }
    }
}

/// The name of a combination: the template with its fields filled in, the others appended.
fn name_of(source: &Source, node: &Node, axes: &[Axis<'_>]) -> Result<String, FileError> {
    let text = |name: &str| lookup(node, name).map_or_else(String::new, shown);
    let template = match node.get("name") {
        Some(name) => Field {
            file: &source.file,
            path: format!("{}.name", source.path)
                .trim_start_matches('.')
                .to_owned(),
            node: name,
        },
        None => {
            let field = source.field();
            field.table()?.require("name", "the policy's name")?
        }
    };
    let mut rest = template.name()?;
    let mut name = String::new();
    let mut used = Vec::new();
    while let Some((before, after)) = rest.split_once('{') {
        name.push_str(before);
        let Some((field, after)) = after.split_once('}') else {
            return Err(template.wrong("a name in which every `{` has its `}`"));
        };
        if !axes.iter().any(|axis| axis.name == field) {
            let error = template.error(format!("`{{{field}}}`"), "a field of `sweep`");
            return Err(error.nearest(field, axes.iter().map(|axis| axis.name.as_str())));
        }
        name.push_str(&text(field));
        used.push(field);
        rest = after;
    }
    name.push_str(rest);
    for axis in axes {
        if !used.contains(&axis.name.as_str()) {
            name.push_str(&format!("-{}={}", axis.name, text(&axis.name)));
        }
    }
    Ok(name)
}

/// A value as it stands in a name.
fn shown(node: &Node) -> String {
    match &node.kind {
        Kind::Text(text) => text.clone(),
        Kind::Number(digits) => digits.clone(),
        _ => node.to_value().to_string(),
    }
}

/// Refuses two policies of one name, and a baseline that is not there.
pub(crate) fn baseline(
    policies: &[Policy],
    wanted: Option<&Field<'_>>,
    at: &Field<'_>,
) -> Result<usize, FileError> {
    for (index, policy) in policies.iter().enumerate() {
        if policies[..index]
            .iter()
            .any(|other| other.name == policy.name)
        {
            let found = format!("two policies named {}", quoted(&policy.name));
            return Err(at.error(found, "policies of different names"));
        }
    }
    let Some(field) = wanted else {
        return Ok(0);
    };
    let name = field.text()?;
    policies
        .iter()
        .position(|policy| policy.name == name)
        .ok_or_else(|| {
            let error = field.wrong("the name of a policy of the study");
            match nearest(name, policies.iter().map(|policy| policy.name.as_str())) {
                Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                None => error,
            }
        })
}
