//! `TxPath::submit_burst`: the same as `submit` packet by packet, with memory asked for ahead or
//! not.

use txweir_core::base::rng::Rng;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::txpath::PathStats;
use txweir_core::{Admitted, Instant, Meta, Nanos, PathConfig, Role, TxPath};

/// More packets than those from which on memory is asked for ahead.
const STANDING: usize = 10_000;

/// The packets of a run: frames in order of departure, dropped frames, counters.
type Outcome = (Vec<u64>, Vec<u64>, PathStats);

/// Fills a path with `standing` packets of many flows, then runs bursts of uneven length.
fn run(kind: &str, options: &str, standing: usize, whole: bool) -> Outcome {
    let config = PathConfig { pool: 16_384, role: Role::Forwarder, ..PathConfig::default() };
    let words: Vec<&str> = options.split_whitespace().collect();
    let mut path = TxPath::new(config).unwrap().with_qdisc(kind, &words).unwrap();
    let (mut dev, mut rng, mut now) = (VecDevice::with_slots(0), Rng::new(5), Instant::from_secs(1));
    let mut frame = 0;
    for turn in 0..300_u32 {
        let len = if turn == 0 { standing } else { 1 + rng.below(70) as usize };
        let metas: Vec<Meta> = (0..len)
            .map(|_| {
                let size = 64 + rng.below(1400) as u32;
                Meta::new(size).flow(rng.below(12_000)).priority(rng.below(16) as u32)
            })
            .collect();
        let mut frames = frame..;
        if whole {
            assert_eq!(path.submit_burst(now, &metas, &mut frames, &mut dev, |_, _| {}), len);
        } else {
            for m in &metas {
                let _ = path.submit(now, frames.next().unwrap(), *m, &mut dev);
            }
        }
        frame += len as u64;
        dev.set_slots(40);
        now += Nanos(1_000_000);
        let _ = path.drain(now, 64, &mut dev);
        dev.finish(40);
        path.reap(now, &mut dev, |_| {});
    }
    let dropped = dev.discarded().iter().map(|(frame, _)| *frame).collect();
    (dev.sent().to_vec(), dropped, *path.stats())
}

#[test]
fn a_burst_is_its_packets_one_by_one() {
    for (kind, options) in [
        ("pfifo", "limit 12000"),
        ("prio", ""),
        ("fq_codel", "limit 12000"),
        ("fq_codel", "flows 16384 limit 12000"),
        ("fq_pie", "flows 16384 limit 12000"),
        ("fq", "limit 12000 orphan_mask 16383"),
        ("fq", "limit 12000 orphan_mask 16383 maxrate 1mbit"),
        ("pfifo_fast", ""),
        ("ets", "bands 4 strict 1"),
        ("sfq", "limit 12000"),
        ("cake", ""),
    ] {
        for standing in [3, STANDING] {
            let (sent, dropped, stats) = run(kind, options, standing, true);
            let one_by_one = run(kind, options, standing, false);
            assert!(sent.len() > 1000, "{kind} {options}: {} packets left", sent.len());
            assert_eq!((&sent, &dropped, &stats), (&one_by_one.0, &one_by_one.1, &one_by_one.2), "{kind}");
        }
    }
}

#[test]
fn a_full_queue_and_a_missing_frame_end_a_burst() {
    let mut path = TxPath::new(PathConfig::default()).unwrap().with_qdisc("pfifo", &["limit", "3"]).unwrap();
    let mut dev = VecDevice::with_slots(0);
    let metas = [Meta::new(100); 6];
    let mut frames = 10..20;
    let mut fates = Vec::new();
    let taken = path.submit_burst(Instant::ZERO, &metas, &mut frames, &mut dev, |_, a| fates.push(a));
    assert_eq!((taken, frames.next()), (3, Some(14)), "the fourth came back, and no further one was taken");
    assert_eq!(fates, [Admitted::Queued, Admitted::Queued, Admitted::Queued, Admitted::Full(13)]);
    let mut path = TxPath::new(PathConfig::default()).unwrap().with_qdisc("pfifo", &[]).unwrap();
    let taken = path.submit_burst(Instant::ZERO, &metas, &mut [1, 2].into_iter(), &mut dev, |_, _| {});
    assert_eq!((taken, path.backlog().packets), (2, 2));
    assert_eq!(path.submit_burst(Instant::ZERO, &[], &mut frames, &mut dev, |_, _| {}), 0);
}
