//! `holdback`: sizes the reserve that guarantees an agent's final answer, before it is deployed.
//!
//! Arguments, inputs, the work, its output: each command is one module in [`commands`].

mod cli;
mod commands;
mod failure;
mod inputs;
mod output;
mod parts;
mod progress;
mod shard;
mod sizing;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    match commands::run(cli.command) {
        Ok(verdict) => verdict.into(),
        Err(failure) => failure.report(),
    }
}
