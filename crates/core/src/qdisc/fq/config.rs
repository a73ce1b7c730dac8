//! The options and counters of fq, and the options in the form that the data path reads.

use alloc::format;

use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::time::Nanos;
use crate::base::units::{Packets, Rate};
use crate::packet::meta::Meta;
use crate::qdisc::pfifo_fast::PRIOMAP;
use crate::sched::node::band_share;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::{Mask, NanosBare, PrioMap, Triple};

crate::params! {
    /// Parameters of fq.
    pub struct Config(env)
        own ["tcpctl"]
    {
        /// Most packets that wait in each band.
        limit: Packets = Packets(10_000), keys ["limit"] @ u32 1;
        /// Most packets that wait in one flow.
        flow_limit: Packets = Packets(100), keys ["flow_limit"] @ u32 2;
        /// Half the number of flows that are kept before idle ones are forgotten; rounded up to a
        /// power of two.
        buckets: u32 = 1024, keys ["buckets"], "2 to 262144": |b| (2..=262_144).contains(b);
        /// Bits of the flow hash that distinguish flows.
        orphan_mask: Mask = Mask(1023), keys ["orphan_mask"] @ u32 10;
        /// Number of bands: there are three.
        bands: Option<u32> = None, keys ["bands"], "3": |b| b.is_none_or(|b| b == 3);
        /// Band of each priority, 0 to 2; the default is that of pfifo_fast.
        priomap: Option<PrioMap> = None, keys ["priomap"];
        /// Bytes that each band may send per turn; the default is 9:3:1.
        weights: Option<Triple> = None, keys ["weights"], "16384 to 2147483647 each": weights_in_range;
        /// Space the packets of a flow by its rate.
        pacing: bool = true, flags ["pacing" = true, "nopacing" = false] @ u32 5;
        /// Bytes that a flow may send per turn; clamped to 256 to 1048576.
        quantum: u32 = env.frame_max().saturating_mul(2), keys ["quantum"] @ u32 3;
        /// Bytes that a new flow may send in its first turn, unpaced.
        initial_quantum: u32 = env.frame_max().saturating_mul(10).min(i32::MAX as u32), keys ["initial_quantum"] @ u32 4,
            "at most 2147483647 bytes": |q| i32::try_from(*q).is_ok();
        /// Rate that no flow exceeds; none unless given.
        maxrate: Option<Rate> = None, keys ["maxrate"] @ u32 7,
            "at most 4294967295 bytes/s": |r| r.is_none_or(|r| rate_in_range(&r));
        /// Accepted for old scripts, without effect.
        defrate: Option<Rate> = None, keys ["defrate"];
        /// Highest rate at which each packet is spaced by itself; above it a quantum leaves at
        /// once.
        low_rate_threshold: Rate = Rate(68_750), keys ["low_rate_threshold"] @ u32 11,
            "at most 4294967295 bytes/s": rate_in_range;
        /// Idle time after which a flow has its quantum again.
        refill_delay: Nanos = Nanos::from_millis(40), keys ["refill_delay"] @ us32 9, "at most 4294967295us": micros_in_range;
        /// Delay beyond its launch time at which a packet is CE-marked; off unless given.
        ce_threshold: Option<Nanos> = None, keys ["ce_threshold"] @ us32 12, "at most 4294967295us": no_longer;
        /// Tolerance of a timer, in nanoseconds; without effect here.
        timer_slack: NanosBare = NanosBare(10_000), keys ["timer_slack"] @ ns32 13,
            "at most 4294967295ns": |t| t.0 <= u64::from(u32::MAX);
        /// Farthest launch time in the future.
        horizon: Nanos = Nanos::from_secs(10), keys ["horizon"] @ us32 14, "at most 4294967295us": micros_in_range;
        /// Drop packets beyond the horizon, or move their launch time to the horizon.
        horizon_drop: bool = true, flags ["horizon_drop" = true, "horizon_cap" = false] @ u8 15;
        /// Time before its launch time at which a packet is given to a device that paces itself.
        offload_horizon: Option<Nanos> = None, keys ["offload_horizon"] @ us32 18, "at most 4294967295us": no_longer;
        /// Share of departing traffic for which TCP control segments have a band before all others;
        /// none unless given (not in Linux).
        tcpctl: Option<Percent> = None, keys ["tcpctl"];
    }
}

