//! Parameters and counters of dualpi2, and the types of the parameters.

use core::fmt::{Result, Write};

use crate::base::env::Env;
use crate::base::time::Nanos;
use crate::base::units::{Bytes, Packets};
use crate::law::pi2::Gain;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::{Json, Quantity, Refusal, Show, Value, Words, exact_of};

/// The delay to hold: 15 ms (RFC 9332 figure 2, target).
pub const TARGET: Nanos = Nanos::from_millis(15);
/// Time from update to update: 16 ms, as in the reference implementation (RFC 9332 appendix A.1).
pub const TUPDATE: Nanos = Nanos::from_millis(16);
/// 41/256 Hz, for 0.16 Hz (RFC 9332 figure 2, alpha, with these times).
pub const ALPHA: Gain = Gain(41);
/// 819/256 Hz, for 3.2 Hz (RFC 9332 figure 2, beta).
pub const BETA: Gain = Gain(819);
/// The wait above which a packet of the low-latency queue is marked: 1 ms (the middle of the ramp
/// in RFC 9332 figure 2).
pub const STEP: Step = Step::Time(Nanos::from_millis(1));
/// Most packets that wait: 125 ms of full frames at 1 Gbit/s.
const LIMIT: Packets = Packets(10_000);

crate::params! {
    /// Parameters of dualpi2.
    pub struct Config(env) {
        /// Most packets that wait, in both queues together.
        limit: Packets = LIMIT, keys ["limit"];
        /// Most memory that waiting packets take, in both queues together; the default is two full
        /// frames for each packet of `limit`.
        memlimit: MemoryLimit = MemoryLimit::Derived(memory_for(LIMIT, env)), keys ["memlimit"],
            "at most 4294967295 bytes": |m| m.bytes().0 <= u64::from(u32::MAX);
        /// Delay of the Classic queue to hold.
        target: Nanos = TARGET, keys ["target"], "at most 4294967295us": micros_in_32_bits;
        /// Time from one update of the probability to the next.
        tupdate: Nanos = TUPDATE, keys ["tupdate"], "1us to 4294967295us": time_in_range;
        /// Gain on the distance from the target, per second.
        alpha: Gain = ALPHA, keys ["alpha"], "at least 0.00390625, below 8388608": gain_in_range;
        /// Gain on the trend of the delay, per second.
        beta: Gain = BETA, keys ["beta"], "at least 0.00390625, below 8388608": gain_in_range;
        /// Wait, or number of packets behind it, above which a packet of the low-latency queue is
        /// marked.
        step_thresh: Step = STEP, keys ["step_thresh"], "at most 4294967295us": |s| s.in_range();
        /// Packets in the low-latency queue from which on `step_thresh` holds for those that come.
        min_qlen_step: Packets = Packets(0), keys ["min_qlen_step"];
        /// Factor from the base probability to the marking probability of the low-latency queue.
        coupling_factor: u32 = 2, keys ["coupling_factor"], "1 to 255": |k| (1..=255).contains(k);
        /// Drop in both queues once marking is at 100 %, or let the queue grow up to its limit.
        drop_on_overload: bool = true, flags ["drop_on_overload" = true, "overflow" = false];
        /// Decide on marks and drops of the probability as packets come, or as they leave.
        drop_enqueue: bool = false, flags ["drop_enqueue" = true, "drop_dequeue" = false];
        /// The Classic queue's share of the bytes while both queues have packets, in whole percent.
        classic_protection: Share = Share(10), keys ["classic_protection"], "0% to 100%": |s| s.0 <= 100;
        /// Packets for the low-latency queue: all that are ECN-capable, or those with ECT(1) or CE.
        any_ect: bool = false, flags ["any_ect" = true, "l4s_ect" = false];
        /// Ask for super-packets to be cut into their segments before they are queued.
        split_gso: bool = true, flags ["split_gso" = true, "no_split_gso" = false];
        /// Longest round trip to be controlled. It sets `target`, `tupdate`, `alpha` and `beta`,
        /// and overrides given values of those.
        max_rtt: Option<Nanos> = None, keys ["max_rtt"], "1us to 4294967295us": rtt_in_range;
        /// Usual round trip, at most `max_rtt`; sets the same. If only one of the two is given,
        /// `max_rtt` is six times this.
        typical_rtt: Option<Nanos> = None, keys ["typical_rtt"], "1us to 4294967295us": rtt_in_range;
    }
}

