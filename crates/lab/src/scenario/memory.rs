//! The memory of a scenario: what its parts take, and the budget of all together; and the memory of
//! the packets that its links carry at a time, which have a budget of their own.

use std::ops::Range;

use txweir_core::Nanos;
use txweir_core::model::wire::WireConfig;
use txweir_core::path::port::SLOTS_MAX;
use txweir_core::path::txpath::PathConfig;

use super::file::{LinkTable, Text};
use super::{Scenario, ScenarioError};
use crate::frame::Frame;
use crate::net::{CLASSES, CONNECTIONS_MAX, Group, Load};
use crate::udp::ask::{Ask, OPEN_BYTES};

/// Most bytes that the hosts, links, qdiscs and traffic of a scenario take before it runs: 150
/// links of both directions with the default queues and rings.
pub const MEMORY: u64 = 1 << 30;

/// Most bytes of the text of a scenario: to read it takes up to ninety times as many.
pub const TEXT_MAX: usize = 4 << 20;

/// Most bytes of the packets that all links carry at a time.
pub const CARRIED: u64 = 1 << 30;

/// Bytes of a packet on its way: its frame, and the time and number of its arrival.
const ON_THE_WAY: u64 = 16 + size_of::<Frame>() as u64;
/// The least packet on a line, and a full one, bytes: with preamble and gap.
const LINE_MIN: u64 = 84;
const LINE_FULL: u64 = 1538;
/// Bytes of a full packet on a line beside those of `mss`.
const LINE_HEADERS: u64 = 78;

/// Bytes of a host: its TCP, its name, its lists.
const HOST: u64 = 1536;
/// Bytes of a direction of a link, without its queues: its counters, and its ways to other hosts.
const DIRECTION: u64 = 16 << 10;
/// Bytes of a queue, without its packets and its ring: its qdisc, its byte limit.
const QUEUE: u64 = 8 << 10;
/// Bytes of a packet that may wait on a path: its metadata, its links, its frame.
const SLOT: u64 = 72 + size_of::<Option<Frame>>() as u64;
/// Bytes of a descriptor of a ring: the frame, its metadata, its times.
const DESCRIPTOR: u64 = 64 + size_of::<Frame>() as u64;
/// Bytes of a distribution of times: a histogram from 1 ns to 1 h to three digits.
const TIMES: u64 = 272 << 10;
/// Bytes of a pair of TCP ends with data under way.
const CONNECTION: u64 = 4 << 10;
/// Bytes of both ends of a QUIC connection.
const QUIC: u64 = 32 << 10;
/// Bytes of a sender of datagrams and its receiver, without distributions and open questions.
const DATAGRAMS: u64 = 1 << 10;

/// Returns the bytes of each direction of a link.
fn of_direction(t: &LinkTable) -> u64 {
    let wire = WireConfig::default();
    let queues = u64::from(t.queues.as_ref().map_or(wire.rings, |n| *n.get_ref())).max(1);
    let ring = u64::from(t.ring.unwrap_or(wire.ring));
    let packets = (PathConfig::default().pool as u64 * queues).min(SLOTS_MAX as u64);
    DIRECTION + packets * SLOT + queues * (QUEUE + ring * DESCRIPTOR)
}

/// Returns the bytes of a group of traffic.
fn of_group(group: &Group) -> u64 {
    let each = match group.load {
        Load::Stream | Load::Rr { .. } => CONNECTION,
        Load::Short(short) => (2 + CLASSES.len() as u64) * TIMES + u64::from(short.at_once) * CONNECTION,
        Load::Quic(_) => QUIC,
        // Questions at random times wait side by side; of those that follow one another, one waits.
        Load::Ask(Ask { gap: Some(_), .. }) => DATAGRAMS + OPEN_BYTES,
        Load::Ask(_) => DATAGRAMS,
        Load::Cbr { .. } | Load::Voice => DATAGRAMS + TIMES,
        Load::Video(_) => DATAGRAMS + 2 * TIMES,
    };
    let times = size_of_val(&*group.arrivals) as u64;
    // A net refuses more connections than it has ports for.
    TIMES + DATAGRAMS + times + u64::from(group.count.min(CONNECTIONS_MAX)) * each
}

/// Returns the packets that groups with a rate of their own send in a second, in a direction.
fn packets_of_rates(groups: &[(usize, Group)]) -> u64 {
    let each = |group: &Group| {
        let member = match group.load {
            Load::Cbr { len, rate, .. } => rate / 8 / u64::from(len.max(1)),
            // All tries of a question; its answers are not more. Those that follow one another are
            // one packet on the way, and its repetitions.
            Load::Ask(ask) => match ask.gap {
                Some(gap) => u64::from(ask.tries) * (1_000_000_000 / gap.0.max(1)),
                None => 1_000_000_000 / ask.timeout.0.max(1),
            },
            _ => 0,
        };
        member.saturating_mul(group.count.into())
    };
    groups.iter().fold(0, |sum, (_, group)| sum.saturating_add(each(group)))
}

