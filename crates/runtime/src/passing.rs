//! A forwarder's frames through filters: those of the hook that a frame comes in by, of the one that it leaves by, and of the
//! qdiscs; and the copies that actions send to either side.

use txweir_core::Instant;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::{PortId, Way};
use txweir_tc::tool::HookCounts;

use crate::direction::{Arrival, Direction, Received};
use crate::filtering::Asking;
use crate::notes::Notes;
use crate::outlet::{Copy, One, Outlets};
use crate::run::{RunError, Side};

/// What filters know of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideFilters {
    /// The number by which actions know it.
    pub port: PortId,
    /// The filters of what comes in by it.
    pub ingress: Option<BlockId>,
    /// The filters of what leaves by it, ahead of its qdiscs.
    pub egress: Option<BlockId>,
    /// Its transmit queues.
    pub queues: u32,
    /// What its hooks have counted.
    pub counted: HookCounts,
}

/// The filters and actions of a forwarder.
#[derive(Debug)]
pub struct Filtering {
    /// All of them. They do not change while it runs.
    pub filters: Filters,
    /// What they have counted; made to fit them.
    pub state: State,
    /// Where samples and lines go.
    pub notes: Notes,
    /// Of each side.
    pub sides: [SideFilters; 2],
}

impl Filtering {
    /// Passes a frame on that came in by a side, or is sent from here, to the side at `to`, and whatever its actions send.
    pub(crate) fn pass(
        &mut self,
        now: Instant,
        from: usize,
        arrival: Arrival,
        directions: &mut [Direction; 2],
        sides: &mut [Side; 2],
    ) -> Result<(), RunError> {
        let mut copies = Vec::new();
        self.one(now, (Some(from), 1 - from), (arrival, 0), directions, sides, &mut copies)?;
        // It ends: a copy is one redirection deeper than what it was made of, and actions make none of the deepest.
        while let Some(copy) = copies.pop() {
            let Some(at) = self.sides.iter().position(|side| side.port == copy.to) else { continue };
            let (from, to) = match copy.way {
                Way::Egress => (None, at),
                Way::Ingress => (Some(at), 1 - at),
            };
            // What cannot be kept is counted where it would have been.
            if let Ok(Received::Frame(mut arrival)) = directions[1 - to].receive(&mut One(Some(&copy))) {
                let meta = arrival.meta_mut();
                (meta.priority, meta.mark) = (copy.priority, copy.mark);
                self.one(now, (from, to), (arrival, copy.depth), directions, sides, &mut copies)?;
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        now: Instant,
        (from, to): (Option<usize>, usize),
        (arrival, depth): (Arrival, u8),
        directions: &mut [Direction; 2],
        sides: &mut [Side; 2],
        copies: &mut Vec<Copy>,
    ) -> Result<(), RunError> {
        let up = self.sides.each_ref().map(|side| side.port);
        let egress = self.sides[to];
        let mut asking = Asking {
            filters: &self.filters,
            state: &mut self.state,
            outlet: &mut Outlets { up: &up, copies, notes: &mut self.notes, now },
            from: from.map(|from| (self.sides[from].port, self.sides[from].ingress)),
            to: (egress.port, egress.egress),
            queues: egress.queues,
            depth,
            counted: [HookCounts::default(); 2],
        };
        // The direction that leaves by a side is the other's number.
        let way = &mut directions[1 - to];
        let arrival = way.classify(now, arrival, &mut asking);
        let [received, sent] = asking.counted;
        self.sides[to].counted.add(sent);
        if let Some(from) = from {
            self.sides[from].counted.add(received);
        }
        match arrival {
            Some(arrival) => {
                let side = &mut sides[to];
                way.admit(now, arrival, &mut side.link).map_err(|error| side.gone(error))
            }
            None => Ok(()),
        }
    }
}