crate::stats! {
    /// Counters of dualpi2.
    pub struct Stats {
        /// Base probability, in parts of 2^32, as of the last packet.
        prob: u32 [falls] [of(Part32)],
        /// Wait of the oldest packet of the Classic queue when a packet last came or left,
        /// microseconds.
        delay_c: u64 [falls] [of(Micros)],
        /// Wait of the oldest packet of the low-latency queue at that time, microseconds.
        delay_l: u64 [falls] [of(Micros)],
        /// Packets queued in the Classic queue.
        pkts_in_c: u64,
        /// Packets queued in the low-latency queue.
        pkts_in_l: u64,
        /// Most packets that waited when another came.
        maxq: u32 [falls],
        /// Marks, by the probability and by `step_thresh`; a packet marked by both counts twice.
        ecn_mark: u64,
        /// Marks by `step_thresh`.
        step_marks: u64,
        /// Credit of the Classic queue, in hundredths of a byte; 0 while it is the other's turn.
        credit_c: u64 [falls],
        /// Credit of the low-latency queue, in hundredths of a byte; 0 while it is the other's
        /// turn.
        credit_l: u64 [falls],
        /// Memory that waiting packets take, bytes, as Linux counts its buffers.
        memory_used: u64 [falls] [of(Bytes)],
        /// Largest value of `memory_used`.
        max_memory_used: u64 [falls] [of(Bytes)],
        /// Limit of `memory_used`.
        memory_limit: u64 [falls] [of(Bytes)],
    }
}

fn micros_in_32_bits(t: &Nanos) -> bool {
    t.as_micros() <= u64::from(u32::MAX)
}

fn gain_in_range(gain: &Gain) -> bool {
    (Gain(1)..=Gain::MAX).contains(gain)
}

fn time_in_range(t: &Nanos) -> bool {
    *t >= Nanos::from_micros(1) && micros_in_32_bits(t)
}

fn rtt_in_range(t: &Option<Nanos>) -> bool {
    t.as_ref().is_none_or(time_in_range)
}

/// Brings parameters to one form: the memory that goes with the limit, and the values derived from
/// round trips.
pub(super) fn resolve(
    cfg: &mut Config,
    old: Option<&Config>,
    env: &Env,
) -> core::result::Result<(), ConfigError> {
    // A new limit of packets changes a derived memory limit with it.
    if old.is_some_and(|old| old.limit != cfg.limit && old.memlimit == cfg.memlimit) {
        cfg.memlimit = MemoryLimit::Derived(Bytes(0));
    }
    if let MemoryLimit::Derived(bytes) = &mut cfg.memlimit {
        *bytes = memory_for(cfg.limit, env);
    }
    match (cfg.max_rtt.take(), cfg.typical_rtt.take()) {
        (None, None) => Ok(()),
        (max, typical) => for_round_trips(cfg, max, typical),
    }
}

/// Returns the memory for a limit of packets: two full frames each, because a buffer is larger than
/// its frame.
fn memory_for(limit: Packets, env: &Env) -> Bytes {
    let bytes = u64::from(limit.0) * 2 * u64::from(env.frame_max());
    Bytes(bytes.min(u64::from(u32::MAX)))
}

/// Ratio of the longest to the usual round trip if only one is given (tc-dualpi2(8)).
const RTT_RATIO: u64 = 6;

