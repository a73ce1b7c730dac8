//! dualpi2 (RFC 9332, tc-dualpi2(8)) as a qdisc, against literal expectations; `dualpi2_model`
//! compares it with the pseudocode.

use crate::common::lane::{Lane, Out};
use txweir_core::model::testing::VecDevice;
use txweir_core::text::value::exact_of;
use txweir_core::{
    Admitted, DropReason, Ecn, Env, Handle, Instant, MarkReason, Meta, Nanos, PathConfig, Role, TxPath,
};

const fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

const fn us(n: u64) -> Instant {
    Instant(n * 1000)
}

/// Returns a packet of 1000 bytes with this ECN field.
fn packet(ecn: Ecn) -> Meta {
    Meta::new(1000).ecn(ecn)
}

/// Returns the priority by which a packet names a class.
fn named(lane: &Lane, minor: u16) -> u32 {
    Handle::new(lane.root().handle().major(), minor).0
}

fn counters<const N: usize>(lane: &Lane, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| lane.counter(key))
}

/// Returns the ids sent, each with true if it left as CE.
fn sent(lane: &mut Lane, now: Instant, n: usize) -> Vec<(u32, bool)> {
    let one = |_| match lane.take(now) {
        Out::Sent(id, m) => Some((id, m.ecn == Ecn::Ce)),
        _ => None,
    };
    (0..n).map_while(one).collect()
}

#[test]
fn ecn_fields_and_classes_choose_the_queue() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    for (options, low) in [("", [Ect1, Ce].as_slice()), ("any_ect", &[Ect0, Ect1, Ce])] {
        for ecn in [NotEct, Ect0, Ect1, Ce] {
            for class in 0..4 {
                let mut lane = Lane::new("dualpi2", options);
                let priority = named(&lane, class);
                let _ = lane.put(ms(1), 0, packet(ecn).priority(priority));
                let is_low = low.contains(&ecn) || [1, 2].contains(&class);
                let expected = [u64::from(!is_low), u64::from(is_low)];
                assert_eq!(
                    counters(&lane, ["pkts_in_c", "pkts_in_l"]),
                    expected,
                    "{options} {ecn:?} class {class}"
                );
            }
        }
    }
}

/// By hand: the credit begins at 1514 * (10 - 90) = -121 120, and each packet of 1000 bytes of the
/// low-latency queue adds 10 000; the 13th brings it above zero. One Classic packet takes 90 000,
/// so it is one in ten from then on.
#[test]
fn the_classic_queue_has_a_tenth_while_both_have_packets() {
    let mut lane = Lane::new("dualpi2", "");
    lane.fill(ms(1), 0, 100, packet(Ecn::Ect1));
    lane.fill(ms(1), 100, 100, packet(Ecn::NotEct));
    assert_eq!(counters(&lane, ["credit_c", "credit_l"]), [0, 121_120]);
    let order = lane.ids(ms(1), 60);
    let classic: Vec<usize> = (0..60).filter(|i| order[*i] >= 100).collect();
    assert_eq!(classic, [13, 23, 33, 43, 53]);
    // After 13, ten more for each hundred: -121 120 + 55 * 10 000 - 5 * 90 000.
    assert_eq!(counters(&lane, ["credit_c", "credit_l"]), [0, 21_120]);
    // Each queue is in order; packets that leave while the other queue is empty change no credit.
    let mut rest = lane.ids(ms(1), 200);
    rest.retain(|id| *id >= 100);
    assert!(rest.is_sorted() && rest.len() == 95);
    // When idle, the credit begins anew.
    assert_eq!(lane.take(ms(1)), Out::Nothing);
    assert_eq!(counters(&lane, ["credit_c", "credit_l"]), [0, 121_120]);
}

/// The threshold is 1 ms, to the nanosecond.
#[test]
fn the_step_marks_what_has_waited_longer() {
    for (wait, marked) in [(1_000_000, false), (1_000_001, true)] {
        let mut lane = Lane::new("dualpi2", "");
        lane.fill(ms(1), 0, 1, packet(Ecn::Ect1));
        assert_eq!(sent(&mut lane, ms(1) + Nanos(wait), 1), [(0, marked)]);
        let cx = lane.path.cx();
        assert_eq!(counters(&lane, ["step_marks", "ecn_mark"]), [u64::from(marked); 2]);
        assert_eq!(cx.marks(MarkReason::CeThreshold), u64::from(marked));
    }
}

