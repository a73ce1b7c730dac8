//! Reads traces.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// The version of the format that this module reads.
const VERSION: u32 = 1;
/// Largest number of packets of a trace: it is a test case, not a capture.
const PACKETS_MAX: usize = 100_000;
/// Largest time of a trace, before or after time 0: a qdisc with a timer would be asked for ages.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Description of a recording and its tools.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    #[serde(rename = "txweir-trace")]
    version: u32,
    /// The kind of qdisc that it tests.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Behaviour that it shows.
    #[serde(default)]
    pub about: String,
    /// True if the kernel drew random numbers: numbers of packets are compared, not their
    /// identities.
    #[serde(default)]
    pub random: bool,
    /// True if classes are flows that the kernel numbers by a hash with a random key.
    #[serde(default)]
    pub hashed: bool,
    /// Intended differences.
    #[serde(default)]
    pub parity: Vec<Parity>,
    /// True if shows are with details (`-d`).
    #[serde(default)]
    pub details: bool,
    /// The seed of its arrivals.
    pub seed: u64,
    /// The device.
    pub device: Device,
    /// The kernel's version.
    pub linux: String,
    /// The version of tc.
    pub iproute2: String,
}

/// An intended difference from Linux.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parity {
    /// Its row of PARITY.md.
    pub row: String,
    /// Parts that are not compared: an aspect (`order`, `time`, `drops`, `marks`, `status`,
    /// `text`), or a key of the counters.
    pub waives: Vec<String>,
}

/// The device of a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its MTU.
    pub mtu: u32,
    /// The length of its queue, packets.
    pub txqueuelen: u32,
    /// Its transmit queues.
    pub queues: u32,
    /// True if it takes super-packets whole.
    #[serde(default = "yes")]
    pub tso: bool,
    /// True if the kernel's own segmentation does.
    #[serde(default = "yes")]
    pub gso: bool,
    /// True if it gathers a packet from pieces.
    #[serde(default = "yes")]
    pub sg: bool,
    /// True if it finishes checksums.
    #[serde(default = "yes")]
    pub tx_checksum: bool,
}

const fn yes() -> bool {
    true
}

/// Common properties of a flow's packets: a row of the packet table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Row {
    /// udp, tcp, icmp, arp, or raw.
    pub proto: String,
    /// Source address.
    pub src: String,
    /// Destination address.
    pub dst: String,
    /// Source port; for icmp the identifier.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Priority, as set by SO_PRIORITY.
    pub priority: u32,
    /// Mark, as set by SO_MARK.
    pub mark: u32,
    /// Its transmit queue.
    pub queue: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// The ECN field.
    pub ecn: u8,
    /// TCP control bits, a letter each.
    pub flags: Option<String>,
    /// TCP window.
    pub window: Option<u16>,
    /// TCP options, hexadecimal.
    pub options: String,
    /// IPv6 flow label.
    pub label: u32,
    /// VLAN tags.
    pub vlan: Vec<u16>,
    /// Payload of a segment of a super-packet.
    pub gso: u16,
    /// The clock of launch times.
    pub txtime_clock: Option<String>,
    /// Ethertype, for raw.
    pub ethertype: u16,
}

/// Properties that differ from packet to packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Extra {
    /// TCP acknowledgement number.
    pub ack: Option<u32>,
    /// TCP sequence number.
    pub tcp_seq: Option<u32>,
    /// Launch time.
    pub txtime: Option<i64>,
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Arrival {
    /// Arrival time.
    pub at: i64,
    /// Its row of the packet table.
    pub row: usize,
    /// Its length.
    pub size: u32,
    /// Its own properties.
    #[serde(default)]
    pub extra: Extra,
}

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Departure time.
    pub at: i64,
    /// Number of the packet.
    pub packet: usize,
    /// Its length; a segment is shorter than the packet that arrived.
    pub len: u32,
    /// Its DS byte at the departure; 0 for packets that are not IP.
    pub ds: u8,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Changed {
    len: Option<u32>,
    ds: Option<u8>,
}

#[derive(Deserialize)]
struct DepartureItem(i64, usize, #[serde(default)] Changed);

/// Output of `show`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Show {
    /// `tc -s -j qdisc show`, if that is JSON.
    pub qdisc: Option<Vec<Value>>,
    /// `tc -s -j class show`, if that is JSON.
    pub class: Option<Vec<Value>>,
    /// `tc -s qdisc show`.
    pub qdisc_text: String,
    /// `tc -s class show`.
    pub class_text: String,
}

/// An event of a trace.
#[derive(Clone, Debug)]
pub enum Step {
    /// A command was run.
    Command {
        /// Time.
        at: i64,
        /// The command line.
        line: String,
        /// Its exit status.
        status: u8,
    },
    /// The packet of that number arrived.
    Arrival(i64, usize),
    /// The counters were read.
    Show(i64, Show),
}

impl Step {
    /// Returns the time.
    pub const fn at(&self) -> i64 {
        match self {
            Self::Command { at, .. } | Self::Show(at, _) | Self::Arrival(at, _) => *at,
        }
    }
}

/// A trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Description of the trace.
    pub head: Head,
    /// The packet table.
    pub rows: Vec<Row>,
    /// The packets that arrived, in order: a packet's number is its place here.
    pub arrivals: Vec<Arrival>,
    /// Events, in order; the last is a show.
    pub steps: Vec<Step>,
    /// Departures, in order.
    pub departures: Vec<Departure>,
}

