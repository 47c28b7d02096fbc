//! `holdback calibrate`: scenarios fitted to recorded runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use holdback_reports::numbers;
use holdback_scenarios::calibrate::{Calibrated, FitRow, Observed, Totals};
use holdback_scenarios::import::Traces;
use holdback_scenarios::{FileError, read};

use crate::cli::Calibrate;
use crate::failure::{Failure, Verdict, print, remark};
use crate::inputs;
use crate::output::{is_special, write_atomically};

pub(super) fn run(args: &Calibrate) -> Result<Verdict, Failure> {
    let loader = inputs::loader(args.prices.as_deref())?;
    let given = args
        .price
        .as_ref()
        .map(|spec| read::price_spec(spec, loader.prices()))
        .transpose()?;
    let mut sources = observe(args)?;
    if let Some(wanted) = &args.source {
        let seen = sources
            .remove(wanted)
            .ok_or_else(|| unknown_source(wanted, sources.keys().map(String::as_str)))?;
        sources = BTreeMap::from([(wanted.clone(), seen)]);
    }
    let targets = targets(args, &sources)?;
    let mut text = String::new();
    let mut written = 0;
    for ((label, seen), path) in sources.into_iter().zip(targets) {
        let totals = seen.totals();
        match seen.calibrate(&label, given.as_ref(), loader.prices()) {
            Ok(scenario) => {
                write_atomically(&path, scenario.text.as_bytes())?;
                written += 1;
                text += &report(&label, &path, totals, &scenario);
                for warning in scenario.warnings.iter().filter(|_| !args.quiet) {
                    remark(&format!("{label}: {warning}"));
                }
            }
            // Beside others, a source without anything to fit is left out; alone, it is an error.
            Err(error) if args.source.is_none() => remark(&format!("left out: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    if written == 0 {
        let files: Vec<String> = args
            .traces
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let found = "no source with anything to fit";
        let error = FileError::of_file(&files.join(", "), found, "recorded runs with tool calls");
        return Err(error.into());
    }
    print(&text)?;
    Ok(Verdict::Holds)
}

fn observe(args: &Calibrate) -> Result<BTreeMap<String, Observed>, Failure> {
    let mut sources: BTreeMap<String, Observed> = BTreeMap::new();
    for path in &args.traces {
        let mut traces = Traces::open(path, args.input_tokens.into())?;
        while let Some(run) = traces.next_run()? {
            let label = traces.names().get(run.source);
            if !sources.contains_key(label) {
                sources.insert(label.to_owned(), Observed::default());
            }
            if let Some(seen) = sources.get_mut(label) {
                seen.add(&run, traces.names());
            }
        }
        for text in traces.remarks().iter().filter(|_| !args.quiet) {
            remark(text);
        }
    }
    Ok(sources)
}

/// A label that none of the traces has.
pub(super) fn unknown_source<'n>(wanted: &str, known: impl Iterator<Item = &'n str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let expected = match known.as_slice() {
        [] => "traces with at least one run".to_owned(),
        [first, rest @ ..] if rest.len() < 10 => format!(
            "one of the sources of the traces: {}",
            rest.iter()
                .fold(first.to_string(), |all, name| format!("{all}, {name}"))
        ),
        _ => "one of the sources of the traces".to_owned(),
    };
    let error = FileError::of_file("--source", format!("`{wanted}`"), expected);
    Failure::File(error.nearest(wanted, known))
}

/// The file of each source, in the order of the sources.
fn targets(
    args: &Calibrate,
    sources: &BTreeMap<String, Observed>,
) -> Result<Vec<PathBuf>, Failure> {
    let is_toml = args.output.extension().is_some_and(|end| end == "toml");
    let is_file = (is_toml && !args.output.is_dir()) || is_special(&args.output);
    if !is_file && args.output.is_file() {
        return Err(Failure::Usage(format!(
            "-o: found the file {}, expected a folder, or a file whose name ends in .toml",
            args.output.display()
        )));
    }
    if !is_file {
        let of_source = |label: &String| args.output.join(format!("{}.toml", numbers::slug(label)));
        return Ok(sources.keys().map(of_source).collect());
    }
    if sources.len() > 1 {
        let names: Vec<&str> = sources.keys().map(String::as_str).collect();
        return Err(Failure::Usage(format!(
            "-o: found one file for {} sources ({}), expected a folder, or --source with one of them",
            names.len(),
            names.join(", ")
        )));
    }
    Ok(vec![args.output.clone()])
}

/// How well a scenario fits, for people.
fn report(label: &str, path: &Path, totals: Totals, scenario: &Calibrated) -> String {
    let mut text = format!("{label} -> {}\n", path.display());
    let _ = writeln!(
        text,
        "{} runs, {} model calls, {} tool calls ({} failed); tokens: input {}, of them cached {}, output {}; USD {}",
        totals.runs,
        totals.turns,
        totals.calls,
        totals.errors,
        recorded(totals.input_tokens),
        recorded(totals.cached_tokens),
        recorded(totals.output_tokens),
        recorded(totals.cost)
    );
    if let Some(found) = &scenario.price {
        let _ = writeln!(
            text,
            "price: {}, reproduces {} of {} recorded costs",
            found.source, found.reproduced, found.compared
        );
    }
    let width = scenario
        .rows
        .iter()
        .map(|row| row.quantity.chars().count())
        .max()
        .unwrap_or(0);
    let _ = writeln!(
        text,
        "{:width$}  {:17}  {:>7}  {:>5}  {:>6}  {:>13}  {:>13}  {:>13}  {:>13}  {:>13}",
        "quantity", "kept as", "n", "ks", "moved", "mean data/fit", "p10", "p50", "p90", "p99"
    );
    for row in &scenario.rows {
        text += &line(row, width);
    }
    text.push('\n');
    text
}

fn line(row: &FitRow, width: usize) -> String {
    let mut text = format!(
        "{:width$}  {:17}  {:>7}  {:>5.3}  {:>5.1}%",
        row.quantity,
        row.kept,
        row.number,
        row.ks,
        100.0 * row.moved
    );
    for (data, fitted) in row.values {
        let pair = format!("{}/{}", short(data), short(fitted));
        let _ = write!(text, "  {pair:>13}");
    }
    text + "\n"
}

/// A sum, which is not the same as 0 where nothing was recorded.
fn recorded(sum: Option<impl std::fmt::Display>) -> String {
    sum.map_or_else(|| "not recorded".to_owned(), |sum| sum.to_string())
}

/// Few digits, for reading.
fn short(x: f64) -> String {
    if x.abs() >= 100.0 || x.fract() == 0.0 {
        format!("{x:.0}")
    } else {
        format!("{x:.2}")
    }
}
