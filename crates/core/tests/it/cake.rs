//! cake: numbers measured in Linux, models written independently of it, and the statements of the
//! manual page. `spec/traces/cake` compares it with the kernel packet by packet.

mod ack_filter;
mod bytes;
mod overflow;
mod tins;

use crate::common::lane::{Lane, Out};
use proptest::prelude::*;
use txweir_core::base::rng::Rng;
use txweir_core::packet::detail::Detail;
use txweir_core::{Admitted, DropReason, Ecn, Env, Handle, Instant, Meta, Nanos, Rate};

const T0: Instant = Instant::ZERO;

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Takes all packets that leave by `end`, and returns the time and id of each.
fn run(lane: &mut Lane, mut now: Instant, end: Instant) -> Vec<(Instant, u32)> {
    let mut sent = Vec::new();
    loop {
        match lane.take(now) {
            Out::Sent(id, _) => sent.push((now, id)),
            Out::Wait(t) if t <= end => now = t,
            Out::Wait(_) | Out::Nothing => return sent,
        }
    }
}

// The law.

/// Linux 6.12: 80 000 packets of 125 bytes at once, `bandwidth 10mbit besteffort flowblind rtt 1s`,
/// one departure each 100 us. The expected numbers are the dropped packets.
#[test]
fn drops_of_a_standing_queue_as_measured() {
    let mut lane = Lane::new("cake", "bandwidth 10mbit besteffort flowblind rtt 1s memlimit 200mb");
    lane.fill(T0, 0, 19_000, Meta::new(125));
    // The kernel's timers fire up to two grains of 256 ns late, so that those packets waited a
    // little longer.
    let (mut sent, mut now) = (Vec::new(), T0);
    loop {
        match lane.take(now) {
            Out::Sent(id, _) => sent.push((now, id)),
            Out::Wait(t) => now = t + Nanos(256),
            Out::Nothing => break,
        }
    }
    let dropped: Vec<u32> = lane.drops().iter().map(|(id, _)| *id).collect();
    assert_eq!(dropped, [501, 7573, 13_347, 18_348]);
    assert_eq!(sent[500], (Instant(50_000_256), 500));
    assert_eq!((sent.len(), dropped.len(), lane.counter("memory_used")), (18_996, 4, 19_000 * 832));
}

#[test]
fn the_last_packet_of_a_queue_is_marked_and_never_dropped() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flowblind rtt 20ms");
        // One packet at a time, each after a second: the law asks for a drop, but each is the last
        // packet.
        for i in 0..20 {
            let now = Instant::from_secs(u64::from(i) + 1);
            lane.fill(now, i, 1, Meta::new(1000).ecn(ecn));
            assert_eq!(lane.take(now + Nanos::from_millis(900)).id(), Some(i));
        }
        assert_eq!(lane.drops(), []);
        assert_eq!(lane.part("Tin 0", "ecn_mark") > 0, ecn == Ecn::Ect0);
    }
}

// The shaper.

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Departures in exact arithmetic: each packet leaves when it has come and the packet before it
    /// has taken its time; unused time is lost.
    #[test]
    fn packets_leave_when_exact_arithmetic_says(
        rate in 8_000u64..1_000_000_000,
        overhead in -30i64..100,
        packets in prop::collection::vec((0u64..30_000_000, 60u32..9000), 1..60),
    ) {
        let options = format!("bandwidth {rate} besteffort flowblind rtt 1000s memlimit 1gb overhead {overhead}");
        let mut lane = Lane::new("cake", &options);
        let rate = u128::from(Rate::from_bits(rate).0);
        let (mut at, mut arrivals, mut sent) = (T0, Vec::new(), Vec::new());
        for (i, (gap, len)) in (0..).zip(&packets) {
            at += Nanos(*gap);
            arrivals.push(at);
            sent.extend(run(&mut lane, sent.last().map_or(T0, |(t, _): &(Instant, u32)| *t), at - Nanos(1)));
            lane.fill(at, i, 1, Meta::new(*len));
            sent.extend(run(&mut lane, at, at));
        }
        sent.extend(run(&mut lane, at, Instant::MAX));
        prop_assert_eq!(sent.len(), packets.len());
        // The time at which the link is free, in units of 1/rate ns.
        let mut free = 0u128;
        for (i, (gone, id)) in sent.iter().enumerate() {
            let (come, len) = (u128::from(arrivals[i].0) * rate, packets[i].1);
            // The link is idle if the queue is empty when a packet comes: the packet before it has
            // left.
            let idle = i == 0 || sent[i - 1].0 <= arrivals[i];
            if idle {
                free = free.max(come);
            }
            let due = free.max(come) / rate;
            // Each packet's time is rounded down to a nanosecond, with a factor of 34 bits.
            let slack = i as u128 + 1 + (due >> 32);
            let gone = u128::from(gone.0);
            prop_assert_eq!(*id as usize, i);
            prop_assert!(gone <= due + 1 && gone + slack >= due, "packet {i}: {gone} against {due}");
            let charged = u128::try_from(i64::from(len) - 14 + overhead).unwrap_or(0);
            free += charged * 1_000_000_000;
        }
    }
}