#[test]
fn the_step_may_be_in_packets_and_want_a_queue() {
    // More than two packets wait behind a marked one.
    let mut lane = Lane::new("dualpi2", "step_thresh 2p");
    lane.fill(ms(1), 0, 6, packet(Ecn::Ect1));
    let marked = [true, true, true, false, false, false];
    assert_eq!(sent(&mut lane, ms(1), 6), (0..).zip(marked).collect::<Vec<_>>());
    // The first two packets find a queue that is too short.
    let mut lane = Lane::new("dualpi2", "min_qlen_step 2");
    lane.fill(ms(1), 0, 4, packet(Ecn::Ect1));
    assert_eq!(sent(&mut lane, ms(3), 4), (0..).zip([false, false, true, true]).collect::<Vec<_>>());
}

/// As in Linux: a class may put a packet there that cannot be marked.
#[test]
fn the_step_drops_what_cannot_be_marked_unless_it_is_spared() {
    let mut lane = Lane::new("dualpi2", "");
    for (id, class) in [(0, 1), (1, 2), (2, 1)] {
        let priority = named(&lane, class);
        let _ = lane.put(ms(1), id, packet(Ecn::NotEct).priority(priority));
    }
    assert_eq!(lane.ids(ms(10), 3), [1]);
    assert_eq!(lane.drops(), [(0, DropReason::Congested), (2, DropReason::Congested)]);
    // The threshold does not apply to Classic packets.
    lane.fill(ms(10), 3, 1, packet(Ecn::Ect0));
    assert_eq!(sent(&mut lane, ms(20), 1), [(3, false)]);
}

/// Returns a queue that has stood for so long that the base probability is one.
fn overloaded(options: &str, ecn: Ecn) -> Lane {
    let mut lane = Lane::new("dualpi2", &format!("limit 20000 {options}"));
    lane.fill(ms(0), 0, 2000, packet(ecn));
    // Any arrival or departure catches up on the updates.
    let _ = lane.put(ms(5000), 2000, packet(ecn));
    lane
}

#[test]
fn overload_drops_in_both_queues_until_less_than_two_frames_wait() {
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let mut lane = overloaded("", ecn);
        assert_eq!(lane.counter("prob"), u64::from(u32::MAX), "{ecn:?}");
        // Every packet is dropped until one leaves less than two full frames, 3028 bytes, behind.
        let left: Vec<u32> = lane.ids(ms(5000), 3000);
        assert_eq!(left, [1997, 1998, 1999, 2000], "{ecn:?}");
        assert_eq!(lane.path.cx().drops(DropReason::Congested), 1997);
    }
}

#[test]
fn overflow_marks_and_lets_the_queue_grow() {
    for (ecn, ids) in [(Ecn::Ect0, 2001), (Ecn::Ect1, 2001)] {
        let mut lane = overloaded("overflow", ecn);
        // The coupled probability is one here.
        assert_eq!(lane.counter("prob"), u64::from(u32::MAX / 2));
        assert_eq!(lane.ids(ms(5000), 3000).len(), ids);
        assert_eq!(lane.path.cx().drops(DropReason::Congested), 0);
    }
    // A quarter of the Classic packets that cannot be marked is dropped: p'^2 at p' = 1/2.
    let mut lane = overloaded("overflow", Ecn::NotEct);
    let left = lane.ids(ms(5000), 3000).len();
    assert!((1420..1580).contains(&left), "{left}");
}

#[test]
fn the_probability_may_decide_as_packets_come() {
    let mut lane = overloaded("drop_enqueue", Ecn::NotEct);
    // That packet came at a probability of one, and no packet leaves for it.
    assert_eq!(lane.drops(), [(2000, DropReason::Congested)]);
    assert_eq!(lane.ids(ms(5000), 3000).len(), 2000);
    // The step always applies to departures. An idle law comes down to zero.
    let mut lane = Lane::new("dualpi2", "drop_enqueue");
    lane.fill(ms(0), 0, 2, packet(Ecn::Ect1));
    assert_eq!(sent(&mut lane, ms(5), 2), [(0, true), (1, true)]);
}

