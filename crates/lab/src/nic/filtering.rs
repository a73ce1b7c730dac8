//! Filters and actions of a host: at the hooks of what its devices send and of what has come in for
//! them, and at their qdiscs; and the packets that actions send from one device to another.

use std::collections::VecDeque;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::{FrameBytes, Outlet, Packet, PortId, Way};
use txweir_core::packet::headers::Headers;
use txweir_core::path::entry::{self, Entry, Hooked, Passed};
use txweir_core::path::port::Port;
use txweir_core::path::select::Sender;
use txweir_core::{Instant, Meta};
use txweir_tc::tool::{Hook, Ports};

use super::transmit::meta_of;
use crate::frame::{Below, Frame};
use crate::shown::Shown;
use crate::tagged::{Asked, Detour, ETHERNET};

/// Most packets that the actions on one packet send to other devices; further ones are refused,
/// which the action counts.
const SENT_MAX: usize = 64;

/// The filters and actions of a host, with their counters, for all of its devices.
#[derive(Debug)]
pub struct Site {
    pub(super) filters: Filters,
    pub(super) state: State,
    /// The numbers by which actions know devices.
    pub(super) ports: Ports,
    /// The device of each number, from 1.
    pub(super) devices: Vec<Option<Target>>,
    /// Bytes of tables that the qdiscs of other hosts leave to those of this one.
    pub(super) room: u64,
    /// Packets that actions have sent to other devices, oldest first.
    moved: VecDeque<Moved>,
}

/// A device that actions send packets to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Its NIC.
    pub(super) nic: u32,
    /// True if packets can come in by it.
    pub(super) receives: bool,
}

/// A packet that an action has sent to another device.
#[derive(Debug)]
pub struct Moved {
    /// The NIC of that device.
    pub to: u32,
    /// The direction in which the device handles it.
    pub way: Way,
    /// The packet.
    pub frame: Frame,
}

/// The hooks of a NIC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gates {
    /// Number of the NIC in the net.
    pub(super) nic: u32,
    /// The number by which actions know it.
    pub(super) port: PortId,
    pub(super) hook: Option<Hook>,
    /// The filters of its hooks, if they have any.
    ingress: Option<BlockId>,
    egress: Option<BlockId>,
}

impl Gates {
    /// After every change: which filters are asked is known.
    pub(super) fn fit(&mut self, port: &Port<Frame>) {
        self.ingress = self.hook.and_then(|_| port.block(Hook::INGRESS));
        self.egress = self.hook.and_then(|_| port.block(Hook::EGRESS));
    }
}

impl Site {
    /// None yet. The seed keys hashes and decides draws.
    pub fn new(seed: u64) -> Self {
        let (filters, state) = (Filters::new().with_seed(seed), State::new(seed));
        let (ports, devices, moved) = (Ports::default(), Vec::new(), VecDeque::new());
        Self { filters, state, ports, devices, room: u64::MAX, moved }
    }

    /// Sets the bytes of tables that the qdiscs of other hosts leave to those of this one.
    pub(crate) const fn set_room(&mut self, bytes: u64) {
        self.room = bytes;
    }

    /// The filters and actions, and what they have counted.
    pub const fn filters(&self) -> (&Filters, &State) {
        (&self.filters, &self.state)
    }