/// Departures at a few rates in literal nanoseconds, as Linux sent the packets.
#[test]
fn departures_in_numbers() {
    for (options, len, times) in [
        ("bandwidth 1mbit", 1500, [0, 12_000_000, 24_000_000]),
        ("bandwidth 8mbit ethernet", 1514, [0, 1_538_000, 3_076_000]),
        ("bandwidth 8mbit ethernet", 60, [0, 84_000, 168_000]),
        ("bandwidth 1mbit pppoe-vcmux", 1514, [0, 13_568_000, 27_136_000]),
        ("bandwidth 1mbit pppoe-ptm", 1514, [0, 12_432_000, 24_864_000]),
        ("bandwidth 8", 10, [0, 156_250_000, 312_500_000]),
    ] {
        let mut lane = Lane::new("cake", &format!("{options} besteffort flowblind rtt 1000s"));
        lane.fill(T0, 0, 3, Meta::new(len));
        let sent = run(&mut lane, T0, Instant::MAX);
        let gone: Vec<u64> = sent.iter().map(|(t, _)| t.0).collect();
        assert!(gone.iter().zip(times).all(|(a, b)| a.abs_diff(b) <= 2), "{options} {len}: {gone:?}");
    }
}

/// On ingress, drops use up the schedule; the failsafe still lets two thirds of the rate through.
#[test]
fn on_ingress_what_is_dropped_is_charged() {
    for (options, least, most) in [("egress", 95_000, 105_000), ("ingress", 55_000, 75_000)] {
        let options = format!("bandwidth 1mbit besteffort flowblind rtt 10ms {options}");
        let mut lane = Lane::new("cake", &options);
        let mut bytes = 0;
        for i in 0..2000 {
            // The load is three times the rate, and answers no signal.
            let now = Instant::from_micros(u64::from(i) * 2666);
            lane.fill(now, i, 1, Meta::new(1000));
            let sent = run(&mut lane, now, now + Nanos::from_micros(2665));
            bytes += if now > ms(3000) { sent.len() as u64 * 1000 } else { 0 };
        }
        let rate = bytes * 1000 / (2000 * 2666 / 1000 - 3000);
        assert!((least..=most).contains(&(rate * 1000 / 1250)), "{options}: {rate}");
    }
}

// Flows and hosts.

/// Returns the bytes sent for each of `flows` (its hash, source host and destination host), all of
/// them always busy.
fn shares(options: &str, flows: &[(u32, u32, u32)]) -> Vec<u64> {
    let mut lane = Lane::new("cake", options);
    for (i, (hash, src_host, dst_host)) in (0..).zip(flows) {
        let detail = Detail { src_host: *src_host, dst_host: *dst_host, ..Detail::default() };
        for n in 0..1000 {
            let m = Meta::new(300 + (n * 37 + i * 61) % 1200).hash(*hash);
            assert_eq!(lane.put_with(T0, i * 1000 + n, m, &detail), Admitted::Queued);
        }
    }
    let sent = run(&mut lane, T0, ms(1000));
    let mut bytes = vec![0; flows.len()];
    for ((_, id), m) in sent.iter().zip(lane.dev.metas()) {
        bytes[*id as usize / 1000] += u64::from(m.len);
    }
    bytes
}

