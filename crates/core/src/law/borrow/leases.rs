//! The ceilings that classes share with classes of other trees.

use alloc::vec::Vec;

use super::classes::Mode;
use crate::base::time::Instant;
use crate::law::bucket::to_i64;
use crate::law::lease::Lease;

/// The shared ceilings by the slot of their class; few.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases(Vec<(u16, Lease)>);

impl Leases {
    /// Sets the ceiling that a class shares, or removes it.
    pub(super) fn share(&mut self, i: usize, lease: Option<Lease>) {
        self.0.retain(|(slot, _)| usize::from(*slot) != i);
        // Slots are below `CLASSES_MAX`.
        self.0.extend(lease.map(|lease| (i as u16, lease)));
    }
    /// Returns the ceiling that a class shares.
    pub(super) fn of(&self, i: usize) -> Option<&Lease> {
        self.0.iter().find(|(slot, _)| usize::from(*slot) == i).map(|(_, lease)| lease)
    }
    /// Makes all leases new.
    pub(super) fn restart(&mut self) {
        self.0.iter_mut().for_each(|(_, lease)| lease.restart());
    }
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mode of a class and the time in ns until a better one, after a packet of `size`
    /// bytes left through it; 0 for no packet. `alone` is the same by the class's own tokens;
    /// `waiting` says that the class has packets.
    #[inline(never)]
    pub(super) fn mode(
        &mut self,
        i: usize,
        waiting: bool,
        alone: (Mode, i64),
        now: Instant,
        size: u64,
    ) -> (Mode, i64) {
        let mut leases = self.0.iter_mut();
        let Some((_, lease)) = leases.find(|(slot, _)| usize::from(*slot) == i) else { return alone };
        // The backlog below the class is not known here: a busy class asks for as much as a lease
        // holds.
        match lease.owe(size, if waiting { u64::MAX } else { 0 }, now) {
            Err(t) => {
                let wait = to_i64(t.saturating_since(now));
                (Mode::CantSend, if alone.0 == Mode::CantSend { wait.max(alone.1) } else { wait })
            }
            Ok(()) if !waiting => {
                lease.rest();
                alone
            }
            Ok(()) => alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{Bytes, Rate};

    /// A class that is out of its own ceiling and of the shared one waits for the later of both.
    #[test]
    fn both_ceilings_have_to_allow_a_class_to_send() {
        let ms = |n: i64| n * 1_000_000;
        for (own, mode, wait) in [
            ((Mode::CanSend, 0), Mode::CantSend, ms(2)),
            ((Mode::MayBorrow, ms(5)), Mode::CantSend, ms(2)),
            ((Mode::CantSend, ms(1)), Mode::CantSend, ms(2)),
            ((Mode::CantSend, ms(5)), Mode::CantSend, ms(5)),
        ] {
            let mut leases = Leases::default();
            // One byte a microsecond; the bucket holds 1000 of the 3000 bytes that have left.
            leases.share(7, Some(Lease::alone(Rate(1_000_000), Bytes(1000))));
            let now = Instant::from_secs(9);
            assert_eq!(leases.mode(7, true, own, now, 3000), (mode, wait), "{own:?}");
            assert_eq!(leases.mode(8, true, own, now, 3000), own, "another class shares nothing");
        }
    }
}
