//! The kernel's face: clients that send messages of rtnetlink on a socket of packets.
//!
//! A client's requests are performed one packet at a time, and its replies wait as packets until it
//! takes them. While a client listens for notifications, the qdiscs and classes of all links are
//! looked at after each change, whoever made it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use txweir_core::{Instant, Nanos};
use txweir_device::poll::PollFlags;
use txweir_netlink::{Client, Watch};

use crate::daemon::Daemon;
use crate::stream::Stream;

/// Most clients at once: one more waits in the queue of the socket. A client may do nothing for any
/// time, as one that listens does.
const FACES_MAX: usize = 64;
/// Largest packet of requests: `tc -b` sends at most 32 KiB at a time.
const PACKET_MAX: usize = 64 << 10;
/// Bytes of waiting replies beyond which no more requests of the client are performed, and
/// notifications are left out. So a client has at most this and the replies to one packet waiting.
const UNREAD_MAX: usize = 256 << 10;

/// The clients.
#[derive(Debug)]
pub(crate) struct Faces<S> {
    all: Vec<Face<S>>,
    /// The state at the last notification, while a client listens.
    watch: Option<Watch>,
    /// The daemon's count of changes then.
    changes: u64,
}

/// One client.
#[derive(Debug)]
struct Face<S> {
    stream: S,
    client: Client,
    replies: VecDeque<Vec<u8>>,
    /// Bytes of the replies.
    unread: usize,
}

/// A request that would change something, for the log.
#[derive(Debug)]
pub(crate) struct Line {
    /// The user, the group and the process of the client.
    pub(crate) who: String,
    /// The words of tc that say the same.
    pub(crate) words: String,
    pub(crate) is_done: bool,
}

impl<S> Default for Faces<S> {
    fn default() -> Self {
        Self { all: Vec::new(), watch: None, changes: 0 }
    }
}

impl<S: Stream> Faces<S> {
    /// True if one more client may come.
    pub(crate) const fn has_place(&self) -> bool {
        self.all.len() < FACES_MAX
    }

    /// Takes over a connection.
    pub(crate) fn begin(&mut self, stream: S) {
        let (client, replies) = (Client::default(), VecDeque::new());
        self.all.push(Face { stream, client, replies, unread: 0 });
    }

    /// Returns the connections with the events to wait for.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (&S, PollFlags)> {
        self.all.iter().map(|face| (&face.stream, face.events()))
    }

    /// Serves the clients that are ready, in the order of [`connections`](Self::connections), for
    /// about as long as `most`; requests that are left wait in their sockets. Returns the changes.
    pub(crate) fn attend(
        &mut self,
        ready: &[PollFlags],
        daemon: &mut Daemon,
        now: &dyn Fn() -> Instant,
        most: Nanos,
    ) -> Vec<Line> {
        let mut log = Vec::new();
        if !self.all.is_empty() {
            let until = now() + most;
            let mut at = 0;
            self.all.retain_mut(|face| {
                let events = ready.get(at).copied().unwrap_or(PollFlags::empty());
                at += 1;
                events.is_empty() || face.go_on(daemon, now, until, &mut log).is_ok_and(|goes_on| goes_on)
            });
            self.notify(daemon);
        }
        log
    }

    /// Sends notifications of what has changed to those that listen.
    fn notify(&mut self, daemon: &mut Daemon) {
        if !self.all.iter().any(|face| face.client.listens(Client::TC)) {
            self.watch = None;
            return;
        }
        let begins = self.watch.is_none();
        if !begins && self.changes == daemon.changes() {
            return;
        }
        self.changes = daemon.changes();
        let packets = self.watch.get_or_insert_default().look(daemon.links_mut());
        if begins {
            return;
        }
        self.all.retain_mut(|face| {
            if face.client.listens(Client::TC) {
                packets.iter().for_each(|packet| face.offer(packet));
            }
            face.write().is_ok()
        });
    }
}

impl<S: Stream> Face<S> {
    fn events(&self) -> PollFlags {
        let mut events = PollFlags::empty();
        if self.unread <= UNREAD_MAX {
            events |= PollFlags::IN;
        }
        if self.unread > 0 {
            events |= PollFlags::OUT;
        }
        events
    }

    fn push(&mut self, packet: Vec<u8>) {
        self.unread += packet.len();
        self.replies.push_back(packet);
    }

    /// Puts a notification behind the replies, if the client takes them.
    fn offer(&mut self, packet: &[u8]) {
        if self.unread <= UNREAD_MAX {
            self.push(packet.to_vec());
        }
    }

    /// Performs requests and sends replies, as far as possible now. False if the client has ended.
    fn go_on(
        &mut self,
        daemon: &mut Daemon,
        now: &dyn Fn() -> Instant,
        until: Instant,
        log: &mut Vec<Line>,
    ) -> io::Result<bool> {
        self.write()?;
        let mut packet = vec![0; PACKET_MAX];
        loop {
            if self.unread > UNREAD_MAX {
                return Ok(true);
            }
            match self.stream.read(&mut packet) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    let answer = daemon.netlink(now(), &packet[..n], &mut self.client);
                    answer.packets.into_iter().for_each(|packet| self.push(packet));
                    let who = &self.stream;
                    log.extend(answer.changes.into_iter().map(|change| Line {
                        who: who.who(),
                        words: change.words,
                        is_done: change.is_done,
                    }));
                    self.write()?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if now() >= until {
                return Ok(true);
            }
        }
    }

    /// Sends waiting replies as far as the client takes them now.
    fn write(&mut self) -> io::Result<()> {
        while let Some(packet) = self.replies.front() {
            match self.stream.write(packet) {
                // A packet is sent whole or not at all.
                Ok(_) => self.unread -= self.replies.pop_front().map_or(0, |packet| packet.len()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
