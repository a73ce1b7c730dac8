//! A device whose frames are places in one area that it shares with a card, in memory. A frame is
//! an index, reception fills a place, transmission names one, and completion returns it later, in
//! another order. Only the card writes bytes.

use std::collections::VecDeque;
use std::io;

use txweir_core::packet::headers::Headers;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::text::value::Words;
use txweir_core::{DropReason, Env, Handle, Instant, Meta};
use txweir_device::{Backend, Beside, Fates, Finished, Landed, Source, Store, VnetHdr, Write};
use txweir_runtime::{Direction, DirectionConfig, Received, WireSpec};

/// Bytes of a place.
const PLACE: usize = 2048;
/// Frames in the card's transmit ring.
const RING: usize = 32;

/// A frame: a place, and the bytes used of it.
#[derive(Debug, PartialEq, Eq)]
struct Slot {
    index: usize,
    len: usize,
}

/// The area, and the free places of it.
#[derive(Debug, Default)]
struct Area {
    bytes: Vec<u8>,
    beside: Vec<Beside>,
    free: Vec<usize>,
    /// Bytes that were copied from one place to another.
    copied: usize,
    /// Number of times that a frame was borrowed for writing.
    borrowed_to_write: usize,
}

impl Area {
    fn new(places: usize) -> Self {
        Self {
            bytes: vec![0; places * PLACE],
            beside: vec![Beside::default(); places],
            free: (0..places).rev().collect(),
            ..Self::default()
        }
    }
    fn place(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * PLACE..(index + 1) * PLACE]
    }
}

impl Store for Area {
    type Frame = Slot;

    fn receive(&mut self, source: &mut dyn Source) -> io::Result<Landed<Slot>> {
        let Some(index) = self.free.pop() else {
            return Ok(source.recv(&mut [0; PLACE])?.map_or(Landed::Nothing, |_| Landed::NoRoom));
        };
        let received = source.recv(self.place(index))?;
        match received {
            Some((hdr, len)) => {
                self.beside[index] = Beside::of(hdr);
                Ok(Landed::Frame(Slot { index, len }))
            }
            None => {
                self.free.push(index);
                Ok(Landed::Nothing)
            }
        }
    }
    fn build_from(&mut self, other: &Slot, room: usize, write: Write<'_>) -> Option<Slot> {
        let index = self.free.pop().filter(|_| room <= PLACE)?;
        let other = self.bytes(other).to_vec();
        let len = write(&other, self.place(index))?;
        self.copied += len;
        Some(Slot { index, len })
    }
    fn give(&mut self, frame: Slot) {
        self.free.push(frame.index);
    }
    fn absorb(&mut self, other: Self) {
        self.free.extend(other.free);
    }
    fn bytes<'a>(&'a self, frame: &'a Slot) -> &'a [u8] {
        &self.bytes[frame.index * PLACE..][..frame.len]
    }
    fn bytes_mut<'a>(&'a mut self, frame: &'a mut Slot) -> &'a mut [u8] {
        self.borrowed_to_write += 1;
        &mut self.bytes[frame.index * PLACE..][..frame.len]
    }
    fn beside<'a>(&'a self, frame: &'a Slot) -> &'a Beside {
        &self.beside[frame.index]
    }
    fn beside_mut<'a>(&'a mut self, frame: &'a mut Slot) -> &'a mut Beside {
        &mut self.beside[frame.index]
    }
    fn insert(&mut self, _: &mut Slot, _: usize, _: &[u8]) -> bool {
        false
    }
    fn remove(&mut self, _: &mut Slot, _: usize, _: usize) -> bool {
        false
    }
}

/// The card: it receives into places of the area, and sends from them.
#[derive(Debug)]
struct Card {
    area: Area,
    pushed: Vec<(Slot, u32)>,
    /// The transmit ring: places that the card reads.
    ring: VecDeque<(Slot, u32)>,
    finished: Finished,
    /// Index, address and last byte of each frame that the card has read.
    sent: Vec<(usize, usize, u8)>,
    doorbells: usize,
}

impl Card {
    fn new(places: usize) -> Self {
        let (area, finished) = (Area::new(places), Finished::default());
        Self { area, pushed: Vec::new(), ring: VecDeque::new(), finished, sent: Vec::new(), doorbells: 0 }
    }
    /// Receives a frame from the network: the card writes it into a place.
    fn receive(&mut self, bytes: &[u8]) -> Option<Slot> {
        let index = self.area.free.pop()?;
        self.area.place(index)[..bytes.len()].copy_from_slice(bytes);
        self.area.beside[index] = Beside::default();
        Some(Slot { index, len: bytes.len() })
    }
    /// Sends the frames of the ring, the last first.
    fn complete(&mut self) {
        while let Some((slot, wire_len)) = self.ring.pop_back() {
            self.finished.add(wire_len, true);
            self.area.give(slot);
        }
    }
}

impl TxQueue for Card {
    type Frame = Slot;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min((RING - self.ring.len() - self.pushed.len()) as u32)
    }
    fn push(&mut self, mut frame: Slot, m: &Meta) {
        if m.marked || m.washed {
            let beside = *self.area.beside(&frame);
            beside.mark(self.area.bytes_mut(&mut frame), m);
        }
        self.pushed.push((frame, m.wire_len));
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.doorbells += 1;
        for (slot, wire_len) in self.pushed.drain(..) {
            let bytes = self.area.bytes(&slot);
            self.sent.push((slot.index, bytes.as_ptr() as usize, bytes[bytes.len() - 1]));
            self.ring.push_back((slot, wire_len));
        }
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Slot>)) {
        self.finished.reap(sink);
    }
    fn discard(&mut self, frame: Slot, _: &Meta, _: DropReason) {
        self.area.give(frame);
    }
}

