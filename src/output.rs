//! The report folder: guarded against other studies, written atomically.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use holdback_reports::manifest::Manifest;
use holdback_reports::runs::RunsWriter;
use holdback_reports::summary::Summary;
use holdback_sim::campaign::{Listener, Row};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::parts::{self, Parts};
use crate::progress::Progress;

const MANIFEST: &str = "manifest.json";
const RUNS: &str = "runs.csv";
const LOCK: &str = ".holdback.lock";

/// A folder that this process may write. The lock goes with the process, however it ends.
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens a folder for a study: a new or empty one, or one that holds this very study.
    ///
    /// # Errors
    /// If it holds anything else, another process writes it, or it cannot be written.
    pub(crate) fn open(path: &Path, identity: &Identity) -> Result<Folder, Failure> {
        if path.exists() && !path.is_dir() {
            return Err(Failure::Usage(format!(
                "--out: found the file {}, expected a folder",
                path.display()
            )));
        }
        // Before anything is made there, and again once nobody else can change it.
        guard(path, identity)?;
        make_folder(path)?;
        let lock = lock(path)?;
        guard(path, identity)?;
        // A process that is killed leaves the lock's file behind, and with it whose folder this is.
        let sign = serde_json::to_vec(identity);
        sign.map_err(io::Error::from)
            .and_then(|sign| {
                lock.set_len(0)?;
                (&lock).write_all(&sign)
            })
            .map_err(|error| Failure::io(path.join(LOCK), error))?;
        Ok(Folder {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Writes a file so that it is there whole or not at all.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        write_atomically(&self.path.join(name), content)
    }

    /// Puts `runs.csv` together from the rows of each scenario.
    pub(crate) fn join_rows(&self, parts: &[PathBuf]) -> Result<(), Failure> {
        let path = self.path.join(RUNS);
        let part = part_of(&path);
        let joined = File::create(&part).and_then(|file| {
            let mut out = RunsWriter::new(BufWriter::with_capacity(1 << 16, file))?.finish()?;
            for rows in parts {
                io::copy(&mut File::open(rows)?, &mut out)?;
            }
            out.into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .sync_all()?;
            fs::rename(&part, &path)
        });
        joined.map_err(|error| {
            // The error that counts is the first one.
            let _ = fs::remove_file(&part);
            Failure::io(&path, error)
        })
    }

    /// Writes all files of a report; the manifest comes last, so a folder with one is whole.
    pub(crate) fn report(&self, summary: &Summary, with_rows: bool) -> Result<(), Failure> {
        let internal = |error: serde_json::Error| Failure::Internal(error.to_string());
        let files = holdback_reports::folder::files(summary).map_err(internal)?;
        for file in &files {
            self.write(&file.path, file.content.as_bytes())?;
        }
        let mut manifest = holdback_reports::folder::manifest(summary, &files);
        if with_rows {
            let path = self.path.join(RUNS);
            manifest.add_hash(
                RUNS,
                hash_file(&path).map_err(|error| Failure::io(&path, error))?,
            );
        }
        self.write(MANIFEST, manifest.to_json().map_err(internal)?.as_bytes())
    }

    /// Where the folder is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The lock itself is released with the file; a file that stays is harmless.
        let _ = fs::remove_file(self.path.join(LOCK));
    }
}

/// Locks a folder for this process.
fn lock(folder: &Path) -> Result<File, Failure> {
    let path = folder.join(LOCK);
    let failed = |error| Failure::io(&path, error);
    loop {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            // The last holder may have removed the file after it was opened here.
            Ok(()) if is_still_there(&file, &path) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Busy {
                    path: folder.display().to_string(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// Whether a path still leads to an open file.
#[cfg(unix)]
fn is_still_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Whether a path still leads to an open file; elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_still_there(_file: &File, _path: &Path) -> bool {
    true
}

/// Makes a folder and those above it, if they are not there.
pub(crate) fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| {
        // Of a path with a file inside, the file is what must be named.
        let in_the_way = path
            .ancestors()
            .find(|above| above.exists() && !above.is_dir());
        match in_the_way {
            Some(file) => Failure::Usage(format!(
                "{}: found a file, expected a folder",
                file.display()
            )),
            None => Failure::io(path, error),
        }
    })
}

/// Whether a path leads to a device or a pipe: it is written as it is, as no other file may take its
/// place.
pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if is_special(path) {
        let written = File::options().write(true).open(path);
        return written
            .and_then(|mut file| file.write_all(content))
            .map_err(|error| Failure::io(path, error));
    }
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    let part = part_of(path);
    let written = File::create(&part)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        // The error that counts is the first one.
        let _ = fs::remove_file(&part);
        Failure::io(path, error)
    })
}

/// Where a file is written before it takes its name.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path
        .file_name()
        .map(std::ffi::OsStr::to_owned)
        .unwrap_or_default();
    name.push(".tmp");
    path.with_file_name(name)
}

/// What makes a study itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Name of the study.
    pub(crate) study: String,
    /// Seed of all luck.
    pub(crate) seed: u64,
    /// Runs a cell.
    pub(crate) runs: u64,
    /// The canonical command, which names scenarios, policies and everything else that counts.
    pub(crate) command: String,
}

