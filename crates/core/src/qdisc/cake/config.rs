//! The parameters of cake, several of which consist of many words (tc-cake(8)).

use alloc::string::String;
use core::fmt::{Result, Write};

use crate::base::time::Nanos;
use crate::base::units::{Bytes, Rate};
use crate::text::error::ErrorKind;
use crate::text::params::Group;
use crate::text::value::{Json, Name, Quantity, Refusal, Show, Value, Words, exact_of};

crate::params! {
    /// Parameters of cake.
    pub struct Config(env) own ["shared"] {
        /// Rate of the shaper, or none; or a rate that follows the arrivals, a little below them.
        bandwidth: Bandwidth = Bandwidth::UNLIMITED, group (["bandwidth"], ["unlimited", "autorate-ingress"]);
        /// Map from DSCPs to tins: all to one, or to three, four or eight.
        diffserv: Diffserv = Diffserv::Diffserv3, flags [
            "diffserv3" = Diffserv::Diffserv3, "diffserv4" = Diffserv::Diffserv4, "diffserv8" = Diffserv::Diffserv8,
            "diffserv" = Diffserv::Diffserv4, "precedence" = Diffserv::Precedence, "besteffort" = Diffserv::Besteffort
        ];
        /// Definition of a flow, and the hosts that share turns before their flows do.
        flowmode: FlowMode = FlowMode::TripleIsolate, flags [
            "triple-isolate" = FlowMode::TripleIsolate, "dual-srchost" = FlowMode::DualSrchost,
            "dual-dsthost" = FlowMode::DualDsthost, "flows" = FlowMode::Flows, "hosts" = FlowMode::Hosts,
            "srchost" = FlowMode::Srchost, "dsthost" = FlowMode::Dsthost, "flowblind" = FlowMode::Flowblind
        ];
        /// Look behind address translation for hosts; accepted without effect, because there is no
        /// translation here.
        nat: bool = false, flags ["nat" = true, "nonat" = false];
        /// Clear the DSCP once it has chosen the tin.
        wash: bool = false, flags ["wash" = true, "nowash" = false];
        /// Charge drops as if they had been sent: the bottleneck is in front of this link, and has
        /// carried them.
        ingress: bool = false, flags ["ingress" = true, "egress" = false];
        /// Drop TCP acknowledgements that later ones in the same queue make needless.
        ack_filter: AckFilter = AckFilter::Off, flags [
            "no-ack-filter" = AckFilter::Off, "ack-filter" = AckFilter::On, "ack-filter-aggressive" = AckFilter::Aggressive
        ];
        /// Ask for super-packets to be cut into wire packets before they are queued.
        split_gso: bool = true, flags ["split-gso" = true, "no-split-gso" = false];
        /// About the longest round trip: the delay must stay above target, a twentieth of it, for
        /// this time.
        rtt: Rtt = Rtt::INTERNET, group (["rtt"], [
            "datacentre", "lan", "metro", "regional", "internet", "oceanic", "satellite", "interplanetary"
        ]);
        /// Overhead of the link per packet, the least size that it charges, and its cells.
        framing: Framing = Framing::RAW, group (["overhead", "mpu"], [
            "raw", "conservative", "atm", "ptm", "noatm", "ethernet", "ether-vlan", "docsis", "pppoe-ptm",
            "bridged-ptm", "pppoa-vcmux", "pppoa-llc", "pppoe-vcmux", "pppoe-llcsnap", "bridged-vcmux",
            "bridged-llcsnap", "ipoa-vcmux", "ipoa-llcsnap", "via-ethernet"
        ]);
        /// Most memory that waiting packets take; by default four times the bytes of the rate in an
        /// rtt, at least 4Mb and at most 10240 full frames, which is the default without a rate.
        memlimit: MemLimit = MemLimit(None), group (["memlimit"], []);
        /// Bits of the firewall mark that choose the tin, from 1 on; 0 leaves the choice to the
        /// DSCP.
        fwmark: Mask = Mask(0), group (["fwmark"], []);
        /// Name of a rate that cakes of several queues have together: the bandwidth is then that of
        /// all of them.
        shared: Option<Name> = None, keys ["shared"];
    }
}

