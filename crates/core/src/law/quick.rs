//! Quick fair queueing on numbers: members with weights are served in turns that approximate a
//! fluid share of the link, in O(1) (F. Checconi, L. Rizzo, P. Valente, "QFQ: Efficient Packet
//! Scheduling with Tight Guarantees", IEEE/ACM Transactions on Networking 21(3), 2013; P. Valente,
//! "Reducing the Execution Time of Fair-Queueing Schedulers", Computer Communications 47, 2014).
//!
//! Members of the same weight and largest packet form aggregates of up to eight. An aggregate is
//! what the groups (`groups`) sort; it is served for a budget of one largest packet per member, in
//! which its members take turns by deficit round robin.
//!
//! - I1: a member that has packets is listed in its aggregate, and only then.
//! - I2: an aggregate with listed members is in service or in the groups; no other is.
//! - I3: over any time in which a member is listed, its service is at most the bound of the paper
//!   behind its share of the total: 3 slots of its group by its share, and 2 of the largest budgets
//!   by its share (there B-WFI), for an aggregate of one.

mod groups;

use alloc::vec::Vec;

use groups::Groups;

/// Largest weight of a member.
pub const WEIGHT_MAX: u32 = 1 << 10;
/// Largest sum of weights.
pub const WEIGHTS_MAX: u32 = 64 << 10;
/// Least of the largest packets, bytes.
pub const PACKET_MIN: u32 = 512;
/// Greatest of the largest packets, bytes.
pub const PACKET_MAX: u32 = 1 << 16;
/// Most members of an aggregate.
const TOGETHER_MAX: u32 = 8;
/// Bits of the fraction of virtual time per byte.
const FRACTION: u32 = 30;
const ONE: u32 = 1 << FRACTION;
/// No member, no aggregate.
const NONE: u32 = u32::MAX;

/// The share of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Weight, 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Largest packet in bytes, [`PACKET_MIN`] to [`PACKET_MAX`].
    pub packet: u32,
}

impl Share {
    /// Returns the share with its weight as it counts: the reciprocal is a fixed-point number.
    #[must_use]
    pub const fn counted(self) -> Self {
        Self { weight: ONE / (ONE / self.weight), ..self }
    }
}

/// A member: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Member {
    aggregate: u32,
    /// Bytes that it may still send in its turn.
    deficit: u64,
    prev: u32,
    next: u32,
    listed: bool,
}

/// Members of one share.
#[derive(Clone, Copy, Debug)]
struct Aggregate {
    share: Share,
    members: u32,
    /// Budget of a service, bytes; the budget at the start of the present one, and its rest.
    most: u32,
    given: u32,
    left: u32,
    /// Virtual time of a byte.
    per_byte: u32,
    /// The listed members.
    first: u32,
    last: u32,
}

/// Members by index, in aggregates.
#[derive(Clone, Debug)]
pub struct Quick {
    members: Vec<Member>,
    aggregates: Vec<Aggregate>,
    /// Aggregates that are not in use.
    spare: Vec<u32>,
    /// Aggregates with room for a member, the last one is the first to get one.
    roomy: Vec<u32>,
    together: u32,
    groups: Groups,
    serving: Option<u32>,
    listed: u32,
    weights: u32,
    /// Virtual time of a byte of all.
    per_byte: u32,
}

