//! The machine below the daemon: its clock, its wait, its connections, its interfaces.

use std::fs::File;
use std::io;

use txweir_core::Instant;
use txweir_daemon::{Door, Machine, Ready, System, Waits};
use txweir_device::poll::PollFlags;
use txweir_device::{Batched, Endpoint, IfName, LinkIo, OpenCause, OpenError};

use super::cards::Port;
use super::conns::{EAGAIN, ECONNABORTED, EMFILE, ENOMEM, Pipe, errno};
use super::plan::Lie;
use super::world::{Blow, Edit, MS, SEC, Shared, US, World};

/// Waits in a row that may end at once without a reason: more of them are a loop that spins.
const SPINS_MAX: u32 = 2_000;
/// Time for which the daemon leaves the doors alone when the system has no descriptor.
const ACCEPT_PAUSE: u64 = 100 * MS;

/// The source of interfaces and seeds.
#[derive(Debug)]
pub struct Ports(pub Shared);

impl Machine for Ports {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        let refused = |cause| OpenError { interface: endpoint.to_string(), cause };
        let mut world = self.0.lock();
        let world = &mut *world;
        let card = world.cards.find(endpoint.name.as_str()).filter(|card| world.cards.all[*card].is_there());
        let card = card.ok_or_else(|| refused(OpenCause::Missing))?;
        let fault = match () {
            () if world.calm => None,
            () if world.now < world.exhausted_until => Some(EMFILE),
            () if world.plan.cards && world.once_in(20) => Some(ENOMEM),
            () => None,
        };
        if let Some(fault) = fault {
            world.facts.open_faults += 1;
            return Err(refused(OpenCause::System { what: "open a socket for", error: errno(fault) }));
        }
        let socket = world.cards.open(card);
        let name: IfName = endpoint.name.clone();
        let fd = File::open("/dev/null").expect("there is one everywhere");
        let port = Port { world: self.0.clone(), socket, name, fd };
        Ok(Box::new(Batched::new(port, world.plan.memory)))
    }

    fn seed(&self, of: &str) -> u64 {
        let mut world = self.0.lock();
        // A link asks for its seed when it is made, behind its interface.
        if let Some(card) = world.cards.find(of) {
            world.cards.begin(card);
        }
        world.rng.next_u64()
    }
}

/// The clock, the wait and the connections.
#[derive(Debug)]
pub struct Below(pub Shared);

impl System for Below {
    type Stream = Pipe;

    fn clock(&self) -> Box<dyn Fn() -> Instant + Send> {
        let world = self.0.clone();
        Box::new(move || {
            let mut world = world.lock();
            // A line of a batch takes up to a tenth of a millisecond.
            if world.stopped == 0 {
                world.now += world.rng.below(100 * US);
            }
            Instant(world.now)
        })
    }

    fn now(&self) -> Instant {
        let mut world = self.0.lock();
        let world = &mut *world;
        if world.stopped == 0 {
            // The daemon's work takes time.
            world.now += world.rng.below(300);
            // It may stand still between any two instructions, also while nothing else happens: a
            // deadline that was lost meanwhile shows then.
            if world.plan.clock && world.once_in(if world.calm { 10 } else { 400 }) {
                let most = [100 * US, 10 * MS, SEC][world.rng.below(3) as usize];
                world.now += world.rng.below(most);
            }
        }
        // Clients do not wait for the end of a round.
        if !world.calm && world.once_in(40) {
            world.steps += 1;
            let client = world.rng.below(world.clients.len() as u64) as usize;
            world.act(client);
        }
        Instant(world.now)
    }

    fn wait(&mut self, waits: &Waits<'_, Pipe>) -> io::Result<Ready> {
        let mut world = self.0.lock();
        world.begin_wait();
        loop {
            let ready = world.ready(waits);
            if ready.is_some() || world.blow.is_some() {
                return Ok(Ready { stop: world.blow.is_some(), ..ready.unwrap_or_default() });
            }
            if !world.pass(waits.deadline.map(|at| at.0)) {
                return Ok(world.nothing(waits));
            }
        }
    }

    fn doors(&self) -> Vec<Door> {
        vec![Door::All]
    }

    fn accept(&mut self, _: Door) -> io::Result<Pipe> {
        let mut world = self.0.lock();
        world.spins = 0;
        let pauses = world.now < world.no_accept_until;
        assert!(!pauses, "the loop accepts at {}, and there was no descriptor just now", world.now);
        if world.backlog.is_empty() {
            return Err(errno(EAGAIN));
        }
        if world.now < world.exhausted_until && !world.calm {
            world.facts.accept_faults += 1;
            world.no_accept_until = world.now + ACCEPT_PAUSE;
            return Err(errno(EMFILE));
        }
        if world.plan.sockets && !world.calm && world.once_in(30) {
            return Err(errno(ECONNABORTED));
        }
        let id = world.backlog.pop_front().expect("one is there");
        Ok(Pipe { id, world: self.0.clone() })
    }
}

