//! Deficit round robin on numbers (Shreedhar & Varghese, SIGCOMM 1995): a round of the members that
//! have something to send, each with a credit of bytes. O(1) per decision, as long as a quantum
//! covers a packet.
//!
//! - I1: a member that joins gets one quantum and stands last.
//! - I2: a member that cannot pay gets its quantum and goes to the back; between two turns of a
//!   member every other member has one.
//! - I3: one call of `advance` equals the given number of rounds in which no member can pay, so
//!   that a quantum of one byte costs no more than one pass over the members.
//!
//! The flows of fq, fq_codel, fq_pie and cake have lists of their own, with debts instead of
//! credits. For them, `Passes` says when to skip rounds, and `rounds_in_debt` how many.

use crate::base::bound::Bound;

use alloc::vec::Vec;

/// A round of up to 65 535 members, named by their index.
#[derive(Clone, Debug)]
pub struct Round {
    members: Vec<Member>,
    head: u16,
    tail: u16,
    len: u16,
}

/// A member of the round: 16 bytes, four in a cache line.
#[derive(Clone, Copy, Debug)]
struct Member {
    deficit: u64,
    quantum: u32,
    prev: u16,
    next: u16,
}

/// The turns of one decision that only pay off debts. A debt of many quanta (a size table charges a
/// packet up to 2^31 bytes) takes many rounds; a decision that has used up [`Passes::FIRST`] turns
/// skips those in which no flow can send. Looking for these rounds costs a pass over the flows, so
/// that the distance to the next attempt doubles.
#[derive(Debug)]
pub(crate) struct Passes {
    turns: u32,
    next: u32,
    bound: Bound,
}

impl Passes {
    /// Turns before the first attempt: more than a thousand flows take that pay for frames of 1514
    /// bytes with the least quanta, so that ordinary debts are paid turn by turn. In cake a skip
    /// draws fewer random numbers.
    const FIRST: u32 = 1 << 14;
    /// The bound of the turns of one decision: an attempt succeeds before the end of the third
    /// round and leaves one more, and a qdisc has at most 2^20 flows.
    const BOUND: usize = 1 << 22;

    pub(crate) const fn new() -> Self {
        Self { turns: 0, next: Self::FIRST, bound: Bound::of(Self::BOUND) }
    }
    /// Counts a turn that paid off debts. Returns true if the caller is to skip rounds now.
    #[inline]
    pub(crate) fn is_long(&mut self) -> bool {
        self.turns += 1;
        self.bound.turn();
        self.turns == self.next && self.double()
    }
    /// Doubles the distance to the next attempt. Returns true.
    #[cold]
    #[inline(never)]
    const fn double(&mut self) -> bool {
        self.next = self.next.saturating_mul(2);
        true
    }
}

/// Returns the number of rounds after which a flow of this deficit still has none to send by, if
/// each round adds `quantum` bytes (at least 1): a flow sends while its deficit is above 0.
#[inline]
pub(crate) fn rounds_in_debt(deficit: i32, quantum: i32) -> u32 {
    if deficit > 0 { 0 } else { deficit.unsigned_abs() / quantum.max(1).unsigned_abs() }
}

/// The end of the list.
const END: u16 = u16::MAX;
/// `prev` of a member that is not listed: no member has this index.
const OUT: u16 = u16::MAX - 1;

impl Default for Round {
    fn default() -> Self {
        Self::new()
    }
}

impl Round {
    /// Largest number of members: higher indexes are sentinels.
    pub const MEMBERS_MAX: usize = OUT as usize;

