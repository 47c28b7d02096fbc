//! A parser pushes what it reads, whoever asks for runs pulls them: so it works in a thread of its own,
//! which waits once a few runs are not yet asked for. Memory does not grow with the number of runs.

use std::mem;
use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::document::Stopped;
use crate::read::{FileError, one_line, source};
use crate::trace::{NameId, Names, Run};

/// Runs that wait between parser and user.
const AHEAD: usize = 4;

/// What a parser does: it reads a file to its end and hands over its runs.
pub(super) type Parse = Box<dyn FnOnce(&mut Out) -> Result<(), FileError> + Send>;

/// A run with the names that are new since the one before.
struct Piece {
    run: Run,
    names: Vec<String>,
}

/// Where a parser hands over runs.
pub(super) struct Out {
    file: String,
    names: Names,
    /// How many of the names the user has.
    told: usize,
    runs: SyncSender<Piece>,
    why: Option<FileError>,
    /// What a user should know about the import, one line each.
    pub(super) remarks: Vec<String>,
}

impl Out {
    /// The position of a name.
    pub(super) fn name(&mut self, name: &str) -> Result<NameId, Stopped> {
        match self.names.intern(&one_line(name)) {
            Some(id) => Ok(id),
            None => {
                let found = format!("more than {} different names", self.names.len());
                Err(self.stop(found, "fewer names of sources, tools, models and exits"))
            }
        }
    }

    /// The position of a name that may not be recorded.
    pub(super) fn maybe_name(&mut self, name: Option<&str>) -> Result<Option<NameId>, Stopped> {
        name.map(|name| self.name(name)).transpose()
    }

    /// The text of a name.
    pub(super) fn text(&self, id: NameId) -> &str {
        self.names.get(id)
    }

    /// Hands over a run.
    pub(super) fn run(&mut self, run: Run) -> Result<(), Stopped> {
        let names: Vec<String> = self
            .names
            .iter()
            .skip(self.told)
            .map(str::to_owned)
            .collect();
        self.told += names.len();
        // Nobody is told: whoever asked for runs has gone.
        self.runs.send(Piece { run, names }).map_err(|_| Stopped)
    }

    /// Stops for good: not the document is broken, but this was found.
    pub(super) fn stop(&mut self, found: String, expected: &str) -> Stopped {
        self.fail(FileError::of_file(&self.file, found, expected))
    }

    /// Stops for good: a second look at the file shows something else than the first.
    pub(super) fn changed(&mut self) -> Stopped {
        let found = "a file that changes while it is read".to_owned();
        self.stop(found, "one that stays as it is")
    }

    /// Stops for good, with this error.
    pub(super) fn fail(&mut self, error: FileError) -> Stopped {
        // The first one is the cause of those that follow.
        self.why.get_or_insert(error);
        Stopped
    }

    /// Why reading has ended with `error`, which a parser makes of every [`Stopped`].
    fn cause(self, error: FileError) -> FileError {
        match self.why {
            Some(why) => FileError {
                line: why.line.or(error.line),
                ..why
            },
            None => error,
        }
    }
}

/// The runs of a parser. It starts when the first run is asked for.
pub(super) struct Stream {
    file: String,
    names: Names,
    remarks: Vec<String>,
    state: State,
}

enum State {
    Waiting(Parse),
    Reading(Parser),
    Ended,
}

struct Parser {
    runs: Receiver<Piece>,
    /// Ends with remarks.
    thread: JoinHandle<Result<Vec<String>, FileError>>,
}

impl Stream {
    pub(super) fn new(file: &str, parse: Parse) -> Stream {
        Stream {
            file: file.to_owned(),
            names: Names::default(),
            remarks: Vec::new(),
            state: State::Waiting(parse),
        }
    }

    /// The next run; `None` at the end and after an error.
    pub(super) fn next_run(&mut self) -> Result<Option<Run>, FileError> {
        let parser = match mem::replace(&mut self.state, State::Ended) {
            State::Waiting(parse) => self.start(parse)?,
            State::Reading(parser) => parser,
            State::Ended => return Ok(None),
        };
        if let Ok(piece) = parser.runs.recv() {
            self.state = State::Reading(parser);
            for name in &piece.names {
                // In the parser's order, so that positions agree.
                self.names.intern(name);
            }
            return Ok(Some(piece.run));
        }
        match parser.thread.join() {
            Ok(ended) => self.remarks = ended?,
            // A defect is told where it is met, not hidden as the end of a file.
            Err(defect) => panic::resume_unwind(defect),
        }
        Ok(None)
    }

    fn start(&self, parse: Parse) -> Result<Parser, FileError> {
        let (sender, runs) = sync_channel(AHEAD);
        let mut out = Out {
            file: self.file.clone(),
            names: Names::default(),
            told: 0,
            runs: sender,
            why: None,
            remarks: Vec::new(),
        };
        let work = move || match parse(&mut out) {
            Ok(()) => Ok(out.remarks),
            Err(error) => Err(out.cause(error)),
        };
        let thread = Builder::new()
            .name("parser".to_owned())
            .spawn(work)
            .map_err(|error| source::unreadable(&self.file, &error))?;
        Ok(Parser { runs, thread })
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }
}
