//! police: passes packets within a rate and treats others differently (tc-police(8)). The limit is
//! a rate of bytes, with a burst and an optional peak rate, or a rate of packets, or an average of
//! the recent rate.
//!
//! Buckets hold nanoseconds at their rate; a packet takes the time of its bytes (adjusted for the
//! link) from both buckets or from none. A packet that has arrived takes that of its bytes behind
//! the link header and the outermost tag. A packet of more than `mtu` bytes does not conform; a
//! super-packet does not if one of its segments has more. These bytes include the link header in
//! both directions, but no tag of a packet that has arrived. Arithmetic and granularity are those
//! of the reference, to the nanosecond.
//!
//! - I1: in any window of length W the conforming bytes are at most burst + rate x W (within the
//!   granularity of `RateMul`); so are packets.
//! - I2: a packet that does not conform takes no tokens.
//!
//! The tokens missing in the buckets are kept in the reader's [`Memory`], initially none: a police
//! action is exact for one reader. Several readers that share an action have a bucket each, and
//! pass that many times the rate; `Police::conforms` is the place where a shared rate would replace
//! `Buckets::take`.
//!
//! Cost: two multiplications, four with a peak rate. Memory: six words.
//!
//! Differs from Linux (PARITY.md: police-average, police-average-shown, police-average-words,
//! police-controls, police-readers, vlan-in-place).

use super::{Control, Memory};
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Rate, RateMul};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::law::bucket::{Buckets, Sizing, Spent, TICK_NS, cost, ticks};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Limits, and the control for packets that conform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bytes per second; 0 for none.
    pub rate: Rate,
    /// Largest burst in bytes, in tc's granularity of ticks of the rate. Requires `rate`.
    pub burst: Bytes,
    /// Highest rate at which a burst leaves. Requires `rate` and `mtu`.
    pub peakrate: Option<Rate>,
    /// Largest packet, bytes; the default is 2040 if there is a rate of bytes, and otherwise
    /// unlimited.
    pub mtu: Option<u32>,
    /// Charge for a packet.
    pub sizing: Sizing,
    /// Packets per second, and in a burst. Excludes `rate`.
    pub packets: Option<(u64, u64)>,
    /// Average rate that packets must not reach.
    pub average: Option<Average>,
    /// Control for a packet that conforms; for any other, the action's control.
    pub conform: Control,
}

/// A limit on an average rate, and the measurement of that average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// The limit.
    pub rate: Rate,
    /// Binary logarithm of the sampling period in units of 250 ms: at most 5.
    pub interval_log: u8,
    /// Negative binary logarithm of the weight of the newest sample: 1 to 31.
    pub weight_log: u8,
}

/// Largest packet of a police action with a rate of bytes and without `mtu`: 255 cells of 8 bytes,
/// the range of tc's rate table.
pub const MTU: u32 = 255 << 3;

/// Parameters of police.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Police {
    config: Config,
    mtu: u32,
    meter: Option<Buckets>,
}

