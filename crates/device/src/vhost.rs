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
//!
//! The device may have several handles, each for a thread of its own and with a part of the guest's
//! pairs of queues: the first handle has the first pair, the second one the next, in turns. The
//! first handle serves the monitor as well. A guest with fewer pairs than handles sends by some of
//! them alone; frames for it go by all ([`Rings`](rings::Rings)).

mod feature;
mod guest;
mod memory;
mod message;
mod ring;
mod rings;
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
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

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
use crate::vhost::guest::{Guest, Put};
use crate::vhost::message::protocol;
use crate::vhost::rings::{BELL, CONNECTION, KICKS, MESSAGE, RINGS};
use crate::vhost::session::{MTU, Session};
use crate::vhost::stream::Ended;
use crate::vnet::VnetHdr;

/// Most events that are looked at before frames have their turn.
const EVENTS: usize = 32;
/// Most lines for the log that wait; further ones are lost.
const NEWS_MAX: usize = 16;

/// The place to which monitors connect, and the one that is connected.
#[derive(Debug)]
struct Door {
    socket: Listening,
    session: Option<Session>,
}

/// The network card of a virtual machine, as a transmit queue.
#[derive(Debug)]
pub struct VhostQueue {
    /// The place of monitors; `None` for a handle behind the first one.
    door: Option<Door>,
    path: Arc<Path>,
    name: IfName,
    /// The rings of the machine, which are stopped while there is none. Its descriptor is readable
    /// when there is something to do.
    guest: Guest,
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
        Self::attach_all(path, name, memory, 1).map(|mut all| all.remove(0))
    }

    /// Makes up to `most` handles, at least one. All together have the memory.
    pub(crate) fn attach_all(
        path: &Path,
        name: &IfName,
        memory: usize,
        most: usize,
    ) -> Result<Vec<Self>, OpenCause> {
        let socket = Listening::at(path, None).map_err(|error| match error {
            ListenError::TooLong(len) => OpenCause::SocketTooLong(len),
            ListenError::Taken => OpenCause::SocketTaken,
            ListenError::NotASocket => OpenCause::NotASocket,
            ListenError::System { what, error } => OpenCause::System { what, error },
        })?;
        let wait = |errno| OpenCause::system("wait at", errno);
        let guests = Guest::handles(most).map_err(wait)?;
        let memory = memory / guests.len();
        let path: Arc<Path> = path.into();
        let queue = |guest| Self {
            door: None,
            path: path.clone(),
            name: name.clone(),
            guest,
            frames: Frames::new(memory),
            batch: VecDeque::with_capacity(PLACES),
            shown: 0,
            finished: Finished::default(),
            counters: Counters::default(),
            news: VecDeque::new(),
        };
        let mut queues: Vec<Self> = guests.into_iter().map(queue).collect();
        let door = Door { socket, session: None };
        await_connection(queues[0].as_fd(), &door).map_err(wait)?;
        queues[0].door = Some(door);
        Ok(queues)
    }

    /// Returns the pairs of queues by which frames pass now, of all handles; 0 without a guest.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.guest.rings.pairs()
    }

    fn say(&mut self, text: String) {
        if self.news.len() < NEWS_MAX {
            self.news.push_back(format!("{}: {text}", self.path.display()));
        }
    }

    /// Takes one connection. Others wait until it has ended.
    fn accept(&mut self) -> Result<(), Errno> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let stream = match door.socket.socket().accept() {
            Ok((stream, _)) => stream,
            // The one who was there has gone again, or the system has no room for one more.
            Err(_) => return Ok(()),
        };
        if stream.set_nonblocking(true).is_err() {
            return Ok(());
        }
        let poll = self.guest.rings.poll(self.guest.me());
        epoll::delete(poll, door.socket.socket())?;
        let session = Session::new(stream, protocol::ALL);
        epoll::add(poll, &session, EventData::new_u64(MESSAGE), EventFlags::IN)?;
        door.session = Some(session);
        self.say("a machine is connecting".to_owned());
        Ok(())
    }

    /// Ends the connection, and waits for another one.
    fn disconnect(&mut self, why: &Ended) -> Result<(), Errno> {
        let Some(session) = self.door.as_mut().and_then(|door| door.session.take()) else { return Ok(()) };
        let _ = epoll::delete(self.as_fd(), &session);
        self.guest.rings.clear();
        self.lose_batch(true);
        self.say(match why {
            Ended::Closed => "the machine has gone".to_owned(),
            Ended::System(error) => format!("the machine has gone: {error}"),
            Ended::Wrong(what) => format!("the machine is disconnected: its monitor {what}"),
        });
        self.door.as_ref().map_or(Ok(()), |door| await_connection(self.as_fd(), door))
    }

    /// Notes the rings that have stopped, and the first time that frames can pass.
    fn look(&mut self) {
        while let Some((at, error)) = self.guest.take_fault() {
            self.counters.rx_ring_errors += 1;
            self.say(format!("ring {at} of the guest has stopped: {error}"));
        }
        let is_up = self.pairs() > 0;
        if let Some(session) = self.door.as_mut().and_then(|door| door.session.as_mut())
            && is_up
            && !std::mem::replace(&mut session.said_up, true)
        {
            self.say("the machine is connected".to_owned());
        }
    }

    /// Loses the frames for a guest that is not there, or takes none. The first segments of one may
    /// be with the guest; the others follow no more.
    fn lose_batch(&mut self, is_gone: bool) {
        self.guest.forget();
        while let Some((frame, wire_len, _)) = self.batch.pop_front() {
            match is_gone {
                true => self.counters.tx_lost_down += 1,
                false => self.counters.tx_lost_buffer += 1,
            }
            self.finished.add(wire_len, false);
            self.frames.give(frame);
        }
        self.shown = 0;
    }

    /// Gives the guest the first frame of the batch. Returns false if it has to wait.
    fn deliver(&mut self) -> bool {
        let Some((frame, wire_len, hash)) = self.batch.pop_front() else { return false };
        let put = self.guest.put(&frame.as_ref(), hash);
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
        self.guest.flush();
        self.look();
    }
}

