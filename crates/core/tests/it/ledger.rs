//! Mistakes that transmit paths have made in the field, each as a test, and the stop states as a
//! table.

use std::collections::VecDeque;

use txweir_core::model::testing::VecDevice;
use txweir_core::path::txpath::Stops;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, Completed, DeviceError, DqlConfig, DropReason, Env, Handle, Instant, Meta, PathConfig, Role,
    TxPath, TxQueue, Wake,
};

const T0: Instant = Instant::ZERO;

fn path(bql: Option<DqlConfig>) -> TxPath<u32> {
    let config = PathConfig { bql, role: Role::Forwarder, ..PathConfig::default() };
    TxPath::new(config).unwrap()
}

/// Returns a path with packet 0 on the device and packets 1 to 3 waiting, stopped as requested.
/// Only real causes are used: a ring without room, a byte limit that is reached, a freeze.
fn stopped(drv: bool, stack: bool, frozen: bool) -> (TxPath<u32>, VecDevice<u32>) {
    let mut dev = VecDevice::with_slots(100);
    let mut path = path(Some(DqlConfig::default()));
    assert_eq!(path.submit(T0, 0, Meta::new(1000), &mut dev), Admitted::Sent);
    if !stack {
        // A large lower bound takes effect with the first completion.
        path.tx_mut().limit_mut().unwrap().set_limit_min(1 << 20).unwrap();
        dev.finish(1);
        assert_eq!(path.reap(T0, &mut dev, |_| {}), 1);
        assert_eq!(path.submit(T0, 100, Meta::new(1000), &mut dev), Admitted::Sent);
    }
    path.tx_mut().freeze();
    for i in 1..=3 {
        assert_eq!(path.submit(T0, i, Meta::new(1000), &mut dev), Admitted::Queued);
    }
    path.tx_mut().thaw();
    if stack {
        assert_eq!(path.drain(T0, 64, &mut dev), Wake::Device);
    }
    if drv {
        dev.set_slots(0);
        assert_eq!(path.drain(T0, 64, &mut dev), Wake::Device);
    }
    if frozen {
        path.tx_mut().freeze();
    }
    let bits = [Stops::DRV, Stops::STACK, Stops::FROZEN].map(|bit| path.tx().stops().has(bit));
    assert_eq!(bits, [drv, stack, frozen]);
    (path, dev)
}

#[test]
fn stop_states_are_three_independent_bits() {
    // DRV, STACK, FROZEN; true if a transmit attempt proceeds; true if it does after a completion
    // with room; true if it does after a thaw.
    let table = [
        [0, 0, 0, 1, 1, 1],
        [0, 0, 1, 0, 0, 1],
        [0, 1, 0, 0, 1, 0],
        [0, 1, 1, 0, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 1, 1, 0, 0, 0],
    ];
    let complete = |path: &mut TxPath<u32>, dev: &mut VecDevice<u32>| {
        dev.set_slots(100);
        dev.finish(usize::MAX);
        path.reap(T0, dev, |_| {});
    };
    for row in table {
        let [drv, stack, frozen, now, completed, thawed] = row.map(|b| b == 1);
        let proceeds = |path: &mut TxPath<u32>, dev: &mut VecDevice<u32>| {
            let before = dev.sent().len();
            let may = path.tx().stops().may_transmit();
            let wake = path.drain(T0, 64, dev);
            let sent = dev.sent().len() - before;
            assert_eq!(sent > 0, may, "{row:?}: the bits say otherwise than the act");
            assert_eq!(wake == Wake::Device, path.backlog().packets > 0, "{row:?}");
            sent > 0
        };
        let (mut p, mut d) = stopped(drv, stack, frozen);
        assert_eq!(p.tx().stops().stopped(), drv || stack, "{row:?}");
        assert_eq!(proceeds(&mut p, &mut d), now, "{row:?}");
        let (mut p, mut d) = stopped(drv, stack, frozen);
        complete(&mut p, &mut d);
        assert_eq!(proceeds(&mut p, &mut d), completed, "{row:?} completed");
        let (mut p, mut d) = stopped(drv, stack, frozen);
        p.tx_mut().thaw();
        assert_eq!(proceeds(&mut p, &mut d), thawed, "{row:?} thawed");
        // A completion and a thaw, as often as the byte limit needs, and every packet leaves in
        // order.
        p.tx_mut().thaw();
        while p.backlog().packets > 0 {
            complete(&mut p, &mut d);
            let _ = p.drain(T0, 64, &mut d);
        }
        assert_eq!(d.sent()[d.sent().len() - 3..], [1, 2, 3], "{row:?}");
    }
}

