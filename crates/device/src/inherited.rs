//! The descriptors that a process was started with: those that a service manager has opened for it
//! (sd_listen_fds(3)).

use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

/// The first descriptor behind stdin, stdout and stderr.
const FIRST: i32 = 3;
/// Most descriptors that are taken.
const MOST: i32 = 16;

/// Takes over the descriptors that the environment names (`LISTEN_PID`, `LISTEN_FDS`,
/// `LISTEN_FDNAMES`), each with its name, which may be empty. A second call returns none.
///
/// # Errors
/// One sentence: a variable is wrong, or there is no such descriptor.
pub fn inherited() -> Result<Vec<(String, OwnedFd)>, String> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let text = |name: &str| env::var(name).unwrap_or_default();
    // Descriptors of another process: this one has inherited the variables alone.
    if text("LISTEN_PID") != std::process::id().to_string() || TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let given = text("LISTEN_FDS");
    let count = given.parse().ok().filter(|count| (0..=MOST).contains(count));
    let count: i32 = count.ok_or_else(|| format!("LISTEN_FDS: expected 0 to {MOST}, given {given}"))?;
    let names = text("LISTEN_FDNAMES");
    let mut names = names.split(':');
    (FIRST..FIRST + count)
        .map(|fd| {
            let name = names.next().unwrap_or_default().to_owned();
            let taken = sys::take_fd(fd).map_err(io::Error::from);
            Ok((name, taken.map_err(|e| format!("LISTEN_FDS: descriptor {fd}: {e}"))?))
        })
        .collect()
}
