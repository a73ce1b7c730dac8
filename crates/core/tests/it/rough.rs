//! rough: the conformance cases of DragonFly BSD's two-level queue in both profiles, a model of its
//! rules, and the budget.

use std::collections::VecDeque;

use crate::common;
use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, pick};
use txweir_core::base::rng::Rng;
use txweir_core::packet::route::Candidate;
use txweir_core::qdisc::rough::{ByteLimit, Config, Profile, Rough};
use txweir_core::sched::answer::Verdict;
use txweir_core::sched::node::Node;
use txweir_core::{Admitted, Bytes, DropReason, Env, Handle, Instant, Meta, Nanos, Packets};

const T0: Instant = Instant::ZERO;

/// Returns an ordinary packet.
fn n(len: u32) -> Meta {
    Meta::new(len)
}

/// Returns a control segment.
fn p(len: u32) -> Meta {
    let mut m = Meta::new(len);
    m.tcp_control = true;
    m
}

/// The fate of a new packet: dropped, or queued after these were dropped from the head.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    Rejected,
    Queued(Vec<u32>),
}

/// The waiting packets: ordinary packets, control segments, bytes.
type Waits = (u64, u64, u64);

/// Queues `before` (numbers from 0), then `newcomer`, of the next number.
fn arrive(lane: &mut Lane, before: &[Meta], newcomer: Meta) -> (After, Waits) {
    for (id, m) in (0..).zip(before) {
        assert_eq!(lane.put(T0, id, *m), Admitted::Queued, "{id} of the state");
    }
    assert_eq!(lane.drops(), [], "the state is made without drops");
    let id = before.len() as u32;
    let answer = lane.put(T0, id, newcomer);
    let drops = lane.drops();
    let after = match answer {
        Admitted::Dropped(DropReason::Overlimit) => {
            assert_eq!(drops, [(id, DropReason::Overlimit)]);
            After::Rejected
        }
        Admitted::Queued => {
            assert!(drops.iter().all(|(_, why)| *why == DropReason::HeadDrop), "{drops:?}");
            After::Queued(drops.iter().map(|(id, _)| *id).collect())
        }
        other => panic!("{other:?}"),
    };
    let prio = lane.counter("prio_packets");
    (after, (lane.backlog() - prio, prio, lane.path.backlog().bytes))
}

/// A case in both profiles: limits, waiting packets, new packet, and the expected fate.
fn case(limits: &str, state: &[Meta], newcomer: Meta, expected: [(After, Waits); 2]) {
    for (profile, expected) in ["df2013", "df2017"].into_iter().zip(expected) {
        let mut lane = Lane::new("rough", &format!("{limits} profile {profile}"));
        assert_eq!(arrive(&mut lane, state, newcomer), expected, "{profile}");
    }
}

/// Limits of most cases.
const FOUR: &str = "limit 4 bytes 6056b";

fn state(normal: usize, prio: usize) -> Vec<Meta> {
    [vec![n(1514); normal], vec![p(1514); prio]].concat()
}

fn waits(normal: u64, prio: u64) -> Waits {
    (normal, prio, (normal + prio) * 1514)
}

fn queued(dropped: &[u32]) -> After {
    After::Queued(dropped.to_vec())
}

#[test]
fn case_1_room_for_an_ordinary_packet() {
    let same = (queued(&[]), waits(4, 0));
    case(FOUR, &state(3, 0), n(1514), [same.clone(), same]);
}

#[test]
fn case_2_an_ordinary_packet_to_a_full_queue() {
    case(FOUR, &state(4, 0), n(1514), [(After::Rejected, waits(4, 0)), (queued(&[0]), waits(4, 0))]);
}

#[test]
fn case_3_control_to_a_full_queue() {
    let same = (queued(&[0]), waits(3, 1));
    case(FOUR, &state(4, 0), p(1514), [same.clone(), same]);
}