#[test]
fn a_stop_keeps_direct_dispatch_out_too() {
    for (drv, stack, frozen) in [(true, false, false), (false, true, false), (false, false, true)] {
        let (mut path, mut dev) = stopped(drv, stack, frozen);
        let direct = path.stats().direct;
        assert_eq!(path.submit(T0, 9, Meta::new(60), &mut dev), Admitted::Queued);
        assert_eq!(path.stats().direct, direct);
    }
}

/// The switch of direct dispatch is no stop: a packet that is queued because of it leaves at the
/// next drain, in order.
#[test]
fn with_the_direct_way_off_every_packet_is_queued_and_none_waits() {
    let (mut path, mut dev) = (path(None), VecDevice::with_slots(8));
    assert!(path.tx().is_direct());
    path.tx_mut().set_direct(false);
    for i in 0..3 {
        assert_eq!(path.submit(T0, i, Meta::new(60), &mut dev), Admitted::Queued);
        assert!(path.tx().stops().may_transmit());
        assert_eq!(path.send_direct(9, &Meta::new(60), &mut dev), Err(9));
        assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    }
    path.tx_mut().set_direct(true);
    assert_eq!(path.submit(T0, 3, Meta::new(60), &mut dev), Admitted::Sent);
    assert_eq!((path.stats().direct, path.stats().queued, dev.sent()), (1, 3, &[0, 1, 2, 3][..]));
}

#[test]
fn bulk_is_bounded_even_without_a_byte_limit() {
    struct Greedy {
        inner: VecDevice<u32>,
        wanted: Vec<u32>,
    }
    impl TxQueue for Greedy {
        type Frame = u32;
        fn reserve(&mut self, want: u32) -> u32 {
            self.wanted.push(want);
            self.inner.reserve(want)
        }
        fn push(&mut self, frame: u32, m: &Meta) {
            self.inner.push(frame, m);
        }
        fn commit(&mut self) -> Result<(), DeviceError> {
            self.inner.commit()
        }
        fn reap(&mut self, sink: &mut dyn FnMut(Completed<u32>)) {
            self.inner.reap(sink);
        }
    }
    let mut path = path(None).with_qdisc("pfifo", &["limit", "10000"]).unwrap();
    let mut dev = Greedy { inner: VecDevice::with_slots(u32::MAX), wanted: Vec::new() };
    path.tx_mut().freeze();
    for i in 0..5000 {
        assert_eq!(path.submit(T0, i, Meta::new(60), &mut dev), Admitted::Queued);
    }
    path.tx_mut().thaw();
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::More);
    assert_eq!(dev.inner.sent().len(), 64);
    assert_eq!(path.drain(T0, 1000, &mut dev), Wake::More);
    assert_eq!(dev.inner.sent().len(), 1064);
    assert_eq!(dev.wanted.iter().max(), Some(&64));
    assert_eq!(path.stats().commits, 2, "one doorbell per drain");
}

/// A device that answers `reserve` with all of its free slots, as a ring does.
struct Ring(VecDevice<u32>);

impl TxQueue for Ring {
    type Frame = u32;
    fn reserve(&mut self, _want: u32) -> u32 {
        self.0.reserve(u32::MAX)
    }
    fn push(&mut self, frame: u32, m: &Meta) {
        self.0.push(frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.0.commit()
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u32>)) {
        self.0.reap(sink);
    }
}

#[test]
fn a_promise_of_more_slots_than_asked_for_counts_as_asked() {
    let mut path = path(None);
    let mut dev = Ring(VecDevice::with_slots(1000));
    assert_eq!(path.submit(T0, 0, Meta::new(60), &mut dev), Admitted::Sent);
    assert_eq!(path.send_direct(1, &Meta::new(60), &mut dev), Ok(()));
    path.tx_mut().freeze();
    for i in 2..102 {
        assert_eq!(path.submit(T0, i, Meta::new(60), &mut dev), Admitted::Queued);
    }
    path.tx_mut().thaw();
    assert_eq!((path.drain(T0, 8, &mut dev), dev.0.sent().len()), (Wake::More, 10));
    assert_eq!((path.drain(T0, 100, &mut dev), dev.0.sent().len()), (Wake::Idle, 102));
}

