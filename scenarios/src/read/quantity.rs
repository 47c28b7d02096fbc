//! Quantities: a number, or a table with `dist` and its parameters.

use super::error::FileError;
use super::fields::{Field, Table};
use crate::dist::{Dist, DistError, Quantity, Shape};

/// How many values or parts a distribution may list.
const MAX_LISTED: usize = 100_000;
/// How deep mixtures may nest.
const MAX_MIXTURES: usize = 4;

/// The names of the distributions.
pub(crate) const DISTRIBUTIONS: [&str; 9] = [
    "constant",
    "uniform",
    "lognormal",
    "exponential",
    "pareto",
    "geometric",
    "poisson",
    "empirical",
    "mixture",
];

/// Reads a quantity whose values lie from 0 to `most`. A number beyond is refused; the draws of a
/// distribution are clamped there.
pub(crate) fn quantity(field: &Field<'_>, most: f64) -> Result<Quantity, FileError> {
    if field.node.get("dist").is_none() {
        return match field.number(0.0, most) {
            Ok(value) => Ok(Quantity::Fixed(value)),
            Err(_) if field.table().is_ok() => {
                let mut table = field.table()?;
                table.require("dist", "the name of a distribution")?;
                table.finish()?;
                Err(field.wrong("a number or a distribution"))
            }
            Err(error) => Err(FileError {
                expected: format!("{} or a distribution", error.expected).into(),
                ..error
            }),
        };
    }
    let dist = distribution(field, most, MAX_MIXTURES, &[])?;
    if dist.lowest() < 0.0 {
        return Err(field
            .error(
                format!("draws down to {}", dist.lowest()),
                "draws not below 0",
            )
            .with_hint("`min = 0` clamps them"));
    }
    if dist.lowest() > most {
        let found = format!("draws not below {}", dist.lowest());
        return Err(field.error(found, format!("draws not above {most}")));
    }
    Ok(match dist.shape() {
        Shape::Constant { .. } => Quantity::Fixed(dist.quantile(0.5)),
        _ => Quantity::Drawn(dist),
    })
}

/// `extra` are keys that the surrounding table reads itself.
fn distribution(
    field: &Field<'_>,
    most: f64,
    mixtures: usize,
    extra: &[&'static str],
) -> Result<Dist, FileError> {
    let mut table = field.table()?;
    for key in extra {
        table.take(key);
    }
    let kind = table.require("dist", "the name of a distribution")?;
    let name = kind.text()?;
    let shape = shape(name, &kind, &mut table, most, mixtures)?;
    let min = match shape {
        // Its smallest value is a parameter already.
        Shape::Pareto { .. } => None,
        _ => table.maybe("min", any_number)?,
    };
    let max = table.maybe("max", any_number)?;
    table.finish()?;
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        let found = format!("`min` {min} above `max` {max}");
        return Err(field.error(found, "`min` not above `max`"));
    }
    let max = Some(
        max.unwrap_or(most)
            .min(most)
            .max(min.unwrap_or(f64::NEG_INFINITY)),
    );
    Dist::new(shape, min, max).map_err(|error| invalid(field, &error))
}

fn shape(
    name: &str,
    kind: &Field<'_>,
    table: &mut Table<'_>,
    most: f64,
    mixtures: usize,
) -> Result<Shape, FileError> {
    let mut parameter = |key| any_number(&table.require(key, "a number")?);
    Ok(match name {
        "constant" => Shape::Constant {
            value: parameter("value")?,
        },
        "uniform" => Shape::Uniform {
            low: parameter("low")?,
            high: parameter("high")?,
        },
        "lognormal" => Shape::Lognormal {
            median: parameter("median")?,
            p95: parameter("p95")?,
        },
        "exponential" => Shape::Exponential {
            mean: parameter("mean")?,
        },
        "pareto" => Shape::Pareto {
            min: parameter("min")?,
            alpha: parameter("alpha")?,
        },
        "geometric" => Shape::Geometric {
            mean: parameter("mean")?,
        },
        "poisson" => Shape::Poisson {
            mean: parameter("mean")?,
        },
        "empirical" => Shape::Empirical {
            values: numbers(&table.require("values", "a list of numbers")?)?,
            weights: table.maybe("weights", numbers)?,
        },
        "mixture" => Shape::Mixture {
            parts: parts(table, most, mixtures)?,
        },
        other => {
            return Err(kind
                .wrong(DISTRIBUTIONS.join(", "))
                .nearest(other, DISTRIBUTIONS));
        }
    })
}

fn parts(table: &mut Table<'_>, most: f64, mixtures: usize) -> Result<Vec<(f64, Dist)>, FileError> {
    let field = table.require("parts", "a list of distributions with a weight each")?;
    if mixtures == 0 {
        return Err(field.error("deeper nesting", format!("at most {MAX_MIXTURES} mixtures")));
    }
    let parts = field.list(MAX_LISTED)?;
    let read = |part: Field<'_>| {
        let mut weight = part.table()?;
        let weight = weight.require("weight", "the weight of this part")?;
        let weight = weight.number(0.0, f64::INFINITY)?;
        Ok((
            weight,
            distribution(&part, most, mixtures - 1, &["weight"])?,
        ))
    };
    parts.into_iter().map(read).collect()
}

fn any_number(field: &Field<'_>) -> Result<f64, FileError> {
    field.number(f64::NEG_INFINITY, f64::INFINITY)
}

fn numbers(field: &Field<'_>) -> Result<Vec<f64>, FileError> {
    field.list(MAX_LISTED)?.iter().map(any_number).collect()
}

fn invalid(field: &Field<'_>, error: &DistError) -> FileError {
    FileError {
        path: format!("{}.{}", field.path, error.key).into(),
        ..field.error(error.found.as_str(), error.expected)
    }
}
