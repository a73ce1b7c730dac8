//! A's protocol threads: each takes one message after another, and needs a time for each. DragonFly
//! BSD's choice decides where a connection's output runs, and when it yields: after each message of
//! the connection, and by `net.inet.tcp.fairsend`.

use std::collections::VecDeque;

use txweir_core::model::wire::WireConfig;
use txweir_core::turns::{Burst, Cause, FairSend, Quota, SenderId};
use txweir_core::{Instant, Nanos};
use txweir_lab::engine::Lane;
use txweir_transport::State;

use super::{Ground, Setup, WAY, What};
use crate::reproduce::dragonfly::egress::Egress;
use crate::reproduce::dragonfly::link::Role;
use crate::reproduce::dragonfly::packet::{MSS, Packet};

/// A message of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Packet(Packet),
    /// The application of the stream at this place writes.
    Write(u32),
    /// The turn of the first sender in line.
    Turn,
    /// A timer of the connection at this place, and its number there.
    Timer(u32, u32),
}

#[derive(Debug)]
pub(super) struct Thread {
    queue: VecDeque<Message>,
    busy: bool,
    fair: FairSend,
    /// The stream of each place in the line.
    streams: Vec<u32>,
}

impl Thread {
    pub(super) fn new(s: &Setup) -> Self {
        Self {
            queue: VecDeque::new(),
            busy: false,
            fair: FairSend::new(s.senders, Quota::segs(s.fairsend)),
            streams: Vec::new(),
        }
    }

    /// Has a stream of A join the line.
    pub(super) fn join(&mut self, place: u32) -> Option<SenderId> {
        self.streams.push(place);
        self.fair.join()
    }
}

/// A: its threads, and its transmit side.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) threads: Vec<Thread>,
    pub(super) egress: Egress,
    /// The way to the peers.
    pub(super) way: Lane<Packet, What>,
}

impl Host {
    pub(super) fn new(s: &Setup, wire: WireConfig) -> Result<Self, String> {
        Ok(Self {
            threads: (0..s.threads).map(|_| Thread::new(s)).collect(),
            egress: Egress::new(wire, s.limit, What::Line)?,
            way: Lane::new(0, What::AtPeer),
        })
    }

    /// Handles an event of the line.
    pub(super) fn line(&mut self, g: &mut Ground, at: Instant) {
        if self.egress.fired(at) {
            self.kick(g);
        }
    }

    fn kick(&mut self, g: &mut Ground) {
        self.egress.kick(&mut g.engine, &mut self.way, WAY);
    }

    /// Handles the arrival of a segment at A.
    pub(super) fn at_a(&mut self, g: &mut Ground, p: Packet) {
        let thread = g.links[p.place as usize].thread;
        self.tell(g, thread, Message::Packet(p));
    }

    pub(super) fn tell(&mut self, g: &mut Ground, thread: u32, message: Message) {
        self.threads[thread as usize].queue.push_back(message);
        self.work(g, thread);
    }

    /// Ends the message of a thread.
    pub(super) fn done(&mut self, g: &mut Ground, thread: u32) {
        self.threads[thread as usize].busy = false;
        self.work(g, thread);
    }

    /// Queues a timer of A's end as a message of its thread.
    pub(super) fn timer(&mut self, g: &mut Ground, at: Instant, place: u32) {
        let link = &mut g.links[place as usize];
        if !link.alarms[0].fired(at) {
            return;
        }
        if !link.timed && link.a.deadline().is_some_and(|due| due <= at) {
            link.timed = true;
            let (thread, message) = (link.thread, Message::Timer(place, link.number));
            self.tell(g, thread, message);
        } else {
            g.arm(place);
        }
    }

    /// Has a thread take its next message, if it is free: the effects of the message are immediate,
    /// and the thread is busy for its time.
    fn work(&mut self, g: &mut Ground, thread: u32) {
        let t = &mut self.threads[thread as usize];
        if t.busy {
            return;
        }
        let Some(message) = t.queue.pop_front() else { return };
        t.busy = true;
        let [message_cost, unit_cost, step_cost] = g.setup.costs;
        let of_client = match &message {
            Message::Packet(p) => matches!(g.links[p.place as usize].role, Role::Client(_)),
            _ => false,
        };
        let units = self.handle(g, thread, message);
        let cost = match of_client {
            true => step_cost,
            false => Nanos(message_cost.0 + unit_cost.0 * u64::from(units)),
        };
        g.engine.schedule(g.engine.now() + cost, thread, What::Done);
    }

