//! `Gate`: turns for packets whose senders are elsewhere.
//!
//! A program that takes packets out of a TUN or TAP device, or off a wire, gets a sender's burst as
//! a whole, because no mechanism tells the sender to wait. The gate stands between that source and
//! a transmit path, and lets a flow have at most its quota in the path at a time; further packets
//! wait here, in a queue for each flow, and the queues take turns. So no flow's burst stands ahead
//! of another's packet in the path, and the path's qdiscs decide among packets of all flows rather
//! than those that came first.
//!
//! The path counts as the packets that wait in its qdiscs. Packets that the device holds do not
//! count, so a gate costs no throughput: as soon as the qdiscs hand a packet to the device, the
//! gate hands on more.
//!
//! - G1: a flow has less than the quota in the path when a packet of it goes in: at most the quota
//!   and one unit.
//! - G2: packets of one flow leave in the order in which they came, except for those without
//!   payload ([`Load::segs`] 0): these go ahead if their flow has nothing here.
//! - G3: no packet waits here that its flow may have in the path, once [`front`](Gate::front) has
//!   returned `None`.
//! - G4: the number of waiting packets is at most that of the places. If no place is left, the
//!   oldest packet of the flow with most waiting packets makes room for the new one: a sender that
//!   only loss slows down gets a loss, and no other flow loses for it.
//!
//! Flows that share a bucket share turns. Each call takes amortised constant time, except for
//! changes of the quota and [`path_is_empty`](Gate::path_is_empty); only `new` allocates.

use crate::base::bound::Bound;

use alloc::vec::Vec;

use super::{NONE, Quota};

/// Charge for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of segments with payload: 0 for an acknowledgement, which never spends a quota.
    pub segs: u32,
    /// Number of bytes.
    pub bytes: u32,
}

impl Load {
    /// Returns the load of a packet from its metadata: a packet that carries control and no data
    /// counts nothing.
    #[must_use]
    pub fn of(meta: &crate::Meta) -> Self {
        match meta.tcp_control {
            true => Self::default(),
            false => Self { segs: u32::from(meta.segs), bytes: meta.wire_len },
        }
    }
}

/// Result of an offer of a packet to the gate.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Offered<T> {
    /// The packet goes into the path, and is counted there.
    Pass(T),
    /// The packet waits for its flow's turn.
    Held,
    /// The packet waits for its flow's turn; this other packet, which waited, has made room for it.
    Instead(T),
}

crate::stats! {
    /// Counts of packets at a gate.
    pub struct GateStats {
        /// Packets that passed at once.
        passed: u64,
        /// Packets that had to wait for a turn.
        held: u64,
        /// Packets that made room for others.
        dropped: u64,
        /// Turns that ended with more to send.
        yields: u64,
        /// Largest number of packets that waited at a time.
        waiting_max: u64 [falls],
    }
}

/// Flows, and their waiting packets.
#[derive(Clone, Debug)]
pub struct Gate<T> {
    flows: Vec<Flow>,
    places: Vec<Place<T>>,
    /// The first free place.
    free: u32,
    /// `with[n]`: first flow with n waiting packets. `most`: the largest such n.
    with: Vec<u32>,
    most: u32,
    /// List of the flows with a packet here that may go into the path, in the order of their turns.
    first: u32,
    last: u32,
    ready: u32,
    waiting: u32,
    quota: Quota,
    stats: GateStats,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The oldest and the latest waiting packet.
    head: u32,
    tail: u32,
    /// The next flow in the list.
    next: u32,
    listed: bool,
    /// Number of waiting packets, and the neighbours among the flows with the same number.
    waits: u32,
    up: u32,
    down: u32,
    /// Load in the path.
    path: Sum,
    /// Load sent in this turn.
    turn: Sum,
}

/// A sum of loads.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    segs: u32,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, load: Load) {
        self.segs = self.segs.saturating_add(load.segs);
        self.bytes = self.bytes.saturating_add(load.bytes.into());
    }
    /// Subtracts a load. The sum saturates, because copies that a path made of packets leave it
    /// without having come in.
    fn sub(&mut self, load: Load) {
        self.segs = self.segs.saturating_sub(load.segs);
        self.bytes = self.bytes.saturating_sub(load.bytes.into());
    }
    const fn spends(self, quota: Quota) -> bool {
        quota.is_spent(self.segs, self.bytes)
    }
}