fn micros_in_range(t: &Nanos) -> bool {
    t.0 <= u64::from(u32::MAX) * 1_000 + 999
}
fn no_longer(t: &Option<Nanos>) -> bool {
    t.as_ref().is_none_or(micros_in_range)
}
fn rate_in_range(r: &Rate) -> bool {
    r.0 <= u64::from(u32::MAX)
}
fn weights_in_range(w: &Option<Triple>) -> bool {
    w.is_none_or(|w| w.0.iter().all(|w| (WEIGHT_MIN..=i32::MAX as u32).contains(w)))
}

crate::stats! {
    /// Counters of fq.
    pub struct Stats {
        /// Flows that are known now.
        flows: u32 [falls],
        /// Known flows in which no packet waits.
        inactive: u32 [falls],
        /// Known flows that wait for their time.
        throttled_flows: u32 [falls],
        /// Packets that wait in band 0 now.
        band0_pkts: u32 [falls],
        /// Packets that wait in band 1 now.
        band1_pkts: u32 [falls],
        /// Packets that wait in band 2 now.
        band2_pkts: u32 [falls],
        /// Nanoseconds from the last packet that came or left to the earliest time that a flow
        /// waits for.
        next_packet_delay: u64 [falls] [of(Nanos)],
        /// Idle flows that were forgotten.
        gc: u64,
        /// Always 0: there is no queue for high priority beside the bands.
        highprio: u32 [falls],
        /// Packets that took the fast path: they bypassed the flows, because nothing there could
        /// leave before them.
        fastpath: u64,
        /// Times that a flow had to wait for its time.
        throttled: u64,
        /// Lateness of released flows, nanoseconds: a moving average with weight 1/8.
        latency: u64 [falls] [of(Nanos)],
        /// Packets that left later than `ce_threshold` after their time; ECN-capable ones are
        /// CE-marked.
        ce_mark: u64,
        /// Packets dropped because their flow was at `flow_limit`.
        flows_plimit: u64,
        /// Packets that would have spaced the next by more than a second.
        pkts_too_long: u64,
        /// Packets dropped because their launch time lay beyond the horizon.
        horizon_drops: u64,
        /// Packets whose launch time was brought to the horizon.
        horizon_caps: u64,
        /// Packets dropped because band 0 was at `limit`.
        band0_drops: u64,
        /// Packets dropped because band 1 was at `limit`.
        band1_drops: u64,
        /// Packets dropped because band 2 was at `limit`.
        band2_drops: u64,
    }
}

pub(super) const BANDS: usize = 3;
/// 9:3:1, in units of 64 KiB: a turn of a band covers the largest super-packet.
const WEIGHTS: [u32; BANDS] = [9 << 16, 3 << 16, 1 << 16];
/// A quarter of the smallest default: a band in debt for a packet is out of it in a few turns.
const WEIGHT_MIN: u32 = 1 << 14;
/// Most flows: 20 bits, 77 MiB. With more bits in the mask, flows are hashed into as many.
const FLOWS_MAX: u32 = 1 << 20;
/// 2^32 divided by the golden ratio (Knuth, volume 3, section 6.4): spreads any mask's values over
/// the table.
const GOLDEN: u32 = 0x9e37_79b9;