    /// Takes the oldest packet that an action has sent to another device.
    pub(crate) fn take_moved(&mut self) -> Option<Moved> {
        self.moved.pop_front()
    }
    /// True if actions have sent packets to other devices.
    pub(crate) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Asks about a frame that goes out and has its queue chosen; the reason, if it goes no
    /// further.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        addresses: &[u8; 12],
        gates: &Gates,
        port: &mut Port<Frame>,
    ) -> Result<Asked, (Meta, Gone)> {
        let mut meta = meta_of(frame);
        let mut shown = Shown::of(frame, addresses);
        let headers = read(&shown, frame);
        let mut packet = Packet::new(&mut shown, &mut meta, headers);
        packet.depth = frame.depth();
        let mut outlet = Sendings::new(&self.devices, frame);
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        let block = gates.egress.filter(|_| frame.detour() != Some(Detour::Back));
        entry.to = Some(Hooked { port: gates.port, block });
        entry.queues = u32::from(port.queues());
        let passed = port.pass(&mut entry, &mut packet, &Sender::default(), None);
        let sent = outlet.sent;
        if frame.detour() == Some(Detour::Back) {
            frame.set_detour(None);
        }
        let (queue, gone) = match passed {
            Passed::Queue(_, route) => (Some(route), Gone::Stolen),
            Passed::Dropped => (None, Gone::Dropped),
            Passed::Stolen => (None, Gone::Stolen),
        };
        let priority = frame.priority;
        self.send(sent, frame, addresses, Detour::From { nic: gates.nic, way: Way::Egress, priority });
        let Some(route) = queue else { return Err((meta, gone)) };
        put_back(&shown, &meta, frame, addresses);
        Ok(Asked { meta, route })
    }

    /// Asks about a frame that has come in; why it goes no further, if so. It comes without mark
    /// and priority, which are a host's own: without an action that sets it, its priority is what
    /// it was.
    pub(super) fn ask_arrived(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        addresses: &[u8; 12],
        gates: &Gates,
    ) -> Option<Gone> {
        let block = Some(gates.ingress?);
        let mut meta = meta_of(frame);
        (meta.priority, meta.mark) = (0, 0);
        let mut shown = Shown::of(frame, addresses);
        let headers = read(&shown, frame);
        let mut packet = Packet::new(&mut shown, &mut meta, headers);
        packet.depth = frame.depth();
        let mut outlet = Sendings::new(&self.devices, frame);
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        entry.from = Some(Hooked { port: gates.port, block });
        let verdict = entry.ask_hooks(&mut packet);
        let (sent, priority) = (outlet.sent, frame.priority);
        self.send(sent, frame, addresses, Detour::From { nic: gates.nic, way: Way::Ingress, priority });
        match verdict {
            entry::HookVerdict::Go => {}
            entry::HookVerdict::Dropped => return Some(Gone::Dropped),
            entry::HookVerdict::Stolen => return Some(Gone::Stolen),
        }
        if meta.priority == 0 {
            meta.priority = priority;
        }
        put_back(&shown, &meta, frame, addresses);
        None
    }

    /// Puts what the actions on a frame have sent behind what they sent before.
    fn send(&mut self, sent: Vec<Sending>, frame: &mut Frame, addresses: &[u8; 12], itself: Detour) {
        for Sending { to, way, redirect, shown, meta, depth } in sent {
            let mut copy = frame.clone();
            put_back(&shown, &meta, &mut copy, addresses);
            copy.set_depth(depth);
            let is_copy = !redirect || frame.detour() == Some(Detour::Copy);
            copy.set_detour(Some(if is_copy { Detour::Copy } else { itself }));
            // The part below the socket of the sender goes with the packet itself.
            let original = if redirect { &mut *frame } else { &mut copy };
            original.below = Below::Not;
            self.moved.push_back(Moved { to, way, frame: copy });
            if redirect {
                return;
            }
        }
    }
}

/// Why a frame goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Dropped,
    Stolen,
}

/// A packet on its way to another device.
struct Sending {
    to: u32,
    way: Way,
    /// True if it is the packet itself.
    redirect: bool,
    shown: Shown,
    meta: Meta,
    depth: u8,
}

/// Takes what the actions on one packet send.
struct Sendings<'a> {
    devices: &'a [Option<Target>],
    /// Bytes of the packet that are kept.
    kept: usize,
    sent: Vec<Sending>,
}

impl<'a> Sendings<'a> {
    fn new(devices: &'a [Option<Target>], frame: &Frame) -> Self {
        Self { devices, kept: frame.kept().len(), sent: Vec::new() }
    }

    fn take(&mut self, (to, way): (PortId, Way), frame: &dyn FrameBytes, sending: (&Meta, u8, bool)) -> bool {
        let (meta, depth, redirect) = sending;
        let at = (to.0 as usize).checked_sub(1).and_then(|at| self.devices.get(at).copied().flatten());
        let Some(target) = at.filter(|target| way == Way::Egress || target.receives) else { return false };
        let Some(shown) = Shown::of_bytes(frame.bytes(), self.kept).filter(|_| self.sent.len() < SENT_MAX)
        else {
            return false;
        };
        self.sent.push(Sending { to: target.nic, way, redirect, shown, meta: *meta, depth });
        true
    }
}

impl Outlet for Sendings<'_> {
    fn send(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, m: &Meta, depth: u8) -> bool {
        self.take((to, way), frame, (m, depth, false))
    }
    fn redirect(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, m: &Meta, depth: u8) -> bool {
        self.take((to, way), frame, (m, depth, true))
    }
}

fn read(shown: &Shown, frame: &Frame) -> Headers {
    match frame.link_len() {
        0 => Headers::parse_ip(shown.bytes()),
        _ => Headers::parse_ethernet(shown.bytes()),
    }
}

/// Writes the changes that actions made back into the frame.
fn put_back(shown: &Shown, meta: &Meta, frame: &mut Frame, addresses: &[u8; 12]) {
    shown.put_back(frame, addresses);
    (frame.priority, frame.mark, frame.ds) = (meta.priority, meta.mark, meta.ds);
}

/// Where a packet that has no link header of its own begins.
pub(super) fn network_at(frame: &Frame) -> u16 {
    u16::try_from(frame.link_len()).unwrap_or(ETHERNET as u16)
}
