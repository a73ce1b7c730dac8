//! `Guest`: a handle of the rings of a guest, and the frames that pass through them.

use std::sync::Arc;

use rustix::io::Errno;

use super::feature::Features;
use super::memory::Memory;
use super::ring::{Chain, Layout, Ring, RingError};
use super::rings::{Fault, PAIRS, RINGS, Rings};
use crate::counters::Counters;
use crate::frame::{FrameRef, MAX_FRAME, SKIP_MAX};
use crate::segment::{Segmenter, complete_checksum};
use crate::vnet::{HDR_LEN, VnetHdr};

/// Most chains over which one frame is spread: a super-frame of 64 KiB takes 44 buffers of 1526
/// bytes.
const SPREAD_MAX: usize = 64;
/// Bytes of an Ethernet header.
const ETHERNET: u64 = 14;

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

/// The result of a look at a ring of the guest's frames.
enum Popped {
    Nothing,
    LeftOut,
    Frame(VnetHdr, usize),
}

/// A handle of the rings of a guest, by which frames pass.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) rings: Arc<Rings>,
    /// The number of the handle.
    me: usize,
    /// The pair whose frame comes next.
    turn: usize,
    chains: Vec<Chain>,
    /// The cutting of the frame that is put next, of which the guest may have the first segments.
    rest: Option<Segmenter>,
    /// A segment, or a frame whose checksum is completed.
    scratch: Box<[u8]>,
    faults: Vec<Fault>,
    /// The rings with used chains of which this handle has yet to tell: a bit each.
    news: u32,
}

impl Guest {
    /// Makes the handles of a card, at least one and at most [`PAIRS`].
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(super) fn handles(count: usize) -> Result<Vec<Self>, Errno> {
        let rings = Arc::new(Rings::new(count)?);
        let handle = |me| Self {
            rings: rings.clone(),
            me,
            turn: me,
            chains: (0..SPREAD_MAX).map(|_| Chain::default()).collect(),
            rest: None,
            scratch: vec![0; MAX_FRAME].into(),
            faults: Vec::new(),
            news: 0,
        };
        Ok((0..rings.handles()).map(handle).collect())
    }

    /// Returns the number of this handle.
    pub(super) const fn me(&self) -> usize {
        self.me
    }

    /// Starts a ring at this place.
    ///
    /// # Errors
    /// The reason for which the place is impossible.
    pub(super) fn start(
        &mut self,
        at: usize,
        layout: Layout,
        base: u16,
        memory: &Arc<Memory>,
    ) -> Result<(), String> {
        layout.check(memory)?;
        let ring = Ring::new(layout, memory, base).map_err(|error| error.to_string())?;
        let mut slot = self.rings.slot(at);
        slot.memory = memory.clone();
        (slot.ring, slot.failed_at) = (Some(ring), None);
        (slot.awake, slot.news) = (true, false);
        drop(slot);
        if self.rings.commands() == Some(at) {
            self.rings.use_pairs(1);
        }
        self.wake_owner(at);
        Ok(())
    }

    /// Stops a ring. Returns the index at which it would go on; `None` if it was stopped before.
    pub(super) fn stop(&mut self, at: usize) -> Option<u16> {
        let mut slot = self.rings.slot(at);
        // Another handle may have used chains of it. They are told of under the same lock.
        if let Err(error) = slot.flush() {
            self.faults.push((at, error));
        }
        slot.stop()
    }

    /// Reads the kick of a ring.
    pub(super) fn read_kick(&mut self, at: usize) {
        if at >= RINGS {
            return;
        }
        let mut slot = self.rings.slot(at);
        if let Some(kick) = slot.kick.take() {
            match rustix::io::read(&kick, &mut [0; 8]) {
                Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => slot.kick = Some(kick),
                // It would be ready for ever.
                Ok(_) | Err(_) => self.rings.forget_kick(at, kick),
            }
        }
        drop(slot);
        self.kicked(at);
    }