/// A choice among words, each of which stands alone.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)* }

        impl Show for $name {
            fn text(&self, f: &mut dyn Write) -> Result {
                f.write_str(match self { $(Self::$variant => $word,)* })
            }
            fn json(&self) -> Json {
                Json::Text(exact_of(self))
            }
        }

        impl Value for $name {
            const EXPECTED: &'static str = concat!("one of", $(" ", $word),*);
            fn take(words: &mut Words<'_>) -> core::result::Result<Self, Refusal> {
                match words.value()? { $($word => Ok(Self::$variant),)* _ => Err(Refusal::NotSuch) }
            }
        }
    };
}

words! {
    /// Map from DSCPs to tins.
    Diffserv {
        /// One tin.
        Besteffort = "besteffort",
        /// Eight, by the three bits of IP precedence (RFC 791).
        Precedence = "precedence",
        /// Bulk, best effort, voice.
        Diffserv3 = "diffserv3",
        /// Bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
        /// Eight, from background to network control.
        Diffserv8 = "diffserv8",
    }
}

words! {
    /// Definition of a flow, and the hosts that share turns.
    FlowMode {
        /// All packets in one.
        Flowblind = "flowblind",
        /// One flow for each source host.
        Srchost = "srchost",
        /// One flow for each destination host.
        Dsthost = "dsthost",
        /// One flow for each pair of hosts.
        Hosts = "hosts",
        /// One flow for each five-tuple.
        Flows = "flows",
        /// One flow for each five-tuple; source hosts share turns first.
        DualSrchost = "dual-srchost",
        /// One flow for each five-tuple; destination hosts share turns first.
        DualDsthost = "dual-dsthost",
        /// One flow for each five-tuple; hosts on both sides share turns first.
        TripleIsolate = "triple-isolate",
    }
}

words! {
    /// Acknowledgements that are dropped.
    AckFilter {
        /// None.
        Off = "no-ack-filter",
        /// Those that two later ones make needless.
        On = "ack-filter",
        /// Those that a single later one makes needless.
        Aggressive = "ack-filter-aggressive",
    }
}

/// The rate of the shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Rate at which it starts; 0: it does not shape.
    pub rate: Rate,
    /// True if it follows the arrivals.
    pub autorate: bool,
}

impl Bandwidth {
    /// No shaping.
    pub(crate) const UNLIMITED: Self = Self { rate: Rate(0), autorate: false };
}

impl Show for Bandwidth {
    fn text(&self, f: &mut dyn Write) -> Result {
        match self.rate.0 {
            0 => f.write_str("unlimited")?,
            rate => write!(f, "bandwidth {rate}bps")?,
        }
        if self.autorate { f.write_str(" autorate-ingress") } else { Ok(()) }
    }
    fn json(&self) -> Json {
        Json::Text(exact_of(self))
    }
}

impl Group for Bandwidth {
    const EXPECTED: &'static str = Rate::EXPECTED;
    const QUANTITY: Quantity = Quantity::Rate;
    fn read(&mut self, key: &str, words: &mut Words<'_>) -> core::result::Result<(), Refusal> {
        *self = match key {
            "bandwidth" => Self { rate: Rate::take(words)?, autorate: false },
            "unlimited" => Self::UNLIMITED,
            _ => Self { autorate: true, ..*self },
        };
        Ok(())
    }
}

/// The round trip that the laws are made for, in whole microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt(pub u32);

impl Rtt {
    /// The default, 100 ms.
    pub(crate) const INTERNET: Self = Self(100_000);
    /// Returns the round trip in nanoseconds.
    #[must_use]
    pub const fn interval(self) -> Nanos {
        Nanos::from_micros(self.0 as u64)
    }
    /// Returns the standing delay that is acceptable: a twentieth (RFC 8289 section 4.3 has 5 to 10
    /// %), in whole microseconds.
    #[must_use]
    pub const fn target(self) -> Nanos {
        let micros = self.0 as u64 / 20;
        Nanos::from_micros(if micros == 0 { 1 } else { micros })
    }
}

impl Show for Rtt {
    fn text(&self, f: &mut dyn Write) -> Result {
        write!(f, "rtt {}us", self.0)
    }
    fn json(&self) -> Json {
        Json::Text(exact_of(self))
    }
}

