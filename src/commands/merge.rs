//! `holdback merge`: the shards of a study, put together as if it had run in one piece.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use holdback_reports::summary::Summary;
use holdback_scenarios::Study;
use holdback_sim::campaign::{Campaign, RunSet, Work};

use super::show;
use super::study::{Setting, scenario_info};
use crate::cli::Merge;
use crate::failure::{Failure, Verdict};
use crate::output::{Folder, Identity};
use crate::parts::{Found, Header, Parts};

pub(super) fn run(args: &Merge) -> Result<Verdict, Failure> {
    let shards = Shards::read(&args.folders)?;
    let header = &shards.header;
    let study = header.study(&shards.folders[0].display().to_string())?;
    let campaigns = shards.campaigns(&study)?;
    shards.refuse_as_output(&args.out)?;
    let identity = Identity {
        study: header.study.clone(),
        seed: header.seed,
        runs: header.runs,
        command: header.command.clone(),
    };
    let folder = Folder::open(&args.out, &identity)?;
    let parts = Parts::of(&args.out);
    let setting = Setting {
        study: &study,
        work: Work::on(1),
        command: header.command.clone(),
        explain_options: header.explain_options.clone(),
        runs_per_month: header.runs_per_month,
    };
    let mut result = setting.empty_result();
    for (scenario, (campaign, runs)) in study.scenarios.iter().zip(campaigns) {
        result
            .scenarios
            .push(scenario_info(scenario, &study, campaign, runs));
    }
    if header.per_run {
        let mut rows = Vec::new();
        for scenario in 0..study.scenarios.len() as u64 {
            let joined = parts.rows(scenario);
            shards.join_rows(scenario, study.policies.len(), &joined)?;
            rows.push(joined);
        }
        folder.join_rows(&rows)?;
    }
    let summary = Summary::new(&result);
    folder.report(&summary, header.per_run)?;
    parts.remove()?;
    show::summary(&summary, args.format, Some(&folder))?;
    Ok(Verdict::Holds)
}

/// The shards of one study, all there, by number.
struct Shards {
    header: Header,
    /// The output folder of each shard, in the order of their numbers.
    folders: Vec<PathBuf>,
}

impl Shards {
    /// Finds out which study the folders belong to and that no shard is missing or there twice.
    fn read(folders: &[PathBuf]) -> Result<Shards, Failure> {
        let mut first: Option<(Header, &Path)> = None;
        let mut by_number: BTreeMap<u64, &Path> = BTreeMap::new();
        for folder in folders {
            let header = Parts::of(folder).header()?.ok_or_else(|| {
                wrong(
                    folder,
                    "no parts of a study",
                    "the --out folder of `holdback compare --shard K/N`",
                )
            })?;
            if header.version != env!("CARGO_PKG_VERSION") {
                return Err(wrong(
                    folder,
                    &format!("a shard made by version {}", header.version),
                    &format!("version {}", env!("CARGO_PKG_VERSION")),
                ));
            }
            let (number, count) = header.shard;
            if let Some((known, from)) = &first {
                if known.identity() != header.identity() {
                    return Err(wrong(
                        folder,
                        &difference(known, &header),
                        &format!("the study of {}", from.display()),
                    ));
                }
                if known.shard.1 != count {
                    return Err(wrong(
                        folder,
                        &format!("shard {number} of {count}"),
                        &format!("a shard of {} as in {}", known.shard.1, from.display()),
                    ));
                }
            }
            if let Some(other) = by_number.insert(number, folder) {
                return Err(wrong(
                    folder,
                    &format!("shard {number} again"),
                    &format!("it once, it is in {}", other.display()),
                ));
            }
            first.get_or_insert((header, folder));
        }
        let Some((header, _)) = first else {
            return Err(Failure::Usage(
                "found no folder, expected at least one".to_owned(),
            ));
        };
        let missing: Vec<String> = (1..=header.shard.1)
            .filter(|number| !by_number.contains_key(number))
            .map(|number| number.to_string())
            .collect();
        if !missing.is_empty() {
            return Err(Failure::Usage(format!(
                "found no folder for shard {} of {}, expected all shards of the study",
                missing.join(", "),
                header.shard.1
            )));
        }
        Ok(Shards {
            header,
            folders: by_number.into_values().map(Path::to_owned).collect(),
        })
    }

