//! A tin: its flows, its share of the link, its law, and its counters.

use crate::base::env::Env;
use crate::base::time::Nanos;
use crate::base::units::Rate;
use crate::law::cobalt::CobaltParams;
use crate::qdisc::cake::autorate::{lopsided, mean};
use crate::qdisc::cake::flows::{BULK, DECAYING, Flows, SPARSE};
use crate::qdisc::cake::shaper::{Pace, Threshold};

crate::stats! {
    /// Counters of a tin.
    pub struct TinStats {
        /// The rate below which it goes before others, bytes/s; 0: there is no shaping.
        threshold_rate: u64 [falls] [of(Rate)],
        /// Bytes that came into it.
        sent_bytes: u64 [of(Bytes)],
        /// Bytes that wait in it.
        backlog_bytes: u64 [falls] [of(Bytes)],
        /// Standing delay that is acceptable here, microseconds: at least one and a half frames.
        target_us: u64 [falls] [of(Micros)],
        /// Time over which it must stay above, microseconds.
        interval_us: u64 [falls] [of(Micros)],
        /// Delay of packets that left it, microseconds: a mean that rises quickly and falls slowly.
        peak_delay_us: u64 [falls] [of(Micros)],
        /// Delay of packets that left it, microseconds: a mean that moves slowly.
        avg_delay_us: u64 [falls] [of(Micros)],
        /// Delay of packets that left it, microseconds: a mean that falls quickly and rises slowly,
        /// the delay of flows that send little.
        base_delay_us: u64 [falls] [of(Micros)],
        /// Packets that came into it.
        sent_packets: u64,
        /// Packets whose flow was in another queue of its set than that of its hash.
        way_indirect_hits: u32,
        /// Flows that took a queue of which they were not the last user.
        way_misses: u32,
        /// Flows that took over a queue in use, because all of their set were.
        way_collisions: u32,
        /// Packets dropped from it: by the law, or because there was no room.
        drops: u64,
        /// Packets marked instead of dropped.
        ecn_mark: u64,
        /// Acknowledgements that the filter dropped.
        ack_drops: u64,
        /// Flows that send little, and those that are empty and remembered.
        sparse_flows: u32 [falls],
        /// Flows that have used up a turn.
        bulk_flows: u32 [falls],
        /// Flows that BLUE drops from.
        unresponsive_flows: u32 [falls],
        /// Largest packet that came into it, bytes.
        max_pkt_len: u32 [falls] [of(Bytes)],
        /// Bytes that a flow may send per turn, before the division by its host's flows.
        flow_quantum: u32 [falls] [of(Bytes)],
    }
}

/// Bytes that a flow may send per turn while there is no shaping, and the most that it ever may.
const QUANTUM_MAX: u64 = 1514;
/// Least bytes of a turn: a large packet then takes several turns, and small ones pass it.
const QUANTUM_MIN: u64 = 300;
/// A turn takes at least a 4096th of a second.
const QUANTUM_SHIFT: u32 = 12;

/// One class of traffic.
#[derive(Debug)]
pub struct Tin {
    /// Its flows.
    pub flows: Flows,
    /// Schedule of its share.
    pub threshold: Threshold,
    /// Its law.
    pub law: CobaltParams,
    /// Bytes that it may still send in its turn, while there is no shaping.
    pub deficit: i64,
    /// Bytes of its turn.
    pub turn: u16,
    /// Bytes of a flow's turn.
    pub quantum: u32,
    /// Counters of events; `counted` fills in the rest.
    pub stats: TinStats,
    /// Means of the delay, ns: peak, average, base.
    delays: [u64; 3],
}

impl Tin {
    /// Returns a tin without a share.
    pub fn new(env: &Env) -> Self {
        Self {
            flows: Flows::new(env.lazy),
            threshold: Threshold::default(),
            law: CobaltParams { strict_linux: env.strict_linux, ..CobaltParams::default() },
            deficit: 0,
            turn: 0,
            quantum: 0,
            stats: TinStats::default(),
            delays: [0; 3],
        }
    }

    /// Gives it a rate, and a law for frames of `mtu` bytes at that rate.
    pub fn configure(&mut self, rate: Rate, turn: u16, mtu: u32, target: Nanos, interval: Nanos) {
        self.set_pace(rate);
        self.turn = turn;
        let mtu_time = self.threshold.pace.time(mtu).0;
        let slow = (mtu_time.saturating_mul(3) / 2).max(target.0);
        let interval = interval.0.saturating_add(slow - target.0).max(slow.saturating_mul(2));
        self.law = CobaltParams { target: slow, interval, mtu_time, ..self.law };
    }

    /// Gives it the pace of a rate and the turns of flows that go with it, and leaves its law as it
    /// is.
    pub fn set_pace(&mut self, rate: Rate) {
        self.threshold.pace = Pace::new(rate);
        self.quantum = match rate.0 {
            0 => QUANTUM_MAX,
            rate => (rate >> QUANTUM_SHIFT).clamp(QUANTUM_MIN, QUANTUM_MAX),
        } as u32; // at most QUANTUM_MAX
        self.stats.threshold_rate = rate.0;
    }

    /// Books the delay of a packet that leaves, in nanoseconds.
    #[inline]
    pub fn waited(&mut self, delay: u64) {
        let [peak, average, base] = self.delays;
        self.delays = [
            lopsided(peak, delay, delay > peak),
            mean(average, delay, 8),
            lopsided(base, delay, delay < base),
        ];
    }

    /// Returns its counters.
    pub fn counted(&self) -> TinStats {
        let [peak, average, base] = self.delays.map(|ns| ns / 1000);
        let [sparse, bulk, decaying] = [SPARSE, BULK, DECAYING].map(|i| self.flows.counts[i]);
        TinStats {
            target_us: self.law.target / 1000,
            interval_us: self.law.interval / 1000,
            peak_delay_us: peak,
            avg_delay_us: average,
            base_delay_us: base,
            way_indirect_hits: self.flows.ways.indirect,
            way_misses: self.flows.ways.misses,
            way_collisions: self.flows.ways.collisions,
            sparse_flows: sparse + decaying,
            bulk_flows: bulk,
            flow_quantum: self.quantum,
            ..self.stats
        }
    }
}

/// Returns the bytes that wait in all tins.
pub fn backlog_of(tins: &[Tin]) -> u64 {
    tins.iter().map(|tin| tin.stats.backlog_bytes).sum()
}
