//! The jobs of qdiscs without classes of their own: a packet is queued, and another one leaves.

use txweir_core::base::rng::Rng;
use txweir_core::{Ecn, Env, Instant, Nanos, PathConfig, Role, TxPath};

use super::path::{
    BURST, BURST_TIME, By, Run, STANDING_TIME, bursts, bursts_by, bursts_of, made, made_on, path,
};

pub(super) fn idle(bql: bool) -> Run {
    path("pfifo", "", 1024, bql, 0, vec![(0, 1)])
}

pub(super) fn fifo() -> Run {
    path("pfifo", "", 1024, true, 64, vec![(0, 1)])
}

pub(super) fn prio(bands: u32) -> Run {
    let map: String = (0..16).map(|i| format!(" {}", i % bands)).collect();
    path(
        "prio",
        &format!("bands {bands} priomap{map}"),
        4096,
        true,
        256,
        draw(1 << 16, |r| (r.below(16) as u32, 0)),
    )
}

/// Runs packets of 64 bytes through cake at a rate at which a burst leaves before the next one
/// comes. The job runs every step of cake but the wait.
pub(super) fn cake() -> Run {
    let flows = draw(1 << 16, |r| (0, r.below(1024) as u32));
    path("cake", "bandwidth 400gbit memlimit 100mb rtt 100s", 8192, true, 4096, flows)
}

pub(super) fn cake_mq() -> Run {
    let flows = draw(1 << 16, |r| (0, r.below(1024) as u32));
    bursts(made_on(2, "cake_mq", "bandwidth 400gbit memlimit 100mb rtt 100s", 8192, true), 4096, flows)
}

/// Runs two classes whose gates are open at all times, of which one has both queues.
pub(super) fn taprio() -> Run {
    const OPTIONS: &str = "num_tc 2 map 0 1 queues 2@0 2@2 clockid TAI sched-entry S 3 1000000";
    let config = PathConfig {
        env: Env { queues: 4, ..Env::default() },
        pool: 1024,
        role: Role::Forwarder,
        ..PathConfig::default()
    };
    let words: Vec<&str> = OPTIONS.split(' ').collect();
    let made = TxPath::new(config).map_err(|e| e.to_string());
    let made = made.and_then(|p| p.with_qdisc("taprio", &words).map_err(|e| e.to_string()));
    let path = made.unwrap_or_else(|e| unreachable!("a benchmark's own options are right: {e}"));
    bursts(path, 64, draw(1 << 16, |r| (r.below(2) as u32, 0)))
}

pub(super) fn sfb() -> Run {
    path("sfb", "max 100 target 90", 1024, true, 64, draw(1 << 16, |r| (0, r.next_u64() as u32)))
}

pub(super) fn hhf() -> Run {
    // Every second packet is of one of four flows.
    let hash =
        |r: &mut Rng| if r.below(2) == 0 { r.below(4) as u32 * 0x2545_f491 } else { r.next_u64() as u32 };
    path("hhf", "", 1024, true, 64, draw(1 << 16, |r| (0, hash(r))))
}

pub(super) fn ets() -> Run {
    let map: String = (0..16).map(|i| format!(" {i}")).collect();
    let options = format!("bands 16 strict 4 quanta 1000 1500 3000 6000 priomap{map}");
    path("ets", &options, 4096, true, 256, draw(1 << 16, |r| (r.below(16) as u32, 0)))
}

pub(super) fn fq_codel_1k(by: By) -> Run {
    let flows = draw(1 << 16, |r| (0, (r.below(1024) << 22) as u32));
    bursts_by(by, made("fq_codel", "", 8192, true), 4096, flows, |m| m)
}

pub(super) fn fq_codel_100k(by: By) -> Run {
    let mut rng = Rng::new(2);
    let hashes: Vec<u32> = (0..100_000).map(|_| rng.next_u64() as u32).collect();
    let flows = draw(1 << 20, |r| (0, hashes[r.below(100_000) as usize]));
    let path = made("fq_codel", "flows 65536 limit 1000000 memory_limit 1gb", 500_000, true);
    bursts_by(by, path, 400_000, flows, |m| m)
}

