//! `runs.csv`: one line a run, written as they come.

use std::io::{self, Write};

use holdback_sim::tally::RunRecord;

const COLUMNS: [&str; 21] = [
    "scenario",
    "policy",
    "run",
    "outcome",
    "reason",
    "limiter",
    "steps",
    "model_calls",
    "tool_calls",
    "refused_calls",
    "evidence",
    "billed_usd",
    "ledger_usd",
    "overspend_usd",
    "reserve_left_usd",
    "kills",
    "repaid_calls",
    "repaid_usd",
    "checkpoints",
    "sim_seconds",
    "run_id",
];

/// Writes the lines of `runs.csv`.
pub struct RunsWriter<W: Write> {
    rows: csv::Writer<W>,
}

impl<W: Write> RunsWriter<W> {
    /// Starts the file with its header.
    pub fn new(output: W) -> io::Result<RunsWriter<W>> {
        let mut rows = csv::Writer::from_writer(output);
        rows.write_record(COLUMNS).map_err(system)?;
        Ok(RunsWriter { rows })
    }

    /// Goes on with a file that has its header.
    pub fn without_header(output: W) -> RunsWriter<W> {
        RunsWriter {
            rows: csv::Writer::from_writer(output),
        }
    }

    /// Writes one run; `run_id` is the name of a recorded run.
    pub fn write(
        &mut self,
        scenario: &str,
        policy: &str,
        run: u64,
        record: &RunRecord,
        run_id: Option<&str>,
    ) -> io::Result<()> {
        let money = |amount: Option<holdback_engine::Money>| {
            amount.map_or_else(String::new, |amount| amount.to_string())
        };
        self.rows
            .write_record([
                scenario,
                policy,
                &run.to_string(),
                record.outcome.as_str(),
                record.cause.as_str(),
                record.limiter.map_or("", |limiter| limiter.as_str()),
                &record.steps.to_string(),
                &record.model_calls.to_string(),
                &record.tool_calls.to_string(),
                &record.refused_calls.to_string(),
                &record.evidence.to_string(),
                &record.billed.to_string(),
                &record.ledger.to_string(),
                &money(record.overspend),
                &money(record.reserve_left),
                &record.kills.to_string(),
                &record.repaid_calls.to_string(),
                &record.repaid.to_string(),
                &record.checkpoints.to_string(),
                &seconds(record.duration),
                run_id.unwrap_or(""),
            ])
            .map_err(system)
    }

    /// Writes what is buffered and gives the output back.
    pub fn finish(self) -> io::Result<W> {
        self.rows.into_inner().map_err(|error| error.into_error())
    }
}

/// The system's own error: what is to be done depends on its kind.
fn system(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Microseconds as seconds, exactly.
fn seconds(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let magnitude = micros.unsigned_abs();
    format!(
        "{sign}{}.{:06}",
        magnitude / 1_000_000,
        magnitude % 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_run_is_written_exactly() {
        let mut writer = RunsWriter::new(Vec::new()).unwrap();
        let mut record = sample::record();
        record.duration = 1_500_001;
        record.billed = "0.123456789012".parse().unwrap();
        record.overspend = None;
        record.reserve_left = None;
        writer.write("s", "p, q", 7, &record, Some("id-1")).unwrap();
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert_eq!(
            text,
            "scenario,policy,run,outcome,reason,limiter,steps,model_calls,tool_calls,\
             refused_calls,evidence,billed_usd,ledger_usd,overspend_usd,reserve_left_usd,kills,\
             repaid_calls,repaid_usd,checkpoints,sim_seconds,run_id\n\
             s,\"p, q\",7,answered,completed,,8,8,12,0,9,0.123456789012,2.5,,,0,0,0,8,1.500001,\
             id-1\n"
        );
    }
}
