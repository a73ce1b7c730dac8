//! The profile of RFC 6675: losses by number, a window that is halved at once, and an
//! acknowledgement for every n-th segment.

use txweir_core::{Instant, Nanos};
use txweir_transport::{Acks, Config, Connection, Flags, Segment, State};

use crate::common::{Net, Wire};

/// Returns a configuration of both ends with buffers that limit nothing here.
fn config() -> Config {
    let buffer = 4 << 20;
    Config {
        send_buffer: buffer / 2,
        receive_buffer: buffer,
        receive_buffer_max: buffer,
        ..Config::rfc6675()
    }
}

/// Returns a pair that is established at time 0, without a wire.
fn pair(config: &Config) -> [Connection; 2] {
    let mut ends = [Connection::connect(config), Connection::listen(config)];
    let now = Instant::ZERO;
    for from in [0, 1, 0] {
        while let Some(seg) = ends[from].transmit(now) {
            ends[1 - from].receive(now, &seg);
        }
    }
    assert_eq!([ends[0].state(), ends[1].state()], [State::Established; 2]);
    ends
}

fn all(end: &mut Connection, now: Instant) -> Vec<Segment> {
    std::iter::from_fn(|| end.transmit(now)).collect()
}

#[test]
fn the_first_window_is_three_segments_and_each_second_one_is_acknowledged() {
    let [mut a, mut b] = pair(&Config::rfc6675());
    let mut now = Instant::from_millis(10);
    assert_eq!(a.write(now, u64::MAX), 32_768);
    let sent = all(&mut a, now);
    assert_eq!(sent.iter().map(|s| s.len).collect::<Vec<_>>(), [1_448; 3]);
    let mut answers = Vec::new();
    for seg in &sent {
        b.receive(now, seg);
        b.read(now, u64::MAX);
        answers.extend(all(&mut b, now).iter().map(|s| s.ack));
    }
    assert_eq!(answers, [1 + 2 * 1_448]);
    // The third waits for a fourth: 100 ms, and the rounding by the tick and the slots of its
    // wheel.
    let at = b.deadline().unwrap();
    let waits = at.saturating_since(now);
    assert!((Nanos::from_millis(100)..=Nanos::from_millis(110)).contains(&waits), "{waits:?}");
    now = at;
    b.on_time(now);
    assert_eq!(all(&mut b, now).iter().map(|s| s.ack).collect::<Vec<_>>(), [1 + 3 * 1_448]);
}

#[test]
fn as_many_segments_are_acknowledged_at_a_time_as_are_asked_for() {
    for every in [0, 1, 2, 4, 7] {
        let c = Config { acks: Acks::Every(every), initial_window: 28, ..Config::rfc6675() };
        let [mut a, mut b] = pair(&c);
        let now = Instant::from_millis(10);
        a.write(now, 28 * 1_448);
        let mut acks = 0;
        for seg in all(&mut a, now).iter().take(21) {
            b.receive(now, seg);
            b.read(now, u64::MAX);
            acks += all(&mut b, now).len();
        }
        assert_eq!(acks, 21 / usize::from(every.max(1)), "{every}");
    }
}

/// Three segments beyond a hole, not two, show a loss (RFC 6675 section 4); the window becomes half
/// of the segments on their way, once.
#[test]
fn three_segments_beyond_tell_of_a_loss_and_the_window_is_halved_at_once() {
    let c = Config { initial_window: 16, acks: Acks::Every(1), ..config() };
    let [mut a, mut b] = pair(&c);
    let now = Instant::from_millis(10);
    a.write(now, u64::MAX);
    let sent = all(&mut a, now);
    assert_eq!(sent.len(), 16);
    let answers: Vec<_> = [1, 2, 3, 6, 7, 8, 9]
        .map(|i: usize| {
            b.receive(now, &sent[i]);
            all(&mut b, now)[0]
        })
        .into();
    let now = Instant::from_millis(20);
    for ack in &answers[..2] {
        a.receive(now, ack);
        let more = all(&mut a, now);
        // Limited transmit (RFC 3042): a new segment for each that has arrived.
        assert!(more.iter().all(|s| !s.again) && more.len() == 1, "{more:?}");
    }
    assert_eq!((a.flow().lost, a.flow().cwnd), (0, 16));
    a.receive(now, &answers[2]);
    // 18 are on their way.
    assert_eq!((a.flow().lost, a.flow().ssthresh, a.flow().cwnd), (1, 9, 9));
    assert_eq!(all(&mut a, now), [], "more is in flight than the window");
    for ack in &answers[3..] {
        a.receive(now, ack);
    }
    // Segment 6 is the fourth from the top, 7 the third: 4 and 5 are lost as well.
    assert_eq!((a.flow().lost, a.flow().cwnd, a.counters().recoveries), (3, 9, 1));
    // Of 18 on their way 7 have arrived and 3 are lost.
    let again: Vec<_> = all(&mut a, now).iter().map(|s| (s.seq, s.again)).collect();
    assert_eq!(again, [(1, true)]);
}

/// There is no loss probe: the last segment of a burst waits for the timeout, and the window is one
/// segment then.
#[test]
fn the_last_segment_waits_for_the_timeout() {
    let [mut a, _] = pair(&config());
    let mut now = Instant::from_millis(10);
    a.write(now, 1_448);
    assert_eq!(all(&mut a, now).len(), 1);
    let at = a.deadline().unwrap();
    assert!(at.saturating_since(now) >= Nanos::from_millis(200), "{at:?}");
    now = at;
    a.on_time(now);
    let again = all(&mut a, now);
    assert!(again.len() == 1 && again[0].again);
    assert_eq!((a.flow().cwnd, a.flow().ssthresh, a.counters().probes), (1, 2, 0));
}

