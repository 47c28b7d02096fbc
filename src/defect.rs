//! Defects: an assertion that fails in a release build ends the command with one line that says how to
//! see it again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use holdback_reports::numbers::shell;
use holdback_sim::campaign::Defect;

use crate::failure::Failure;

/// Runs a campaign; a defect in one of its runs becomes a failure with the command that shows the run.
/// `again` is that command without policy and run.
pub(crate) fn told<T>(
    campaign: impl FnOnce() -> T,
    again: impl FnOnce() -> String,
) -> Result<T, Failure> {
    // Whatever unwinds is given up.
    catch_unwind(AssertUnwindSafe(campaign)).map_err(|payload| match payload.downcast::<Defect>() {
        Ok(defect) => Failure::Internal(reproduced(&defect, &again())),
        Err(other) => resume_unwind(other),
    })
}

fn reproduced(defect: &Defect, again: &str) -> String {
    let policy = match &defect.policy {
        Some(policy) => format!(" --policy {}", shell(policy)),
        None => String::new(),
    };
    let run = defect.run;
    format!("{defect}; see it again with: {again}{policy} --run {run}")
}

/// The failure of a command that panicked outside of any run; the command itself shows it again.
pub(crate) fn of_command(payload: &(dyn Any + Send), arguments: &[String]) -> Failure {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words: Vec<String> = arguments.iter().map(|word| shell(word)).collect();
    let message = text.unwrap_or("it panicked");
    Failure::Internal(format!("{message}; see it again with: {}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaks(policy: Option<&str>) -> Failure {
        let defect = Defect {
            policy: policy.map(str::to_owned),
            run: 42,
            message: "counted past the cap".to_owned(),
        };
        let again = || "holdback explain --scenario looping --seed 7".to_owned();
        told::<()>(|| resume_unwind(Box::new(defect)), again).unwrap_err()
    }

    #[test]
    fn a_defect_in_a_run_is_told_with_the_command_that_shows_the_run() {
        assert_eq!(
            breaks(Some("no reserve")).to_string(),
            "internal error: run 42 under policy `no reserve`: counted past the cap; see it again with: \
             holdback explain --scenario looping --seed 7 --policy \"no reserve\" --run 42"
        );
        assert!(breaks(None).to_string().ends_with("--seed 7 --run 42"));
    }

    #[test]
    fn a_panic_anywhere_else_is_told_with_the_command_itself() {
        let arguments = ["holdback", "compare", "my study.toml"].map(str::to_owned);
        let failure = of_command(&"index out of bounds", &arguments);
        assert_eq!(
            failure.to_string(),
            "internal error: index out of bounds; see it again with: holdback compare \"my study.toml\""
        );
    }
}
