//! Any bytes as the deeds of a guest: what a test and a fuzz target feed to the rings.

use std::sync::Arc;

use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::feature::{ALL, Features, MQ};
use super::guest::{Guest, Put};
use super::memory::Memory;
use super::ring::{Layout, Ring, RingError};
use super::rings::{PAIRS, RINGS, Rings};
use crate::counters::Counters;
use crate::frame::{FrameRef, MAX_FRAME};
use crate::vnet::{Gso, HDR_LEN, VnetHdr};

/// Bytes of the guest's memory, which begins at address 0: the rings, and buffers behind them.
const BYTES: u64 = 1 << 14;
/// Bytes of a ring with its three parts.
const RING_BYTES: u64 = 0x700;
/// Rings that take part: those of two pairs, and the one of commands behind eight of them. Behind
/// one pair the first ring of the second has the commands.
const TAKEN: [usize; 5] = [0, 1, 2, 3, RINGS - 1];

/// Bytes that are read from the front; zero at the end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }
    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }
    fn long(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }
    /// Returns an address: mostly in the memory, at times near its end or anywhere.
    fn address(&mut self) -> u64 {
        match self.byte() % 16 {
            0 => self.long(),
            1 => BYTES - u64::from(self.byte()),
            2 => u64::MAX - u64::from(self.word()),
            _ => u64::from(self.word()) % BYTES,
        }
    }
    /// Returns an index: mostly below the size of a ring.
    fn index(&mut self, size: u16) -> u64 {
        match self.byte() {
            250.. => u64::from(self.byte() % 33),
            byte => u64::from(u16::from(byte) % size),
        }
    }
    /// Returns a length: mostly small, at times anything.
    fn len(&mut self) -> u32 {
        match self.byte() % 8 {
            0 => self.long() as u32,
            1 => u32::from(self.word()),
            _ => u32::from(self.byte()) * 8,
        }
    }
}

impl Seen {
    /// Adds those of another guest.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.left_out += other.left_out;
        self.delivered += other.delivered;
        for (sum, n) in self.faults.iter_mut().zip(other.faults) {
            *sum += n;
        }
    }
}

/// Returns a descriptor: mostly one that the ring may have.
fn descriptor(input: &mut Input<'_>, ring: usize, size: u16) -> [u8; 16] {
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&input.address().to_le_bytes());
    raw[8..12].copy_from_slice(&input.len().to_le_bytes());
    let written = if ring.is_multiple_of(2) { 2 } else { 0 };
    let flags = match input.byte() {
        byte @ 0..16 => byte % 8,
        16..32 => 4,
        32..64 => written | 1,
        _ => written,
    };
    raw[12..14].copy_from_slice(&u16::from(flags).to_le_bytes());
    raw[14..].copy_from_slice(&(input.index(size) as u16).to_le_bytes());
    raw
}

/// Returns a frame: any bytes, with no header or with any, or a TCP super-frame that can be cut.
fn frame(input: &mut Input<'_>) -> (VnetHdr, Vec<u8>) {
    let mut raw = [0; HDR_LEN];
    raw.iter_mut().for_each(|byte| *byte = input.byte());
    let len = 14 + usize::from(input.word()) % 3000;
    let mut bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
    let hdr = match raw[11] % 8 {
        1 | 3 | 5 => VnetHdr::decode(&raw),
        7 if len >= 54 => {
            bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6]);
            bytes[46] = 5 << 4;
            let gso_size = 16 + 4 * u16::from(raw[0]);
            let (needs_csum, gso, csum_start, csum_offset) = (true, Gso::TcpV4, 34, 16);
            VnetHdr { needs_csum, gso, gso_size, csum_start, csum_offset, ..VnetHdr::default() }
        }
        _ => VnetHdr::default(),
    };
    (hdr, bytes)
}