#[test]
fn case_4_control_below_half() {
    let same = (queued(&[0]), waits(2, 2));
    case(FOUR, &state(3, 1), p(1514), [same.clone(), same]);
}

#[test]
fn case_5_control_at_half() {
    case(FOUR, &state(2, 2), p(1514), [(After::Rejected, waits(2, 2)), (queued(&[2]), waits(2, 2))]);
}

#[test]
fn case_6_an_ordinary_packet_where_control_has_half() {
    case(FOUR, &state(2, 2), n(1514), [(After::Rejected, waits(2, 2)), (queued(&[0]), waits(2, 2))]);
}

#[test]
fn case_7_an_ordinary_packet_where_all_is_control() {
    let same = (After::Rejected, waits(0, 4));
    case(FOUR, &state(0, 4), n(1514), [same.clone(), same]);
}

#[test]
fn case_8_control_where_all_is_control() {
    case(FOUR, &state(0, 4), p(1514), [(After::Rejected, waits(0, 4)), (queued(&[0]), waits(0, 4))]);
}

#[test]
fn case_9_half_binds_only_a_full_queue() {
    let same = (queued(&[]), waits(0, 4));
    case(FOUR, &state(0, 3), p(1514), [same.clone(), same]);
}

#[test]
fn case_10_full_by_bytes() {
    let same = (queued(&[0]), (3, 1, 4602));
    case("limit 100 bytes 6056b", &state(4, 0), p(60), [same.clone(), same]);
}

/// The oldest packet is small: dropping it does not make room. The older profile queues the new
/// packet all the same.
#[test]
fn case_11_a_small_head() {
    let state = [n(60), n(5936), n(1514)];
    let expected = [(queued(&[0]), (2, 1, 8964)), (queued(&[0, 1]), (1, 1, 3028))];
    case("limit 100 bytes 6056b", &state, p(1514), expected);
}

#[test]
fn case_12_half_is_rounded_down() {
    let expected = [(After::Rejected, waits(3, 2)), (queued(&[3]), waits(3, 2))];
    case("limit 5 bytes 100000b", &state(3, 2), p(1514), expected);
}

/// DragonFly counts a packet that a driver has returned in the queue that it left. Here no packet
/// leaves before the device has promised a slot. The counterpart is the queue's head, at which a
/// shaper above peeks: it counts, but unlike DragonFly's packet it may be overtaken and may make
/// room.
#[test]
fn case_13_what_a_shaper_has_looked_at_waits_still() {
    for (limit, profile, expected, first) in [
        (4, "df2013", After::Rejected, 60),
        (4, "df2017", queued(&[0]), 60),
        (1, "df2013", After::Rejected, 0),
        (1, "df2017", queued(&[0]), 50),
    ] {
        let mut lane = Lane::new("tbf", "rate 8kbit burst 1514b limit 1mb");
        // The packet takes the bucket's tokens.
        assert_eq!(lane.put(T0, 99, n(1514)), Admitted::Queued);
        assert_eq!(lane.ids(T0, 1), [99]);
        let words = format!("limit {limit} bytes 1mb profile {profile}");
        let class = Handle::new(lane.root().handle().major(), 1);
        lane.graft(T0, class, "rough", &words);
        lane.fill(T0, 0, limit, n(1514));
        // The shaper peeks at the first packet, and has no tokens.
        assert_eq!(lane.take(T0).id(), None);
        assert_eq!(lane.backlog(), u64::from(limit));
        let dropped = match lane.put(T0, 50, n(1514)) {
            Admitted::Dropped(_) => After::Rejected,
            _ => After::Queued(lane.drops().iter().map(|(id, _)| *id).collect()),
        };
        assert_eq!(dropped, expected, "{profile}, {limit}");
        // Control that came after the peek leaves first, where half the limit is a packet or more.
        let _ = lane.put(T0, 60, p(60));
        assert_eq!(lane.take(T0 + Nanos::from_secs(4)).id(), Some(first), "{profile}, {limit}");
    }
}