/// The target is 15 ms of standing delay: from there on the law only follows the trend. A law that
/// is not called catches up later.
#[test]
fn updates_come_each_tupdate_from_the_start_asked_or_not() {
    // The probability changes at multiples of 16 ms, by the head's age at that time: 16 ms and 1 of
    // 879 * 16e6 / 64 + 44 * 1e6 / 64.
    let mut lane = Lane::new("dualpi2", "");
    lane.fill(ms(0), 0, 900, packet(Ecn::NotEct));
    let mut probs = Vec::new();
    for t in 1..=33 {
        lane.fill(ms(t), 900 + t as u32, 1, packet(Ecn::NotEct));
        probs.push(lane.counter("prob"));
    }
    let first = (879 * 16_000_000 + 44 * 1_000_000) / 64;
    let second = first + (879 * 16_000_000 + 44 * 17_000_000) / 64;
    let expected = [vec![0; 15], vec![first; 16], vec![second; 2]].concat();
    assert_eq!(probs, expected);
    // The same load, without a call in between.
    let mut rare = Lane::new("dualpi2", "");
    rare.fill(ms(0), 0, 900, packet(Ecn::NotEct));
    let _ = rare.put(ms(33), 1, packet(Ecn::NotEct));
    assert_eq!(rare.counter("prob"), second);
    // The shown values are those of the last packet.
    assert_eq!(counters(&rare, ["delay_c", "delay_l"]), [33_000, 0]);
}

/// A long time with twice the load of the link: p'^2 lets pass what the link can send, and the
/// queue is held near its target.
#[test]
fn an_overload_of_unresponsive_packets_is_brought_down_to_what_leaves() {
    for ecn in [Ecn::NotEct, Ecn::Ect1] {
        let mut lane = Lane::new("dualpi2", "");
        let mut waits = Vec::new();
        for i in 0..40_000u32 {
            let now = us(u64::from(i) * 500);
            let _ = lane.put(now, i, packet(ecn));
            if i % 2 == 0
                && let Out::Sent(_, m) = lane.take(now)
                && i > 20_000
            {
                waits.push(now.saturating_since(m.enqueued).as_micros());
            }
        }
        let mean = waits.iter().sum::<u64>() / waits.len() as u64;
        assert!((13_000..17_000).contains(&mean), "{ecn:?}: {mean} us");
        // p'^2 = 1/2, in parts of 2^32: 0.7071.
        let prob = lane.counter("prob") as f64 / f64::from(u32::MAX);
        assert!((0.67..0.75).contains(&prob), "{ecn:?}: {prob}");
    }
}

/// A base probability that is set once and stays: the low-latency queue is marked with twice that
/// probability, and the Classic queue drops with its square (RFC 9332 equation 1).
#[test]
fn the_two_queues_are_coupled_by_the_square() {
    let mut lane = Lane::new(
        "dualpi2",
        "limit 100000 classic_protection 50 step_thresh 4000s tupdate 1s alpha 0.00390625 beta 0.3",
    );
    lane.fill(ms(0), 0, 20_000, packet(Ecn::Ect1));
    lane.fill(ms(0), 20_000, 20_000, packet(Ecn::NotEct));
    lane.change(ms(500), Handle::ROOT, "tupdate 4000s").unwrap();
    // The only update finds a delay of a second: 81 and 1 parts per 64 ns, of the rise and of the
    // excess over the target.
    let sent = sent(&mut lane, ms(1000), 40_000);
    let prob = (81 * 1_000_000_000u64 + 985_000_000) / 64;
    assert_eq!(lane.counter("prob"), prob);
    let p = prob as f64 / f64::from(u32::MAX);
    let marks = sent.iter().filter(|(_, marked)| *marked).count() as f64 / 20_000.0;
    let drops = lane.path.cx().drops(DropReason::Congested) as f64 / 20_000.0;
    assert!((marks - 2.0 * p).abs() < 0.01 && (drops - p * p).abs() < 0.006, "{p}: {marks} {drops}");
}

