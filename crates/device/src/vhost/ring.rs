//! A split virtqueue (VIRTIO 1.2 section 2.7), seen by the device: a table of descriptors, a ring
//! in which the guest makes chains of them available, and a ring in which the device gives them
//! back.
//!
//! The guest is not trusted: it may write anything anywhere, at any time. Each word is read once
//! and checked before it is used, and each chain is bounded. A wrong word stops the ring
//! ([`RingError`]) until the guest sets it up anew.

use std::fmt;
use std::sync::atomic::{Ordering, fence};

use super::memory::{Memory, Outside};

/// Most descriptors of a ring (VIRTIO 1.2 section 2.7).
pub const RING_MAX: u32 = 32_768;
/// Most descriptors of one chain. Linux makes chains of at most 19 for a frame.
pub const CHAIN_MAX: usize = 256;

/// Bytes of a descriptor: address, length, flags, next.
const DESCRIPTOR: u64 = 16;
/// `VIRTQ_DESC_F_NEXT`: the chain goes on.
const F_NEXT: u16 = 1;
/// `VIRTQ_DESC_F_WRITE`: the device writes the buffer; it reads it otherwise.
const F_WRITE: u16 = 2;
/// `VIRTQ_DESC_F_INDIRECT`: the buffer is a table of descriptors.
const F_INDIRECT: u16 = 4;
/// `VIRTQ_AVAIL_F_NO_INTERRUPT`: the guest does not want to be told of used buffers.
const AVAIL_NO_INTERRUPT: u16 = 1;
/// `VIRTQ_USED_F_NO_NOTIFY`: the device does not want to be told of available buffers.
const USED_NO_NOTIFY: u16 = 1;

/// The reason for which a ring has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The index of available chains is further ahead than the ring is long; the distance is given.
    Index(u16),
    /// A chain begins at, or leads to, a descriptor that the table does not have.
    Descriptor(u16),
    /// A chain is longer than the ring, or than [`CHAIN_MAX`]: it may be a loop.
    Chain,
    /// An indirect table that is empty, too long, not a multiple of a descriptor, inside of another
    /// one, or followed by a descriptor; or the driver has not asked for such tables.
    Indirect,
    /// A buffer that the device has to write where it reads, or the other way round.
    Direction,
    /// An address that does not lie in the guest's memory.
    Address(u64),
}

impl From<Outside> for RingError {
    fn from(Outside(at): Outside) -> Self {
        Self::Address(at)
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(ahead) => write!(f, "its index is {ahead} chains ahead, more than the ring has"),
            Self::Descriptor(at) => write!(f, "descriptor {at} is not in its table"),
            Self::Chain => write!(f, "a chain of descriptors is too long"),
            Self::Indirect => write!(f, "an indirect table is not as it has to be"),
            Self::Direction => write!(f, "a buffer is to be written where it is read, or read where written"),
            Self::Address(at) => write!(f, "address {at:#x} is not in the guest's memory"),
        }
    }
}

/// A buffer of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its address in the guest's memory.
    pub at: u64,
    /// Its bytes.
    pub len: u32,
}

/// The buffers of a chain: those that the device reads, and behind them those that it writes.
#[derive(Debug, Default)]
pub struct Chain {
    /// The first descriptor, by which the chain is given back.
    pub head: u16,
    /// Its buffers, in order.
    parts: Vec<Part>,
    /// The number of those that the device reads.
    readable: usize,
}

impl Chain {
    /// Returns the bytes of all buffers.
    #[must_use]
    pub fn len(&self) -> u64 {
        // At most 256 parts below 2^32 bytes.
        self.parts.iter().map(|part| u64::from(part.len)).sum()
    }

    /// Checks that the device writes all buffers, or reads all of them.
    ///
    /// # Errors
    /// One has the other direction.
    pub(super) const fn is_all(&self, written: bool) -> Result<(), RingError> {
        let wanted = if written { 0 } else { self.parts.len() };
        if self.readable == wanted { Ok(()) } else { Err(RingError::Direction) }
    }