#[derive(Clone, Debug)]
struct Place<T> {
    item: Option<T>,
    load: Load,
    next: u32,
}

impl<T> Gate<T> {
    /// Returns a gate with `flows` buckets for flows, rounded up to a power of two, and `places`
    /// places for packets, at least one of each.
    #[must_use]
    pub fn new(flows: u32, places: u32, quota: Quota) -> Self {
        let flow = Flow {
            head: NONE,
            tail: NONE,
            next: NONE,
            listed: false,
            waits: 0,
            up: NONE,
            down: NONE,
            path: Sum::default(),
            turn: Sum::default(),
        };
        let flows = flows.clamp(1, FLOWS_MAX).next_power_of_two();
        let places = places.clamp(1, PLACES_MAX);
        let place =
            |i| Place { item: None, load: Load::default(), next: if i + 1 < places { i + 1 } else { NONE } };
        Self {
            flows: alloc::vec![flow; flows as usize],
            places: (0..places).map(place).collect(),
            free: 0,
            with: alloc::vec![NONE; places as usize + 1],
            most: 0,
            first: NONE,
            last: NONE,
            ready: 0,
            waiting: 0,
            quota,
            stats: GateStats::default(),
        }
    }

    /// Returns the quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Sets another quota from the next packet on. Flows that may now have more in the path get
    /// turns.
    pub fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
        self.wake_all();
    }

    /// Returns the number of packets that wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Returns the packets that wait, in no order, to be changed where they are. Their flows and
    /// loads stay as they were offered.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.item.as_mut())
    }

    /// Returns the number of flows with a packet here that may go into the path.
    #[must_use]
    pub const fn ready(&self) -> usize {
        self.ready as usize
    }

    /// Returns the counts.
    #[must_use]
    pub const fn stats(&self) -> GateStats {
        self.stats
    }

    /// Offers a packet of the flow with this hash. `room` is true if the path would take it now.
    pub fn offer(&mut self, hash: u32, load: Load, room: bool, item: T) -> Offered<T> {
        let at = self.bucket(hash);
        let quota = self.quota;
        let flow = &mut self.flows[at];
        if flow.head == NONE && (load.segs == 0 || (room && self.first == NONE && !flow.path.spends(quota))) {
            flow.path.add(load);
            self.stats.passed += 1;
            return Offered::Pass(item);
        }
        let out = if self.free == NONE { self.make_room(at) } else { None };
        let index = self.free;
        let Some(place) = self.places.get_mut(index as usize) else { return Offered::Instead(item) };
        self.free = place.next;
        (place.item, place.load, place.next) = (Some(item), load, NONE);
        let flow = &mut self.flows[at];
        let before = core::mem::replace(&mut flow.tail, index);
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = index,
            None => flow.head = index,
        }
        self.now_waits(at, self.flows[at].waits + 1);
        self.stats.held += 1;
        self.waiting += 1;
        self.stats.waiting_max = self.stats.waiting_max.max(u64::from(self.waiting));
        self.wake(at);
        out.map_or(Offered::Held, Offered::Instead)
    }

    /// Frees a place for a packet of the flow `at`: drops the oldest packet of the flow with most,
    /// counting the new one.
    fn make_room(&mut self, at: usize) -> Option<T> {
        let longest = match self.flows[at].waits < self.most {
            true => self.with.get(self.most as usize).map_or(at, |flow| *flow as usize),
            false => at,
        };
        let (item, _) = self.pull(longest)?;
        self.stats.dropped += 1;
        Some(item)
    }

    /// Takes the oldest packet of a flow out of its place. A flow without further packets may stay
    /// in the list; `front` skips it.
    fn pull(&mut self, at: usize) -> Option<(T, Load)> {
        let flow = self.flows.get_mut(at)?;
        let index = flow.head;
        let place = self.places.get_mut(index as usize)?;
        let (item, load) = (place.item.take()?, place.load);
        flow.head = core::mem::replace(&mut place.next, self.free);
        if flow.head == NONE {
            flow.tail = NONE;
        }
        let left = flow.waits - 1;
        self.free = index;
        self.waiting -= 1;
        self.now_waits(at, left);
        Some((item, load))
    }

    /// Moves a flow to the list of flows with `count` waiting packets.
    fn now_waits(&mut self, at: usize, count: u32) {
        let Flow { waits: before, up, down, .. } = self.flows[at];
        if before > 0 {
            match self.flows.get_mut(up as usize) {
                Some(up) => up.down = down,
                None => self.with[before as usize] = down,
            }
            if let Some(down) = self.flows.get_mut(down as usize) {
                down.up = up;
            }
        }
        let (mut first, index) = (NONE, at as u32);
        if count > 0 {
            first = core::mem::replace(&mut self.with[count as usize], index);
            if let Some(first) = self.flows.get_mut(first as usize) {
                first.up = index;
            }
        }
        let flow = &mut self.flows[at];
        (flow.waits, flow.up, flow.down) = (count, NONE, first);
        // Counts change by one at a time. So when the last flow with the largest count leaves it,
        // `count` is the new largest.
        if count > self.most || (before == self.most && self.with[before as usize] == NONE) {
            self.most = count;
        }
    }

    /// Records that a packet of the flow with this hash has left the qdiscs: it was sent, or
    /// dropped.
    pub fn left(&mut self, hash: u32, load: Load) {
        let at = self.bucket(hash);
        self.flows[at].path.sub(load);
        self.wake(at);
    }

    /// Counts a packet that goes into the path without an offer: a piece of one that came through
    /// the gate.
    pub fn joined(&mut self, hash: u32, load: Load) {
        let at = self.bucket(hash);
        self.flows[at].path.add(load);
    }

    /// Records that the path is empty, whatever was counted: packets lost on the way are forgotten.
    pub fn path_is_empty(&mut self) {
        for flow in &mut self.flows {
            flow.path = Sum::default();
        }
        self.wake_all();
    }

    /// Returns the packet whose turn it is, so that the caller can ask whether the path takes it.
    /// The caller then either [takes](Self::take) it or [passes it over](Self::pass_over).
    pub fn front(&mut self) -> Option<&T> {
        // Each turn but the last takes a flow off the list.
        let mut bound = Bound::of(self.flows.len() + 1);
        while let Some(flow) = self.flows.get(self.first as usize) {
            bound.turn();
            if flow.head != NONE && !flow.path.spends(self.quota) {
                break;
            }
            self.unlist();
        }
        let flow = self.flows.get(self.first as usize)?;
        self.places.get(flow.head as usize)?.item.as_ref()
    }

    /// Takes the packet whose turn it is and counts it as in the path.
    pub fn take(&mut self) -> Option<T> {
        self.front()?;
        let at = self.first as usize;
        let (item, load) = self.pull(at)?;
        let flow = self.flows.get_mut(at)?;
        flow.path.add(load);
        flow.turn.add(load);
        let spent = flow.turn.spends(self.quota);
        if flow.head == NONE {
            self.unlist();
        } else if spent {
            self.stats.yields += 1;
            self.pass_over();
        }
        Some(item)
    }

    /// Sends the flow whose turn it is to the end of the list.
    pub fn pass_over(&mut self) {
        let at = self.first as usize;
        if at < self.flows.len() {
            self.unlist();
            self.wake(at);
        }
    }

    /// Takes the first flow off the list and ends its turn.
    fn unlist(&mut self) {
        if let Some(flow) = self.flows.get_mut(self.first as usize) {
            self.first = flow.next;
            (flow.next, flow.listed, flow.turn) = (NONE, false, Sum::default());
            self.ready -= 1;
            if self.first == NONE {
                self.last = NONE;
            }
        }
    }

    /// Adds a flow to the list if a packet of it waits and may go.
    fn wake(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        if flow.head == NONE || flow.listed || flow.path.spends(self.quota) {
            return;
        }
        flow.listed = true;
        // The index is below `FLOWS_MAX`.
        let index = at as u32;
        let before = core::mem::replace(&mut self.last, index);
        match self.flows.get_mut(before as usize) {
            Some(before) => before.next = index,
            None => self.first = index,
        }
        self.ready += 1;
    }

    fn wake_all(&mut self) {
        for at in 0..self.flows.len() {
            self.wake(at);
        }
    }

    /// Returns the bucket of a hash: the number of buckets is a power of two.
    const fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.flows.len() - 1)
    }
}

/// Largest number of buckets: more would not fit the memory of a small machine.
const FLOWS_MAX: u32 = 1 << 20;
/// Largest number of places, for the same reason.
const PLACES_MAX: u32 = 1 << 24;
