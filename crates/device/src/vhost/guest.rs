//! The rings of a guest, and the frames that pass through them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::feature::Features;
use super::memory::Memory;
use super::ring::{Chain, Layout, Ring, RingError};
use crate::counters::Counters;
use crate::frame::{FrameRef, MAX_FRAME, SKIP_MAX};
use crate::segment::{Segmenter, complete_checksum};
use crate::vnet::{HDR_LEN, VnetHdr};

/// Most pairs of queues of a guest.
pub(super) const PAIRS: usize = 8;
/// Rings of a guest: two for each pair, and one for commands behind them.
pub(super) const RINGS: usize = 2 * PAIRS + 1;
/// Most chains over which one frame is spread: a super-frame of 64 KiB takes 44 buffers of 1526
/// bytes.
const SPREAD_MAX: usize = 64;
/// Bytes of an Ethernet header.
const ETHERNET: u64 = 14;

/// One ring, as far as the frontend has set it up.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The ring; `None` while it is stopped.
    pub(super) ring: Option<Ring>,
    /// The index at which a ring has stopped by an error.
    failed_at: Option<u16>,
    /// True if the frontend lets frames pass.
    pub(super) enabled: bool,
    /// True if the ring may have more than the guest tells of.
    awake: bool,
    /// True if chains were used of which the guest does not know.
    news: bool,
    /// It is readable when the guest has made chains available.
    pub(super) kick: Option<OwnedFd>,
    /// Tells the guest of used chains.
    pub(super) call: Option<OwnedFd>,
    /// True if the guest is to be told by a message, as it has no descriptor for that.
    due: bool,
    /// Tells the frontend of an error of the ring.
    pub(super) err: Option<OwnedFd>,
}

impl Slot {
    fn works(&self) -> bool {
        self.enabled && self.ring.is_some()
    }
}

/// The fate of a frame for the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The guest has all of it.
    All,
    /// The guest has made no room for it yet, or for the segments behind those that it has. The
    /// next frame to be put has to be this one, unless it is [forgotten](Guest::forget).
    Full,
    /// The guest will never have room for it.
    Refused,
    /// The guest has no ring that works.
    Down,
}

/// A ring that has stopped by an error, until somebody asks.
pub(super) type Fault = (usize, RingError);

/// The result of a look at a ring of the guest's frames.
enum Popped {
    Nothing,
    LeftOut,
    Frame(VnetHdr, usize),
}

/// The guest behind a connection.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) features: Features,
    pub(super) memory: Memory,
    pub(super) slots: [Slot; RINGS],
    /// The pair whose frame comes next.
    turn: usize,
    /// The pairs in use, where the guest says it by a command.
    used_pairs: usize,
    chains: Vec<Chain>,
    /// The cutting of the frame that is put next, of which the guest may have the first segments.
    rest: Option<Segmenter>,
    /// A segment, or a frame whose checksum is completed.
    scratch: Box<[u8]>,
    faults: Vec<Fault>,
}

impl Guest {
    pub(super) fn new() -> Self {
        Self {
            features: Features::default(),
            memory: Memory::default(),
            slots: std::array::from_fn(|_| Slot::default()),
            turn: 0,
            used_pairs: 1,
            chains: (0..SPREAD_MAX).map(|_| Chain::default()).collect(),
            rest: None,
            scratch: vec![0; MAX_FRAME].into(),
            faults: Vec::new(),
        }
    }

    /// Starts a ring at this place.
    ///
    /// # Errors
    /// The reason for which the place is impossible.
    pub(super) fn start(&mut self, at: usize, layout: Layout, base: u16) -> Result<(), String> {
        layout.check(&self.memory)?;
        let ring = Ring::new(layout, &self.memory, base).map_err(|error| error.to_string())?;
        let slot = &mut self.slots[at];
        (slot.ring, slot.failed_at) = (Some(ring), None);
        (slot.awake, slot.news) = (true, false);
        if self.commands() == Some(at) {
            self.used_pairs = 1;
        }
        Ok(())
    }

    /// Stops a ring. Returns the index at which it would go on; `None` if it was stopped before.
    pub(super) fn stop(&mut self, at: usize) -> Option<u16> {
        self.flush_one(at);
        let slot = &mut self.slots[at];
        slot.ring.take().map(|ring| ring.base()).or_else(|| slot.failed_at.take())
    }

