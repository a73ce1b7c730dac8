//! `Wakes`: the times at which qdiscs may be asked again.

use crate::base::time::Instant;
use crate::packet::reason::WakeReason;
use crate::sched::answer::Next;

/// The times that qdiscs have named beside the packets that they returned.
#[derive(Debug, Default)]
pub struct Wakes {
    /// Earliest time that a qdisc below has given, of those that lost to a packet that was ready
    /// beside them.
    earlier: Option<(Instant, WakeReason)>,
    /// Time at which a qdisc that has just returned no packet may be asked again; `None` if it is
    /// empty.
    answer: Option<(Instant, WakeReason)>,
}

impl Wakes {
    /// Notes that a class will have a packet at `t`, while another class has one now. If that one
    /// has to wait for a shaper above, `t` may be the time to ask again: the packet that is ready
    /// then may be smaller, and leave at once.
    pub fn may_be_ready(&mut self, t: Instant, why: WakeReason) {
        if self.earlier.is_none_or(|(u, _)| t < u) {
            self.earlier = Some((t, why));
        }
    }

    /// Returns the earlier of a shaper's own time and of the times given to `may_be_ready` since
    /// the path was last asked.
    pub fn earliest(&self, t: Instant, why: WakeReason) -> (Instant, WakeReason) {
        self.earlier.filter(|(u, _)| *u < t).unwrap_or((t, why))
    }

    /// Forgets the times given to `may_be_ready`, because the path is asked anew.
    pub(crate) const fn forget_earlier(&mut self) {
        self.earlier = None;
    }

    /// Returns the reason why the last called qdisc returned no packet. It is stored apart from the
    /// packet, so that the packet stays in a register.
    #[inline(always)]
    pub(crate) const fn answer(&self) -> Next {
        match self.answer {
            Some((t, why)) => Next::At(t, why),
            None => Next::Empty,
        }
    }

    /// Sets the reason that `answer` returns.
    #[inline(always)]
    pub(crate) fn set_answer(&mut self, next: Next) {
        self.answer = match next {
            Next::At(t, why) => Some((t, why)),
            Next::Packet(_) | Next::Empty => None,
        };
    }
}