impl Config {
    /// Brings the options to one form; see `Discipline::resolve`.
    pub(super) fn resolve(&mut self, kind: &'static str) -> Result<(), ConfigError> {
        let cfg = self;
        cfg.tcpctl = band_share(cfg.tcpctl);
        cfg.quantum = cfg.quantum.clamp(256, 1 << 20);
        cfg.buckets = cfg.buckets.next_power_of_two();
        // The largest rate that 32 bits hold means no rate, as in the reference.
        cfg.maxrate = cfg.maxrate.filter(|r| r.0 < u64::from(u32::MAX));
        cfg.defrate = None;
        cfg.offload_horizon = cfg.offload_horizon.filter(|t| t.0 > 0);
        let offload = cfg.offload_horizon.unwrap_or_default();
        if offload > cfg.horizon {
            let expected = format!("at most horizon, {}", cfg.horizon);
            let err = ConfigError::new(ErrorKind::Conflict, Object::Kind(kind), expected, offload);
            return Err(err.key("offload_horizon"));
        }
        if let Some(PrioMap(map)) = cfg.priomap
            && let Some(band) = map.iter().find(|band| usize::from(**band) >= BANDS)
        {
            let err = ConfigError::new(ErrorKind::OutOfRange, Object::Kind(kind), "bands 0 to 2", band);
            return Err(err.key("priomap"));
        }
        // The default is unset, so that it is not printed.
        cfg.priomap = cfg.priomap.filter(|map| map.0 != PRIOMAP);
        cfg.bands = cfg.priomap.map(|_| BANDS as u32);
        cfg.weights = cfg.weights.filter(|w| w.0 != WEIGHTS);
        Ok(())
    }
}

/// The options in the form that the data path reads.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) limit: u32,
    pub(super) flow_limit: u32,
    pub(super) mask: u32,
    pub(super) quantum: u32,
    pub(super) initial_quantum: i32,
    /// `None`: nothing is paced by rate.
    pub(super) maxrate: Option<u64>,
    pub(super) pacing: bool,
    /// True if `maxrate` is low enough for each packet to be spaced by itself.
    pub(super) low: bool,
    pub(super) refill: Nanos,
    /// `u64::MAX` if off.
    pub(super) ce_threshold: u64,
    pub(super) horizon: Nanos,
    pub(super) horizon_drop: bool,
    pub(super) offload: Nanos,
    pub(super) gc_above: u32,
    pub(super) band_of: [u8; 16],
}

pub(super) fn weights(cfg: &Config) -> [i32; BANDS] {
    // The range check of `weights` has ensured 31 bits.
    cfg.weights.map_or(WEIGHTS, |w| w.0).map(|w| i32::try_from(w).unwrap_or(i32::MAX))
}

/// Returns the time by which a caller is late: none, unless Linux is followed, where a timer with
/// slack fires at its end if nothing else wakes the processor.
pub(super) fn slack(cfg: &Config, env: &Env) -> Nanos {
    if env.strict_linux { Nanos(cfg.timer_slack.0) } else { Nanos::ZERO }
}

impl Limits {
    pub(super) fn of(cfg: &Config) -> Self {
        let maxrate = cfg.maxrate.map(|r| r.0);
        Self {
            limit: cfg.limit.0,
            flow_limit: cfg.flow_limit.0,
            mask: cfg.orphan_mask.0,
            quantum: cfg.quantum,
            // The range check has ensured 31 bits.
            initial_quantum: i32::try_from(cfg.initial_quantum).unwrap_or(i32::MAX),
            maxrate,
            pacing: cfg.pacing,
            low: maxrate.is_some_and(|r| r <= cfg.low_rate_threshold.0),
            refill: cfg.refill_delay,
            ce_threshold: cfg.ce_threshold.map_or(u64::MAX, |t| t.0),
            horizon: cfg.horizon,
            horizon_drop: cfg.horizon_drop,
            offload: cfg.offload_horizon.unwrap_or_default(),
            gc_above: cfg.buckets * 2,
            band_of: cfg.priomap.map_or(PRIOMAP, |map| map.0),
        }
    }
    /// Returns the number of flows in the table.
    pub(super) fn flows(&self) -> u32 {
        (self.mask.min(FLOWS_MAX - 1) + 1).next_power_of_two()
    }
    /// Returns the index of the packet's flow.
    #[inline]
    pub(super) fn flow(&self, m: &Meta) -> usize {
        let key = m.hash & self.mask;
        let index = if self.mask < FLOWS_MAX { key } else { key.wrapping_mul(GOLDEN) >> (32 - 20) };
        index as usize
    }
    #[inline]
    pub(super) fn band(&self, m: &Meta) -> usize {
        usize::from(self.band_of[(m.priority & 15) as usize])
    }
}
