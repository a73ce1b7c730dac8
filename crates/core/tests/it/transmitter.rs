//! The edges of a transmit path towards its device: doorbells, limits that are just reached, the
//! wakes of senders. (`ledger.rs`: its stops.)

use crate::common::lane::{Lane, Out};
use txweir_core::model::testing::VecDevice;
use txweir_core::path::dql::OBJECT_MAX;
use txweir_core::path::txpath::Stops;
use txweir_core::{
    Admitted, Completed, DeviceError, DqlConfig, DropReason, Handle, Instant, Meta, Nanos, PathConfig,
    TxPath, TxQueue, Wake,
};

const T0: Instant = Instant::ZERO;

/// A doorbell is a write to the device: none is rung without a packet since the last one.
#[test]
fn a_doorbell_is_rung_once_for_the_packets_before_it() {
    let config = PathConfig { bql: None, ..PathConfig::default() };
    let mut path: TxPath<u32> = TxPath::new(config).unwrap();
    let mut dev = VecDevice::with_slots(10);
    for (packets, rung) in [(0, 0), (3, 1), (0, 1), (1, 2), (0, 2)] {
        for n in 0..packets {
            assert_eq!(path.submit(T0, n, Meta::new(100), &mut dev), Admitted::Sent);
        }
        path.doorbell(&mut dev);
        let _ = path.drain(T0, 64, &mut dev);
        assert_eq!((dev.doorbells(), path.stats().commits), (rung, rung), "{packets} packets");
    }
}

/// Makes a path with this root and byte limit.
fn path(bql: Option<DqlConfig>, kind: &str, options: &[&str]) -> TxPath<u32> {
    let config = PathConfig { bql, ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

/// A packet that the byte limit can count is queued; a larger one goes nowhere.
#[test]
fn the_largest_unit_is_queued_and_a_larger_one_is_not() {
    let mut lane = Lane::new("pfifo", "");
    assert_eq!(lane.put(T0, 0, Meta::new(OBJECT_MAX)), Admitted::Queued);
    assert_eq!(lane.put(T0, 1, Meta::new(OBJECT_MAX + 1)), Admitted::Dropped(DropReason::Oversize));
    assert_eq!(lane.ids(T0, 2), [0]);
}

/// The time of each post is compared with that of its completion: a call without a time takes no
/// packet then.
#[test]
fn a_path_that_looks_for_stalls_takes_no_packet_without_its_time() {
    for (stall_thrs, sent, later) in
        [(Nanos::ZERO, Ok(()), Admitted::Queued), (Nanos::from_millis(50), Err(7), Admitted::Sent)]
    {
        let bql = DqlConfig { stall_thrs, ..DqlConfig::default() };
        let (mut path, mut dev) = (path(Some(bql), "pfifo", &[]), VecDevice::with_slots(10));
        assert_eq!(path.send_direct(7, &Meta::new(100), &mut dev), sent, "{stall_thrs}");
        // The limit is 0, so that one unit may be in flight.
        assert_eq!(path.submit(T0, 8, Meta::new(100), &mut dev), later, "{stall_thrs}");
    }
}

/// Two units of 1000 are in flight behind a limit of 1000, and a third waits. One of them done, the
/// amount that may still be posted is exactly 0, which allows a unit.
#[test]
fn a_byte_limit_that_is_just_kept_is_no_stop() {
    let bql = DqlConfig { limit_min: 1000, limit_max: 1000, ..DqlConfig::default() };
    let (mut path, mut dev) = (path(Some(bql), "pfifo", &[]), VecDevice::with_slots(10));
    let answers = [0, 1, 2].map(|n| path.submit(T0, n, Meta::new(1000), &mut dev));
    assert_eq!(answers, [Admitted::Sent, Admitted::Sent, Admitted::Queued]);
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Device);
    let state = |path: &TxPath<u32>| {
        (path.tx().limit().map(|dql| dql.available()), path.tx().stops().has(Stops::STACK))
    };
    assert_eq!(state(&path), (Some(-1000), true));
    dev.finish(1);
    assert_eq!(path.reap(T0, &mut dev, |_| {}), 1);
    assert_eq!(state(&path), (Some(0), false));
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    assert_eq!(dev.sent(), [0, 1, 2]);
}

/// A device that was reset has no packet, so that no completion would end its stops.
#[test]
fn a_reset_ends_the_stops_of_the_device_and_of_the_byte_limit() {
    let bql = DqlConfig { limit_max: 1000, ..DqlConfig::default() };
    let (mut path, mut dev) = (path(Some(bql), "pfifo", &[]), VecDevice::with_slots(10));
    let stops = |path: &TxPath<u32>| [Stops::STACK, Stops::DRV].map(|s| path.tx().stops().has(s));
    (0..2).for_each(|n| drop(path.submit(T0, n, Meta::new(1000), &mut dev)));
    assert_eq!((path.drain(T0, 64, &mut dev), stops(&path)), (Wake::Device, [true, false]));
    dev.set_slots(0);
    assert_eq!((path.drain(T0, 64, &mut dev), stops(&path)), (Wake::Device, [true, true]));
    path.tx_mut().device_reset(T0);
    assert_eq!(stops(&path), [false, false]);
}

/// The device has room again without a completion.
#[test]
fn a_device_that_promises_a_slot_is_stopped_no_more() {
    let (mut path, mut dev) = (path(None, "pfifo", &[]), VecDevice::with_slots(0));
    let submit =
        |path: &mut TxPath<u32>, dev: &mut VecDevice<u32>, n| path.submit(T0, n, Meta::new(100), dev);
    assert_eq!(submit(&mut path, &mut dev, 0), Admitted::Queued);
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Device);
    assert!(path.tx().stops().has(Stops::DRV));
    dev.set_slots(10);
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    assert!(!path.tx().stops().has(Stops::DRV));
    assert_eq!(submit(&mut path, &mut dev, 1), Admitted::Sent);
}