/// The older profile does not count drops from the head; the books of the qdisc count every drop.
#[test]
fn case_14_who_counts_the_drop() {
    for (profile, counted) in [("df2013", 0), ("df2017", 1)] {
        let mut lane = Lane::new("rough", &format!("{FOUR} profile {profile}"));
        let (after, _) = arrive(&mut lane, &state(4, 0), p(1514));
        assert_eq!(after, queued(&[0]));
        assert_eq!(lane.counter("profile_drops"), counted, "{profile}");
        assert_eq!((lane.counter("head_drops"), lane.root().books().dropped.packets), (1, 1));
    }
}

/// Packets and bytes, each at its limit less one, at it, and above.
#[test]
fn full_is_packets_or_bytes_before_the_newcomer() {
    for (limits, before, full) in [
        ("limit 4 bytes 1mb", 3, false),
        ("limit 4 bytes 1mb", 4, true),
        ("limit 100 bytes 3029b", 2, false),
        ("limit 100 bytes 3028b", 2, true),
        ("limit 100 bytes 3027b", 2, true),
        ("limit 0", 0, true),
        ("limit 9 bytes 0b", 0, true),
    ] {
        for profile in ["df2013", "df2017"] {
            let mut lane = Lane::new("rough", &format!("{limits} profile {profile}"));
            lane.fill(T0, 0, before, n(1514));
            let _ = lane.put(T0, 50, n(1514));
            assert_eq!(!lane.drops().is_empty(), full, "{limits} {profile}");
        }
    }
}

#[test]
fn control_first_and_each_in_order() {
    let mut lane = Lane::new("rough", "");
    for (id, m) in (0..).zip([n(1000), p(60), n(1000), p(60), n(60)]) {
        let _ = lane.put(T0, id, m);
    }
    assert_eq!((lane.counter("prio_packets"), lane.counter("prio_bytes")), (2, 120));
    assert_eq!(lane.ids(T0, 9), [1, 3, 0, 2, 4]);
}

/// A shaper above asks for the first packet: control, while control may go, else the oldest
/// ordinary one. It is the packet that leaves next.
#[test]
fn the_head_is_the_packet_that_leaves_next() {
    for options in ["limit 100", "limit 100 ack_budget 20%"] {
        let mut lane = Lane::new("rough", options);
        let mut rng = Rng::new(7);
        for id in 0..60 {
            let m = if chance(&mut rng, 1, 2) { p(60 + id) } else { n(1000 + id) };
            let _ = lane.put(T0, id, m);
        }
        while lane.backlog() > 0 {
            let head = lane.root().qdisc().head(&lane.path.cx().pool).map(|w| w.meta.wire_len);
            let Out::Sent(_, m) = lane.take(T0) else { panic!("packets wait") };
            assert_eq!(head, Some(m.wire_len), "{options}");
        }
        assert!(lane.root().qdisc().head(&lane.path.cx().pool).is_none());
    }
}

/// The limit of bytes follows that of packets, unless it is given.
#[test]
fn the_limit_of_bytes_is_derived() {
    let shown = |lane: &Lane| common::options::shown(lane.root().qdisc())[1].1.clone();
    let mut lane = Lane::new("rough", "");
    assert_eq!(shown(&lane), "1514000b");
    lane.change(T0, Handle::ROOT, "limit 10").unwrap();
    assert_eq!(shown(&lane), "15140b");
    lane.change(T0, Handle::ROOT, "bytes 4000b").unwrap();
    lane.change(T0, Handle::ROOT, "limit 20").unwrap();
    assert_eq!(shown(&lane), "4000b");
    let other = Env { link_header: 0, tx_queue_len: 250, ..Env::default() };
    assert_eq!(shown(&Lane::on(other, "rough", "")), "512000b");
}