impl Quick {
    /// Returns a schedule without members, whose aggregates have as many as a device's queue has
    /// places and one more, rounded down to a power of two, and at most eight.
    pub const fn new(tx_queue_len: u32) -> Self {
        let together = tx_queue_len.saturating_add(1);
        let together = if together > TOGETHER_MAX { TOGETHER_MAX } else { together };
        let log = together.ilog2();
        // The slowest aggregate of the largest packets is in the highest group.
        let shift = FRACTION + PACKET_MAX.ilog2() + log - (groups::GROUPS as u32 - 1);
        Self {
            members: Vec::new(),
            aggregates: Vec::new(),
            spare: Vec::new(),
            roomy: Vec::new(),
            together: 1 << log,
            groups: Groups::new(shift),
            serving: None,
            listed: 0,
            weights: 0,
            per_byte: 0,
        }
    }
    /// Returns the sum of the weights.
    pub const fn weights(&self) -> u32 {
        self.weights
    }
    /// Returns a member's share.
    pub fn share(&self, i: usize) -> Share {
        self.aggregates[self.members[i].aggregate as usize].share
    }
    /// True if the member has packets.
    pub fn is_listed(&self, i: usize) -> bool {
        self.members[i].listed
    }
    /// Adds a member: at `i`, the next index or that of a removed one. Allocates.
    pub fn add(&mut self, i: usize, share: Share) {
        let member = Member { aggregate: NONE, deficit: 0, prev: NONE, next: NONE, listed: false };
        if i == self.members.len() {
            self.members.push(member);
            // A member that changes its share needs one more for a moment.
            let wanted = self.members.len() + 1;
            // Bound: two turns, for one member more.
            while self.aggregates.len() < wanted {
                // Indexes are below 2^16.
                self.spare.push(self.aggregates.len() as u32);
                let (first, last) = (NONE, NONE);
                let (members, most, given, left, per_byte) = (0, 0, 0, 0, 0);
                self.aggregates.push(Aggregate { share, members, most, given, left, per_byte, first, last });
                self.groups.add();
            }
            self.spare.reserve(wanted);
            self.roomy.reserve(wanted);
        } else {
            self.members[i] = member;
        }
        self.join(i, share, false);
    }
    /// Removes a member.
    pub fn remove(&mut self, i: usize) {
        self.end(i);
        self.part(i);
    }
    /// Gives a member another share. Goes over the aggregates that have room.
    pub fn set_share(&mut self, i: usize, share: Share) {
        if self.share(i) == share {
            return;
        }
        let listed = self.members[i].listed;
        let to = self.aggregate_for(share);
        self.end(i);
        self.part(i);
        self.enter(i, to, listed);
    }
    fn join(&mut self, i: usize, share: Share, listed: bool) {
        let to = self.aggregate_for(share);
        self.enter(i, to, listed);
    }
    /// Returns an aggregate of this share with room, a new one if there is none.
    fn aggregate_for(&mut self, share: Share) -> u32 {
        // Bound: the aggregates. Only a command comes here, or a packet longer than any before it
        // in its class.
        let like = |a: &&u32| self.aggregates[**a as usize].share == share;
        if let Some(a) = self.roomy.iter().rev().find(like) {
            return *a;
        }
        // There is always one more than members.
        let a = self.spare.pop().unwrap_or(0);
        let new = &mut self.aggregates[a as usize];
        (new.share, new.members, new.given, new.left) = (share, 0, 0, 0);
        (new.first, new.last) = (NONE, NONE);
        self.groups.set_span(a, u64::from(ONE / share.weight) * u64::from(share.packet));
        self.roomy.push(a);
        a
    }
    fn enter(&mut self, i: usize, a: u32, listed: bool) {
        self.members[i].aggregate = a;
        self.resize(a, self.aggregates[a as usize].members + 1);
        if listed {
            self.append(i);
            let agg = &self.aggregates[a as usize];
            if agg.first == agg.last && self.serving != Some(a) {
                self.activate(a);
            }
        }
    }
    /// Takes a member that is not listed out of its aggregate.
    fn part(&mut self, i: usize) {
        let a = self.members[i].aggregate;
        let members = self.aggregates[a as usize].members;
        if members > 1 {
            return self.resize(a, members - 1);
        }
        self.roomy.retain(|other| *other != a);
        self.set_weights(self.weights - self.aggregates[a as usize].share.weight);
        self.aggregates[a as usize].members = 0;
        if self.serving == Some(a) {
            self.serving = self.groups.choose();
        }
        self.spare.push(a);
    }
    fn resize(&mut self, a: u32, members: u32) {
        let agg = &mut self.aggregates[a as usize];
        let Share { weight, packet } = agg.share;
        let before = core::mem::replace(&mut agg.members, members);
        agg.most = members * packet;
        agg.per_byte = ONE / (weight * members);
        if members == self.together {
            self.roomy.retain(|other| *other != a);
        } else if before == self.together {
            self.roomy.push(a);
        }
        self.set_weights(self.weights + weight * members - weight * before);
    }
    fn set_weights(&mut self, weights: u32) {
        self.weights = weights;
        self.per_byte = ONE.checked_div(weights).unwrap_or(0);
    }

    /// Lists a member that has its first packet.
    #[inline]
    pub fn begin(&mut self, i: usize) {
        debug_assert!(!self.members[i].listed);
        let a = self.members[i].aggregate;
        self.members[i].deficit = self.aggregates[a as usize].share.packet.into();
        self.append(i);
        let agg = &self.aggregates[a as usize];
        if agg.first == agg.last && self.serving != Some(a) {
            self.activate(a);
        }
    }
    /// Takes a member off the list that has lost its packets without being served.
    pub fn end(&mut self, i: usize) {
        if !self.members[i].listed {
            return;
        }
        self.unlist(i);
        let a = self.members[i].aggregate;
        if self.aggregates[a as usize].first != NONE {
            return;
        }
        if self.serving == Some(a) {
            self.charge(a);
            self.serving = self.groups.choose();
        } else {
            let item = self.groups.item(a);
            let start = item.start;
            self.groups.take_out(a);
            self.groups.item_mut(a).finish = start;
        }
    }
    /// Takes all members off the list; times stay.
    pub fn rest(&mut self) {
        for member in &mut self.members {
            (member.listed, member.prev, member.next) = (false, NONE, NONE);
        }
        for agg in &mut self.aggregates {
            (agg.first, agg.last) = (NONE, NONE);
        }
        (self.serving, self.listed) = (None, 0);
        self.groups.clear();
    }
    /// Forgets everything, as if these members were added anew, in this order: each with its share,
    /// and of those that are there.
    pub fn reset(&mut self, members: impl Iterator<Item = (usize, Share)>) {
        self.rest();
        self.groups.reset();
        self.roomy.clear();
        self.spare.clear();
        // Indexes are below 2^16.
        self.spare.extend(0..self.aggregates.len() as u32);
        self.set_weights(0);
        for agg in &mut self.aggregates {
            agg.members = 0;
        }
        for (i, share) in members {
            self.join(i, share, false);
        }
    }