/// A sender that is refused waits for a packet that leaves afterwards: the room of packets that
/// left before is taken.
#[test]
fn a_refused_sender_is_woken_by_a_later_departure_only() {
    let (mut path, mut dev) = (path(None, "pfifo", &["limit", "1"]), VecDevice::with_slots(0));
    let submit =
        |path: &mut TxPath<u32>, dev: &mut VecDevice<u32>, n| path.submit(T0, n, Meta::new(100), dev);
    for round in 0..2u64 {
        dev.set_slots(0);
        assert_eq!(submit(&mut path, &mut dev, 0), Admitted::Queued);
        for refused in 1..3 {
            assert_eq!(submit(&mut path, &mut dev, 9), Admitted::Full(9));
            assert_eq!(path.stats().full, 2 * round + refused);
        }
        assert!(!path.take_wake(), "round {round}: no packet has left");
        dev.set_slots(100);
        assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
        assert!(path.take_wake() && !path.take_wake(), "round {round}");
    }
}

/// A time at which another packet may be ready is no answer any more once it has come: the path
/// then waits for its own tokens.
#[test]
fn a_time_that_has_come_is_not_named_again() {
    // One byte a microsecond, and an empty bucket.
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    lane.fill(T0, 9, 1, Meta::new(1000));
    assert_eq!(lane.ids(T0, 2), [9]);
    let class = |of: Handle| Handle::new(of.major(), 1);
    let (below, us) = (class(lane.root().handle()), Instant::from_micros);
    let prio = lane.graft(T0, below, "prio", "bands 2 priomap 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
    lane.graft(T0, class(prio), "netem", "delay 512us");
    lane.fill(T0, 0, 1, Meta::new(60).priority(0));
    lane.fill(T0, 1, 1, Meta::new(1000).priority(1));
    // The small packet may go at 512 us, long before there are tokens for the large one.
    assert_eq!(lane.take(T0), Out::Wait(us(512)));
    assert_eq!((lane.take(us(512)).id(), lane.take(us(512))), (Some(0), Out::Wait(us(1060))));
    assert_eq!(lane.take(us(1060)).id(), Some(1));
}

/// A device of endless room that finishes each packet at once and gives its frame back.
#[derive(Default)]
struct Mirror(Vec<u32>);

impl TxQueue for Mirror {
    type Frame = u32;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: u32, _: &Meta) {
        self.0.push(frame);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u32>)) {
        for frame in self.0.drain(..) {
            sink(Completed { packets: 1, bytes: 100, frame: Some(frame) });
        }
    }
}

#[test]
fn a_completion_gives_its_frame_back() {
    let (mut path, mut dev) = (path(None, "pfifo", &[]), Mirror::default());
    let mut back = Vec::new();
    for n in 0..3 {
        assert_eq!(path.submit(T0, n, Meta::new(100), &mut dev), Admitted::Sent);
    }
    assert_eq!(path.reap(T0, &mut dev, |frame| back.push(frame)), 3);
    assert_eq!((back, path.reap(T0, &mut dev, |_| {})), (vec![0, 1, 2], 0));
}
