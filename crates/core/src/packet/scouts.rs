//! `Scouts`: the memory of the packets that leave soon, asked for ahead of their turn.
//!
//! Where more packets wait than the caches hold, each that leaves costs a load that misses them,
//! and its place is known only once the packet before it in its queue has been read. The queues
//! that have the next turns are known, however. A scout goes along the packets of one of them, one
//! packet at a time, while others have their turns; several scouts go at once, so that their loads
//! overlap.
//!
//! - I1: scouts read and ask; they change nothing but time. A packet that has left since leads a
//!   scout astray, to other memory of the pool.

use crate::packet::pool::Pool;

/// Turns ahead that a scout is sent.
pub(crate) const AHEAD: u32 = COUNT as u32;
/// Number of scouts, a power of two.
const COUNT: usize = 4;
/// Cache lines from which on scouts are worth their time: fewer stay in the caches, beside the
/// frames' bytes.
const LINES: usize = (4 << 20) / 64;
/// Cache lines of packets from which on the ways through a member's own classes are too.
const DEEP_LINES: usize = (8 << 20) / 64;
/// Packets that leave before scouts look again whether their ways are worth their time.
const PAUSE: u8 = u8::MAX;
/// Cache lines of a packet and its frame, and of a class and its qdisc, about.
const PACKET_LINES: usize = 2;
const CLASS_LINES: usize = 8;

/// Answer to a step on the way to the packet that leaves a member next.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// There is another step.
    More,
    /// The packet in this slot has been asked for.
    Packet(u32),
    /// Nothing further is known.
    End,
}

/// The next step of a scout.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// That of this number on the way to the first packet of a queue.
    Way(u8),
    /// The packet behind the one in this slot.
    Behind(u32),
    /// None.
    Rest,
}

/// A scout.
#[derive(Clone, Copy, Debug)]
struct Scout {
    step: Step,
    /// The member whose packets it follows.
    member: u32,
    /// The queue of that member that it has come to: 0 is the one whose packets leave first.
    queue: u8,
}

/// The scouts of a qdisc whose members, classes or flows, take turns.
#[derive(Debug)]
pub(crate) struct Scouts {
    scouts: [Scout; COUNT],
    /// The scout that has taken the last step alone, and the one that was sent last.
    next: u8,
    sent: u8,
    /// The packets until they go on, where their ways are too long to be worth their time.
    pause: u8,
    /// The member of the last packet.
    served: u32,
}

impl Default for Scouts {
    fn default() -> Self {
        let scout = Scout { step: Step::Rest, member: 0, queue: 0 };
        Self { scouts: [scout; COUNT], next: 0, sent: 0, pause: 0, served: u32::MAX }
    }
}

impl Scouts {
    /// True if so many packets wait, or there are so many classes, that scouts are worth their
    /// time.
    #[inline(always)]
    pub(crate) fn are_worth(classes: usize, pool: &Pool) -> bool {
        PACKET_LINES * pool.live() + CLASS_LINES * classes >= LINES
    }
    /// Lets scouts go on, because a packet of this member has left. `ahead` is the member that has
    /// its turn `AHEAD` turns later, as far as it is known. `way` asks for the memory of a step on
    /// the way to the first packet of a member's queue; the step before has asked for what it
    /// reads.
    #[inline]
    pub(crate) fn go_on(
        &mut self,
        member: u32,
        ahead: impl FnOnce() -> Option<u32>,
        way: impl Fn(u32, u8, u8, &mut Pool) -> Way,
        pool: &mut Pool,
    ) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        if self.served == member {
            self.next = (self.next + 1) % COUNT as u8;
            return self.scouts[usize::from(self.next)].go_on(&way, pool, &mut self.pause);
        }
        // A turn begins: one scout is sent, and all take a step.
        self.served = member;
        self.sent = (self.sent + 1) % COUNT as u8;
        let first = &mut self.scouts[usize::from(self.sent)];
        (first.step, first.queue) = (Step::Rest, 0);
        if let Some(member) = ahead() {
            (first.step, first.member) = (Step::Way(0), member);
        }
        // Bound: COUNT.
        self.scouts.iter_mut().for_each(|scout| scout.go_on(&way, pool, &mut self.pause));
    }
}

impl Scout {
    /// Takes a step.
    #[inline]
    fn go_on(&mut self, way: &impl Fn(u32, u8, u8, &mut Pool) -> Way, pool: &mut Pool, pause: &mut u8) {
        self.step = match self.step {
            Step::Way(step) => match way(self.member, step, self.queue, pool) {
                // The member's qdisc has classes of its own.
                Way::More if step >= SHARED && PACKET_LINES * pool.live() < DEEP_LINES => {
                    *pause = PAUSE;
                    Step::Rest
                }
                Way::More => Step::Way(step.saturating_add(1)),
                Way::Packet(slot) => Step::Behind(slot),
                Way::End => Step::Rest,
            },
            Step::Behind(slot) => match pool.ask_behind(slot) {
                Some(slot) => Step::Behind(slot),
                // The next queue begins behind what all queues of the member share.
                None => {
                    self.queue = self.queue.saturating_add(1);
                    Step::Way(SHARED)
                }
            },
            Step::Rest => return,
        };
    }
}

