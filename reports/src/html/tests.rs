use super::*;
use crate::measure::Measure;
use crate::sample;

fn page() -> (Summary, String) {
    let summary = Summary::new(&sample::sized(2, 9, 800));
    let page = render(&summary);
    (summary, page)
}

/// The texts between `start` and `end`, in order.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let after = text.split(start).skip(1);
    after
        .map(|part| part.split(end).next().unwrap_or(""))
        .collect()
}

fn plain(markup: &str) -> String {
    let mut text = String::new();
    for part in markup.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, rest)| rest));
    }
    text
}

#[test]
fn every_figure_of_the_table_is_that_of_the_summary() {
    let (summary, page) = page();
    let json: serde_json::Value = serde_json::from_str(&summary.to_json().unwrap()).unwrap();
    let tables = between(&page, "<table class=\"sort\" id=\"", "</table>");
    assert_eq!(tables.len(), summary.scenarios.len());
    let mut checked = 0;
    for (scenario, table) in tables.iter().enumerate() {
        let measures = between(table, "data-m=\"", "\"");
        let rows = between(table.split("<tbody>").nth(1).unwrap(), "<tr", "</tr>");
        assert_eq!(rows.len(), summary.scenarios[scenario].cells.len());
        for (policy, row) in rows.iter().enumerate() {
            let saved = &json["scenarios"][scenario]["cells"][policy];
            let mut cells = between(row, "<td", "</td>");
            cells.remove(1); // the difference, compared below
            for (name, cell) in measures.iter().zip(cells) {
                let raw = between(cell, "data-v=\"", "\"")[0];
                let value = &saved["measures"][*name]["value"];
                if value.is_null() {
                    assert_eq!(raw, "");
                    continue;
                }
                let value = value
                    .as_f64()
                    .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap());
                assert_eq!(raw.parse::<f64>().unwrap(), value, "{name}");
                let shown = table::shown(Measure::named(name).unwrap(), value);
                let text = cell.split_once('>').unwrap().1;
                assert_eq!(text.split("<small>").next().unwrap(), shown, "{name}");
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn every_difference_is_that_of_the_summary() {
    let (summary, page) = page();
    for (scenario, table) in
        summary
            .scenarios
            .iter()
            .zip(between(&page, "<table class=\"sort\" id=\"", "</table>"))
    {
        for (cell, row) in scenario.cells.iter().zip(between(
            table.split("<tbody>").nth(1).unwrap(),
            "<tr",
            "</tr>",
        )) {
            let shown = between(row, "<td", "</td>")[1];
            match &cell.comparison {
                None => assert!(shown.contains("baseline")),
                Some(comparison) => {
                    let difference = comparison.answered();
                    let interval = difference.interval.unwrap();
                    let expected = format!(
                        "{} {}{} to {}",
                        comparison.verdict.as_str(),
                        crate::numbers::points(difference.value),
                        crate::numbers::points(interval.lo),
                        crate::numbers::points(interval.hi)
                    );
                    assert_eq!(plain(shown.split_once('>').unwrap().1), expected);
                }
            }
        }
    }
}

#[test]
fn names_are_escaped_everywhere() {
    let (_, page) = page();
    assert!(page.contains("&lt;b&gt;&amp;&quot;|`7"));
    assert!(!page.contains("<b>&"));
}

#[test]
fn the_page_loads_nothing_and_allows_only_its_own_script_and_style() {
    let (_, page) = page();
    for external in [
        "src=",
        "@import",
        "url(",
        "http://",
        "https://",
        " style=\"",
        "onclick",
    ] {
        assert!(!page.contains(external), "{external}");
    }
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    assert_eq!(base64(b"Man"), "TWFu");
    assert_eq!(base64(b"Ma"), "TWE=");
    assert_eq!(base64(b"M"), "TQ==");
}

#[test]
fn no_heading_skips_a_level() {
    let (_, page) = page();
    let mut before = 0;
    for (at, _) in page.match_indices("<h") {
        let level = page[at + 2..].chars().next().and_then(|c| c.to_digit(10));
        if let Some(level) = level {
            assert!(level <= before + 1, "h{level} after h{before}");
            before = level;
        }
    }
    assert_eq!(before, 2);
}

#[test]
fn every_plot_has_a_title_and_a_text_of_its_own() {
    let (_, page) = page();
    let plots = between(&page, "<svg class=\"plot\"", "</svg>");
    assert!(plots.len() >= 10, "{}", plots.len());
    let mut ids = Vec::new();
    for plot in plots {
        let labels = between(plot, "aria-labelledby=\"", "\"")[0];
        ids.push(labels.to_owned());
        for id in labels.split(' ') {
            assert!(plot.contains(&format!("id=\"{id}\"")));
        }
        assert!(plot.contains("<desc"));
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn eight_scenarios_under_sixteen_policies_stay_below_a_megabyte() {
    let summary = Summary::new(&sample::sized(8, 16, 300));
    let page = render(&summary);
    assert!(page.len() < 1_000_000, "{}", page.len());
}

#[test]
fn table_heads_hold_nothing_that_keeps_print_from_repeating_them() {
    let (_, page) = page();
    for head in between(&page, "<thead>", "</thead>") {
        for control in ["<button", "<input", "<select"] {
            assert!(!head.contains(control), "{head}");
        }
    }
    assert!(page.contains("thead{display:table-header-group"));
}

#[test]
fn a_reader_sees_the_cap_of_each_policy_and_what_not_clear_means() {
    let (summary, page) = page();
    let tables = between(&page, "<table class=\"sort\" id=\"", "</table>");
    for (scenario, table) in summary.scenarios.iter().zip(tables) {
        let names = between(table, "<th scope=\"row\">", "</th>");
        for (cell, name) in scenario.cells.iter().zip(names) {
            let note = crate::cap::Cap::of(&summary, scenario, &cell.policy).note();
            assert!(name.ends_with(&format!("<small>{note}</small>")), "{name}");
        }
    }
    assert_eq!(page.matches("Not clear: it may differ or not").count(), 2);
    assert!(page.contains("cap USD 5.00") && page.contains("no cap"));
}

#[test]
fn the_command_that_reproduces_the_page_writes_one() {
    let (summary, page) = page();
    assert!(page.contains(&format!("<pre>{} --out DIR</pre>", summary.study.command)));
}

#[test]
fn plots_that_leave_policies_out_say_so_in_sight() {
    let summary = Summary::new(&sample::sized(1, 16, 300));
    let page = render(&summary);
    let captions = between(&page, "<figcaption>", "</figcaption>");
    let overspend = captions
        .iter()
        .find(|c| c.contains("How far do bills"))
        .unwrap();
    assert!(
        overspend.contains("<small>") && overspend.contains("Shown are 8 of "),
        "{overspend}"
    );
}

#[test]
fn one_run_is_not_called_runs() {
    let page = render(&Summary::new(&sample::sized(1, 2, 1)));
    assert!(page.contains(" 1 run each.") && page.contains(" 1 simulated run each"));
    assert!(!page.contains(">1 runs") && !page.contains(" 1 runs"));
}
