//! Machines at their hosts: from a machine to its NIC, and from a link to the machine.

use std::collections::BTreeMap;

use txweir_core::Instant;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;

use super::{Ground, MACHINES, address};
use crate::engine::Alarm;
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::machine::Machine;

/// A machine at its host.
#[derive(Debug)]
struct Place {
    machine: Box<dyn Machine>,
    alarm: Alarm,
    host: u32,
    /// A packet, or the rest of one, that found no room at the NIC. It is the oldest.
    held: Option<Frame>,
    /// True if the machine is among the ends that wait for room at its NIC.
    waiting: bool,
}

/// Packets of machines that have ended outside queues and links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCounts {
    /// Packets that a machine had no room for.
    pub refused: u64,
    /// Packets of a machine for an address that no machine has, or to which no links lead.
    pub unreachable: u64,
}

/// The machines of a net.
#[derive(Debug)]
pub(super) struct Machines {
    places: Vec<Place>,
    /// For each host up to the last machine its place.
    of_host: Vec<Option<u32>>,
    hasher: FlowHasher,
    counts: MachineCounts,
    /// For each direction of a TCP connection the byte behind the highest that was sent.
    sent: BTreeMap<(u32, [u8; 4]), u32>,
    /// For each port of a server the payload that was sent again, in both directions.
    again: BTreeMap<u16, u64>,
    fault: Option<(u32, String)>,
}

impl Default for Machines {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            of_host: Vec::new(),
            hasher: FlowHasher::new(0),
            counts: MachineCounts::default(),
            sent: BTreeMap::new(),
            again: BTreeMap::new(),
            fault: None,
        }
    }
}

impl Machines {
    pub(super) fn set_seed(&mut self, seed: u64) {
        self.hasher = FlowHasher::new(seed);
    }

    /// Makes a host a machine, whose first event is scheduled.
    pub(super) fn add(&mut self, host: u32, machine: Box<dyn Machine>, ground: &mut Ground) {
        let number = self.places.len() as u32;
        let mut alarm = Alarm::default();
        alarm.set(&mut ground.engine, machine.next(), number, NetEvent::Machine);
        let at = host as usize;
        self.of_host.resize(self.of_host.len().max(at + 1), None);
        self.of_host[at] = Some(number);
        self.places.push(Place { machine, alarm, host, held: None, waiting: false });
    }

    pub(super) fn counts(&self) -> MachineCounts {
        self.counts
    }

    /// Returns the payload that the connections to this port of a server have sent again.
    pub(super) fn again(&self, port: u16) -> u64 {
        self.again.get(&port).copied().unwrap_or(0)
    }

    /// Begins measuring: earlier events do not count.
    pub(super) fn restart(&mut self) {
        self.counts = MachineCounts::default();
        self.again.clear();
    }

    /// Returns the first machine that failed, its host, and the reason.
    pub(super) fn fault(&self) -> Option<(u32, &str)> {
        self.fault.as_ref().map(|(host, why)| (*host, why.as_str()))
    }

