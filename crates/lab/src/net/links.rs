//! The links of a net: the NIC of each direction, the ways between hosts, and the place of every
//! packet.

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::Way;
use txweir_core::{Instant, Rate, Tally};
use txweir_tc::policy::UNNAMED;
use txweir_tc::tool::Rates;
use txweir_tc::{Diagnostic, Policy};

use super::ways::Ways;
use crate::engine::Engine;
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::nic::{self, HostDevice, Moved, Nic, NicConfig, Site, Taken};
use crate::tagged::Detour;

/// Code of the note that a packet reached its end.
const NOTE_DELIVER: u32 = 1;

/// Places of all packets since the start, in packets and bytes on the wire. In bytes, `submitted =
/// delivered + ended + dropped + stolen + refused + lost + backlog + in_devices + in_links` holds
/// between any two events, unless actions make packets longer or shorter; in packets only if TSO
/// units are not cut, which count as one before and as many after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets taken by the NICs of the hosts that sent them, and copies that actions and qdiscs
    /// made.
    pub submitted: Tally,
    /// Packets that arrived at their end.
    pub delivered: Tally,
    /// Packets that ended on their way: copies, packets that an ifb had from nowhere, and packets
    /// that an action has sent to a host from which no links lead to their destination.
    pub ended: Tally,
    /// Packets dropped by qdiscs and by filters.
    pub dropped: Tally,
    /// Packets taken away by actions for good.
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

/// Where a NIC is.
#[derive(Debug)]
struct Place {
    /// The host that it belongs to, and the host at the other side of its link.
    here: u32,
    there: u32,
    /// Its name among the devices of its host.
    name: String,
    /// True for an ifb, whose packets come back to their host.
    is_ifb: bool,
}

/// Sums of the packets that actions have sent to other devices.
#[derive(Debug, Default)]
struct Sent {
    /// Packets themselves, which the NIC that they were at counts as stolen.
    itself: Tally,
    /// Copies.
    copies: Tally,
    /// Those of both that a device has taken to send.
    taken: Tally,
    /// Those of both that the device had no room for.
    refused: Tally,
}

/// A NIC with the filters of its host.
#[derive(Debug)]
pub(super) struct At<'a> {
    pub(super) nic: &'a mut Nic,
    site: Option<&'a mut Site>,
}

impl At<'_> {
    /// Hands a frame over: see [`Nic::submit`].
    #[inline]
    pub(super) fn submit(&mut self, engine: &Engine<NetEvent>, frame: Frame) -> Result<Taken, Frame> {
        self.nic.submit(engine, self.site.as_deref_mut(), frame)
    }
    fn arrived(&mut self, now: Instant, frame: &mut Frame) -> bool {
        self.nic.arrived(now, self.site.as_deref_mut(), frame)
    }
}