#[test]
fn hosts_share_before_their_flows_do() {
    // Four flows of host 100 and one of host 200, to five destinations.
    let flows: Vec<(u32, u32, u32)> =
        (0..5).map(|i| (i * 8, if i < 4 { 100 } else { 200 }, 300 + i * 8)).collect();
    let turned: Vec<(u32, u32, u32)> = flows.iter().map(|(h, s, d)| (*h, *d, *s)).collect();
    let all = 1_000_000.0;
    for (mode, flows, single) in [
        ("flows", &flows, all / 5.0),
        ("dual-srchost", &flows, all / 2.0),
        ("dual-dsthost", &flows, all / 5.0),
        ("triple-isolate", &flows, all / 2.0),
        ("triple-isolate", &turned, all / 2.0),
        ("dual-dsthost", &turned, all / 2.0),
        ("srchost", &flows, all / 2.0),
        ("dsthost", &turned, all / 2.0),
        ("hosts", &flows, all / 5.0),
    ] {
        let bytes = shares(&format!("bandwidth 8mbit besteffort {mode} rtt 1000s memlimit 100mb"), flows);
        let got = bytes[4] as f64;
        assert!((got - single).abs() < 0.03 * single, "{mode}: {bytes:?}, {single} was fair");
    }
}

#[test]
fn flowblind_is_a_fifo_and_a_class_overrides_the_flow() {
    let mut lane = Lane::new("cake", "flowblind besteffort");
    for i in 0..20 {
        lane.fill(T0, i, 1, Meta::new(100 + i).hash(i.wrapping_mul(0x1234_5678)));
    }
    assert_eq!(lane.ids(T0, 30), (0..20).collect::<Vec<_>>());
    let mut lane = Lane::new("cake", "besteffort flows");
    let major = lane.root().handle().major();
    for i in 0..3 {
        let mut m = Meta::new(100).hash(i * 0x0101_0101);
        m.class = Handle::new(major, 7);
        lane.fill(T0, i, 1, m);
    }
    let mut minors = Vec::new();
    lane.root()
        .qdisc()
        .flows(&lane.path.cx().pool, &mut |flow| minors.push((flow.minor, flow.backlog.packets)));
    assert_eq!(minors, [(7, 3)], "class 7 is the seventh queue");
}

/// Eight flows of one set have a queue each, the ninth shares one; an empty and forgotten queue
/// makes room.
#[test]
fn a_set_has_eight_ways() {
    let mut lane = Lane::new("cake", "besteffort flows");
    for i in 0..9 {
        lane.fill(T0, i, 1, Meta::new(100).hash(16 + i * 1024));
    }
    let ways = |lane: &Lane| {
        ["way_misses", "way_indirect_hits", "way_collisions"].map(|key| lane.part("Tin 0", key))
    };
    assert_eq!(ways(&lane), [8, 0, 1]);
    lane.fill(T0, 9, 1, Meta::new(100).hash(16 + 3 * 1024));
    assert_eq!(ways(&lane), [8, 1, 1], "found in another way than its own");
}

/// A flow that sends little leaves before flows that have used up their turns.
#[test]
fn a_sparse_flow_goes_first() {
    let mut lane = Lane::new("cake", "bandwidth 8mbit besteffort flows rtt 1000s");
    for i in 0..100 {
        lane.fill(T0, i, 1, Meta::new(1500).hash(i % 4 * 8));
    }
    let sent = run(&mut lane, T0, ms(40));
    let now = sent.last().unwrap().0;
    lane.fill(now, 1000, 1, Meta::new(100).hash(800));
    let Out::Wait(next) = lane.take(now) else { panic!("the link is busy") };
    assert_eq!(lane.take(next).id(), Some(1000));
}

// Washing and cutting.

#[test]
fn wash_clears_the_dscp_after_it_has_chosen_the_tin() {
    for (options, ds, washed) in [("wash", 0b10, true), ("nowash", 46 << 2 | 0b10, false)] {
        let mut lane = Lane::new("cake", &format!("diffserv3 {options}"));
        let mut m = Meta::new(100).ecn(Ecn::Ect0);
        m.ds = 46 << 2 | 0b10;
        lane.fill(T0, 0, 1, m);
        assert_eq!(lane.part("Voice", "sent_packets"), 1);
        let Out::Sent(_, m) = lane.take(T0) else { panic!("it leaves at once") };
        assert_eq!((m.ds, m.washed, m.ecn), (ds, washed, Ecn::Ect0));
    }
}

