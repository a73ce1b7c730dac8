//! The network card of a virtual machine (vhost-user, virtio-net): the monitor of the machine is
//! the frontend, this process the device.
//!
//! The monitor connects to a Unix socket and hands over the guest's memory, and two descriptors a
//! ring. From then on frames pass without it: the guest describes buffers in its own memory, and
//! the device copies frames out of them and into them. [`Ring`](ring::Ring) has the rings, a
//! [`Session`](session::Session) the messages of the monitor.
//!
//! A frame that is not received stays in the guest's ring, so that the guest's own queues feel a
//! slow link ([`Nic::senders_wait`]). The guest is not trusted: see [`ring`].
//!
//! The device exists without a guest. Frames for it are lost meanwhile, as on an interface that is
//! down, and a guest may come again.

mod feature;
mod guest;
mod memory;
mod message;
mod ring;
mod session;
mod stream;
#[cfg(feature = "testnet")]
mod testing;
mod timed;

#[cfg(feature = "testnet")]
pub use testing::{Seen, any_rings};
pub use timed::TimedCard;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use txweir_core::path::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::{DropReason, Meta};

use crate::backend::{Backend, Fates, Finished, Source, Store};
use crate::counters::Counters;
use crate::error::{OpenCause, OpenError};
use crate::frames::{Frame, Frames};
use crate::name::IfName;
use crate::nic::Nic;
use crate::queue::PLACES;
use crate::socket::{ListenError, Listening};
use crate::vhost::guest::{Put, RINGS};
use crate::vhost::message::protocol;
use crate::vhost::session::{MTU, Session};
use crate::vhost::stream::Ended;
use crate::vnet::VnetHdr;

/// The events of the descriptor: a connection, a message, and the kick of each ring.
const CONNECTION: u64 = 0;
const MESSAGE: u64 = 1;
const KICKS: u64 = 2;
/// Most events that are looked at before frames have their turn.
const EVENTS: usize = 32;
/// Most lines for the log that wait; further ones are lost.
const NEWS_MAX: usize = 16;

/// The network card of a virtual machine, as a transmit queue.
#[derive(Debug)]
pub struct VhostQueue {
    socket: Listening,
    name: IfName,
    /// Readable when there is something to do.
    poll: OwnedFd,
    session: Option<Session>,
    frames: Frames,
    /// Frames that were pushed and that the guest has not got, in order: each with its bytes on the
    /// wire and the hash of its flow.
    batch: VecDeque<(Frame, u32, u32)>,
    /// Number of frames in the batch that found no room at the last doorbell.
    shown: usize,
    finished: Finished,
    counters: Counters,
    news: VecDeque<String>,
}

impl VhostQueue {
    /// Makes the socket at `path` and waits there for the monitor of a machine. `name`: the name of
    /// the link, for people. `memory`: most bytes of frame buffers.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that says what to do.
    pub fn open(path: &Path, name: &IfName, memory: usize) -> Result<Self, OpenError> {
        Self::attach(path, name, memory)
            .map_err(|cause| OpenError { interface: format!("vhost:{}", path.display()), cause })
    }

    pub(crate) fn attach(path: &Path, name: &IfName, memory: usize) -> Result<Self, OpenCause> {
        let socket = Listening::at(path, None).map_err(|error| match error {
            ListenError::TooLong(len) => OpenCause::SocketTooLong(len),
            ListenError::Taken => OpenCause::SocketTaken,
            ListenError::NotASocket => OpenCause::NotASocket,
            ListenError::System { what, error } => OpenCause::System { what, error },
        })?;
        let wait = |errno| OpenCause::system("wait at", errno);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(wait)?;
        let queue = Self {
            socket,
            name: name.clone(),
            poll,
            session: None,
            frames: Frames::new(memory),
            batch: VecDeque::with_capacity(PLACES),
            shown: 0,
            finished: Finished::default(),
            counters: Counters::default(),
            news: VecDeque::new(),
        };
        queue.await_connection().map_err(wait)?;
        Ok(queue)
    }

