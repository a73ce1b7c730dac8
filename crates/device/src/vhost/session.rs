//! `Session`: a frontend that is connected. It reads the requests of the protocol and sets up the
//! guest's memory and rings by them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::feature::{ALL, Features};
use super::guest::Guest;
use super::memory::Memory;
use super::message::{CONFIG_MAX, Places, Refused, Request, name, protocol, read};
use super::ring::{Layout, RING_MAX};
use super::rings::{PAIRS, RINGS};
use super::stream::{Ended, Message, Stream};

/// Most messages that are served before frames have their turn.
const MESSAGES: usize = 32;
/// MTU of Ethernet (RFC 894).
pub(super) const MTU: u16 = 1500;

/// The parameters of a ring, which last while it is stopped.
#[derive(Clone, Copy, Debug, Default)]
struct Setup {
    size: u32,
    places: Option<Places>,
    base: u16,
    /// True from the message with the kick on, until the index is asked for.
    started: bool,
}

/// A frontend that is connected.
#[derive(Debug)]
pub(super) struct Session {
    stream: Stream,
    memory: Arc<Memory>,
    setups: [Setup; RINGS],
    /// The features of the protocol that this device offers, and those that both have.
    offered: u64,
    protocol: u64,
    /// The socket for messages of this device to the frontend.
    pub(super) backend: Option<OwnedFd>,
    /// True once frames could pass, for the log.
    pub(super) said_up: bool,
}

/// The reply to a request, if it has one.
type Answer = Result<Option<Vec<u8>>, Refused>;

impl Session {
    /// Takes over a connection, which has to be non-blocking. `offered`: the features of the
    /// protocol.
    pub(super) fn new(socket: UnixStream, offered: u64) -> Self {
        Self {
            stream: Stream::new(socket),
            memory: Arc::default(),
            setups: [Setup::default(); RINGS],
            offered,
            protocol: 0,
            backend: None,
            said_up: false,
        }
    }