    /// Copies bytes from the guest, from an offset on, as far as the chain and the room go. Returns
    /// how many.
    ///
    /// # Errors
    /// A buffer does not lie in the guest's memory.
    pub(super) fn read(&self, memory: &Memory, from: u64, room: &mut [u8]) -> Result<usize, RingError> {
        let mut done = 0;
        walk(&self.parts[..self.readable], from, room.len(), |at, range| {
            done = range.end;
            memory.read(at, &mut room[range])
        })?;
        Ok(done)
    }

    /// Copies bytes to the guest, from an offset on, as far as the chain goes. Returns how many.
    ///
    /// # Errors
    /// A buffer does not lie in the guest's memory.
    pub(super) fn write(&self, memory: &Memory, from: u64, bytes: &[u8]) -> Result<usize, RingError> {
        let mut done = 0;
        walk(&self.parts[self.readable..], from, bytes.len(), |at, range| {
            done = range.end;
            memory.write(at, &bytes[range])
        })?;
        Ok(done)
    }
}

/// Visits the pieces of `len` bytes that begin at an offset of these buffers: the address of each,
/// and its place among these bytes.
fn walk(
    parts: &[Part],
    mut from: u64,
    len: usize,
    mut visit: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), Outside>,
) -> Result<(), RingError> {
    let mut done = 0;
    for part in parts {
        if done == len {
            break;
        }
        let part_len = u64::from(part.len);
        if from >= part_len {
            from -= part_len;
            continue;
        }
        // Below 2^32.
        let n = ((part_len - from) as usize).min(len - done);
        let at = part.at.checked_add(from).ok_or(RingError::Address(part.at))?;
        visit(at, done..done + n)?;
        (done, from) = (done + n, 0);
    }
    Ok(())
}

/// The place of a ring in the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The address of the table of descriptors.
    pub table: u64,
    /// The address of the ring that the guest writes.
    pub avail: u64,
    /// The address of the ring that the device writes.
    pub used: u64,
    /// The number of descriptors, a power of two up to [`RING_MAX`].
    pub size: u16,
    /// True if the sides exchange indices instead of flags to suppress notifications
    /// (`VIRTIO_F_EVENT_IDX`).
    pub event_idx: bool,
    /// True if the driver may use indirect tables (`VIRTIO_F_INDIRECT_DESC`).
    pub indirect: bool,
}

impl Layout {
    /// Returns the bytes of the three parts: table, available, used.
    pub(super) const fn lengths(size: u16) -> [u64; 3] {
        let size = size as u64;
        [DESCRIPTOR * size, 6 + 2 * size, 6 + 8 * size]
    }
    fn slot(&self, index: u16) -> u64 {
        u64::from(index & (self.size - 1))
    }
    fn avail_flags(&self) -> u64 {
        self.avail
    }
    fn avail_index(&self) -> u64 {
        self.avail + 2
    }
    fn avail_slot(&self, index: u16) -> u64 {
        self.avail + 4 + 2 * self.slot(index)
    }
    /// Returns the address of the index after which the guest wants to be told.
    fn used_event(&self) -> u64 {
        self.avail + 4 + 2 * u64::from(self.size)
    }
    fn used_flags(&self) -> u64 {
        self.used
    }
    fn used_index(&self) -> u64 {
        self.used + 2
    }
    fn used_slot(&self, index: u16) -> u64 {
        self.used + 4 + 8 * self.slot(index)
    }
    /// Returns the address of the index after which the device wants to be told.
    fn avail_event(&self) -> u64 {
        self.used + 4 + 8 * u64::from(self.size)
    }

    /// Checks the size, the alignment and the place of the three parts.
    ///
    /// # Errors
    /// The part that is wrong, in words.
    pub(super) fn check(&self, memory: &Memory) -> Result<(), String> {
        if !self.size.is_power_of_two() || u32::from(self.size) > RING_MAX {
            return Err(format!("expected a size of a power of two up to {RING_MAX}, given {}", self.size));
        }
        let parts =
            [("table", self.table, 16), ("available ring", self.avail, 2), ("used ring", self.used, 4)];
        for ((part, at, align), len) in parts.into_iter().zip(Self::lengths(self.size)) {
            if at % align != 0 {
                return Err(format!("{part}: expected a multiple of {align}, given {at:#x}"));
            }
            // The sum of an address and a length below 2^20 bytes, both in the memory.
            if at.checked_add(len).is_none() || !memory.has(at, len as usize) {
                return Err(format!("{part}: expected {len} bytes in the guest's memory, given {at:#x}"));
            }
        }
        Ok(())
    }
}