    /// Notes that the guest has made chains of a ring available.
    pub(super) fn kicked(&mut self, at: usize) {
        let mut slot = self.rings.slot(at);
        slot.awake = true;
        self.rings.wake(std::mem::take(&mut slot.waiting) & !self.bit());
        drop(slot);
        if at % 2 == 1 {
            // The ring is read until it is empty, without further kicks.
            self.with(at, |ring, memory, _| ring.listen(memory, false));
        }
        if self.rings.commands() == Some(at) {
            self.obey(at);
        }
        self.wake_owner(at);
    }

    /// Has the handle of a ring look at it, if that is another one.
    fn wake_owner(&self, at: usize) {
        let owner = self.rings.owner(at);
        if owner != self.me {
            self.rings.wake(1 << owner);
        }
    }

    const fn bit(&self) -> u8 {
        1 << self.me
    }

    /// Iterates over the pairs of this handle that the guest may have.
    fn mine(&self) -> impl Iterator<Item = usize> + use<> {
        (self.me..self.rings.pairs_max()).step_by(self.rings.handles())
    }

    /// True if frames of the guest may be there of which it does not tell.
    pub(super) fn has_frames(&self) -> bool {
        let awake = |at| self.rings.works(at) && self.rings.slot(at).awake;
        self.mine().any(|pair| awake(2 * pair + 1))
    }

