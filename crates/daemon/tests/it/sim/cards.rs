//! Interfaces, and the sockets by which the daemon has them open: full, down, gone, and made again
//! under the same name.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use txweir_device::{Batch, Calls, Counters, FrameRef, Gso, IfName, Nic, Rest, Source, VnetHdr};

use super::conns::{ENODEV, ENXIO, errno};
use super::plan::Lie;
use super::world::{Shared, World};

/// Frames that wait in a socket before the kernel drops more.
const WAITING_MAX: usize = 96;
/// Frames that an interface takes before it is full.
const ROOM_MAX: usize = 64;
/// The beginning of the contents of a frame, and its place behind Ethernet, IPv4 and UDP.
const MAGIC: [u8; 4] = *b"simf";
const CONTENTS: usize = 42;

/// The names of the interfaces, each with the kind of its link.
pub const NAMES: [(&str, &str); 4] = [("ia", "packet"), ("ib", "packet"), ("ic", "packet"), ("it", "tap")];

/// All interfaces and sockets.
#[derive(Debug, Default)]
pub struct Cards {
    pub all: Vec<Card>,
    pub sockets: Vec<Socket>,
    /// The last number of each flow, by where it left and where it came in.
    left: BTreeMap<(usize, u8, u8), u64>,
}

/// An interface.
#[derive(Debug)]
pub struct Card {
    pub kind: &'static str,
    /// The number of times that it was made; it is there if that is odd.
    pub index: u64,
    pub up: bool,
    /// Frames that it takes before it is full.
    pub room: usize,
    /// The next number of each flow that comes in.
    next: [u64; FLOWS],
    /// A frame that is held back to leave behind the next.
    held: Option<Vec<u8>>,
}

/// Flows that come in by each interface.
const FLOWS: usize = 4;

impl Card {
    pub const fn is_there(&self) -> bool {
        self.index % 2 == 1
    }
}

/// A socket that the daemon has opened.
#[derive(Debug)]
pub struct Socket {
    pub card: usize,
    index: u64,
    waiting: VecDeque<(VnetHdr, Vec<u8>)>,
    counters: Counters,
    pub is_open: bool,
    /// True for the first of a link: a closed one if the link waited for its interface.
    pub is_first: bool,
}

impl Cards {
    pub fn new() -> Self {
        let card = |(_, kind): &(&str, &'static str)| Card {
            kind,
            index: 1,
            up: true,
            room: ROOM_MAX,
            next: [0; FLOWS],
            held: None,
        };
        Self { all: NAMES.iter().map(card).collect(), ..Self::default() }
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        NAMES.iter().position(|(known, _)| *known == name)
    }

    pub fn open(&mut self, card: usize) -> usize {
        let index = self.all[card].index;
        let (waiting, counters) = (VecDeque::new(), Counters::default());
        self.sockets.push(Socket { card, index, waiting, counters, is_open: true, is_first: false });
        self.sockets.len() - 1
    }

    /// Notes that a link was made: over the socket that was opened for it, or waiting for one.
    pub fn begin(&mut self, card: usize) {
        let last = self.sockets.iter_mut().rfind(|socket| socket.card == card);
        match last.filter(|socket| socket.is_open && !socket.is_first) {
            Some(socket) => socket.is_first = true,
            None => {
                let (waiting, counters) = (VecDeque::new(), Counters::default());
                let index = self.all[card].index;
                self.sockets.push(Socket { card, index, waiting, counters, is_open: false, is_first: true });
            }
        }
    }

    /// Returns the frames that all sockets of the present link of a card were given, and those that
    /// they took.
    pub fn passed(&self, card: usize) -> [u64; 2] {
        let mut sums = [0; 2];
        for socket in self.sockets.iter().rev().filter(|socket| socket.card == card) {
            sums[0] += self.told(socket).rx_seen;
            sums[1] += socket.counters.tx_frames;
            if socket.is_first {
                break;
            }
        }
        sums
    }

    /// Returns the counters of a socket as the kernel tells them: the frames that wait for a TAP
    /// device are not known.
    fn told(&self, socket: &Socket) -> Counters {
        let mut counters = socket.counters;
        if self.all[socket.card].kind == "tap" {
            counters.rx_seen = counters.rx_frames + counters.rx_lost();
        }
        counters
    }