/// A ring that the driver has set up.
#[derive(Debug)]
pub struct Ring {
    layout: Layout,
    /// Index of the next available chain.
    next_avail: u16,
    /// Index of the next used chain.
    next_used: u16,
    /// Index of available chains as it was last read.
    seen_avail: u16,
    /// Index of used chains at the last question whether to tell the guest.
    told_used: u16,
    /// True if the guest tells of available chains.
    listens: bool,
}

impl Ring {
    /// Makes a ring at a checked place that goes on at this index.
    pub(super) fn new(layout: Layout, memory: &Memory, base: u16) -> Result<Self, RingError> {
        // A device that is connected anew goes on where the last one has stopped.
        let next_used: u16 = u16::from_le(memory.load(layout.used_index())?);
        Ok(Self {
            layout,
            next_avail: base,
            next_used,
            seen_avail: base,
            told_used: next_used,
            listens: true,
        })
    }

    /// Returns the index of the next available chain.
    pub(super) const fn base(&self) -> u16 {
        self.next_avail
    }

    /// Returns the number of chains that are available.
    ///
    /// # Errors
    /// The index is impossible.
    pub(super) fn available(&mut self, memory: &Memory) -> Result<u16, RingError> {
        if self.seen_avail == self.next_avail {
            self.look(memory)?;
        }
        Ok(self.seen_avail.wrapping_sub(self.next_avail))
    }

    /// True if so many chains are available. Otherwise the guest is asked to tell of further ones.
    ///
    /// # Errors
    /// The index is impossible.
    pub(super) fn has(&mut self, memory: &Memory, chains: u16) -> Result<bool, RingError> {
        if self.available(memory)? >= chains || self.look(memory)? >= chains {
            return Ok(true);
        }
        // Bound: as many rounds as chains. In each but the last the guest's index has gone on. An
        // index that goes back is a fault of the guest, which may not be asked then.
        for _ in 0..chains {
            let seen = self.seen_avail;
            self.listen(memory, true)?;
            if self.available(memory)? >= chains {
                return Ok(true);
            }
            if self.seen_avail == seen {
                break;
            }
        }
        Ok(false)
    }

    /// Like [`available`](Self::available), and reads the guest's index even if some are known.
    fn look(&mut self, memory: &Memory) -> Result<u16, RingError> {
        let seen = u16::from_le(memory.load(self.layout.avail_index())?);
        let ahead = seen.wrapping_sub(self.next_avail);
        if ahead > self.layout.size {
            return Err(RingError::Index(ahead));
        }
        self.seen_avail = seen;
        Ok(ahead)
    }

    /// Reads the chain that is `ahead` of the next one, which has to be available.
    ///
    /// # Errors
    /// The chain is not as it has to be.
    pub(super) fn chain(&self, memory: &Memory, ahead: u16, chain: &mut Chain) -> Result<(), RingError> {
        let slot = self.layout.avail_slot(self.next_avail.wrapping_add(ahead));
        chain.head = u16::from_le(memory.load(slot)?);
        chain.parts.clear();
        chain.readable = 0;
        // The table in which the chain goes on, its descriptors, and true inside of an indirect
        // one.
        let (mut table, mut size, mut indirect) = (self.layout.table, self.layout.size, false);
        let (mut at, mut most) = (chain.head, usize::from(self.layout.size).min(CHAIN_MAX));
        // Bound: each round adds a buffer, or goes into an indirect table, which happens once.
        loop {
            if at >= size {
                return Err(RingError::Descriptor(at));
            }
            let mut raw = [0; DESCRIPTOR as usize];
            memory.read(table + DESCRIPTOR * u64::from(at), &mut raw)?;
            let Descriptor { address, len, flags, next } = Descriptor::read(raw);
            if flags & F_INDIRECT != 0 {
                if indirect || !self.layout.indirect || flags & F_NEXT != 0 {
                    return Err(RingError::Indirect);
                }
                (table, size, indirect) = (address, indirect_size(address, len)?, true);
                // The indirect table counts alone: it may have more descriptors than the ring.
                (at, most) = (0, (chain.parts.len() + usize::from(size)).min(CHAIN_MAX));
                continue;
            }
            if chain.parts.len() >= most {
                return Err(RingError::Chain);
            }
            let written = flags & F_WRITE != 0;
            // The buffers that the device reads stand first (VIRTIO 1.2 section 2.7.4.2).
            if !written && chain.readable < chain.parts.len() {
                return Err(RingError::Direction);
            }
            chain.readable += usize::from(!written);
            chain.parts.push(Part { at: address, len });
            if flags & F_NEXT == 0 {
                return Ok(());
            }
            at = next;
        }
    }