/// Returns the most packets that a direction of a link carries at a time, in a run of this length:
/// packets of data of at least `full` bytes, an acknowledgement for each of the other direction,
/// and `others` a second.
fn carried(t: &LinkTable, full: u64, others: u64, run: Nanos) -> u64 {
    let of = |time: Option<Text<Nanos>>| time.map_or(0, |time| time.0.0);
    let late = if t.reorder.ppm > 0 { of(t.reorder_by) } else { 0 };
    let time = of(t.delay).saturating_add(of(t.jitter)).saturating_add(late).min(run.0);
    let rate = t.step.iter().map(|step| step.rate.get_ref().0.0).fold(t.rate.get_ref().0.0, u64::max);
    let a_second = (2 * (rate / full)).saturating_add(others).min(rate / LINE_MIN);
    let packets = u128::from(a_second) * u128::from(time) / 1_000_000_000;
    u64::try_from(packets).unwrap_or(u64::MAX)
}

/// The sum of the memory of some parts, which stays below the budget.
struct Sum<'a> {
    scenario: &'a Scenario,
    used: u64,
}

impl Sum<'_> {
    fn add(
        &mut self,
        bytes: u64,
        span: Range<usize>,
        object: impl FnOnce() -> String,
    ) -> Result<(), ScenarioError> {
        if self.used + bytes <= MEMORY {
            self.used += bytes;
            return Ok(());
        }
        let (object, used) = (object(), self.used);
        let message = format!(
            "{object}: memory: expected at most {MEMORY} bytes of all hosts, links and traffic together, given \
             {bytes} more beside {used}"
        );
        let hint =
            "less needs fewer hosts, links, queues and descriptors (ring), or a smaller count or at_once";
        Err(ScenarioError { hint: Some(hint.into()), ..self.scenario.error(span, message) })
    }
}

impl Scenario {
    /// Returns the bytes that its hosts, links and traffic take, without the qdiscs of policies and
    /// without the packets that links carry; `groups` are those of each of its tables of traffic.
    ///
    /// # Errors
    /// Fails at the first part that does not fit into [`MEMORY`] beside those before it.
    pub(super) fn memory(&self, groups: &[(usize, Group)]) -> Result<u64, ScenarioError> {
        let mut sum = Sum { scenario: self, used: 0 };
        for host in &self.file.host {
            let name = &host.get_ref().name;
            sum.add(HOST, name.span(), || format!("host {}", name.get_ref()))?;
        }
        for link in &self.file.link {
            let t = link.get_ref();
            let ways = if t.one_way { 1 } else { 2 };
            let object = || format!("link {} -> {}", t.from.get_ref(), t.to.get_ref());
            sum.add(ways * of_direction(t), link.span(), object)?;
        }
        let ring = WireConfig::default().ring;
        for ifb in &self.file.ifb {
            let name = &ifb.get_ref().name;
            let bytes =
                DIRECTION + PathConfig::default().pool as u64 * SLOT + QUEUE + u64::from(ring) * DESCRIPTOR;
            sum.add(bytes, ifb.span(), || format!("ifb {}", name.get_ref()))?;
        }
        for (table, group) in groups {
            let span = self.file.traffic.get(*table).map_or(0..0, |t| t.span());
            sum.add(of_group(group), span, || format!("traffic {}", group.name))?;
        }
        Ok(sum.used)
    }

    /// Returns the bytes that a full packet of any connection takes on a line at least: the smaller
    /// `mss` of both ends holds.
    fn full(&self) -> u64 {
        let given = self.file.host.iter().filter_map(|host| host.get_ref().mss.as_ref());
        let least = given.map(|mss| u64::from(*mss.get_ref())).min();
        least.map_or(LINE_FULL, |mss| (mss + LINE_HEADERS).clamp(LINE_MIN, LINE_FULL))
    }

    /// Checks that the packets that the links carry at a time fit into [`CARRIED`] bytes.
    ///
    /// # Errors
    /// Fails at the first link whose packets do not fit beside those of the links before it.
    pub(super) fn check_carried(&self, groups: &[(usize, Group)]) -> Result<(), ScenarioError> {
        let (full, others) = (self.full(), packets_of_rates(groups));
        let mut used = 0_u64;
        for link in &self.file.link {
            let t = link.get_ref();
            let ways = if t.one_way { 1 } else { 2 };
            let packets = carried(t, full, others, self.duration()).saturating_mul(ways);
            let bytes = packets.saturating_mul(ON_THE_WAY);
            if used.saturating_add(bytes) > CARRIED {
                let (from, to) = (t.from.get_ref(), t.to.get_ref());
                let message = format!(
                    "link {from} -> {to}: delay: expected packets on the way that take at most {CARRIED} bytes of \
                     memory on all links together, given {packets} packets of {bytes} bytes beside {used}"
                );
                let hint = "fewer are on the way with a lower rate, delay, jitter or reorder_by, or in a shorter run";
                return Err(ScenarioError { hint: Some(hint.into()), ..self.error(link.span(), message) });
            }
            used += bytes;
        }
        Ok(())
    }
}