impl Backend for Card {
    type Store = Area;
    fn store(&mut self) -> &mut Area {
        &mut self.area
    }
    fn is_full(&self) -> bool {
        self.ring.len() == RING
    }
    fn is_busy(&self) -> bool {
        !self.ring.is_empty()
    }
    fn take_fates(&mut self) -> Fates {
        self.finished.take_fates()
    }
    fn abandon(&mut self) {
        for (slot, wire_len) in self.pushed.drain(..).chain(self.ring.drain(..)) {
            self.finished.add(wire_len, false);
            self.area.give(slot);
        }
    }
}

/// Returns a UDP frame of 1000 bytes of one of eight flows, whose last byte is `n`.
fn frame(n: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 3, 218, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([4, n % 8, 0, 9, 3, 198, 0, 0]);
    frame.resize(1000, n);
    assert_eq!(Headers::parse_ethernet(&frame).ip_len, 986);
    frame
}

fn direction(wire: Option<&str>) -> Direction<Card> {
    let spec: Option<WireSpec> = wire.map(|spec| spec.parse().unwrap());
    let (wire, bql) = spec.map_or((None, None), |spec| (Some(spec.wire), spec.bql));
    let config =
        DirectionConfig { wire, bql, env: Env::default(), packets: 256, ..DirectionConfig::default() };
    let mut way = Direction::new(config, Card::new(100)).unwrap();
    way.control(Instant(0)).configure(|tree, cx| {
        tree.edit(cx).replace(Handle::ROOT, None, "fq_codel", &mut Words::new(&[])).unwrap();
    });
    way
}

/// A hundred frames, in the places where the card put them, pass through fq_codel to the card
/// again: they stay at the same addresses, and no code has borrowed one for writing.
#[test]
fn bytes_stay_where_the_card_put_them() {
    for wire in [None, Some("rate=1gbit")] {
        let mut way = direction(wire);
        let mut came = Vec::new();
        for n in 0..100 {
            let slot = way.device_mut().receive(&frame(n)).expect("a place");
            came.push((slot.index, way.device_mut().area.bytes(&slot).as_ptr() as usize, n));
            let Received::Frame(arrival) = way.take_in(slot) else { panic!("frame {n}") };
            way.admit(Instant(u64::from(n)), arrival).unwrap();
        }
        let mut now = Instant(100);
        for _ in 0..10_000 {
            way.advance(now).unwrap();
            way.device_mut().complete();
            if !way.waits_for_device() && way.deadline(now).is_none() && way.in_flight() == 0 {
                break;
            }
            now = way.deadline(now).unwrap_or(now);
        }
        way.advance(now).unwrap();
        let stats = way.stats();
        assert_eq!((stats.received, stats.delivered, stats.dropped, stats.lost), (100, 100, 0, 0));
        assert_eq!((way.in_flight(), way.port().flight().packets(), way.waits_for_device()), (0, 0, false));
        let card = way.device_mut();
        assert_eq!(card.area.free.len(), 100, "every place is free again");
        card.sent.sort_unstable_by_key(|(.., n)| *n);
        assert_eq!(card.sent, came, "index, address and last byte of each frame");
        assert_eq!((card.area.copied, card.area.borrowed_to_write), (0, 0));
        // A batch is as large as the ring allows; with the wire, it has the frames that left the
        // wire by the time of a wake-up.
        assert!(card.doorbells <= if wire.is_none() { 8 } else { 40 }, "{} doorbells", card.doorbells);
    }
}

/// A source that fills places itself, as a kernel does, causes no copy afterwards either. A frame
/// without a place is lost, and counted.
#[test]
fn what_a_source_writes_stays_in_its_place() {
    struct Frames(u8);
    impl Source for Frames {
        fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
            self.0 = left;
            room[..1000].copy_from_slice(&frame(left));
            Ok(Some((VnetHdr::default(), 1000)))
        }
    }
    let mut way = direction(None);
    let (mut source, mut left_out) = (Frames(150), 0);
    loop {
        match way.receive(&mut source).unwrap() {
            Received::Frame(arrival) => way.admit(Instant(1), arrival).unwrap(),
            Received::LeftOut => left_out += 1,
            Received::Nothing => break,
        }
    }
    while way.in_flight() > 0 || way.port().totals().backlog().packets > 0 {
        way.advance(Instant(2)).unwrap();
        way.device_mut().complete();
    }
    way.advance(Instant(2)).unwrap();
    let stats = way.stats();
    assert_eq!((stats.received, stats.delivered, stats.no_memory, left_out), (100, 100, 50, 50));
    let card = way.device();
    assert_eq!((card.area.copied, card.area.borrowed_to_write, card.area.free.len()), (0, 0, 100));
}

/// The counters above can rise: a copy that a qdisc asks for is counted, and a mark is written.
#[test]
fn a_second_packet_is_a_copy() {
    let mut way = direction(None);
    way.control(Instant(0)).configure(|tree, cx| {
        let words = ["delay", "1us", "duplicate", "100%"];
        tree.edit(cx).replace(Handle::ROOT, None, "netem", &mut Words::new(&words)).unwrap();
    });
    let slot = way.device_mut().receive(&frame(7)).expect("a place");
    let Received::Frame(arrival) = way.take_in(slot) else { panic!("a frame") };
    way.admit(Instant(1), arrival).unwrap();
    way.advance(Instant(1_000_000)).unwrap();
    let card = way.device();
    assert_eq!((card.sent.len(), card.area.copied), (2, 1000));
    assert_ne!(card.sent[0].1, card.sent[1].1);
}
