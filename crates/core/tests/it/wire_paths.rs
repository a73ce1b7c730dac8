//! Transmit paths, one per ring of a wire: a byte limit for each, and the effect of traffic classes
//! in the device on the important ones ("Qdisc experiments at 10 Gbit/s", Linux Plumbers Conference
//! 2012).

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Meta, Nanos, PathConfig, Rate, Role, TxPath};
use txweir_core::{
    model::wire::{Completion, Wire, WireConfig},
    sched::schedule::{ClassConfig, LineConfig, Service},
};

/// A path above each ring of a wire. A frame is its arrival time.
struct Device {
    wire: Wire<u64>,
    paths: Vec<TxPath<u64>>,
    now: Instant,
    /// By ring: packets that have left, and the sum and the greatest of their waits, in ns.
    left: Vec<(u64, u64, u64)>,
    /// The same for the TCP control segments of all rings.
    control: (u64, u64, u64),
}

impl Device {
    fn new(config: WireConfig, limit: &str) -> Self {
        Self::with(config, true, "pfifo", &["limit", limit])
    }

    fn with(config: WireConfig, bql: bool, kind: &str, options: &[&str]) -> Self {
        let path = || {
            let bql = PathConfig::default().bql.filter(|_| bql);
            let config = PathConfig { role: Role::Forwarder, pool: 2000, bql, ..PathConfig::default() };
            TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
        };
        let rings = usize::from(config.rings);
        Self {
            wire: Wire::new(config).unwrap(),
            paths: (0..rings).map(|_| path()).collect(),
            now: Instant::ZERO,
            left: vec![(0, 0, 0); rings],
            control: (0, 0, 0),
        }
    }

    /// Runs every event until `until`.
    fn run(&mut self, until: Instant) {
        while let Some(at) = self.wire.next_event().filter(|at| *at <= until) {
            self.step(at);
        }
        self.step(until);
    }

    fn step(&mut self, now: Instant) {
        self.now = now;
        let Self { wire, paths, left, control, .. } = self;
        let reported = wire.advance(now, |d| {
            let wait = d.finish.0 - d.frame;
            let all = [&mut left[usize::from(d.ring)], control];
            for (packets, sum, max) in all.into_iter().take(1 + usize::from(d.meta.tcp_control)) {
                (*packets, *sum, *max) = (*packets + 1, *sum + wait, wait.max(*max));
            }
        });
        for (path, i) in paths.iter_mut().zip(0..).filter(|_| reported) {
            if wire.ring_stats(i).reported {
                path.reap(now, &mut wire.ring(i).unwrap(), |_| {});
                let _ = path.drain(now, 64, &mut wire.ring(i).unwrap());
            }
        }
        for (path, i) in paths.iter().zip(0..) {
            let inflight =
                path.tx().limit().map_or(wire.ring_stats(i).held.bytes, |d| u64::from(d.inflight()));
            assert_eq!(inflight, wire.ring_stats(i).held.bytes, "ring {i} at {now}");
        }
    }

    fn submit(&mut self, queue: u16, m: Meta) {
        let (path, mut ring) = (&mut self.paths[usize::from(queue)], self.wire.ring(queue).unwrap());
        let _ = path.submit(self.now, self.now.0, m, &mut ring);
        let _ = path.drain(self.now, 64, &mut ring);
    }
}

#[test]
fn every_ring_has_a_byte_limit_of_its_own() {
    let completion = Completion::Periodic(Nanos::from_micros(250));
    let mut device = Device::new(WireConfig { rings: 8, completion, ..WireConfig::default() }, "100");
    let mut limits = Vec::new();
    // Every queue is kept full; the packets of queue 7 are small.
    for ms in 0..3000_u64 {
        device.run(Instant::from_millis(ms));
        for queue in 0..8 {
            let m = Meta::new(if queue == 7 { 300 } else { 1514 });
            while device.paths[usize::from(queue)].backlog().packets < 90 {
                device.submit(queue, m);
            }
        }
        if ms >= 2000 {
            limits.push(
                device.paths.iter().map(|p| p.tx().limit().map_or(0, |d| d.limit())).collect::<Vec<_>>(),
            );
        }
    }
    // In turns unit by unit: seven of 1538 bytes on the line and one of 324, so a ring of the seven
    // drains 17.09 MB/s. A limit settles at twice that times 250 us, +- one packet: 8544 bytes; the
    // eighth's at 1693.
    for at in &limits {
        assert!(at[..7].iter().all(|l| (7030..=8544 + 1514).contains(l)), "{at:?}");
        assert!((1393..=1993).contains(&at[7]), "{at:?}");
    }
    // The line never rests, and each ring has an equal share of turns.
    let counts = device.wire.counts();
    assert!(counts.busy.0 > 2_998_000_000, "{counts:?}");
    let rings: Vec<u64> = (0..8).map(|i| device.wire.ring_stats(i).sent.units).collect();
    assert!(rings.iter().all(|n| n.abs_diff(rings[0]) <= 2), "{rings:?}");
    assert_eq!(rings.iter().sum::<u64>(), counts.units);
}

