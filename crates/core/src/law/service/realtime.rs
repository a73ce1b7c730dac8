//! Real-time service: eligible times and deadlines of leaves.

use super::Service;
use super::classes::Class;
use crate::law::curve::Tick;

impl Class {
    /// Returns the eligible time and the deadline of its next packet, of `len` bytes. Without a
    /// real-time curve both are 0.
    #[inline]
    pub(super) fn due(&self, len: u32) -> (u64, u64) {
        let Some(curve) = &self.real_time else { return (0, 0) };
        let eligible = self.deadline.eligible(curve).time_of(curve, self.served);
        (eligible, self.deadline.time_of(curve, self.served.wrapping_add(len.into())))
    }
}

impl Service {
    /// Lets a leaf that has its first packet, of `len` bytes, take part: its curve is the lower one
    /// of the old curve and of the same from now on.
    pub(super) fn claim(&mut self, i: usize, len: u32, now: Tick) {
        self.forgo(i);
        let class = &mut self.classes.at[i];
        let Some(curve) = &class.real_time else { return };
        class.deadline.lower(curve, now.0, class.served);
        class.is_eligible = true;
        let (at, deadline) = class.due(len);
        self.deadlines.insert(&mut self.eligible, i, at, deadline);
    }
    /// Removes a leaf from the real-time leaves, if it stands there.
    #[inline]
    pub(super) fn forgo(&mut self, i: usize) {
        if self.classes.at[i].is_eligible {
            self.classes.at[i].is_eligible = false;
            self.deadlines.remove(&mut self.eligible, i);
        }
    }
}