/// Reason that a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// The error in that line.
    pub what: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// Names the first wrong line, and the reason.
    pub fn read(text: &str) -> Result<Self, TraceError> {
        let mut lines = text.lines().enumerate().map(|(index, text)| Line { number: index + 1, text });
        let first =
            lines.next().ok_or_else(|| Line { number: 1, text }.error("a trace expected, given nothing"))?;
        let object = first.object()?;
        if !object.contains_key("txweir-trace") {
            return Err(first.error("expected the head of a trace, {\"txweir-trace\":1, ...}"));
        }
        let head: Head = first.value(Value::Object(object))?;
        if head.version != VERSION {
            let given = head.version;
            return Err(first.error(&format!("expected a trace of version {VERSION}, given {given}")));
        }
        let mut trace =
            Self { head, rows: Vec::new(), arrivals: Vec::new(), steps: Vec::new(), departures: Vec::new() };
        let mut last = first.number;
        for line in lines {
            last = line.number;
            trace.take(&line)?;
        }
        match trace.steps.last() {
            Some(Step::Show(..)) => Ok(trace),
            _ => Err(Line { number: last, text: "" }.error("expected the final counters as the last line")),
        }
    }

    fn take(&mut self, line: &Line<'_>) -> Result<(), TraceError> {
        let mut object = line.object()?;
        let key =
            ["packets", "tc", "send", "depart", "show"].into_iter().find(|key| object.contains_key(*key));
        let Some(key) = key else {
            return Err(line.error("expected packets, tc, send, depart or show"));
        };
        let value = object.get_mut(key).map(Value::take).unwrap_or_default();
        match key {
            "packets" => self.rows = line.value(value)?,
            "send" => {
                for arrival in line.value::<Vec<Arrival>>(value)? {
                    self.arrive(line, arrival)?;
                }
            }
            "depart" => {
                for item in line.value::<Vec<DepartureItem>>(value)? {
                    self.depart(line, item)?;
                }
            }
            "tc" => {
                let (at, status) = (line.at(&object)?, object.get("status").and_then(Value::as_u64));
                let status = status.and_then(|s| u8::try_from(s).ok());
                let status = status.ok_or_else(|| line.error("expected `status`, an exit status"))?;
                self.step(line, Step::Command { at, line: line.value(value)?, status })?;
            }
            _ => {
                let at = line.at(&object)?;
                self.step(line, Step::Show(at, line.value(value)?))?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, line: &Line<'_>, arrival: Arrival) -> Result<(), TraceError> {
        let Some(row) = self.rows.get(arrival.row) else {
            return Err(line.error(&format!("there is no row {} in the packet table", arrival.row)));
        };
        super::packet::frame(row, 0, arrival.size, arrival.extra).map_err(|what| line.error(&what))?;
        if self.arrivals.len() == PACKETS_MAX {
            return Err(line.error(&format!("more than {PACKETS_MAX} packets")));
        }
        self.arrivals.push(arrival);
        self.step(line, Step::Arrival(arrival.at, self.arrivals.len() - 1))
    }

    fn step(&mut self, line: &Line<'_>, step: Step) -> Result<(), TraceError> {
        line.time(step.at())?;
        if self.steps.last().is_some_and(|before| before.at() > step.at()) {
            return Err(line.error("it happens before what stands in front of it"));
        }
        self.steps.push(step);
        Ok(())
    }

    fn depart(&mut self, line: &Line<'_>, item: DepartureItem) -> Result<(), TraceError> {
        let DepartureItem(at, packet, changed) = item;
        line.time(at)?;
        let Some(arrival) = self.arrivals.get(packet) else {
            return Err(line.error(&format!("packet {packet} left, but never arrived")));
        };
        let ds = changed.ds.unwrap_or_else(|| super::packet::ds(&self.rows[arrival.row]));
        self.departures.push(Departure { at, packet, len: changed.len.unwrap_or(arrival.size), ds });
        Ok(())
    }

    /// True if the trace has super-packets.
    pub(crate) fn has_super_packets(&self) -> bool {
        self.arrivals.iter().any(|a| self.rows[a.row].gso > 0)
    }

    /// True if the trace has super-packets whose segments its kernel does not count (PARITY.md:
    /// gso-count).
    pub(crate) fn counts_no_segments(&self) -> bool {
        self.has_super_packets() && self.head.linux.starts_with("6.12")
    }

    /// Returns the row of PARITY.md that waives this aspect or counter, if a difference is
    /// intended.
    pub fn waived(&self, what: &str) -> Option<&str> {
        let found = self.head.parity.iter().find(|p| p.waives.iter().any(|w| w == what));
        found.map(|p| p.row.as_str())
    }
}

/// A line of the text.
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl Line<'_> {
    fn error(&self, what: &str) -> TraceError {
        TraceError { line: self.number, what: what.into() }
    }

    fn object(&self) -> Result<Map<String, Value>, TraceError> {
        match serde_json::from_str(self.text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(self.error("expected a JSON object")),
            Err(e) => Err(self.error(&format!("not JSON: {e}"))),
        }
    }

    fn value<T: for<'de> Deserialize<'de>>(&self, value: Value) -> Result<T, TraceError> {
        serde_json::from_value(value).map_err(|e| self.error(&e.to_string()))
    }

    /// Checks a time.
    fn time(&self, at: i64) -> Result<(), TraceError> {
        match at.unsigned_abs() <= TIME_MAX_NS {
            true => Ok(()),
            false => Err(self.error(&format!("expected a time within an hour of time 0, given {at} ns"))),
        }
    }

    fn at(&self, object: &Map<String, Value>) -> Result<i64, TraceError> {
        let at = object.get("at").and_then(Value::as_i64);
        at.ok_or_else(|| self.error("expected `at`, a time in nanoseconds"))
    }
}
