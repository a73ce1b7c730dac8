//! sfq (tc-sfq(8)) against literal expectations; spec/traces/sfq has the results of Linux 6.12 for
//! the same packets.

use std::collections::HashMap;

use crate::common::lane::Lane;
use crate::common::options::pick;
use txweir_core::base::rng::Rng;
use txweir_core::{Admitted, DropReason, Ecn, ErrorKind, Handle, Instant, Meta, Nanos};

const T0: Instant = Instant::ZERO;

/// Returns a packet of flow `f` of 1024.
fn packet(f: u32, len: u32) -> Meta {
    Meta::new(len).hash(f << 22)
}

/// Queues packets of these flows, numbered from `id`.
fn put(lane: &mut Lane, id: u32, flows: &[u32]) -> u32 {
    for (id, f) in (id..).zip(flows) {
        let _ = lane.put(T0, id, packet(*f, 1000));
    }
    id + flows.len() as u32
}

#[test]
fn a_turn_is_a_quantum_and_what_the_last_packet_was_too_long() {
    // 300 bytes a turn: one packet of 304, or five of 60. One of 600 bytes costs the next turn too.
    for (long, short, turns) in
        [(300, 60, [1, 5, 1, 5, 1, 5]), (304, 100, [1, 3, 1, 3, 1, 3]), (600, 60, [1, 10, 1, 10, 1, 10])]
    {
        let mut lane = Lane::new("sfq", "quantum 300");
        for id in 0..8 {
            let _ = lane.put(T0, id, packet(1, long));
        }
        for id in 100..140 {
            let _ = lane.put(T0, id, packet(2, short));
        }
        let ids = lane.ids(T0, turns.iter().sum::<usize>());
        let runs: Vec<usize> = ids.chunk_by(|a, b| (*a < 100) == (*b < 100)).map(<[u32]>::len).collect();
        assert_eq!(runs, turns, "{long} {short}");
    }
}

#[test]
fn a_packet_of_many_quanta_waits_its_turns_at_once() {
    let mut lane = Lane::new("sfq", "quantum 256 limit 100");
    let _ = lane.put(T0, 0, packet(1, 200_000_000));
    let _ = lane.put(T0, 1, packet(1, 100));
    let _ = lane.put(T0, 2, packet(2, 200_000_256));
    let _ = lane.put(T0, 3, packet(2, 100));
    // Each flow is in debt for 781 249 turns or one more.
    assert_eq!(lane.ids(T0, 4), [0, 2, 1, 3]);
}

#[test]
fn the_flow_that_became_longest_last_loses_its_newest_packet() {
    let mut lane = Lane::new("sfq", "limit 8");
    let id = put(&mut lane, 0, &[1, 2, 3, 1, 2, 3, 1, 2]);
    put(&mut lane, id, &[3, 4, 5, 6]);
    // 3 has just become one of the longest; then 2, then 1; then 1 is the last that became of
    // length 2.
    assert_eq!(lane.drops(), [8, 7, 6, 3].map(|id| (id, DropReason::FlowOverlimit)));
    assert_eq!(lane.ids(T0, 9), [0, 1, 4, 2, 5, 9, 10, 11]);
    let mut lane = Lane::new("sfq", "limit 8 headdrop");
    let id = put(&mut lane, 0, &[1, 2, 3, 1, 2, 3, 1, 2]);
    put(&mut lane, id, &[3, 4, 5, 6]);
    assert_eq!(lane.drops(), [2, 1, 0, 3].map(|id| (id, DropReason::FlowOverlimit)));
}

#[test]
fn if_all_flows_have_one_packet_the_next_to_leave_goes() {
    let mut lane = Lane::new("sfq", "");
    put(&mut lane, 0, &(0..128).collect::<Vec<u32>>());
    assert_eq!(lane.drops(), [(0, DropReason::FlowOverlimit)]);
    assert_eq!(lane.take(T0).id(), Some(1));
}

#[test]
fn a_flow_is_bounded_and_so_is_their_number() {
    let mut lane = Lane::new("sfq", "depth 3");
    put(&mut lane, 0, &[1, 1, 1, 1, 1]);
    assert_eq!(lane.drops(), [3, 4].map(|id| (id, DropReason::Overlimit)));
    let mut lane = Lane::new("sfq", "depth 1 headdrop");
    put(&mut lane, 0, &[1, 1, 2, 2]);
    assert_eq!(lane.drops(), [0, 2].map(|id| (id, DropReason::HeadDrop)));
    assert_eq!(lane.ids(T0, 3), [1, 3]);
    let mut lane = Lane::new("sfq", "flows 3");
    put(&mut lane, 0, &[1, 2, 3, 4, 3]);
    assert_eq!(lane.drops(), [(3, DropReason::Overlimit)]);
    assert_eq!(lane.ids(T0, 5), [0, 1, 2, 4]);
}

