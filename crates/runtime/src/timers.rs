//! `Timers`: the times at which the qdiscs of each path want to be called again.

use txweir_core::Instant;

/// The times of all paths.
#[derive(Debug, Default)]
pub struct Timers {
    each: Vec<Option<Instant>>,
    /// The earliest time.
    next: Option<Instant>,
}

impl Timers {
    /// Returns the earliest time of all paths.
    pub const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the time of one path.
    pub fn of(&self, path: u16) -> Option<Instant> {
        self.each.get(usize::from(path)).copied().flatten()
    }

    /// Sets or clears the time at which a path wants to be called again.
    pub fn set(&mut self, path: usize, at: Option<Instant>) {
        if path >= self.each.len() {
            self.each.resize(path + 1, None);
        }
        let before = self.each[path];
        if before == at {
            return;
        }
        self.each[path] = at;
        self.next = match (self.next, at) {
            // The earliest time may be gone: all others are compared.
            (next, _) if next == before => self.each.iter().flatten().min().copied(),
            (Some(next), Some(at)) => Some(next.min(at)),
            (next, at) => next.or(at),
        };
    }

    /// Forgets the times of all but the first `paths` paths.
    pub fn truncate(&mut self, paths: usize) {
        for path in paths..self.each.len() {
            self.set(path, None);
        }
        self.each.truncate(paths);
    }
}
