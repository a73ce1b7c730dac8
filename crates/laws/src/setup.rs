//! The start of a world, and the events of a run in it.

use txweir_core::base::rng::Rng;
use txweir_core::{DqlConfig, DropReason, Env, Instant, Nanos, Role, Unit};

use crate::ops::Op;
use crate::options::{chance, pick};

/// Counts of the events of a run. They show that the run put each law to the test.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub sent: u64,
    pub direct: u64,
    pub dropped: [u64; DropReason::COUNT],
    pub marked: u64,
    pub full: u64,
    pub woken: u64,
    pub cut: u64,
    pub at: u64,
    pub followed: u64,
    pub early: u64,
    pub device: u64,
    pub more: u64,
    pub changed: u64,
    pub refused: u64,
    pub grafted: u64,
    pub deleted: u64,
    /// Numbers of swaps, of packets that stayed in place, of packets that moved, and of
    /// super-packets that a swap cut.
    pub swapped: u64,
    pub kept: u64,
    pub moved: u64,
    pub swap_cut: u64,
    /// Size tables that were set or removed.
    pub stabs: u64,
    /// Classes that were added, changed, deleted.
    pub classes_added: u64,
    pub classes_changed: u64,
    pub classes_deleted: u64,
    /// Operations of all sorts.
    pub ops: u64,
    pub purged: u64,
    /// Transmit queues that were stopped, and `Device` answers because of one.
    pub queues_stopped: u64,
    pub depth: u64,
    pub stops: u64,
    pub wakes: u64,
}

/// The start of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    pub env: Env,
    pub role: Role,
    pub pool: usize,
    pub bql: Option<DqlConfig>,
    pub slots: u32,
    /// Time of the first operation.
    pub start: Instant,
    /// The kind under test, to be grafted below others.
    pub kind: &'static str,
    /// Operations that make the tree below the root.
    pub nest: Vec<Op>,
}

impl Setup {
    /// Draws a random start.
    pub fn random(kind: &'static str, rng: &mut Rng) -> Self {
        let unit = *pick(rng, &[Unit::Bytes, Unit::Packets]);
        let limit_max = if chance(rng, 1, 2) { DqlConfig::default().limit_max } else { 40_000 };
        let bql = DqlConfig { unit, limit_max, hold_time: Nanos(rng.below(1 << 30)), ..DqlConfig::default() };
        let nest = match rng.below(3) {
            0 => 0,
            _ => rng.below(12),
        };
        let mut env = Env {
            mtu: *pick(rng, &[68, 1500, 1500, 9000]),
            tx_queue_len: *pick(rng, &[1, 5, 50, 1000]),
            seed: rng.next_u64(),
            ..Env::default()
        };
        // Several queues, so that every kind can be anywhere.
        env.queues = [2, 4, 5, 9][(env.seed % 4) as usize];
        Self {
            env,
            role: *pick(rng, &[Role::Origin, Role::Forwarder]),
            pool: *pick(rng, &[1, 20, 500, 4000]),
            bql: chance(rng, 2, 3).then_some(bql),
            slots: *pick(rng, &[1, 8, 64, 1000]),
            start: Instant::from_secs(1),
            kind,
            nest: (0..nest)
                .map(|_| Op::Graft { place: rng.next_u64() as u32 & 0xffff, seed: rng.next_u64() })
                .collect(),
        }
    }
}