    /// Returns the pairs of queues by which frames pass now; 0 without a guest.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.session.as_ref().map_or(0, |session| session.guest.pairs())
    }

    fn await_connection(&self) -> Result<(), Errno> {
        epoll::add(&self.poll, self.socket.socket(), EventData::new_u64(CONNECTION), EventFlags::IN)
    }

    fn say(&mut self, text: String) {
        if self.news.len() < NEWS_MAX {
            self.news.push_back(format!("{}: {text}", self.socket.path().display()));
        }
    }

    /// Takes one connection. Others wait until it has ended.
    fn accept(&mut self) -> Result<(), Errno> {
        let stream = match self.socket.socket().accept() {
            Ok((stream, _)) => stream,
            // The one who was there has gone again, or the system has no room for one more.
            Err(_) => return Ok(()),
        };
        if stream.set_nonblocking(true).is_err() {
            return Ok(());
        }
        epoll::delete(&self.poll, self.socket.socket())?;
        let session = Session::new(stream, protocol::ALL);
        epoll::add(&self.poll, &session, EventData::new_u64(MESSAGE), EventFlags::IN)?;
        self.session = Some(session);
        self.say("a machine is connecting".to_owned());
        Ok(())
    }

    /// Ends the connection, and waits for another one.
    fn disconnect(&mut self, why: &Ended) -> Result<(), Errno> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        session.end(self.poll.as_fd());
        self.lose_batch();
        self.say(match why {
            Ended::Closed => "the machine has gone".to_owned(),
            Ended::System(error) => format!("the machine has gone: {error}"),
            Ended::Wrong(what) => format!("the machine is disconnected: its monitor {what}"),
        });
        self.await_connection()
    }

    /// Notes the rings that have stopped, and the first time that frames can pass.
    fn look(&mut self) {
        while let Some((at, error)) = self.session.as_mut().and_then(|session| session.guest.take_fault()) {
            self.counters.rx_ring_errors += 1;
            self.say(format!("ring {at} of the guest has stopped: {error}"));
        }
        let is_up = self.pairs() > 0;
        if let Some(session) = &mut self.session
            && is_up
            && !std::mem::replace(&mut session.said_up, true)
        {
            self.say("the machine is connected".to_owned());
        }
    }

    /// Loses the frames for a guest that is not there, or takes none. The first segments of one may
    /// be with the guest; the others follow no more.
    fn lose_batch(&mut self) {
        if let Some(session) = &mut self.session {
            session.guest.forget();
        }
        while let Some((frame, wire_len, _)) = self.batch.pop_front() {
            match self.session {
                None => self.counters.tx_lost_down += 1,
                Some(_) => self.counters.tx_lost_buffer += 1,
            }
            self.finished.add(wire_len, false);
            self.frames.give(frame);
        }
        self.shown = 0;
    }

    /// Gives the guest the first frame of the batch. Returns false if it has to wait.
    fn deliver(&mut self) -> bool {
        let Some((frame, wire_len, hash)) = self.batch.pop_front() else { return false };
        let put = self.session.as_mut().map_or(Put::Down, |s| s.guest.put(&frame.as_ref(), hash));
        match put {
            Put::All => self.counters.taken(&frame.beside().hdr, frame.bytes().len()),
            Put::Refused => self.counters.tx_lost_refused += 1,
            Put::Down => self.counters.tx_lost_down += 1,
            Put::Full => {
                self.counters.tx_full += 1;
                self.batch.push_front((frame, wire_len, hash));
                return false;
            }
        }
        self.finished.add(wire_len, put == Put::All);
        self.frames.give(frame);
        true
    }

    /// Tells the guest of all that has passed.
    fn flush(&mut self) {
        if let Some(session) = &mut self.session {
            session.guest.flush();
        }
        self.look();
    }
}

impl TxQueue for VhostQueue {
    type Frame = Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        let free = PLACES.saturating_sub(self.batch.len());
        want.min(u32::try_from(free).unwrap_or(u32::MAX))
    }

    fn push(&mut self, mut frame: Frame, m: &Meta) {
        let beside = *frame.beside();
        beside.mark(frame.bytes_mut(), m);
        self.batch.push_back((frame, m.wire_len, m.hash));
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        // Bound: the batch, of which each round takes a frame, or is the last one.
        while self.deliver() {}
        self.shown = self.batch.len();
        self.flush();
        Ok(())
    }

    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        // The loop of the links comes here at each turn: the guest is told of the frames that were
        // taken from it since.
        self.flush();
        self.finished.reap(sink);
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        self.frames.copy(frame)
    }

    fn corrupt(&mut self, frame: &mut Frame, bit: u32) {
        flip_bit(frame.bytes_mut(), bit);
    }

    fn discard(&mut self, frame: Frame, _: &Meta, _: DropReason) {
        self.frames.give(frame);
    }
}

impl Backend for VhostQueue {
    type Store = Frames;
    fn store(&mut self) -> &mut Frames {
        &mut self.frames
    }
    fn is_full(&self) -> bool {
        self.shown > 0
    }
    /// The guest tells of room by a kick, which makes the descriptor readable.
    fn is_busy(&self) -> bool {
        false
    }
    fn take_fates(&mut self) -> Fates {
        self.finished.take_fates()
    }
    fn abandon(&mut self) {
        self.lose_batch();
    }
}

impl Source for VhostQueue {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        for last in [false, true] {
            let session = self.session.as_mut();
            if let Some(got) = session.and_then(|session| session.guest.pop(room, &mut self.counters)) {
                return Ok(Some(got));
            }
            if !last {
                self.attend()?;
            }
        }
        self.look();
        Ok(None)
    }
}

impl AsFd for VhostQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

impl Nic for VhostQueue {
    fn kind(&self) -> &'static str {
        "vhost"
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    fn counters(&mut self) -> Counters {
        self.counters.rx_seen = self.counters.rx_frames + self.counters.rx_lost();
        self.counters
    }
    fn is_up(&self) -> io::Result<bool> {
        Ok(self.pairs() > 0)
    }
    fn comes_up(&self) -> String {
        "a machine connects".to_owned()
    }
    fn mtu(&self) -> io::Result<usize> {
        Ok(MTU.into())
    }
    fn senders_wait(&self) -> bool {
        true
    }
    fn has_frames(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.guest.has_frames())
    }
    fn take_news(&mut self) -> Option<String> {
        self.news.pop_front()
    }

    fn attend(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events {
            match event.data.u64() {
                CONNECTION => self.accept()?,
                MESSAGE => {
                    let poll = self.poll.as_fd();
                    let served = self.session.as_mut().map_or(Ok(()), |session| session.serve(poll, KICKS));
                    if let Err(ended) = served {
                        self.disconnect(&ended)?;
                    }
                }
                // A number of a ring, from this process.
                kick => {
                    if let Some(session) = &mut self.session {
                        session.kicked(usize::try_from(kick - KICKS).unwrap_or(RINGS), self.poll.as_fd());
                    }
                }
            }
        }
        self.look();
        Ok(())
    }
}