pub(super) fn fq_pie_1k() -> Run {
    let flows = draw(1 << 16, |r| (0, (r.below(1024) << 22) as u32));
    path("fq_pie", "", 8192, true, 4096, flows)
}

pub(super) fn pie() -> Run {
    path("pie", "limit 1000", 1024, true, 64, vec![(0, 1)])
}

pub(super) fn dualpi2() -> Run {
    // One sender in two is scalable: one bit of the hash says so.
    let packets = draw(1 << 16, |r| (0, r.next_u64() as u32));
    bursts_of(made("dualpi2", "limit 1000", 1024, true), 64, packets, |m| {
        let ecn = if m.hash & 1 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
        m.ecn(ecn)
    })
}

pub(super) fn sfq_1k() -> Run {
    let flows = draw(1 << 16, |r| (0, (r.below(1024) << 22) as u32));
    path("sfq", "limit 20000 flows 1024 divisor 1024", 8192, true, 4096, flows)
}

pub(super) fn rough() -> Run {
    // One packet in four is a control segment: one bit of the hash says so.
    let packets = draw(1 << 16, |r| (0, r.next_u64() as u32));
    bursts_of(made("rough", "limit 1000", 4096, true), 256, packets, |mut m| {
        m.tcp_control = m.hash & 3 == 0;
        m
    })
}

pub(super) fn skbprio() -> Run {
    path("skbprio", "limit 1000", 4096, true, 256, draw(1 << 16, |r| (r.below(64) as u32, 0)))
}

pub(super) fn tbf() -> Run {
    path("tbf", "rate 1tbit burst 1mb limit 100mb", 1024, true, 64, vec![(0, 1)])
}

pub(super) fn tbf_shared() -> Run {
    path("tbf", "rate 1tbit burst 1mb limit 100mb shared up", 1024, true, 64, vec![(0, 1)])
}

pub(super) fn cbs() -> Run {
    path("cbs", "", 1024, true, 64, vec![(0, 1)])
}

/// Runs packets whose launch times lie one burst behind the burst with which they leave, in random
/// order within it.
pub(super) fn etf() -> Run {
    let packets = draw(1 << 16, |r| (0, r.below(BURST_TIME.0) as u32));
    let mut launch = Instant::ZERO + STANDING_TIME + BURST_TIME + BURST_TIME;
    let mut burst = 0;
    bursts_of(made("etf", "clockid CLOCK_TAI delta 1000000", 4096, true), 1024, packets, move |mut m| {
        m.txtime = launch + Nanos(m.hash.into());
        burst = (burst + 1) % BURST;
        if burst == 0 {
            launch += BURST_TIME;
        }
        m
    })
}

pub(super) fn choke() -> Run {
    // Flows that are drawn for each other seldom.
    let flows = draw(1 << 16, |r| (0, r.next_u64() as u32));
    path("choke", "limit 1000 min 20 max 900 bandwidth 10gbit avpkt 64 burst 30", 1024, true, 64, flows)
}

pub(super) fn gred() -> Run {
    let queue = |number| {
        format!(" vq {number} limit 1mb min 100kb max 300kb avpkt 64 burst 3000 prio {}", number + 1)
    };
    let options = format!("setup vqs 4 default 3 grio limit 1mb{}", (0..4).map(queue).collect::<String>());
    path("gred", &options, 1024, true, 64, vec![(0, 1)])
}

pub(super) fn plug() -> Run {
    path("plug", "limit 1mb release_indefinite", 1024, true, 64, vec![(0, 1)])
}

pub(super) fn red() -> Run {
    path("red", "limit 1mb min 100kb max 300kb avpkt 64 burst 3000", 1024, true, 64, vec![(0, 1)])
}

pub(super) fn netem() -> Run {
    // A packet is due 10 bursts after its own, and leaves after 32.
    path("netem", "delay 1us limit 2000", 4096, true, 1024, vec![(0, 1)])
}

pub(super) fn draw(n: usize, mut f: impl FnMut(&mut Rng) -> (u32, u32)) -> Vec<(u32, u32)> {
    let mut rng = Rng::new(1);
    (0..n).map(|_| f(&mut rng)).collect()
}
