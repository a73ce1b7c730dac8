//! The traffic of a net: the ends of its connections, the senders of its datagrams, and how they
//! take turns at the NICs of their hosts.

use txweir_core::Nanos;

use super::datagrams::{Datagrams, Delivered};
use super::ends::{End, QuicEnd};
use super::flows::Opening;
use super::foresight::{self, Foresight};
use super::group::{Group, GroupState, Load};
use super::machines::Machines;
use super::measure::Counted;
use super::members::addr;
use super::turns::{Turn, Turns};
use super::{Ground, MACHINES, QUICS, SINKS};
use crate::app::{App, Pace};
use crate::cpu::Cpu;
use crate::dist::record;
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::tcp::{Addr, Conn, TcpConfig};

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) cpu: Cpu,
    pub(super) tcp: TcpConfig,
}

/// Hosts with their groups of traffic.
#[derive(Debug, Default)]
pub struct Traffic {
    pub(super) hosts: Vec<Host>,
    pub(super) ends: Vec<End>,
    pub(super) quics: Vec<QuicEnd>,
    pub(super) datagrams: Datagrams,
    pub(super) groups: Vec<GroupState>,
    pub(super) machines: Machines,
    turns: Turns,
    foresight: Foresight,
}

impl Traffic {
    /// Returns the groups.
    pub fn groups(&self) -> &[GroupState] {
        &self.groups
    }
    /// Returns the counters of a group.
    ///
    /// # Panics
    /// Panics if there is no group of this number.
    pub fn counted(&self, group: usize) -> Counted<'_> {
        Counted::new(self, &self.groups[group])
    }
    /// Returns a connection end.
    ///
    /// # Panics
    /// Panics if there is no end of this number.
    pub fn end(&self, end: u32) -> &Conn {
        &self.ends[end as usize].conn
    }

    /// Sets the pace of a group's clients, before the run; does nothing to groups of other kinds.
    pub fn set_pace(&mut self, group: usize, pace: Pace) {
        for end in self.ends.iter_mut().filter(|e| e.group as usize == group) {
            end.conn.app_mut().set_pace(pace);
        }
    }
    /// Sets the time that a process takes to read the clock: an application reads it for each part
    /// of a call and each look at its socket. Zero by default.
    pub(crate) const fn set_reading(&mut self, reading: Nanos) {
        self.turns.set_reading(reading);
    }

    /// Returns the place of the first member of a new group of this load, in its list.
    pub(super) fn place(&self, load: &Load) -> u32 {
        (match load {
            Load::Quic(_) => self.quics.len(),
            load if load.is_tcp() || matches!(load, Load::Short(_)) => self.ends.len(),
            _ => self.datagrams.sinks.len(),
        }) as u32
    }
    /// Returns the TCP of a host for a group.
    pub(super) fn tcp_of(&self, host: u32, g: &Group) -> TcpConfig {
        g.choice.of(&self.hosts[host as usize].tcp)
    }
    /// Adds both ends of a connection: of the host that opens it, and of the other.
    pub(super) fn add_ends(&mut self, conns: [Conn; 2], g: &Group, number: u32) {
        for (mut conn, hosts) in conns.into_iter().zip([(g.from, g.to), (g.to, g.from)]) {
            if let Some(like) = self.ends.len().checked_sub(2).map(|n| &self.ends[n]) {
                conn.share_config(&like.conn);
            }
            self.ends.push(End::new(conn, hosts, number));
        }
    }

    /// Begins measuring: earlier events do not count.
    pub(super) fn restart(&mut self) {
        for g in 0..self.groups.len() {
            let before = self.counted(g).counters();
            let state = &mut self.groups[g];
            state.before = before;
            state.latency.reset();
            if let Some(flows) = &mut state.flows {
                flows.restart();
            }
        }
        for sink in &mut self.datagrams.sinks {
            sink.receiver.restart();
        }
        self.machines.restart();
    }

    /// Returns the host of a packet's destination.
    pub(super) fn host_of(&self, to: u32) -> u32 {
        match to {
            sink @ SINKS.. => self.datagrams.sinks[(sink - SINKS) as usize].host,
            quic @ QUICS.. => self.quics[(quic - QUICS) as usize].host,
            machine @ MACHINES.. => machine - MACHINES,
            end => self.ends[end as usize].host,
        }
    }

    /// Takes a packet that has reached its host.
    pub(super) fn deliver(&mut self, frame: &Frame, ground: &mut Ground) {
        let now = ground.engine.now();
        match frame.to {
            sink @ SINKS.. => return self.deliver_datagram(sink - SINKS, frame, ground),
            quic @ QUICS.. => self.quics[(quic - QUICS) as usize].conn.deliver(now, frame),
            machine @ MACHINES.. => {
                let nic = self.machines.deliver(machine - MACHINES, frame, ground);
                return nic.into_iter().for_each(|nic| self.kick(nic, ground));
            }
            to => {
                let end = &mut self.ends[to as usize];
                if self.groups[end.group as usize].flows.is_some() && !end.is_for_flow(frame) {
                    return;
                }
                ground.meters.delivered(now, end.group, frame);
                end.conn.deliver(now, frame);
            }
        }
        self.poll(frame.to, ground);
    }

    fn deliver_datagram(&mut self, sink: u32, frame: &Frame, ground: &mut Ground) {
        match self.datagrams.deliver(sink, frame, ground) {
            Delivered::Question(nic) => self.kick(nic, ground),
            Delivered::Packet(group, took) => ground.meters.add(group, took),
            Delivered::Answer(group, took) => self.took(group, took, ground),
        }
    }

    /// Records the time of a transaction that ended.
    fn took(&mut self, group: u32, took: Option<Nanos>, ground: &mut Ground) {
        let Some(took) = took else { return };
        if ground.meters.from.is_some() {
            record(&mut self.groups[group as usize].latency, took);
        }
        ground.meters.add(group, took);
    }

    /// Sends the next packet of a sender of UDP.
    pub(super) fn source(&mut self, number: u32, ground: &mut Ground) {
        let source = &mut self.datagrams.sources[number as usize];
        if source.alarm.fired(ground.engine.now())
            && let Some(nic) = self.datagrams.send(number, ground)
        {
            self.kick(nic, ground);
        }
    }

    /// Handles the alarm of a machine.
    pub(super) fn machine(&mut self, n: u32, ground: &mut Ground) {
        if let Some(nic) = self.machines.fired(n, ground) {
            self.kick(nic, ground);
        }
    }

    /// Handles the alarm of a connection end. An alarm that has been moved to a later time does not
    /// wake the end: an end that waits to send decides anew only at an event.
    pub(super) fn timer(&mut self, n: u32, ground: &mut Ground) {
        let now = ground.engine.now();
        if let Some(quic) = n.checked_sub(QUICS) {
            if self.quics[quic as usize].alarm.fired(now) {
                self.poll(n, ground);
            }
            return;
        }
        let end = &mut self.ends[n as usize];
        if !end.alarm.fired(now) {
            return;
        }
        if end.idle || end.conn.is_due(now) {
            return self.poll(n, ground);
        }
        let at = end.conn.poll_at(now);
        end.alarm.set(&mut ground.engine, at, n, NetEvent::Timer);
    }

    /// True if ends wait for the end of this instant.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Lets the next end that waits for the end of this instant act; returns false if none waits.
    pub(super) fn run_later(&mut self, ground: &mut Ground) -> bool {
        match self.turns.next(ground.engine.now()) {
            Some(Turn::Send(n)) => self.poll(n, ground),
            Some(Turn::Run(n, late)) => {
                self.ends[n as usize].woken = false;
                if let Some(nic) = self.send_with(n, Some(late), ground) {
                    self.kick(nic, ground);
                }
            }
            None => return false,
        }
        true
    }

    /// Lets a connection end send, and sees to its next deadline.
    fn poll(&mut self, n: u32, ground: &mut Ground) {
        if let Some(nic) = self.send(n, ground) {
            self.kick(nic, ground);
        }
    }

    /// Lets a connection end hand frames to its NIC; returns the NIC if it did. Its application
    /// runs behind all that happens at this instant, as a process runs behind the interrupts of a
    /// kernel.
    fn send(&mut self, n: u32, ground: &mut Ground) -> Option<u32> {
        if let Some(quic) = n.checked_sub(QUICS) {
            return self.quics[quic as usize].send(quic, ground);
        }
        let end = &mut self.ends[n as usize];
        if !end.idle && !std::mem::replace(&mut end.woken, true) {
            self.turns.wake(n);
        }
        self.send_with(n, None, ground)
    }

    /// Does the same without the application, or with it alone, which then reads so much after the
    /// present.
    fn send_with(&mut self, n: u32, application: Option<Nanos>, ground: &mut Ground) -> Option<u32> {
        let end = &mut self.ends[n as usize];
        if end.idle {
            return None;
        }
        let group = end.group;
        let since = self.groups[group as usize].since(n);
        let cpu = &mut self.hosts[end.host as usize].cpu;
        let sent = end.send(n, since, ground, application.map(|late| (late, cpu)));
        self.turns.count(sent.readings);
        self.took(group, sent.took, ground);
        self.look_at_flow(n, ground);
        sent.nic
    }

    /// Lets an end that waited for room try again. Returns true if it has to wait once more.
    fn wake(&mut self, n: u32, ground: &mut Ground) -> bool {
        if let Some(quic) = n.checked_sub(QUICS) {
            let end = &mut self.quics[quic as usize];
            end.waiting = false;
            end.conn.wake();
            self.send(n, ground);
            return self.quics[quic as usize].conn.is_blocked();
        }
        if let Some(machine) = n.checked_sub(MACHINES) {
            return self.machines.wake(machine, ground);
        }
        let end = &mut self.ends[n as usize];
        end.waiting = false;
        end.conn.wake();
        self.send(n, ground);
        self.ends[n as usize].conn.is_blocked()
    }

    /// Moves what a NIC can move, and what actions have sent from it to other devices.
    pub(super) fn kick(&mut self, nic: u32, ground: &mut Ground) {
        self.kick_one(nic, ground);
        // Bound: a packet that an action sends is one redirection deeper than before, and at the
        // greatest depth no action sends it.
        while let Some(target) = ground.links.pass_moved(&mut ground.engine, nic) {
            self.kick_one(target, ground);
        }
    }

    /// Moves what a NIC can move, and lets those that waited for it try again, the longest wait
    /// first, until one of them has to wait again. Senders hear of what has left.
    fn kick_one(&mut self, nic: u32, ground: &mut Ground) {
        loop {
            let at = ground.links.nic_mut(nic);
            at.kick(&mut ground.engine);
            while let Some(unit) = at.take_released() {
                let end = &mut self.ends[unit.end as usize];
                let since = self.groups[end.group as usize].since(unit.end);
                if unit.sent >= since && end.conn.released(unit.bytes) {
                    self.turns.free(unit.end);
                }
            }
            for end in at.take_pushed() {
                self.foresight.pushed(&self.ends, end);
            }
            let Some(path) = at.take_wake() else { return };
            while let Some(end) = ground.links.nic_mut(nic).waiting().next(path) {
                foresight::waiting(&self.ends, &mut ground.links, nic, path);
                if self.wake(end, ground) {
                    break;
                }
            }
        }
    }

    /// Begins the next flow of a group.
    pub(super) fn next_flow(&mut self, number: u32, ground: &mut Ground) {
        let GroupState { group, flows: Some(flows), .. } = &mut self.groups[number as usize] else { return };
        let (next, opening) = flows.next(group, ground.engine.now(), self.ends.len() as u32);
        if let Some(at) = next {
            ground.engine.schedule(at, number, NetEvent::Flow);
        }
        if let Some(opening) = opening {
            self.open(number, &opening, ground);
        }
    }

    fn open(&mut self, number: u32, opening: &Opening, ground: &mut Ground) {
        let Opening { end, ports, size, seeds } = *opening;
        let now = ground.engine.now();
        let g = self.groups[number as usize].group.clone();
        let (a, b): (Addr, Addr) = (addr(g.from, ports.0), addr(g.to, ports.1));
        let label = |to, seed: u64| g.label(to, seed as u32);
        let tcp = [g.from, g.to].map(|host| self.tcp_of(host, &g));
        let (there, back) = (label(end + 1, seeds[0]), label(end, seeds[1]));
        let client = Conn::connect(&tcp[0], (a, b), now, App::stream(Some(size)), there, seeds[2]);
        let server = Conn::listen(&tcp[1], (b, a), App::sink(), back, seeds[3]);
        if end as usize == self.ends.len() {
            self.add_ends([client, server], &g, number);
        } else {
            for (n, mut conn) in [(end, client), (end + 1, server)] {
                let at = &mut self.ends[n as usize];
                conn.share_config(&at.conn);
                (at.conn, at.idle) = (conn, false);
            }
        }
        self.poll(end, ground);
    }

    /// Updates the short flow of an end, if it has one, after the end has acted.
    fn look_at_flow(&mut self, n: u32, ground: &mut Ground) {
        let first = n & !1;
        let group = self.ends[n as usize].group;
        let Some(flows) = &mut self.groups[group as usize].flows else { return };
        let pair = &mut self.ends[first as usize..first as usize + 2];
        let looked = flows.look(first, pair, ground.engine.now());
        if let Some(took) = looked.took {
            ground.meters.add(group, took);
        }
        if looked.over {
            pair.iter_mut().for_each(|end| end.idle = true);
        }
    }
}