/// Offers 554 Mbit/s for each of eight classes to the rate of the published machine, 3513 Mbit/s,
/// in frames of 1212 bytes: by Little's law the 1000 packets of a full queue at 400 Mbit/s are the
/// 24.24 ms that were measured.
fn published(line: LineConfig) -> Device {
    let mut device = Device::new(
        WireConfig {
            rate: Rate::from_bits(3_513_000_000),
            overhead: 0,
            min_frame: 0,
            completion: Completion::Every { packets: 4, within: Nanos::from_micros(20) },
            rings: 8,
            line: Some(line),
            ..WireConfig::default()
        },
        "1000",
    );
    let mut rng = Rng::new(8);
    // A queue gains 16 000 packets a second and is full after 63 ms.
    let (warm, end) = (Instant::from_millis(120), Instant::from_millis(320));
    let interval = 1212 * 8 * 1_000_000_000 / 554_000_000;
    let mut next: Vec<u64> = (0..8).map(|_| rng.below(interval)).collect();
    let mut measured = false;
    loop {
        let (at, queue) = next.iter().zip(0_u16..).min().map(|(at, q)| (Instant(*at), q)).unwrap();
        if at >= warm && !measured {
            measured = true;
            device.run(warm);
            device.left.fill((0, 0, 0));
        }
        if at >= end {
            device.run(end);
            return device;
        }
        device.run(at);
        device.submit(queue, Meta::new(1212));
        // Half an interval of jitter around the beat.
        next[usize::from(queue)] += interval * 3 / 4 + rng.below(interval / 2);
    }
}

/// Returns Mbit/s, and the mean wait in microseconds, by class.
fn results(device: &Device) -> Vec<(f64, f64)> {
    let of = |(packets, sum, _): &(u64, u64, u64)| {
        (*packets as f64 * 1212.0 * 8.0 / 200_000.0, *sum as f64 / *packets as f64 / 1e3)
    };
    device.left.iter().map(of).collect()
}

#[test]
fn strict_classes_in_the_device_wait_for_nobody() {
    let classes: Vec<ClassConfig> = (0..8)
        .map(|ring| ClassConfig::new(1, ring, if ring < 6 { Service::Ets(16) } else { Service::Strict }))
        .collect();
    let device = published(LineConfig::classes(8, &classes));
    let results = results(&device);
    for (rate, wait) in &results[..6] {
        // Published: 400 to 401 Mbit/s, 24.23 to 24.27 ms.
        assert!((rate - 400.8).abs() < 2.0, "{results:?}");
        assert!((wait / 24_240.0 - 1.0).abs() < 0.03, "{results:?}");
    }
    for (rate, wait) in &results[6..] {
        // Published: 556 Mbit/s, 67 us, without a figure for the device's part.
        assert!((rate - 554.0).abs() < 2.0 && *wait < 100.0, "{results:?}");
    }
    assert!(device.left[6..].iter().all(|l| l.2 < 100_000), "{:?}", device.left);
}

/// The same rings and queues without classes in the device: the effect of the classes is not an
/// effect of the rings.
#[test]
fn without_classes_in_the_device_all_wait_alike() {
    let device = published(LineConfig::round_robin(8));
    let results = results(&device);
    for (rate, wait) in &results {
        // 3513 / 8, and 1000 packets at that.
        assert!((rate - 439.1).abs() < 2.0, "{results:?}");
        assert!((wait / 22_080.0 - 1.0).abs() < 0.03, "{results:?}");
    }
}

/// Runs four full rings at 1 Gbit/s, units of four segments, and `rough` above each. Returns the
/// mean and the greatest wait in ns of control segments, a new one in each ring each millisecond.
fn control_waits(ring: u32, bql: bool) -> [u64; 2] {
    let config = WireConfig {
        rate: Rate::from_bits(1_000_000_000),
        ring,
        rings: 4,
        completion: Completion::Every { packets: 4, within: Nanos::from_micros(50) },
        ..WireConfig::default()
    };
    let mut device = Device::with(config, bql, "rough", &["limit", "100", "bytes", "10mb"]);
    let unit = Meta::new(66 + 4 * 1448).gso(66, 1448);
    let mut control = Meta::new(66);
    control.tcp_control = true;
    for ms in 0..1_000_u64 {
        for tenth in 0..10 {
            device.run(Instant::from_micros(1_000 * ms + 100 * tenth));
            for queue in 0..4 {
                while device.paths[usize::from(queue)].backlog().packets < 50 {
                    device.submit(queue, unit);
                }
                if tenth == u64::from(queue) {
                    device.submit(queue, control);
                }
            }
        }
        if ms == 200 {
            device.control = (0, 0, 0);
        }
    }
    let (packets, sum, max) = device.control;
    assert!(packets > 3000);
    [sum / packets, max]
}

/// Below the queue no packet has precedence: a control segment waits for the units in its ring,
/// each of which waits for a unit of each other ring, and so in proportion to the ring; unless a
/// byte limit is below.
#[test]
fn control_segments_wait_as_long_as_the_ring_is_deep() {
    // A unit: four segments of 1514 + 24 bytes.
    let unit = 4 * 1538 * 8;
    let waits = [64, 128, 256, 512].map(|ring| (u64::from(ring), control_waits(ring, false)));
    for (ring, [mean, max]) in waits {
        // The units ahead: the ring less its own place, and the unit on the line of each.
        assert!(max <= (ring + 1) * 4 * unit, "{waits:?}");
        assert!(mean * 10 >= ring * 4 * unit * 8, "{waits:?}");
    }
    let [few, .., many] = waits.map(|(_, [mean, _])| mean as f64);
    assert!((7.5..8.5).contains(&(many / few)), "{waits:?}");
    let [mean, max] = control_waits(512, true);
    assert!(mean < waits[3].1[0] / 20 && max < waits[3].1[0] / 10, "{mean} {max} {waits:?}");
}
