//! The delays of the stages of a direction, in virtual time.

use txweir_core::base::histogram::Histogram;
use txweir_core::{Instant, Nanos};
use txweir_device::FRAME_MEMORY;
use txweir_runtime::{Direction, DirectionConfig, Received, WireSpec};

use crate::direction::udp;
use crate::list::{List, Out, To as _};

fn direction(spec: Option<&str>) -> Direction<Out> {
    let (wire, bql) = match spec.map(|spec| spec.parse::<WireSpec>().unwrap()) {
        Some(WireSpec { wire, bql }) => (Some(wire), bql),
        None => (None, None),
    };
    Direction::new(DirectionConfig { wire, bql, ..DirectionConfig::default() }, Out::new(FRAME_MEMORY))
        .unwrap()
}

/// Lets a frame in at `now` that was found at `looked`.
fn send(way: &mut Direction<Out>, port: &mut List, looked: u64, now: u64) {
    port.incoming.push_back(udp(0, 1, 1001));
    let mut input = List { incoming: std::mem::take(&mut port.incoming), ..List::default() };
    way.looks(Instant(looked));
    let Received::Frame(arrival) = way.receive(&mut input).unwrap() else { panic!("a frame") };
    way.admit_to(Instant(now), arrival, port).unwrap();
}

fn stages(way: &Direction<Out>) -> [(u64, u64); 3] {
    way.delays().expect("they are counted").stages().map(|(_, times)| (times.count(), times.sum().0))
}

/// Two frames on a wire of 8 Mbit/s without overhead, whose ring has room for one: the second waits
/// in the qdiscs for the millisecond that the first takes.
#[test]
fn the_time_in_each_stage_is_counted() {
    let mut way = direction(Some("rate=8mbit,ring=22,completion=immediate,overhead=0,bql=off"));
    let mut port = List::default();
    for at in 0..30 {
        send(&mut way, &mut port, 1000, 1000 + at * 100);
    }
    let waiting = way.path().backlog().packets;
    assert!(waiting > 0 && waiting < 30, "{waiting}");
    let held = 30 - waiting;
    let arrivals = (0..30).map(|at| at * 100).sum::<u64>();
    assert_eq!(stages(&way), [(30, arrivals), (held, 0), (0, 0)]);
    let mut now = Instant(4000);
    while let Some(at) = way.deadline(now) {
        now = now.max(at);
        way.advance_to(now, &mut port).unwrap();
    }
    let [_, (passed, in_qdisc), (finished, in_device)] = stages(&way);
    assert_eq!((passed, finished, port.sent.len()), (30, 30, 30));
    // Frame k leaves the wire k + 1 frames after the first came. It was in the qdiscs and on the
    // wire all this time.
    let frame = way.stats().busy_ns / 30;
    let all: u64 = (0..30).map(|k| (k + 1) * frame - k * 100).sum();
    assert_eq!(in_qdisc + in_device, all);
    assert!(in_qdisc > waiting * frame, "{in_qdisc}");
}

/// Without a wire a full device holds what it was given, and frames behind it wait in the qdiscs.
#[test]
fn a_full_device_shows_in_its_stage() {
    let mut way = direction(None);
    let mut port = List { full: true, ..List::default() };
    for _ in 0..70 {
        send(&mut way, &mut port, 0, 5000);
    }
    way.advance_to(Instant(5000), &mut port).unwrap();
    assert_eq!(stages(&way), [(70, 0), (64, 0), (0, 0)]);
    port.full = false;
    way.advance_to(Instant(1_005_000), &mut port).unwrap();
    assert_eq!(stages(&way), [(70, 0), (70, 6_000_000), (70, 64_000_000)]);
    let qdisc = &way.delays().unwrap().qdisc;
    assert_eq!(qdisc.percentile(50), Some(Nanos(1024)));
    assert_eq!(qdisc.percentile(99), Some(Nanos(1 << 20)));
    assert_eq!(*qdisc, qdisc.plus(&Histogram::default()));
}

#[test]
fn a_direction_may_count_none() {
    let config = DirectionConfig { wire: None, bql: None, delays: false, ..DirectionConfig::default() };
    let mut way = Direction::new(config, Out::new(FRAME_MEMORY)).unwrap();
    send(&mut way, &mut List::default(), 1, 2);
    assert_eq!(way.delays(), None);
}
