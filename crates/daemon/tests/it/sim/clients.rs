//! Clients: they send requests whole and in pieces, ahead of the answers or not, read them or do
//! not, and end in the middle.

use std::collections::VecDeque;

use serde_json::Value;
use txweir_device::poll::PollFlags;

use super::conns::Conn;
use super::world::World;

/// Connections that may wait to be accepted.
const BACKLOG: usize = 128;
/// Clients that the daemon serves at once.
const CLIENTS_MAX: usize = 64;

/// The expected answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Any,
    /// Status 0.
    Done,
    /// A status other than 0.
    Refused,
    /// The version of this program.
    Version,
    /// Status 1 and no number.
    Garbage,
    /// The sums of all links.
    Show,
    /// A configuration, which the client saves.
    Save,
    /// This number of packets was generated.
    Send(u64),
}

/// A request without an answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: u64,
    /// The bytes of the connection up to its end.
    end: u64,
    what: What,
}

/// A client.
#[derive(Debug, Default)]
pub struct Client {
    pub conn: Option<usize>,
    outbox: VecDeque<u8>,
    /// Bytes that were put into the outbox, and those that left it, since it connected.
    composed: u64,
    sent: u64,
    inbox: Vec<u8>,
    asked: VecDeque<Asked>,
    /// False for one that does not read its answers.
    reads: bool,
    next_id: u64,
    made_way: bool,
}

impl Client {
    /// Returns the requests that were sent whole and have no answer.
    fn open(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(|asked| asked.end <= self.sent)
    }
    pub fn is_done(&self) -> bool {
        self.asked.is_empty() && self.outbox.is_empty()
    }
}

impl World {
    /// Lets a client do something.
    pub fn act(&mut self, at: usize) {
        let Some(conn) = self.clients[at].conn else { return self.connect(at) };
        match self.rng.below(100) {
            0..45 => {
                if self.clients[at].asked.len() < 6 {
                    let id = self.clients[at].next_id;
                    let (line, what) = self.compose(id);
                    self.facts.requests += 1;
                    self.note(3, &line[..line.len().min(80)]);
                    let client = &mut self.clients[at];
                    client.next_id += 1;
                    client.composed += line.len() as u64;
                    client.outbox.extend(line);
                    client.asked.push_back(Asked { id, end: client.composed, what });
                }
                self.push(at, conn);
            }
            45..65 => self.push(at, conn),
            65..98 => {
                let most = self.between(1, 20_000) as usize;
                if self.clients[at].reads {
                    self.read(at, conn, most);
                }
            }
            98 => {
                if self.clients[at].outbox.is_empty() {
                    self.conns.get_mut(&conn).expect("a connection").client_ended = true;
                }
            }
            _ => {
                if self.once_in(3) {
                    self.hang_up(at);
                }
            }
        }
    }

    fn connect(&mut self, at: usize) {
        if self.backlog.len() >= BACKLOG {
            return;
        }
        let id = self.next_conn;
        self.next_conn += 1;
        let room = self.between(2_000, 200_000) as usize;
        self.conns.insert(id, Conn { room, ..Conn::default() });
        self.backlog.push_back(id);
        let reads = !self.plan.sockets || !self.once_in(10);
        let next_id = self.clients[at].next_id;
        self.clients[at] = Client { conn: Some(id), reads, next_id, ..Client::default() };
    }

    /// Sends some of the outbox.
    fn push(&mut self, at: usize, conn: usize) {
        let small = self.once_in(6);
        let most = if small { self.between(1, 60) } else { 200_000 } as usize;
        let client = &mut self.clients[at];
        let conn = self.conns.get_mut(&conn).expect("a connection");
        if conn.client_ended {
            // Nothing goes out any more; the answers to what was sent still come.
            client.outbox.clear();
            client.asked.retain(|asked| asked.end <= client.sent);
            return;
        }
        // Nothing goes to a daemon that has closed the connection.
        let room = if conn.server_gone { 0 } else { conn.room.saturating_sub(conn.to_server.len()) };
        let n = most.min(room).min(client.outbox.len());
        conn.to_server.extend(client.outbox.drain(..n));
        client.sent += n as u64;
    }

    /// Reads some bytes, and checks each answer.
    fn read(&mut self, at: usize, id: usize, most: usize) {
        let conn = self.conns.get_mut(&id).expect("a connection");
        let n = most.min(conn.to_client.len());
        let client = &mut self.clients[at];
        client.inbox.extend(conn.to_client.drain(..n));
        let ended = conn.to_client.is_empty() && conn.server_gone;
        conn.fresh = conn.fresh.min(conn.to_client.len());
        let inbox = std::mem::take(&mut self.clients[at].inbox);
        let mut rest = Vec::new();
        for line in inbox.split_inclusive(|b| *b == b'\n') {
            match line.last() {
                Some(b'\n') => self.answered(at, line),
                _ => rest = line.to_vec(),
            }
        }
        self.clients[at].inbox = rest;
        if ended {
            self.closed(at, id);
        }
    }

