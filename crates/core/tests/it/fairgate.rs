//! The gate: the share of a flow in a path, and the order of turns.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use txweir_core::Meta;
use txweir_core::turns::{Gate, Load, Offered, Quota};

/// A segment.
const ONE: Load = Load { segs: 1, bytes: 1500 };
const ACK: Load = Load { segs: 0, bytes: 0 };

/// A gate ahead of a FIFO that stands for a path with room for `room` packets.
struct Sim {
    gate: Gate<(u32, u64)>,
    path: VecDeque<(u32, u64, Load)>,
    room: usize,
    loads: BTreeMap<u64, Load>,
    out: Vec<(u32, u64)>,
    dropped: Vec<(u32, u64)>,
    number: u64,
}

impl Sim {
    fn new(places: u32, quota: Quota, room: usize) -> Self {
        let gate = Gate::new(16, places, quota);
        let (path, loads) = (VecDeque::new(), BTreeMap::new());
        Self { gate, path, room, loads, out: Vec::new(), dropped: Vec::new(), number: 0 }
    }

    /// Offers a packet of a flow.
    fn come(&mut self, flow: u32, load: Load) {
        self.number += 1;
        self.loads.insert(self.number, load);
        let room = self.path.len() < self.room;
        match self.gate.offer(flow, load, room, (flow, self.number)) {
            Offered::Pass((flow, n)) => self.path.push_back((flow, n, load)),
            Offered::Held => {}
            Offered::Instead(old) => self.dropped.push(old),
        }
        self.feed();
    }

    fn feed(&mut self) {
        while self.path.len() < self.room && self.gate.front().is_some() {
            let (flow, n) = self.gate.take().unwrap();
            self.path.push_back((flow, n, self.loads[&n]));
        }
    }

    /// Lets the device take `count` packets.
    fn send(&mut self, count: usize) {
        for _ in 0..count {
            if let Some((flow, n, load)) = self.path.pop_front() {
                self.out.push((flow, n));
                self.gate.left(flow, load);
                self.feed();
            }
        }
    }

    fn flows(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.out).into_iter().map(|(flow, _)| flow).collect()
    }
}

#[test]
fn a_burst_does_not_stand_ahead_of_who_comes_later() {
    let mut s = Sim::new(1000, Quota::segs(4), 1000);
    (0..100).for_each(|_| s.come(1, ONE));
    (0..2).for_each(|_| s.come(2, ONE));
    s.send(102);
    let flows = s.flows();
    assert_eq!(flows[..8], [1, 1, 1, 1, 2, 2, 1, 1]);
    assert_eq!(flows.len(), 102);
    // Without a quota the packet stands behind all others.
    let mut s = Sim::new(1000, Quota::OFF, 1000);
    (0..100).for_each(|_| s.come(1, ONE));
    s.come(2, ONE);
    s.send(101);
    assert_eq!(s.flows().iter().position(|f| *f == 2), Some(100));
    assert_eq!((s.gate.stats().held, s.gate.stats().passed), (0, 101));
}

#[test]
fn flows_take_turns_of_the_quota_where_the_path_was_full() {
    // The path has room for 3: flows wait for the path rather than for their own packets in it.
    let mut s = Sim::new(1000, Quota::segs(2), 3);
    for flow in [1, 1, 1, 1, 1, 2, 2, 2, 3] {
        s.come(flow, ONE);
    }
    s.send(9);
    assert_eq!(s.flows(), [1, 1, 2, 2, 3, 1, 1, 2, 1]);
}

#[test]
fn one_unit_may_be_more_than_the_quota() {
    let mut s = Sim::new(1000, Quota::segs(4), 1000);
    let large = Load { segs: 44, bytes: 65_000 };
    (0..3).for_each(|_| s.come(1, large));
    assert_eq!((s.path.len(), s.gate.waiting()), (1, 2));
    s.send(1);
    assert_eq!((s.path.len(), s.gate.waiting()), (1, 1));
    // By bytes: two segments of 1500 are below 4000, three are not.
    let mut s = Sim::new(1000, Quota::bytes(4000), 1000);
    (0..9).for_each(|_| s.come(1, ONE));
    assert_eq!((s.path.len(), s.gate.waiting()), (3, 6));
}

#[test]
fn an_acknowledgement_waits_only_behind_its_own_flow() {
    let mut s = Sim::new(1000, Quota::segs(1), 2);
    for (flow, load) in [(1, ONE), (2, ONE), (3, ACK), (1, ONE), (1, ACK)] {
        s.come(flow, load);
    }
    assert_eq!((s.path.len(), s.gate.waiting()), (3, 2));
    s.send(5);
    assert_eq!(s.flows(), [1, 2, 3, 1, 1]);
    let mut meta = Meta::new(1514);
    assert_eq!(Load::of(&meta), Load { segs: 1, bytes: 1514 });
    meta.tcp_control = true;
    assert_eq!(Load::of(&meta), ACK);
}