#[test]
fn the_limit_and_the_memory_are_common() {
    let mut lane = Lane::new("dualpi2", "limit 3");
    for id in 0..5 {
        let answer = lane.put(ms(1), id, packet([Ecn::Ect1, Ecn::NotEct][id as usize % 2]));
        assert_eq!(answer, if id < 3 { Admitted::Queued } else { Admitted::Dropped(DropReason::Overlimit) });
    }
    assert_eq!(counters(&lane, ["pkts_in_c", "pkts_in_l", "maxq"]), [1, 2, 2]);
    assert_eq!(lane.root().books().overlimits, 2);
    lane.change(ms(2), Handle::ROOT, "limit 1").unwrap();
    // The Classic queue is emptied first.
    assert_eq!(lane.drops()[2..], [1, 0].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.ids(ms(2), 3), [2]);

    // A frame of 1000 bytes takes 1408 + 256 = 1664 or more of a buffer, as Linux counts; three fit
    // 6 kB, four do not.
    let mut lane = Lane::new("dualpi2", "memlimit 6000");
    for id in 0..5 {
        let _ = lane.put(ms(1), id, packet(Ecn::NotEct));
    }
    let [used, most, limit] = counters(&lane, ["memory_used", "max_memory_used", "memory_limit"]);
    let waiting = lane.backlog();
    assert_eq!((used % waiting, most, limit), (0, used, 6000));
    assert!(used <= 6000 && used + used / waiting > 6000, "{used} of {waiting}");
    assert_eq!(lane.ids(ms(1), 9).len() as u64, waiting);
    assert_eq!(counters(&lane, ["memory_used", "max_memory_used"]), [0, used]);
}

/// As a forwarder's path is told: the packet is to be cut, unless the options keep it whole.
#[test]
fn super_packets_are_cut_before_they_are_queued() {
    let config = || PathConfig { env: Env::default(), pool: 100, role: Role::Forwarder, bql: None, trace: 0 };
    let unit = Meta::new(66 + 4 * 1448).gso(66, 1448).ecn(Ecn::Ect1);
    let offer = |options: &[&str]| {
        let mut path = TxPath::new(config()).unwrap().with_qdisc("dualpi2", options).unwrap();
        let mut dev = VecDevice::with_slots(0);
        let answer = path.submit(ms(1), 7u32, unit, &mut dev);
        (answer, path.backlog().packets)
    };
    assert_eq!(offer(&[]), (Admitted::Cut(7, 1514), 0));
    assert_eq!(offer(&["no_split_gso"]), (Admitted::Queued, 1));
    // A packet without room has to wait, cut or not; here no sender can wait.
    assert_eq!(offer(&["limit", "0"]), (Admitted::Dropped(DropReason::Overlimit), 0));
}

fn options(lane: &Lane, keys: &[&str]) -> String {
    let mut text = String::new();
    lane.root().qdisc().options(&mut |o| {
        if keys.contains(&o.param.key) && o.value.is_set() {
            text.push_str(&format!("{} {} ", o.param.key, exact_of(o.value)));
        }
    });
    text.trim_end().into()
}

/// The values that tc 7.3 passes to the kernel for these words, in 256ths of a Hz and microseconds.
#[test]
fn round_trips_set_the_law_as_tc_does() {
    for (words, target, tupdate, alpha, beta) in [
        ("max_rtt 100ms", 16_666, 16_666, 42, 768),
        ("typical_rtt 15ms", 15_000, 15_000, 47, 853),
        ("max_rtt 100ms typical_rtt 15ms", 15_000, 15_000, 38, 768),
        ("typical_rtt 20ms max_rtt 200ms", 20_000, 20_000, 12, 384),
        ("target 7ms alpha 1 typical_rtt 20ms max_rtt 200ms", 20_000, 20_000, 12, 384),
        ("max_rtt 1ms", 166, 166, 4249, 76_800),
        ("max_rtt 1us", 1, 1, 25_600_000, 76_800_003),
        ("typical_rtt 33ms max_rtt 90ms", 33_000, 30_000, 94, 853),
        ("max_rtt 37ms", 6_166, 6_166, 115, 2075),
    ] {
        let lane = Lane::new("dualpi2", words);
        let gain = |n: u32| exact_of(&txweir_core::law::pi2::Gain(n));
        let expected = format!(
            "target {}ns tupdate {}ns alpha {} beta {}",
            target * 1000,
            tupdate * 1000,
            gain(alpha),
            gain(beta)
        );
        assert_eq!(
            options(&lane, &["target", "tupdate", "alpha", "beta", "max_rtt", "typical_rtt"]),
            expected
        );
    }
}