/// As Linux 6.12 shows the options.
#[test]
fn what_is_given_is_brought_to_its_bounds() {
    for (given, limit, depth, flows) in [
        ("", None, 127, 128),
        ("limit 5", Some(5), 127, 5),
        ("limit 300 flows 2", Some(254), 127, 2),
        ("limit 70000", Some(16_256), 127, 128),
        ("depth 200", None, 127, 128),
        ("flows 70000 divisor 65536", None, 127, 65_408),
        ("limit 127 flows 128", Some(127), 127, 127),
        ("flows 1024 divisor 4", None, 127, 4),
        ("limit 131072 flows 65536 depth 200 divisor 65536", Some(131_072), 127, 65_408),
    ] {
        let lane = Lane::new("sfq", given);
        let mut seen = HashMap::new();
        lane.root().qdisc().options(&mut |o| {
            seen.insert(o.param.key, o.value.is_set().then(|| txweir_core::text::value::exact_of(o.value)));
        });
        let text = |n: u32| Some(n.to_string());
        let expected = [limit.map(|l: u32| format!("{l}p")), text(depth), text(flows)];
        assert_eq!(["limit", "depth", "flows"].map(|key| seen[key].clone()), expected, "{given}");
    }
}

#[test]
fn what_is_refused() {
    let refused = |options: &str| {
        let words: Vec<&str> = options.split_whitespace().collect();
        let spec = txweir_core::qdisc::kind("sfq").unwrap();
        spec.build(&mut txweir_core::text::value::Words::new(&words), &txweir_core::Env::default())
            .map(|_| ())
            .unwrap_err()
    };
    for (options, kind, message) in [
        (
            "limit 2 depth 1 flows 1",
            ErrorKind::Conflict,
            "sfq limit: expected depth x flows of at least 2 packets, as the limit must be, given \"1 x 1\"",
        ),
        ("limit 1", ErrorKind::OutOfRange, "sfq limit: expected at least 2 packets, given \"1\""),
        (
            "divisor 3",
            ErrorKind::OutOfRange,
            "sfq divisor: expected a power of two from 1 to 65536, given \"3\"",
        ),
        ("perturb -1", ErrorKind::OutOfRange, "sfq perturb: expected 0 to 2147483 seconds, given \"-1\""),
        (
            "perturb x",
            ErrorKind::BadValue,
            "sfq perturb: expected a whole number of seconds, 0 to 2147483 seconds, given \"x\"",
        ),
        (
            "ecn",
            ErrorKind::Missing,
            "sfq redflowlimit: expected a size, because ecn is of RED, which it turns on, given nothing",
        ),
        (
            "redflowlimit 1000 max 2000",
            ErrorKind::Conflict,
            "sfq max: expected at most redflowlimit, given \"2000b\"",
        ),
        (
            "redflowlimit 9000 min 50 max 50",
            ErrorKind::Conflict,
            "sfq min: expected less than max, given \"50b\"",
        ),
        (
            "redflowlimit 100000 probability 2",
            ErrorKind::OutOfRange,
            "sfq probability: expected at most 1, given \"2\"",
        ),
        (
            "redflowlimit 100000 burst 1",
            ErrorKind::OutOfRange,
            "sfq burst: expected a burst of at least 9 packets, given \"1\"",
        ),
    ] {
        let err = refused(options);
        assert_eq!((err.kind, err.to_string().as_str()), (kind, message), "{options}");
    }
}

#[test]
fn a_change_is_refused_unless_it_changes_nothing() {
    let mut lane = Lane::new("sfq", "limit 50 flows 30");
    lane.change(T0, Handle::ROOT, "").unwrap();
    lane.change(T0, Handle::ROOT, "limit 50").unwrap();
    let err = lane.change(T0, Handle::ROOT, "limit 51").unwrap_err();
    let message = "sfq: expected no change while it runs, given \"another option\" (delete it and add it anew, or replace it \
                   under another handle)";
    assert_eq!(err.to_string(), message);
}