    /// Returns the number of frames that wait for the daemon and are known to.
    pub fn waiting(&self, card: usize) -> u64 {
        let mut open = self.sockets.iter().filter(|socket| socket.card == card && socket.is_open);
        let known = self.all[card].kind != "tap";
        open.next().filter(|_| known).map_or(0, |socket| socket.waiting.len() as u64)
    }

    /// True if a socket is not what its interface is now.
    fn is_dead(&self, socket: usize) -> bool {
        let socket = &self.sockets[socket];
        self.all[socket.card].index != socket.index
    }

    /// Returns whether a socket has something to read, and whether it takes frames.
    pub fn ready(&self, socket: usize) -> [bool; 2] {
        let dead = self.is_dead(socket);
        let socket = &self.sockets[socket];
        [dead || !socket.waiting.is_empty(), dead || self.all[socket.card].room > 0]
    }

    /// Forgets the sockets that were closed before the present links.
    pub fn forget(&mut self) {
        self.sockets.clear();
        self.left.clear();
        self.all.iter_mut().for_each(|card| card.held = None);
    }
}

impl World {
    /// Lets a frame come in by an interface.
    pub fn arrive(&mut self, card: usize) {
        let flow = self.rng.below(FLOWS as u64) as usize;
        let number = self.cards.all[card].next[flow];
        self.cards.all[card].next[flow] += 1;
        let is_there = self.cards.all[card].is_there() && self.cards.all[card].up;
        let Some(at) = self.cards.sockets.iter().rposition(|s| s.card == card && s.is_open) else { return };
        if !is_there || self.cards.is_dead(at) {
            return;
        }
        let (hdr, frame) = match self.plan.gso && self.once_in(16) {
            // Of segments of 8 bytes a long frame has more than any may have.
            true => super_frame(self.between(1449, 20_000) as usize, if self.once_in(4) { 8 } else { 1448 }),
            false => {
                let size = [60, 90, 300, 1000, 1514][self.rng.below(5) as usize];
                (VnetHdr::default(), udp(card as u8, flow as u8, number, size))
            }
        };
        self.facts.frames_in += 1;
        let broken = self.once_in(200);
        let vanishes = self.lies(Lie::FrameLost);
        let socket = &mut self.cards.sockets[at];
        socket.counters.rx_seen += 1;
        match broken {
            _ if vanishes => {}
            true => socket.counters.rx_refused += 1,
            false if socket.waiting.len() >= WAITING_MAX => socket.counters.rx_missed += 1,
            false => socket.waiting.push_back((hdr, frame)),
        }
    }

    /// Makes an interface anew, or removes it.
    pub fn toggle(&mut self, card: usize) {
        let card = &mut self.cards.all[card];
        card.index += 1;
        card.room = ROOM_MAX;
        card.up = true;
        card.held = None;
        let there = card.is_there();
        *(if there { &mut self.facts.back } else { &mut self.facts.gone }) += 1;
    }

    /// Lets an interface finish some frames.
    pub fn finish(&mut self, card: usize) {
        if self.lie == Some(Lie::RoomUntold) && self.steps > 2_000 {
            return;
        }
        let n = self.between(1, 32) as usize;
        let room = &mut self.cards.all[card].room;
        *room = (*room + n).min(ROOM_MAX);
    }

    /// Checks a frame that leaves by an interface: it is what came in, and in the order of its
    /// flow.
    fn leaves(&mut self, card: usize, frame: &[u8]) {
        self.facts.frames_out += 1;
        let at = |from: usize, n: usize| frame.get(CONTENTS + from..CONTENTS + from + n);
        let (Some(magic), Some(&[from, flow]), Some(number)) = (at(0, 4), at(4, 2), at(6, 8)) else { return };
        if magic != MAGIC || self.plan.filters {
            return;
        }
        let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
        assert_eq!(frame, udp(from, flow, number, frame.len()), "a frame left with other bytes");
        self.facts.ordered += 1;
        let before = self.cards.left.insert((card, from, flow), number);
        assert!(
            before.is_none_or(|before| before < number),
            "frame {number} of flow {flow} of {} left by {} behind frame {before:?}",
            NAMES[usize::from(from)].0,
            NAMES[card].0
        );
    }
}

/// Returns a frame of a flow, with its number.
fn udp(card: u8, flow: u8, number: u64, size: usize) -> Vec<u8> {
    let length = |n: usize| u16::try_from(n).expect("a length").to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(length(size - 14));
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, card, 1, 10, 0, 0, flow + 1]);
    frame.extend([4, 0, 0, 9]);
    frame.extend(length(size - 34));
    frame.extend([0, 0]);
    frame.extend(MAGIC);
    frame.extend([card, flow]);
    frame.extend(number.to_le_bytes());
    frame.resize(size, flow);
    frame
}