#[test]
fn a_purge_gives_every_waiting_frame_back() {
    let mut dev = VecDevice::with_slots(1);
    let mut path = path(None).with_qdisc("fq_codel", &[]).unwrap();
    assert_eq!(path.submit(T0, 0, Meta::new(60), &mut dev), Admitted::Sent);
    for i in 1..=5 {
        assert_eq!(path.submit(T0, i, Meta::new(60).hash(i), &mut dev), Admitted::Queued);
    }
    path.purge(T0, &mut dev);
    let mut back: Vec<u32> = dev.discarded().iter().map(|(frame, _)| *frame).collect();
    back.sort_unstable();
    assert_eq!(back, [1, 2, 3, 4, 5]);
    assert!(dev.discarded().iter().all(|(_, reason)| *reason == DropReason::Purged));
    assert_eq!((path.backlog().packets, path.cx().drops(DropReason::Purged)), (0, 5));
    assert_eq!((path.drain(T0, 64, &mut dev), dev.sent()), (Wake::Idle, &[0][..]));
}

/// A device that reports what the test sets, right or wrong.
#[derive(Default)]
struct Liar {
    pushed: VecDeque<u32>,
    reports: VecDeque<(u32, u32)>,
    sent: Vec<u32>,
}

impl TxQueue for Liar {
    type Frame = u32;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: u32, m: &Meta) {
        self.sent.push(frame);
        self.pushed.push_back(m.wire_len);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u32>)) {
        for (packets, bytes) in self.reports.drain(..) {
            sink(Completed { packets, bytes, frame: None });
        }
    }
}

/// After a fault of the accounts the queue must still carry packets and count right.
fn carries_on(path: &mut TxPath<u32>, dev: &mut Liar) {
    let before = dev.sent.len();
    dev.pushed.clear();
    for i in 0..50 {
        let _ = path.submit(T0, 1000 + i, Meta::new(1000), dev);
        let _ = path.drain(T0, 64, dev);
        let (packets, bytes) = (dev.pushed.len() as u32, dev.pushed.iter().sum());
        assert_eq!(path.tx().limit().unwrap().inflight(), bytes);
        dev.pushed.clear();
        dev.reports.push_back((packets, bytes));
        path.reap(T0, dev, |_| {});
        let _ = path.drain(T0, 64, dev);
    }
    let (packets, bytes) = (dev.pushed.len() as u32, dev.pushed.iter().sum());
    dev.reports.push_back((packets, bytes));
    path.reap(T0, dev, |_| {});
    assert_eq!(path.drain(T0, 64, dev), Wake::Idle);
    assert_eq!(dev.sent.len() - before, 50);
}

#[test]
fn a_completion_from_before_a_reset_is_counted_and_survived() {
    let mut path = path(Some(DqlConfig::default()));
    let mut dev = Liar::default();
    assert_eq!(path.submit(T0, 0, Meta::new(1500), &mut dev), Admitted::Sent);
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    path.tx_mut().device_reset(T0);
    assert_eq!(path.tx().limit().unwrap().inflight(), 0);
    // The device kept the packet after all.
    dev.reports.push_back((1, 1500));
    assert_eq!(path.reap(T0, &mut dev, |_| {}), 1);
    assert_eq!(path.stats().dql_errors, 1);
    carries_on(&mut path, &mut dev);
    assert_eq!(path.stats().dql_errors, 1);
}

#[test]
fn a_completion_of_more_than_was_posted_is_counted_and_survived() {
    let mut path = path(Some(DqlConfig::default()));
    let mut dev = Liar::default();
    assert_eq!(path.submit(T0, 0, Meta::new(1500), &mut dev), Admitted::Sent);
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    // The packet grew on its way: an encapsulation after it was posted.
    dev.reports.push_back((1, 1550));
    path.reap(T0, &mut dev, |_| {});
    assert_eq!((path.stats().dql_errors, path.tx().limit().unwrap().inflight()), (1, 0));
    carries_on(&mut path, &mut dev);
}

#[test]
fn a_reset_leaves_no_stale_threshold() {
    let mut path = path(Some(DqlConfig { limit_min: 3000, ..DqlConfig::default() }));
    let mut dev = VecDevice::with_slots(1000);
    let burst = |path: &mut TxPath<u32>, dev: &mut VecDevice<u32>| {
        let before = dev.sent().len();
        path.tx_mut().freeze();
        for i in 0..20 {
            assert_eq!(path.submit(T0, i, Meta::new(1000), dev), Admitted::Queued);
        }
        path.tx_mut().thaw();
        let _ = path.drain(T0, 64, dev);
        dev.sent().len() - before
    };
    // At the start: limit_min, and one object more.
    assert_eq!(burst(&mut path, &mut dev), 4);
    // Completions raise the limit.
    while path.backlog().packets > 0 {
        dev.finish(usize::MAX);
        path.reap(T0, &mut dev, |_| {});
        let _ = path.drain(T0, 64, &mut dev);
    }
    assert!(path.tx().limit().unwrap().limit() > 3000);
    // The device is reset with packets in it; it forgets them. The next burst is bounded as at the
    // start.
    path.tx_mut().device_reset(T0);
    assert_eq!(path.tx().limit().unwrap().available(), 3000);
    assert_eq!(burst(&mut path, &mut dev), 4);
}

