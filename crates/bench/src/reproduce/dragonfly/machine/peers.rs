//! A's peers: one takes streams, the other sends them or opens connections, one after another
//! (netperf's TCP_CC).

use txweir_core::Instant;
use txweir_core::model::wire::WireConfig;
use txweir_lab::engine::Lane;
use txweir_transport::State;

use super::{Ground, WAY, What};
use crate::reproduce::dragonfly::egress::Egress;
use crate::reproduce::dragonfly::link::{Link, Role, Stage};
use crate::reproduce::dragonfly::packet::Packet;

/// Packets of the peer's queue: `ifq` of a device with 512 descriptors, and 16 for each of its 8
/// processors.
const LIMIT: u32 = 640;

/// The peers, and the clients at one of them.
#[derive(Debug)]
pub(super) struct Peers {
    egress: Egress,
    /// The ways to A: from the peer that A sends to, and from the other, behind its line.
    pub(super) back: Lane<Packet, What>,
    pub(super) to_a: Lane<Packet, What>,
    /// Places of connections that are over.
    pub(super) free: Vec<u32>,
    /// Connections that clients have opened and A has closed.
    pub(super) connections: u64,
}

impl Peers {
    pub(super) fn new(wire: WireConfig) -> Result<Self, String> {
        Ok(Self {
            egress: Egress::new(wire, LIMIT, What::PeerLine)?,
            back: Lane::new(0, What::Back),
            to_a: Lane::new(0, What::AtA),
            free: Vec::new(),
            connections: 0,
        })
    }

    /// Handles an event of the line.
    pub(super) fn line(&mut self, g: &mut Ground, at: Instant) {
        if self.egress.fired(at) {
            self.kick(g);
        }
    }

    fn kick(&mut self, g: &mut Ground) {
        self.egress.kick(&mut g.engine, &mut self.to_a, WAY);
    }

    /// Handles the arrival of a segment at a peer.
    pub(super) fn at_peer(&mut self, g: &mut Ground, p: &Packet) {
        let now = g.engine.now();
        let link = &mut g.links[p.place as usize];
        if link.number != p.number {
            return;
        }
        link.peer.receive(now, &p.seg);
        match link.role {
            Role::Sent => link.read += link.peer.read(now, u64::MAX),
            Role::Received => {
                link.peer.write(now, u64::MAX);
            }
            Role::Client(_) => {
                if link.peer.finished() {
                    link.peer.close();
                }
            }
        }
        self.sends(g, p.place);
        self.look_at_client(g, p.place);
    }

    /// Has the application of a stream to A hand over as much data as there is room for.
    pub(super) fn writes(&mut self, g: &mut Ground, place: u32) {
        let now = g.engine.now();
        g.links[place as usize].peer.write(now, u64::MAX);
        self.sends(g, place);
    }

    /// Has the peer's end of a connection send the segments that it may.
    fn sends(&mut self, g: &mut Ground, place: u32) {
        let now = g.engine.now();
        loop {
            let link = &mut g.links[place as usize];
            if link.peer.has_data() && !self.egress.has_room(0) {
                link.peer.below().quench(now);
                break;
            }
            let Some(seg) = link.peer.transmit(now) else { break };
            let packet = Packet { place, number: link.number, seg };
            if link.role == Role::Sent {
                self.back.push(&mut g.engine, now + WAY, packet);
            } else {
                self.egress.send(now, 0, packet, packet.meta(false));
                self.kick(g);
            }
        }
        g.arm_peer(place);
    }

    /// Handles a timer of the peer's end of a connection.
    pub(super) fn timer(&mut self, g: &mut Ground, at: Instant, place: u32) {
        let link = &mut g.links[place as usize];
        if !link.alarms[1].fired(at) {
            return;
        }
        if link.peer.deadline().is_some_and(|due| due <= at) {
            link.peer.on_time(at);
            self.sends(g, place);
            self.look_at_client(g, place);
        } else {
            g.arm_peer(place);
        }
    }

    /// Has a client whose connection A has closed open the next; frees the place of a connection
    /// that is over.
    fn look_at_client(&mut self, g: &mut Ground, place: u32) {
        let link = &mut g.links[place as usize];
        let Role::Client(client) = link.role else { return };
        let closed = link.peer.finished();
        let over = matches!(link.peer.state(), State::Closed | State::Failed);
        let leaves = link.stage == Stage::Current && (closed || over);
        if over && link.stage != Stage::Over {
            self.free.push(place);
        }
        link.stage = match (over, closed) {
            (true, _) => Stage::Over,
            (false, true) => Stage::Left,
            (false, false) => link.stage,
        };
        if leaves {
            self.connections += u64::from(closed);
            self.open(g, client);
        }
    }

    /// Has a client open its next connection: of another port, so of any thread.
    pub(super) fn open(&mut self, g: &mut Ground, client: u32) {
        let (s, role) = (g.setup, Role::Client(client));
        let thread = g.rng.below(u64::from(s.threads)) as u32;
        let place = match self.free.pop() {
            Some(place) => {
                g.links[place as usize].anew(&s, role, thread);
                place
            }
            None => {
                g.links.push(Link::new(&s, role, thread));
                // A client has a handful of connections that are not over, and there are at most
                // some hundred clients.
                (g.links.len() - 1) as u32
            }
        };
        self.sends(g, place);
    }
}
