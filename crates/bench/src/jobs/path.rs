//! Bursts of packets through a path of the engine: most jobs time this.

use std::hint::black_box;

use txweir_core::base::rng::Rng;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::{DqlConfig, Env, Instant, Meta, Nanos, PathConfig, Rate, Role, TxPath};

/// Packets per burst, as a device driver's poll would hand them over.
pub const BURST: u64 = 32;

/// Time from burst to burst: short enough that no standing queue here looks old to CoDel.
pub(super) const BURST_TIME: Nanos = Nanos(100);

/// Time before the first burst: longer than any job's delay, and short to CoDel.
pub(super) const STANDING_TIME: Nanos = Nanos(10_000);

/// Way in which a job gives its packets to the path.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// Packet by packet: `submit`.
    One,
    /// All of a burst together, after they were made: `submit_burst`.
    Burst,
}

/// A job: enqueue and dequeue this many packets.
pub(super) type Run = Box<dyn FnMut(u64)>;

/// A device that takes every packet while it is open and has finished it by the next reap.
#[derive(Default)]
pub(super) struct Sink {
    open: bool,
    packets: u32,
    bytes: u32,
    /// Flow hashes of the packets sent since this was last emptied, if they are asked for.
    hashes: Option<Vec<u32>>,
}

impl TxQueue for Sink {
    type Frame = u64;
    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        if self.open { want } else { 0 }
    }
    #[inline]
    fn push(&mut self, frame: u64, m: &Meta) {
        black_box(frame);
        self.packets += 1;
        self.bytes += m.wire_len;
        if let Some(hashes) = &mut self.hashes {
            hashes.push(m.hash);
        }
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    #[inline]
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        if self.packets > 0 {
            sink(Completed { packets: self.packets, bytes: self.bytes, frame: None });
            (self.packets, self.bytes) = (0, 0);
        }
    }
}

/// Builds a path that holds `standing` packets between bursts. Packets take priority and flow hash
/// from `kinds` in turn; the number of kinds is a power of two.
pub(super) fn path(
    kind: &str,
    options: &str,
    pool: usize,
    bql: bool,
    standing: u64,
    kinds: Vec<(u32, u32)>,
) -> Run {
    bursts(made(kind, options, pool, bql), standing, kinds)
}

/// Builds a path with this root.
pub(super) fn made(kind: &str, options: &str, pool: usize, bql: bool) -> TxPath<u64> {
    made_on(1, kind, options, pool, bql)
}

/// Builds a path with this root for a device of `queues` queues.
pub(super) fn made_on(queues: u16, kind: &str, options: &str, pool: usize, bql: bool) -> TxPath<u64> {
    let config = PathConfig {
        // No packet takes a nanosecond of it.
        env: Env { link_rate: Some(Rate::from_bits(1 << 50)), queues, ..Env::default() },
        pool,
        bql: bql.then(DqlConfig::default),
        role: Role::Forwarder,
        ..PathConfig::default()
    };
    let words: Vec<&str> = options.split_whitespace().collect();
    let made = TxPath::new(config).map_err(|e| e.to_string());
    match made.and_then(|p| p.with_qdisc(kind, &words).map_err(|e| e.to_string())) {
        Ok(path) => path,
        Err(e) => unreachable!("a benchmark's own options are right: {e}"),
    }
}

/// Runs bursts through a path: see `path`.
pub(super) fn bursts(path: TxPath<u64>, standing: u64, kinds: Vec<(u32, u32)>) -> Run {
    bursts_of(path, standing, kinds, |m| m)
}

/// Runs bursts of packets that `shape` completes.
pub(super) fn bursts_of(
    path: TxPath<u64>,
    standing: u64,
    kinds: Vec<(u32, u32)>,
    shape: impl FnMut(Meta) -> Meta + 'static,
) -> Run {
    bursts_by(By::One, path, standing, kinds, shape)
}

