//! `Before`: the links as they were ahead of a change in several steps, one of which may fail.

use txweir_core::Instant;

use super::Links;
use crate::link::Noted;

/// The parameters and peers of all links, in order.
#[derive(Debug)]
pub(crate) struct Before(Vec<Noted>);

impl Before {
    /// Notes the links as they are.
    pub fn of(links: &Links) -> Self {
        Self(links.all.iter().map(Noted::of).collect())
    }

    /// Makes the links as they were: those that were added since go, with their packets, and none
    /// has been removed. An interface that has come back stays.
    pub fn bring_back(&self, links: &mut Links, now: Instant) {
        // Packets may have passed since.
        let now = links.now.max(now);
        // Bound: each turn removes a link.
        while let Some(added) = links.all.get(self.0.len()) {
            let name = added.name.clone();
            if links.del(&name).is_err() {
                break;
            }
        }
        for (at, noted) in self.0.iter().enumerate().take(links.all.len()) {
            links.all[at].go_back(now, noted);
            links.end_change(now, at);
        }
    }
}