/// cake-gso-cut
#[test]
fn super_packets_are_cut_before_they_are_queued_or_charged_whole() {
    let unit = Meta::new(54 + 10 * 1448).gso(54, 1448);
    let mut lane = Lane::new("cake", "bandwidth 8mbit besteffort");
    assert_eq!(lane.put(T0, 0, unit), Admitted::Cut(0, 1502));
    let mut lane = Lane::new("cake", "bandwidth 8mbit besteffort no-split-gso ethernet");
    lane.fill(T0, 0, 2, unit);
    // Ten segments, each with 38 bytes more than its network packet of 1488.
    assert_eq!(
        run(&mut lane, T0, Instant::MAX).iter().map(|(t, _)| t.0).collect::<Vec<_>>(),
        [0, 15_260_000]
    );
    assert_eq!((lane.counter("max_network_size"), lane.counter("max_adj_size")), (1488, 1526));
}

#[test]
fn an_overhead_that_is_said_begins_the_sizes_seen_anew() {
    let mut lane = Lane::new("cake", "overhead 4");
    let _ = lane.put(T0, 0, Meta::new(1000));
    for (words, largest) in [("mpu 64", 986), ("rtt 50ms", 986), ("overhead 4", 0)] {
        lane.change(T0, Handle::ROOT, words).unwrap();
        assert_eq!(lane.counter("max_network_size"), largest, "{words}");
    }
}

// Following the arrival rate.

/// A bottleneck of 4 Mbit/s stands in front of a shaper configured for 6: after a while it shapes
/// below 4.
#[test]
fn autorate_settles_a_little_below_what_arrives() {
    let mut lane = Lane::new("cake", "bandwidth 6mbit autorate-ingress besteffort flowblind");
    let (mut now, mut rng) = (ms(1000), Rng::new(5));
    for i in 0..8000 {
        now += Nanos(1_900_000 + rng.below(200_000));
        let _ = lane.put(now, i, Meta::new(1000));
        run(&mut lane, now, now + Nanos(1_900_000));
    }
    let rate = lane.part("Tin 0", "threshold_rate");
    assert!((440_000..500_000).contains(&rate), "{rate} bytes/s of 500 000 that arrive");
}

// Changes.

/// cake-cleared-tins, cake-tin-deficit
#[test]
fn tins_that_go_drop_what_they_hold_and_count_it() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit diffserv4 flows");
    let mut voice = Meta::new(1000);
    voice.ds = 46 << 2;
    lane.fill(T0, 0, 5, voice);
    lane.fill(T0, 100, 5, Meta::new(1000));
    lane.change(ms(1), Handle::ROOT, "besteffort").unwrap();
    let purged = DropReason::Purged;
    assert_eq!(lane.drops(), (0..5).map(|id| (id, purged)).collect::<Vec<_>>());
    assert_eq!((lane.backlog(), lane.root().books().dropped.packets), (5, 5));
    // A debt of turns from before there was a rate does not return: both tins continue at once.
    let mut lane = Lane::new("cake", "bandwidth 1gbit diffserv3 flows rtt 1000s");
    lane.fill(T0, 0, 500, voice);
    run(&mut lane, T0, ms(1000));
    lane.change(ms(1001), Handle::ROOT, "unlimited").unwrap();
    lane.fill(ms(1001), 1000, 2, voice);
    lane.fill(ms(1001), 2000, 20, Meta::new(1000));
    let first: Vec<u32> = lane.ids(ms(1001), 12).into_iter().filter(|id| *id < 2000).collect();
    assert_eq!(first, [1000, 1001]);
}

/// cake-drop-next
#[test]
fn times_of_the_law_are_told_as_of_the_last_call() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flowblind");
    lane.fill(T0, 0, 40, Meta::new(1000));
    run(&mut lane, T0, ms(170));
    let told = |lane: &Lane| {
        let mut next = None;
        lane.root().qdisc().flows(&lane.path.cx().pool, &mut |flow| {
            next = flow.values.iter().find(|(key, _)| *key == "drop_next").map(|(_, n)| *n);
        });
        next.unwrap()
    };
    let before = told(&lane);
    assert!(before < 0, "a signal is to come: {before}");
    assert_eq!(told(&lane), before, "and it is told so whenever one asks");
}

