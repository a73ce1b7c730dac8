//! The file from which a later call puts an interface back, and the lock by which an interface has
//! one call at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use txweir::device::IfName;

use super::host::Host;

/// Most bytes of the file: some 100,000 routes.
const BYTES_MAX: u64 = 1 << 24;

/// The file for an interface of the network namespace of this process. No other process has it.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Journal {
    /// Returns the journal of an interface in a folder, which is made with access for its owner
    /// only.
    pub(super) fn new(folder: &Path, interface: &IfName) -> Result<Self, String> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| format!("--state {}: {e}", folder.display()))?;
        // Namespaces have interfaces of the same names.
        let netns = fs::metadata("/proc/self/ns/net").map_or(0, |found| found.ino());
        let path = folder.join(format!("shape-{netns}-{interface}.json"));
        // The file of the lock stays: a process that waits for it must not have another one.
        let lock = path.with_extension("lock");
        let at = |e: &dyn std::fmt::Display| format!("{}: {e}", lock.display());
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let file = file.map_err(|e| at(&e))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: file }),
            Err(TryLockError::WouldBlock) => {
                Err(format!("another `txweir shape {interface}` is running: end it first"))
            }
            Err(TryLockError::Error(e)) => Err(at(&e)),
        }
    }

    /// Returns a path beside the file, with another ending.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.path.with_extension(ending)
    }

    /// Returns the interface as a run that did not end has found it.
    pub(super) fn read(&self) -> Result<Option<Host>, String> {
        let at = |e: &dyn std::fmt::Display| format!("{}: {e}", self.path.display());
        match fs::metadata(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(at(&e)),
            Ok(found) if found.len() > BYTES_MAX => return Err(at(&"the file is too long")),
            Ok(_) => {}
        }
        let text = fs::read_to_string(&self.path).map_err(|e| at(&e))?;
        let value = serde_json::from_str(&text).map_err(|e| at(&e))?;
        Host::from_json(&value).map(Some).ok_or_else(|| at(&"expected what `txweir shape` has written"))
    }

    /// Writes the interface as it is, so that it outlives a loss of power.
    pub(super) fn write(&self, host: &Host) -> Result<(), String> {
        let text = host.to_json().to_string();
        if text.len() as u64 > BYTES_MAX {
            let (path, bytes) = (self.path.display(), text.len());
            return Err(format!(
                "{path}: {bytes} bytes of addresses and routes, expected at most {BYTES_MAX}"
            ));
        }
        let whole = || -> io::Result<()> {
            let new = self.beside("new");
            let mut options = File::options();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        whole().map_err(|e| format!("{}: {e}", self.path.display()))
    }

    /// Removes the file, and the policy beside it.
    pub(super) fn remove(&self) -> Result<(), String> {
        let _ = fs::remove_file(self.beside("tc"));
        fs::remove_file(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))
    }
}
