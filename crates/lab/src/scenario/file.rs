//! The format of the scenario file: its tables and keys, and the spelling of values.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;
use txweir_core::model::wire::Completion;
use txweir_core::text::value::{Value, Words};
use txweir_core::{Bytes, Nanos, Rate};

/// A value in the form of tc: a string with a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Text<T>(pub T);

impl<'de, T: Value> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OfText<T>(std::marker::PhantomData<T>);
        impl<T: Value> Visitor<'_> for OfText<T> {
            type Value = Text<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<Text<T>, E> {
                let words = [s];
                T::take(&mut Words::new(&words))
                    .map(Text)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(s), &self))
            }
        }
        d.deserialize_str(OfText(std::marker::PhantomData))
    }
}

/// A probability, written as a percentage: `"0.1%"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percent {
    pub(super) ppm: u32,
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = String::deserialize(d)?;
        let wrong = |expected: &str| -> Result<Self, D::Error> {
            Err(de::Error::invalid_value(de::Unexpected::Str(&s), &expected))
        };
        let number = s.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let Some(n) = number.filter(|n| (0.0..=100.0).contains(n)) else {
            return wrong("a percentage from 0% to 100%");
        };
        let ppm = (n * 10_000.0).round() as u32;
        // Rounded, seldom would be never, and nearly always would be always.
        if (ppm == 0) != (n == 0.0) || (ppm == 1_000_000) != (n == 100.0) {
            return wrong("0%, 100%, or a percentage from 0.0001% to 99.9999%");
        }
        Ok(Self { ppm })
    }
}

/// Times of completions: `"immediate"`, a period (`"250us"`), or a count and a time (`"64p/1ms"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionText(pub Completion);

impl CompletionText {
    /// Reads the text form.
    pub fn read(s: &str) -> Option<Completion> {
        let time = |s: &str| Nanos::take(&mut Words::new(&[s])).ok().filter(|t| t.0 > 0);
        if s == "immediate" {
            return Some(Completion::Immediate);
        }
        match s.split_once('/') {
            Some((packets, within)) => Some(Completion::Every {
                packets: packets.strip_suffix('p')?.parse().ok().filter(|n| *n > 0)?,
                within: time(within)?,
            }),
            None => time(s).map(Completion::Periodic),
        }
    }
}

impl<'de> Deserialize<'de> for CompletionText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = String::deserialize(d)?;
        let expected = "immediate, a period (250us), or packets and a time (64p/1ms)";
        Self::read(&s).map(Self).ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&s), &expected))
    }
}

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// One line for reports.
    pub(super) title: String,
    #[serde(default = "one")]
    pub(super) seed: u64,
    pub(super) duration: Spanned<Text<Nanos>>,
    #[serde(default = "no_time")]
    pub(super) warmup: Text<Nanos>,
    #[serde(default)]
    pub(super) measure: Vec<Section>,
    pub(super) host: Vec<Spanned<HostTable>>,
    pub(super) link: Vec<Spanned<LinkTable>>,
    #[serde(default)]
    pub(super) ifb: Vec<Spanned<IfbTable>>,
    pub(super) traffic: Vec<Spanned<TrafficTable>>,
}

/// The traffic of a file; its other parts are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TrafficFile {
    #[serde(default)]
    pub(super) traffic: Vec<Spanned<TrafficTable>>,
}

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Throughput, transactions and latency of each group of traffic.
    Traffic,
    /// Packets, drops and marks of each link.
    Links,
    /// Bytes in qdiscs and devices, and the byte limit.
    Queues,
}

fn one() -> u64 {
    1
}
fn no_time() -> Text<Nanos> {
    Text(Nanos::ZERO)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostTable {
    pub(super) name: Spanned<String>,
    /// `lab`, or `linux` for a kernel of its own.
    pub(super) stack: Option<Spanned<String>>,
    /// Largest TSO unit, Ethernet header included; 0 for none.
    pub(super) tso: Option<Spanned<Text<Bytes>>>,
    pub(super) mss: Option<Spanned<u16>>,
    pub(super) congestion: Option<Spanned<String>>,
    pub(super) ecn: Option<Spanned<String>>,
    pub(super) send_buffer: Option<Spanned<Text<Bytes>>>,
    pub(super) receive_buffer: Option<Spanned<Text<Bytes>>>,
    pub(super) ack_delay: Option<Text<Nanos>>,
    /// Segments of the first window.
    pub(super) initial_window: Option<Spanned<u32>>,
    pub(super) timestamps: Option<bool>,
    pub(super) sack: Option<bool>,
    pub(super) small_queues: Option<bool>,
    pub(super) size_by_rate: Option<bool>,
    /// Processor time of each request or response.
    pub(super) cpu_per_message: Option<Text<Nanos>>,
    /// Processor time of each thousand bytes of them.
    pub(super) cpu_per_kilobyte: Option<Text<Nanos>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    /// True if the table describes only the direction from `from` to `to`; otherwise both
    /// directions are alike.
    #[serde(default)]
    pub(super) one_way: bool,
    pub(super) rate: Spanned<Text<Rate>>,
    pub(super) delay: Option<Text<Nanos>>,
    pub(super) jitter: Option<Text<Nanos>>,
    #[serde(default)]
    pub(super) loss: Percent,
    #[serde(default)]
    pub(super) reorder: Percent,
    pub(super) reorder_by: Option<Text<Nanos>>,
    #[serde(default)]
    pub(super) receive_offload: bool,
    /// Number of rings, each with qdiscs and a byte limit of its own.
    pub(super) queues: Option<Spanned<u16>>,
    /// Number of descriptors.
    pub(super) ring: Option<u32>,
    /// Points of frame size and descriptors.
    pub(super) descriptors: Option<Spanned<Vec<(u32, f64)>>>,
    pub(super) completion: Option<CompletionText>,
    pub(super) handler_latency: Option<Text<Nanos>>,
    pub(super) handler_latency_max: Option<Spanned<Text<Nanos>>>,
    pub(super) doorbell: Option<Text<Nanos>>,
    pub(super) bql: Option<bool>,
    pub(super) bql_limit_max: Option<Text<Bytes>>,
    pub(super) bql_hold_time: Option<Text<Nanos>>,
    pub(super) txqueuelen: Option<u32>,
    pub(super) role: Option<RoleName>,
    /// tc lines.
    pub(super) policy: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) step: Vec<StepTable>,
}

