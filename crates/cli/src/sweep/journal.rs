//! The journal of a sweep: a line for the sweep, and a line for each run that has ended, JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use txweir::lab::sweep::Measured;

use super::at;
use crate::{Failure, output};

/// Most bytes of a line: more than the report of any scenario has.
const LINE_MAX: u64 = 64 << 20;

/// An open journal. No other process has it.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// The runs, each with the place of its line.
    lines: BTreeMap<u64, u64>,
    end: u64,
}

/// Opens a file, or makes it, for this process alone.
fn locked(path: &Path) -> Result<File, Failure> {
    let mut told = false;
    loop {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    output::say(format_args!(
                        "{}: another process writes it; this one waits\n",
                        path.display()
                    ));
                }
                file.lock().map_err(|e| at(path)(&e))?;
            }
            Err(TryLockError::Error(e)) => return Err(at(path)(&e)),
        }
        // The other process may have removed it at its end.
        let (own, there) = (file.metadata(), std::fs::metadata(path));
        if own.is_ok_and(|own| there.is_ok_and(|there| (own.dev(), own.ino()) == (there.dev(), there.ino())))
        {
            return Ok(file);
        }
    }
}

impl Journal {
    /// Opens the journal of a sweep, or makes it; waits while another process has it. A line that
    /// was cut by an interruption, and what is behind it, is removed.
    ///
    /// # Errors
    /// It is of another sweep, or of other runs; the file cannot be read or written.
    pub fn open(path: &Path, identity: &str, runs: &[u64]) -> Result<Self, Failure> {
        let wrong = at(path);
        let file = locked(path)?;
        let mut journal = Self { path: path.into(), file, lines: BTreeMap::new(), end: 0 };
        let expected: BTreeSet<u64> = runs.iter().copied().collect();
        let first =
            json!({ "txweir": env!("CARGO_PKG_VERSION"), "sweep": identity, "runs": runs.len() }).to_string();
        match journal.read(0)? {
            None => {
                journal.file.set_len(0).map_err(|e| wrong(&e))?;
                journal.append(&first)?;
            }
            Some(line) if line.trim_end() != first => {
                return Err(Failure::usage(format!(
                    "{}: expected the journal of this sweep, given that of another one (remove it)",
                    path.display()
                )));
            }
            Some(line) => journal.end = line.len() as u64,
        }
        while let Some(line) = journal.read(journal.end)? {
            let value: Option<Value> = serde_json::from_str(&line).ok();
            let Some(run) = value.and_then(|v| v.get("run")?.as_u64()).filter(|run| expected.contains(run))
            else {
                break;
            };
            journal.lines.insert(run, journal.end);
            journal.end += line.len() as u64;
        }
        journal.file.set_len(journal.end).map_err(|e| wrong(&e))?;
        Ok(journal)
    }

    /// Returns the whole line at a place.
    fn read(&mut self, from: u64) -> Result<Option<String>, Failure> {
        let wrong = at(&self.path);
        self.file.seek(SeekFrom::Start(from)).map_err(|e| wrong(&e))?;
        let mut line = Vec::new();
        BufReader::new(&self.file).take(LINE_MAX).read_until(b'\n', &mut line).map_err(|e| wrong(&e))?;
        Ok(String::from_utf8(line).ok().filter(|line| line.ends_with('\n')))
    }

    fn append(&mut self, line: &str) -> Result<(), Failure> {
        let wrong = at(&self.path);
        let line = format!("{line}\n");
        self.file.seek(SeekFrom::Start(self.end)).map_err(|e| wrong(&e))?;
        self.file.write_all(line.as_bytes()).map_err(|e| wrong(&e))?;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Adds a run with its measurements.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, run: u64, rows: &[Measured]) -> Result<(), Failure> {
        let rows: Vec<Value> = rows.iter().map(|r| json!([r.section, r.object, r.metric, r.value])).collect();
        let place = self.end;
        self.append(&json!({ "run": run, "rows": rows }).to_string())?;
        self.lines.insert(run, place);
        Ok(())
    }

    /// Returns the runs that it has.
    pub fn runs(&self) -> BTreeSet<u64> {
        self.lines.keys().copied().collect()
    }

    /// Returns the measurements of a run.
    ///
    /// # Errors
    /// The file cannot be read, or has changed.
    pub fn rows(&mut self, run: u64) -> Result<Vec<Measured>, Failure> {
        let changed = || at(&self.path)(&"it has changed meanwhile");
        let place = *self.lines.get(&run).ok_or_else(changed)?;
        let line = self.read(place)?;
        let value: Option<Value> = line.and_then(|line| serde_json::from_str(&line).ok());
        let rows = value.as_ref().and_then(|value| value.get("rows")?.as_array());
        let row = |row: &Value| {
            let text = |at: usize| Some(row.get(at)?.as_str()?.to_owned());
            Some(Measured {
                section: text(0)?,
                object: text(1)?,
                metric: text(2)?,
                value: row.get(3)?.as_f64()?,
            })
        };
        let rows: Option<Vec<Measured>> = rows.and_then(|rows| rows.iter().map(row).collect());
        rows.ok_or_else(|| at(&self.path)(&"it has changed meanwhile"))
    }

    /// Removes it.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(self) -> Result<(), Failure> {
        std::fs::remove_file(&self.path).map_err(|e| at(&self.path)(&e))
    }
}
