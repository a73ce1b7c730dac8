//! Drops as the log has them: a line for each link and reason by which more packets are dropped
//! than a rate, and no second one within some time.

use std::collections::HashMap;

use txweir_core::{Instant, Nanos};
use txweir_device::IfName;

use crate::links::Links;
use crate::whole_way::{Whole, Why};

/// Time between two looks at the counters.
const LOOK: Nanos = Nanos::from_secs(1);
/// Least time between two lines about the same link and reason.
const QUIET: Nanos = Nanos::from_secs(10);

/// The drops of links by reason, as of the last look or line.
#[derive(Debug)]
pub(crate) struct Losses {
    /// Packets a second, of one link for one reason, above which there is a line.
    most: u64,
    next: Instant,
    known: HashMap<(IfName, &'static str), Known>,
}

/// The drops of a link for one reason.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The number, and its time.
    count: u64,
    since: Instant,
    /// The time before which there is no line.
    quiet_until: Instant,
}

impl Losses {
    /// Makes a watch for more than so many drops a second.
    pub(crate) fn above(most: u64) -> Self {
        Self { most, next: Instant::ZERO, known: HashMap::new() }
    }

    /// Returns the time of the next look.
    pub(crate) const fn deadline(&self) -> Instant {
        self.next
    }

    /// Compares the counters with those of the last look, if it is time. Returns the lines.
    pub(crate) fn look(&mut self, links: &Links, now: Instant) -> Vec<String> {
        if self.next > now {
            return Vec::new();
        }
        // The first look has nothing to compare with: nothing was dropped before the start.
        let first = self.next == Instant::ZERO;
        self.next = now + LOOK;
        let mut lines = Vec::new();
        let mut known = HashMap::new();
        for link in links.all() {
            Whole::to(link).each_reason(&mut |why, reason, count| {
                if why != Why::Drop {
                    return;
                }
                let key = (link.name.clone(), reason);
                let new = Known {
                    count: 0,
                    since: Instant(now.0.saturating_sub(LOOK.0)),
                    quiet_until: Instant::ZERO,
                };
                let mut this = self.known.get(&key).copied().unwrap_or(new);
                // A new link of an old name counts from 0.
                if count < this.count {
                    this = new;
                }
                let (dropped, time) = (count - this.count, now.saturating_since(this.since));
                let is_over = u128::from(dropped) * u128::from(LOOK.0)
                    > u128::from(self.most) * u128::from(time.0.max(LOOK.0));
                if this.quiet_until <= now {
                    if is_over && !first {
                        let seconds = time.0.div_ceil(LOOK.0).max(1);
                        lines.push(format!(
                            "link {}: {dropped} packets dropped in {seconds} s: {reason}, above {} a second",
                            link.name, self.most
                        ));
                        this.quiet_until = now + QUIET;
                    }
                    (this.count, this.since) = (count, now);
                }
                known.insert(key, this);
            });
        }
        self.known = known;
        lines
    }
}