    /// Notes that the guest has made chains of a ring available.
    pub(super) fn kicked(&mut self, at: usize) {
        self.slots[at].awake = true;
        if at % 2 == 1 {
            // The ring is read until it is empty, without further kicks.
            self.with(at, |ring, memory, _| ring.listen(memory, false));
        }
        if self.commands() == Some(at) {
            self.obey(at);
        }
    }

    /// Returns the most pairs that the guest may have: one, unless its driver has accepted several.
    const fn pairs_max(&self) -> usize {
        if self.features.several_pairs() { PAIRS } else { 1 }
    }

    /// Returns the ring of commands, which is behind those of the pairs that the guest may have
    /// (VIRTIO 1.2 section 5.1.2); `None` if its driver has accepted none.
    fn commands(&self) -> Option<usize> {
        self.features.commands().then_some(2 * self.pairs_max())
    }

    /// True if frames of the guest may be there of which it does not tell.
    pub(super) fn has_frames(&self) -> bool {
        let mut sending = self.slots.iter().skip(1).step_by(2).take(self.pairs_max());
        sending.any(|slot| slot.works() && slot.awake)
    }

    /// Returns the pairs of which both rings work.
    pub(super) fn pairs(&self) -> usize {
        let pairs = self.slots.chunks_exact(2).take(self.pairs_max());
        pairs.filter(|pair| pair.iter().all(Slot::works)).count()
    }