/// A guest that writes as the input says, and a device that reads and answers, by one handle or by
/// two.
struct Play {
    handles: Vec<Guest>,
    rings: Arc<Rings>,
    memory: Arc<Memory>,
    layouts: [Layout; TAKEN.len()],
    /// A frame that found no room, which its handle puts again.
    waiting: Option<(usize, VnetHdr, Vec<u8>)>,
    room: Vec<u8>,
    counters: Counters,
    starts: u64,
    seen: Seen,
}

/// The deeds that had an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames that came out of the rings.
    pub received: u64,
    /// Frames that were left out.
    pub left_out: u64,
    /// Frames that went into the rings.
    pub delivered: u64,
    /// Rings that stopped, by the error: index, descriptor, chain, indirect table, direction,
    /// address.
    pub faults: [u64; 6],
}

impl Play {
    fn new(input: &mut Input<'_>) -> Self {
        let map = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), BYTES as usize)]).expect("memory");
        // Most guests have several pairs, so that all rings take part.
        let shape = input.byte();
        let several = if shape < 192 { MQ } else { 0 };
        let handles = Guest::handles(1 + usize::from(shape % 2)).expect("descriptors");
        let rings = handles[0].rings.clone();
        let features = Features(input.long() & ALL | several);
        rings.accept(features);
        let layout = |at: usize, size: u8| {
            let table = at as u64 * RING_BYTES;
            Layout {
                table,
                avail: table + 0x400,
                used: table + 0x500,
                size: 1 << (size % 6),
                event_idx: features.event_idx(),
                indirect: features.indirect(),
            }
        };
        let layouts = std::array::from_fn(|at| layout(at, input.byte()));
        let (room, counters) = (vec![0; MAX_FRAME], Counters::default());
        let memory = Arc::new(Memory::over(map));
        Self {
            handles,
            rings,
            memory,
            layouts,
            waiting: None,
            room,
            counters,
            starts: 0,
            seen: Seen::default(),
        }
    }

    fn start(&mut self, at: usize, base: u16) {
        let started = self.handles[0].start(TAKEN[at], self.layouts[at], base, &self.memory);
        self.starts += u64::from(started.is_ok());
        self.rings.slot(TAKEN[at]).enabled = true;
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (deed, place) = (input.byte(), usize::from(input.byte()));
        let (at, by) = (place % TAKEN.len(), place / TAKEN.len() % self.handles.len());
        let layout = self.layouts[at];
        let memory = &self.memory;
        let inside = |offset: u16, len: u64| u64::from(offset) % (BYTES - len);
        match deed % 12 {
            // A descriptor, in the table of the ring or in one that is indirect.
            0..=2 => {
                let table = if deed & 0x80 == 0 { layout.table } else { inside(input.word(), 512) };
                let raw = descriptor(input, TAKEN[at], layout.size);
                memory.write(table + 16 * input.index(layout.size), &raw).expect("inside");
            }
            3 => {
                let [slot, head] = [input.index(layout.size), input.index(layout.size)];
                memory.write(layout.avail + 4 + 2 * slot, &(head as u16).to_le_bytes()).expect("inside");
            }
            4 | 5 => {
                let index = self.rings.slot(TAKEN[at]).ring.as_ref().map(Ring::base);
                let far = deed & 0x80 != 0 && input.byte() < 16;
                let ahead = if far { input.word() } else { input.index(layout.size) as u16 };
                let index = index.unwrap_or(0).wrapping_add(ahead);
                memory.write(layout.avail + 2, &index.to_le_bytes()).expect("inside");
            }
            6 => {
                let (place, byte) = (inside(input.word(), 1), input.byte());
                memory.write(place, &[byte]).expect("inside");
            }
            7 => self.handles[by].kicked(TAKEN[at]),
            8 | 9 => self.pop(by),
            10 => self.put(by, input),
            _ => match deed & 0x80 {
                0 => self.handles[by].flush(),
                // The driver goes on where it was, mostly.
                _ => {
                    let shown = memory.load(layout.avail + 2).map_or(0, u16::from_le);
                    let base = if input.byte() < 16 { input.word() } else { shown };
                    self.start(at, base);
                }
            },
        }
        while let Some((_, error)) = self.handles.iter_mut().find_map(Guest::take_fault) {
            self.seen.faults[match error {
                RingError::Index(_) => 0,
                RingError::Descriptor(_) => 1,
                RingError::Chain => 2,
                RingError::Indirect => 3,
                RingError::Direction => 4,
                RingError::Address(_) => 5,
            }] += 1;
        }
        assert!(self.seen.faults.iter().sum::<u64>() <= self.starts, "a ring stops once");
    }

    fn pop(&mut self, by: usize) {
        if let Some((hdr, len)) = self.handles[by].pop(&mut self.room, &mut self.counters) {
            assert!((14..self.room.len()).contains(&len));
            assert!(!hdr.data_valid && (!hdr.is_gso() || hdr.needs_csum && hdr.gso_size > 0), "{hdr:?}");
            let end = usize::from(hdr.csum_start) + usize::from(hdr.csum_offset) + 2;
            assert!(!hdr.needs_csum || end <= len, "{hdr:?}");
            self.seen.received += 1;
        }
    }

    fn put(&mut self, by: usize, input: &mut Input<'_>) {
        let (by, hdr, bytes) = self.waiting.take().unwrap_or_else(|| {
            let (hdr, bytes) = frame(input);
            (by, hdr, bytes)
        });
        let put = self.handles[by].put(&FrameRef { hdr, bytes: &bytes }, input.byte().into());
        self.seen.delivered += u64::from(put == Put::All);
        assert!(put == Put::Down || (0..PAIRS).any(|pair| self.rings.works(2 * pair)));
        for at in 0..RINGS {
            let works = self.rings.slot(at).works();
            assert_eq!(self.rings.works(at), works, "the state of a ring is seen without its lock");
        }
        match put {
            Put::Full if input.byte() < 64 => self.waiting = Some((by, hdr, bytes)),
            Put::Full => self.handles[by].forget(),
            Put::All | Put::Refused | Put::Down => {}
        }
    }
}