/// Returns the parameters for these round trips: target = the usual one, tupdate = min(target,
/// longest / 3), alpha = 0.1 * tupdate / longest^2, beta = 0.3 / longest (RFC 9332 figure 2), in
/// whole microseconds and 256ths of one per second.
fn for_round_trips(
    cfg: &mut Config,
    max: Option<Nanos>,
    typical: Option<Nanos>,
) -> core::result::Result<(), ConfigError> {
    /// 0.1 and 0.3 with the precision of tc: 24 binary digits.
    const TENTH: (u128, u32) = (13_421_773, 27);
    const THREE_TENTHS: (u128, u32) = (10_066_330, 25);
    /// Microseconds in a second, times 256.
    const UNITS: u128 = 256_000_000;
    let [max, typical] = [max, typical].map(|t| t.map(Nanos::as_micros));
    let max_us = max.unwrap_or_else(|| typical.unwrap_or(1).saturating_mul(RTT_RATIO)).max(1);
    let typical_us = typical.unwrap_or(max_us / RTT_RATIO).max(1);
    if typical_us > max_us {
        let (expected, given) = (exact_us(max_us), exact_us(typical_us));
        let expected = alloc::format!("at most max_rtt, {expected}");
        return Err(ConfigError::new(ErrorKind::Conflict, Object::Kind("dualpi2"), expected, given)
            .key("typical_rtt"));
    }
    let tupdate_us = typical_us.min(max_us / 3).max(1);
    let squared = u128::from(max_us) * u128::from(max_us);
    let alpha = ((TENTH.0 * UNITS * u128::from(tupdate_us)) >> TENTH.1) / squared;
    let beta = ((THREE_TENTHS.0 * UNITS) >> THREE_TENTHS.1) / u128::from(max_us);
    let [alpha, beta] = [alpha, beta].map(|gain| Gain(u32::try_from(gain).unwrap_or(u32::MAX)));
    if !gain_in_range(&alpha) || !gain_in_range(&beta) {
        let expected = "a time for which alpha and beta are at least 1/256";
        let given = exact_us(max_us);
        return Err(
            ConfigError::new(ErrorKind::OutOfRange, Object::Kind("dualpi2"), expected, given).key("max_rtt")
        );
    }
    (cfg.target, cfg.tupdate) = (Nanos::from_micros(typical_us), Nanos::from_micros(tupdate_us));
    (cfg.alpha, cfg.beta) = (alpha, beta);
    Ok(())
}

fn exact_us(us: u64) -> alloc::string::String {
    alloc::format!("{us}us")
}

/// A limit of memory that is given, or derived from that of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A given limit, whatever the limit of packets.
    Given(Bytes),
    /// A limit derived from the limit of packets.
    Derived(Bytes),
}

impl MemoryLimit {
    /// Returns the limit in bytes.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Given(bytes) | Self::Derived(bytes) => bytes,
        }
    }
}

impl Show for MemoryLimit {
    fn text(&self, f: &mut dyn Write) -> Result {
        self.bytes().text(f)
    }
    fn exact(&self, f: &mut dyn Write) -> Result {
        self.bytes().exact(f)
    }
    fn json(&self) -> Json {
        self.bytes().json()
    }
}

impl Value for MemoryLimit {
    const EXPECTED: &'static str = Bytes::EXPECTED;
    const QUANTITY: Quantity = Quantity::Bytes;
    fn take(words: &mut Words<'_>) -> core::result::Result<Self, Refusal> {
        Bytes::take(words).map(Self::Given)
    }
}

/// The threshold of the low-latency queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Longest wait of a packet.
    Time(Nanos),
    /// Most packets that wait behind it in its queue.
    Packets(u32),
}

impl Step {
    fn in_range(self) -> bool {
        match self {
            Self::Time(t) => micros_in_32_bits(&t),
            Self::Packets(_) => true,
        }
    }
}

impl Show for Step {
    fn text(&self, f: &mut dyn Write) -> Result {
        match self {
            Self::Time(t) => t.text(f),
            Self::Packets(n) => write!(f, "{n}p"),
        }
    }
    fn exact(&self, f: &mut dyn Write) -> Result {
        match self {
            Self::Time(t) => t.exact(f),
            Self::Packets(_) => self.text(f),
        }
    }
    fn json(&self) -> Json {
        Json::Text(exact_of(self))
    }
}

impl Value for Step {
    const EXPECTED: &'static str =
        "a time (1ms, 500us; bare: microseconds) or a number of packets (3p, 3packets)";
    fn take(words: &mut Words<'_>) -> core::result::Result<Self, Refusal> {
        let word = words.peek().ok_or(Refusal::NotSuch)?;
        // The longest word comes first, because each ends in another.
        let packets = ["packets", "packet", "pkt", "p"].iter().find_map(|unit| word.strip_suffix(unit));
        match packets {
            Some(number) => {
                words.take();
                Ok(Self::Packets(number.parse()?))
            }
            None => Nanos::take(words).map(Self::Time),
        }
    }
}

/// A share in whole percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u32);

impl Show for Share {
    fn text(&self, f: &mut dyn Write) -> Result {
        write!(f, "{}%", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(self.0.into())
    }
}

impl Value for Share {
    const EXPECTED: &'static str = "a whole percentage (10, 10%)";
    fn take(words: &mut Words<'_>) -> core::result::Result<Self, Refusal> {
        let word = words.value()?;
        Ok(Self(word.strip_suffix('%').unwrap_or(word).parse()?))
    }
}
