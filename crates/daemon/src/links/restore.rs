//! Interfaces that are not there: they are opened when there is one of their name.

use txweir_core::{Instant, Nanos};
use txweir_runtime::Level;

use super::Links;
use crate::end::End;

/// Time between two attempts to open the interface of one link.
const RETRY: Nanos = Nanos::from_secs(1);
/// Least time between two attempts for any links: each takes some 10 us, and some 100 us in another
/// network namespace. So attempts take at most some hundredth of the loop's time, however many
/// interfaces are away.
const GAP: Nanos = Nanos::from_millis(10);

impl Links {
    /// Notes interfaces that are not there since the last call, and tries to open one of them if an
    /// attempt is due. A link keeps its qdiscs and counters.
    pub fn restore(&mut self, now: Instant) {
        for link in self.all.iter_mut().filter(|link| link.is_away() && link.retry.is_none()) {
            let text = match link.way.device() {
                End::Gone(why, _) => {
                    format!("link {}: interface `{}` is gone: {why}", link.name, link.interface())
                }
                end => format!("link {}: waiting: {}", link.name, end.away().unwrap_or_default()),
            };
            self.notes.line(now, Level::Notice, "txweir", &text);
            link.retry = Some(now + RETRY);
        }
        if self.next_attempt().is_none_or(|at| at > now) {
            return;
        }
        self.next_try = now + GAP;
        let away = self.all.iter_mut().filter(|link| link.is_away());
        let Some(link) = away.min_by_key(|link| link.retry) else { return };
        let awaited = matches!(link.way.device(), End::Awaited(..));
        match link.open(&*self.machine) {
            Ok(Some(io)) => {
                link.come_back(now, io);
                let how = if awaited { "has appeared" } else { "is back" };
                let text = format!("link {}: interface `{}` {how}", link.name, link.interface());
                self.notes.line(now, Level::Notice, "txweir", &text);
            }
            // No interface is away from a link without one.
            Ok(None) => link.retry = Some(now + RETRY),
            // The interface is still missing, or is not yet as it has to be.
            Err(error) => {
                link.retry = Some(now + RETRY);
                if link.way.device_mut().not_opened(&error) {
                    self.notes.line(
                        now,
                        Level::Notice,
                        "txweir",
                        &format!("link {}: {}: {error}", link.name, link.state()),
                    );
                }
            }
        }
    }

    /// True if [`restore`](Self::restore) has something to do, for which workers stand.
    pub(crate) fn restores(&self, now: Instant) -> bool {
        self.next_attempt().is_some_and(|at| at <= now)
    }

    /// Returns the time of the next attempt to open an interface; the beginning of time if there is
    /// an absence to be noted. `None` for the links of a worker: those of the daemon's own thread
    /// open the interfaces of all.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        if self.seat.as_ref().is_some_and(|seat| seat.me > 0) {
            return None;
        }
        let away = self.all.iter().filter(|link| link.is_away());
        away.map(|link| link.retry.map_or(Instant::ZERO, |at| at.max(self.next_try))).min()
    }
}
