//! Senders that yield: each transition by name, and the whole against the rules of DragonFly's TCP
//! written down literally.

use std::collections::VecDeque;

use proptest::prelude::*;
use txweir_core::base::rng::Rng;
use txweir_core::turns::{Burst, Cause, FairSend, Pass, Quota, SenderId};

const MSS: u64 = 1448;

/// A sender: its waiting data, in units of several segments.
struct Conn {
    id: SenderId,
    /// Segments that wait, and that fit into its window.
    left: u32,
    /// Segments of a unit.
    unit: u32,
    /// Waiting passes without payload.
    bare: u32,
}

/// The output: sender, and number of segments (0: an acknowledgement).
type Wire = Vec<(usize, u32)>;

struct Stack {
    fair: FairSend,
    conns: Vec<Conn>,
    wire: Wire,
}

impl Stack {
    fn new(senders: u32, quota: Quota) -> Self {
        let mut fair = FairSend::new(senders, quota);
        let conn = |fair: &mut FairSend| Conn { id: fair.join().unwrap(), left: 0, unit: 1, bare: 0 };
        let conns = (0..senders).map(|_| conn(&mut fair)).collect();
        Self { fair, conns, wire: Vec::new() }
    }

    fn give(&mut self, who: usize, segs: u32) -> &mut Self {
        self.conns[who].left += segs;
        self
    }

    /// Calls output for a cause. False if it was told to do nothing.
    fn call(&mut self, who: usize, cause: Cause) -> bool {
        let Some(burst) = self.fair.begin(self.conns[who].id, cause) else { return false };
        self.output(who, burst);
        true
    }

    fn turn(&mut self) -> bool {
        let Some(burst) = self.fair.next_turn() else { return false };
        let who = self.conns.iter().position(|c| c.id == burst.sender()).unwrap();
        self.output(who, burst);
        true
    }

    /// Sends payload first, then passes without payload, as a stack whose acknowledgements ride on
    /// data.
    fn output(&mut self, who: usize, mut burst: Burst) {
        let conn = &mut self.conns[who];
        loop {
            let segs = conn.unit.min(conn.left);
            if segs == 0 && conn.bare == 0 {
                return;
            }
            if self.fair.pass(&mut burst, segs, u64::from(segs) * MSS) == Pass::Yield {
                return;
            }
            self.wire.push((who, segs));
            conn.left -= segs;
            // Payload carries the acknowledgements that are owed.
            conn.bare = 0;
        }
    }

    fn sent(&mut self) -> Wire {
        std::mem::take(&mut self.wire)
    }
}

fn ones(who: usize, n: usize) -> Wire {
    vec![(who, 1); n]
}

#[test]
fn a_sender_with_more_than_its_quota_yields_and_one_with_less_does_not() {
    for (left, sent, waits) in [(3, 3, false), (4, 4, false), (5, 4, true), (100, 4, true)] {
        let mut s = Stack::new(1, Quota::segs(4));
        assert!(s.give(0, left).call(0, Cause::Data));
        assert_eq!((s.sent(), s.fair.is_waiting(s.conns[0].id)), (ones(0, sent), waits), "{left}");
    }
}

#[test]
fn the_line_is_a_ring_of_turns() {
    let mut s = Stack::new(3, Quota::segs(4));
    for who in 0..3 {
        assert!(s.give(who, 6).call(who, Cause::Data));
    }
    while s.turn() {}
    let expected: Wire = [(0, 4), (1, 4), (2, 4), (0, 2), (1, 2), (2, 2)]
        .into_iter()
        .flat_map(|(who, n)| ones(who, n))
        .collect();
    assert_eq!(s.sent(), expected);
    let stats = s.fair.stats();
    assert_eq!((stats.turns, stats.yields, stats.suppressed, stats.cancelled, stats.plain), (3, 3, 0, 0, 0));
}

