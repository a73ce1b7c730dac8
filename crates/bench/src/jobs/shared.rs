//! A rate that queues share: the qdisc, and its law alone, on one thread and on two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use txweir_core::law::lease::{Lease, SharedRate};
use txweir_core::{Bytes, Instant, Rate};

use super::path::{BURST, BURST_TIME, Run, STANDING_TIME};
use crate::common::default_cpu;

/// 1 Tbit/s.
const RATE: Rate = Rate(125_000_000_000);

/// Takes leases for bursts of 64-byte packets, in the queue's own time. After a refusal the time
/// advances to the instant that the law named.
fn bursts_of(lease: &mut Lease, now: &mut Instant, packets: u64) {
    for _ in 0..packets / BURST {
        *now += BURST_TIME;
        for i in 0..BURST {
            while let Err(t) = lease.ask(64, (BURST - i) * 64, *now) {
                *now = t;
            }
            lease.spend(64);
        }
        lease.rest();
    }
}

fn joined(shared: &Arc<SharedRate>) -> Lease {
    match Lease::join(Arc::clone(shared)) {
        Some(lease) => lease,
        None => unreachable!("no thread changes the rate"),
    }
}

/// Runs bursts through the law alone. If `other` is set, another thread on another processor does
/// the same beside it.
pub(super) fn lease(other: bool) -> Run {
    let shared = Arc::new(SharedRate::new(RATE, Bytes(1_000_000)));
    let (mut mine, mut now) = (joined(&shared), Instant::ZERO + STANDING_TIME);
    // Runs of this thread, counted at their begin and at their end: while the number is odd, the
    // other thread is to be busy.
    let turn = Arc::new(AtomicU64::new(0));
    let thread = other.then(|| {
        let (mut theirs, turn) = (joined(&shared), Arc::clone(&turn));
        std::thread::spawn(move || {
            let processors = default_cpu() + 1;
            let mut pinned = false;
            let mut now = Instant::ZERO + STANDING_TIME;
            loop {
                if turn.load(Ordering::Relaxed) % 2 == 0 {
                    std::thread::park();
                    continue;
                }
                // The first thread has chosen its processor by now; this takes the processor before
                // that, or the last before the first.
                pinned =
                    pinned || txweir_device::cpu::pin((default_cpu() + processors - 1) % processors).is_ok();
                bursts_of(&mut theirs, &mut now, 64 * BURST);
            }
        })
    });
    Box::new(move |packets| {
        turn.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = &thread {
            thread.thread().unpark();
        }
        bursts_of(&mut mine, &mut now, packets);
        turn.fetch_add(1, Ordering::Relaxed);
    })
}