#[test]
fn the_doorbell_rings_although_the_end_of_the_batch_was_dropped() {
    let mut path =
        path(None).with_qdisc("codel", &["limit", "1000", "target", "1ms", "interval", "2ms"]).unwrap();
    let mut dev = VecDevice::with_slots(1000);
    path.tx_mut().freeze();
    for i in 0..100 {
        assert_eq!(path.submit(T0, i, Meta::new(1500), &mut dev), Admitted::Queued);
    }
    path.tx_mut().thaw();
    let mut now = Instant::from_millis(50);
    while path.backlog().packets > 0 {
        let (sent, bells) = (dev.sent().len(), dev.doorbells());
        let _ = path.drain(now, 1, &mut dev);
        assert_eq!(dev.doorbells() - bells, u64::from(dev.sent().len() > sent));
        now += txweir_core::Nanos::from_millis(1);
    }
    assert!(path.cx().drops(DropReason::Congested) > 10);
}

#[test]
fn a_sender_is_not_told_to_wait_for_room_that_cannot_come() {
    for (kind, options) in [
        ("bfifo", &["limit", "1000"][..]),
        ("pfifo", &["limit", "0"]),
        ("fq_codel", &["memory_limit", "1000"]),
    ] {
        let mut path: TxPath<u32> =
            TxPath::new(PathConfig::default()).unwrap().with_qdisc(kind, options).unwrap();
        let mut dev = VecDevice::with_slots(0);
        let answer = path.submit(T0, 1, Meta::new(1500), &mut dev);
        assert!(matches!(answer, Admitted::Dropped(_)), "{kind}: {answer:?}");
        assert_eq!(dev.discarded().len(), 1);
    }
}

#[test]
fn what_is_refused_before_any_qdisc_is_counted_too() {
    let config = PathConfig { pool: 1, role: Role::Forwarder, ..PathConfig::default() };
    let mut path: TxPath<u32> = TxPath::new(config).unwrap();
    let mut dev = VecDevice::with_slots(0);
    assert_eq!(path.submit(T0, 0, Meta::new(60), &mut dev), Admitted::Queued);
    assert_eq!(path.submit(T0, 1, Meta::new(60), &mut dev), Admitted::Dropped(DropReason::PoolFull));
    assert_eq!(path.submit(T0, 2, Meta::new(u32::MAX), &mut dev), Admitted::Dropped(DropReason::Oversize));
    let counted = [DropReason::PoolFull, DropReason::Oversize].map(|r| path.cx().drops(r));
    assert_eq!((counted, path.cx().dropped().packets), ([1, 1], 2));
}

#[test]
fn whoever_was_told_full_is_woken_once_something_has_left() {
    let mut path: TxPath<u32> = TxPath::new(PathConfig { bql: None, ..PathConfig::default() })
        .unwrap()
        .with_qdisc("pfifo", &["limit", "2"])
        .unwrap();
    let mut dev = VecDevice::with_slots(1);
    let answers: Vec<_> = (0..4).map(|i| path.submit(T0, i, Meta::new(60), &mut dev)).collect();
    assert_eq!(answers, [Admitted::Sent, Admitted::Queued, Admitted::Queued, Admitted::Full(3)]);
    assert_eq!((path.drain(T0, 64, &mut dev), path.take_wake()), (Wake::Device, false));
    dev.finish(1);
    path.reap(T0, &mut dev, |_| {});
    assert!(!path.take_wake(), "a completion is not yet room in the qdisc");
    assert_eq!(
        (path.drain(T0, 64, &mut dev), path.take_wake(), path.take_wake()),
        (Wake::Device, true, false)
    );
    assert_eq!(path.submit(T0, 3, Meta::new(60), &mut dev), Admitted::Queued);
}

