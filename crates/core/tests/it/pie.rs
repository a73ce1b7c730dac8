//! pie (RFC 8033, tc-pie(8)) as a qdisc; its law is tested with it, and against Linux 6.12 in
//! spec/traces/pie.

use crate::common::lane::{Lane, Out};
use txweir_core::{Admitted, DropReason, Ecn, Handle, Instant, MarkReason, Meta, Nanos};

const fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

/// Returns a lane whose queue has stood for five seconds at one packet of 1000 bytes each 10 ms, so
/// that most packets are dropped now.
fn overloaded(options: &str, ecn: Ecn) -> (Lane, Instant) {
    let mut lane = Lane::new("pie", options);
    let mut now = ms(0);
    for id in 0..3000 {
        let _ = lane.put(now, id, Meta::new(1000).ecn(ecn));
        now += Nanos::from_millis(2);
        if id % 5 == 0 {
            let _ = lane.take(now);
        }
    }
    (lane, now)
}

/// Returns the probability, in percent.
fn percent(lane: &Lane) -> u64 {
    lane.counter("prob") >> 57
}

#[test]
fn an_overload_is_brought_down_to_what_leaves() {
    let (mut lane, now) = overloaded("limit 10000", Ecn::NotEct);
    let law = lane.path.cx().drops(DropReason::Congested);
    assert!(law > 1000 && percent(&lane) > 50, "{law} drops, {} of 128", percent(&lane));
    assert_eq!(
        [lane.counter("dropped"), lane.counter("pkts_in"), lane.counter("overlimit")],
        [law, 3000 - law, 0]
    );
    // The queue drains; then the law is calm, and the next burst passes.
    let mut end = now;
    while let Out::Sent(..) = lane.take(end) {
        end += Nanos::from_millis(1);
    }
    end += Nanos::from_secs(60);
    lane.fill(end, 5000, 200, Meta::new(1000));
    assert_eq!((lane.counter("prob"), lane.backlog()), (0, 200));
}

#[test]
fn the_limit_counts_apart() {
    let mut lane = Lane::new("pie", "limit 3");
    for id in 0..5 {
        let answer = lane.put(ms(1), id, Meta::new(1000));
        assert_eq!(answer, if id < 3 { Admitted::Queued } else { Admitted::Dropped(DropReason::Overlimit) });
    }
    let counters = ["pkts_in", "overlimit", "dropped", "maxq", "ecn_mark"].map(|key| lane.counter(key));
    assert_eq!(counters, [3, 2, 2, 2, 0]);
    lane.change(ms(2), Handle::ROOT, "limit 1").unwrap();
    assert_eq!(lane.drops()[2..], [0, 1].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.ids(ms(3), 3), [2]);
}

#[test]
fn up_to_ten_percent_marks_do_instead_of_drops() {
    // A twentieth more than the link can send.
    let run = |ecn| {
        let mut lane = Lane::new("pie", "limit 10000 ecn");
        for i in 0..10_000_u32 {
            let now = Instant(u64::from(i) * 950_000);
            let _ = lane.put(now, i, Meta::new(1000).ecn(ecn));
            if i % 20 != 0 {
                let _ = lane.take(now);
            }
        }
        let cx = lane.path.cx();
        assert_eq!(lane.counter("ecn_mark"), cx.marks(MarkReason::Congested));
        (cx.marks(MarkReason::Congested), cx.drops(DropReason::Congested))
    };
    let (marks, drops) = run(Ecn::Ect0);
    assert!(
        marks > 50 && drops > 100,
        "{marks} {drops}: beyond ten percent packets are dropped, as no sender slows down"
    );
    let (marks, drops) = run(Ecn::NotEct);
    assert!(marks == 0 && (300..600).contains(&drops), "{marks} {drops}");
}

