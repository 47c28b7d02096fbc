//! `holdback`: sizes the reserve that guarantees an agent's final answer, before it is deployed.
//!
//! Arguments, inputs, the work, its output: each command is one module in [`commands`].

mod cli;
mod commands;
mod defect;
mod failure;
mod inputs;
mod output;
mod parts;
mod progress;
mod shard;
mod sizing;

use std::panic::catch_unwind;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    match catch_unwind(|| commands::run(cli.command)) {
        Ok(Ok(verdict)) => verdict.into(),
        Ok(Err(failure)) => failure.report(),
        Err(payload) => {
            let arguments: Vec<String> = std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            defect::of_command(payload.as_ref(), &arguments).report()
        }
    }
}