#[test]
fn a_graft_drops_what_waits_there_and_nothing_else() {
    let mut path = path(None).with_qdisc("prio", &[]).unwrap();
    let mut dev = VecDevice::with_slots(1000);
    path.tx_mut().freeze();
    for i in 0..30 {
        let m = Meta::new(60).priority([6, 0, 2][i as usize % 3]);
        assert_eq!(path.submit(T0, i, m, &mut dev), Admitted::Queued);
    }
    path.configure(T0, &mut dev, |tree, cx| {
        tree.edit(cx).add(Handle::new(0x8001, 2), None, "fq_codel", &mut Words::new(&[]))
    })
    .unwrap();
    path.tx_mut().thaw();
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    let expected: Vec<u32> = (0..30).step_by(3).chain((2..30).step_by(3)).collect();
    assert_eq!(dev.sent(), expected);
    let dropped: Vec<u32> = dev.discarded().iter().map(|d| d.0).collect();
    assert_eq!(dropped, (1..30).step_by(3).collect::<Vec<_>>());
}

/// A device that has finished each packet once it is shown it, as a socket has, and reports none.
#[derive(Default)]
struct AtOnce {
    pushed: Vec<u32>,
    shown: Vec<u32>,
    /// True if `reap` reports the packets all the same.
    reports: bool,
}

impl TxQueue for AtOnce {
    type Frame = u32;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: u32, _: &Meta) {
        self.pushed.push(frame);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.shown.append(&mut self.pushed);
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u32>)) {
        if self.reports {
            sink(Completed { packets: 1, bytes: 1500, frame: None });
        }
    }
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
}

#[test]
fn the_default_byte_limit_neither_stops_nor_counts_a_device_that_is_done_at_once() {
    for reports in [false, true] {
        let mut path = path(Some(DqlConfig::default()));
        let mut dev = AtOnce { reports, ..AtOnce::default() };
        for i in 0..2000 {
            let meta = Meta::new(1500);
            match i % 4 {
                0 => assert_eq!(path.send_direct(i, &meta, &mut dev), Ok(())),
                1 => assert_eq!(path.submit(T0, i, meta, &mut dev), Admitted::Sent),
                _ => {
                    path.tx_mut().set_direct(false);
                    assert_eq!(path.submit(T0, i, meta, &mut dev), Admitted::Queued);
                    path.tx_mut().set_direct(true);
                }
            }
            if i % 4 == 3 {
                assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
                let limit = path.tx().limit().unwrap();
                assert_eq!((limit.limit(), limit.inflight()), (0, 0));
                path.reap(T0, &mut dev, |_| {});
            }
        }
        assert!(dev.shown.iter().copied().eq(0..2000));
        assert_eq!((path.stats().stop_stack, path.stats().stop_drv, path.stats().dql_errors), (0, 0, 0));
    }
}

#[test]
fn a_port_over_devices_that_are_done_at_once_has_nothing_in_flight() {
    use txweir_core::path::port::{Choice, Port};
    let config = PathConfig { env: Env { queues: 2, ..Env::default() }, ..PathConfig::default() };
    for root in ["mq", "multiq", "pfifo"] {
        let mut port = Port::new(config.clone()).unwrap();
        let mut dev: Vec<AtOnce> = (0..3).map(|_| AtOnce::default()).collect();
        let swapped = port
            .control(T0, &mut dev)
            .swap(|q| q.replace(Handle::ROOT, None, root, &mut Words::new(&[])), |_, _, _, _| {});
        swapped.0.unwrap();
        let _ = (0..2).map(|queue| port.drain(T0, queue, 64, &mut dev)).count();
        let send = |port: &mut Port<u32>, dev: &mut Vec<AtOnce>, n: u32, queue| {
            let (at, done) = port.send(T0, n, Meta::new(1500), Choice::Queue(queue), dev);
            assert!(matches!(done, Admitted::Sent | Admitted::Queued), "{root}: {done:?}");
            at
        };
        for n in 0..100 {
            let at = send(&mut port, &mut dev, n, (n % 2) as u16);
            assert_eq!(port.drain(T0, at, 64, &mut dev), Wake::Idle, "{root}");
            assert_eq!(port.flight().packets(), 0, "{root}");
        }
        // A packet that its owner has not drained stands before the fence of a change.
        let _ = send(&mut port, &mut dev, 100, 1);
        port.control(T0, &mut dev).set_queues(3).unwrap();
        let _ = send(&mut port, &mut dev, 101, 0);
        for queue in [0, 1, 2, 0, 1, 2] {
            let _ = port.drain(T0, queue, 64, &mut dev);
        }
        assert_eq!(dev.iter().map(|d| d.shown.len()).sum::<usize>(), 102, "{root}");
    }
}