#[test]
fn classes_name_buckets_of_their_own() {
    let mut lane = Lane::new("sfq", "divisor 4");
    let handle = lane.root().handle();
    let named = |minor: u16| Meta::new(1000).priority(Handle::new(handle.major(), minor).0);
    for (id, m) in (0..).zip([named(1), named(4), named(1), named(5), Meta::new(1000)]) {
        assert_eq!(lane.put(T0, id, m), Admitted::Queued);
    }
    let mut seen = Vec::new();
    lane.root()
        .qdisc()
        .flows(&lane.path.cx().pool, &mut |f| seen.push((f.minor, f.backlog.packets, f.values[0])));
    // Class 5 is none of 4: the packet goes by its hash, as the last one did.
    seen.sort_unstable();
    assert_eq!(seen, [(1, 2, ("allot", 1514)), (1, 2, ("allot", 1514)), (4, 1, ("allot", 1514))]);
    assert_eq!(lane.ids(T0, 5), [0, 2, 1, 3, 4]);
}

/// Flows that share a bucket are separated, and each keeps its order.
#[test]
fn perturbation_keeps_each_flow_in_order() {
    let (mut parted, mut lost) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let env = txweir_core::Env { seed, ..txweir_core::Env::default() };
        let mut lane = Lane::on(env, "sfq", "divisor 16 perturb 1 limit 200");
        let hashes: Vec<u32> = (0..40).map(|_| rng.next_u64() as u32).collect();
        let mut of_id = Vec::new();
        let mut last: HashMap<u32, u32> = HashMap::new();
        let mut now = T0;
        for round in 0..60 {
            for _ in 0..rng.below(20) {
                let hash = *pick(&mut rng, &hashes);
                let _ = lane.put(now, of_id.len() as u32, Meta::new(500).hash(hash));
                of_id.push(hash);
            }
            now += Nanos(rng.below(700_000_000));
            let flows = |lane: &Lane| {
                let mut n = 0;
                lane.root().qdisc().flows(&lane.path.cx().pool, &mut |_| n += 1);
                n
            };
            let before = (flows(&lane), lane.backlog());
            for id in lane.ids(now, rng.below(10) as usize) {
                let hash = of_id[id as usize];
                assert!(last.insert(hash, id).is_none_or(|last| last < id), "seed {seed}, round {round}");
            }
            parted += u32::from(flows(&lane) > before.0);
            lost += lane.drops().len();
        }
    }
    assert!(parted > 100 && lost > 10, "{parted} {lost}");
}

#[test]
fn red_drops_or_marks_from_max_on() {
    // An average that moves by a half, and is above 4000 bytes when the sixth packet comes.
    let run = |options: &str, ecn: Ecn| {
        let options = format!("redflowlimit 100000 min 3000 max 4000 avpkt 1000 burst 3 {options}");
        let mut lane = Lane::new("sfq", &options);
        for id in 0..12 {
            let _ = lane.put(T0, id, packet(1, 1000).ecn(ecn));
        }
        let drops: Vec<u32> = lane.drops().iter().map(|(id, _)| *id).collect();
        let counted = ["forced_mark", "forced_mark_head", "forced_drop"].map(|key| lane.counter(key));
        let before = lane.path.tree().root().books().overlimits;
        let ids = lane.ids(T0, 20);
        let marked: Vec<u32> =
            ids.iter().zip(lane.dev.metas()).filter(|(_, m)| m.marked).map(|(id, _)| *id).collect();
        assert_eq!(before, 7, "{options}");
        (drops, marked, counted)
    };
    let last: Vec<u32> = (5..12).collect();
    let first: Vec<u32> = (0..7).collect();
    assert_eq!(run("", Ecn::Ect0), (last.clone(), vec![], [0, 0, 7]));
    assert_eq!(run("ecn", Ecn::Ect0), (vec![], last.clone(), [7, 0, 0]));
    assert_eq!(run("ecn", Ecn::NotEct), (last.clone(), vec![], [0, 0, 7]));
    assert_eq!(run("ecn harddrop", Ecn::Ect0), (last, vec![], [0, 0, 7]));
    assert_eq!(run("headdrop", Ecn::Ect0), (first.clone(), vec![], [0, 0, 7]));
    // The packet at the front is marked for each arrival.
    assert_eq!(run("ecn headdrop", Ecn::Ect0), (vec![], vec![0], [0, 7, 0]));
    assert_eq!(run("ecn headdrop harddrop", Ecn::Ect0), (first, vec![], [0, 0, 7]));
}