/// Plays the deeds of a guest that may write anything, against the rings of a device.
///
/// # Panics
/// A law does not hold: each frame that comes out has a length and a header that it may have, and a
/// ring that has stopped stays so.
pub fn any_rings(data: &[u8]) -> Seen {
    let mut input = Input(data);
    let mut play = Play::new(&mut input);
    (0..TAKEN.len()).for_each(|at| play.start(at, 0));
    // Bound: each step takes at least a byte.
    while !input.0.is_empty() {
        play.step(&mut input);
    }
    for by in (0..play.handles.len()).cycle().take(64) {
        play.pop(by);
    }
    play.handles.iter_mut().for_each(Guest::flush);
    Seen { left_out: play.counters.rx_lost(), ..play.seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any deeds: `TXWEIR_SEED` repeats one of them, `TXWEIR_RUNS` makes more.
    #[test]
    fn no_guest_breaks_its_rings() {
        let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let first = given("TXWEIR_SEED").unwrap_or(0);
        let runs = given("TXWEIR_RUNS").unwrap_or(if given("TXWEIR_SEED").is_some() { 1 } else { 100_000 });
        let mut all = Seen::default();
        for seed in first..first + runs {
            let mut rng = txweir_core::base::rng::Rng::new(seed);
            let len = 16 + (rng.next_u64() % 300) as usize;
            let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            match std::panic::catch_unwind(|| any_rings(&data)) {
                Ok(seen) => all.add(&seen),
                Err(_) => panic!("TXWEIR_SEED={seed}"),
            }
        }
        println!("{runs} runs: {all:?}");
        if runs >= 100_000 {
            let Seen { received, left_out, delivered, faults } = all;
            let counts = [&[received, left_out, delivered][..], &faults].concat();
            assert!(counts.iter().all(|n| *n >= 100), "each deed has an effect: {all:?}");
        }
    }
}