    /// Returns the next ring that has stopped by an error, once.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.faults.pop()
    }

    /// Works on a ring. A ring with an error stops, and the answer is `None`, as for a stopped one.
    fn with<T>(
        &mut self,
        at: usize,
        f: impl FnOnce(&mut Ring, &Memory, &mut Vec<Chain>) -> Result<T, RingError>,
    ) -> Option<T> {
        let slot = &mut self.slots[at];
        match f(slot.ring.as_mut()?, &self.memory, &mut self.chains) {
            Ok(done) => Some(done),
            Err(error) => {
                slot.failed_at = slot.ring.take().map(|ring| ring.base());
                if let Some(err) = &slot.err {
                    signal(err);
                }
                self.faults.push((at, error));
                None
            }
        }
    }

    /// Takes the next frame of the guest, into `room`.
    pub(super) fn pop(&mut self, room: &mut [u8], counters: &mut Counters) -> Option<(VnetHdr, usize)> {
        let pairs = self.pairs_max();
        for _ in 0..pairs {
            let at = 2 * (self.turn % pairs) + 1;
            self.turn = (self.turn + 1) % pairs;
            if let Some((hdr, len)) = self.pop_from(at, room, counters) {
                counters.received(&hdr, len);
                return Some((hdr, len));
            }
        }
        None
    }

    fn pop_from(&mut self, at: usize, room: &mut [u8], counters: &mut Counters) -> Option<(VnetHdr, usize)> {
        let features = self.features;
        for _ in 0..SKIP_MAX {
            if !self.slots[at].works() || !self.slots[at].awake {
                return None;
            }
            let popped = self.with(at, |ring, memory, chains| {
                next_frame(ring, memory, features, &mut chains[0], room, counters)
            });
            match popped? {
                Popped::Frame(hdr, len) => {
                    self.slots[at].news = true;
                    return Some((hdr, len));
                }
                Popped::LeftOut => self.slots[at].news = true,
                Popped::Nothing => {
                    let more = self.with(at, |ring, memory, _| ring.listen(memory, true))?;
                    self.slots[at].awake = more;
                }
            }
        }
        None
    }

    /// Puts a frame into a ring of the guest, which the hash of its flow chooses.
    pub(super) fn put(&mut self, frame: &FrameRef<'_>, hash: u32) -> Put {
        // A frontend that has the queue of commands itself enables the rings in use instead. Of
        // several pairs those are in use of which both rings are enabled: another number of pairs
        // in the frontend would have its commands at the first ring of a pair here. The second ring
        // may start later, with the first frame that the guest sends.
        let most = self.pairs_max();
        let says = self.commands().is_some_and(|at| self.slots[at].works());
        let pairs = if says { self.used_pairs.min(most) } else { most };
        let works = |at: &usize| self.slots[*at].works() && (most == 1 || self.slots[*at + 1].enabled);
        let rings = || (0..2 * pairs).step_by(2).filter(works);
        let count = rings().count().max(1);
        let Some(at) = rings().nth(hash as usize % count) else {
            self.forget();
            return Put::Down;
        };
        if self.rest.is_some() || !self.features.takes_whole(&frame.hdr) {
            return self.put_segments(at, frame);
        }
        if self.features.takes_undone() {
            return self.put_one(at, &frame.hdr, frame.bytes);
        }
        if !frame.hdr.needs_csum {
            return self.put_one(at, &VnetHdr::default(), frame.bytes);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let complete = scratch.get_mut(..frame.bytes.len()).and_then(|bytes| {
            bytes.copy_from_slice(frame.bytes);
            complete_checksum(&mut frame.hdr.clone(), bytes).ok()
        });
        let put = match complete {
            Some(()) => self.put_one(at, &VnetHdr::default(), &scratch[..frame.bytes.len()]),
            None => Put::Refused,
        };
        self.scratch = scratch;
        put
    }

    /// Forgets the frame that found no room: it is lost, and will not be put again.
    pub(super) fn forget(&mut self) {
        self.rest = None;
    }

    /// Puts a super-frame into a ring, cut into segments, as far as the guest has made room. The
    /// next call goes on behind them, perhaps in another ring.
    fn put_segments(&mut self, at: usize, frame: &FrameRef<'_>) -> Put {
        let begun = self.rest.take().map_or_else(|| Segmenter::new(&frame.hdr, frame.bytes), Ok);
        let Ok(mut cut) = begun else { return Put::Refused };
        // A ring without room costs no cutting.
        let room = self.with(at, |ring, memory, _| ring.has(memory, 1));
        let mut put = match room {
            None => Put::Down,
            Some(true) => Put::All,
            Some(false) => Put::Full,
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        // Bound: the segments of one frame, at most SEGMENTS_MAX.
        while put == Put::All && !cut.is_done() {
            let before = cut.clone();
            put = match cut.next_into(frame.bytes, &mut scratch) {
                Ok(Some(len)) => self.put_one(at, &VnetHdr::default(), &scratch[..len]),
                Ok(None) | Err(_) => Put::Refused,
            };
            if put == Put::Full {
                cut = before;
            }
        }
        self.scratch = scratch;
        // Of a frame that is lost the guest may have the first segments. A sender repeats the
        // others.
        self.rest = (put == Put::Full).then_some(cut);
        put
    }

    /// Puts a frame into a ring as it is.
    fn put_one(&mut self, at: usize, hdr: &VnetHdr, bytes: &[u8]) -> Put {
        let features = self.features;
        let put = self.with(at, |ring, memory, chains| deliver(ring, memory, features, chains, hdr, bytes));
        match put {
            None => Put::Down,
            Some(put) => {
                self.slots[at].news |= put == Put::All;
                put
            }
        }
    }

    /// Tells the guest of all chains that were used.
    pub(super) fn flush(&mut self) {
        for at in 0..RINGS {
            self.flush_one(at);
        }
    }

    fn flush_one(&mut self, at: usize) {
        if std::mem::take(&mut self.slots[at].news)
            && self.with(at, |ring, memory, _| ring.tells(memory)) == Some(true)
        {
            let slot = &mut self.slots[at];
            match &slot.call {
                Some(call) => signal(call),
                None => slot.due = true,
            }
        }
    }

    /// Returns a ring of which the guest is to be told by a message, once.
    pub(super) fn take_due(&mut self) -> Option<usize> {
        self.slots.iter_mut().position(|slot| std::mem::take(&mut slot.due))
    }

    /// Answers the commands of the guest at their ring (VIRTIO 1.2 section 5.1.6.5).
    fn obey(&mut self, at: usize) {
        let several = self.features.several_pairs();
        for _ in 0..SKIP_MAX {
            let answered =
                self.with(at, |ring, memory, chains| answer(ring, memory, &mut chains[0], several));
            let Some(Some(pairs)) = answered else { return };
            self.used_pairs = if pairs > 0 { pairs } else { self.used_pairs };
            self.slots[at].news = true;
        }
    }
}

/// Takes the next frame off a ring.
fn next_frame(
    ring: &mut Ring,
    memory: &Memory,
    features: Features,
    chain: &mut Chain,
    room: &mut [u8],
    counters: &mut Counters,
) -> Result<Popped, RingError> {
    if ring.available(memory)? == 0 {
        return Ok(Popped::Nothing);
    }
    ring.chain(memory, 0, chain)?;
    chain.is_all(false)?;
    let header = features.header();
    let len = chain.len().checked_sub(header as u64).filter(|len| *len >= ETHERNET);
    let popped = match len.map(|len| usize::try_from(len).unwrap_or(usize::MAX)) {
        None => {
            counters.rx_refused += 1;
            Popped::LeftOut
        }
        Some(len) if len >= room.len() => {
            counters.rx_oversize += 1;
            Popped::LeftOut
        }
        Some(len) => {
            let mut raw = [0; HDR_LEN];
            chain.read(memory, 0, &mut raw[..header])?;
            chain.read(memory, header as u64, &mut room[..len])?;
            match features.accept(VnetHdr::decode_guest(raw), len) {
                Some(hdr) => Popped::Frame(hdr, len),
                None => {
                    counters.rx_refused += 1;
                    Popped::LeftOut
                }
            }
        }
    };
    ring.put_used(memory, 0, chain.head, 0)?;
    ring.publish(memory, 1)?;
    Ok(popped)
}

/// Writes a frame into the next chains of a ring, and publishes them at once.
fn deliver(
    ring: &mut Ring,
    memory: &Memory,
    features: Features,
    chains: &mut [Chain],
    hdr: &VnetHdr,
    bytes: &[u8],
) -> Result<Put, RingError> {
    let header = features.header();
    let (want, mut room, mut count) = ((header + bytes.len()) as u64, 0, 0u16);
    while room < want {
        let most = if features.mergeable() { chains.len() } else { 1 };
        if usize::from(count) >= most {
            return Ok(Put::Refused);
        }
        if !ring.has(memory, count + 1)? {
            return Ok(Put::Full);
        }
        let chain = &mut chains[usize::from(count)];
        ring.chain(memory, count, chain)?;
        chain.is_all(true)?;
        room += chain.len();
        count += 1;
    }
    let raw = hdr.encode_guest(count);
    let mut sent = 0;
    for (ahead, chain) in (0..count).zip(&*chains) {
        let mut written = 0;
        if sent < header {
            written += chain.write(memory, 0, &raw[sent..header])?;
            sent += written;
        }
        if sent >= header {
            let more = chain.write(memory, written as u64, &bytes[sent - header..])?;
            (sent, written) = (sent + more, written + more);
        }
        ring.put_used(memory, ahead, chain.head, written as u32)?; // below 2^17
    }
    ring.publish(memory, count)?;
    // The guest tells of further room only where it is wanted.
    ring.listen(memory, false)?;
    Ok(Put::All)
}

/// `VIRTIO_NET_CTRL_MQ` and `VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET`.
const SET_PAIRS: [u8; 2] = [4, 0];

/// Answers one command. Returns the pairs of queues that it sets, or 0 if it is another one; `None`
/// if there is no command. `several`: there may be several pairs.
fn answer(
    ring: &mut Ring,
    memory: &Memory,
    chain: &mut Chain,
    several: bool,
) -> Result<Option<usize>, RingError> {
    if ring.available(memory)? == 0 && !ring.listen(memory, true)? {
        return Ok(None);
    }
    ring.chain(memory, 0, chain)?;
    let mut raw = [0; 4];
    let len = chain.read(memory, 0, &mut raw)?;
    let [class, command, low, high] = raw;
    let pairs = usize::from(u16::from_le_bytes([low, high]));
    let known = several && len == 4 && [class, command] == SET_PAIRS;
    let obeyed = known && (1..=PAIRS).contains(&pairs);
    let written = chain.write(memory, 0, &[u8::from(!obeyed)])?;
    ring.put_used(memory, 0, chain.head, written as u32)?; // 0 or 1
    ring.publish(memory, 1)?;
    Ok(Some(if obeyed { pairs } else { 0 }))
}

/// Adds one to an event descriptor. A full one tells as well.
pub(super) fn signal(fd: &impl AsFd) {
    let _: Result<usize, Errno> = rustix::io::write(fd, &1u64.to_ne_bytes());
}
