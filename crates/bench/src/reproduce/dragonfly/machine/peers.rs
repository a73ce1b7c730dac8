//! A's peers: one takes streams, the other sends them or opens connections, one after another
//! (netperf's TCP_CC).

use txweir_transport::State;

use super::{Machine, WAY};
use crate::reproduce::dragonfly::link::{Link, Role, Stage};
use crate::reproduce::dragonfly::packet::Packet;

impl Machine {
    /// Handles the arrival of a segment at a peer.
    pub(super) fn at_peer(&mut self, p: &Packet) {
        let now = self.engine.now();
        let link = &mut self.links[p.place as usize];
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
        self.peer_sends(p.place);
        self.look_at_client(p.place);
    }

    /// Has the application of a stream to A hand over as much data as there is room for.
    pub(super) fn peer_writes(&mut self, place: u32) {
        let now = self.engine.now();
        self.links[place as usize].peer.write(now, u64::MAX);
        self.peer_sends(place);
    }

    /// Has the peer's end of a connection send the segments that it may.
    pub(super) fn peer_sends(&mut self, place: u32) {
        let now = self.engine.now();
        loop {
            let link = &mut self.links[place as usize];
            if link.peer.has_data() && !self.peer.has_room(0) {
                link.peer.quench(now);
                break;
            }
            let Some(seg) = link.peer.transmit(now) else { break };
            let packet = Packet { place, number: link.number, seg };
            if link.role == Role::Sent {
                self.back.push(&mut self.engine, now + WAY, packet);
            } else {
                self.peer.send(now, 0, packet, packet.meta(false));
                self.kick_peer();
            }
        }
        self.arm_peer(place);
    }

    /// Has a client whose connection A has closed open the next; frees the place of a connection
    /// that is over.
    pub(super) fn look_at_client(&mut self, place: u32) {
        let link = &mut self.links[place as usize];
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
            self.open(client);
        }
    }

    /// Has a client open its next connection: of another port, so of any thread.
    pub(super) fn open(&mut self, client: u32) {
        let (s, role) = (self.setup, Role::Client(client));
        let thread = self.rng.below(u64::from(s.threads)) as u32;
        let place = match self.free.pop() {
            Some(place) => {
                self.links[place as usize].anew(&s, role, thread);
                place
            }
            None => {
                self.links.push(Link::new(&s, role, thread));
                // A client has a handful of connections that are not over, and there are at most
                // some hundred clients.
                (self.links.len() - 1) as u32
            }
        };
        self.peer_sends(place);
    }
}