/// The links between the hosts of a net. A NIC is one direction of a link, or an ifb of a host.
#[derive(Debug, Default)]
pub struct Links {
    nics: Vec<Nic>,
    places: Vec<Place>,
    /// The filters and actions of each host that has some.
    sites: Vec<Option<Box<Site>>>,
    /// For each NIC the one that sends the other way, if there is one: arriving packets pass it.
    ways_back: Vec<Option<u32>>,
    /// For each host its NICs, with the host at the other side of each link.
    neighbours: Vec<Vec<(u32, u32)>>,
    ways: Ways,
    /// Rates that qdiscs of any NICs share by name.
    rates: Rates,
    /// Most bytes of the tables of all qdiscs that policies make, if there is a bound.
    tables_max: Option<u64>,
    steps: Vec<RateStep>,
    /// Packets that reached their end, and their bytes on the wire.
    delivered: Tally,
    /// Packets that a host in between passed on, and their bytes on the wire.
    forwarded: Tally,
    /// Packets that it had no room for and that have no other owner.
    refused: Tally,
    ended: Tally,
    sent: Sent,
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
    /// Returns a NIC with the filters of its host.
    #[inline]
    pub(super) fn at(&mut self, nic: u32) -> At<'_> {
        let Self { nics, places, sites, .. } = self;
        let host = places[nic as usize].here as usize;
        At { nic: &mut nics[nic as usize], site: sites[host].as_deref_mut() }
    }
    /// Returns the filters and actions of the host that a NIC belongs to, with their counts, if it
    /// has any.
    ///
    /// # Panics
    /// Panics if there is no NIC of this number.
    pub fn filters(&self, nic: u32) -> Option<(&Filters, &State)> {
        self.sites[self.places[nic as usize].here as usize].as_ref().map(|site| site.filters())
    }

    /// Sets the most bytes of the tables of all qdiscs that policies make.
    pub(super) const fn set_tables(&mut self, bytes: u64) {
        self.tables_max = Some(bytes);
    }
    /// Returns the number of NICs.
    pub const fn count(&self) -> u32 {
        self.nics.len() as u32
    }
    /// Returns the name of a NIC among the devices of its host.
    ///
    /// # Panics
    /// Panics if there is no NIC of this number.
    pub fn name(&self, nic: u32) -> &str {
        &self.places[nic as usize].name
    }

    /// Returns the place of every packet.
    pub fn totals(&self) -> Totals {
        let Self { delivered, refused, ended, sent, .. } = self;
        let mut t = Totals {
            delivered: *delivered,
            ended: *ended,
            refused: refused.plus(sent.refused),
            ..Totals::default()
        };
        let mut taken = Tally::default();
        for nic in &self.nics {
            let c = nic.counts();
            for (sum, part) in [
                (&mut taken, c.taken.plus(nic.copied())),
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
        t.submitted = taken.since(self.forwarded).since(sent.taken).plus(sent.copies);
        t.stolen = t.stolen.since(sent.itself);
        t
    }

    /// Adds a host without links.
    pub(super) fn add_host(&mut self) {
        self.neighbours.push(Vec::new());
        self.sites.push(None);
        self.ways = Ways::default();
    }

    /// Adds a NIC, which has a name if it is an ifb, and returns its number.
    fn add(
        &mut self,
        config: NicConfig,
        (here, there): (u32, u32),
        ifb: Option<&str>,
    ) -> Result<u32, String> {
        let nic = self.nics.len() as u32;
        self.nics.push(Nic::new(config, nic, (here, there))?);
        let name = ifb.unwrap_or_default().to_string();
        self.places.push(Place { here, there, name, is_ifb: ifb.is_some() });
        Ok(nic)
    }

    /// Adds an ifb to a host, and returns the number of its NIC.
    pub(super) fn ifb(&mut self, host: u32, name: &str, config: NicConfig) -> Result<u32, String> {
        let nic = self.add(config, (host, host), Some(name))?;
        self.ways_back.push(None);
        Ok(nic)
    }

    /// Gives a NIC a name among the devices of its host.
    pub(super) fn set_name(&mut self, nic: u32, name: &str) {
        self.places[nic as usize].name = name.into();
    }

    /// Adds one direction of a link, and returns the number of its NIC.
    pub(super) fn link(&mut self, from: u32, to: u32, config: NicConfig) -> Result<u32, String> {
        let nic = self.add(config, (from, to), None)?;
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

    /// Applies a policy to the devices of a host. Lines that name no device are for the NIC; so are
    /// all lines of a policy for one device that the host does not have.
    pub(super) fn apply(&mut self, now: Instant, nic: u32, policy: &Policy) -> Result<(), Diagnostic> {
        let here = self.places[nic as usize].here;
        let of_host = |p: &&Place| p.here == here;
        let own = self.places[nic as usize].name.clone();
        let known = |name: &str| self.places.iter().filter(of_host).any(|p| p.name == name);
        let name = match policy.devices().as_slice() {
            [one] if !known(one) => (*one).to_string(),
            _ if own.is_empty() => UNNAMED.to_string(),
            _ => own.clone(),
        };
        self.set_name(nic, &name);
        let others = self.nics.iter().zip(&self.places).filter(|(_, place)| place.here != here);
        let room = self.tables_max.map_or(u64::MAX, |most| {
            others.fold(most, |room, (nic, _)| room.saturating_sub(nic.port().trees().tables()))
        });
        let Self { nics, places, sites, rates, ways_back, .. } = self;
        let seed = nics[nic as usize].port().env().seed;
        let site = sites[here as usize].get_or_insert_with(|| Box::new(Site::new(seed)));
        site.set_room(room);
        let devices = nics.iter_mut().zip(&*places).zip(&*ways_back).filter(|((_, p), _)| of_host(p));
        let devices = devices.map(|((nic, place), back)| {
            let receives = back.is_some() || place.is_ifb;
            HostDevice { name: &place.name, nic, receives }
        });
        let done = nic::apply(devices.collect(), &name, now, policy, (site, rates));
        // Messages name the device as the policy does; the next policy may name it otherwise.
        self.set_name(nic, &own);
        done
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

    /// Takes a packet that reaches the host at the other side of a NIC's link, or that leaves an
    /// ifb, on its way to `destination`.
    pub(super) fn arrive(
        &mut self,
        engine: &mut Engine<NetEvent>,
        nic: u32,
        mut frame: Frame,
        destination: u32,
    ) -> Arrived {
        let is_ifb = self.places[nic as usize].is_ifb;
        if !is_ifb {
            // A mark and a launch time are the host's that set them.
            (frame.mark, frame.ahead) = (0, 0);
        }
        if is_ifb && frame.depth() == 0 {
            return self.leave_ifb(engine, nic, frame, destination);
        }
        let by = if is_ifb { Some(nic) } else { self.ways_back[nic as usize] };
        if let Some(by) = by {
            let mut at = self.at(by);
            if !at.arrived(engine.now(), &mut frame) {
                let moved = at.site.is_some_and(|site| site.has_moved());
                return if moved { Arrived::PassedOn(by) } else { Arrived::Gone };
            }
        }
        self.pass_up(engine, nic, frame, destination)
    }

    /// Gives a packet that leaves an ifb back to where it was taken: where it was received, or
    /// where it was to be sent. Another packet ends here.
    fn leave_ifb(
        &mut self,
        engine: &mut Engine<NetEvent>,
        ifb: u32,
        mut frame: Frame,
        destination: u32,
    ) -> Arrived {
        let Some(Detour::From { nic, way, priority }) = frame.detour() else {
            self.ended.add(frame.wire_len());
            return Arrived::Gone;
        };
        if way == Way::Egress {
            frame.set_detour(Some(Detour::Back));
            return self.forward(engine, nic, frame);
        }
        if frame.priority == 0 {
            frame.priority = priority;
        }
        frame.set_detour(None);
        self.pass_up(engine, ifb, frame, destination)
    }

    /// Takes a packet that has come in at a host by this NIC's link, behind the ingress hook.
    fn pass_up(
        &mut self,
        engine: &mut Engine<NetEvent>,
        nic: u32,
        mut frame: Frame,
        destination: u32,
    ) -> Arrived {
        // A host that passes it on writes a link header of its own.
        frame.set_link(None);
        frame.set_depth(0);
        if frame.detour().is_some_and(|detour| detour == Detour::Copy) {
            self.ended.add(frame.wire_len());
            return Arrived::Gone;
        }
        frame.set_detour(None);
        let here = self.places[nic as usize].there;
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

    /// Hands the oldest packet that an action of a NIC's host has sent to another device to that
    /// device; returns its NIC.
    pub(super) fn pass_moved(&mut self, engine: &mut Engine<NetEvent>, nic: u32) -> Option<u32> {
        let host = self.places[nic as usize].here as usize;
        let Moved { to, way, frame } = self.sites[host].as_mut()?.take_moved()?;
        let bytes = frame.wire_len();
        let made =
            if frame.detour() == Some(Detour::Copy) { &mut self.sent.copies } else { &mut self.sent.itself };
        made.add(bytes);
        if way == Way::Ingress {
            // It comes in by the link that leads to the device; an ifb receives what it is sent.
            let by = self.ways_back[to as usize].unwrap_or(to);
            self.nics[by as usize].link_mut().arrive_now(engine, frame);
            return Some(to);
        }
        let refused = self.at(to).submit(engine, frame).err().map_or(0, |rest| rest.wire_len());
        if refused > 0 {
            self.sent.refused.add(refused);
        }
        if refused < bytes {
            self.sent.taken.add(bytes - refused);
        }
        Some(to)
    }

    fn forward(&mut self, engine: &Engine<NetEvent>, nic: u32, frame: Frame) -> Arrived {
        let bytes = frame.wire_len();
        if self.nics.get(nic as usize).is_none() {
            self.ended.add(bytes);
            return Arrived::Gone;
        }
        // A forwarder's path takes everything: what does not fit is dropped and counted there. One
        // that is set up as an origin, because its host has traffic of its own, has no sender here
        // that takes the packet back.
        let refused = self.at(nic).submit(engine, frame).err().map_or(0, |rest| rest.wire_len());
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
        if let Err(frame) = self.at(nic).submit(engine, frame) {
            // Only a path of the role of an origin gives it back.
            self.refused.add(frame.wire_len());
        }
    }
}
