//! `Readers`: the counters and memories of filters and actions of a port's senders, each behind a
//! lock of its own, and their sum.
//!
//! Only a look at the sum takes another's lock, so a sender's own is free nearly always. A number
//! of a filter may be given again after a change. So a state is brought up to a policy before it is
//! added, under the lock of the writer of policies, and a sender reads the policy after it has
//! taken its own lock: it never classifies by an older policy than the one its state was brought up
//! to.
//!
//! - I1: a packet that filters have seen is in the sum, once, also after the end of its sender;
//!   unless the filter or the action was removed or replaced.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;

/// The state of one sender.
pub(crate) type Reader = Arc<Mutex<State>>;

/// The states of all senders of a port.
pub(crate) struct Readers(Mutex<Known>);

struct Known {
    /// Those that send, by the address of their state.
    here: HashMap<usize, Reader>,
    /// Those that have ended while a policy was changed.
    gone: Vec<State>,
    /// The counts of those that have ended before.
    ended: State,
}

/// Locks a state. A panic of an outlet or an action leaves counters that are right.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Readers {
    fn default() -> Self {
        let ended = State::new(0);
        Self(Mutex::new(Known { here: HashMap::new(), gone: Vec::new(), ended }))
    }
}

impl Known {
    /// Adds those that have ended to the sum. The caller is the writer of policies, and `filters`
    /// are those of the present one.
    fn add_gone(&mut self, filters: &Filters) {
        filters.fit(&mut self.ended);
        for mut state in self.gone.drain(..) {
            filters.fit(&mut state);
            self.ended.add_counts(&state);
        }
    }
}

impl Readers {
    /// Adds a sender with a new state.
    pub(crate) fn add(&self, state: State) -> Reader {
        let reader = Arc::new(Mutex::new(state));
        lock(&self.0).here.insert(address(&reader), Arc::clone(&reader));
        reader
    }

    /// Ends a sender. `filters` are those of the present policy, if the caller is the writer.
    pub(crate) fn end(&self, reader: &Reader, filters: Option<&Filters>) {
        let mut known = lock(&self.0);
        known.here.remove(&address(reader));
        let seed = State::new(0);
        known.gone.push(std::mem::replace(&mut lock(reader), seed));
        if let Some(filters) = filters {
            known.add_gone(filters);
        }
    }

    /// Returns the sum. The caller is the writer of policies, and `filters` are those of the
    /// present one. The time is in proportion to the senders and their counters.
    pub(crate) fn sum(&self, filters: &Filters) -> State {
        let mut known = lock(&self.0);
        known.add_gone(filters);
        let mut sum = known.ended.clone();
        for reader in known.here.values() {
            let mut state = lock(reader);
            filters.fit(&mut state);
            sum.add_counts(&state);
        }
        sum
    }
}

fn address(reader: &Reader) -> usize {
    Arc::as_ptr(reader).addr()
}