impl Group for Rtt {
    const EXPECTED: &'static str = Nanos::EXPECTED;
    const QUANTITY: Quantity = Quantity::Time;
    fn read(&mut self, key: &str, words: &mut Words<'_>) -> core::result::Result<(), Refusal> {
        let micros = match key {
            "datacentre" => 100,
            "lan" => 1_000,
            "metro" => 10_000,
            "regional" => 30_000,
            "internet" => 100_000,
            "oceanic" => 300_000,
            "satellite" => 1_000_000,
            // Ten thousand times the Internet's, as in tc: no law acts.
            "interplanetary" => 1_000_000_000,
            _ => {
                let given = Nanos::take(words)?.as_micros();
                u32::try_from(given)
                    .map_err(|_| Refusal::because(ErrorKind::OutOfRange, "at most 4294967295us", None))?
            }
        };
        // tc does not send a time of 0 to the kernel.
        if micros > 0 {
            self.0 = micros;
        }
        Ok(())
    }
}

/// Cells into which a link cuts packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cells {
    /// None.
    #[default]
    None,
    /// ATM cells of 53 bytes that carry 48.
    Atm,
    /// PTM blocks of 65 bytes that carry 64 (ITU G.992.3 annex N).
    Ptm,
}

/// The size that a link charges for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    /// Bytes added to each packet.
    pub overhead: i32,
    /// Least size that a packet is charged.
    pub mpu: u32,
    /// Cells into which packets are cut, after `overhead` and `mpu`.
    pub cells: Cells,
    /// True if `overhead` is added to the frame, false if to the network packet in it.
    pub raw: bool,
    /// The overhead named so far by the command being read.
    said: Option<i32>,
    /// Number of overheads named, equal ones included: not compared with other framings.
    pub(super) times_said: u32,
}

impl PartialEq for Framing {
    fn eq(&self, other: &Self) -> bool {
        let what = |f: &Self| (f.overhead, f.mpu, f.cells, f.raw, f.said);
        what(self) == what(other)
    }
}
impl Eq for Framing {}

impl Framing {
    /// The frame without change.
    pub const RAW: Self =
        Self { overhead: 0, mpu: 0, cells: Cells::None, raw: true, said: None, times_said: 0 };

    /// Adds `bytes` to the overhead that the command has named: an overhead of the network packet,
    /// unless the command has said `raw`.
    fn add(&mut self, bytes: i32) {
        self.say(self.said.unwrap_or(0).saturating_add(bytes));
    }
    fn say(&mut self, overhead: i32) {
        self.raw &= self.said.is_some();
        (self.overhead, self.said) = (overhead, Some(overhead));
        self.times_said = self.times_said.wrapping_add(1);
    }
    /// Ends the command.
    pub(super) const fn end(&mut self) {
        self.said = None;
    }
}

/// Keywords with the overhead that they add, the cells that they set, and the least size
/// (tc-cake(8)).
const LINKS: [(&str, i32, Option<Cells>, Option<u32>); 13] = [
    ("ethernet", 38, Some(Cells::None), Some(84)),
    ("ether-vlan", 4, None, None),
    ("docsis", 18, Some(Cells::None), Some(64)),
    ("pppoe-ptm", 30, Some(Cells::Ptm), None),
    ("bridged-ptm", 22, Some(Cells::Ptm), None),
    ("pppoa-vcmux", 10, Some(Cells::Atm), None),
    ("pppoa-llc", 14, Some(Cells::Atm), None),
    ("pppoe-vcmux", 32, Some(Cells::Atm), None),
    ("pppoe-llcsnap", 40, Some(Cells::Atm), None),
    ("bridged-vcmux", 24, Some(Cells::Atm), None),
    ("bridged-llcsnap", 32, Some(Cells::Atm), None),
    ("ipoa-vcmux", 8, Some(Cells::Atm), None),
    ("ipoa-llcsnap", 16, Some(Cells::Atm), None),
];

