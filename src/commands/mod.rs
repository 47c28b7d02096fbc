//! One module a command.

mod calibrate;
mod check;
mod compare;
mod completions;
mod conformance;
mod explain;
mod init;
mod list;
mod merge;
mod replay;
mod schema;
mod show;
mod size;
pub(crate) mod study;
mod vectors;

use crate::cli::Command;
use crate::failure::{Failure, Verdict};

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Verdict, Failure> {
    match command {
        Command::Compare(args) => compare::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Vectors(args) => vectors::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Size(args) => size::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::List(args) => list::run(&args),
    }
}
