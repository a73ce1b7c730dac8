//! Interfaces that have disappeared: they are opened again when there is one of their name.

use txweir_core::{Instant, Nanos};

use super::Links;
use crate::end::End;
use crate::link::Link;

/// Time between two attempts to open the interface of one link.
const RETRY: Nanos = Nanos::from_secs(1);
/// Least time between two attempts for any links: each takes some 10 us, and some 100 us in another
/// network namespace. So attempts take at most some hundredth of the loop's time, however many
/// interfaces are gone.
const GAP: Nanos = Nanos::from_millis(10);

impl Links {
    /// Notes interfaces that have disappeared since the last call, and tries to open one of them
    /// again if an attempt is due. A link keeps its qdiscs and counters.
    pub fn restore(&mut self, now: Instant) {
        for link in self.all.iter_mut().filter(|link| link.is_gone() && link.retry.is_none()) {
            if let End::Gone(why, _) = link.way.device() {
                let text = format!("link {}: interface `{}` is gone: {why}", link.name, link.interface());
                self.notes.line(now, "txweir", &text);
            }
            link.retry = Some(now + RETRY);
        }
        if self.next_attempt().is_none_or(|at| at > now) {
            return;
        }
        self.next_try = now + GAP;
        let gone = self.all.iter_mut().filter(|link| link.is_gone());
        let Some(link) = gone.min_by_key(|link| link.retry) else { return };
        // The interface is still missing, or is not yet as it has to be.
        let Ok(Some(io)) = link.open(&*self.machine) else {
            link.retry = Some(now + RETRY);
            return;
        };
        link.come_back(now, io);
        let text = format!("link {}: interface `{}` is back", link.name, link.interface());
        self.notes.line(now, "txweir", &text);
    }

    /// Returns the time of the next attempt to open an interface again.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        let retries = self.all.iter().filter(|link| link.is_gone()).filter_map(|link: &Link| link.retry);
        retries.min().map(|at| at.max(self.next_try))
    }
}