    fn answered(&mut self, at: usize, line: &[u8]) {
        self.facts.replies += 1;
        let reply: Value =
            serde_json::from_slice(line).unwrap_or_else(|e| panic!("an answer is no JSON: {e}"));
        let (status, stdout) = (reply["status"].as_u64(), reply["stdout"].as_str());
        let (Some(status), Some(stdout), Some(stderr)) = (status, stdout, reply["stderr"].as_str()) else {
            panic!("an answer lacks a key: {reply}");
        };
        let keys = reply.as_object().map_or(0, serde_json::Map::len);
        assert_eq!(keys, 4, "an answer has other keys: {reply}");
        if reply["id"].is_null() && stderr.contains("makes way for another client") {
            self.facts.made_way += 1;
            self.clients[at].made_way = true;
            return;
        }
        let Some(asked) = self.clients[at].asked.pop_front() else {
            panic!("client {at} got an answer to no request: {reply}");
        };
        // A line that is too long is refused before its end.
        let sent = asked.what == What::Garbage || asked.end <= self.clients[at].sent;
        assert!(sent, "a request was answered before it was sent: {asked:?}");
        self.facts.refusals += u64::from(status != 0);
        if asked.what == What::Garbage {
            assert_eq!((status, reply["id"].is_null()), (1, true), "client {at}, {asked:?}: {reply}");
            return;
        }
        assert_eq!(reply["id"].as_u64(), Some(asked.id), "client {at} got the answer to another request");
        let told = || format!("client {at}, {asked:?}: {reply}");
        match asked.what {
            What::Any | What::Garbage => {}
            What::Done => assert_eq!(status, 0, "{}", told()),
            What::Refused => assert_ne!(status, 0, "{}", told()),
            What::Version => {
                assert_eq!((status, stdout), (0, concat!("txweir ", env!("CARGO_PKG_VERSION"), "\n")));
            }
            What::Show => {
                assert_eq!(status, 0, "{}", told());
                super::check::shown(stdout);
            }
            What::Save => {
                assert_eq!(status, 0, "{}", told());
                self.saves.push(stdout.to_owned());
            }
            What::Send(n) => {
                assert_eq!(status, 0, "{}", told());
                self.facts.sent += n;
            }
        }
    }

    /// Checks the end of a connection that the daemon closed.
    fn closed(&mut self, at: usize, id: usize) {
        let conn = self.conns.remove(&id).expect("a connection");
        let client = &mut self.clients[at];
        // Only a client that makes way may miss answers, if it does not read.
        let excused = conn.cut || conn.stuffed && self.plan.clients > CLIENTS_MAX;
        if !excused {
            let open: Vec<_> = client.open().collect();
            let way = client.made_way;
            assert!(
                open.is_empty(),
                "client {at} was disconnected before the answers to {open:?} ({way} {conn:?})"
            );
            assert!(client.made_way || conn.client_ended, "client {at} was disconnected for no reason");
            assert!(client.inbox.is_empty(), "client {at} got a part of an answer");
        }
        self.doubt(at);
        self.clients[at].conn = None;
    }

    /// Ends a connection from the client's side.
    fn hang_up(&mut self, at: usize) {
        let Some(id) = self.clients[at].conn.take() else { return };
        self.doubt(at);
        let conn = self.conns.get_mut(&id).expect("a connection");
        conn.client_gone = true;
        conn.to_client.clear();
        conn.fresh = 0;
    }

    /// Counts what a client asked for and will not know about.
    fn doubt(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let sum = client.open().map(|asked| if let What::Send(n) = asked.what { n } else { 0 }).sum::<u64>();
        self.facts.doubtful += sum;
        let next_id = client.next_id;
        *client = Client { next_id, ..Client::default() };
    }

    /// Ends all connections, because the daemon has ended. `cut` is true if it was killed: the last
    /// answers may not have been written.
    pub fn daemon_ended(&mut self, cut: bool) {
        for at in 0..self.clients.len() {
            let Some(id) = self.clients[at].conn else { continue };
            if cut && let Some(conn) = self.conns.get(&id) {
                let lost = self.rng.below(conn.fresh as u64 + 1) as usize;
                let conn = self.conns.get_mut(&id).expect("a connection");
                let left = conn.to_client.len() - lost;
                conn.to_client.truncate(left);
            }
            if let Some(conn) = self.conns.get_mut(&id) {
                // The rest is no reply and no whole end.
                (conn.server_gone, conn.cut) = (true, true);
                self.read(at, id, usize::MAX);
            }
        }
        self.backlog.clear();
        self.conns.clear();
        for client in &mut self.clients {
            *client = Client { next_id: client.next_id, ..Client::default() };
        }
    }

    /// Lets all clients finish what they have begun. Returns true if one of them did something.
    pub fn finish_clients(&mut self) -> bool {
        let before = (self.hash, self.facts.replies);
        let mut moved = false;
        for at in 0..self.clients.len() {
            let Some(conn) = self.clients[at].conn else { continue };
            let there = self.conns[&conn].to_client.len();
            let outbox = self.clients[at].outbox.len();
            self.push(at, conn);
            self.read(at, conn, usize::MAX);
            moved |= there > 0 || outbox != self.clients[at].outbox.len();
        }
        moved || before != (self.hash, self.facts.replies)
    }

    /// Returns the clients whose requests have no answers.
    pub fn unanswered(&self) -> Vec<usize> {
        (0..self.clients.len()).filter(|at| !self.clients[*at].is_done()).collect()
    }

    /// Returns the clients that have sent their last request, and are still connected.
    pub fn kept(&self) -> Vec<usize> {
        let ended = |at: &usize| self.clients[*at].conn.is_some_and(|conn| self.conns[&conn].client_ended);
        (0..self.clients.len()).filter(ended).collect()
    }

    /// Returns the events of a connection.
    pub fn events(&self, id: usize, wanted: PollFlags) -> PollFlags {
        self.conns.get(&id).map_or(PollFlags::empty(), |conn| conn.events(wanted))
    }
}
