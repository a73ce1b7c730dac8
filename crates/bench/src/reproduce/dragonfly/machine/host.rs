//! A's protocol threads: each takes one message after another, and needs a time for each. DragonFly
//! BSD's choice decides where a connection's output runs, and when it yields: after each message of
//! the connection, and by `net.inet.tcp.fairsend`.

use std::collections::VecDeque;

use txweir_core::Nanos;
use txweir_core::turns::{Burst, Cause, FairSend, Quota, SenderId};
use txweir_transport::State;

use super::{Machine, Setup, What};
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

impl Machine {
    /// Handles the arrival of a segment at A.
    pub(super) fn at_a(&mut self, p: Packet) {
        self.tell(self.links[p.place as usize].thread, Message::Packet(p));
    }

    pub(super) fn tell(&mut self, thread: u32, message: Message) {
        self.threads[thread as usize].queue.push_back(message);
        self.work(thread);
    }

    /// Ends the message of a thread.
    pub(super) fn done(&mut self, thread: u32) {
        self.threads[thread as usize].busy = false;
        self.work(thread);
    }

    /// Has a thread take its next message, if it is free: the effects of the message are immediate,
    /// and the thread is busy for its time.
    fn work(&mut self, thread: u32) {
        let t = &mut self.threads[thread as usize];
        if t.busy {
            return;
        }
        let Some(message) = t.queue.pop_front() else { return };
        t.busy = true;
        let [message_cost, unit_cost, step_cost] = self.setup.costs;
        let of_client = match &message {
            Message::Packet(p) => matches!(self.links[p.place as usize].role, Role::Client(_)),
            _ => false,
        };
        let units = self.handle(thread, message);
        let cost = match of_client {
            true => step_cost,
            false => Nanos(message_cost.0 + unit_cost.0 * u64::from(units)),
        };
        self.engine.schedule(self.engine.now() + cost, thread, What::Done);
    }

    /// Handles a message. Returns the units of data that were sent.
    fn handle(&mut self, thread: u32, message: Message) -> u32 {
        match message {
            Message::Packet(p) => self.arrived(&p),
            Message::Write(place) => {
                let now = self.engine.now();
                let link = &mut self.links[place as usize];
                link.writing = false;
                link.a.write(now, u64::MAX);
                self.output(place, Cause::Data)
            }
            Message::Timer(place, number) => {
                let now = self.engine.now();
                let link = &mut self.links[place as usize];
                if link.number != number {
                    return 0;
                }
                link.timed = false;
                link.a.on_time(now);
                self.output(place, Cause::Timer)
            }
            Message::Turn => {
                let t = &mut self.threads[thread as usize];
                let Some(burst) = t.fair.next_turn() else { return 0 };
                let place = t.streams[burst.sender().index()];
                self.burst(place, Some(burst))
            }
        }
    }

    /// Gives A's end of a connection a segment.
    fn arrived(&mut self, p: &Packet) -> u32 {
        let now = self.engine.now();
        let link = &mut self.links[p.place as usize];
        if link.number != p.number {
            return 0;
        }
        link.a.receive(now, &p.seg);
        match link.role {
            Role::Sent => self.refill(p.place),
            Role::Received => link.read += link.a.read(now, u64::MAX),
            // The server has the connection and closes it.
            Role::Client(_) if link.a.state() == State::Established => link.a.close(),
            Role::Client(_) => {}
        }
        self.output(p.place, Cause::Acked)
    }

    /// Tells the application of room, if there is enough for it.
    fn refill(&mut self, place: u32) {
        let s = &self.setup;
        let now = self.engine.now();
        let link = &mut self.links[place as usize];
        let room = u64::from(s.windows[0] * MSS).saturating_sub(link.a.unacknowledged());
        let open = link.a.state() == State::Established;
        if open && !link.writing && room >= u64::from(s.write * MSS) {
            link.writing = true;
            let late = match s.late.0 {
                0 => Nanos::ZERO,
                most => Nanos(self.rng.below(most)),
            };
            self.engine.schedule(now + late, place, What::Write);
        }
    }

    /// Has A's end of a connection send the segments that it may, unless it must wait for its turn.
    /// Returns the units of data sent.
    fn output(&mut self, place: u32, cause: Cause) -> u32 {
        let link = &self.links[place as usize];
        let burst = match link.id {
            Some(id) => {
                let Some(burst) = self.threads[link.thread as usize].fair.begin(id, cause) else { return 0 };
                Some(burst)
            }
            None => None,
        };
        self.burst(place, burst)
    }

    fn burst(&mut self, place: u32, mut burst: Option<Burst>) -> u32 {
        let now = self.engine.now();
        let thread = self.links[place as usize].thread;
        let mut units = 0;
        loop {
            let link = &mut self.links[place as usize];
            if link.a.has_data() {
                if let Some(spent) = burst.take_if(|b| b.is_spent()) {
                    let t = &mut self.threads[thread as usize];
                    t.fair.defer(&spent);
                    t.queue.push_back(Message::Turn);
                    break;
                }
                if !self.egress.has_room(thread as usize) {
                    link.a.quench(now);
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
            self.egress.send(now, thread as usize, packet, packet.meta(self.setup.prio));
            self.kick();
        }
        self.arm(place);
        units
    }
}