    /// Writes that a chain is used, with the bytes written into it. The guest sees it once it is
    /// published: `ahead` chains are written and not published yet.
    pub(super) fn put_used(&self, memory: &Memory, ahead: u16, head: u16, len: u32) -> Result<(), RingError> {
        let slot = self.layout.used_slot(self.next_used.wrapping_add(ahead));
        let mut raw = [0; 8];
        raw[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        raw[4..].copy_from_slice(&len.to_le_bytes());
        Ok(memory.write(slot, &raw)?)
    }

    /// Takes the next available chains off, and shows the guest as many used ones at once: a guest
    /// may see a frame in several buffers only when all are there (VIRTIO 1.2 section 5.1.6.4).
    pub(super) fn publish(&mut self, memory: &Memory, chains: u16) -> Result<(), RingError> {
        self.next_avail = self.next_avail.wrapping_add(chains);
        self.next_used = self.next_used.wrapping_add(chains);
        Ok(memory.store(self.layout.used_index(), self.next_used.to_le())?)
    }

    /// Asks the guest to tell of available chains, or not to. Returns true if some are there by now
    /// of which it will not tell: only after it has asked, the device may sleep.
    pub(super) fn listen(&mut self, memory: &Memory, on: bool) -> Result<bool, RingError> {
        if on || self.listens != on {
            match self.layout.event_idx {
                // The guest tells once it passes this index. It has passed that of the next chain
                // already if there are some chains, too few for a frame.
                true if on => memory.store(self.layout.avail_event(), self.seen_avail.to_le())?,
                // An index that the guest has passed is as good as a flag.
                true => {}
                false => {
                    let flags = if on { 0 } else { USED_NO_NOTIFY };
                    memory.store(self.layout.used_flags(), flags.to_le())?;
                }
            }
            self.listens = on;
        }
        if !on {
            return Ok(false);
        }
        // The guest writes its index, and then reads whether to tell; here it is the other way
        // round. Without the fence both could miss what the other has written.
        fence(Ordering::SeqCst);
        Ok(self.look(memory)? > 0)
    }

    /// True if the guest wants to be told of the chains that were used since the last question.
    pub(super) fn tells(&mut self, memory: &Memory) -> Result<bool, RingError> {
        let [old, new] = [std::mem::replace(&mut self.told_used, self.next_used), self.next_used];
        if old == new {
            return Ok(false);
        }
        fence(Ordering::SeqCst);
        if self.layout.event_idx {
            let event = u16::from_le(memory.load(self.layout.used_event())?);
            // True if the event lies among the new ones (VIRTIO 1.2 section 2.7.10).
            return Ok(new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old));
        }
        let flags = u16::from_le(memory.load(self.layout.avail_flags())?);
        Ok(flags & AVAIL_NO_INTERRUPT == 0)
    }
}

/// Returns the number of descriptors of an indirect table.
fn indirect_size(address: u64, len: u32) -> Result<u16, RingError> {
    let (len, most) = (u64::from(len), CHAIN_MAX as u64);
    let size = len / DESCRIPTOR;
    let whole = len.is_multiple_of(DESCRIPTOR) && (1..=most).contains(&size);
    if !whole || address.checked_add(len).is_none() {
        return Err(RingError::Indirect);
    }
    Ok(size as u16) // at most CHAIN_MAX
}

/// A descriptor, as the guest wrote it.
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn read(raw: [u8; DESCRIPTOR as usize]) -> Self {
        let [a, b, c, d, e, f, g, h, rest @ ..] = raw;
        let [i, j, k, l, m, n, o, p] = rest;
        Self {
            address: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_le_bytes([i, j, k, l]),
            flags: u16::from_le_bytes([m, n]),
            next: u16::from_le_bytes([o, p]),
        }
    }
}