#[test]
fn the_unit_that_spends_the_quota_is_not_cut() {
    // Units of 3 segments: the second unit spends a quota of 4.
    let mut s = Stack::new(1, Quota::segs(4));
    s.conns[0].unit = 3;
    assert!(s.give(0, 9).call(0, Cause::Data));
    assert_eq!(s.sent(), [(0, 3), (0, 3)]);
    // One unit of 44 segments is a turn.
    let mut s = Stack::new(1, Quota::segs(4));
    s.conns[0].unit = 44;
    assert!(s.give(0, 88).call(0, Cause::Data));
    assert_eq!(s.sent(), [(0, 44)]);
    assert!(s.turn());
    assert_eq!(s.sent(), [(0, 44)]);
}

#[test]
fn bytes_end_a_turn_as_segments_do() {
    let mut s = Stack::new(1, Quota { segs: 10, bytes: 2 * MSS + 1 });
    assert!(s.give(0, 10).call(0, Cause::Data));
    assert_eq!(s.sent(), ones(0, 3));
    s.fair.set_quota(Quota::bytes(MSS));
    assert!(s.turn());
    assert_eq!(s.sent(), ones(0, 1));
}

#[test]
fn what_has_no_payload_goes_out_though_the_quota_is_spent_and_counts_nothing() {
    // Two segments spend either quota.
    for quota in [Quota::segs(2), Quota::bytes(120)] {
        let mut fair = FairSend::new(1, quota);
        let id = fair.join().unwrap();
        let mut burst = fair.begin(id, Cause::Data).unwrap();
        for (segs, spent) in [(0, false), (1, false), (0, false), (1, true), (0, true)] {
            assert_eq!((fair.pass(&mut burst, segs, 60), burst.is_spent()), (Pass::Go, spent), "{quota:?}");
        }
        assert!(!fair.is_waiting(id));
        assert_eq!(fair.pass(&mut burst, 1, 60), Pass::Yield);
        assert!(fair.is_waiting(id));
    }
}

/// A stack that does not know how much it has may defer a sender more than once.
#[test]
fn a_sender_stands_in_line_once_however_often_it_is_deferred() {
    let mut fair = FairSend::new(2, Quota::segs(1));
    let ids = [fair.join().unwrap(), fair.join().unwrap()];
    let bursts = ids.map(|id| fair.begin(id, Cause::Data).unwrap());
    for turn in [0, 1, 0, 1, 1] {
        fair.defer(&bursts[turn]);
    }
    assert_eq!((fair.waiting(), fair.stats().yields), (2, 2));
    let turns: Vec<_> = std::iter::from_fn(|| fair.next_turn().map(|b| b.sender())).collect();
    assert_eq!((turns, fair.waiting()), (ids.to_vec(), 0));
}

#[test]
fn the_room_of_a_burst_is_the_rest_of_its_turn() {
    let mut fair = FairSend::new(1, Quota::segs(4));
    let id = fair.join().unwrap();
    let mut burst = fair.begin(id, Cause::Data).unwrap();
    for (segs, room) in [(1, 3), (0, 3), (2, 1), (5, 0)] {
        assert_eq!((fair.pass(&mut burst, segs, MSS), burst.room_segs()), (Pass::Go, room));
    }
}

#[test]
fn a_sender_in_line_is_not_run_by_data_or_by_acknowledgements() {
    let mut s = Stack::new(2, Quota::segs(4));
    assert!(s.give(0, 5).call(0, Cause::Data));
    s.sent();
    assert!(!s.give(0, 5).call(0, Cause::Data));
    assert!(!s.call(0, Cause::Acked));
    assert_eq!((s.sent(), s.fair.stats().suppressed), (vec![], 2));
    assert!(s.turn());
    assert_eq!(s.sent(), ones(0, 4));
}

