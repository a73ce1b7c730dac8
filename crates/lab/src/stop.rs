//! Ends runs before their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use txweir_core::{Instant, Nanos};

use crate::net::Net;

/// Longest simulated time between two looks at a [`Stop`], and between two reports of progress.
pub const LOOK: Nanos = Nanos::from_millis(100);

/// A request to end runs early. Each copy is the same request; any thread may make it. A run that
/// has it looks every [`LOOK`] of simulated time.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks all runs that have a copy to end. They have no results then.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a net until `until`, unless somebody asks before. `advanced` gets the simulated time
    /// of each piece.
    pub(crate) fn run(&self, net: &mut Net, until: Instant, advanced: &mut dyn FnMut(Nanos)) {
        // Bound: each piece but the last is LOOK long.
        loop {
            let now = net.engine().now();
            if now >= until || self.is_asked() {
                return;
            }
            let piece = until.min(now + LOOK);
            net.run(piece);
            advanced(piece.saturating_since(now));
        }
    }
}
