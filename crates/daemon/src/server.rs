//! `Server`: the loop. One thread for packets and clients: a request is done between two turns of the links, whole, and
//! no client is ever waited for.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use txweir_core::{Instant, Nanos};
use txweir_device::clock::now_ns;
use txweir_device::poll::{self, PollFd, PollFlags};

use crate::daemon::Daemon;
use crate::protocol::{LINE_MAX, Reply, Request};
use crate::session::{Line, Session};
use crate::socket::Listener;

/// Most clients at once: with what each may leave unfinished, a bound on memory. One more makes the one go that has
/// been silent longest.
const CLIENTS_MAX: usize = 64;
/// How long requests are done before the links have their turn; a request that was begun is finished.
const REQUESTS_FOR: Nanos = Nanos::from_micros(500);
/// How long not to accept after the system had no room for one more connection.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);
/// How long before a deadline to ask instead of sleeping, as `txweir run` does: less than one wake-up from sleep.
const SPIN: Nanos = Nanos::from_micros(10);

/// The socket, the clients and the daemon that they speak to.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    listener: Listener,
    sessions: Vec<Session>,
    /// Whose turn it is among the clients.
    turn: usize,
    /// Not to accept before.
    pause: Option<Instant>,
}

/// What a wait has found.
#[derive(Debug, Default)]
struct Ready {
    stop: bool,
    connection: bool,
    /// By client.
    sessions: Vec<PollFlags>,
    /// By live link.
    links: Vec<bool>,
}

fn clock() -> Instant {
    Instant(now_ns())
}

impl Server {
    /// Serves `daemon` at `listener`.
    #[must_use]
    pub const fn new(daemon: Daemon, listener: Listener) -> Self {
        Self { daemon, listener, sessions: Vec::new(), turn: 0, pause: None }
    }

    /// The daemon, to look at when it has ended.
    pub const fn daemon_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }

    /// Serves until `stop` has something to read; signals, for one ([`Signals`](txweir_device::Signals)).
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn run(&mut self, stop: &impl AsFd) -> io::Result<()> {
        // Without it wake-ups come up to 50 us later; nothing else changes.
        let _ = poll::sharpen_timers();
        let mut more = false;
        loop {
            let ready = self.wait(stop, more)?;
            if ready.stop {
                return Ok(());
            }
            if ready.connection {
                self.accept();
            }
            self.serve(&ready.sessions);
            more = self.daemon.links_mut().turn(&clock, &ready.links);
        }
    }

    /// Waits for clients, frames and the end, and at most until something is due.
    fn wait(&mut self, stop: &impl AsFd, more: bool) -> io::Result<Ready> {
        let now = clock();
        self.pause = self.pause.filter(|until| *until > now);
        let at_once = more || self.sessions.iter().any(Session::has_request);
        let deadline = match at_once {
            true => Some(Instant::ZERO),
            false => [self.daemon.links().deadline(now), self.pause].into_iter().flatten().min(),
        };
        let accepting = if self.pause.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(self.listener.socket(), accepting)];
        fds.extend(self.sessions.iter().map(|s| PollFd::new(s.stream(), s.events())));
        self.daemon.links().poll(&mut fds);
        poll::wait(&mut fds, deadline.map(|at| at.0), SPIN.0)?;
        let clients = self.sessions.len();
        Ok(Ready {
            stop: !fds[0].revents().is_empty(),
            connection: !fds[1].revents().is_empty(),
            sessions: fds[2..2 + clients].iter().map(PollFd::revents).collect(),
            // Errors and hang-ups are received as well, to learn what they are.
            links: fds[2 + clients..].iter().map(|fd| fd.revents().intersects(!PollFlags::OUT)).collect(),
        })
    }

    /// Takes the connections that wait.
    fn accept(&mut self) {
        for _ in 0..CLIENTS_MAX {
            match self.listener.socket().accept() {
                Ok((stream, _)) => {
                    let now = clock();
                    if self.sessions.len() >= CLIENTS_MAX {
                        self.drop_the_most_silent();
                    }
                    // One that cannot be made non-blocking is not served: it could hold up all others.
                    self.sessions.extend(Session::new(stream, now));
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock) => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    self.pause = Some(clock() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn drop_the_most_silent(&mut self) {
        let silent = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.heard.0);
        if let Some((at, _)) = silent {
            self.sessions.remove(at);
        }
    }

    /// Reads from clients, does a request of each in turn while there is time, and writes to them.
    fn serve(&mut self, ready: &[PollFlags]) {
        let until = clock() + REQUESTS_FOR;
        let mut gone = vec![false; self.sessions.len()];
        for (at, session) in self.sessions.iter_mut().enumerate() {
            let events = ready.get(at).copied().unwrap_or(PollFlags::empty());
            if events.is_empty() {
                continue;
            }
            let wrote = session.write();
            // A client that hung up may have sent its last before; reading finds the end.
            gone[at] = wrote.and_then(|()| session.read(clock())).is_err()
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
                let reply = answer(&mut self.daemon, line);
                gone[at] = self.sessions[at].reply(&reply).is_err();
            }
            if clock() >= until {
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
}

fn answer(daemon: &mut Daemon, line: Line) -> Reply {
    let request = match line {
        Line::Whole(line) => Request::read(&line),
        Line::TooLong => {
            let ask = Err(format!("request: expected at most {LINE_MAX} bytes in a line"));
            Request { id: serde_json::Value::Null, ask }
        }
    };
    let reply = match request.ask {
        Ok(ask) => daemon.answer(clock(), &ask),
        Err(error) => Reply::refused(1, &error),
    };
    Reply { id: request.id, ..reply }
}
