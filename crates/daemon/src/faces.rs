//! The kernel's face: clients that send messages of rtnetlink on a socket of packets.
//!
//! A client's requests are performed one packet at a time, and its replies wait as packets until it
//! takes them. While a client listens for notifications, the qdiscs and classes of all links are
//! looked at after each change, whoever made it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use rustix::io::Errno;
use txweir_core::{Instant, Nanos};
use txweir_device::poll::PollFlags;
use txweir_netlink::message::messages;
use txweir_netlink::{Client, Refusal, Watch};

use crate::daemon::Daemon;
use crate::stream::Stream;

/// Most clients at once: one more waits in the queue of the socket. A client may do nothing for any
/// time, as one that listens does.
const FACES_MAX: usize = 64;
/// Largest packet of requests. `tc -b` sends at most 32 KiB at a time. A socket sends at most 416
/// KiB, unless the system's bound (`net.core.wmem_max`) is raised.
const PACKET_MAX: usize = 512 << 10;
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
    /// The place of the packet that is read, once there was a client.
    room: Vec<u8>,
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
        Self { all: Vec::new(), watch: None, changes: 0, room: Vec::new() }
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
            let Self { all, room, .. } = self;
            // A packet that needs the last byte has been cut, or is too large.
            room.resize(PACKET_MAX + 1, 0);
            all.retain_mut(|face| {
                let events = ready.get(at).copied().unwrap_or(PollFlags::empty());
                at += 1;
                events.is_empty()
                    || face.go_on(daemon, now, until, room, &mut log).is_ok_and(|goes_on| goes_on)
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
        // The links have turns in the middle of a long look.
        daemon.links_mut().begin_request();
        let packets = self.watch.get_or_insert_default().look(daemon.links_mut());
        daemon.links_mut().end_request();
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
        room: &mut [u8],
        log: &mut Vec<Line>,
    ) -> io::Result<bool> {
        self.write()?;
        loop {
            if self.unread > UNREAD_MAX {
                return Ok(true);
            }
            match self.stream.read(room) {
                Ok(0) => return Ok(false),
                Ok(n) if n > PACKET_MAX => {
                    self.refuse_large(&room[..n]);
                    self.write()?;
                    return Ok(false);
                }
                Ok(n) => {
                    let answer = daemon.netlink(now(), &room[..n], &mut self.client);
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

    /// Refuses a packet that may have been cut: the first of its requests stands for all.
    fn refuse_large(&mut self, packet: &[u8]) {
        let first = messages(packet).next().map_or(&[][..], |first| first.whole);
        let text = format!("expected at most {PACKET_MAX} bytes in a packet, given more: nothing was done");
        let why = Refusal { errno: Errno::MSGSIZE.raw_os_error(), text };
        let answer = txweir_netlink::refuse(first, &mut self.client, &why);
        answer.packets.into_iter().for_each(|packet| self.push(packet));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Ask;
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::rc::Rc;
    use txweir_netlink::message::{Header, TcHead, flag, kind, message};

    /// A client whose packets are cut where the reader has no more room, as the system cuts them.
    struct Fake {
        packets: VecDeque<Vec<u8>>,
        replies: Rc<RefCell<Vec<Vec<u8>>>>,
    }

    impl Read for Fake {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let packet = self.packets.pop_front().ok_or(ErrorKind::WouldBlock)?;
            let n = packet.len().min(room.len());
            room[..n].copy_from_slice(&packet[..n]);
            Ok(n)
        }
    }

    impl Write for Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.replies.borrow_mut().push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Fake {
        fn who(&self) -> String {
            "a test".to_owned()
        }
    }

    /// Returns a packet of so many requests, each with its number, which want acknowledgements.
    fn packet(requests: u32) -> Vec<u8> {
        let mut packet = Vec::new();
        for seq in 1..=requests {
            let flags = flag::REQUEST | flag::ACK | flag::CREATE | flag::REPLACE;
            packet.extend(message(Header { kind: kind::NEW_QDISC, flags, seq, port: 0 }, |w| {
                TcHead { link: 2, handle: 0x1_0000, parent: u32::MAX, info: 0 }.write(w);
                w.text(1, "pfifo");
            }));
            packet.resize(packet.len().next_multiple_of(4), 0);
        }
        packet
    }

    /// Sends a packet to a daemon with one link. Returns the errors of the acknowledgements, the
    /// number of clients left, and the lines that make the daemon's state.
    fn sent(packet: Vec<u8>) -> (Vec<i32>, usize, String) {
        let mut daemon = Daemon::new();
        let args = ["add", "lan"].map(str::to_owned).to_vec();
        assert_eq!(daemon.answer(Instant::ZERO, &Ask::Link { args }).status, 0);
        let replies = Rc::new(RefCell::new(Vec::new()));
        let mut faces = Faces::default();
        faces.begin(Fake { packets: VecDeque::from([packet]), replies: Rc::clone(&replies) });
        let now = || Instant::ZERO;
        faces.attend(&[PollFlags::IN], &mut daemon, &now, Nanos::from_secs(1));
        let errno = |reply: &Vec<u8>| {
            let ack = messages(reply).next().expect("a message");
            assert_eq!(ack.header.kind, kind::ERROR);
            i32::from_ne_bytes(ack.body[..4].try_into().expect("four bytes"))
        };
        let errors = replies.borrow().iter().map(errno).collect();
        (errors, faces.all.len(), daemon.state())
    }

    #[test]
    fn every_request_of_a_large_packet_is_performed() {
        let packet = packet(2000);
        assert!(packet.len() > 64 << 10 && packet.len() <= PACKET_MAX);
        let (errors, clients, state) = sent(packet);
        assert_eq!((errors, clients), (vec![0; 2000], 1));
        assert!(state.contains("qdisc replace dev lan root handle 1: pfifo"), "{state}");
    }

    #[test]
    fn a_packet_that_is_too_large_is_refused_whole() {
        let packet = packet(12_000);
        assert!(packet.len() > PACKET_MAX + 1);
        let (errors, clients, state) = sent(packet);
        assert_eq!((errors, clients), (vec![-Errno::MSGSIZE.raw_os_error()], 0));
        assert!(!state.contains("qdisc"), "{state}");
    }
}