#[test]
fn the_oldest_of_who_has_most_makes_room() {
    let mut s = Sim::new(3, Quota::segs(1), 100);
    (0..6).for_each(|_| s.come(1, ONE));
    // The first is in the path; three of the others can wait.
    assert_eq!((&s.dropped[..], s.gate.waiting()), (&[(1, 2), (1, 3)][..], 3));
    assert_eq!((s.gate.stats().dropped, s.gate.stats().held, s.gate.stats().waiting_max), (2, 5, 3));
    // Another flow passes, and its waiting packets displace those of the first.
    (0..2).for_each(|_| s.come(2, ONE));
    assert_eq!(s.dropped[2..], [(1, 4)]);
    s.come(3, ONE);
    s.come(3, ONE);
    assert_eq!(s.dropped[3..], [(1, 5)]);
    // Each flow has one waiting packet now: the flow that offers another one loses.
    s.come(2, ONE);
    assert_eq!(s.dropped[4..], [(2, 8)]);
    s.send(9);
    assert_eq!(s.out, [(1, 1), (2, 7), (3, 9), (1, 6), (2, 11), (3, 10)]);
}

/// A flow that has lost all its waiting packets leaves the line, and joins it again later.
#[test]
fn who_has_nothing_left_has_no_turn() {
    let mut s = Sim::new(1, Quota::segs(1), 0);
    s.come(1, ONE);
    assert_eq!((s.gate.ready(), s.gate.waiting()), (1, 1));
    s.come(2, ONE);
    assert_eq!((&s.dropped[..], s.gate.waiting()), (&[(1, 1)][..], 1));
    assert_eq!(s.gate.front(), Some(&(2, 2)));
    s.come(1, ONE);
    assert_eq!((s.dropped.last(), s.gate.front()), (Some(&(2, 2)), Some(&(1, 3))));
    s.room = 5;
    s.feed();
    s.send(2);
    assert_eq!((&s.out[..], s.gate.ready()), (&[(1, 3)][..], 0));
}

#[test]
fn another_quota_is_felt_at_once() {
    let mut s = Sim::new(100, Quota::segs(1), 100);
    (0..10).for_each(|_| s.come(1, ONE));
    assert_eq!((s.path.len(), s.gate.waiting()), (1, 9));
    s.gate.set_quota(Quota::segs(3));
    s.feed();
    assert_eq!((s.path.len(), s.gate.waiting()), (3, 7));
    s.gate.set_quota(Quota::OFF);
    s.feed();
    assert_eq!((s.path.len(), s.gate.waiting(), s.gate.quota()), (10, 0, Quota::OFF));
}

#[test]
fn what_was_miscounted_is_forgotten_when_the_path_is_empty() {
    let mut s = Sim::new(100, Quota::segs(1), 100);
    s.gate.joined(1, ONE);
    s.come(1, ONE);
    assert_eq!((s.path.len(), s.gate.waiting(), s.gate.ready()), (0, 1, 0));
    s.gate.path_is_empty();
    assert_eq!(s.gate.ready(), 1);
    s.feed();
    assert_eq!((s.path.len(), s.gate.waiting()), (1, 0));
    // A copy that leaves the path without having entered counts nothing.
    s.gate.left(7, ONE);
    s.gate.left(1, ONE);
    s.gate.left(1, ONE);
    (0..2).for_each(|_| s.come(7, ONE));
    assert_eq!((s.path.len(), s.gate.waiting()), (2, 1));
}