impl Police {
    /// Checks parameters, and prepares them for the data path.
    ///
    /// # Errors
    /// No limit is given; limits of both bytes and packets; a rate without a burst, or a peak rate
    /// without a rate or `mtu`.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let err = |key: &str, kind, expected: &str, given: &str| {
            Err(ConfigError::new(kind, Object::ActionOptions("police"), expected, given).key(key))
        };
        let bytes = config.rate.0 > 0;
        match config.packets {
            Some(_) if bytes => {
                return err("pkts_rate", ErrorKind::Conflict, "a rate of bytes or of packets", "both");
            }
            Some((0, _)) => return err("pkts_rate", ErrorKind::OutOfRange, "at least 1", "0"),
            Some((_, 0)) => return err("pkts_burst", ErrorKind::Missing, "a number of packets", ""),
            None if !bytes && config.mtu.is_none() && config.average.is_none() => {
                return err("rate", ErrorKind::Missing, "rate, pkts_rate, mtu or avrate", "");
            }
            _ => {}
        }
        if bytes && config.burst.0 == 0 {
            return err("burst", ErrorKind::Missing, "a size, because rate is given", "");
        }
        if config.peakrate.is_some_and(|r| r.0 > 0) {
            if !bytes {
                return err("peakrate", ErrorKind::Missing, "rate as well", "");
            }
            if config.mtu.unwrap_or(0) == 0 {
                return err("mtu", ErrorKind::Missing, "a size, because peakrate is given", "");
            }
        }
        if config.average.is_some_and(|a| a.interval_log > 5 || !(1..=31).contains(&a.weight_log)) {
            return err("avrate", ErrorKind::OutOfRange, "samples of 250 ms to 8 s", "");
        }
        let mtu = config.mtu.filter(|m| *m > 0).unwrap_or(if bytes { MTU } else { u32::MAX });
        Ok(Self { config, mtu, meter: Self::meter(&config, mtu) })
    }

    fn meter(config: &Config, mtu: u32) -> Option<Buckets> {
        let depth = |rate, size| i64::from(ticks(rate, size)) * TICK_NS as i64; // 64 fits
        match config.packets {
            // One packet per second is one byte per second to the bucket.
            Some((rate, burst)) => {
                Some(Buckets::new(RateMul::new(Rate(rate)), depth(Rate(rate), Bytes(burst)), None))
            }
            None if config.rate.0 == 0 => None,
            None => {
                let peak = config.peakrate.filter(|r| r.0 > 0).map(|rate| {
                    let rate = RateMul::new(rate);
                    (rate, cost(rate, config.sizing.size(mtu)))
                });
                Some(Buckets::new(RateMul::new(config.rate), depth(config.rate, config.burst), peak))
            }
        }
    }

    /// Returns the parameters.
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// Returns the largest packet that conforms, in bytes.
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    #[inline]
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        let answer = match self.conforms(packet, mine, run.now) {
            true => self.config.conform,
            false => {
                mine.overlimits += 1;
                control
            }
        };
        if answer == Control::Drop {
            mine.drops += 1;
        }
        answer
    }

    /// Takes the tokens for a packet. False if it exceeds the limits; then it takes none.
    #[inline]
    pub(crate) fn conforms(&self, packet: &Packet<'_>, mine: &mut Memory, now: Instant) -> bool {
        let len = packet.charged();
        if let Some(average) = self.config.average
            && average.measure(mine, len, now) >= average.rate.0
        {
            return false;
        }
        let m = &*packet.meta;
        let largest = if m.segs > 1 { m.segment_len() } else { m.wire_len };
        if largest.saturating_sub(packet.tag_taken_off()) > self.mtu {
            return false;
        }
        let Some(meter) = &self.meter else { return true };
        let size = match self.config.packets {
            Some(_) => 1,
            None => self.config.sizing.size(len),
        };
        let [rate, peak, at, ..] = mine.words;
        let mut spent = match (at, self.config.packets) {
            // A new bucket of packets is empty, a new bucket of bytes is full, as in the reference.
            (0, Some(_)) => meter.empty(mine.since),
            _ => Spent { rate, peak, at: Instant(at) },
        };
        let conforms = meter.take(&mut spent, now, size);
        [mine.words[0], mine.words[1], mine.words[2]] = [spent.rate, spent.peak, spent.at.0];
        conforms
    }
}

/// Number of single steps, after which the decay of an average is computed at once.
const STEPS: u64 = 64;

impl Average {
    /// Returns the bytes per second as of the last sample before now. The average is kept in units
    /// of 1/256 byte; missed samples are made up for when a packet comes.
    fn measure(self, mine: &mut Memory, len: u32, now: Instant) -> u64 {
        let period = Nanos(250_000_000 << self.interval_log).0;
        let [_, _, _, mut average, mut next, mut counted] = mine.words;
        // The present packet is already counted; a sample that was due before it must not include
        // it.
        let total = mine.bytes.saturating_sub(u64::from(len));
        if next == 0 {
            next = mine.since.0.saturating_add(period);
            counted = total;
        }
        if now.0 >= next {
            let due = (now.0 - next) / period + 1;
            let sample = (total.saturating_sub(counted)).saturating_mul(1024) >> self.interval_log;
            average = self.step(average, sample);
            for _ in 1..due.min(STEPS) {
                average = self.step(average, 0);
            }
            average = self.fade(average, due.saturating_sub(STEPS));
            counted = total;
            next = next.saturating_add(due.saturating_mul(period));
        }
        [mine.words[3], mine.words[4], mine.words[5]] = [average, next, counted];
        average >> 8
    }

    const fn step(self, average: u64, sample: u64) -> u64 {
        average.saturating_sub(average >> self.weight_log).saturating_add(sample >> self.weight_log)
    }

    /// Returns the rest of an average after `samples` empty samples. Squaring makes a year cost no
    /// more than a second.
    fn fade(self, average: u64, mut samples: u64) -> u64 {
        let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 32) as u64; // `b` is at most 2^32
        let mut left = (1 << 32) - (1u64 << (32 - self.weight_log));
        let mut average = average;
        // Bound: 64 turns, one for each bit.
        while samples > 0 {
            if samples & 1 == 1 {
                average = times(average, left);
            }
            left = times(left, left);
            samples >>= 1;
        }
        average
    }
}