#[test]
fn a_syn_waits_three_seconds() {
    let mut a = Connection::connect(Config::rfc6675());
    assert!(a.transmit(Instant::ZERO).is_some_and(|s| s.flags.has(Flags::SYN)));
    let at = a.deadline().unwrap();
    assert!((Instant::from_millis(3_000)..Instant::from_millis(3_300)).contains(&at), "{at:?}");
}

/// All data arrives, whatever is lost on the way, and `has_data` foretells `transmit`.
#[test]
fn everything_arrives_and_what_is_foretold_is_sent() {
    for (seed, gso_max) in (0..40_u64).map(|seed| (seed, if seed % 2 == 0 { 0 } else { 6_000 })) {
        // A tenth of the data is lost, and a fiftieth of the answers.
        let lost = |i: u64, data: bool| {
            let drawn = i.wrapping_add(seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
            drawn < if data { 102 } else { 20 }
        };
        let c = Config { gso_max, ..config() };
        let mut ends = pair(&c);
        let (mut now, mut number, mut arrived) = (Instant::from_millis(1), 0, 0);
        let mut to_write = 700_000;
        let mut wire: Vec<(usize, Segment)> = Vec::new();
        while arrived < 700_000 {
            for (to, seg) in std::mem::take(&mut wire) {
                ends[to].receive(now, &seg);
            }
            to_write -= ends[0].write(now, to_write);
            arrived += ends[1].read(now, u64::MAX);
            for from in [0, 1] {
                ends[from].on_time(now);
                loop {
                    let foretold = ends[from].has_data();
                    let Some(seg) = ends[from].transmit(now) else {
                        assert!(!foretold, "seed {seed}: nothing left at {now:?}");
                        break;
                    };
                    assert_eq!(foretold, seg.len > 0, "seed {seed}: {seg:?}");
                    for part in (0..).map_while(|i| seg.part(i)) {
                        number += 1;
                        if !lost(number, part.len > 0) {
                            wire.push((1 - from, part));
                        }
                    }
                }
            }
            now += Nanos::from_millis(5);
            assert!(now < Instant::from_secs(300), "seed {seed}: {arrived} of 700000 after 300 s");
        }
        assert!(ends[0].counters().recoveries > 0 && ends[0].counters().probes == 0, "seed {seed}");
    }
}

/// The window begins anew, nothing is sent again, and the threshold stays (RFC 1122 section
/// 4.2.3.9).
#[test]
fn a_full_queue_of_its_own_makes_a_sender_begin_anew() {
    let c = Config { initial_window: 4, acks: Acks::Every(1), ..config() };
    let [mut a, mut b] = pair(&c);
    let now = Instant::from_millis(10);
    a.write(now, u64::MAX);
    let sent = all(&mut a, now);
    assert_eq!(sent.len(), 4);
    let before = (a.flow().ssthresh, a.deadline());
    a.below().quench(now);
    assert_eq!((a.flow().ssthresh, a.deadline(), a.flow().cwnd), (before.0, before.1, 1));
    let now = Instant::from_millis(20);
    let mut more = Vec::new();
    for seg in &sent {
        b.receive(now, seg);
        b.read(now, u64::MAX);
        let ack = all(&mut b, now)[0];
        a.receive(now, &ack);
        more.push(all(&mut a, now).len());
    }
    // The window grows by a segment with each acknowledgement: 2, 3, 4, 5. Of the old segments 3,
    // 2, 1, 0 are in flight.
    assert_eq!(more, [0, 1, 2, 2]);
    assert_eq!((a.counters().retransmitted, a.flow().ssthresh), (0, before.0));
}

/// If nothing is in flight, the timer wakes the sender, and counts as a timeout (4.4BSD).
#[test]
fn a_sender_that_is_refused_its_first_segment_waits_for_a_timeout() {
    let [mut a, _] = pair(&config());
    let now = Instant::from_millis(10);
    a.write(now, u64::MAX);
    a.below().quench(now);
    let at = a.deadline().unwrap();
    assert!(at.saturating_since(now) >= Nanos::from_millis(200), "{at:?}");
    a.on_time(at);
    assert_eq!((a.flow().ssthresh, a.flow().cwnd), (2, 1));
    let sent = all(&mut a, at);
    assert!(sent.len() == 1 && !sent[0].again, "{sent:?}");
    let waits = a.deadline().unwrap().saturating_since(at);
    assert!(waits >= Nanos::from_millis(400), "{waits:?}");
}

/// The time between two tries grows to the longest timeout, and stays there.
#[test]
fn a_sender_that_is_always_refused_goes_on_trying() {
    let [mut a, _] = pair(&config());
    let mut now = Instant::from_millis(10);
    a.write(now, u64::MAX);
    for i in 0..300 {
        a.below().quench(now);
        let at = a.deadline().unwrap();
        let waits = at.saturating_since(now);
        assert!(i < 12 || waits >= Nanos::from_millis(120_000), "try {i}: {waits:?}");
        now = at;
        a.on_time(now);
    }
}

#[test]
fn fills_a_link_and_survives_heavy_loss() {
    let c = config();
    let mut net = Net::new(&c, &c, Wire::default());
    net.run(Instant::from_secs(20));
    let mbit = net.read as f64 * 8.0 / 20e6;
    assert!(mbit > 17.5, "{mbit} {:?}", net.ends[0].counters());
    let lose = (0..4000_u64).filter(|i| (i * 2_654_435_761) % 100 < 15).collect();
    let mut net = Net::new(&c, &c, Wire { lose, ..Wire::default() });
    (net.to_write, net.close) = (1_500_000, true);
    net.run(Instant::from_secs(900));
    assert_eq!((net.read, net.ends[0].state()), (1_500_000, State::Closed), "{:?}", net.ends[0].counters());
}
