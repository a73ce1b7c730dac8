//! `Delays`: how long frames stay in each stage of a direction.

use txweir_core::base::histogram::Histogram;
use txweir_core::{Instant, Meta};

/// The time that frames spent in each stage. A frame counts in a stage when it leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// From the look that found a frame at its interface until it enters the qdiscs: behind other
    /// frames of its burst, for the turn of its flow, for room, in the mailbox of another worker.
    pub arrival: Histogram,
    /// In the qdiscs. A frame that passes them directly counts as 0, and a piece of a super-frame
    /// counts as a frame. Behind an emulated link (netem) the time begins when that link has
    /// delivered the frame.
    pub qdisc: Histogram,
    /// From the qdiscs until the device has finished the frame: on the wire, if there is one.
    pub device: Histogram,
}

impl Delays {
    /// Returns the stages in their order, by name.
    #[must_use]
    pub const fn stages(&self) -> [(&'static str, &Histogram); 3] {
        [("arrival", &self.arrival), ("qdisc", &self.qdisc), ("device", &self.device)]
    }

    /// Returns the counts of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            arrival: self.arrival.plus(&other.arrival),
            qdisc: self.qdisc.plus(&other.qdisc),
            device: self.device.plus(&other.device),
        }
    }
}

/// The delays of a direction while it runs, and the time of the present step.
#[derive(Debug)]
pub struct Stamps {
    /// `None` for a direction that counts no delays.
    pub delays: Option<Delays>,
    pub now: Instant,
}

impl Stamps {
    /// Counts a frame that enters the qdiscs and has been there since `at`; the beginning of time
    /// stands for a frame of which that is not known.
    #[inline]
    pub fn enters(&mut self, at: Instant) {
        if let Some(delays) = &mut self.delays {
            let at = if at == Instant::ZERO { self.now } else { at };
            delays.arrival.add(self.now.saturating_since(at));
        }
    }

    /// Counts a frame that leaves the qdiscs. Returns its metadata with the time at which it does.
    #[inline]
    pub fn leaves(&mut self, m: &Meta) -> Meta {
        if let Some(delays) = &mut self.delays {
            delays.qdisc.add(self.now.saturating_since(m.enqueued));
        }
        let mut m = *m;
        m.enqueued = self.now;
        m
    }

    /// Counts a frame that has left the qdiscs at `left` and that its device has finished at `now`.
    #[inline]
    pub fn finished(&mut self, left: Instant, now: Instant) {
        if let Some(delays) = &mut self.delays {
            delays.device.add(now.saturating_since(left));
        }
    }
}