/// RFC 8033 section 4.2: a probability is at most one. Linux lets it grow on, and shows it
/// truncated to 64 bits.
#[test]
fn a_probability_is_at_most_one() {
    let mut lane = Lane::new("pie", "limit 10000");
    lane.fill(ms(0), 0, 3000, Meta::new(1000));
    let mut highest = 0;
    for i in 0..300 {
        let _ = lane.take(ms(20 * i));
        assert!(lane.counter("prob") >= highest);
        highest = lane.counter("prob");
    }
    assert_eq!(highest, u64::MAX - 255);
    // Without a call in between, the result is the same.
    let mut rare = Lane::new("pie", "limit 10000");
    rare.fill(ms(0), 0, 3000, Meta::new(1000));
    let _ = rare.take(ms(500));
    let _ = rare.take(ms(6000));
    assert_eq!(rare.counter("prob"), highest);
}

/// The kernel's timers: the first update in a slot of 8 ms above half a second, then each 15 ms and
/// one.
#[test]
fn updates_come_as_timers_of_a_thousand_ticks_a_second() {
    let mut lane = Lane::new("pie", "");
    lane.fill(ms(0), 0, 900, Meta::new(1000));
    let mut seen = Vec::new();
    let mut last = 0;
    for t in 0..600 {
        let _ = lane.take(ms(t));
        let prob = lane.counter("prob");
        if std::mem::replace(&mut last, prob) != prob {
            seen.push(t);
        }
    }
    assert_eq!(seen, [504, 520, 536, 552, 568, 584]);
}

#[test]
fn a_time_between_updates_is_whole_ticks() {
    let mut lane = Lane::new("pie", "tupdate 1500us");
    let shown = |lane: &Lane| {
        let mut text = String::new();
        lane.root().qdisc().options(&mut |o| {
            if ["target", "tupdate"].contains(&o.param.key) {
                text.push_str(&txweir_core::text::value::exact_of(o.value));
                text.push(' ');
            }
        });
        text
    };
    assert_eq!(shown(&lane), "15000000ns 2000000ns ");
    // A target is in ticks of 64 ns.
    lane.change(ms(1), Handle::ROOT, "target 12345us").unwrap();
    assert_eq!(shown(&lane), "12344960ns 2000000ns ");
    for (options, message) in [
        ("tupdate 0", "pie tupdate: expected 1us to 4294s, given \"0\""),
        ("target 5s", "pie target: expected at most 4294967us, given \"5s\""),
        ("alpha 33", "pie alpha: expected 0 to 32, given \"33\""),
    ] {
        assert_eq!(lane.change(ms(1), Handle::ROOT, options).unwrap_err().to_string(), message);
    }
}

#[test]
fn what_is_shown_is_as_of_the_last_packet() {
    let (mut lane, now) = overloaded("limit 10000", Ecn::NotEct);
    let before = lane.counter("prob");
    while let Out::Sent(..) = lane.take(now) {}
    assert_eq!(lane.counter("prob"), before);
    // An hour later it is unchanged; the next packet finds a law that is calm.
    lane.fill(now + Nanos::from_secs(3600), 9000, 1, Meta::new(1000));
    assert_eq!(lane.counter("prob"), 0);
}

/// Below a shaper that has peeked at the next packet.
#[test]
fn a_smaller_limit_drops_first_the_packet_that_a_peek_holds() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(ms(0), class, "pie", "limit 5");
    for id in 0..7 {
        let _ = lane.put(ms(1), id, Meta::new(1000));
        // The first packet leaves at once; then the shaper waits and holds the next one.
        let _ = lane.take(ms(1));
    }
    // The peeked packet counts towards the limit.
    assert_eq!(lane.drops(), [(6, DropReason::Overlimit)]);
    lane.change(ms(1), class, "limit 2").unwrap();
    assert_eq!(lane.drops(), [1, 2, 3].map(|id| (id, DropReason::Purged)));
    assert_eq!([2, 3].map(|t| lane.take(ms(t)).id()), [Some(4), Some(5)]);
}