    /// Returns an empty round without members.
    pub const fn new() -> Self {
        Self { members: Vec::new(), head: END, tail: END, len: 0 }
    }
    /// Adds a member with the next index, up to `MEMBERS_MAX`; it is not listed yet.
    pub fn add(&mut self, quantum: u32) {
        debug_assert!(self.members.len() < Self::MEMBERS_MAX);
        self.members.push(Member { deficit: 0, quantum, prev: OUT, next: END });
    }
    /// Removes the members from index `count` on.
    pub fn truncate(&mut self, count: usize) {
        for i in count..self.members.len() {
            self.leave(i);
        }
        self.members.truncate(count);
    }
    /// Sets a member's quantum, in bytes, at least 1; its credit stays.
    pub(crate) fn set_quantum(&mut self, i: usize, quantum: u32) {
        self.members[i].quantum = quantum;
    }
    /// Returns a member's quantum, in bytes.
    pub fn quantum(&self, i: usize) -> u32 {
        self.members[i].quantum
    }
    /// Returns a member's credit, in bytes.
    #[inline]
    pub fn deficit(&self, i: usize) -> u64 {
        self.members[i].deficit
    }
    /// Returns the number of listed members.
    pub const fn len(&self) -> usize {
        self.len as usize
    }
    /// True if no member is listed.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// True if the member is listed.
    #[inline]
    pub fn listed(&self, i: usize) -> bool {
        self.members[i].prev != OUT
    }
    /// Returns the member whose turn it is.
    #[inline]
    pub fn front(&self) -> Option<usize> {
        (self.head != END).then_some(usize::from(self.head))
    }
    /// Lists a member last, with a credit of one quantum, whether it was listed before or not.
    #[inline]
    pub fn join(&mut self, i: usize) {
        self.leave(i);
        let member = &mut self.members[i];
        member.deficit = u64::from(member.quantum);
        self.append(i);
    }
    /// Takes a member off the list.
    #[inline(never)]
    pub fn leave(&mut self, i: usize) {
        let Member { prev, next, .. } = self.members[i];
        if prev == OUT {
            return;
        }
        match self.members.get_mut(usize::from(prev)) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match self.members.get_mut(usize::from(next)) {
            Some(after) => after.prev = prev,
            None => self.tail = prev,
        }
        self.members[i].prev = OUT;
        self.len -= 1;
    }
    /// Takes all members off the list.
    pub fn clear(&mut self) {
        let mut bound = Bound::of(self.members.len());
        while let Some(i) = self.front() {
            bound.turn();
            self.leave(i);
        }
    }
    /// Charges the member at the front `bytes` and returns true if its credit covers them.
    /// Otherwise gives it its quantum, sends it to the back and returns false.
    #[inline]
    pub fn charge(&mut self, i: usize, bytes: u32) -> bool {
        let pays = u64::from(bytes) <= self.members[i].deficit;
        if pays {
            self.pay(i, bytes.into());
        } else {
            self.defer(i);
        }
        pays
    }
    /// Charges the member `bytes`, which its credit covers.
    #[inline]
    pub fn pay(&mut self, i: usize, bytes: u64) {
        self.members[i].deficit -= bytes;
    }
    /// Gives the member at the front, which cannot pay, its quantum and sends it to the back.
    #[inline]
    pub fn defer(&mut self, i: usize) {
        let member = &mut self.members[i];
        member.deficit += u64::from(member.quantum);
        if self.head != self.tail {
            self.leave(i);
            self.append(i);
        }
    }
    /// Returns the number of further turns in which the member could not pay `bytes`; 0 if it can
    /// pay now.
    #[inline]
    pub(crate) fn turns_short(&self, i: usize, bytes: u32) -> u64 {
        let Member { deficit, quantum, .. } = self.members[i];
        u64::from(bytes).saturating_sub(deficit).div_ceil(u64::from(quantum.max(1)))
    }
    /// Gives every listed member `rounds` quanta.
    pub fn advance(&mut self, rounds: u64) {
        let mut at = self.head;
        let mut bound = Bound::of(self.members.len());
        while let Some(member) = self.members.get_mut(usize::from(at)) {
            bound.turn();
            member.deficit += rounds * u64::from(member.quantum);
            at = member.next;
        }
    }
    /// Returns the member that has its turn `turns` turns from now, if there are so many.
    #[inline]
    pub(crate) fn ahead(&self, turns: u32) -> Option<usize> {
        let mut at = self.head;
        for _ in 0..turns {
            at = self.members.get(usize::from(at))?.next;
        }
        (at != END).then_some(usize::from(at))
    }
    /// Returns the listed members, the one at the front first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let member = self.members.get(usize::from(at))?;
            let here = at;
            at = member.next;
            Some(usize::from(here))
        })
    }

    #[inline]
    fn append(&mut self, i: usize) {
        // `add` limits the members to fewer than `MEMBERS_MAX`.
        let index = i as u16;
        let last = core::mem::replace(&mut self.tail, index);
        match self.members.get_mut(usize::from(last)) {
            Some(before) => before.next = index,
            None => self.head = index,
        }
        let member = &mut self.members[i];
        member.prev = last;
        member.next = END;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn round(quanta: &[u32]) -> Round {
        let mut round = Round::new();
        quanta.iter().for_each(|q| round.add(*q));
        round
    }

    #[test]
    fn a_member_joins_last_with_one_quantum() {
        let mut r = round(&[100, 200, 300]);
        assert_eq!(r.front(), None);
        [2, 0, 1].into_iter().for_each(|i| r.join(i));
        assert_eq!(r.iter().collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!((r.deficit(0), r.deficit(1), r.deficit(2)), (100, 200, 300));
        assert!(r.charge(2, 250));
        assert!(!r.charge(2, 51), "50 bytes of credit are left");
        assert_eq!((r.iter().collect::<Vec<_>>(), r.deficit(2)), (vec![0, 1, 2], 350));
        r.join(0);
        assert_eq!((r.iter().collect::<Vec<_>>(), r.len()), (vec![1, 2, 0], 3));
    }

    #[test]
    fn a_member_leaves_from_anywhere() {
        for gone in 0..3 {
            let mut r = round(&[1, 1, 1]);
            (0..3).for_each(|i| r.join(i));
            r.leave(gone);
            r.leave(gone);
            let rest: Vec<_> = (0..3).filter(|i| *i != gone).collect();
            assert_eq!((r.iter().collect::<Vec<_>>(), r.len(), r.listed(gone)), (rest, 2, false));
        }
        let mut r = round(&[1, 1, 1]);
        (0..3).for_each(|i| r.join(i));
        r.truncate(1);
        assert_eq!(r.iter().collect::<Vec<_>>(), [0]);
        r.clear();
        assert!(r.is_empty());
    }

    #[test]
    fn a_debt_takes_its_rounds() {
        for (deficit, quantum, rounds) in
            [(1, 5, 0), (0, 5, 0), (-4, 5, 0), (-5, 5, 1), (-11, 5, 2), (i32::MIN, 1, 1 << 31)]
        {
            assert_eq!(rounds_in_debt(deficit, quantum), rounds, "{deficit} {quantum}");
        }
        let mut passes = Passes::new();
        let long: Vec<u32> = (1..100_000).filter(|_| passes.is_long()).collect();
        assert_eq!(long, [1 << 14, 1 << 15, 1 << 16]);
    }

    /// A credit of 100 and a quantum of 100: turns end without the packet until 9 more quanta cover
    /// 1000 bytes, and a tenth one byte more.
    #[test]
    fn a_part_of_a_quantum_takes_a_turn() {
        let mut r = round(&[100]);
        r.join(0);
        for (bytes, turns) in [(0, 0), (99, 0), (100, 0), (101, 1), (200, 1), (1000, 9), (1001, 10)] {
            assert_eq!(r.turns_short(0, bytes), turns, "{bytes}");
            let mut one_by_one = r.clone();
            assert_eq!((0..).take_while(|_| !one_by_one.charge(0, bytes)).count() as u64, turns);
        }
    }

    #[test]
    fn advancing_is_so_many_rounds_in_which_nobody_can_pay() {
        let quanta = [1, 7, 100];
        let bytes = [1500, 900, 1000];
        let (mut slow, mut fast) = (round(&quanta), round(&quanta));
        for r in [&mut slow, &mut fast] {
            (0..3).for_each(|i| r.join(i));
        }
        // Member 2 is the nearest: it has 100, and needs 9 more turns that cannot pay.
        let rounds = (0..3).map(|i| fast.turns_short(i, bytes[i])).min();
        assert_eq!(rounds, Some(9));
        for _ in 0..9 * 3 {
            let i = slow.front().unwrap_or(0);
            assert!(!slow.charge(i, bytes[i]));
        }
        fast.advance(9);
        for i in 0..3 {
            assert_eq!(slow.deficit(i), fast.deficit(i));
        }
        assert_eq!(slow.iter().collect::<Vec<_>>(), fast.iter().collect::<Vec<_>>());
    }
}
