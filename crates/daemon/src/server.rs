//! `Server`: the loop. One thread serves clients, and the packets of links without workers: it
//! performs a whole request between two turns of the links, and it never waits for a client.
//! `txweir run` is a server without a socket.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use txweir_core::{Instant, Nanos};
use txweir_device::poll::{self, PollFlags};
use txweir_runtime::Level;

use crate::audit;
use crate::daemon::Daemon;
use crate::effect::{self, Effect};
use crate::faces::Faces;
use crate::links::Links;
use crate::losses::Losses;
use crate::metrics::Scrapes;
use crate::protocol::{Ask, BATCH_MAX, LINE_MAX, Reply, Request};
use crate::run::{Ended, Reports, RunError, RunOptions};
use crate::session::{Door, Line, Patience, Session};
use crate::socket::Listener;
use crate::state::Keeper;
use crate::system::{Entrance, Host, Ready, System, Waits};
use crate::team::TeamOptions;

/// Most clients at once. With the bound on each client's unfinished data this bounds memory. One
/// more client waits until one of these ends its connection, or has done nothing for so long that
/// it makes way ([`Patience`]).
const CLIENTS_MAX: usize = 64;
/// Most clients at once of the socket for readers, which have places of their own: they cannot keep
/// out a client that may change something.
const READERS_MAX: usize = 32;
/// Most bytes of batches of all clients of which more parts are to come.
const GATHERED_MAX: usize = 4 * BATCH_MAX;
/// The line to a client that has to make way.
const MADE_WAY: &str = "connection: expected a request or the reading of a reply, given nothing for some time while all \
                        places are taken: it makes way for another client";
/// Time for requests before the links have their turn; a request that has begun is finished.
const REQUESTS_FOR: Nanos = Nanos::from_micros(500);
/// Time without accepting, after the system had no room for one more connection.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// The clients, the daemon that they speak to, and the machine below both.
#[derive(Debug)]
pub struct Server<S: System = Host> {
    daemon: Daemon,
    system: S,
    /// The doors of the system, each with the rights of its clients.
    doors: Vec<Door>,
    /// The path of the socket for readers.
    readers: String,
    sessions: Vec<Session<S::Stream>>,
    scrapes: Scrapes<S::Stream>,
    faces: Faces<S::Stream>,
    /// Index of the client whose turn is next.
    turn: usize,
    /// Time before which the server does not accept; `None` for no pause.
    pause: Option<Instant>,
    /// True if the last attempt to accept a connection failed, which the log says once.
    cannot_accept: bool,
    patience: Patience,
    /// True if changes that clients make or attempt go to the log.
    logs_changes: bool,
    /// Drops that the log has, if it has any.
    losses: Option<Losses>,
    /// The one who saves the state after changes, if there is one.
    keeper: Option<Keeper>,
    /// True if links may have more frames to receive.
    more: bool,
}

impl Server {
    /// Makes a server of `daemon` at `listener`.
    #[must_use]
    pub fn new(daemon: Daemon, listener: Listener) -> Self {
        Self::on(Host::new(Some((Door::All, listener))), daemon)
    }

    /// Makes a server that runs the links of `daemon`, and that no client can reach.
    #[must_use]
    pub fn without_socket(daemon: Daemon) -> Self {
        Self::on(Host::new(None), daemon)
    }

    /// Adds a socket whose clients may only look: a request that could change something, or tries
    /// changes, is refused, and the reply names the socket.
    #[must_use]
    pub fn with_readers(mut self, listener: Listener) -> Self {
        self.readers = listener.path().display().to_string();
        self.system.add(Door::Readers, Entrance::Unix(listener));
        self.doors = self.system.doors();
        self
    }

    /// Adds a socket whose clients send messages of rtnetlink, each a packet
    /// ([`Listener::bind_packets`]), and may change everything.
    #[must_use]
    pub fn with_netlink(mut self, listener: Listener) -> Self {
        self.system.add(Door::Netlink, Entrance::Unix(listener));
        self.doors = self.system.doors();
        self
    }