#[test]
fn who_owes_an_acknowledgement_leaves_the_line_and_is_run_at_once() {
    let mut s = Stack::new(2, Quota::segs(4));
    for who in 0..2 {
        assert!(s.give(who, 9).call(who, Cause::Data));
    }
    s.sent();
    s.conns[0].bare = 1;
    assert!(s.call(0, Cause::Owing));
    // The sender has had its turn, so it stands behind the other one now.
    assert_eq!((s.sent(), s.fair.stats().cancelled, s.fair.waiting()), (ones(0, 4), 1, 2));
    assert!(s.turn());
    assert_eq!(s.sent(), ones(1, 4));
    // Out of the line and without anything to send, it does not come back.
    assert!(s.call(0, Cause::Owing));
    assert_eq!((s.sent(), s.fair.waiting()), (ones(0, 1), 1));
}

#[test]
fn what_repairs_opens_closes_and_answers_neither_yields_nor_waits() {
    for cause in Cause::ALL.into_iter().filter(|c| !c.is_fair()) {
        let mut s = Stack::new(2, Quota::segs(4));
        assert!(s.give(0, 10).call(0, cause), "{cause:?}");
        assert_eq!((s.sent(), s.fair.waiting()), (ones(0, 10), 0), "{cause:?}");
        // In line: the sender is run, and keeps its place.
        for who in 0..2 {
            assert!(s.give(who, 5).call(who, Cause::Data));
        }
        s.sent();
        assert!(s.give(0, 5).call(0, cause));
        assert_eq!((s.sent(), s.fair.waiting(), s.fair.stats().plain), (ones(0, 6), 2, 2), "{cause:?}");
        assert!(s.turn() && s.turn() && !s.turn());
        assert_eq!(s.sent(), ones(1, 1));
    }
    let fair: Vec<_> = Cause::ALL.into_iter().filter(|c| c.is_fair()).collect();
    assert_eq!(fair, [Cause::Data, Cause::Acked, Cause::Owing]);
}

#[test]
fn without_a_quota_nobody_yields() {
    let mut s = Stack::new(1, Quota::segs(0));
    assert!(s.give(0, 1000).call(0, Cause::Data));
    assert_eq!((s.sent(), s.fair.waiting(), Quota::segs(0)), (ones(0, 1000), 0, Quota::OFF));
}

#[test]
fn another_quota_holds_from_the_next_call_on() {
    let mut fair = FairSend::new(1, Quota::segs(2));
    let id = fair.join().unwrap();
    let mut burst = fair.begin(id, Cause::Data).unwrap();
    fair.set_quota(Quota::segs(5));
    let mut sent = 0;
    while fair.pass(&mut burst, 1, MSS) == Pass::Go {
        sent += 1;
    }
    assert_eq!(sent, 2);
    let mut burst = fair.next_turn().unwrap();
    assert_eq!((burst.room_segs(), burst.sender()), (5, id));
    // Switched off: a sender that stands in line gets its turn, and keeps it.
    fair.defer(&burst);
    fair.set_quota(Quota::OFF);
    burst = fair.next_turn().unwrap();
    assert_eq!(burst.room_segs(), u32::MAX);
    assert!((0..1000).all(|_| fair.pass(&mut burst, 9, MSS) == Pass::Go));
}

#[test]
fn who_leaves_takes_its_turn_along_and_its_id_names_nobody() {
    let mut fair = FairSend::new(3, Quota::segs(1));
    let ids: Vec<_> = (0..3).map(|_| fair.join().unwrap()).collect();
    assert_eq!(fair.join(), None);
    let mut bursts: Vec<_> = ids.iter().map(|id| fair.begin(*id, Cause::Data).unwrap()).collect();
    bursts.iter_mut().for_each(|b| {
        assert_eq!(fair.pass(b, 1, 1), Pass::Go);
        assert_eq!(fair.pass(b, 1, 1), Pass::Yield);
    });
    assert!(fair.leave(ids[1]) && !fair.leave(ids[1]));
    assert_eq!((fair.waiting(), fair.is_waiting(ids[1])), (2, false));
    let new = fair.join().unwrap();
    assert_eq!((new.index(), new == ids[1]), (1, false));
    // A burst of the old sender does not affect the new one.
    fair.defer(&bursts[1]);
    assert!(fair.begin(ids[1], Cause::Timer).is_none());
    assert_eq!((fair.is_waiting(new), fair.waiting()), (false, 2));
    let turns: Vec<_> = std::iter::from_fn(|| fair.next_turn().map(|b| b.sender())).collect();
    assert_eq!(turns, [ids[0], ids[2]]);
    assert!(FairSend::new(0, Quota::default()).join().is_none());
}

