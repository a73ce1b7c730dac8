//! The links of a net: the NIC of each direction, the ways between hosts, and the place of every
//! packet.

use txweir_core::path::rates::SharedRates;
use txweir_core::{Instant, Rate, Tally};
use txweir_tc::{Diagnostic, Policy};

use super::ways::Ways;
use crate::engine::Engine;
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::nic::{Nic, NicConfig};

/// Code of the note that a packet reached its end.
const NOTE_DELIVER: u32 = 1;

/// Places of all packets since the start, in packets and bytes on the wire. In bytes, `submitted =
/// delivered + dropped + stolen + refused + lost + backlog + in_devices + in_links` holds between
/// any two events, unless actions make packets longer or shorter; in packets only if TSO units are
/// not cut, which count as one before and as many after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets taken by the NICs of the hosts that sent them.
    pub submitted: Tally,
    /// Packets that arrived at their end.
    pub delivered: Tally,
    /// Packets dropped by qdiscs and by filters.
    pub dropped: Tally,
    /// Packets taken away by actions.
    pub stolen: Tally,
    /// Packets refused by full queues on the way, where no sender takes a packet back.
    pub refused: Tally,
    /// Packets lost by links.
    pub lost: Tally,
    /// Packets in qdiscs.
    pub backlog: Tally,
    /// Packets handed to devices and not yet off the wire.
    pub in_devices: Tally,
    /// Packets off the wire and not yet arrived.
    pub in_links: Tally,
}

/// A step of a NIC's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RateStep {
    nic: u32,
    rate: Rate,
}

/// Result of a packet's arrival at a host.
pub(super) enum Arrived {
    /// The packet ended on its way.
    Gone,
    /// The host passed the packet on, by this NIC.
    PassedOn(u32),
    /// The packet is for this host.
    Here(Frame),
}

/// The links between the hosts of a net. A NIC is one direction of a link.
#[derive(Debug, Default)]
pub struct Links {
    nics: Vec<Nic>,
    /// The host at the other side of each NIC's link.
    far_sides: Vec<u32>,
    /// For each NIC the one that sends the other way, if there is one: arriving packets pass it.
    ways_back: Vec<Option<u32>>,
    /// For each host its NICs, with the host at the other side of each link.
    neighbours: Vec<Vec<(u32, u32)>>,
    ways: Ways,
    /// Rates that qdiscs of any NICs share by name.
    rates: SharedRates,
    steps: Vec<RateStep>,
    /// Packets that reached their end, and their bytes on the wire.
    delivered: Tally,
    /// Packets that a host in between passed on, and their bytes on the wire.
    forwarded: Tally,
    /// Packets that it had no room for and that have no other owner.
    refused: Tally,
}

impl Links {
    /// Returns true if links lead from one host to the other.
    pub(super) fn reaches(&mut self, from: u32, to: u32) -> bool {
        self.find_ways();
        self.ways.first(from, to) != u32::MAX
    }
    /// Finds the ways between hosts, if links were added since they were found.
    pub(super) fn find_ways(&mut self) {
        if self.ways.is_stale() {
            self.ways = Ways::of(&self.neighbours);
        }
    }

    /// Returns a NIC.
    ///
    /// # Panics
    /// Panics if there is no NIC of this number.
    pub fn nic(&self, nic: u32) -> &Nic {
        &self.nics[nic as usize]
    }
    pub(super) fn nic_mut(&mut self, nic: u32) -> &mut Nic {
        &mut self.nics[nic as usize]
    }

    /// Returns the place of every packet.
    pub fn totals(&self) -> Totals {
        let mut t = Totals { delivered: self.delivered, refused: self.refused, ..Totals::default() };
        let mut taken = Tally::default();
        for nic in &self.nics {
            let c = nic.counts();
            for (sum, part) in [
                (&mut taken, c.taken),
                (&mut t.dropped, c.dropped.plus(c.turned_away)),
                (&mut t.stolen, c.stolen),
                (&mut t.lost, c.link.lost),
                (&mut t.backlog, nic.port().totals().backlog()),
                (&mut t.in_devices, c.tx.since(c.departed)),
                (&mut t.in_links, nic.link().in_flight()),
            ] {
                sum.packets += part.packets;
                sum.bytes += part.bytes;
            }
        }
        t.submitted = taken.since(self.forwarded);
        t
    }

