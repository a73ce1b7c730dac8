//! The folder of one kernel: its sockets, its plan, its results, its console.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// A folder that ends with its value.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// Most bytes of a console that an error shows.
const CONSOLE_MAX: usize = 2_000;

impl Folder {
    pub(crate) fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("txweir-host-{}-{count}", process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // One of an earlier process of this number, or somebody else's.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && count < 1_000 => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the end of what the kernel and its program have printed, in one line.
    pub(crate) fn said(&self) -> String {
        let read = |name| fs::read(self.file(name)).unwrap_or_default();
        let all = [read("console"), read("log")].concat();
        let end = &all[all.len().saturating_sub(CONSOLE_MAX)..];
        let lines = String::from_utf8_lossy(end);
        let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join("; ")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
