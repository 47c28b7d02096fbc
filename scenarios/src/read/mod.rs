//! Strict readers: TOML or JSON by extension, every mistake one clear line.
//!
//! A document becomes a tree that remembers lines and the digits of numbers; the readers walk it
//! table by table. An unknown key is an error with the nearest valid one, a wrong type says what was
//! found and expected, and everything has a bound, so that a file cannot ask for more than a machine
//! has.

mod error;
mod expand;
mod fields;
mod limits;
mod policy;
mod price;
mod published;
mod quantity;
mod scenario;
mod script;
pub(crate) mod source;
mod study;
pub(crate) mod tree;

use std::path::Path;

use serde_json::Value;

pub use error::{FileError, nearest, printable};
pub(crate) use tree::one_line;

use self::study::Wanted;
use crate::library;
use crate::policy::{Family, Policy};
use crate::price::{ModelPrice, PriceTable};
use crate::scenario::Scenario;
use crate::study::{Skipped, Study};
use fields::Field;
use tree::{Node, Syntax};

/// Reads scenarios, policies and studies by built-in name or file.
#[derive(Clone, Debug)]
pub struct Loader {
    prices: PriceTable,
}

impl Default for Loader {
    fn default() -> Loader {
        Loader {
            prices: library::prices(),
        }
    }
}

impl Loader {
    /// A loader that finds prices in this table before the built-in one.
    pub fn with_prices(table: PriceTable) -> Loader {
        let mut models = table.models().to_vec();
        models.extend_from_slice(library::prices().models());
        Loader {
            prices: PriceTable::new(models),
        }
    }

    /// The prices that a scenario may name.
    pub fn prices(&self) -> &PriceTable {
        &self.prices
    }

    /// A scenario by its built-in name or from a file.
    ///
    /// # Errors
    /// What is wrong with the name or the file.
    pub fn scenario(&self, name_or_file: &str) -> Result<Scenario, FileError> {
        self.scenario_from(&Wanted::from_name(name_or_file))
    }

    fn scenario_from(&self, wanted: &Wanted) -> Result<Scenario, FileError> {
        if let Some((file, node)) = library::scenario_node(&wanted.name) {
            return scenario::scenario(file, &node, &self.prices);
        }
        let (file, node) = wanted.read("scenario", &library::scenario_names())?;
        scenario::scenario(&file, &node, &self.prices)
    }

    /// A policy by its built-in name or from a file, which may hold a sweep of several.
    ///
    /// # Errors
    /// What is wrong with the name or the file.
    pub fn policies(&self, name_or_file: &str) -> Result<(Vec<Policy>, Vec<Skipped>), FileError> {
        let sources = study::policy_sources(&Wanted::from_name(name_or_file))?;
        let expanded = expand::expand(&sources, &study::built_in_policy, &library::policy_names())?;
        Ok((expanded.policies, expanded.skipped))
    }

    /// A study by its built-in name or from a file; the files that it names are looked for beside
    /// it.
    ///
    /// # Errors
    /// What is wrong with the name, the file, or a file that it names.
    pub fn study(&self, name_or_file: &str) -> Result<Study, FileError> {
        if let Some((file, node)) = library::study_node(name_or_file) {
            return study::study(file, None, &node, self);
        }
        let wanted = Wanted::from_name(name_or_file);
        let (file, node) = wanted.read("study", &library::study_names())?;
        study::study(&file, wanted.path.parent(), &node, self)
    }

    /// A scenario from TOML text; `file` is what errors call it.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn scenario_from_toml(&self, file: &str, text: &str) -> Result<Scenario, FileError> {
        scenario::scenario(file, &Node::parse(file, text, Syntax::Toml)?, &self.prices)
    }

    /// A study from TOML text; `file` is what errors call it. Files that it names are looked for
    /// in the working directory.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn study_from_toml(&self, file: &str, text: &str) -> Result<Study, FileError> {
        study::study(file, None, &Node::parse(file, text, Syntax::Toml)?, self)
    }
}

/// Reads back [`Scenario::document`]; `file` is what errors call it.
///
/// # Errors
/// What is wrong with the document.
pub fn scenario_from_json(file: &str, document: &Value) -> Result<Scenario, FileError> {
    scenario::scenario(file, &Node::from_value(document), &library::prices())
}

/// Reads back [`Policy::document`]; `file` is what errors call it.
///
/// # Errors
/// What is wrong with the document.
pub fn policy_from_json(file: &str, document: &Value) -> Result<Policy, FileError> {
    policy::policy(&Field::root(file, &Node::from_value(document)))
}