    /// Refuses the folder of a shard as the place of the whole, which would overwrite its parts.
    fn refuse_as_output(&self, out: &Path) -> Result<(), Failure> {
        let place = |path: &Path| path.canonicalize().ok();
        let Some(there) = place(out) else {
            return Ok(());
        };
        if self
            .folders
            .iter()
            .any(|folder| place(folder).as_ref() == Some(&there))
        {
            return Err(Failure::Usage(format!(
                "--out: found {}, which holds one of the shards, expected another folder",
                out.display()
            )));
        }
        Ok(())
    }

    /// The campaigns of all scenarios, each with its number of runs.
    fn campaigns(&self, study: &Study) -> Result<Vec<(Campaign, u64)>, Failure> {
        (0..study.scenarios.len() as u64)
            .map(|scenario| self.campaign(study, scenario))
            .collect()
    }

    fn campaign(&self, study: &Study, scenario: u64) -> Result<(Campaign, u64), Failure> {
        let name = &study.scenarios[scenario as usize].name;
        let mut whole = Campaign::empty(study.policies.len());
        for (at, folder) in self.folders.iter().enumerate() {
            let expected = format!("the whole part of scenario `{name}`");
            let part = match Parts::of(folder).read(scenario)? {
                Found::Whole(part) => part,
                Found::Missing => {
                    return Err(wrong(
                        folder,
                        &format!("shard {} without it", at + 1),
                        &expected,
                    ));
                }
                Found::Broken(why) => {
                    return Err(wrong(folder, &format!("a broken one ({why})"), &expected));
                }
            };
            let (count, runs) = (self.header.shard.1, self.header.runs);
            let own = RunSet::shard(at as u64, count, runs).count;
            let cells = &part.campaign.cells;
            if part.identity != self.header.identity()
                || part.shard != (at as u64 + 1, count)
                || part.scenario != scenario
                || cells.len() != study.policies.len()
                || cells.iter().any(|cell| cell.tally.runs != own)
            {
                return Err(wrong(folder, "a part of another study or shard", &expected));
            }
            if self.header.per_run && !Parts::of(folder).has_rows_of(&part)? {
                let found = "missing or broken rows of its runs";
                return Err(wrong(folder, found, &expected));
            }
            whole.merge(&part.campaign);
        }
        Ok((whole, self.header.runs))
    }

    /// Brings the rows of a scenario from all shards into the order of their runs: run r is in shard
    /// r modulo the number of shards.
    fn join_rows(&self, scenario: u64, policies: usize, into: &Path) -> Result<(), Failure> {
        let open = |folder: &PathBuf| {
            let path = Parts::of(folder).rows(scenario);
            File::open(&path)
                .map(BufReader::new)
                .map_err(|error| Failure::io(&path, error))
        };
        let mut sources = self
            .folders
            .iter()
            .map(open)
            .collect::<Result<Vec<_>, _>>()?;
        let mut join = || -> io::Result<()> {
            if let Some(parent) = into.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let mut out = BufWriter::new(File::create(into)?);
            let mut line = String::new();
            for run in 0..self.header.runs {
                let source = &mut sources[(run % self.header.shard.1) as usize];
                for _ in 0..policies {
                    line.clear();
                    source.read_line(&mut line)?;
                    out.write_all(line.as_bytes())?;
                }
            }
            out.flush()
        };
        join().map_err(|error| Failure::io(into, error))
    }
}

/// What makes two headers different, in words.
fn difference(known: &Header, other: &Header) -> String {
    if known.study != other.study {
        return format!("a shard of the study `{}`", other.study);
    }
    if known.seed != other.seed {
        return format!("a shard with seed {}", other.seed);
    }
    if known.runs != other.runs {
        return format!("a shard of {} runs", other.runs);
    }
    "a shard with other scenarios, policies or options".to_owned()
}

fn wrong(folder: &Path, found: &str, expected: &str) -> Failure {
    Failure::Usage(format!(
        "{}: found {found}, expected {expected}",
        folder.display()
    ))
}