/// Refuses a folder that holds anything but this study, whole or in parts.
fn guard(path: &Path, identity: &Identity) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    let foreign = |what: &str| {
        Err(Failure::Usage(format!(
            "--out: {} is not empty and {what}; choose an empty folder or remove it",
            path.display()
        )))
    };
    if let Some(header) = Parts::of(path).header()? {
        if header.command == identity.command && header.study == identity.study {
            return Ok(());
        }
        return foreign(&format!(
            "holds parts of another study (`{}`), not `{}`",
            header.command, identity.command
        ));
    }
    let entries = fs::read_dir(path).map_err(|error| Failure::io(path, error))?;
    if entries
        .flatten()
        .all(|entry| entry.file_name() == LOCK || entry.file_name() == parts::FOLDER)
    {
        return Ok(());
    }
    let sign = fs::read(path.join(LOCK)).unwrap_or_default();
    if serde_json::from_slice::<Identity>(&sign).is_ok_and(|there| there == *identity) {
        return Ok(());
    }
    let Ok(text) = fs::read_to_string(path.join(MANIFEST)) else {
        return foreign("holds no report of Holdback");
    };
    let Ok(manifest) = serde_json::from_str::<Manifest>(&text) else {
        return foreign("its manifest.json is none of Holdback");
    };
    let there = Identity {
        study: manifest.study,
        seed: manifest.seed,
        runs: manifest.runs,
        command: manifest.command,
    };
    if there == *identity {
        return Ok(());
    }
    foreign(&format!(
        "holds another study (`{}`), not `{}`",
        there.command, identity.command
    ))
}

fn hash_file(path: &Path) -> io::Result<String> {
    Ok(parts::hex(&digest_of_file(path)?))
}

/// SHA-256 of a file.
pub(crate) fn digest_of_file(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..read]);
    }
}

/// A file that is hashed while it is written.
struct Hashed {
    file: File,
    hasher: Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The rows of a scenario while they are written.
pub(crate) struct RowFile {
    writer: RunsWriter<BufWriter<Hashed>>,
    path: PathBuf,
}

impl RowFile {
    /// Starts the rows of a scenario.
    pub(crate) fn create(path: &Path) -> Result<RowFile, Failure> {
        let open = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            File::create(path)
        };
        let hashed = Hashed {
            file: open().map_err(|error| Failure::io(path, error))?,
            hasher: Sha256::new(),
        };
        Ok(RowFile {
            writer: RunsWriter::without_header(BufWriter::with_capacity(1 << 16, hashed)),
            path: path.to_owned(),
        })
    }

    /// Completes the file and tells its SHA-256.
    pub(crate) fn finish(self) -> Result<[u8; 32], Failure> {
        let done = self
            .writer
            .finish()
            .and_then(|buffered| {
                buffered
                    .into_inner()
                    .map_err(io::IntoInnerError::into_error)
            })
            .and_then(|hashed| {
                hashed.file.sync_all()?;
                Ok(hashed.hasher.finalize().into())
            });
        done.map_err(|error| Failure::io(&self.path, error))
    }
}

/// Names that a row needs.
pub(crate) struct RowNames<'n> {
    pub(crate) scenario: &'n str,
    pub(crate) policies: Vec<&'n str>,
    /// Names of recorded runs by run number minus `first_run`; empty in simulations.
    pub(crate) run_ids: Vec<&'n str>,
    pub(crate) first_run: u64,
}

/// Writes rows in the order of their chunks, however the workers finish, and passes progress on.
pub(crate) struct RowListener<'r> {
    progress: &'r Progress,
    names: RowNames<'r>,
    state: Mutex<RowState<'r>>,
}

struct RowState<'r> {
    file: &'r mut RowFile,
    next: u64,
    waiting: std::collections::BTreeMap<u64, Vec<Row>>,
    error: Option<io::Error>,
}

impl<'r> RowListener<'r> {
    /// A listener that appends to `file`.
    pub(crate) fn new(
        progress: &'r Progress,
        names: RowNames<'r>,
        file: &'r mut RowFile,
    ) -> RowListener<'r> {
        let state = RowState {
            file,
            next: 0,
            waiting: std::collections::BTreeMap::new(),
            error: None,
        };
        RowListener {
            progress,
            names,
            state: Mutex::new(state),
        }
    }

    /// The first error of writing.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match state.error {
            Some(error) => Err(Failure::io(&state.file.path, error)),
            None => Ok(()),
        }
    }
}

impl RowState<'_> {
    fn write(&mut self, names: &RowNames<'_>, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            let run_id = names
                .run_ids
                .get((row.run - names.first_run) as usize)
                .copied();
            self.file.writer.write(
                names.scenario,
                names.policies[row.policy],
                row.run,
                &row.record,
                run_id,
            )?;
        }
        Ok(())
    }
}

impl Listener for RowListener<'_> {
    fn done(&self, runs: u64) {
        self.progress.done(runs);
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn rows(&self, chunk: u64, rows: Vec<Row>) {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.waiting.insert(chunk, rows);
        loop {
            let next = state.next;
            let Some(rows) = state.waiting.remove(&next) else {
                return;
            };
            if state.error.is_none()
                && let Err(error) = state.write(&self.names, &rows)
            {
                state.error = Some(error);
            }
            state.next += 1;
        }
    }

    fn stopped(&self) -> bool {
        self.progress.stopped() || self.state.lock().is_ok_and(|state| state.error.is_some())
    }
}
