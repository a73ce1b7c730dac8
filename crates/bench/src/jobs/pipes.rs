//! The jobs that `bench/peers` runs beside another program's: hierarchies of the shape of DPDK's
//! rte_sched, the admission list alone, and meters.

use std::hint::black_box;

use txweir_core::base::rng::Rng;
use txweir_core::base::units::RateMul;
use txweir_core::law::bucket::{Buckets, Spent};
use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant, Nanos, Rate, TxPath};
use txweir_handoff::list;

use super::classes::with_classes;
use super::path::{BURST, BURST_TIME, By, Run, STANDING_TIME, Sink, bursts_by};

/// Queues of a pipe: 12 strict ones, and 4 that share, as in rte_sched.
const BANDS: u16 = 16;

/// The scheduler of the jobs.
#[derive(Clone, Copy)]
pub(super) enum Over {
    /// htb with a class for each pipe, which never is out of tokens, and below it ets with 16
    /// queues: the tree of rte_sched.
    HtbEts,
    /// htb with one queue for each pipe.
    Htb,
    /// drr with one queue for each pipe: no rates.
    Drr,
}

/// Runs packets of random pipes and queues while `standing` wait.
pub(super) fn pipes(over: Over, pipes: u16, standing: u64) -> Run {
    let path = tree(over, pipes, standing as usize + 1024); // a job's own number
    let major = path.tree().root().handle().major();
    let mut rng = Rng::new(1);
    let draw = |_| (rng.below(BANDS.into()) as u32, rng.below(pipes.into()) as u32);
    let packets = (0..1 << 20).map(draw).collect();
    bursts_by(By::Burst, path, standing, packets, move |mut m| {
        m.class = Handle::new(major, 1 + m.hash as u16);
        m
    })
}

fn tree(over: Over, pipes: u16, pool: usize) -> TxPath<u64> {
    // A turn is one frame of Ethernet.
    const HTB: &[&str] = &["rate", "1tbit", "burst", "1gb", "cburst", "1gb", "quantum", "1514"];
    const DRR: &[&str] = &["quantum", "1514"];
    const ETS: &str = "bands 16 strict 12 priomap 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
    let (kind, options) = match over {
        Over::HtbEts | Over::Htb => ("htb", HTB),
        Over::Drr => ("drr", DRR),
    };
    let mut path = with_classes(kind, pool, pipes, |_| (0, options));
    if matches!(over, Over::HtbEts) {
        let major = path.tree().root().handle().major();
        let bands: Vec<&str> = ETS.split(' ').collect();
        path.configure(Instant::ZERO, &mut Sink::default(), |tree, cx| {
            for minor in 1..=pipes {
                let mut tree = tree.edit(cx);
                let made = tree.add(Handle::new(major, minor), None, "ets", &mut Words::new(&bands));
                if let Err(e) = made {
                    unreachable!("a benchmark's own qdiscs are right: {e}");
                }
            }
        });
    }
    path
}

/// Runs the admission list on one thread: `burst` items in, and the same number out, while 256
/// wait.
pub(super) fn listed(burst: u64) -> Run {
    let (put, mut take) = list::<u64, ()>(1024, false);
    for i in 0..256 {
        let _ = put.push(i, None);
    }
    Box::new(move |items| {
        for _ in 0..items / burst {
            if burst == 1 {
                let _ = black_box(put.push(0, None).is_ok());
            } else {
                let _ = black_box(put.push_burst(burst, &mut (0..burst)));
            }
            for _ in 0..burst {
                black_box(take.pop(&mut ()));
            }
        }
    })
}

/// Runs packets past `count` meters of two rates, which conform, in random order.
pub(super) fn meters(count: u64) -> Run {
    let peak = (RateMul::new(Rate(2_000_000_000)), 50_000);
    let buckets = Buckets::new(RateMul::new(Rate(1_000_000_000)), 100_000, Some(peak));
    let mut spent = vec![Spent::default(); count as usize]; // a job's own number
    let (mut rng, mut now) = (Rng::new(1), Instant::ZERO + STANDING_TIME);
    Box::new(move |packets| {
        for _ in 0..packets / BURST {
            now += BURST_TIME + Nanos(BURST);
            for _ in 0..BURST {
                let at = rng.below(count) as usize;
                black_box(buckets.take(&mut spent[at], now, 64));
            }
        }
    })
}