#[test]
fn a_smaller_limit_drops_the_oldest_ordinary_packets_first() {
    let mut lane = Lane::new("rough", "limit 8");
    for (id, m) in (0..).zip([n(100), p(60), n(100), p(60), n(100), p(60)]) {
        let _ = lane.put(T0, id, m);
    }
    lane.change(T0, Handle::ROOT, "limit 2").unwrap();
    assert_eq!(lane.drops(), [0, 2, 4, 1].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.ids(T0, 9), [3, 5]);
}

/// A smaller limit of bytes is obeyed as one of packets is.
#[test]
fn fewer_bytes_drop_the_oldest_packets_too() {
    let mut lane = Lane::new("rough", "limit 8 bytes 1mb");
    lane.fill(T0, 0, 5, n(1000));
    lane.change(T0, Handle::ROOT, "bytes 3kb").unwrap();
    assert_eq!(lane.drops(), [0, 1].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.backlog(), 3);
}

/// A sender is told before it sends: control that has its share of the room waits, data does not.
#[test]
fn a_queue_full_of_control_has_room_for_data() {
    let mut lane = Lane::new("rough", "limit 20 bytes 1mb ack_budget 10%");
    let asked = |lane: &Lane, m: Meta| lane.root().would_accept(&Candidate { meta: &m, route: None });
    assert_eq!((asked(&lane, p(60)), asked(&lane, n(60))), (Verdict::Accept, Verdict::Accept));
    // A tenth of 20 packets.
    lane.fill(T0, 0, 2, p(60));
    assert_eq!((asked(&lane, p(60)), asked(&lane, n(60))), (Verdict::Full, Verdict::Accept));
    lane.fill(T0, 2, 18, n(60));
    assert_eq!((asked(&lane, p(60)), asked(&lane, n(60))), (Verdict::Full, Verdict::Full));
}

/// A full queue may hold up to a packet more than its bytes; a change of another option is no
/// reason to drop that packet.
#[test]
fn a_change_of_the_profile_drops_nothing() {
    let mut lane = Lane::new("rough", "limit 100 bytes 2000b profile df2013");
    lane.fill(T0, 0, 2, n(1514));
    lane.change(T0, Handle::ROOT, "profile df2017").unwrap();
    assert_eq!(lane.drops(), []);
    assert_eq!(lane.put(T0, 2, n(1514)), Admitted::Queued);
    assert_eq!(lane.drops(), [(0, DropReason::HeadDrop)]);
}

#[test]
fn a_configuration_made_as_a_value() {
    let env = Env::default();
    let cfg = Config {
        limit: Packets(3),
        bytes: ByteLimit::Given(Bytes(10_000)),
        profile: Profile::Df2013,
        ack_budget: None,
    };
    let node = Node::of::<Rough>(Handle::new(1, 0), cfg, &env).unwrap();
    let words = common::options::printed(node.qdisc());
    assert_eq!(words, ["limit", "3p", "bytes", "10000b", "profile", "df2013"]);
    let err = common::options::with_words(&["ack_budget".into(), "0%".into()], |w| {
        txweir_core::qdisc::kind("rough").unwrap().build(w, &env).unwrap_err()
    });
    assert_eq!(err.to_string(), "rough ack_budget: expected more than 0%, given \"0%\"");
}

/// The rules again, as they are specified and not as they are implemented: two lists, without any
/// other state.
struct Model {
    prio: VecDeque<(u32, u64)>,
    normal: VecDeque<(u32, u64)>,
    limit: usize,
    bytes: u64,
    newer: bool,
}

