//! A virtual machine for tests: the frontend of a vhost-user connection, with memory and rings of
//! its own, and no kernel. A test sends and receives frames by it, and writes wrong ones.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// The guest's address of its memory.
pub const BASE: u64 = 0x4000_0000;
/// The frontend's address of the same memory.
const USER: u64 = 0x7f00_0000_0000;
/// Bytes of the file ahead of the memory.
const OFFSET: u64 = 0x1000;
/// Bytes for a ring with its three parts: 256 descriptors take 6 KiB.
const RING_BYTES: u64 = 0x4000;
/// Bytes of a buffer of a frame to be sent.
const SEND_BYTES: u64 = 0x11000;
/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(60);
/// `VIRTIO_F_VERSION_1`, and the feature bits of the protocol, of mergeable buffers and of events.
pub const VERSION_1: u64 = 1 << 32;
/// `VHOST_USER_F_PROTOCOL_FEATURES`.
pub const PROTOCOL: u64 = 1 << 30;
/// `VIRTIO_NET_F_MRG_RXBUF`.
pub const MERGEABLE: u64 = 1 << 15;
/// `VIRTIO_F_EVENT_IDX`.
pub const EVENT_IDX: u64 = 1 << 29;
/// `VIRTIO_F_INDIRECT_DESC`.
pub const INDIRECT: u64 = 1 << 28;
/// Checksums and TCP segmentation, both ways.
pub const OFFLOADS: u64 = 1 | 1 << 1 | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 12;
/// All of the above.
pub const ALL: u64 = VERSION_1 | PROTOCOL | MERGEABLE | EVENT_IDX | INDIRECT | OFFLOADS;
/// `VIRTIO_NET_F_MQ`: several pairs of queues.
const MQ: u64 = 1 << 22;

/// The shape of a test guest.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The features that its driver accepts, beside that of several pairs if it has these.
    pub features: u64,
    /// Pairs of queues.
    pub pairs: usize,
    /// Descriptors of a ring: a power of two up to 256.
    pub size: u16,
    /// Bytes of each buffer for a frame to be received.
    pub buffer: u32,
    /// True for a ring of commands, behind the others.
    pub commands: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { features: ALL, pairs: 1, size: 64, buffer: 2048, commands: false }
    }
}

/// One ring of a test guest.
#[derive(Debug)]
pub struct Ring {
    /// The guest's addresses of the table, the available and the used ring.
    pub places: [u64; 3],
    kick: OwnedFd,
    call: OwnedFd,
    /// The index of the next chain that is made available.
    pub avail: u16,
    /// The index of the next used chain.
    used: u16,
    /// The first of its buffers.
    buffers: u64,
}

/// A virtual machine that is connected to a device.
#[derive(Debug)]
pub struct TestGuest {
    stream: UnixStream,
    file: File,
    /// Its memory, by its own addresses.
    pub memory: GuestMemoryMmap<()>,
    bytes: u64,
    setup: Setup,
    /// True if it tells the device of buffers for frames to be received only when the device wants
    /// to be told, as drivers do. It is false at first.
    pub kicks_if_asked: bool,
    /// Its rings: the one that receives and the one that sends of each pair.
    pub rings: Vec<Ring>,
}

