//! Price tables.

use super::error::FileError;
use super::fields::{Field, Table};
use super::scenario::{long_context, rates};
use super::tree::Node;
use crate::price::{ModelPrice, PriceTable};

/// The most models and the most aliases of one.
const MAX_MODELS: usize = 10_000;
const MAX_ALIASES: usize = 100;

/// Reads a price table from its document.
pub(crate) fn price_table(file: &str, root: &Node) -> Result<PriceTable, FileError> {
    let root = Field::root(file, root);
    let mut table = root.table()?;
    let field = table.require("model", "at least one [[model]]")?;
    let mut models: Vec<ModelPrice> = Vec::new();
    for field in field.list(MAX_MODELS)? {
        let model = model(field.table()?)?;
        let names = std::iter::once(&model.name).chain(&model.aliases);
        for name in names {
            let taken = |other: &ModelPrice| other.name == *name || other.aliases.contains(name);
            if models.iter().any(taken) {
                return Err(field.error(format!("`{name}` twice"), "different names"));
            }
        }
        models.push(model);
    }
    table.finish()?;
    if models.is_empty() {
        return Err(field.wrong("at least one [[model]]"));
    }
    Ok(PriceTable::new(models))
}

fn model(mut table: Table<'_>) -> Result<ModelPrice, FileError> {
    let owned = |field: &Field<'_>| field.name().map(str::to_owned);
    let name = owned(&table.require("name", "the model's name")?)?;
    let aliases = table.or("aliases", Vec::new(), |field| {
        field.list(MAX_ALIASES)?.iter().map(owned).collect()
    })?;
    let price = rates(&mut table)?;
    let long_context = table.maybe("long_context", |field| long_context(field, Some(&price)))?;
    let model = ModelPrice {
        name,
        aliases,
        provider: table.or("provider", String::new(), owned)?,
        price,
        long_context,
        date: table.or("date", String::new(), owned)?,
        source: table.or("source", String::new(), owned)?,
    };
    table.finish()?;
    Ok(model)
}