    /// Returns the machines with their hosts.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Box<dyn Machine>)> {
        self.places.iter_mut().map(|place| (place.host, &mut place.machine))
    }

    /// Handles the alarm of a machine. Returns the NIC that it handed packets to, if it did.
    pub(super) fn fired(&mut self, n: u32, ground: &mut Ground) -> Option<u32> {
        let now = ground.engine.now();
        let place = self.places.get_mut(n as usize)?;
        if !place.alarm.fired(now) || self.fault.is_some() {
            return None;
        }
        if place.machine.next().is_some_and(|at| at <= now) {
            let free = ground.engine.upcoming().unwrap_or(Instant::MAX);
            if let Err(why) = place.machine.run(now, free) {
                return self.fail(n, why);
            }
        }
        self.exchange(n, ground)
    }

    /// Gives a packet to the machine of a host. Returns the NIC as [`fired`](Self::fired) does.
    pub(super) fn deliver(&mut self, host: u32, frame: &Frame, ground: &mut Ground) -> Option<u32> {
        let n = self.of_host.get(host as usize).copied().flatten().filter(|_| self.fault.is_none())?;
        match self.places[n as usize].machine.give(frame) {
            Ok(true) => {}
            Ok(false) => self.counts.refused += 1,
            Err(why) => return self.fail(n, why),
        }
        self.exchange(n, ground)
    }

    /// Lets a machine that waited for room try again. Returns true if it has to wait once more.
    pub(super) fn wake(&mut self, n: u32, ground: &mut Ground) -> bool {
        let Some(place) = self.places.get_mut(n as usize) else { return false };
        place.waiting = false;
        self.exchange(n, ground);
        self.places[n as usize].waiting
    }

    fn fail(&mut self, n: u32, why: String) -> Option<u32> {
        self.fault.get_or_insert((self.places[n as usize].host, why));
        None
    }

    /// Hands what a machine sends to its NIC, as far as that takes it, and sees to the next time at
    /// which it runs.
    fn exchange(&mut self, n: u32, ground: &mut Ground) -> Option<u32> {
        if self.fault.is_some() {
            return None;
        }
        let mut offered = None;
        let now = ground.engine.now();
        // Bound: the ring of the machine, which does not run meanwhile.
        loop {
            let place = &mut self.places[n as usize];
            if place.waiting {
                break;
            }
            let (frame, is_new) = match place.held.take() {
                Some(frame) => (frame, false),
                None => match place.machine.take() {
                    Ok(Some(frame)) => (frame, true),
                    Ok(None) => break,
                    Err(why) => return self.fail(n, why),
                },
            };
            let host = place.host;
            let frame = if is_new { self.noted(frame) } else { Some(frame) };
            let nic = frame.as_ref().map_or(u32::MAX, |frame| ground.links.route(host, frame.to - MACHINES));
            let Some(mut frame) = frame.filter(|_| nic != u32::MAX) else {
                self.counts.unreachable += 1;
                continue;
            };
            if is_new {
                frame.sent = now;
            }
            offered = Some(nic);
            let mut at = ground.links.at(nic);
            if let Err(rest) = at.submit(&ground.engine, frame) {
                let place = &mut self.places[n as usize];
                (place.held, place.waiting) = (Some(rest), true);
                at.nic.waiting().wait(MACHINES + n);
            }
        }
        let place = &mut self.places[n as usize];
        if let Err(why) = place.machine.tell(now) {
            return self.fail(n, why);
        }
        place.alarm.set(&mut ground.engine, place.machine.next(), n, NetEvent::Machine);
        offered
    }

    /// Completes a packet that a machine has made: its flow and its destination. Returns `None` if
    /// no machine has that address. Payload that is sent again is counted.
    fn noted(&mut self, mut frame: Frame) -> Option<Frame> {
        let headers = Headers::parse_ip(frame.kept());
        let [.., a, b, c, d] = headers.dst;
        let host = host_of([a, b, c, d]).filter(|_| headers.ethertype == frame.protocol)?;
        self.of_host.get(host as usize).copied().flatten()?;
        frame.to = MACHINES + host;
        frame.hash = self.hasher.five_tuple(&headers);
        frame.priority = headers.tos_priority();
        frame.ds = headers.ds;
        let payload = frame.payload_len();
        let ports = frame.head().transport().get(..4).and_then(|ports| <[u8; 4]>::try_from(ports).ok());
        if let Some(ports) = ports.filter(|_| headers.protocol == TCP && payload > 0) {
            let first = frame.head().tcp_seq();
            let end = first.wrapping_add(payload);
            // A connection has few directions, and each its own ports.
            let highest = self.sent.entry((host, ports)).or_insert(first);
            let new = end.wrapping_sub(*highest).cast_signed().clamp(0, payload.cast_signed());
            *highest = highest.wrapping_add(new.cast_unsigned());
            let again = u64::from(payload - new.cast_unsigned());
            // The port of a server is the smaller one: clients have ephemeral ports.
            let [from, to] = [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes);
            *self.again.entry(from.min(to)).or_default() += again;
        }
        Some(frame)
    }
}

/// The number of TCP (RFC 9293).
const TCP: u8 = 6;

/// Returns the number of the host with this address.
fn host_of(given: [u8; 4]) -> Option<u32> {
    let [_, high, middle, low] = given.map(u32::from);
    let host = high * 65_025 + middle * 255 + low.checked_sub(1)?;
    (address(host) == given).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_their_addresses() {
        for host in [0, 1, 254, 255, 65_024, 65_025, 1_000_000] {
            assert_eq!(host_of(address(host)), Some(host));
        }
        for stranger in [[10, 0, 0, 0], [10, 0, 255, 1], [11, 0, 0, 1], [0; 4], [255; 4]] {
            assert_eq!(host_of(stranger), None);
        }
    }
}