    /// Adds a socket whose clients get metrics in the format of OpenMetrics, by HTTP.
    #[must_use]
    pub fn with_metrics(mut self, entrance: Entrance) -> Self {
        self.system.add(Door::Metrics, entrance);
        self.doors = self.system.doors();
        self
    }
}

impl<S: System> Server<S> {
    /// Makes a server of `daemon` whose time and clients come from `system`.
    #[must_use]
    pub fn on(system: S, mut daemon: Daemon) -> Self {
        daemon.links_mut().set_clock(system.clock());
        if system.has_threads() {
            daemon.crew.options.get_or_insert_default();
        }
        Self {
            daemon,
            doors: system.doors(),
            readers: String::new(),
            system,
            sessions: Vec::new(),
            scrapes: Scrapes::default(),
            faces: Faces::default(),
            turn: 0,
            pause: None,
            cannot_accept: false,
            patience: Patience::default(),
            logs_changes: false,
            losses: None,
            keeper: None,
            more: false,
        }
    }

    /// Sets whether each change that a client makes, and each that is refused, is a line in the log
    /// ([`Notes`](txweir_runtime::Notes)), with the user, group and process of the client. False at
    /// first.
    #[must_use]
    pub const fn with_logged_changes(mut self, on: bool) -> Self {
        self.logs_changes = on;
        self
    }

    /// Makes the log have a line for each link and reason by which more than so many packets a
    /// second are dropped, at most one in ten seconds.
    #[must_use]
    pub fn with_logged_drops(mut self, above: u64) -> Self {
        self.losses = Some(Losses::above(above));
        self
    }

    /// Sets how the workers of links do their work.
    #[must_use]
    pub fn with_workers(mut self, options: TeamOptions) -> Self {
        self.daemon.crew.options = Some(options);
        self
    }

    /// Makes `keeper` save the links and their qdiscs after each change.
    #[must_use]
    pub fn with_keeper(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Saves the state for the last time, if it is saved at all.
    ///
    /// # Errors
    /// Those of the system.
    pub fn end(&mut self) -> io::Result<()> {
        self.keeper.take().map_or(Ok(()), |keeper| keeper.finish(&mut self.daemon))
    }

    /// Sets the time for which a client may do nothing before it makes way for another one.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Returns the daemon, to read its state after the end.
    pub const fn daemon_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }

    /// Serves until `stop` has something to read.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn serve(&mut self, stop: &impl AsFd) -> Result<(), RunError> {
        self.run(stop, &RunOptions::default(), |_| {}).map(|_| ())
    }

    /// Serves until `stop` has something to read, for example signals
    /// ([`Signals`](txweir_device::Signals)), or until an end that `options` names. It calls
    /// `stats` at each interval, not at the end.
    ///
    /// # Errors
    /// Waiting itself fails, or an interface that `options` need does not work any more. Frames
    /// forwarded until then are counted.
    pub fn run(
        &mut self,
        stop: &impl AsFd,
        options: &RunOptions,
        mut stats: impl FnMut(&mut Links),
    ) -> Result<Ended, RunError> {
        // Without it wake-ups come up to 50 us later; nothing else changes.
        let _ = poll::sharpen_timers();
        let mut reports = options.stats_interval.map(|interval| Reports::new(interval, self.system.now()));
        loop {
            let due = [options.end, reports.as_ref().map(Reports::next)].into_iter().flatten().min();
            if !self.round(stop, options, due)? {
                return Ok(Ended::Stopped);
            }
            let now = self.system.now();
            if options.end.is_some_and(|end| end <= now) {
                return Ok(Ended::Duration);
            }
            if reports.as_mut().is_some_and(|reports| reports.take_due(now)) {
                stats(self.daemon.links_mut());
            }
        }
    }

    /// Performs one round of the loop, which [`run`](Self::run) repeats: it waits for clients,
    /// frames and `stop`, at most until `due`, and serves them. Returns false if `stop` has
    /// something to read.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn round(
        &mut self,
        stop: &impl AsFd,
        options: &RunOptions,
        due: Option<Instant>,
    ) -> Result<bool, RunError> {
        self.daemon.deploy()?;
        let ready = self.wait(stop, due).map_err(RunError::System)?;
        if ready.stop {
            return Ok(false);
        }
        // Clients that are known come first: what they have sent shows that they are not idle.
        let split = |events: &[PollFlags], at: usize| at.min(events.len());
        let (clients, rest) = ready.sessions.split_at(split(&ready.sessions, self.sessions.len()));
        let (scrapes, faces) = rest.split_at(split(rest, self.scrapes.len()));
        self.attend(clients);
        self.scrapes.attend(scrapes, self.system.now());
        self.serve_faces(faces);
        for door in (0..ready.connections.len()).filter(|door| ready.connections[*door]) {
            self.accept(door);
        }
        self.look();
        let Self { daemon, system, scrapes, .. } = self;
        let now = system.now();
        if !scrapes.has_work() || daemon.gather(now).is_ok() {
            scrapes.step(daemon, now);
        }
        daemon.look_after(now)?;
        daemon.deploy()?;
        self.more = daemon.links_mut().turn(&|| system.now(), &ready.links);
        if !options.needs_all_links {
            daemon.restore(system.now());
        } else if let Some((name, error)) = daemon.links().gone() {
            return Err(RunError::Link { name, error });
        }
        Ok(true)
    }

    /// Serves the clients that send messages of rtnetlink. Changes go to the log.
    fn serve_faces(&mut self, ready: &[PollFlags]) {
        let Self { daemon, system, faces, .. } = self;
        let log = faces.attend(ready, daemon, &|| system.now(), REQUESTS_FOR);
        for line in log.into_iter().filter(|_| self.logs_changes) {
            let level = if line.is_done { Level::Notice } else { Level::Warning };
            let result = if line.is_done { "" } else { "refused: " };
            let text = format!("{}: netlink: {result}{}", line.who, line.words);
            daemon.links_mut().tell(system.now(), level, &text);
        }
    }

    /// Looks after the log of drops, and the state on the disk.
    fn look(&mut self) {
        let Self { daemon, system, losses, keeper, .. } = self;
        let now = system.now();
        let is_due = losses.as_ref().is_some_and(|losses| losses.deadline() <= now);
        if is_due && daemon.gather(now).is_err() {
            return;
        }
        for line in losses.as_mut().map_or_else(Vec::new, |losses| losses.look(daemon.links(), now)) {
            daemon.links_mut().tell(now, Level::Warning, &line);
        }
        if let Some(line) = keeper.as_mut().and_then(|keeper| keeper.look(daemon, &|| system.now())) {
            daemon.links_mut().tell(now, Level::Error, &line);
        }
    }

    /// Returns the time at which [`look`](Self::look) has something to do.
    fn look_at(&self, now: Instant) -> Option<Instant> {
        let kept = self.keeper.as_ref().and_then(|keeper| keeper.deadline(&self.daemon, now));
        let workers = self.daemon.looks_after_at();
        [kept, self.losses.as_ref().map(Losses::deadline), workers].into_iter().flatten().min()
    }

    /// Waits for clients, frames and the end, and at most until the next due time.
    fn wait(&mut self, stop: &impl AsFd, due: Option<Instant>) -> io::Result<Ready> {
        let now = self.system.now();
        self.pause = self.pause.filter(|until| *until > now);
        let full: Vec<Option<Instant>> = self.doors.iter().map(|door| self.full_until(*door, now)).collect();
        let at_once = self.more || self.scrapes.has_work() || self.sessions.iter().any(Session::has_request);
        let places = full.iter().flatten().copied().min();
        let at_once = at_once || !self.daemon.links().may_rest();
        let deadline = match at_once {
            true => Some(Instant::ZERO),
            false => {
                let (scrapes, look) = (self.scrapes.deadline(), self.look_at(now));
                let links = self.daemon.links().deadline(now);
                [links, self.pause, places, scrapes, look, due].into_iter().flatten().min()
            }
        };
        let accepts: Vec<bool> = full.iter().map(|full| self.pause.is_none() && full.is_none()).collect();
        let ready = self.system.wait(&Waits {
            stop: stop.as_fd(),
            accepts: &accepts,
            deadline,
            sessions: &self.sessions,
            scrapes: &self.scrapes,
            faces: &self.faces,
            links: self.daemon.links(),
        });
        self.daemon.links().has_rested();
        ready
    }

    /// Accepts the connections that wait at a door.
    fn accept(&mut self, at: usize) {
        for round in 0..CLIENTS_MAX {
            let Some(door) = self.doors.get(at).copied() else { return };
            // The wait has shown one connection. Whether there are more is not known, and no client
            // makes way for none.
            if !self.has_place(door) && (round > 0 || !self.makes_room(door, self.system.now())) {
                return;
            }
            match self.system.accept(door) {
                Ok(stream) => {
                    self.cannot_accept = false;
                    let now = self.system.now();
                    match door {
                        Door::Metrics => self.scrapes.begin(stream, now + self.patience.stalled),
                        Door::Netlink => self.faces.begin(stream),
                        Door::All | Door::Readers => self.sessions.push(Session::new(stream, door, now)),
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock) => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    self.pause = Some(self.system.now() + ACCEPT_PAUSE);
                    if !std::mem::replace(&mut self.cannot_accept, true) {
                        let now = self.system.now();
                        let text = format!("clients: cannot accept a connection: {error}: they wait");
                        self.daemon.links_mut().tell(now, Level::Error, &text);
                    }
                    return;
                }
            }
        }
    }

    /// True if one more client may come by this door.
    fn has_place(&self, door: Door) -> bool {
        let most = match door {
            Door::All => CLIENTS_MAX,
            Door::Readers => READERS_MAX,
            Door::Metrics => return self.scrapes.has_place(),
            Door::Netlink => return self.faces.has_place(),
        };
        self.sessions.iter().filter(|session| session.door() == door).count() < most
    }

    /// Returns the time until which no connection is accepted at this door, because every place is
    /// taken by a client that does not have to make way; `None` if there is a place. A connection
    /// waits until then in the queue of the socket.
    fn full_until(&self, door: Door, now: Instant) -> Option<Instant> {
        if self.has_place(door) {
            return None;
        }
        // While requests are there to be performed, the loop comes back without a deadline.
        let ways = self.sessions.iter().filter(|session| session.door() == door);
        let ways = ways.filter_map(|session| session.makes_way_at(&self.patience));
        let ways = ways.chain(self.scrapes.deadline().filter(|_| door == Door::Metrics));
        Some(ways.min().unwrap_or(Instant(u64::MAX))).filter(|at| *at > now)
    }

    /// Makes room for one more client at this door, if there is none: the client that has done
    /// nothing for longest makes way. Returns true if there is room.
    fn makes_room(&mut self, door: Door, now: Instant) -> bool {
        while !self.has_place(door) {
            let ways = self.sessions.iter().enumerate().filter(|(_, session)| session.door() == door);
            let due = ways.filter_map(|(at, session)| session.makes_way_at(&self.patience).map(|t| (t, at)));
            let Some((_, at)) = due.filter(|(t, _)| *t <= now).min() else { return false };
            let session = &mut self.sessions[at];
            // A request may have come since the last look.
            let read = session.read(now);
            if read.is_ok() && session.makes_way_at(&self.patience).is_none_or(|t| t > now) {
                continue;
            }
            // The client may be gone.
            let _ = session.reply(&Reply::refused(2, MADE_WAY), now);
            self.sessions.remove(at);
        }
        true
    }

    /// Reads from clients, performs a request of each in turn while there is time, and writes to
    /// them.
    fn attend(&mut self, ready: &[PollFlags]) {
        let until = self.system.now() + REQUESTS_FOR;
        let mut gone = vec![false; self.sessions.len()];
        for (at, session) in self.sessions.iter_mut().enumerate() {
            let events = ready.get(at).copied().unwrap_or(PollFlags::empty());
            if events.is_empty() {
                continue;
            }
            let wrote = session.write(self.system.now());
            // A client that hung up may have sent a last request before; reading finds the end.
            gone[at] = wrote.and_then(|()| session.read(self.system.now())).is_err()
                || (events.intersects(PollFlags::ERR | PollFlags::HUP) && !session.has_request());
        }
        let clients = self.sessions.len();
        let first = self.turn;
        for at in (0..clients).map(|i| (first + i) % clients) {
            if gone[at] || !self.sessions[at].has_request() {
                continue;
            }
            self.turn = at + 1;
            if let Some(line) = self.sessions[at].next() {
                let reply = self.answer(at, line);
                gone[at] = self.sessions[at].reply(&reply, self.system.now()).is_err();
            }
            if self.system.now() >= until {
                break;
            }
        }
        let mut at = 0;
        self.sessions.retain(|session| {
            let gone = gone.get(at).copied().unwrap_or(false);
            at += 1;
            !gone && !session.is_over()
        });
    }

    /// Performs a request of the client at this index, as far as its door admits it. Changes go to
    /// the log.
    fn answer(&mut self, at: usize, line: Line) -> Reply {
        let mut request = read(line);
        let reply = match &mut request.ask {
            Ok(ask) => {
                let refusal = self.refusal(self.sessions[at].door(), ask);
                if refusal.is_none()
                    && let Some(reply) = self.gather(at, ask)
                {
                    return Reply { id: request.id, ..reply };
                }
                let (ask, session) = (&*ask, &self.sessions[at]);
                let reply = match &refusal {
                    Some(refusal) => Reply::refused(2, refusal),
                    None => self.daemon.answer(self.system.now(), ask),
                };
                if let Some(change) = audit::change(ask).filter(|_| self.logs_changes) {
                    let result = match refusal {
                        Some(_) => "refused, read-only: ",
                        None => audit::result(ask, reply.status),
                    };
                    let level = if result.is_empty() { Level::Notice } else { Level::Warning };
                    let text = format!("{}: {result}{change}", session.who());
                    let now = self.system.now();
                    self.daemon.links_mut().tell(now, level, &text);
                }
                reply
            }
            Err(error) => Reply::refused(1, error),
        };
        Reply { id: request.id, ..reply }
    }

    /// Puts the parts of a batch together. Returns the reply to a part that is not the last.
    fn gather(&mut self, at: usize, ask: &mut Ask) -> Option<Reply> {
        let others = self.sessions.iter().enumerate().filter(|(other, _)| *other != at);
        let others: usize = others.map(|(_, session)| session.gathered()).sum();
        let session = &mut self.sessions[at];
        let Ask::Tc { batch: Some(batch), .. } = ask else {
            session.forget();
            return None;
        };
        match session.gather(batch, BATCH_MAX.min(GATHERED_MAX.saturating_sub(others))) {
            Ok(true) => None,
            Ok(false) => Some(Reply::done("")),
            Err(error) => Some(Reply::refused(1, &error)),
        }
    }

    /// Returns the reason for which a client that came by this door may not make a request.
    fn refusal(&self, door: Door, ask: &Ask) -> Option<String> {
        if door == Door::All || matches!(effect::of(ask), Effect::Looks | Effect::Unread) {
            return None;
        }
        Some(format!(
            "{}: refused: the socket {} is read-only: expected show, list, get, save or version",
            audit::words(ask),
            self.readers
        ))
    }
}

/// Reads a line of a client.
fn read(line: Line) -> Request {
    match line {
        Line::Whole(line) => Request::read(&line),
        Line::TooLong => {
            let ask = Err(format!("request: expected at most {LINE_MAX} bytes in a line, given more"));
            Request { id: serde_json::Value::Null, ask }
        }
    }
}