/// A device of a host that packets pass only where an action redirects them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IfbTable {
    pub(super) host: Spanned<String>,
    pub(super) name: Spanned<String>,
    pub(super) txqueuelen: Option<u32>,
    /// tc lines.
    pub(super) policy: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoleName {
    Origin,
    Forwarder,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepTable {
    pub(super) at: Text<Nanos>,
    pub(super) rate: Spanned<Text<Rate>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficTable {
    pub(super) name: String,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) kind: Spanned<KindName>,
    #[serde(default = "one_connection")]
    pub(super) count: Spanned<u32>,
    pub(super) size: Option<Spanned<Text<Bytes>>>,
    pub(super) request: Option<Spanned<Text<Bytes>>>,
    pub(super) response: Option<Spanned<Text<Bytes>>>,
    pub(super) rate: Option<Spanned<Text<Rate>>>,
    pub(super) priority: Option<u32>,
    pub(super) dscp: Option<DscpText>,
    #[serde(default)]
    pub(super) mark: u32,
    /// True if its packets are of IPv6.
    #[serde(default)]
    pub(super) ipv6: bool,
    pub(super) start: Option<Text<Nanos>>,
    pub(super) stagger: Option<Text<Nanos>>,
    pub(super) congestion: Option<Spanned<String>>,
    pub(super) ecn: Option<Spanned<String>>,
    /// Keys of short flows.
    pub(super) sizes: Option<Spanned<SizesText>>,
    pub(super) load: Option<Spanned<Percent>>,
    pub(super) of: Option<Spanned<Text<Rate>>>,
    /// Flows, or questions of a member, each second.
    pub(super) arrivals: Option<Spanned<f64>>,
    pub(super) arrivals_at: Option<Spanned<Vec<Text<Nanos>>>>,
    pub(super) at_once: Option<Spanned<u32>>,
    /// Keys of video.
    pub(super) fps: Option<Spanned<u32>>,
    pub(super) key_every: Option<Spanned<u32>>,
    pub(super) deadline: Option<Spanned<Text<Nanos>>>,
    pub(super) txtime: Option<Spanned<Text<Nanos>>>,
    /// Keys of questions.
    pub(super) timeout: Option<Spanned<Text<Nanos>>>,
    pub(super) tries: Option<Spanned<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KindName {
    Stream,
    Rr,
    Cbr,
    Short,
    Voice,
    Video,
    Dns,
    UdpRr,
    Rrul,
    Quic,
}

impl KindName {
    /// True if the host that the traffic goes to sends as well.
    pub(super) const fn answers(self) -> bool {
        !matches!(self, Self::Cbr | Self::Voice | Self::Video)
    }
}

/// Sizes of short flows: `"web"`, `"pareto"`, or a list of sizes with weights: `[["10kb", 9],
/// ["1mb", 1]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SizesText {
    Web,
    Pareto,
    List(Vec<(u64, u32)>),
}

impl<'de> Deserialize<'de> for SizesText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OfSizes;
        impl<'de> Visitor<'de> for OfSizes {
            type Value = SizesText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("web, pareto, or a list of sizes with weights ([[\"10kb\", 9], [\"1mb\", 1]])")
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<SizesText, E> {
                match s {
                    "web" => Ok(SizesText::Web),
                    "pareto" => Ok(SizesText::Pareto),
                    _ => Err(E::invalid_value(de::Unexpected::Str(s), &self)),
                }
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<SizesText, A::Error> {
                let mut list = Vec::new();
                while let Some((size, weight)) = seq.next_element::<(Text<Bytes>, u32)>()? {
                    list.push((size.0.0, weight));
                }
                Ok(SizesText::List(list))
            }
        }
        d.deserialize_any(OfSizes)
    }
}

/// A DS code point: its name (`"ef"`), or its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DscpText(pub(super) u8);

/// The names of code points (RFC 2474, 2597, 3246, 5865, 8622).
const DSCP: [(&str, u8); 26] = [
    ("be", 0),
    ("df", 0),
    ("le", 1),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("va", 44),
    ("ef", 46),
    ("nqb", 45),
];

/// Returns the code point of a name, in any case of its letters.
pub(crate) fn code_point(name: &str) -> Option<u8> {
    DSCP.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, n)| *n)
}

impl<'de> Deserialize<'de> for DscpText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OfDscp;
        impl Visitor<'_> for OfDscp {
            type Value = DscpText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a code point (ef, cs1, af41, le), or 0 to 63")
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<DscpText, E> {
                code_point(s).map(DscpText).ok_or_else(|| E::invalid_value(de::Unexpected::Str(s), &self))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<DscpText, E> {
                let found = u8::try_from(n).ok().filter(|n| *n < 64);
                found.map(DscpText).ok_or_else(|| E::invalid_value(de::Unexpected::Signed(n), &self))
            }
        }
        d.deserialize_any(OfDscp)
    }
}

fn one_connection() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}