impl Show for Framing {
    fn text(&self, f: &mut dyn Write) -> Result {
        let mut out = String::new();
        out.push_str(if self.raw { "raw " } else { "" });
        out.push_str(match self.cells {
            Cells::None => "noatm",
            Cells::Atm => "atm",
            Cells::Ptm => "ptm",
        });
        write!(f, "{out} overhead {} mpu {}", self.overhead, self.mpu)
    }
    fn json(&self) -> Json {
        Json::Text(exact_of(self))
    }
}

impl Group for Framing {
    const EXPECTED: &'static str = "a number of bytes: overhead -64 to 256, mpu 0 to 256";
    fn read(&mut self, key: &str, words: &mut Words<'_>) -> core::result::Result<(), Refusal> {
        match key {
            "overhead" => self.say(bytes(words, -64)?),
            // tc does not send an mpu of 0 to the kernel.
            "mpu" => match bytes(words, 0)?.unsigned_abs() {
                0 => {}
                mpu => self.mpu = mpu,
            },
            "raw" => {
                self.say(0);
                (self.raw, self.cells) = (true, Cells::None);
            }
            "atm" => self.cells = Cells::Atm,
            "ptm" => self.cells = Cells::Ptm,
            "noatm" => self.cells = Cells::None,
            "conservative" => {
                self.say(48);
                self.cells = Cells::Atm;
            }
            _ => {
                // `via-ethernet`, which is not in the list, has had no meaning since tc 4.18.
                let (_, overhead, cells, mpu) =
                    LINKS.iter().find(|link| link.0 == key).copied().unwrap_or_default();
                if overhead != 0 {
                    self.add(overhead);
                }
                self.cells = cells.unwrap_or(self.cells);
                self.mpu = mpu.unwrap_or(self.mpu);
            }
        }
        Ok(())
    }
}

/// Reads a number of bytes from `least` to 256.
fn bytes(words: &mut Words<'_>, least: i32) -> core::result::Result<i32, Refusal> {
    let n = words.value()?.parse()?;
    if !(least..=256).contains(&n) {
        let expected = alloc::format!("{least} to 256 bytes");
        return Err(Refusal::because(ErrorKind::OutOfRange, expected, None));
    }
    Ok(n)
}

/// Most memory that waiting packets take, if given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemLimit(pub Option<Bytes>);

impl Show for MemLimit {
    fn is_set(&self) -> bool {
        self.0.is_some()
    }
    fn text(&self, f: &mut dyn Write) -> Result {
        self.0.map_or(Ok(()), |limit| write!(f, "memlimit {}b", limit.0))
    }
    fn json(&self) -> Json {
        if self.0.is_some() { Json::Text(exact_of(self)) } else { Json::Bool(false) }
    }
}

impl Group for MemLimit {
    const EXPECTED: &'static str = Bytes::EXPECTED;
    const QUANTITY: Quantity = Quantity::Bytes;
    fn read(&mut self, _key: &str, words: &mut Words<'_>) -> core::result::Result<(), Refusal> {
        let limit = Bytes::take(words)?;
        if limit.0 > u64::from(u32::MAX) {
            return Err(Refusal::because(ErrorKind::OutOfRange, "at most 4294967295 bytes", None));
        }
        // tc does not send a limit of 0 to the kernel.
        self.0 = if limit.0 > 0 { Some(limit) } else { self.0 };
        Ok(())
    }
}

/// A mask of the firewall mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub u32);

impl Show for Mask {
    fn is_set(&self) -> bool {
        self.0 != 0
    }
    fn text(&self, f: &mut dyn Write) -> Result {
        write!(f, "fwmark {:#x}", self.0)
    }
    fn json(&self) -> Json {
        if self.0 != 0 { Json::Text(exact_of(self)) } else { Json::Bool(false) }
    }
}

impl Group for Mask {
    const EXPECTED: &'static str = "a mask of 32 bits (0xff, 255, 0377)";
    fn read(&mut self, _key: &str, words: &mut Words<'_>) -> core::result::Result<(), Refusal> {
        let word = words.value()?;
        let lower = word.to_ascii_lowercase();
        let mask = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
            (Some(hex), _) => u32::from_str_radix(hex, 16),
            (_, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8),
            _ => lower.parse(),
        };
        let mask = mask?;
        // tc does not send a mask of 0 to the kernel.
        self.0 = if mask > 0 { mask } else { self.0 };
        Ok(())
    }
}
