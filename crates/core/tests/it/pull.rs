//! `TxPath::pull`: the same packets, wake-ups and counters as with a device, and nothing of it in
//! the state towards a device.

use std::panic::{AssertUnwindSafe, catch_unwind};

use txweir_core::base::rng::Rng;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::txpath::PathStats;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, DropReason, Handle, Instant, Meta, Nanos, NoDevice, PathConfig, Role, TxPath, Wake,
};

/// A run: packets in order of departure with the time of each, dropped packets, answers, counters,
/// flipped bits.
struct Outcome {
    sent: Vec<(Instant, u64, Meta)>,
    dropped: Vec<(u64, DropReason)>,
    wakes: Vec<Wake>,
    flipped: Vec<u32>,
    stats: PathStats,
}

/// The same packets through a qdisc, and out by bursts of at most 32.
fn run(kind: &str, options: &str, pulled: bool) -> Outcome {
    let config = PathConfig { role: Role::Forwarder, bql: None, ..PathConfig::default() };
    let words: Vec<&str> = options.split_whitespace().collect();
    let mut path = TxPath::new(config).unwrap().with_qdisc(kind, &words).unwrap();
    // With a device a packet could leave within `submit`.
    path.tx_mut().set_direct(false);
    let (mut dev, mut rng, mut now) =
        (VecDevice::with_slots(if pulled { 0 } else { 1000 }), Rng::new(7), Instant::from_secs(1));
    let (mut frames, mut sent, mut wakes) = (0.., Vec::new(), Vec::new());
    for _ in 0..400 {
        for frame in frames.by_ref().take(rng.below(60) as usize) {
            let m = Meta::new(64 + rng.below(1400) as u32);
            let m = m.flow(rng.below(50)).priority(rng.below(8) as u32).ecn(txweir_core::Ecn::Ect0);
            let _ = path.submit(now, frame, m, &mut dev);
        }
        if pulled {
            wakes.push(path.pull(now, 32, &mut dev, |frame, m| sent.push((now, frame, *m))));
        } else {
            let before = dev.sent().len();
            wakes.push(path.drain(now, 32, &mut dev));
            let new = dev.sent()[before..].iter().zip(&dev.metas()[before..]);
            sent.extend(new.map(|(frame, m)| (now, *frame, *m)));
            dev.finish(32);
            path.reap(now, &mut dev, |_| {});
        }
        now += Nanos(1_000_000);
    }
    Outcome {
        sent,
        dropped: dev.discarded().to_vec(),
        wakes,
        flipped: dev.flipped().to_vec(),
        stats: *path.stats(),
    }
}

#[test]
fn a_pull_gives_the_packets_of_a_device() {
    let mut kinds_of_wakes = [0; 3];
    for (kind, options) in [
        ("pfifo", "limit 100"),
        ("prio", ""),
        ("sfq", ""),
        ("fq_codel", "limit 500 target 1ms interval 10ms"),
        ("codel", "target 1ms interval 10ms noecn"),
        ("tbf", "rate 100mbit burst 20kb limit 100kb"),
        ("fq", "maxrate 5mbit"),
        ("cake", "bandwidth 100mbit"),
        ("netem", "delay 3ms 2ms duplicate 10% corrupt 5% loss 5%"),
    ] {
        let (pulled, pushed) = (run(kind, options, true), run(kind, options, false));
        assert!(pulled.sent.len() > 1000, "{kind}: {} packets left", pulled.sent.len());
        let differs = pulled.sent.iter().zip(&pushed.sent).find(|(a, b)| a != b);
        assert_eq!((differs, pulled.sent.len()), (None, pushed.sent.len()), "{kind} {options}");
        assert_eq!(pulled.wakes, pushed.wakes, "{kind} {options}");
        assert_eq!((pulled.dropped, pulled.flipped), (pushed.dropped, pushed.flipped), "{kind} {options}");
        assert_eq!(pulled.stats, pushed.stats, "{kind} {options}");
        assert_eq!(pulled.stats.tx_packets, pulled.sent.len() as u64);
        for wake in pulled.wakes {
            kinds_of_wakes[match wake {
                Wake::Idle => 0,
                Wake::More => 1,
                Wake::At(..) => 2,
                Wake::Device => panic!("{kind}: no device is there to wait for"),
            }] += 1;
        }
    }
    assert!(kinds_of_wakes.iter().all(|n| *n > 50), "{kinds_of_wakes:?}");
}

/// One packet is with a device that has not been told of it; two wait.
fn beside_a_device() -> (TxPath<&'static str>, VecDevice<&'static str>) {
    let mut path = TxPath::new(PathConfig::default()).unwrap().with_qdisc("pfifo", &[]).unwrap();
    let mut dev = VecDevice::with_slots(1);
    assert_eq!(path.submit(Instant(1), "device's", Meta::new(1000), &mut dev), Admitted::Sent);
    for frame in ["first", "second"] {
        assert_eq!(path.submit(Instant(1), frame, Meta::new(100), &mut dev), Admitted::Queued);
    }
    (path, dev)
}

/// The device's packet is announced, and counted until the device has finished it.
fn device_is_untouched(mut path: TxPath<&'static str>, mut dev: VecDevice<&'static str>) {
    assert_eq!((dev.doorbells(), path.tx().limit().map(|l| l.inflight())), (0, Some(1000)));
    let _ = path.drain(Instant(2), 64, &mut dev);
    assert_eq!(dev.doorbells(), 1);
    dev.finish(1);
    assert_eq!(path.reap(Instant(3), &mut dev, |_| {}), 1);
    assert_eq!((path.stats().dql_errors, path.tx().limit().map(|l| l.inflight())), (0, Some(0)));
}