#[test]
fn what_was_lost_is_sent_again_at_the_same_places_with_every_quota() {
    // Ten calls, every third of them for repair: the time and content of their output do not depend
    // on the quota.
    let repairs = |quota| {
        let mut s = Stack::new(2, quota);
        let mut seen = Vec::new();
        for i in 0..10 {
            s.give(0, 7).call(0, Cause::Data);
            s.give(1, 7).call(1, Cause::Data);
            while s.turn() {}
            s.sent();
            if i % 3 == 0 {
                assert!(s.give(0, 3).call(0, Cause::Recovery));
                seen.push((i, s.sent()));
            }
        }
        seen
    };
    assert_eq!(repairs(Quota::segs(4)), repairs(Quota::OFF));
}

/// Returns Jain's index of fairness, DEC-TR-301.
fn jain(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|s| s * s).sum();
    (sum * sum) as f64 / (shares.len() as u64 * squares) as f64
}

/// Returns the segments of each sender. Senders have windows and units of many sizes, an
/// application that always has more, and a device that takes a number of segments. Windows open
/// again when all is sent, as acknowledgements come.
fn shares(senders: u32, quota: Quota, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut s = Stack::new(senders, quota);
    let windows: Vec<u32> = (0..senders).map(|_| 16 + rng.below(200) as u32).collect();
    s.conns.iter_mut().for_each(|c| c.unit = 1 + rng.below(3) as u32);
    let mut got = vec![0; senders as usize];
    let mut total = 0;
    while total < 40_000 {
        for (who, window) in windows.iter().enumerate() {
            let conn = &mut s.conns[who];
            conn.left = *window;
            s.call(who, Cause::Acked);
        }
        for _ in 0..s.fair.waiting() {
            s.turn();
        }
        for (who, segs) in s.sent() {
            got[who] += u64::from(segs);
            total += segs;
        }
    }
    got
}

#[test]
fn shares_are_more_even_with_turns_than_without() {
    for senders in [8, 16, 32, 64, 128] {
        let (mut with, mut without) = (0.0, 0.0);
        for seed in 0..20 {
            let (on, off) =
                (jain(&shares(senders, Quota::segs(4), seed)), jain(&shares(senders, Quota::OFF, seed)));
            assert!(on > 0.9 && on > off, "{senders} senders, seed {seed}: {on:.3} with, {off:.3} without");
            with += on / 20.0;
            without += off / 20.0;
        }
        assert!(with > 0.94 && without < 0.86, "{senders} senders: {with:.3} with, {without:.3} without");
    }
}

/// DragonFly's rules, literally: connections, and the queue of messages of their protocol thread.
#[derive(Default)]
struct Literal {
    conns: Vec<LiteralConn>,
    queue: VecDeque<usize>,
    n: u32,
    wire: Wire,
}

#[derive(Clone, Default)]
struct LiteralConn {
    left: u32,
    unit: u32,
    bare: u32,
    pending: bool,
}