/// Returns a super-frame of TCP with a payload and segments of these lengths.
fn super_frame(payload: usize, gso_size: u16) -> (VnetHdr, Vec<u8>) {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(u16::try_from(40 + payload).expect("a length").to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    frame.resize(54 + payload, 7);
    let gso = Gso::TcpV4;
    let hdr =
        VnetHdr { needs_csum: true, gso, gso_size, csum_start: 34, csum_offset: 16, ..VnetHdr::default() };
    (hdr, frame)
}

/// An interface as a link has it.
#[derive(Debug)]
pub struct Port {
    pub world: Shared,
    pub socket: usize,
    pub name: IfName,
    /// Only there because a port has one: nothing waits for it.
    pub fd: std::fs::File,
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        if let Some(socket) = world.cards.sockets.get_mut(self.socket) {
            socket.is_open = false;
            socket.waiting.clear();
        }
    }
}

impl Source for Port {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let mut world = self.world.lock();
        world.spins = 0;
        if world.cards.is_dead(self.socket) {
            return Err(errno(ENODEV));
        }
        let socket = &mut world.cards.sockets[self.socket];
        let Some((hdr, frame)) = socket.waiting.pop_front() else { return Ok(None) };
        room[..frame.len()].copy_from_slice(&frame);
        socket.counters.rx_frames += 1;
        socket.counters.rx_bytes += frame.len() as u64;
        Ok(Some((hdr, frame.len())))
    }
}

impl Nic for Port {
    fn kind(&self) -> &'static str {
        let world = self.world.lock();
        world.cards.all[world.cards.sockets[self.socket].card].kind
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    fn counters(&mut self) -> Counters {
        let world = self.world.lock();
        world.cards.told(&world.cards.sockets[self.socket])
    }
    fn is_up(&self) -> io::Result<bool> {
        let world = self.world.lock();
        match world.cards.is_dead(self.socket) {
            true => Err(errno(ENODEV)),
            false => Ok(world.cards.all[world.cards.sockets[self.socket].card].up),
        }
    }
    fn mtu(&self) -> io::Result<usize> {
        self.is_up().map(|_| 1500)
    }
}

impl Calls for Port {
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch {
        let mut world = self.world.lock();
        let world = &mut *world;
        world.spins = 0;
        let mut done = Batch { taken: 0, lost: 0, rest: Rest::None };
        let at = world.cards.sockets[self.socket].card;
        for frame in frames {
            if world.cards.is_dead(self.socket) {
                done.rest = Rest::Gone(errno(ENXIO));
                break;
            }
            let faulty = world.plan.cards && !world.calm && world.once_in(300);
            if faulty || !world.cards.all[at].up {
                // ENOBUFS and ENOMEM, or ENETDOWN.
                let counters = &mut world.cards.sockets[self.socket].counters;
                *(if faulty { &mut counters.tx_lost_buffer } else { &mut counters.tx_lost_down }) += 1;
                world.facts.lost_sends += 1;
                done.lost += 1;
                continue;
            }
            if world.cards.all[at].room == 0 {
                world.facts.full_sends += 1;
                done.rest = Rest::Full;
                break;
            }
            world.cards.all[at].room -= 1;
            world.cards.sockets[self.socket].counters.tx_frames += 1;
            done.taken += 1;
            world.note(2, &frame.bytes[..frame.bytes.len().min(64)]);
            // Only a frame with a number shows that it left twice, or behind its successor.
            let numbered = frame.bytes.get(CONTENTS..CONTENTS + 4) == Some(&MAGIC[..]);
            if numbered && world.lies(Lie::FramesSwapped) {
                world.cards.all[at].held = Some(frame.bytes.to_vec());
                continue;
            }
            world.leaves(at, frame.bytes);
            if numbered && world.lies(Lie::FrameTwice) {
                world.leaves(at, frame.bytes);
            }
            let same_flow =
                |held: &Vec<u8>| held.get(CONTENTS..CONTENTS + 6) == frame.bytes.get(CONTENTS..CONTENTS + 6);
            if world.cards.all[at].held.as_ref().is_some_and(same_flow)
                && let Some(held) = world.cards.all[at].held.take()
            {
                world.leaves(at, &held);
            }
        }
        done
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