    /// Returns the member whose turn it is, of the aggregate in service; if that has none, of the
    /// next one.
    #[inline]
    pub fn front(&mut self) -> Option<usize> {
        let a = self.serving?;
        let first = self.aggregates[a as usize].first;
        if first != NONE {
            return Some(first as usize);
        }
        self.renew();
        let first = self.aggregates[self.serving? as usize].first;
        (first != NONE).then_some(first as usize)
    }
    /// True if the budget of the aggregate in service is enough for a packet.
    #[inline]
    pub fn affords(&self, len: u32) -> bool {
        self.serving.is_some_and(|a| self.aggregates[a as usize].left >= len)
    }
    /// Ends the service of the aggregate in service, and chooses the next one, perhaps the same.
    pub fn renew(&mut self) {
        let Some(a) = self.serving else { return };
        self.charge(a);
        let agg = &mut self.aggregates[a as usize];
        (agg.given, agg.left) = (agg.most, agg.most);
        if agg.first != NONE {
            let span = u64::from(agg.most) * u64::from(agg.per_byte);
            let item = self.groups.item_mut(a);
            item.start = item.finish;
            item.finish = item.start.wrapping_add(span);
            self.groups.put(a, false);
        } else if self.listed == 0 {
            self.serving = None;
            return;
        }
        self.serving = self.groups.choose();
    }
    /// Charges the member at the front for a packet, of which `next` is the length of the one
    /// behind it, if there is one.
    #[inline]
    pub fn pay(&mut self, i: usize, len: u32, next: Option<u32>) {
        let a = self.members[i].aggregate;
        let deficit = &mut self.members[i].deficit;
        *deficit = deficit.saturating_sub(len.into());
        match next {
            None => self.unlist(i),
            Some(next) if *deficit < next.into() => {
                *deficit += u64::from(self.aggregates[a as usize].share.packet);
                self.move_back(i);
            }
            Some(_) => {}
        }
        let agg = &mut self.aggregates[a as usize];
        agg.left = agg.left.saturating_sub(len);
        self.groups.now = self.groups.now.wrapping_add(u64::from(len) * u64::from(self.per_byte));
    }
    /// Notes that a packet of `len` bytes has become the first of a listed member: one that cannot
    /// pay for it loses its turn.
    #[inline]
    pub fn overtaken(&mut self, i: usize, len: u32) {
        let Member { aggregate: a, deficit, .. } = self.members[i];
        if deficit < len.into() && self.aggregates[a as usize].first as usize == i {
            self.move_back(i);
        }
    }

    /// Puts an aggregate with its first listed member into service, or into the groups.
    fn activate(&mut self, a: u32) {
        let agg = &mut self.aggregates[a as usize];
        (agg.given, agg.left) = (agg.most, agg.most);
        let span = u64::from(agg.most) * u64::from(agg.per_byte);
        let start = self.groups.start_anew(a);
        let item = self.groups.item_mut(a);
        (item.start, item.finish) = (start, start.wrapping_add(span));
        if self.serving.is_none() {
            self.serving = Some(a);
            self.groups.begin(start);
        } else {
            self.groups.put(a, false);
        }
    }
    /// Sets the finish time of the aggregate in service to that of the bytes it has sent.
    fn charge(&mut self, a: u32) {
        let agg = &self.aggregates[a as usize];
        let sent = agg.most.min(agg.given.saturating_sub(agg.left));
        let item = self.groups.item_mut(a);
        item.finish = item.start.wrapping_add(u64::from(sent) * u64::from(agg.per_byte));
    }
    fn append(&mut self, i: usize) {
        // Indexes are below 2^16.
        let at = i as u32;
        let a = self.members[i].aggregate as usize;
        let last = core::mem::replace(&mut self.aggregates[a].last, at);
        match self.members.get_mut(last as usize) {
            Some(last) => last.next = at,
            None => self.aggregates[a].first = at,
        }
        let member = &mut self.members[i];
        (member.prev, member.next, member.listed) = (last, NONE, true);
        self.listed += 1;
    }
    fn unlist(&mut self, i: usize) {
        let Member { prev, next, aggregate: a, .. } = self.members[i];
        let agg = &mut self.aggregates[a as usize];
        match self.members.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => agg.first = next,
        }
        match self.members.get_mut(next as usize) {
            Some(next) => next.prev = prev,
            None => agg.last = prev,
        }
        self.members[i].listed = false;
        self.listed -= 1;
    }
    fn move_back(&mut self, i: usize) {
        self.unlist(i);
        self.append(i);
    }
}