#[test]
fn a_device_keeps_its_packets_its_limit_and_its_doorbell() {
    let (mut path, mut dev) = beside_a_device();
    let mut got = Vec::new();
    assert_eq!(path.pull(Instant(2), 9, &mut dev, |f, _| got.push(f)), Wake::Idle);
    assert_eq!((got, path.stats().tx_packets), (vec!["first", "second"], 3));
    device_is_untouched(path, dev);
}

#[test]
fn a_panic_of_the_caller_costs_the_packet_and_nothing_else() {
    let (mut path, mut dev) = beside_a_device();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| path.pull(Instant(2), 9, &mut dev, |_, _| panic!("mine"))));
    assert!(panicked.is_err());
    let mut got = Vec::new();
    assert_eq!(path.pull(Instant(2), 9, &mut dev, |f, _| got.push(f)), Wake::Idle);
    assert_eq!(got, ["second"]);
    device_is_untouched(path, dev);
}

/// A packet enters the inner qdisc in the course of the pull that takes it out of the outer one.
#[test]
fn the_owner_flips_the_bits_of_frames_and_gets_dropped_ones() {
    for (options, flipped, dropped) in [(["corrupt", "100%"], 20, 0), (["loss", "100%"], 0, 20)] {
        let mut path = TxPath::new(PathConfig::for_socket()).unwrap();
        let mut owner = VecDevice::with_slots(0);
        path.configure(Instant(1), &mut owner, |tree, cx| {
            let root = Some(Handle::new(1, 0));
            let mut q = tree.edit(cx);
            q.replace(Handle::ROOT, root, "netem", &mut Words::new(&["delay", "1ms"])).unwrap();
            q.replace(Handle::new(1, 1), None, "netem", &mut Words::new(&options)).unwrap();
        });
        for frame in 0..20 {
            let _ = path.submit(Instant(1), frame, Meta::new(100), &mut owner);
        }
        assert_eq!((owner.flipped().len(), owner.discarded().len()), (0, 0));
        let mut got = 0;
        let wake = path.pull(Instant::from_secs(1), 64, &mut owner, |_: u32, _| got += 1);
        assert_eq!((wake, got + dropped), (Wake::Idle, 20));
        assert_eq!((owner.flipped().len(), owner.discarded().len()), (flipped, dropped));
    }
}

#[test]
fn a_freeze_stops_pulls_and_none_takes_more_than_it_asked_for() {
    let mut path = TxPath::new(PathConfig::default()).unwrap();
    let mut none = NoDevice::new();
    for frame in 0..200 {
        assert_eq!(path.submit(Instant(1), frame, Meta::new(100), &mut none), Admitted::Queued);
    }
    let mut got = Vec::new();
    assert_eq!(path.pull(Instant(1), 0, &mut none, |f, _| got.push(f)), Wake::More);
    path.tx_mut().freeze();
    assert_eq!(path.pull(Instant(1), 9, &mut none, |f, _| got.push(f)), Wake::Device);
    assert!(got.is_empty());
    path.tx_mut().thaw();
    assert_eq!(path.pull(Instant(1), 130, &mut none, |f, _| got.push(f)), Wake::More);
    assert_eq!((got.len(), path.backlog().packets), (130, 70));
    // A burst that takes the last packet has nothing more to come for.
    assert_eq!(path.pull(Instant(1), 70, &mut none, |f, _| got.push(f)), Wake::Idle);
    assert!(got.into_iter().eq(0..200));
    assert_eq!(path.stats().commits, 2);
}

#[test]
fn a_path_that_ends_gives_every_frame_back_in_order_of_arrival() {
    for (kind, options) in [
        ("pfifo", ""),
        ("prio", ""),
        ("fq_codel", ""),
        ("sfq", ""),
        ("cake", "bandwidth 1mbit"),
        ("fq", "maxrate 1mbit"),
        ("tbf", "rate 1mbit burst 20kb limit 1mb"),
        ("netem", "delay 3ms"),
    ] {
        let words: Vec<&str> = options.split_whitespace().collect();
        let config = PathConfig::for_socket().forwarder();
        let mut path = TxPath::new(config).unwrap().with_qdisc(kind, &words).unwrap();
        let mut none = NoDevice::new();
        for frame in 0..100 {
            let m = Meta::new(100 + frame).flow(u64::from(frame) % 7).priority(frame % 8);
            assert_eq!(path.submit(Instant(1), frame, m, &mut none), Admitted::Queued, "{kind}");
        }
        let mut gone = Vec::new();
        let _ = path.pull(Instant(2), 10, &mut none, |frame, _| gone.push(frame));
        let back = path.into_iter();
        assert_eq!(back.len() + gone.len(), 100, "{kind}");
        let back: Vec<_> = back.map(|(frame, m)| (frame, m.wire_len)).collect();
        let stayed = (0..100).filter(|frame| !gone.contains(frame));
        assert!(back.iter().copied().eq(stayed.map(|frame| (frame, 100 + frame))), "{kind}: {back:?}");
    }
}

#[test]
fn configurations_differ_in_the_byte_limit_and_the_role() {
    let [ring, socket] = [PathConfig::for_ring(), PathConfig::for_socket()];
    assert_eq!((ring.bql.is_some(), socket.bql.is_some()), (true, false));
    assert_eq!((ring.role, ring.clone().forwarder().role), (Role::Origin, Role::Forwarder));
    assert_eq!((ring.pool, ring.forwarder().bql.is_some()), (socket.pool, true));
}