impl Model {
    fn full(&self) -> bool {
        let bytes: u64 = self.prio.iter().chain(&self.normal).map(|(_, len)| len).sum();
        self.prio.len() + self.normal.len() >= self.limit || bytes >= self.bytes
    }
    fn halves_allow(&self) -> bool {
        let bytes: u64 = self.prio.iter().map(|(_, len)| len).sum();
        self.prio.len() < self.limit / 2 && bytes < self.bytes / 2
    }
    /// Returns the packets to drop, in order.
    fn arrive(&mut self, id: u32, len: u64, control: bool) -> Vec<u32> {
        let mut dropped = Vec::new();
        if !self.newer && self.full() {
            let gone = if control && self.halves_allow() { self.normal.pop_front() } else { None };
            let Some((gone, _)) = gone else { return vec![id] };
            dropped.push(gone);
        }
        while self.newer && self.full() {
            let gone = match control {
                false => self.normal.pop_front(),
                true if self.halves_allow() => self.normal.pop_front().or_else(|| self.prio.pop_front()),
                true => self.prio.pop_front(),
            };
            match gone {
                Some((gone, _)) => dropped.push(gone),
                None => {
                    dropped.push(id);
                    return dropped;
                }
            }
        }
        if control { &mut self.prio } else { &mut self.normal }.push_back((id, len));
        dropped
    }
    fn leave(&mut self) -> Option<u32> {
        self.prio.pop_front().or_else(|| self.normal.pop_front()).map(|(id, _)| id)
    }
}

#[test]
fn it_equals_its_model() {
    let (mut dropped, mut sent) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (limit, bytes) = (rng.below(14), *pick(&mut rng, &[0, 60, 3000, 6056, 9000, 1 << 20]));
        let newer = chance(&mut rng, 1, 2);
        let profile = if newer { "df2017" } else { "df2013" };
        let mut lane = Lane::new("rough", &format!("limit {limit} bytes {bytes}b profile {profile}"));
        let mut model =
            Model { prio: VecDeque::new(), normal: VecDeque::new(), limit: limit as usize, bytes, newer };
        let busy = 1 + rng.below(4);
        for id in 0..400 {
            if rng.below(5) < busy {
                let len = *pick(&mut rng, &[0, 60, 64, 590, 1514, 9014]);
                let control = chance(&mut rng, 1, 2);
                let _ = lane.put(T0, id, if control { p(len) } else { n(len) });
                let expected = model.arrive(id, len.into(), control);
                let drops: Vec<u32> = lane.drops().iter().map(|(id, _)| *id).collect();
                assert_eq!(drops, expected, "seed {seed}, packet {id}");
                dropped += expected.len();
            } else {
                let expected = model.leave();
                assert_eq!(lane.take(T0).id(), expected, "seed {seed}, after packet {id}");
                sent += usize::from(expected.is_some());
            }
            assert_eq!(lane.counter("prio_packets"), model.prio.len() as u64);
            let bytes: u64 = model.prio.iter().map(|(_, len)| len).sum();
            assert_eq!(lane.counter("prio_bytes"), bytes);
        }
    }
    assert!(dropped > 10_000 && sent > 10_000, "{dropped} dropped, {sent} sent");
}

/// ACKs at ten times the link's rate, and data at that rate. Returns the bytes of data and of ACKs
/// that leave, in percent of all.
fn flood(options: &str) -> (u64, u64) {
    let mut lane = Lane::new("rough", options);
    let (mut data, mut acks, mut id, mut room) = (0, 0, 0, 0i64);
    for _ in 0..4000 {
        // A packet of data leaves in the time of 25 ACKs.
        for _ in 0..250 {
            let _ = lane.put(T0, id, p(60));
            id += 1;
        }
        let _ = lane.put(T0, id, n(1500));
        id += 1;
        room += 1500;
        while room > 0 {
            let common::lane::Out::Sent(_, m) = lane.take(T0) else { break };
            room -= i64::from(m.wire_len);
            *(if m.tcp_control { &mut acks } else { &mut data }) += u64::from(m.wire_len);
        }
    }
    (data * 100 / (data + acks), acks * 100 / (data + acks))
}