impl TestGuest {
    /// Connects to the device at `path`, with memory and rings. `serve` lets the device work, if no
    /// other thread or process does.
    ///
    /// # Panics
    /// The device does not do as the protocol says.
    pub fn connect(path: &Path, setup: Setup, mut serve: impl FnMut()) -> Self {
        let several = if setup.pairs > 1 { MQ } else { 0 };
        let setup = Setup { features: setup.features | several, ..setup };
        let count = 2 * setup.pairs as u64 + u64::from(setup.commands);
        let buffers = u64::from(setup.size) * SEND_BYTES;
        let bytes = count * (RING_BYTES + buffers);
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).expect("a file of memory");
        ftruncate(&fd, OFFSET + bytes).expect("room");
        let file = File::from(fd);
        let mapped = FileOffset::new(file.try_clone().expect("a descriptor"), OFFSET);
        let region = MmapRegion::from_file(mapped, bytes as usize).expect("a mapping");
        let region = GuestRegionMmap::new(region, GuestAddress(BASE)).expect("a region");
        let memory = GuestMemoryMmap::from_regions(vec![region]).expect("memory");
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event");
        let ring = |at: u64| {
            let table = BASE + at * RING_BYTES;
            let places = [table, table + 0x1000, table + 0x2000];
            let first = BASE + count * RING_BYTES + at * buffers;
            Ring { places, kick: event(), call: event(), avail: 0, used: 0, buffers: first }
        };
        let rings = (0..count).map(ring).collect();
        let stream = UnixStream::connect(path).expect("a device");
        stream.set_nonblocking(true).expect("a socket");
        let mut guest = Self { stream, file, memory, bytes, setup, kicks_if_asked: false, rings };
        guest.negotiate(&mut serve);
        for at in 0..guest.rings.len() {
            guest.start(at, 0, &mut serve);
        }
        for pair in 0..setup.pairs {
            guest.fill(pair);
        }
        guest
    }

    fn negotiate(&mut self, serve: &mut dyn FnMut()) {
        self.ask(3, &[], &[], serve);
        let offered = self.ask_word(1, &[], serve);
        assert_eq!(offered & self.setup.features, self.setup.features, "the device has the features");
        if self.setup.features & PROTOCOL != 0 {
            let protocol = self.ask_word(15, &[], serve);
            assert_eq!(protocol & 0b1000, 0b1000, "the device replies");
            self.ask(16, &words(&[protocol as u32, (protocol >> 32) as u32]), &[], serve);
            assert!(self.ask_word(17, &[], serve) >= 2 * self.setup.pairs as u64);
        }
        self.ask(2, &self.setup.features.to_ne_bytes(), &[], serve);
        self.tell_memory(serve);
    }

    /// Tells the device of the memory.
    pub fn tell_memory(&mut self, serve: &mut dyn FnMut()) {
        let region = [BASE, self.bytes, USER, OFFSET].map(u64::to_ne_bytes).concat();
        let body = [words(&[1, 0]), region].concat();
        let fd = self.file.try_clone().expect("a descriptor");
        self.ask(5, &body, &[fd.as_fd()], serve);
    }

    /// Sets up a ring that goes on at an index, and enables it.
    pub fn start(&mut self, at: usize, base: u16, serve: &mut dyn FnMut()) {
        let index = at as u32;
        self.ask(8, &words(&[index, self.setup.size.into()]), &[], serve);
        self.ask(10, &words(&[index, base.into()]), &[], serve);
        let [table, avail, used] = self.rings[at].places.map(|place| place - BASE + USER);
        let body = [words(&[index, 0]), [table, used, avail, 0].map(u64::to_ne_bytes).concat()].concat();
        self.ask(9, &body, &[], serve);
        let [kick, call] =
            [&self.rings[at].kick, &self.rings[at].call].map(|fd| fd.try_clone().expect("a descriptor"));
        self.ask(13, &u64::from(index).to_ne_bytes(), &[call.as_fd()], serve);
        self.ask(12, &u64::from(index).to_ne_bytes(), &[kick.as_fd()], serve);
        if self.setup.features & PROTOCOL != 0 {
            self.enable(at, true, serve);
        }
    }

    /// Lets frames pass through a ring, or not.
    pub fn enable(&mut self, at: usize, on: bool, serve: &mut dyn FnMut()) {
        self.ask(18, &words(&[at as u32, u32::from(on)]), &[], serve);
    }

    /// Stops a ring. Returns the index at which it would go on.
    pub fn stop(&mut self, at: usize, serve: &mut dyn FnMut()) -> u32 {
        (self.ask_word(11, &words(&[at as u32, 0]), serve) >> 32) as u32
    }

    /// Sends a request without a reply of its own, and checks that it is obeyed.
    pub fn ask(&mut self, number: u32, body: &[u8], fds: &[BorrowedFd<'_>], serve: &mut dyn FnMut()) {
        // Message 16 agrees on acknowledgements, and only the first message comes before it.
        let acknowledged = self.setup.features & PROTOCOL != 0 && number != 3;
        self.send_message(number, if acknowledged { 1 | 8 } else { 1 }, body, fds);
        serve();
        if acknowledged {
            assert_eq!(self.reply(number, serve), 0u64.to_ne_bytes(), "message {number}");
        }
    }

    /// Sends a request, and returns its reply.
    pub(crate) fn ask_word(&mut self, number: u32, body: &[u8], serve: &mut dyn FnMut()) -> u64 {
        self.send_message(number, 1, body, &[]);
        let body = self.reply(number, serve);
        u64::from_ne_bytes(body.try_into().expect("a word of 64 bits"))
    }

    /// Sends a request without a body byte by byte, and returns its reply.
    pub fn ask_in_pieces(&mut self, number: u32, serve: &mut dyn FnMut()) -> u64 {
        for byte in words(&[number, 1, 0]) {
            self.stream.write_all(&[byte]).expect("a connection");
            serve();
        }
        let body = self.reply(number, serve);
        u64::from_ne_bytes(body.try_into().expect("a word of 64 bits"))
    }

    /// Sends a message of any bytes.
    pub fn send_message(&mut self, number: u32, flags: u32, body: &[u8], fds: &[BorrowedFd<'_>]) {
        let raw = [words(&[number, flags, body.len() as u32]), body.to_vec()].concat();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(&raw)], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent.expect("a connection"), raw.len());
    }

    /// Returns the body of the next reply.
    pub fn reply(&mut self, number: u32, serve: &mut dyn FnMut()) -> Vec<u8> {
        let mut header = [0; 12];
        self.read(&mut header, serve);
        let word =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        assert_eq!([word(0), word(4)], [number, 5]);
        let mut body = vec![0; word(8) as usize];
        self.read(&mut body, serve);
        body
    }

    fn read(&mut self, mut room: &mut [u8], serve: &mut dyn FnMut()) {
        let until = Instant::now() + PATIENCE;
        while !room.is_empty() {
            serve();
            match self.stream.read(room) {
                Ok(0) => panic!("the device has closed the connection"),
                Ok(n) => room = &mut room[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    assert!(Instant::now() < until, "the device does not reply");
                    std::thread::sleep(Duration::from_micros(100));
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// True if the device has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 64]), Ok(0))
    }

    /// Writes a descriptor of a ring's table, or of an indirect one at `table`.
    pub fn describe(&self, table: u64, at: u16, buffer: (u64, u32), flags: u16, next: u16) {
        let mut raw = Vec::new();
        raw.extend(buffer.0.to_le_bytes());
        raw.extend(buffer.1.to_le_bytes());
        raw.extend(flags.to_le_bytes());
        raw.extend(next.to_le_bytes());
        self.memory.write_slice(&raw, GuestAddress(table + 16 * u64::from(at))).expect("own memory");
    }

    /// Makes a chain of a ring available.
    pub fn offer(&mut self, at: usize, head: u16) {
        let ring = &mut self.rings[at];
        let slot = u64::from(ring.avail % self.setup.size);
        self.memory.write_obj(head.to_le(), GuestAddress(ring.places[1] + 4 + 2 * slot)).expect("own memory");
        ring.avail = ring.avail.wrapping_add(1);
        let index = ring.avail;
        self.show(at, index);
    }

    /// Writes the index of used chains, of a ring that is stopped.
    pub fn memory_used(&mut self, at: usize, index: u16) {
        let place = GuestAddress(self.rings[at].places[2] + 2);
        self.memory.store(index.to_le(), place, Ordering::Release).expect("own memory");
    }

    /// Writes the index of available chains.
    pub fn show(&self, at: usize, index: u16) {
        let place = GuestAddress(self.rings[at].places[1] + 2);
        self.memory.store(index.to_le(), place, Ordering::Release).expect("own memory");
    }

    /// Tells the device of available chains, whether it wants to be told or not.
    pub fn kick(&self, at: usize) {
        rustix::io::write(&self.rings[at].kick, &1u64.to_ne_bytes()).expect("an event");
    }

    /// True if the device wants to be told of available chains (without events by index).
    #[must_use]
    pub fn wants_kicks(&self, at: usize) -> bool {
        let flags: u16 =
            self.memory.load(GuestAddress(self.rings[at].places[2]), Ordering::Acquire).expect("own memory");
        flags & 1 == 0
    }

    /// True if the device wants to be told of the chains from an index on.
    fn is_asked(&self, at: usize, from: u16) -> bool {
        // The guest has written its index, and now reads the wish of the device, which does both
        // the other way round.
        fence(Ordering::SeqCst);
        if self.setup.features & EVENT_IDX == 0 {
            return self.wants_kicks(at);
        }
        let ring = &self.rings[at];
        let place = GuestAddress(ring.places[2] + 4 + 8 * u64::from(self.setup.size));
        let event = u16::from_le(self.memory.load(place, Ordering::Acquire).expect("own memory"));
        // True if the event lies among the new ones (VIRTIO 1.2 section 2.7.10).
        ring.avail.wrapping_sub(event).wrapping_sub(1) < ring.avail.wrapping_sub(from)
    }

    /// Returns how often the device has told of used chains since the last call.
    pub fn called(&self, at: usize) -> u64 {
        let mut raw = [0; 8];
        match rustix::io::read(&self.rings[at].call, &mut raw) {
            Ok(8) => u64::from_ne_bytes(raw),
            _ => 0,
        }
    }

    /// Wants to be told once the device has used the chain of this index.
    pub fn await_used(&self, at: usize, index: u16) {
        if self.setup.features & EVENT_IDX != 0 {
            let ring = &self.rings[at];
            let place = GuestAddress(ring.places[1] + 4 + 2 * u64::from(self.setup.size));
            self.memory.store(index.to_le(), place, Ordering::Release).expect("own memory");
            fence(Ordering::SeqCst);
        }
    }

    /// Returns the address of a buffer of a ring.
    #[must_use]
    pub fn buffer(&self, at: usize, slot: u16) -> u64 {
        self.rings[at].buffers + u64::from(slot) * SEND_BYTES
    }

    /// Returns the number of chains that the device has.
    pub fn under_way(&mut self, at: usize) -> u16 {
        self.rings[at].avail.wrapping_sub(self.used_index(at))
    }

    fn used_index(&self, at: usize) -> u16 {
        let place = GuestAddress(self.rings[at].places[2] + 2);
        u16::from_le(self.memory.load(place, Ordering::Acquire).expect("own memory"))
    }

    /// Sends a frame by a pair, behind a header of 12 bytes; false if its ring is full. The frame
    /// lies in two buffers, or with [`INDIRECT`] in a table of its own.
    pub fn send(&mut self, pair: usize, header: [u8; 12], frame: &[u8]) -> bool {
        let at = 2 * pair + 1;
        if self.under_way(at) >= self.setup.size / 2 {
            return false;
        }
        // Two descriptors a frame, in order: the device gives them back in order.
        let slot = (self.rings[at].avail % (self.setup.size / 2)) * 2;
        let [first, second] = [self.buffer(at, slot), self.buffer(at, slot + 1)];
        self.memory.write_slice(&header, GuestAddress(first)).expect("own memory");
        self.memory.write_slice(frame, GuestAddress(second)).expect("own memory");
        let table = self.rings[at].places[0];
        let len = frame.len() as u32;
        if self.setup.features & INDIRECT != 0 {
            let indirect = first + 0x100;
            self.describe(indirect, 0, (first, 12), 1, 1);
            self.describe(indirect, 1, (second, len), 0, 0);
            self.describe(table, slot, (indirect, 32), 4, 0);
        } else {
            self.describe(table, slot, (first, 12), 1, slot + 1);
            self.describe(table, slot + 1, (second, len), 0, 0);
        }
        self.offer(at, slot);
        self.kick(at);
        true
    }

    /// Gives the device a command, and returns its answer.
    ///
    /// # Panics
    /// The device does not answer.
    pub fn command(&mut self, command: [u8; 2], pairs: u16, serve: &mut dyn FnMut()) -> u8 {
        let at = self.rings.len() - 1;
        let buffer = self.buffer(at, 0);
        let asked = [command, pairs.to_le_bytes()].concat();
        self.memory.write_slice(&asked, GuestAddress(buffer)).expect("own memory");
        let table = self.rings[at].places[0];
        self.describe(table, 0, (buffer, 4), 1, 1);
        self.describe(table, 1, (buffer + 16, 1), 2, 0);
        self.offer(at, 0);
        self.kick(at);
        serve();
        assert_eq!(self.under_way(at), 0, "the device answers");
        self.memory.read_obj(GuestAddress(buffer + 16)).expect("own memory")
    }

    /// Makes all buffers for frames to be received by a pair available.
    fn fill(&mut self, pair: usize) {
        for slot in 0..self.setup.size {
            self.post(pair, slot);
        }
        self.kick(2 * pair);
    }

    /// Makes one buffer for a frame to be received available.
    pub fn post(&mut self, pair: usize, slot: u16) {
        let at = 2 * pair;
        let buffer = (self.buffer(at, slot), self.setup.buffer);
        self.describe(self.rings[at].places[0], slot, buffer, 2, 0);
        self.offer(at, slot);
    }

    /// Receives a frame by a pair: its header, its bytes, and the number of its buffers, which are
    /// given to the device again. `None` if there is none.
    ///
    /// # Panics
    /// The device shows only a part of a frame.
    pub fn receive(&mut self, pair: usize) -> Option<([u8; 12], Vec<u8>, u16)> {
        let at = 2 * pair;
        let from = self.rings[at].avail;
        let (mut all, mut buffers, mut left) = (Vec::new(), 0, 1u16);
        while left > 0 {
            if self.used_index(at) == self.rings[at].used {
                assert_eq!(buffers, 0, "a frame in {left} more buffers is not there");
                return None;
            }
            let slot = u64::from(self.rings[at].used % self.setup.size);
            let place = GuestAddress(self.rings[at].places[2] + 4 + 8 * slot);
            let [id, len]: [u32; 2] = self.memory.read_obj(place).expect("own memory");
            let mut part = vec![0; len as usize];
            let head = id as u16;
            self.memory.read_slice(&mut part, GuestAddress(self.buffer(at, head))).expect("own memory");
            if buffers == 0 {
                left = u16::from_le_bytes([part[10], part[11]]);
            }
            all.extend(part);
            (left, buffers) = (left - 1, buffers + 1);
            self.rings[at].used = self.rings[at].used.wrapping_add(1);
            self.post(pair, head);
        }
        if !self.kicks_if_asked || self.is_asked(at, from) {
            self.kick(at);
        }
        let frame = all.split_off(12);
        Some((all.try_into().expect("12 bytes"), frame, buffers))
    }
}

fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