    /// Handles a message. Returns the units of data that were sent.
    fn handle(&mut self, g: &mut Ground, thread: u32, message: Message) -> u32 {
        match message {
            Message::Packet(p) => self.arrived(g, &p),
            Message::Write(place) => {
                let now = g.engine.now();
                let link = &mut g.links[place as usize];
                link.writing = false;
                link.a.write(now, u64::MAX);
                self.output(g, place, Cause::Data)
            }
            Message::Timer(place, number) => {
                let now = g.engine.now();
                let link = &mut g.links[place as usize];
                if link.number != number {
                    return 0;
                }
                link.timed = false;
                link.a.on_time(now);
                self.output(g, place, Cause::Timer)
            }
            Message::Turn => {
                let t = &mut self.threads[thread as usize];
                let Some(burst) = t.fair.next_turn() else { return 0 };
                let place = t.streams[burst.sender().index()];
                self.burst(g, place, Some(burst))
            }
        }
    }

    /// Gives A's end of a connection a segment.
    fn arrived(&mut self, g: &mut Ground, p: &Packet) -> u32 {
        let now = g.engine.now();
        let link = &mut g.links[p.place as usize];
        if link.number != p.number {
            return 0;
        }
        link.a.receive(now, &p.seg);
        match link.role {
            Role::Sent => self.refill(g, p.place),
            Role::Received => link.read += link.a.read(now, u64::MAX),
            // The server has the connection and closes it.
            Role::Client(_) if link.a.state() == State::Established => link.a.close(),
            Role::Client(_) => {}
        }
        self.output(g, p.place, Cause::Acked)
    }

    /// Tells the application of room, if there is enough for it.
    fn refill(&mut self, g: &mut Ground, place: u32) {
        let s = &g.setup;
        let now = g.engine.now();
        let link = &mut g.links[place as usize];
        let room = u64::from(s.windows[0] * MSS).saturating_sub(link.a.unacknowledged());
        let open = link.a.state() == State::Established;
        if open && !link.writing && room >= u64::from(s.write * MSS) {
            link.writing = true;
            let late = match s.late.0 {
                0 => Nanos::ZERO,
                most => Nanos(g.rng.below(most)),
            };
            g.engine.schedule(now + late, place, What::Write);
        }
    }

    /// Has A's end of a connection send the segments that it may, unless it must wait for its turn.
    /// Returns the units of data sent.
    fn output(&mut self, g: &mut Ground, place: u32, cause: Cause) -> u32 {
        let link = &g.links[place as usize];
        let burst = match link.id {
            Some(id) => {
                let Some(burst) = self.threads[link.thread as usize].fair.begin(id, cause) else { return 0 };
                Some(burst)
            }
            None => None,
        };
        self.burst(g, place, burst)
    }

    fn burst(&mut self, g: &mut Ground, place: u32, mut burst: Option<Burst>) -> u32 {
        let now = g.engine.now();
        let thread = g.links[place as usize].thread;
        let mut units = 0;
        loop {
            let link = &mut g.links[place as usize];
            if link.a.has_data() {
                if let Some(spent) = burst.take_if(|b| b.is_spent()) {
                    let t = &mut self.threads[thread as usize];
                    t.fair.defer(&spent);
                    t.queue.push_back(Message::Turn);
                    break;
                }
                if !self.egress.has_room(thread as usize) {
                    link.a.below().quench(now);
                    break;
                }
            }
            let Some(seg) = link.a.transmit(now) else { break };
            let packet = Packet { place, number: link.number, seg };
            if packet.is_data() {
                units += 1;
                if let Some(burst) = &mut burst {
                    burst.count(seg.segments(), u64::from(seg.len));
                }
            }
            // An acknowledgement that finds no room is lost: the next one covers it.
            self.egress.send(now, thread as usize, packet, packet.meta(g.setup.prio));
            self.kick(g);
        }
        g.arm(place);
        units
    }
}
