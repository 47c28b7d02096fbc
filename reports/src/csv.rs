//! `summary.csv`: one line a scenario and policy.

use crate::measure::Measure;
use crate::numbers;
use crate::summary::{Cell, Scenario, Summary};

/// What a column of `summary.csv` holds.
#[derive(Clone, Copy)]
enum Column {
    Scenario,
    Policy,
    Family,
    Value(Measure),
    AnsweredLo,
    AnsweredHi,
}

use Column::Value;

/// The columns, in the order that is promised to readers. New ones are appended.
const COLUMNS: [Column; 47] = [
    Column::Scenario,
    Column::Policy,
    Column::Family,
    Value(Measure::Runs),
    Value(Measure::Answered),
    Value(Measure::AnsweredRate),
    Column::AnsweredLo,
    Column::AnsweredHi,
    Value(Measure::Partial),
    Value(Measure::PartialRate),
    Value(Measure::Unanswered),
    Value(Measure::Overspent),
    Value(Measure::OverspendRate),
    Value(Measure::OverspendMean),
    Value(Measure::OverspendP50),
    Value(Measure::OverspendP95),
    Value(Measure::OverspendP99),
    Value(Measure::OverspendMax),
    Value(Measure::CostMean),
    Value(Measure::CostP50),
    Value(Measure::CostP95),
    Value(Measure::CostP99),
    Value(Measure::CostPerAnswer),
    Value(Measure::Wasted),
    Value(Measure::ModelCalls),
    Value(Measure::ToolCalls),
    Value(Measure::Evidence),
    Value(Measure::EvidenceKept),
    Value(Measure::ReserveLeft),
    Value(Measure::ReserveViolations),
    Value(Measure::RefusedCalls),
    Value(Measure::Kills),
    Value(Measure::RepaidCalls),
    Value(Measure::Repaid),
    Value(Measure::Checkpoints),
    Value(Measure::SkippedCalls),
    Value(Measure::DeniedCalls),
    Value(Measure::UnreadResults),
    Value(Measure::OverspendBound),
    Value(Measure::DeliveredRate),
    Value(Measure::EvidenceEntries),
    Value(Measure::DurationP50),
    Value(Measure::DurationP95),
    Value(Measure::Late),
    Value(Measure::InputTokens),
    Value(Measure::CachedTokens),
    Value(Measure::OutputTokens),
];

/// The text of `summary.csv`: totals exact, means and quantiles with six decimals, empty where a
/// measure does not apply.
pub fn render(summary: &Summary) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(COLUMNS.map(Column::name));
    for scenario in &summary.scenarios {
        for cell in &scenario.cells {
            let _ = writer.write_record(COLUMNS.map(|column| column.field(scenario, cell)));
        }
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Scenario => "scenario",
            Column::Policy => "policy",
            Column::Family => "family",
            Value(measure) => measure.name(),
            Column::AnsweredLo => "answered_lo",
            Column::AnsweredHi => "answered_hi",
        }
    }

    fn field(self, scenario: &Scenario, cell: &Cell) -> String {
        let answered = || cell.figure(Measure::AnsweredRate)?.interval;
        let end = |value: Option<f64>| value.map_or_else(String::new, numbers::data);
        match self {
            Column::Scenario => scenario.name.clone(),
            Column::Policy => cell.policy.clone(),
            Column::Family => cell.family.clone(),
            Value(measure) => cell
                .figure(measure)
                .map_or_else(String::new, |figure| figure.value.to_data()),
            Column::AnsweredLo => end(answered().map(|interval| interval.lo)),
            Column::AnsweredHi => end(answered().map(|interval| interval.hi)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_columns_are_the_promised_ones() {
        let text = render(&Summary::new(&sample::study()));
        let header = text.lines().next().unwrap();
        assert_eq!(
            header,
            "scenario,policy,family,runs,answered,answered_rate,answered_lo,answered_hi,partial,\
             partial_rate,unanswered,overspent,overspend_rate,overspend_mean_usd,\
             overspend_p50_usd,overspend_p95_usd,overspend_p99_usd,overspend_max_usd,\
             cost_mean_usd,cost_p50_usd,cost_p95_usd,cost_p99_usd,cost_per_answer_usd,wasted_usd,\
             model_calls_mean,tool_calls_mean,evidence_mean,evidence_kept,reserve_left_mean_usd,\
             reserve_violations,refused_calls,kills,repaid_calls,repaid_usd,checkpoints,\
             skipped_calls,denied_calls,unread_results,overspend_bound_usd,delivered_rate,\
             evidence_entries_mean,duration_p50_s,duration_p95_s,late,input_tokens_mean,\
             cached_tokens_mean,output_tokens_mean"
        );
    }

    #[test]
    fn what_does_not_apply_is_empty_and_names_are_quoted() {
        let mut study = sample::study();
        study.scenarios[0].name = "a, \"b\"".to_owned();
        let text = render(&Summary::new(&study));
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().clone();
        let at = |name: &str| headers.iter().position(|h| h == name).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(&rows[0][0], "a, \"b\"");
        let uncapped = rows.iter().find(|row| &row[1] == sample::UNCAPPED).unwrap();
        assert_eq!(&uncapped[at("overspend_rate")], "");
        assert_eq!(&uncapped[at("overspent")], "");
        assert_eq!(&uncapped[at("reserve_violations")], "");
        assert_ne!(&uncapped[at("cost_mean_usd")], "");
    }
}
