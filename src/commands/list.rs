//! `holdback list`: what is built in.

use holdback_engine::caps::presets;
use holdback_scenarios::library;
use serde_json::json;

use crate::cli::{List, ListFormat, Listed};
use crate::failure::{Failure, Verdict, print};

/// A built-in thing.
struct Entry {
    name: String,
    kind: String,
    summary: String,
}

pub(super) fn run(args: &List) -> Result<Verdict, Failure> {
    let entries = match args.what {
        Listed::Scenarios => scenarios(),
        Listed::Policies => policies(),
        Listed::Studies => studies(),
        Listed::Prices => prices(),
    };
    print(&match args.format {
        ListFormat::Names => entries
            .iter()
            .map(|entry| format!("{}\n", entry.name))
            .collect(),
        ListFormat::Table => table(&entries),
        ListFormat::Json => {
            let list: Vec<_> = entries
                .iter()
                .map(|entry| json!({"name": entry.name, "kind": entry.kind, "summary": entry.summary}))
                .collect();
            format!("{:#}\n", serde_json::Value::from(list))
        }
    })?;
    Ok(Verdict::Holds)
}

fn scenarios() -> Vec<Entry> {
    let kind = |scripted: bool| if scripted { "scripted" } else { "drawn" }.to_owned();
    library::scenarios()
        .into_iter()
        .map(|scenario| Entry {
            name: scenario.name,
            kind: kind(scenario.script.is_some()),
            summary: scenario.summary,
        })
        .collect()
}

fn policies() -> Vec<Entry> {
    let own = library::all_policies().into_iter().map(|policy| Entry {
        name: policy.name,
        kind: policy.family.as_str().to_owned(),
        summary: policy.summary.unwrap_or_default(),
    });
    let framework = presets::all().iter().map(|preset| Entry {
        name: preset.name.to_owned(),
        kind: "caps preset".to_owned(),
        summary: format!(
            "{} {}: {}",
            preset.framework, preset.version, preset.summary
        ),
    });
    own.chain(framework).collect()
}

fn studies() -> Vec<Entry> {
    library::study_names()
        .into_iter()
        .map(|name| Entry {
            name: name.to_owned(),
            kind: "study".to_owned(),
            summary: String::new(),
        })
        .collect()
}

fn prices() -> Vec<Entry> {
    library::prices()
        .models()
        .iter()
        .map(|model| Entry {
            name: model.name.clone(),
            kind: "price".to_owned(),
            summary: format!(
                "USD a million tokens: input {}, output {}",
                model.price.input.times(1_000_000),
                model.price.output.times(1_000_000)
            ),
        })
        .collect()
}

/// Names and kinds in columns, summaries wrapped beside them within 100 columns.
fn table(entries: &[Entry]) -> String {
    let name_width = entries
        .iter()
        .map(|entry| entry.name.chars().count())
        .max()
        .unwrap_or(0);
    let kind_width = entries
        .iter()
        .map(|entry| entry.kind.chars().count())
        .max()
        .unwrap_or(0);
    let left = name_width + kind_width + 4;
    let room = 100_usize.saturating_sub(left).max(30);
    let mut text = String::new();
    for entry in entries {
        let mut lines = wrap(&entry.summary, room).into_iter();
        let first = lines.next().unwrap_or_default();
        let line = format!(
            "{:name_width$}  {:kind_width$}  {first}",
            entry.name, entry.kind
        );
        text.push_str(line.trim_end());
        text.push('\n');
        for line in lines {
            text.push_str(&format!("{:left$}{line}\n", ""));
        }
    }
    text
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
