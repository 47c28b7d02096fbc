//! Failures and exit codes: 0 done and all gates hold, 1 a gate failed, 2 bad usage or input,
//! 3 the machine failed (a full disk, a folder that another process writes) or Holdback did: what a
//! scheduler may try again.

use std::io::{self, Write};
use std::process::ExitCode;

use holdback_scenarios::FileError;
use holdback_scenarios::read::printable;
use holdback_sim::policy::CompileError;

/// How a command ended without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Done, and all gates hold.
    Holds,
    /// A gate failed.
    Fails,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        match verdict {
            Verdict::Holds => ExitCode::SUCCESS,
            Verdict::Fails => ExitCode::from(1),
        }
    }
}

/// Why a command could not do its work. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file or a built-in name is wrong.
    #[error("{0}")]
    File(#[from] FileError),
    /// A policy cannot be used with a workload.
    #[error("{0}")]
    Policy(#[from] CompileError),
    /// The words of the command line are wrong.
    #[error("{0}")]
    Usage(String),
    /// A file or folder cannot be read or written.
    #[error("{path}: {}", in_words(error))]
    Io {
        /// The file or folder.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// There is no room for what is written.
    #[error(
        "{path}: found no space left, expected room for the results (what is finished is kept: make room and run \
         again; compare goes on with --resume)"
    )]
    Full {
        /// The file or folder.
        path: String,
    },
    /// Another process writes into the folder; once it has ended, the same command works.
    #[error("--out: found {path}, which another process is writing, expected a folder of our own")]
    Busy {
        /// The folder.
        path: String,
    },
    /// The user interrupted.
    #[error("interrupted; {0}")]
    Interrupted(String),
    /// Nobody reads our output any more.
    #[error("the output was closed")]
    ClosedPipe,
    /// Something that cannot be.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Failure {
    /// A failure of reading or writing `path`.
    pub(crate) fn io(path: impl AsRef<std::path::Path>, error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ClosedPipe;
        }
        let path = path.as_ref().display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::Full { path },
            _ => Failure::Io { path, error },
        }
    }

    /// Prints the failure in one line and gives its exit code.
    pub(crate) fn report(self) -> ExitCode {
        if matches!(self, Failure::ClosedPipe) {
            return ExitCode::SUCCESS;
        }
        // Nothing can be done if even this cannot be written.
        let line = self.to_string();
        let _ = writeln!(io::stderr(), "holdback: {}", printable(&line));
        match self {
            Failure::Internal(_) | Failure::Full { .. } | Failure::Busy { .. } => ExitCode::from(3),
            Failure::Io { error, .. } if !is_of_the_path(&error) => ExitCode::from(3),
            // What a shell reports of a process that an interrupt ended.
            Failure::Interrupted(_) => ExitCode::from(130),
            _ => ExitCode::from(2),
        }
    }
}

/// Whether another path would do, so that the user must change something; anything else is the
/// machine's trouble.
fn is_of_the_path(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
        PermissionDenied, ReadOnlyFilesystem,
    };
    matches!(
        error.kind(),
        AlreadyExists
            | InvalidFilename
            | InvalidInput
            | IsADirectory
            | NotADirectory
            | NotFound
            | PermissionDenied
            | ReadOnlyFilesystem
    )
}

/// What the system says of a path, as what was found and what was expected; the rest in its own words.
fn in_words(error: &io::Error) -> String {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        ReadOnlyFilesystem,
    };
    let told = match error.kind() {
        NotFound => "found no such place, expected one that exists or can be made",
        PermissionDenied => "found no permission, expected a place that may be read and written",
        ReadOnlyFilesystem => "found a file system that is read only, expected one to write to",
        AlreadyExists | NotADirectory => "found a file in the place of a folder, expected a folder",
        IsADirectory => "found a folder, expected a file",
        InvalidFilename => "found a name that the system refuses, expected a shorter one",
        _ => return error.to_string(),
    };
    told.to_owned()
}

/// Prints what clap has to say: help and versions go to stdout and are no failure.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.use_stderr() && error.kind() != DisplayHelpOnMissingArgumentOrSubcommand {
        let told = wrong_value(error).unwrap_or_else(|| in_one_line(&error.to_string()));
        return Failure::Usage(told).report();
    }
    // A closed pipe ends `holdback --help | head` quietly.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}

/// What an option's own parser says of a value, in the form of all our messages; `None` if clap itself
/// refused it.
fn wrong_value(error: &clap::Error) -> Option<String> {
    use clap::error::ContextKind::{InvalidArg, InvalidValue};
    let expected = std::error::Error::source(error)?;
    let (option, found) = (error.get(InvalidArg)?.to_string(), error.get(InvalidValue)?);
    let option = option.split(' ').next().unwrap_or_default();
    let found = Some(found.to_string()).filter(|found| !found.is_empty());
    let found = found.as_deref().unwrap_or("nothing");
    Some(format!("{option}: found {found}, {expected}"))
}

/// What clap says in paragraphs, without the usage that follows.
fn in_one_line(text: &str) -> String {
    let said = text.split("\n\nUsage:").next().unwrap_or(text);
    let said = said
        .split("\n\nFor more information")
        .next()
        .unwrap_or(said);
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ").replace(":; ", ": ")
}

/// Writes results to stdout; a closed pipe ends the command quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::io("stdout", error))
}

/// Writes a remark to stderr.
pub(crate) fn remark(text: &str) {
    // Remarks are no results: if they cannot be written, the work still counts.
    let _ = writeln!(io::stderr(), "{text}");
}
