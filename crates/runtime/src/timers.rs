//! `Timers`: the times at which the qdiscs of each path want to be asked again.

use txweir_core::Instant;

/// The times of all paths.
#[derive(Debug, Default)]
pub struct Timers {
    each: Vec<Option<Instant>>,
    /// The earliest.
    next: Option<Instant>,
}

impl Timers {
    /// The earliest of all.
    pub const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// That of one path.
    pub fn of(&self, path: u16) -> Option<Instant> {
        self.each.get(usize::from(path)).copied().flatten()
    }

    /// A path wants to be asked at this time, or not.
    pub fn set(&mut self, path: usize, at: Option<Instant>) {
        if path >= self.each.len() {
            self.each.resize(path + 1, None);
        }
        let before = std::mem::replace(&mut self.each[path], at);
        if before == at {
            return;
        }
        self.next = match (self.next, at) {
            // The earliest of all may have gone: every other one is looked at.
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