impl Literal {
    fn output(&mut self, c: usize, fair: bool) {
        let n = self.n;
        let mut seg = 0;
        let mut defer = false;
        loop {
            let conn = &mut self.conns[c];
            let len = conn.unit.min(conn.left);
            seg += len;
            if len == 0 && conn.bare == 0 {
                return;
            }
            if defer && len > 0 {
                if !conn.pending {
                    conn.pending = true;
                    self.queue.push_back(c);
                }
                return;
            }
            self.wire.push((c, len));
            conn.left -= len;
            conn.bare = 0;
            let more = conn.left > 0;
            if !more {
                return;
            }
            defer |= n > 0 && fair && seg >= n;
        }
    }

    fn cancel(&mut self, c: usize) {
        self.conns[c].pending = false;
        self.queue.retain(|q| *q != c);
    }

    fn message(&mut self) {
        if let Some(c) = self.queue.pop_front() {
            self.conns[c].pending = false;
            self.output(c, true);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// A call of output with this many further segments, and perhaps an acknowledgement owed.
    Call(usize, Cause, u32, bool),
    Turns(u8),
    Quota(u32),
    Unit(usize, u32),
    /// The connection ends, and another begins in its place.
    Close(usize),
}

const CONNS: usize = 6;

fn op() -> impl Strategy<Value = Op> {
    let cause = (0..Cause::ALL.len()).prop_map(|i| Cause::ALL[i]);
    prop_oneof![
        8 => (0..CONNS, cause, 0..30u32, any::<bool>()).prop_map(|(c, w, n, b)| Op::Call(c, w, n, b)),
        4 => (1..8u8).prop_map(Op::Turns),
        1 => prop_oneof![Just(0), Just(1), Just(2), Just(4), Just(8), Just(64)].prop_map(Op::Quota),
        1 => (0..CONNS, 1..50u32).prop_map(|(c, u)| Op::Unit(c, u)),
        1 => (0..CONNS).prop_map(Op::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_goes_out_is_what_the_rules_say(ops in proptest::collection::vec(op(), 1..120)) {
        let mut s = Stack::new(CONNS as u32, Quota::segs(4));
        let mut model = Literal { n: 4, conns: vec![LiteralConn { unit: 1, ..Default::default() }; CONNS],
            ..Literal::default() };
        for op in ops {
            match op {
                Op::Call(c, cause, segs, owed) => {
                    s.conns[c].left += segs;
                    s.conns[c].bare |= u32::from(owed);
                    s.call(c, cause);
                    model.conns[c].left += segs;
                    model.conns[c].bare |= u32::from(owed);
                    match cause {
                        Cause::Data | Cause::Acked => if !model.conns[c].pending { model.output(c, true) },
                        Cause::Owing => {
                            model.cancel(c);
                            model.output(c, true);
                        }
                        _ => model.output(c, false),
                    }
                }
                Op::Turns(n) => for _ in 0..n {
                    s.turn();
                    model.message();
                },
                Op::Quota(n) => {
                    s.fair.set_quota(Quota::segs(n));
                    model.n = n;
                }
                Op::Unit(c, unit) => {
                    s.conns[c].unit = unit;
                    model.conns[c].unit = unit;
                }
                Op::Close(c) => {
                    prop_assert!(s.fair.leave(s.conns[c].id));
                    let id = s.fair.join().unwrap();
                    s.conns[c] = Conn { id, left: 0, unit: 1, bare: 0 };
                    model.cancel(c);
                    model.conns[c] = LiteralConn { unit: 1, ..LiteralConn::default() };
                }
            }
            prop_assert_eq!(s.sent(), std::mem::take(&mut model.wire));
            prop_assert_eq!(s.fair.waiting(), model.queue.len());
            for (conn, like) in s.conns.iter().zip(&model.conns) {
                prop_assert_eq!(s.fair.is_waiting(conn.id), like.pending);
                prop_assert_eq!(conn.left, like.left);
            }
        }
    }
}

/// DragonFly BSD's `net.inet.tcp.fairsend` is four segments by default.
#[test]
fn the_default_quota_is_four_segments() {
    assert_eq!(Quota::default(), Quota::segs(4));
}