/// cake-range, cake-nat
#[test]
fn what_is_read_and_what_is_refused() {
    let options = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let built = txweir_core::qdisc::kind("cake")
            .unwrap()
            .build(&mut txweir_core::text::value::Words::new(&words), &Env::default());
        built.map_err(|e| e.to_string()).map(|qdisc| {
            let mut all = Vec::new();
            qdisc.options(&mut |o| {
                let text = if o.param.flag {
                    o.word.map(String::from)
                } else {
                    Some(txweir_core::text::value::exact_of(o.value))
                };
                all.extend(text.filter(|_| o.value.is_set()));
            });
            all.join(" ")
        })
    };
    let plain = "diffserv3 triple-isolate nonat nowash egress no-ack-filter split-gso";
    for (words, shown) in [
        ("", format!("unlimited {plain} rtt 100000us raw noatm overhead 0 mpu 0")),
        (
            "nat ethernet ether-vlan",
            format!("unlimited {} rtt 100000us noatm overhead 42 mpu 84", plain.replace("nonat", "nat")),
        ),
        (
            "raw ether-vlan rtt 0 memlimit 0 fwmark 0",
            format!("unlimited {plain} rtt 100000us raw noatm overhead 4 mpu 0"),
        ),
        ("overhead 18 raw lan", format!("unlimited {plain} rtt 1000us raw noatm overhead 0 mpu 0")),
        (
            "conservative ptm fwmark 010",
            format!("unlimited {plain} rtt 100000us ptm overhead 48 mpu 0 fwmark 0x8"),
        ),
        (
            "autorate-ingress bandwidth 8mbit",
            format!("bandwidth 1000000bps {plain} rtt 100000us raw noatm overhead 0 mpu 0"),
        ),
        (
            "bandwidth 8mbit autorate-ingress",
            format!("bandwidth 1000000bps autorate-ingress {plain} rtt 100000us raw noatm overhead 0 mpu 0"),
        ),
        ("interplanetary", format!("unlimited {plain} rtt 1000000000us raw noatm overhead 0 mpu 0")),
    ] {
        assert_eq!(options(words), Ok(shown), "{words}");
    }
    for (words, message) in [
        ("rtt 5000s", "cake rtt: expected at most 4294967295us, given \"5000s\""),
        ("overhead -65", "cake overhead: expected -64 to 256 bytes, given \"-65\""),
        ("mpu 257", "cake mpu: expected 0 to 256 bytes, given \"257\""),
        ("memlimit 5gb", "cake memlimit: expected at most 4294967295 bytes, given \"5gb\""),
    ] {
        assert_eq!(options(words), Err(message.to_string()), "{words}");
    }
}

/// cake-long-interval: Linux computes with 32 bits of nanoseconds, and gives the second signal
/// after 997 ms.
#[test]
fn an_interval_of_more_than_four_seconds_is_kept_whole() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flowblind rtt 10s memlimit 200mb");
    lane.fill(T0, 0, 9000, Meta::new(125));
    run(&mut lane, T0, Instant::from_secs(10));
    let dropped: Vec<u32> = lane.drops().iter().map(|(id, _)| *id).collect();
    // The first after half a second, the second 7.07 s later.
    assert_eq!(dropped, [502, 7574]);
}

/// cake-idle-timer
#[test]
fn an_empty_cake_asks_for_no_wake() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flows");
    lane.fill(T0, 0, 40, Meta::new(1000));
    run(&mut lane, T0, Instant::MAX);
    assert!(!lane.drops().is_empty(), "its law has something to forget");
    assert_eq!((lane.take(Instant::from_secs(1)), lane.backlog()), (Out::Nothing, 0));
}

/// Linux drops when the next packet comes.
#[test]
fn a_smaller_memlimit_drops_at_once() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flowblind memlimit 100kb");
    lane.fill(T0, 0, 10, Meta::new(60));
    lane.change(T0, Handle::ROOT, "memlimit 7000").unwrap();
    let over = DropReason::Overmemory;
    assert_eq!(lane.drops(), [(0, over), (1, over)], "eight of 832 bytes fit");
}