    /// Adds a host without links.
    pub(super) fn add_host(&mut self) {
        self.neighbours.push(Vec::new());
        self.ways = Ways::default();
    }

    /// Adds one direction of a link, and returns the number of its NIC.
    pub(super) fn link(&mut self, from: u32, to: u32, config: NicConfig) -> Result<u32, String> {
        let nic = self.nics.len() as u32;
        self.nics.push(Nic::new(config, nic, (from, to))?);
        self.far_sides.push(to);
        let back = self.neighbours[to as usize]
            .iter()
            .find(|(back, there)| *there == from && self.ways_back[*back as usize].is_none());
        self.ways_back.push(back.map(|(back, _)| *back));
        if let Some(back) = self.ways_back[nic as usize] {
            self.ways_back[back as usize] = Some(nic);
        }
        self.neighbours[from as usize].push((nic, to));
        self.ways = Ways::default();
        Ok(nic)
    }

    /// Returns the number of the NIC of `from` that leads to `to`; `u32::MAX` if none does. The
    /// ways have been found.
    pub(super) fn route(&self, from: u32, to: u32) -> u32 {
        self.ways.first(from, to)
    }

    /// Applies a policy to a NIC.
    pub(super) fn apply(&mut self, now: Instant, nic: u32, policy: &Policy) -> Result<(), Diagnostic> {
        self.nics[nic as usize].apply(now, policy, &mut self.rates)
    }

    /// Returns the event that changes a NIC's rate.
    pub(super) fn rate_step(&mut self, nic: u32, rate: Rate) -> NetEvent {
        self.steps.push(RateStep { nic, rate });
        NetEvent::Rate(self.steps.len() as u32 - 1)
    }
    /// Changes a rate by the step of this number.
    pub(super) fn step(&mut self, step: u32) {
        let RateStep { nic, rate } = self.steps[step as usize];
        self.nics[nic as usize].set_rate(rate);
    }

    /// Resets the counters of the NICs.
    pub(super) fn restart(&mut self, now: Instant) {
        for nic in &mut self.nics {
            nic.restart(now);
        }
    }

    /// Takes a packet that reaches the host at the other side of a NIC's link, on its way to
    /// `destination`.
    pub(super) fn arrive(
        &mut self,
        engine: &mut Engine<NetEvent>,
        nic: u32,
        mut frame: Frame,
        destination: u32,
    ) -> Arrived {
        if let Some(by) = self.ways_back[nic as usize].map(|n| &mut self.nics[n as usize])
            && !by.arrived(engine.now(), &mut frame)
        {
            return Arrived::Gone;
        }
        // A host that passes it on writes a link header of its own.
        frame.set_link(None);
        let here = self.far_sides[nic as usize];
        if here != destination {
            return self.forward(engine, self.route(here, destination), frame);
        }
        if frame.damaged {
            self.nics[nic as usize].link_mut().count_lost(frame.wire_len());
            return Arrived::Gone;
        }
        self.delivered.add(frame.wire_len());
        engine.note(frame.to, NOTE_DELIVER, u64::from(frame.ip_len()));
        Arrived::Here(frame)
    }

    fn forward(&mut self, engine: &Engine<NetEvent>, nic: u32, frame: Frame) -> Arrived {
        let bytes = frame.wire_len();
        let Some(n) = self.nics.get_mut(nic as usize) else { return Arrived::Gone };
        // A forwarder's path takes everything: what does not fit is dropped and counted there. One
        // that is set up as an origin, because its host has traffic of its own, has no sender here
        // that takes the packet back.
        let refused = n.submit(engine, frame).err().map_or(0, |rest| rest.wire_len());
        if refused > 0 {
            self.refused.add(refused);
        }
        if refused < bytes {
            self.forwarded.add(bytes - refused);
        }
        Arrived::PassedOn(nic)
    }

    /// Submits a packet that no sender takes back to a NIC: a refused one ends here.
    pub(super) fn offer(&mut self, engine: &Engine<NetEvent>, nic: u32, frame: Frame) {
        if let Err(frame) = self.nics[nic as usize].submit(engine, frame) {
            // Only a path of the role of an origin gives it back.
            self.refused.add(frame.wire_len());
        }
    }
}
