//! `Gate`: turns for packets whose senders are elsewhere.
//!
//! Whoever takes packets out of a TUN or TAP device, or off a wire, gets a sender's burst as a whole: nothing tells the sender to
//! wait. The gate stands between that and a transmit path, and lets a flow have at most its quota in the path at a time;
//! what is more waits here, a queue for each flow, and they take turns. So no flow's burst stands ahead of another's packet in
//! the path, and the path's qdiscs decide among packets of all flows rather than of whoever came first.
//!
//! In the path is what waits in its qdiscs. What the device holds does not count, and so a gate takes no throughput: as soon as
//! the qdiscs hand something to the device, the gate hands on more.
//!
//! - G1: a flow has less than the quota in the path when a packet of it goes in: at most the quota and one unit.
//! - G2: packets of one flow leave in the order in which they came, but for those without payload ([`Load::segs`] 0): these go
//!   ahead if their flow has nothing here.
//! - G3: nothing waits here whose flow may have it in the path, once [`front`](Gate::front) has answered `None`.
//! - G4: at most so many packets wait as there are places. Where there is none left, the oldest packet of the flow of which most
//!   wait makes room for the new one: a sender that nothing but loss slows down is told by loss, and no other flow loses for it.
//!
//! Flows that share a bucket share turns. Each call takes constant time but for changes of the quota, and nothing is allocated
//! after `new`.

use alloc::vec::Vec;

use super::{NONE, Quota};

/// What a packet counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Segments with payload: 0 for an acknowledgement, which never spends a quota.
    pub segs: u32,
    /// Bytes.
    pub bytes: u32,
}

impl Load {
    /// Of a packet as schedulers know it: one that carries control and no data counts nothing.
    #[must_use]
    pub fn of(meta: &crate::Meta) -> Self {
        match meta.tcp_control {
            true => Self::default(),
            false => Self { segs: u32::from(meta.segs), bytes: meta.wire_len },
        }
    }
}

/// What became of a packet at the gate.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Offered<T> {
    /// It goes into the path, and is counted there.
    Pass(T),
    /// It waits for its flow's turn.
    Held,
    /// It waits for its flow's turn, and this one, which did, has made room for it.
    Instead(T),
}

crate::stats! {
    /// What has become of packets at a gate.
    pub struct GateStats {
        /// Packets that went in at once.
        passed: u64,
        /// Packets that had to wait for a turn.
        held: u64,
        /// Packets that made room for others.
        dropped: u64,
        /// Turns that ended with more to send.
        yields: u64,
        /// The most packets that waited at a time.
        waiting_max: u64,
    }
}

/// Flows, and what waits of each.
#[derive(Clone, Debug)]
pub struct Gate<T> {
    flows: Vec<Flow>,
    places: Vec<Place<T>>,
    /// The first free place.
    free: u32,
    /// The flows of which so many packets wait, and how many of some wait at most.
    with: Vec<u32>,
    most: u32,
    /// Flows with something here that may go into the path, in the order of their turns.
    first: u32,
    last: u32,
    ready: u32,
    waiting: u32,
    quota: Quota,
    stats: GateStats,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// What waits: the oldest, the latest.
    head: u32,
    tail: u32,
    /// The flow whose turn is after its own.
    next: u32,
    listed: bool,
    /// How many wait, and its neighbours among the flows of which as many do.
    waits: u32,
    up: u32,
    down: u32,
    /// In the path.
    path: Sum,
    /// Sent in this turn.
    turn: Sum,
}

/// Loads in sum.
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
    /// Copies that a path made of packets leave it without having come in.
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
    /// With so many buckets for flows, rounded up to a power of two, and places for so many packets, at least one.
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

    /// The quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Another quota from the next packet on. Flows that may have more in the path now take their turns.
    pub fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
        self.wake_all();
    }

    /// Packets that wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Flows that have something here which may go into the path.
    #[must_use]
    pub const fn ready(&self) -> usize {
        self.ready as usize
    }

    /// What has happened.
    #[must_use]
    pub const fn stats(&self) -> GateStats {
        self.stats
    }

    /// A packet of the flow with this hash comes. `room`: the path would take it now.
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

    /// Frees a place for a packet of this flow: the oldest of the flow of which most wait, that one counted in.
    fn make_room(&mut self, at: usize) -> Option<T> {
        let longest = match self.flows[at].waits < self.most {
            true => self.with.get(self.most as usize).map_or(at, |flow| *flow as usize),
            false => at,
        };
        let (item, _) = self.pull(longest)?;
        self.stats.dropped += 1;
        Some(item)
    }

    /// Takes the oldest packet of a flow out of its place. One that has no more may stay in line; `front` sees to that.
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

    /// Puts a flow among those of which as many wait.
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
        // By one at a time, so that what was the most is left by the last flow that had it or is gone beyond.
        if count > self.most || (before == self.most && self.with[before as usize] == NONE) {
            self.most = count;
        }
    }

    /// A packet of the flow with this hash has left the qdiscs: it was sent, or dropped.
    pub fn left(&mut self, hash: u32, load: Load) {
        let at = self.bucket(hash);
        self.flows[at].path.sub(load);
        self.wake(at);
    }

    /// A packet that did not come through the gate goes into the path: a piece of one that did.
    pub fn joined(&mut self, hash: u32, load: Load) {
        let at = self.bucket(hash);
        self.flows[at].path.add(load);
    }

    /// The path is empty, whatever was counted: what was lost between here and there is forgotten.
    pub fn path_is_empty(&mut self) {
        for flow in &mut self.flows {
            flow.path = Sum::default();
        }
        self.wake_all();
    }

    /// The packet whose turn it is, to ask whether the path takes it. Then it is either [taken](Self::take) or
    /// [passed over](Self::pass_over).
    pub fn front(&mut self) -> Option<&T> {
        // Each round takes a flow off the list.
        while let Some(flow) = self.flows.get(self.first as usize) {
            if flow.head != NONE && !flow.path.spends(self.quota) {
                break;
            }
            self.unlist();
        }
        let flow = self.flows.get(self.first as usize)?;
        self.places.get(flow.head as usize)?.item.as_ref()
    }

    /// Takes that packet; it is counted as in the path.
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

    /// Sends the flow whose turn it is to the end of the line.
    pub fn pass_over(&mut self) {
        let at = self.first as usize;
        if at < self.flows.len() {
            self.unlist();
            self.wake(at);
        }
    }

    /// Takes the first flow off the list; its turn is over.
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

    /// Puts a flow in line if something of it waits and may go.
    fn wake(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        if flow.head == NONE || flow.listed || flow.path.spends(self.quota) {
            return;
        }
        flow.listed = true;
        // Below `FLOWS_MAX`.
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

    /// The number of buckets is a power of two.
    const fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.flows.len() - 1)
    }
}

/// Most buckets: more would not fit the memory of a small machine.
const FLOWS_MAX: u32 = 1 << 20;
/// Most places, for the same reason.
const PLACES_MAX: u32 = 1 << 24;
