//! The options and counters of htb and of its classes.

use crate::base::link::LinkLayer;
use crate::base::units::{Bytes, Rate, RateMul};
use crate::law::borrow::{PRIOS, Shape};
use crate::law::bucket::{Sizing, ticks};
use crate::text::value::{Hex, Name};

crate::params! {
    /// Parameters of htb.
    pub struct Config(env)
        cut ["r2q", "default", "debug", "direct_qlen", "offload"]
    {
        /// Divisor for a quantum that is not given: the class's rate in bytes per second over this;
        /// 0 is 1.
        r2q: u32 = 10, keys ["r2q"];
        /// Minor number of the class for packets that name none; without such a leaf they are sent
        /// at once, unshaped.
        default: Hex = Hex(0), keys ["default"];
        /// Most packets that wait to be sent unshaped; the default is the device's transmit queue
        /// length.
        direct_qlen: u32 = env.tx_queue_len, keys ["direct_qlen"];
        /// Not supported: there is no hardware that could shape.
        offload: bool = false, flags ["offload" = true];
    }
}

crate::params! {
    /// Parameters of a class of htb.
    pub struct ClassConfig(env)
        once ["rate", "ceil"]
        cut ["prio", "mtu", "mpu", "overhead", "linklayer", "quantum", "burst", "cburst"]
        own ["shared"]
    {
        /// Guaranteed rate of the class. Must be given.
        rate: Rate = Rate(0), keys ["rate"];
        /// Most that the class may send, with the rate that it borrows; the default is `rate`.
        ceil: Option<Rate> = None, keys ["ceil"];
        /// Size of the rate's bucket; 0 for the default: mtu, plus the bytes of 1 ns.
        burst: Option<Bytes> = None, sizes ["burst", "buffer", "maxburst"], "0 to 4294967295 bytes": in_u32;
        /// Size of the ceiling's bucket; 0 for the default: mtu, plus the bytes of 1 ns.
        cburst: Option<Bytes> = None, sizes ["cburst", "cbuffer", "cmaxburst"], "0 to 4294967295 bytes": in_u32;
        /// Priority of a leaf: lower ones are served first; above 7 is 7.
        prio: u32 = 0, keys ["prio"];
        /// Bytes of a leaf's turn among those of equal priority. Without it, or with 0: rate/r2q,
        /// between 1000 and 200000.
        quantum: Option<u32> = None, keys ["quantum"];
        /// Base of a default bucket size.
        mtu: u32 = MTU, keys ["mtu"];
        /// Smallest size that a packet is charged, after the overhead.
        mpu: u16 = 0, keys ["mpu"];
        /// Bytes added to each packet before charging.
        overhead: u16 = 0, keys ["overhead"];
        /// Framing of the link: whole packets, or (`atm`, `adsl`) cells of 53 bytes that carry 48.
        linklayer: LinkLayer = LinkLayer::Ethernet, keys ["linklayer"];
        /// Name of a ceiling that classes of several queues share: ceil and cburst are then those
        /// of all of them together.
        shared: Option<Name> = None, keys ["shared"];
    }
}

crate::stats! {
    /// Counters of htb.
    pub struct Stats {
        /// Packets sent unshaped: they named the qdisc itself, or no leaf while there is no
        /// default.
        direct_packets_stat: u64,
    }
}

/// Default mtu of a class, in bytes (tc-htb(8)).
const MTU: u32 = 1600;
/// Priorities are 3 bits.
pub(super) const PRIO_MAX: u32 = PRIOS as u32 - 1;
/// Range of derived quanta, in bytes (tc-htb(8)).
const QUANTUM: (u64, u64) = (1000, 200_000);

fn in_u32(b: &Option<Bytes>) -> bool {
    b.is_none_or(|b| b.0 <= u64::from(u32::MAX))
}

impl ClassConfig {
    /// Returns its ceiling.
    pub fn ceiling(&self) -> Rate {
        self.ceil.unwrap_or(self.rate)
    }
    /// Returns the depths of the two buckets, in ticks of 64 ns.
    pub fn depths(&self) -> (u32, u32) {
        let depth = |rate: Rate, size: Option<Bytes>| ticks(rate, self.size(rate, size));
        (depth(self.rate, self.burst), depth(self.ceiling(), self.cburst))
    }
    /// Returns the size of a bucket at a rate: the given one, or the default.
    fn size(&self, rate: Rate, given: Option<Bytes>) -> Bytes {
        // tc adds the bytes of one tick of the kernel's timers, whose resolution is 1 ns.
        given.unwrap_or(Bytes((rate.0 / 1_000_000_000).saturating_add(self.mtu.into())))
    }
    /// Returns the name, rate and bucket of the ceiling that it shares, if it does.
    pub(super) fn shares(&self) -> Option<(&Name, Rate, Bytes)> {
        Some((self.shared.as_ref()?, self.ceiling(), self.size(self.ceiling(), self.cburst)))
    }
    pub(super) fn shape(&self, r2q: u32) -> Shape {
        let (buffer, cbuffer) = self.depths();
        let reckoned = (self.rate.0 / u64::from(r2q.max(1))).clamp(QUANTUM.0, QUANTUM.1);
        Shape {
            rate: RateMul::new(self.rate),
            ceil: RateMul::new(self.ceiling()),
            buffer,
            cbuffer,
            sizing: Sizing { overhead: self.overhead.into(), mpu: self.mpu.into(), layer: self.linklayer },
            // A derived quantum is at most 200 000; turns are signed.
            quantum: self.quantum.unwrap_or(reckoned as u32).min(i32::MAX.unsigned_abs()),
            prio: self.prio.min(PRIO_MAX) as u8,
        }
    }
}