/// Runs bursts that are submitted in this way.
pub(super) fn bursts_by(
    by: By,
    mut path: TxPath<u64>,
    standing: u64,
    kinds: Vec<(u32, u32)>,
    mut shape: impl FnMut(Meta) -> Meta + 'static,
) -> Run {
    let mut metas = Vec::with_capacity(BURST as usize);
    let mut dev = Sink::default();
    let mut next = {
        let mut i = 0usize;
        move || {
            let (priority, hash) = kinds[i & (kinds.len() - 1)];
            i += 1;
            shape(Meta::new(64).priority(priority).hash(hash))
        }
    };
    let mut now = Instant::ZERO;
    for frame in 0..standing {
        let _ = path.submit(now, frame, next(), &mut dev);
    }
    dev.open = true;
    // Delayed packets are due by then.
    now += STANDING_TIME;
    Box::new(move |packets| {
        for burst in 0..packets / BURST {
            now += BURST_TIME;
            match by {
                By::One => {
                    for i in 0..BURST {
                        let _ = path.submit(now, burst + i, next(), &mut dev);
                    }
                }
                By::Burst => {
                    metas.clear();
                    metas.extend((0..BURST).map(|_| next()));
                    black_box(path.submit_burst(now, &metas, &mut (burst..), &mut dev, |_, _| {}));
                }
            }
            loop {
                let over = path.backlog().packets.saturating_sub(standing);
                let _ = path.drain(now, over as u32, &mut dev);
                path.reap(now, &mut dev, |_| {});
                if over == 0 {
                    break;
                }
            }
        }
        assert_eq!(path.backlog().packets, standing, "{} packets were lost", path.cx().dropped().packets);
    })
}

/// Runs `flows` flows, each at its rate with two packets waiting: for each packet that leaves, the
/// flow gets another. Time advances by the duration of a burst at 10 million packets a second.
pub(super) fn paced(flows: u32, by: By) -> Run {
    const STEP: Nanos = Nanos(100 * BURST);
    let interval = u64::from(flows) * 100;
    let rate = 64 * 1_000_000_000 / interval;
    let mask = flows.next_power_of_two() - 1;
    let options =
        format!("maxrate {rate}bps low_rate_threshold {rate}bps orphan_mask {mask} limit {}", 2 * flows);
    let words: Vec<&str> = options.split(' ').collect();
    let config = PathConfig {
        pool: 2 * flows as usize + 1024,
        bql: None,
        role: Role::Forwarder,
        ..PathConfig::default()
    };
    let made = TxPath::new(config).map_err(|e| e.to_string());
    let mut path = match made.and_then(|p| p.with_qdisc("fq", &words).map_err(|e| e.to_string())) {
        Ok(path) => path,
        Err(e) => unreachable!("a benchmark's own options are right: {e}"),
    };
    let mut dev = Sink { open: true, hashes: Some(Vec::new()), ..Sink::default() };
    let mut now = Instant::from_secs(1);
    // The flows begin one after the other, in random order, over one interval.
    let mut order: Vec<u32> = (0..flows).collect();
    let mut rng = Rng::new(4);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let (mut again, mut metas) = (Vec::new(), Vec::new());
    let mut begin = order.into_iter();
    let mut total = 0;
    Box::new(move |packets| {
        let end = total + packets;
        while total < end {
            now += STEP;
            for hash in begin.by_ref().take(BURST as usize) {
                for _ in 0..2 {
                    let _ = path.submit(now, 0, Meta::new(64).hash(hash), &mut dev);
                }
            }
            let _ = path.drain(now, u32::MAX, &mut dev);
            path.reap(now, &mut dev, |_| {});
            if let Some(hashes) = &mut dev.hashes {
                std::mem::swap(hashes, &mut again);
            }
            total += again.len() as u64;
            let shapes = again.drain(..).map(|hash| Meta::new(64).hash(hash));
            match by {
                By::One => shapes.for_each(|m| {
                    let _ = path.submit(now, 0, m, &mut dev);
                }),
                By::Burst => {
                    metas.clear();
                    metas.extend(shapes);
                    black_box(path.submit_burst(now, &metas, &mut (0..), &mut dev, |_, _| {}));
                }
            }
        }
        assert_eq!(path.cx().dropped().packets, 0, "no packet is lost");
    })
}