    /// Serves the messages that are there, by the first handle of the guest.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn serve(&mut self, guest: &mut Guest) -> Result<(), Ended> {
        for _ in 0..MESSAGES {
            let Some(message) = self.stream.next()? else { return Ok(()) };
            let Message { header, body, fds } = message;
            let answer = read(header.number, &body).and_then(|request| self.handle(guest, &request, fds));
            // The message that agrees on acknowledgements is acknowledged itself, as User-Mode
            // Linux expects.
            let acknowledges = header.needs_reply && self.protocol & protocol::REPLY_ACK != 0;
            match answer {
                Ok(Some(body)) => self.stream.reply(header.number, &body)?,
                Ok(None) if acknowledges => self.stream.reply(header.number, &0u64.to_ne_bytes())?,
                Ok(None) => {}
                // The frontend cannot know otherwise that the request has failed.
                Err(Refused(why)) => {
                    if acknowledges {
                        self.stream.reply(header.number, &1u64.to_ne_bytes())?;
                    }
                    return Err(Ended::Wrong(format!("sent message {}: {why}", name(header.number))));
                }
            }
        }
        Ok(())
    }

    /// Obeys a request, and returns the reply if it has one.
    fn handle(&mut self, guest: &mut Guest, request: &Request, fds: Vec<OwnedFd>) -> Answer {
        let word = |word: u64| Ok(Some(word.to_ne_bytes().to_vec()));
        match request {
            Request::GetFeatures => return word(ALL),
            Request::GetProtocolFeatures => return word(self.offered),
            Request::GetQueueNum => return word(2 * PAIRS as u64),
            Request::GetVringBase(ring) => {
                let at = index(*ring)?;
                let base = self.stop(guest, at);
                let [low, high] = [*ring, base.into()].map(u32::to_ne_bytes);
                return Ok(Some([low, high].concat()));
            }
            Request::GetConfig(offset, size) => return config(*offset, *size),
            Request::SetFeatures(bits) => {
                let unknown = bits & !ALL;
                if unknown != 0 {
                    return Err(Refused::given(&format!("bits of {ALL:#x}"), format!("{bits:#x}")));
                }
                guest.rings.accept(Features(*bits));
            }
            Request::SetProtocolFeatures(bits) => self.protocol = bits & self.offered,
            Request::SetBackendReqFd => self.backend = descriptor(fds, true)?,
            Request::SetOwner | Request::SetConfig => {}
            Request::ResetOwner | Request::ResetDevice => self.reset(guest),
            Request::SetMemTable(regions) => {
                let memory = Memory::map(regions.clone(), fds)?;
                // The rings may lie elsewhere now.
                for at in 0..RINGS {
                    self.setups[at].base = guest.stop(at).unwrap_or(self.setups[at].base);
                }
                self.memory = Arc::new(memory);
                (0..RINGS).try_for_each(|at| self.restart(guest, at))?;
            }
            ring => self.set_ring(guest, ring, fds)?,
        }
        Ok(None)
    }

    /// Obeys a request about one ring that has no reply. Others are none of its business.
    fn set_ring(&mut self, guest: &mut Guest, request: &Request, fds: Vec<OwnedFd>) -> Result<(), Refused> {
        match request {
            Request::SetVringNum(ring, size) => {
                let at = index(*ring)?;
                if !size.is_power_of_two() || *size > RING_MAX {
                    return Err(Refused::given(&format!("a power of two up to {RING_MAX}"), size));
                }
                self.setups[at].size = *size;
            }
            Request::SetVringAddr(ring, places) => {
                let at = index(*ring)?;
                self.setups[at].places = Some(*places);
                self.restart(guest, at)?;
            }
            Request::SetVringBase(ring, base) => {
                let at = index(*ring)?;
                let base = u16::try_from(*base).map_err(|_| Refused::given("an index of 16 bits", base))?;
                self.setups[at].base = base;
            }
            Request::SetVringKick(ring, has_fd) => {
                let at = index(*ring)?;
                self.stop(guest, at);
                let kick = descriptor(fds, *has_fd)?;
                match &kick {
                    Some(kick) => guest
                        .rings
                        .await_kick(at, kick)
                        .map_err(|errno| Refused(format!("cannot wait for the descriptor: {errno}")))?,
                    None if self.protocol & protocol::IN_BAND != 0 => {}
                    None => return Err(Refused::given("a descriptor", "none: this device does not poll")),
                }
                let mut slot = guest.rings.slot(at);
                slot.kick = kick;
                slot.enabled |= !guest.rings.features().enables();
                drop(slot);
                self.setups[at].started = true;
                self.restart(guest, at)?;
            }
            Request::SetVringCall(ring, has_fd) => {
                let (at, call) = (index(*ring)?, descriptor(fds, *has_fd)?);
                guest.rings.slot(at).call = call;
            }
            Request::SetVringErr(ring, has_fd) => {
                let (at, err) = (index(*ring)?, descriptor(fds, *has_fd)?);
                guest.rings.slot(at).err = err;
            }
            Request::SetVringEnable(ring, on) => {
                let at = index(*ring)?;
                guest.rings.slot(at).enabled = *on;
                // Chains may have been made available before.
                guest.kicked(at);
            }
            Request::Kick(ring) => {
                let at = index(*ring)?;
                if self.protocol & protocol::IN_BAND == 0 {
                    return Err(Refused("notifications are no messages here".to_owned()));
                }
                // The first notification starts a ring that has no descriptor for it.
                if !std::mem::replace(&mut self.setups[at].started, true) {
                    self.restart(guest, at)?;
                }
                guest.kicked(at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts a ring at its present place, if it is to run.
    fn restart(&mut self, guest: &mut Guest, at: usize) -> Result<(), Refused> {
        let setup = self.setups[at];
        if !setup.started {
            return Ok(());
        }
        let Some(places) = setup.places else {
            return Err(Refused(format!("ring {at} has no SET_VRING_ADDR yet")));
        };
        let base = guest.stop(at).unwrap_or(setup.base);
        let size = u16::try_from(setup.size).unwrap_or(0);
        let lengths = Layout::lengths(size);
        let place = |at: u64, len: u64| {
            self.memory.guest_address(at, len).ok_or_else(|| {
                Refused::given(&format!("{len} bytes in the memory of SET_MEM_TABLE"), format!("{at:#x}"))
            })
        };
        let features = guest.rings.features();
        let layout = Layout {
            table: place(places.table, lengths[0])?,
            avail: place(places.avail, lengths[1])?,
            used: place(places.used, lengths[2])?,
            size,
            event_idx: features.event_idx(),
            indirect: features.indirect(),
        };
        self.setups[at].base = base;
        guest.start(at, layout, base, &self.memory).map_err(|why| Refused(format!("ring {at}: {why}")))
    }

    /// Stops a ring. Returns the index at which it would go on.
    fn stop(&mut self, guest: &mut Guest, at: usize) -> u16 {
        let setup = &mut self.setups[at];
        setup.base = guest.stop(at).unwrap_or(setup.base);
        setup.started = false;
        if let Some(kick) = guest.rings.slot(at).kick.take() {
            guest.rings.forget_kick(at, kick);
        }
        setup.base
    }

    /// Stops all rings, and forgets what the driver has accepted.
    fn reset(&mut self, guest: &mut Guest) {
        for at in 0..RINGS {
            self.stop(guest, at);
            guest.rings.slot(at).enabled = false;
            self.setups[at] = Setup::default();
        }
        guest.rings.accept(Features::default());
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns the index of a ring that this device has.
fn index(ring: u32) -> Result<usize, Refused> {
    let at = usize::try_from(ring).ok().filter(|at| *at < RINGS);
    at.ok_or_else(|| Refused::given(&format!("a ring below {RINGS}"), ring))
}

/// Returns the descriptor of a message, which never waits from now on.
fn descriptor(fds: Vec<OwnedFd>, wanted: bool) -> Result<Option<OwnedFd>, Refused> {
    let count = fds.len();
    let mut fds = fds.into_iter();
    match (wanted, fds.next()) {
        (false, _) => Ok(None),
        (true, Some(fd)) if count == 1 => {
            let ready = fcntl_getfl(&fd).and_then(|flags| fcntl_setfl(&fd, flags | OFlags::NONBLOCK));
            ready.map_err(|errno| Refused(format!("cannot use the descriptor: {errno}")))?;
            Ok(Some(fd))
        }
        (true, _) => Err(Refused::given("one descriptor", count)),
    }
}

/// Returns a range of the configuration space (VIRTIO 1.2 section 5.1.4), behind the offset, the
/// bytes and the flags. Beyond its fields the space is zero.
fn config(offset: u32, size: u32) -> Answer {
    let end = offset.checked_add(size).filter(|end| *end <= CONFIG_MAX);
    let Some(end) = end else {
        return Err(Refused::given(&format!("a range below {CONFIG_MAX}"), format!("{offset}+{size}")));
    };
    let mut space = [0; CONFIG_MAX as usize];
    space[8..10].copy_from_slice(&(PAIRS as u16).to_le_bytes());
    space[10..12].copy_from_slice(&MTU.to_le_bytes());
    let mut body: Vec<u8> = [offset, size, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    body.extend(&space[offset as usize..end as usize]);
    Ok(Some(body))
}