impl World {
    fn begin_wait(&mut self) {
        self.rounds += 1;
        self.steps += 1;
        self.stopped = self.stopped.saturating_sub(1);
        self.conns.values_mut().for_each(|conn| conn.fresh = 0);
        if !self.calm {
            // A busy daemon does not stop the world.
            for _ in 0..self.rng.below(3) {
                self.happen();
            }
        }
    }

    /// Returns what is ready, if anything is.
    fn ready(&self, waits: &Waits<'_, Pipe>) -> Option<Ready> {
        let ready = self.look(waits);
        let any = ready.connections.contains(&true)
            || ready.sessions.iter().any(|events| !events.is_empty())
            || ready.links.iter().any(|ready| *ready)
            || self.writable(waits);
        any.then_some(ready)
    }

    fn look(&self, waits: &Waits<'_, Pipe>) -> Ready {
        Ready {
            stop: false,
            connections: vec![waits.accepts == [true] && !self.backlog.is_empty()],
            sessions: waits.connections().map(|(pipe, wanted)| self.events(pipe.id, wanted)).collect(),
            links: waits
                .interfaces()
                .map(|(io, _)| self.socket(io).is_some_and(|s| self.cards.ready(s)[0]))
                .collect(),
        }
    }

    /// True if an interface that is waited for has room.
    fn writable(&self, waits: &Waits<'_, Pipe>) -> bool {
        let mut wanted = waits.interfaces().filter(|(_, events)| events.contains(PollFlags::OUT));
        let untold = self.lie == Some(Lie::RoomUntold) && self.steps > 2_000;
        !untold && wanted.any(|(io, _)| self.socket(io).is_some_and(|s| self.cards.ready(s)[1]))
    }

    /// Returns the open socket of an interface.
    fn socket(&self, io: &LinkIo) -> Option<usize> {
        let card = self.cards.find(io.name().as_str())?;
        self.cards.sockets.iter().rposition(|socket| socket.card == card && socket.is_open)
    }

    /// Returns nothing but the time; a loop that asks for that too often spins.
    fn nothing(&mut self, waits: &Waits<'_, Pipe>) -> Ready {
        self.spins += 1;
        assert!(
            self.spins < SPINS_MAX,
            "the loop spins: it waits until {:?} at {}",
            waits.deadline,
            self.now
        );
        self.look(waits)
    }

    /// Lets time pass up to the next event, but not beyond `deadline`. Returns false at the
    /// deadline.
    fn pass(&mut self, deadline: Option<u64>) -> bool {
        if self.calm {
            if self.finish_clients() {
                return true;
            }
            // Without a deadline a minute passes: nothing is left to be done by then.
            self.idle = deadline.is_none();
            let end = deadline.unwrap_or(u64::MAX).max(self.now).min(self.now + 60 * SEC);
            self.spins = if end > self.now { 0 } else { self.spins };
            self.now = end;
            return false;
        }
        let gap = self.rng.below(self.plan.gap);
        let next = if self.stopped > 0 { self.now } else { self.now + gap };
        match deadline.filter(|at| *at <= next) {
            // A stopped clock never comes to a deadline by itself.
            Some(at) if at <= self.now || self.stopped == 0 => {
                self.spins = if at > self.now { 0 } else { self.spins };
                self.now = at.max(self.now);
                false
            }
            _ => {
                self.now = next;
                self.stopped = self.stopped.saturating_sub(1);
                self.happen();
                true
            }
        }
    }

    /// Lets one event happen.
    fn happen(&mut self) {
        self.steps += 1;
        self.note(4, &self.now.to_le_bytes());
        if self.blow.is_none() && self.plan.blows > 0 && self.once_in(self.plan.blows) {
            self.blow = Some(match self.rng.below(10) {
                0..3 => Blow::Kill,
                3..5 => Blow::PowerLoss,
                5 => Blow::Terminate,
                6 => Blow::Hangup(Edit::Saved),
                7 => Blow::Hangup(Edit::Good),
                8 => Blow::Hangup(Edit::Broken),
                _ => Blow::Rest,
            });
            return;
        }
        let card = self.rng.below(self.cards.all.len() as u64) as usize;
        let client = self.rng.below(self.clients.len() as u64) as usize;
        match self.rng.below(1000) {
            0..400 => self.arrive(card),
            400..440 => self.finish(card),
            440..980 => self.act(client),
            980..986 if self.plan.cards => {
                // An interface comes back sooner than it goes.
                let goes = self.once_in(4);
                self.cards.all[card].up = !goes;
            }
            986..990 if self.plan.cards && !self.cards.all[card].is_there() => self.toggle(card),
            990 if self.plan.cards => self.toggle(card),
            991 if self.plan.sockets => {
                self.exhausted_until = self.now + self.rng.below(500 * MS);
            }
            992 if self.plan.clock => self.stopped = self.rng.below(60) as u32,
            993 if self.plan.clock => {
                // The process, or its machine, stood still: the clock leaps.
                let most = [MS, SEC, 20 * SEC, 3600 * SEC][self.rng.below(4) as usize];
                self.now += self.rng.below(most);
            }
            994 if self.plan.disk => self.disk.fails = self.once_in(2),
            _ => self.now += self.rng.below(10 * US),
        }
    }
}
