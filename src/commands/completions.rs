//! `holdback completions`: completion scripts for shells.

use clap::CommandFactory;

use crate::cli::{Cli, Completions};
use crate::failure::{Failure, Verdict, print};

pub(super) fn run(args: &Completions) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "holdback", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Holds)
}