/// A flood of ACKs takes the whole link; with a budget of 10 % it takes 10 %, and data has the
/// rest.
#[test]
fn a_flood_of_acks_takes_its_budget_and_no_more() {
    for profile in ["df2013", "df2017"] {
        let (data, _) = flood(&format!("limit 100 profile {profile}"));
        assert!(data <= 1, "{profile}: without a budget data has {data} %");
        let (data, acks) = flood(&format!("limit 100 profile {profile} ack_budget 10%"));
        assert!((88..=90).contains(&data) && (9..=11).contains(&acks), "{profile}: {data} %, {acks} %");
        let (data, acks) = flood(&format!("limit 100 profile {profile} ack_budget 50%"));
        assert!((48..=51).contains(&data) && (48..=51).contains(&acks), "{profile}: {data} %, {acks} %");
    }
}

/// Control uses the share that data leaves unused: a budget keeps no packet from leaving.
#[test]
fn a_budget_binds_only_while_data_waits() {
    let mut lane = Lane::new("rough", "limit 1000 bytes 10mb ack_budget 1%");
    lane.fill(T0, 0, 10, p(60));
    assert_eq!(lane.ids(T0, 20), (0..10).collect::<Vec<_>>());
    assert_eq!(lane.counter("budget_yields"), 0);
}

/// Credit is full when data comes, whatever control has sent before: alone, or before data that has
/// left.
#[test]
fn control_has_full_credit_when_data_comes() {
    let mut lane = Lane::new("rough", "limit 2000 bytes 10mb ack_budget 1%");
    // 655 bytes of credit: 12 ACKs at 59.4 each would spend it, if alone they cost any.
    lane.fill(T0, 100, 20, p(60));
    assert_eq!(lane.ids(T0, 20), (100..120).collect::<Vec<_>>());
    for round in 0..2 {
        lane.fill(T0, 0, 1, n(1500));
        lane.fill(T0, 200, 13, p(60));
        let expected: Vec<u32> = (200..212).chain([0, 212]).collect();
        assert_eq!(lane.ids(T0, 14), expected, "round {round}");
    }
}

/// A queue without room lets no packet past it.
#[test]
fn a_queue_without_room_takes_no_packet_directly() {
    for (limits, answer) in [
        ("limit 0", Admitted::Dropped(DropReason::Overlimit)),
        ("limit 9 bytes 0b", Admitted::Dropped(DropReason::Overlimit)),
        ("limit 1 bytes 1b", Admitted::Sent),
    ] {
        for (profile, m) in [("df2013", n(100)), ("df2017", n(100)), ("df2013", p(60)), ("df2017", p(60))] {
            let mut lane = Lane::new("rough", &format!("{limits} profile {profile}"));
            let done = lane.path.submit(T0, 0, m, &mut lane.dev);
            assert_eq!(done, answer, "{limits} {profile}");
        }
    }
}

/// 655 bytes of credit are spent by 12 ACKs at 59.4 each, the last of them at the limit; then a
/// packet of data, which earns 15, and so on.
#[test]
fn control_that_has_spent_its_budget_lets_data_go() {
    let mut lane = Lane::new("rough", "limit 2000 bytes 10mb ack_budget 1%");
    lane.fill(T0, 0, 8, n(1500));
    lane.fill(T0, 100, 20, p(60));
    let ids = lane.ids(T0, 18);
    assert_eq!(ids, [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 0, 1, 2, 3, 112, 4]);
    assert_eq!(lane.counter("budget_yields"), 5);
}

/// With a budget control has its share of the room too: at least one segment.
#[test]
fn control_waits_in_its_share_of_the_room() {
    for (profile, kept) in [("df2013", [0, 1]), ("df2017", [3, 4])] {
        let mut lane = Lane::new("rough", &format!("limit 20 bytes 1mb profile {profile} ack_budget 10%"));
        for id in 0..5 {
            let _ = lane.put(T0, id, p(60));
        }
        assert_eq!(lane.drops().len(), 3);
        assert_eq!(lane.ids(T0, 9), kept, "{profile}");
        let mut lane = Lane::new("rough", &format!("limit 3 profile {profile} ack_budget 1%"));
        lane.fill(T0, 0, 1, p(60));
        assert_eq!(lane.ids(T0, 9), [0]);
    }
}
