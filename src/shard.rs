//! Which share of the runs this process does.

use crate::failure::Failure;

/// The most shards of a study.
const MOST: u64 = 100_000;

/// Shard `number` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) number: u64,
    pub(crate) count: u64,
}

impl Shard {
    /// The whole study.
    pub(crate) const WHOLE: Shard = Shard {
        number: 1,
        count: 1,
    };

    /// Reads `K/N` or `auto`; `variable` gives environment variables.
    pub(crate) fn read(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Shard, Failure> {
        let wrong = |found: &str| {
            Failure::Usage(format!(
                "--shard: found `{found}`, expected K/N with K from 1 to N and N at most {MOST}, or `auto`"
            ))
        };
        if text == "auto" {
            return automatic(variable);
        }
        let (number, count) = text.split_once('/').ok_or_else(|| wrong(text))?;
        let whole = |part: &str| part.parse::<u64>().map_err(|_| wrong(text));
        let (number, count) = (whole(number)?, whole(count)?);
        let index = number.checked_sub(1).ok_or_else(|| wrong(text))?;
        position(index, count).ok_or_else(|| wrong(text))
    }
}

/// The shard at an index from 0; `None` if there is none.
fn position(index: u64, count: u64) -> Option<Shard> {
    (index < count && count <= MOST).then(|| Shard {
        number: index + 1,
        count,
    })
}

/// The share of a Slurm array task (`SLURM_ARRAY_TASK_ID`, `_MIN`, `_STEP`, `_COUNT`) or of a pod of a Kubernetes
/// indexed job (`JOB_COMPLETION_INDEX`, and `JOB_COMPLETIONS`, which the manifest sets).
fn automatic(variable: impl Fn(&str) -> Option<String>) -> Result<Shard, Failure> {
    let number = |name: &str| -> Result<Option<u64>, Failure> {
        let Some(text) = variable(name) else {
            return Ok(None);
        };
        let parsed = text.trim().parse().map_err(|_| {
            Failure::Usage(format!("{name}: found `{text}`, expected a whole number"))
        })?;
        Ok(Some(parsed))
    };
    if let (Some(id), Some(count)) = (
        number("SLURM_ARRAY_TASK_ID")?,
        number("SLURM_ARRAY_TASK_COUNT")?,
    ) {
        let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        return position(id.saturating_sub(first) / step, count).ok_or_else(|| {
            Failure::Usage(format!(
                "SLURM_ARRAY_TASK_ID: found {id} in an array of {count} tasks from {first} on, expected task \
                 numbers without gaps and at most {MOST} tasks"
            ))
        });
    }
    if let (Some(index), Some(count)) =
        (number("JOB_COMPLETION_INDEX")?, number("JOB_COMPLETIONS")?)
    {
        return position(index, count).ok_or_else(|| {
            Failure::Usage(format!(
                "JOB_COMPLETION_INDEX: found {index} with {count} in JOB_COMPLETIONS, expected an index below the \
                 number of completions, and at most {MOST} of them"
            ))
        });
    }
    Err(Failure::Usage(
        "--shard auto: found neither SLURM_ARRAY_TASK_ID with SLURM_ARRAY_TASK_COUNT nor JOB_COMPLETION_INDEX with \
         JOB_COMPLETIONS, expected one of them in the environment"
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(variables: &[(&str, &str)]) -> Result<Shard, Failure> {
        Shard::read("auto", |name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_share_is_given_as_a_fraction_or_by_the_scheduler() {
        let none = |_: &str| None;
        assert_eq!(
            Shard::read("2/5", none).unwrap(),
            Shard {
                number: 2,
                count: 5
            }
        );
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_ARRAY_TASK_MIN", "5"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
        ];
        assert_eq!(
            auto(&slurm).unwrap(),
            Shard {
                number: 3,
                count: 4
            }
        );
        let every_other = [
            ("SLURM_ARRAY_TASK_ID", "8"),
            ("SLURM_ARRAY_TASK_MIN", "4"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        assert_eq!(
            auto(&every_other).unwrap(),
            Shard {
                number: 3,
                count: 3
            }
        );
        let pod = [("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "8")];
        assert_eq!(
            auto(&pod).unwrap(),
            Shard {
                number: 1,
                count: 8
            }
        );
    }

    #[test]
    fn an_impossible_share_is_refused() {
        for text in ["0/3", "4/3", "1", "a/b", "1/0", "1/9999999", ""] {
            assert!(Shard::read(text, |_| None).is_err(), "{text}");
        }
        assert!(auto(&[]).is_err());
        for index in ["8", "18446744073709551615", "-1", ""] {
            let pod = [("JOB_COMPLETION_INDEX", index), ("JOB_COMPLETIONS", "8")];
            let error = auto(&pod).unwrap_err().to_string();
            assert!(error.starts_with("JOB_COMPLETION_INDEX: "), "{error}");
        }
        let gaps = [
            ("SLURM_ARRAY_TASK_ID", "9"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        let error = auto(&gaps).unwrap_err().to_string();
        assert!(error.contains("without gaps"), "{error}");
        assert!(
            auto(&[
                ("SLURM_ARRAY_TASK_ID", "x"),
                ("SLURM_ARRAY_TASK_COUNT", "8")
            ])
            .is_err()
        );
    }
}