/// Has a handle wait for the next connection.
fn await_connection(poll: BorrowedFd<'_>, door: &Door) -> Result<(), Errno> {
    epoll::add(poll, door.socket.socket(), EventData::new_u64(CONNECTION), EventFlags::IN)
}

impl Drop for VhostQueue {
    /// The guest loses its card with the first handle: the others leave its memory alone.
    fn drop(&mut self) {
        if self.door.is_some() {
            self.guest.rings.clear();
        }
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
        self.lose_batch(self.pairs() == 0);
    }
}

impl Source for VhostQueue {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        for last in [false, true] {
            if let Some(got) = self.guest.pop(room, &mut self.counters) {
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
        self.guest.rings.poll(self.guest.me())
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
        self.guest.has_frames()
    }
    /// A guest may have one pair of queues.
    fn first_may_have_all(&self) -> bool {
        true
    }
    fn take_news(&mut self) -> Option<String> {
        self.news.pop_front()
    }

    fn attend(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(self.as_fd(), rustix::buffer::spare_capacity(&mut events), Some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events {
            match event.data.u64() {
                CONNECTION => self.accept()?,
                MESSAGE => {
                    let session = self.door.as_mut().and_then(|door| door.session.as_mut());
                    let served = session.map_or(Ok(()), |session| session.serve(&mut self.guest));
                    if let Err(ended) = served {
                        self.disconnect(&ended)?;
                    }
                }
                // Frames may pass again, or no more, which the caller finds in the same turn.
                BELL => self.guest.rings.silence(self.guest.me()),
                // A number of a ring, from this process.
                kick => self.guest.read_kick(usize::try_from(kick - KICKS).unwrap_or(RINGS)),
            }
        }
        self.look();
        Ok(())
    }
}