#[test]
fn what_is_read_and_what_is_refused() {
    let mut lane = Lane::new("dualpi2", "");
    for (given, expected) in [
        ("3p", "3p"),
        ("3packets", "3p"),
        ("3pkt", "3p"),
        ("3packet", "3p"),
        ("5", "5000ns"),
        ("2ms", "2000000ns"),
    ] {
        lane.change(ms(1), Handle::ROOT, &format!("step_thresh {given}")).unwrap();
        assert_eq!(options(&lane, &["step_thresh"]), format!("step_thresh {expected}"));
    }
    for (options, message) in [
        ("limit x", "dualpi2 limit: expected a number of packets, given \"x\""),
        ("classic_protection 101", "dualpi2 classic_protection: expected 0% to 100%, given \"101\""),
        (
            "classic_protection 10.5",
            "dualpi2 classic_protection: expected a whole percentage (10, 10%), 0% to 100%, given \"10.5\"",
        ),
        ("coupling_factor 0", "dualpi2 coupling_factor: expected 1 to 255, given \"0\""),
        ("coupling_factor 256", "dualpi2 coupling_factor: expected 1 to 255, given \"256\""),
        ("tupdate 0", "dualpi2 tupdate: expected 1us to 4294967295us, given \"0\""),
        ("target 5000s", "dualpi2 target: expected at most 4294967295us, given \"5000s\""),
        ("alpha 0", "dualpi2 alpha: expected at least 0.00390625, below 8388608, given \"0\""),
        (
            "typical_rtt 50ms max_rtt 20ms",
            "dualpi2 typical_rtt: expected at most max_rtt, 20000us, given \"50000us\"",
        ),
        (
            "max_rtt 4000s",
            "dualpi2 max_rtt: expected a time for which alpha and beta are at least 1/256, given \"4000000000us\"",
        ),
        ("max_rtt 0", "dualpi2 max_rtt: expected 1us to 4294967295us, given \"0\""),
    ] {
        assert_eq!(lane.change(ms(1), Handle::ROOT, options).unwrap_err().to_string(), message);
    }
}

/// As in Linux: a limit sets the memory with it, two full frames for each packet.
#[test]
fn a_limit_brings_its_memory_with_it() {
    let mut lane = Lane::new("dualpi2", "");
    let memory = |lane: &Lane| lane.counter("memory_limit");
    assert_eq!(memory(&lane), 10_000 * 2 * 1514);
    for (change, expected) in [
        ("limit 100", 100 * 2 * 1514),
        ("memlimit 5000000", 5_000_000),
        ("target 20ms", 5_000_000),
        ("limit 50", 50 * 2 * 1514),
        ("limit 60 memlimit 7000", 7000),
        ("limit 4000000000", u64::from(u32::MAX)),
    ] {
        lane.change(ms(1), Handle::ROOT, change).unwrap();
        assert_eq!(memory(&lane), expected, "{change}");
    }
}

/// Below a shaper that has peeked at the next packet: the packet that the shaper holds counts, and
/// is the first to be dropped.
#[test]
fn a_smaller_limit_counts_the_packet_that_a_peek_holds() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(ms(0), class, "dualpi2", "limit 5");
    for id in 0..7 {
        let _ = lane.put(ms(1), id, packet(Ecn::NotEct));
        // The first packet leaves at once; then the shaper waits and holds the next one.
        let _ = lane.take(ms(1));
    }
    assert_eq!(lane.drops(), [(6, DropReason::Overlimit)]);
    lane.change(ms(1), class, "limit 2").unwrap();
    assert_eq!(lane.drops(), [1, 2, 3].map(|id| (id, DropReason::Purged)));
    assert_eq!([2, 3].map(|t| lane.take(ms(t)).id()), [Some(4), Some(5)]);
}