    /// Returns the next ring that has stopped by an error, once.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.faults.pop()
    }

    /// Works on a ring. A ring with an error stops, and the answer is `None`, as for a stopped one.
    fn with<T>(
        &mut self,
        at: usize,
        f: impl FnOnce(&mut Ring, &Memory, &mut [Chain]) -> Result<T, RingError>,
    ) -> Option<T> {
        let mut slot = self.rings.slot(at);
        match slot.work(&mut self.chains, f) {
            Ok(done) => done,
            Err(error) => {
                self.faults.push((at, error));
                None
            }
        }
    }

    /// Takes the next frame of the guest, into `room`.
    pub(super) fn pop(&mut self, room: &mut [u8], counters: &mut Counters) -> Option<(VnetHdr, usize)> {
        let (pairs, step) = (self.rings.pairs_max(), self.rings.handles());
        for _ in self.mine() {
            let pair = if self.turn < pairs { self.turn } else { self.me };
            self.turn = pair + step;
            if let Some((hdr, len)) = self.pop_from(2 * pair + 1, room, counters) {
                counters.received(&hdr, len);
                return Some((hdr, len));
            }
        }
        None
    }

    fn pop_from(&mut self, at: usize, room: &mut [u8], counters: &mut Counters) -> Option<(VnetHdr, usize)> {
        let Self { rings, chains, faults, news, .. } = self;
        let features = rings.features();
        if !rings.works(at) {
            return None;
        }
        let mut slot = rings.slot(at);
        for _ in 0..SKIP_MAX {
            if !slot.works() || !slot.awake {
                return None;
            }
            let popped = slot.work(chains, |ring, memory, chains| {
                let popped = next_frame(ring, memory, features, &mut chains[0], room, counters)?;
                // Where there is none, the guest is asked to tell of the next one.
                let awake = !matches!(popped, Popped::Nothing) || ring.listen(memory, true)?;
                Ok((popped, awake))
            });
            match popped {
                Ok(Some((popped, awake))) => {
                    slot.awake = awake;
                    if !matches!(popped, Popped::Nothing) {
                        slot.news = true;
                        *news |= 1 << at;
                    }
                    if let Popped::Frame(hdr, len) = popped {
                        return Some((hdr, len));
                    }
                }
                Ok(None) => return None,
                Err(error) => faults.push((at, error)),
            }
        }
        None
    }

    /// Returns the ring for a frame to the guest, which the hash of its flow chooses: one of this
    /// handle's own, or if none of them works, of all.
    fn ring_for(&self, hash: u32) -> Option<usize> {
        // Of several pairs those are in use of which both rings are enabled: another number of
        // pairs in the frontend would have its commands at the first ring of a pair here. The
        // second ring may start later, with the first frame that the guest sends.
        let (rings, alone) = (&*self.rings, self.rings.pairs_max() == 1);
        let pairs = rings.pairs_in_use();
        let works = |pair: &usize| rings.works(2 * pair) && (alone || rings.is_enabled(2 * pair + 1));
        let (step, hash) = (rings.handles(), hash as usize);
        let own = || (self.me..pairs).step_by(step).filter(works);
        // The same hash may have chosen the handle.
        let own = own().count().checked_sub(1).and_then(|last| own().nth(hash / step % (last + 1)));
        let all = || (0..pairs).filter(works);
        own.or_else(|| all().nth(hash % all().count().max(1))).map(|pair| 2 * pair)
    }

    /// Puts a frame into a ring of the guest, which the hash of its flow chooses.
    pub(super) fn put(&mut self, frame: &FrameRef<'_>, hash: u32) -> Put {
        let features = self.rings.features();
        let Some(at) = self.ring_for(hash) else {
            self.forget();
            return Put::Down;
        };
        if self.rest.is_some() || !features.takes_whole(&frame.hdr) {
            return self.put_segments(at, frame);
        }
        if features.takes_undone() {
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
        let mut put = self.put_by(at, |ring, memory, _| {
            let has = ring.has(memory, 1)?;
            Ok(if has { Put::All } else { Put::Full })
        });
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
        let features = self.rings.features();
        self.put_by(at, |ring, memory, chains| deliver(ring, memory, features, chains, hdr, bytes))
    }

    /// Works on a ring that takes frames. If it is full, this handle learns of room in it.
    fn put_by(
        &mut self,
        at: usize,
        f: impl FnOnce(&mut Ring, &Memory, &mut [Chain]) -> Result<Put, RingError>,
    ) -> Put {
        let bit = self.bit();
        let mut slot = self.rings.slot(at);
        let is_alone = slot.waiting & !bit == 0;
        let done = slot.work(&mut self.chains, |ring, memory, chains| {
            let put = f(ring, memory, chains)?;
            if put == Put::All && is_alone {
                // The guest tells of further room only where it is wanted.
                ring.listen(memory, false)?;
            }
            Ok(put)
        });
        match done {
            Ok(Some(put)) => {
                slot.news |= put == Put::All;
                slot.waiting |= if put == Put::Full { bit } else { 0 };
                self.news |= 1 << at;
                put
            }
            Ok(None) => Put::Down,
            Err(error) => {
                self.faults.push((at, error));
                Put::Down
            }
        }
    }

    /// Tells the guest of all chains that this handle has used.
    pub(super) fn flush(&mut self) {
        // Bound: the rings, of which each round takes one off.
        while self.news != 0 {
            self.flush_one(self.news.trailing_zeros() as usize); // below 32
        }
    }

    fn flush_one(&mut self, at: usize) {
        self.news &= !(1 << at);
        if let Err(error) = self.rings.slot(at).flush() {
            self.faults.push((at, error));
        }
    }

    /// Returns a ring of which the guest is to be told by a message, once.
    pub(super) fn take_due(&mut self) -> Option<usize> {
        (0..RINGS).find(|at| std::mem::take(&mut self.rings.slot(*at).due))
    }

    /// Answers the commands of the guest at their ring (VIRTIO 1.2 section 5.1.6.5).
    fn obey(&mut self, at: usize) {
        let several = self.rings.features().several_pairs();
        for _ in 0..SKIP_MAX {
            let answered =
                self.with(at, |ring, memory, chains| answer(ring, memory, &mut chains[0], several));
            let Some(Some(pairs)) = answered else { return };
            if pairs > 0 {
                self.rings.use_pairs(pairs);
            }
            self.rings.slot(at).news = true;
            self.news |= 1 << at;
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
