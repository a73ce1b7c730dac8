//! The memory of a scenario: what its parts take, and the budget of all together.

use std::ops::Range;

use txweir_core::model::wire::WireConfig;
use txweir_core::path::port::SLOTS_MAX;
use txweir_core::path::txpath::PathConfig;

use super::file::LinkTable;
use super::{Scenario, ScenarioError};
use crate::frame::Frame;
use crate::net::{CLASSES, CONNECTIONS_MAX, Group, Load};

/// Most bytes that the hosts, links, qdiscs and traffic of a scenario take before it runs: 150
/// links of both directions with the default queues and rings.
pub const MEMORY: u64 = 1 << 30;

/// Most bytes of the text of a scenario: to read it takes up to ninety times as many.
pub const TEXT_MAX: usize = 4 << 20;

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
/// Bytes of a sender of datagrams and its receiver, without distributions.
const DATAGRAMS: u64 = 1 << 10;

/// Returns the bytes of each direction of a link.
fn of_direction(t: &LinkTable) -> u64 {
    let wire = WireConfig::default();
    let queues = u64::from(t.queues.unwrap_or(wire.rings)).max(1);
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
        Load::Ask(_) => DATAGRAMS,
        Load::Cbr { .. } | Load::Voice => DATAGRAMS + TIMES,
        Load::Video(_) => DATAGRAMS + 2 * TIMES,
    };
    let times = size_of_val(&*group.arrivals) as u64;
    // A net refuses more connections than it has ports for.
    TIMES + DATAGRAMS + times + u64::from(group.count.min(CONNECTIONS_MAX)) * each
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
        for (table, group) in groups {
            let span = self.file.traffic.get(*table).map_or(0..0, |t| t.span());
            sum.add(of_group(group), span, || format!("traffic {}", group.name))?;
        }
        Ok(sum.used)
    }
}