#[derive(Clone, Debug)]
enum Op {
    Come(u32, u32),
    Send(u8),
    Quota(u32),
    Room(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..8u32, 0..5u32).prop_map(|(f, s)| Op::Come(f, s)),
        5 => (1..6u8).prop_map(Op::Send),
        1 => (0..6u32).prop_map(Op::Quota),
        1 => (1..30u8).prop_map(Op::Room),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    /// No packet is lost or doubled, each flow's order holds, and no flow waits without a reason.
    #[test]
    fn the_laws_of_the_gate(ops in proptest::collection::vec(op(), 1..200)) {
        let mut s = Sim::new(40, Quota::segs(3), 12);
        let (mut taken, mut quota) = (Vec::new(), 3);
        for op in ops {
            match op {
                Op::Come(flow, segs) => {
                    let of = |s: &Sim, flow| {
                        let gone = s.out.iter().chain(&s.dropped).filter(|(f, _)| *f == flow).count();
                        let came = taken.iter().filter(|(f, _)| *f == flow).count();
                        came - gone - s.path.iter().filter(|(f, ..)| *f == flow).count()
                    };
                    let (waits, dropped) = ([0, 1, 2, 3, 4, 5, 6, 7].map(|f| of(&s, f)), s.dropped.len());
                    s.come(flow, Load { segs, bytes: segs * 1500 });
                    // The oldest of the flow with the most waiting packets, the new one included.
                    if let Some((whose, n)) = s.dropped.get(dropped) {
                        let count = |f: u32| waits[f as usize] + usize::from(f == flow);
                        prop_assert!((0..8).all(|f| count(f) <= count(*whose)), "{waits:?} {flow} {whose}");
                        prop_assert_eq!(waits.iter().sum::<usize>(), 40);
                        let mut earlier = taken.iter().filter(|(f, m)| f == whose && m < n);
                        let is_gone = |p| s.out.contains(p) || s.path.iter().any(|(f, m, _)| (*f, *m) == *p);
                        prop_assert!(earlier.all(|p| is_gone(p) || s.dropped[..dropped].contains(p)));
                    }
                    taken.push((flow, s.number));
                }
                Op::Send(n) => s.send(n.into()),
                Op::Quota(n) => {
                    quota = if n == 0 { u32::MAX } else { n };
                    s.gate.set_quota(Quota::segs(n));
                    s.feed();
                }
                Op::Room(n) => {
                    s.room = n.into();
                    s.feed();
                }
            }
            prop_assert_eq!(taken.len(), s.out.len() + s.path.len() + s.gate.waiting() + s.dropped.len());
            let in_path = |flow| {
                let own = s.path.iter().filter(move |(f, ..)| *f == flow);
                own.map(|(.., load)| load.segs).sum::<u32>()
            };
            if s.path.len() < s.room {
                prop_assert_eq!(s.gate.ready(), 0);
                let blocked: u32 = (0..8).filter(|f| in_path(*f) >= quota).count() as u32;
                prop_assert!(s.gate.waiting() == 0 || blocked > 0, "a flow waits without a reason");
            }
        }
        s.gate.set_quota(Quota::OFF);
        s.room = usize::MAX;
        s.feed();
        s.send(usize::from(u16::MAX));
        prop_assert_eq!(s.gate.waiting(), 0);
        for flow in 0..8 {
            // Packets with payload keep their order; packets without may have passed only other
            // flows.
            let of = |list: &[(u32, u64)]| list.iter().filter(|(f, _)| *f == flow).copied().collect::<Vec<_>>();
            let mut all = of(&taken);
            all.retain(|packet| !s.dropped.contains(packet));
            prop_assert_eq!(of(&s.out), all);
        }
    }

    /// A flow never has more than its quota and a unit, while the quota does not change.
    #[test]
    fn a_flow_has_its_quota_and_at_most_one_unit_in_the_path(
        quota in 1..6u32,
        ops in proptest::collection::vec((0..4u32, 1..5u32, 0..3u8), 1..200),
    ) {
        let mut s = Sim::new(1000, Quota::segs(quota), 1000);
        for (flow, segs, send) in ops {
            s.come(flow, Load { segs, bytes: 1 });
            s.send(send.into());
            for flow in 0..4 {
                let own: Vec<u32> = s.path.iter().filter(|(f, ..)| *f == flow).map(|(.., l)| l.segs).collect();
                let last = own.last().copied().unwrap_or(0);
                prop_assert!(own.iter().sum::<u32>() - last < quota, "{own:?}");
            }
        }
    }
}

/// A flow that waits for room in the path goes before a flow whose packet finds that room.
#[test]
fn a_newcomer_goes_behind_the_flows_in_line() {
    let mut gate = Gate::new(16, 16, Quota::segs(4));
    assert_eq!(gate.offer(1, ONE, false, 'a'), Offered::Held);
    assert_eq!(gate.offer(2, ONE, true, 'b'), Offered::Held);
    assert_eq!((gate.ready(), gate.take(), gate.take()), (2, Some('a'), Some('b')));
    assert_eq!(gate.offer(3, ONE, true, 'c'), Offered::Pass('c'));
}

/// A turn ends with the packet that spends the quota, and a turn whose flow waits on is a yield.
#[test]
fn a_turn_that_spends_its_quota_yields() {
    let mut gate = Gate::new(16, 16, Quota::segs(2));
    for n in 0..5 {
        assert_eq!(gate.offer(1, ONE, false, n), Offered::Held);
    }
    assert_eq!((gate.take(), gate.stats().yields), (Some(0), 0));
    assert_eq!((gate.take(), gate.stats().yields), (Some(1), 1));
    assert_eq!(gate.take(), None, "the quota is in the path");
    gate.left(1, ONE);
    gate.left(1, ONE);
    assert_eq!((gate.take(), gate.take(), gate.stats().yields), (Some(2), Some(3), 2));
    gate.left(1, ONE);
    // The last packet leaves no flow that could yield.
    assert_eq!((gate.take(), gate.stats().yields), (Some(4), 2));
}