/// A policy with other values in some of its fields, each named by its dotted path: a limit, or a key
/// that stands beside the limits. `None` removes the table that holds the field, which turns the
/// feature off; `name` becomes the policy's name and `file` is what errors call it.
///
/// # Errors
/// What is wrong with a path or a value; see [`FileError::is_impossible`].
pub fn policy_with(
    file: &str,
    document: &Value,
    name: &str,
    fields: &[(&str, Option<Value>)],
) -> Result<Policy, FileError> {
    let mut changed = document.clone();
    for (field, value) in fields {
        if !set_field(&mut changed, &expand::keys(field), value.as_ref()) {
            let expected = "a path through tables of the policy";
            return Err(FileError::of_file(file, format!("`{field}`"), expected));
        }
    }
    changed["name"] = name.into();
    policy_from_json(file, &changed)
}

/// False if something on the way is no table.
fn set_field(node: &mut Value, keys: &[&str], value: Option<&Value>) -> bool {
    let (Some(table), Some((key, rest))) = (node.as_object_mut(), keys.split_first()) else {
        return false;
    };
    match (rest, value) {
        ([], Some(value)) => {
            table.insert((*key).to_owned(), value.clone());
            true
        }
        ([] | [_], None) => {
            table.shift_remove(*key);
            true
        }
        _ => {
            let inner = table
                .entry((*key).to_owned())
                .or_insert_with(|| Value::Object(serde_json::Map::new()));
            set_field(inner, rest, value)
        }
    }
}

/// True for a field, named by its dotted path, that is an amount of money.
pub fn is_money(field: &str) -> bool {
    limits::is_money(field)
}

/// What a family takes for a limit that is not given, if that is a number.
pub fn default_count(family: Family, limit: &str) -> Option<u64> {
    limits::default_count(family, limit)
}

/// One policy from TOML text, without `extends` and `sweep`; `file` is what errors call it.
///
/// # Errors
/// What is wrong with the text.
pub fn policy_from_toml(file: &str, text: &str) -> Result<Policy, FileError> {
    let root = Node::parse(file, text, Syntax::Toml)?;
    policy::policy(&Field::root(file, &policy::policy_table(file, &root)))
}

/// Reads a price table from a TOML or JSON file: our own format, LiteLLM's
/// `model_prices_and_context_window.json` or the `api.json` of models.dev.
///
/// # Errors
/// What is wrong with the file.
pub fn price_table(path: &Path) -> Result<PriceTable, FileError> {
    let (file, node) = document(path)?;
    any_price_table(&file, &node)
}

/// Reads a price table of any of the formats of [`price_table`] from JSON text; `file` is what errors
/// call it.
///
/// # Errors
/// What is wrong with the text.
pub fn price_table_from_json(file: &str, text: &str) -> Result<PriceTable, FileError> {
    any_price_table(file, &Node::parse(file, text, Syntax::Json)?)
}

fn any_price_table(file: &str, node: &Node) -> Result<PriceTable, FileError> {
    published::price_table(file, node).unwrap_or_else(|| price::price_table(file, node))
}

/// Reads a price table from TOML text; `file` is what errors call it.
///
/// # Errors
/// What is wrong with the text.
pub fn price_table_from_toml(file: &str, text: &str) -> Result<PriceTable, FileError> {
    price::price_table(file, &Node::parse(file, text, Syntax::Toml)?)
}

/// The price that a user names on the command line: a model of the table, or rates a million tokens
/// written as `input=3,output=15`, with `cached_input=` and `cache_write=` where they differ.
///
/// # Errors
/// What is wrong with the text.
pub fn price_spec(spec: &str, prices: &PriceTable) -> Result<ModelPrice, FileError> {
    if let Some(model) = prices.get(spec) {
        return Ok(model.clone());
    }
    const PLACE: &str = "--price";
    if !spec.contains('=') {
        let expected = "the name of a model in the price table, or input=USD,output=USD";
        return Err(
            FileError::of_file(PLACE, error::quoted(spec), expected).nearest(spec, prices.names())
        );
    }
    let mut table = serde_json::Map::new();
    for part in spec.split(',') {
        let Some((key, rate)) = part.split_once('=') else {
            let expected = "a rate such as input=3";
            return Err(FileError::of_file(PLACE, error::quoted(part), expected));
        };
        let key = format!("{}_per_mtok", key.trim());
        if table.insert(key.clone(), rate.trim().into()).is_some() {
            return Err(FileError::of_file(
                PLACE,
                format!("`{key}` twice"),
                "each rate once",
            ));
        }
    }
    let node = Node::from_value(&Value::Object(table));
    Ok(ModelPrice {
        name: spec.to_owned(),
        aliases: Vec::new(),
        provider: String::new(),
        price: scenario::price(&Field::root(PLACE, &node))?,
        long_context: None,
        date: String::new(),
        source: String::new(),
    })
}

/// Reads and parses a file.
fn document(path: &Path) -> Result<(String, Node), FileError> {
    let file = path.display().to_string();
    // A directory or a missing file is the clearer error, so the extension is looked at later.
    source::open(path)?;
    let syntax = Syntax::of(&file)?;
    let node = Node::parse(&file, &source::read_text(path)?, syntax)?;
    Ok((file, node))
}