/// Steps that lead to the queues of a member: to the class, and to its qdisc.
const SHARED: u8 = 2;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::base::time::Instant;
    use crate::packet::meta::Meta;
    use crate::packet::pool::List;

    /// Members with a list of packets each.
    struct Members(Vec<List>, Pool);

    impl Members {
        /// Packets come to the members in turn, so that no two of a member are neighbours.
        fn new(members: usize, packets: usize) -> Self {
            let mut pool = Pool::new(members * packets);
            let mut lists: Vec<List> = (0..members).map(|_| List::new()).collect();
            for n in 0..members * packets {
                let p = pool.alloc(Meta::new(64), Instant::ZERO).unwrap();
                lists[n % members].push_back(&mut pool, p);
            }
            Self(lists, pool)
        }
        /// Takes a packet of a member, in turns of `turn` packets, and tells the scouts. Returns
        /// its slot.
        fn take(&mut self, scouts: &mut Scouts, member: usize) -> usize {
            let Self(lists, pool) = self;
            let p = lists[member].pop_front(pool).unwrap();
            let slot = p.index();
            pool.free(p);
            let ahead = (member + AHEAD as usize) % lists.len();
            let way = |i: u32, step, queue, pool: &mut Pool| match (step, queue) {
                (0, 0) => Way::More,
                (1, 0) => lists[i as usize].ask_first(pool).map_or(Way::End, Way::Packet),
                _ => Way::End,
            };
            scouts.go_on(member as u32, || Some(ahead as u32), way, pool);
            slot
        }
    }

    /// Once the scouts are on their way, every packet has been asked for before it leaves, in long
    /// turns and in short ones.
    #[test]
    fn packets_are_asked_for_before_they_leave() {
        for turn in [1, 2, 8, 16] {
            let (mut scouts, mut members) = (Scouts::default(), Members::new(12, 64));
            let (mut asked, mut missed) = (alloc::collections::BTreeSet::new(), 0);
            let turns = (0..64 / turn).flat_map(|_| 0..12);
            for (n, member) in turns.flat_map(|member| core::iter::repeat_n(member, turn)).enumerate() {
                let slot = members.take(&mut scouts, member) as u32;
                // The first turns come before the scouts.
                missed += usize::from(n >= turn * 2 * AHEAD as usize && !asked.contains(&slot));
                asked.extend(members.1.take_asked());
            }
            assert_eq!(missed, 0, "turns of {turn} packets");
        }
    }

    /// A scout that has come to the end of a queue goes on with the next one of its member, and
    /// rests behind the last.
    #[test]
    fn queues_of_a_member_follow_one_another() {
        let Members(lists, mut pool) = Members::new(3, 2);
        let way = |_, step, queue: u8, pool: &mut Pool| match (step, lists.get(usize::from(queue))) {
            (0 | 1, Some(_)) => Way::More,
            (SHARED, Some(list)) => list.ask_first(pool).map_or(Way::End, Way::Packet),
            _ => Way::End,
        };
        let mut scouts = Scouts::default();
        let mut asked = Vec::new();
        for _ in 0..60 {
            scouts.go_on(7, || Some(9), way, &mut pool);
            asked.extend(pool.take_asked());
        }
        assert_eq!(asked, [0, 3, 1, 4, 2, 5]);
        assert!(matches!(scouts.scouts[1].step, Step::Rest));
    }

    /// Where few packets wait, scouts follow no way through classes of a member, and look again
    /// after a pause.
    #[test]
    fn long_ways_are_not_followed_where_few_packets_wait() {
        let steps = core::cell::Cell::new(0);
        let way = |_, step, _, _: &mut Pool| {
            steps.set(steps.get() + 1);
            assert!(step <= SHARED);
            Way::More
        };
        let (mut scouts, Members(_, mut pool)) = (Scouts::default(), Members::new(3, 2));
        let mut begins = Vec::new();
        for n in 0..2048_u32 {
            let before = steps.get();
            scouts.go_on(n % 2, || Some(n), way, &mut pool);
            if before < steps.get() {
                begins.push(n);
            }
        }
        assert_eq!(begins[..4], [0, 1, 2, 259]);
        assert!(begins.len() < 30 && steps.get() < 100, "{} steps", steps.get());
    }

    /// A packet that has left leads a scout along the free slots, to their end.
    #[test]
    fn a_scout_that_goes_astray_comes_to_an_end() {
        let Members(mut lists, mut pool) = Members::new(1, 8);
        let mut scouts = Scouts::default();
        let way = |_, step, queue, _: &mut Pool| match (step, queue) {
            (0, 0) => Way::Packet(7),
            _ => Way::End,
        };
        while let Some(p) = lists[0].pop_front(&pool) {
            pool.free(p);
        }
        for _ in 0..100 {
            scouts.go_on(0, || Some(0), way, &mut pool);
        }
        assert!(scouts.scouts.iter().all(|scout| matches!(scout.step, Step::Rest)));
    }
}
