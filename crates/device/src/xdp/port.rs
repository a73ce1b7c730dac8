//! `Port`: the sockets of an interface, the memory that they share, and the frames under way.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use txweir_core::Nanos;
use txweir_core::path::device::Completed;

use crate::backend::{Fates, Finished};
use crate::counters::Counters;
use crate::error::OpenCause;
use crate::frame::{FrameRef, MAX_FRAME, SKIP_MAX};
use crate::iface::{Control, Found};
use crate::name::IfName;
use crate::segment::{Segmenter, complete_checksum, left_undone};
use crate::sys;
use crate::sys::bpf::Program;
use crate::sys::xsk::{Card, CardConfig, Chunk, Part};
use crate::vnet::VnetHdr;
use crate::xdp::XdpOptions;

/// Bytes that the kernel keeps free ahead of a frame that comes in (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Bytes of Ethernet header with two tags.
const LINK_HEADER: usize = 14 + 2 * 4;
/// Most queues of an interface that are opened. Each has four rings and its chunks.
const QUEUES_MAX: u32 = 64;
/// Frames received by a queue after which the kernel gets their chunks back at once.
const SETTLE_AFTER: u32 = 32;
/// The least and the longest time after which frames under way are looked at again. A card reports
/// after some microseconds; one that is down, or stopped by its peer, may take any time.
const PATIENCE: [Nanos; 2] = [Nanos::from_micros(50), Nanos::from_millis(5)];
/// Free chunks below which the completions are looked at before a frame is loaded: a super-frame of
/// 64 KiB has fewer segments.
const SEGMENTS_LOW: usize = 64;
/// No frame: the chunk is not under way.
const NOTHING: u32 = u32::MAX;
/// A segment that is not the last one of its frame: its completion ends none.
const MIDDLE: u32 = u32::MAX - 1;
/// A segment of a frame that was given up: its completion, if it comes, ends no frame.
const ABANDONED: u32 = u32::MAX - 2;

/// Most chunks of a frame that the kernel takes: the parts of a socket buffer (`MAX_SKB_FRAGS`).
const PARTS_MAX: usize = 17;

/// The result of loading a frame into the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// The rings have all of it.
    All,
    /// The rings have no room for it now, and none of it.
    Full,
    /// The rings will never take it: it is lost, and counted.
    Refused,
}

/// The sockets of an interface.
#[derive(Debug)]
pub struct Port {
    /// Off the interface before the sockets close, where the port has all of them.
    program: Arc<Program>,
    card: Card,
    /// Chunks for frames to be sent.
    free: Vec<Chunk>,
    /// By chunk: the bytes on the wire of the frame that it ends, which are below [`ABANDONED`], or
    /// one of the words above.
    ends: Box<[u32]>,
    /// Chunks under way.
    under_way: usize,
    /// Those among them whose frames were given up.
    abandoned: usize,
    /// By queue: true if frames were loaded, or left over, since its doorbell was rung.
    news: Box<[bool]>,
    /// True if the kernel left frames in a ring that only another doorbell sends.
    stuck: bool,
    /// Looks in a row that found no report.
    in_vain: u32,
    /// By queue: frames received since the kernel got chunks back.
    unsettled: Box<[u32]>,
    /// The queue from which the next frame is received.
    turn: usize,
    /// True if the last look found no frame at all.
    quiet: bool,
    receive_queues: usize,
    transmit_queues: usize,
    chunk: usize,
    /// Most chunks of a frame.
    parts_max: usize,
    /// Where the sum of a frame of several chunks is completed; empty without such frames.
    whole: Box<[u8]>,
    /// True if frames may come in with a checksum that was left undone.
    completes: bool,
    finished: Finished,
    counters: Counters,
    control: Control,
    name: IfName,
    index: u32,
    /// Readable when an XDP socket has frames, or the watch has an error.
    poll: OwnedFd,
    /// Keeps the interface promiscuous, and has an error when it goes down or disappears. An XDP
    /// socket does not wake its owner then.
    watch: OwnedFd,
}

impl Port {
    /// Opens an interface in the network namespace of the calling thread.
    pub(super) fn open(name: &IfName, options: &XdpOptions) -> Result<Self, OpenCause> {
        Self::open_all(name, options, 1)?.pop().ok_or(OpenCause::Missing)
    }

    /// Opens an interface as up to `most` ports, but not more than it has queues: each port has the
    /// sockets of its part of the queues, in turns, over memory of its own.
    pub(super) fn open_all(name: &IfName, options: &XdpOptions, most: usize) -> Result<Vec<Self>, OpenCause> {
        if !options.ring.is_power_of_two() || !(64..=32_768).contains(&options.ring) {
            return Err(OpenCause::system("size the rings of", Errno::INVAL));
        }
        let asked = |what| move |errno| OpenCause::system(what, errno);
        let control = Control::open().map_err(asked("open a socket for"))?;
        let index = control.index(name).map_err(asked("look up"))?.ok_or(OpenCause::Missing)?;
        if !control.is_ethernet(name).map_err(asked("look up the type of"))? {
            return Err(OpenCause::NotEthernet);
        }
        let mtu = control.mtu(name).map_err(asked("look up the MTU of"))?;
        let needed = mtu + LINK_HEADER + HEADROOM;
        let chunk = if needed <= 2048 { 2048 } else { 4096 };
        let [receive, transmit] = control.queues(name).map_err(asked("look up the queues of"))?;
        let queues = receive.max(transmit).clamp(1, QUEUES_MAX);
        let completes = match control.kind(name).map_err(asked("look up the driver of"))? {
            Found::Other { driver } => driver == "veth",
            Found::Tap | Found::Tun => false,
        };
        // Each part sends and receives, so there are not more than the fewer of both.
        let parts = u32::try_from(most).unwrap_or(u32::MAX).clamp(1, receive.min(transmit).clamp(1, queues));
        let (mut cards, mut parts_max) = (Vec::new(), 1);
        for first in 0..parts {
            // The queues `first`, `first + parts`, ... below `queues`.
            let queues = (queues - first).div_ceil(parts);
            let mut config = CardConfig {
                interface: index,
                first,
                step: parts,
                queues,
                // Half of the chunks wait in the rings for frames that come in.
                chunks: queues * options.ring * 2,
                chunk: chunk as u32, // 2048 or 4096
                ring: options.ring,
                mode: options.mode,
                spread: needed > chunk,
            };
            let card = match opened(&config) {
                // A kernel or a driver without frames in several buffers has the shorter ones.
                Err(OpenCause::System { error, .. }) if config.spread && is_unknown(&error) => {
                    config.spread = false;
                    opened(&config)?
                }
                card => card?,
            };
            parts_max = if config.spread { PARTS_MAX } else { 1 };
            cards.push(card);
        }
        let sockets: Vec<_> = (0..queues)
            .filter_map(|queue| {
                let (card, _) = &cards[(queue % parts) as usize];
                card.sockets().nth((queue / parts) as usize)
            })
            .collect();
        let program = Program::redirect(index, sockets.into_iter()).map_err(refused)?;
        let program = Arc::new(program);
        let mut all = Vec::new();
        for (first, (card, free)) in (0..parts).zip(cards) {
            let watch = watch(index).map_err(refused)?;
            let poll = gathered(&card, &watch).map_err(asked("wait for the sockets of"))?;
            let of = |all: u32| all.min(queues).saturating_sub(first).div_ceil(parts) as usize;
            all.push(Self {
                program: Arc::clone(&program),
                ends: vec![NOTHING; card.queues() * options.ring as usize * 2].into(),
                under_way: 0,
                abandoned: 0,
                news: vec![false; card.queues()].into(),
                stuck: false,
                in_vain: 0,
                unsettled: vec![0; card.queues()].into(),
                turn: 0,
                quiet: false,
                receive_queues: of(receive),
                transmit_queues: of(transmit),
                chunk,
                parts_max,
                whole: vec![0; if parts_max > 1 { MAX_FRAME } else { 0 }].into(),
                completes,
                finished: Finished::default(),
                counters: Counters::default(),
                control: Control::open().map_err(asked("open a socket for"))?,
                name: name.clone(),
                index,
                poll,
                watch,
                free,
                card,
            });
        }
        Ok(all)
    }

    pub(super) fn mode(&self) -> &'static str {
        match (self.card.is_zero_copy(), self.program.is_generic()) {
            (true, _) => "zero copy",
            (false, false) => "copies, in the driver",
            (false, true) => "copies, ahead of the stack",
        }
    }
    pub(super) const fn transmit_queues(&self) -> usize {
        self.transmit_queues
    }
    /// True if the kernel has frames that were not given up.
    pub(super) const fn is_awaited(&self) -> bool {
        self.under_way > self.abandoned
    }
    pub(super) const fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Returns the time after which frames under way are looked at again.
    pub(super) fn patience(&self) -> Nanos {
        Nanos(PATIENCE[0].0.saturating_mul(u64::from(1 + self.in_vain / 16))).min(PATIENCE[1])
    }

    /// Returns the chunks for frames to be sent.
    pub(super) const fn free_mut(&mut self) -> &mut Vec<Chunk> {
        &mut self.free
    }

    /// Returns the ring for a queue of the path.
    fn ring_of(&self, queue: u16) -> usize {
        usize::from(queue) % self.transmit_queues.max(1)
    }

    /// Puts a complete frame of the first `len` bytes of a chunk into the transmit ring of its
    /// queue. Gives the chunk back if there is no room.
    pub(super) fn load_chunk(
        &mut self,
        chunk: Chunk,
        len: usize,
        ends: u32,
        queue: u16,
    ) -> Result<(), Chunk> {
        if !self.card.owns(&chunk) {
            // The memory of another interface, which would never find room here.
            self.refuse(ends);
            return Ok(());
        }
        let put = self.put(self.ring_of(queue), chunk, len, (ends, false));
        match &put {
            Ok(()) => self.counters.taken(&VnetHdr::default(), len),
            Err(_) => self.counters.tx_full += 1,
        }
        put
    }

    /// Puts the first `len` bytes of a chunk into a ring. `ends`: the bytes on the wire of the
    /// frame that it ends, and whether the next chunk goes on with the same frame. Gives the chunk
    /// back if there is no room.
    fn put(&mut self, queue: usize, chunk: Chunk, len: usize, ends: (u32, bool)) -> Result<(), Chunk> {
        let (index, (ends, more)) = (chunk.index(), ends);
        self.card.transmit(queue, chunk, len, more)?;
        (self.ends[index], self.news[queue]) = (ends, true);
        self.under_way += 1;
        Ok(())
    }

    /// Copies a frame into the transmit ring of its queue, complete and in segments.
    pub(super) fn load(&mut self, frame: &FrameRef<'_>, wire_len: u32, queue: u16) -> Loaded {
        let queue = self.ring_of(queue);
        if self.free.len() < SEGMENTS_LOW {
            self.collect();
        }
        let loaded = if frame.hdr.is_gso() {
            self.load_segments(frame, wire_len, queue)
        } else {
            self.load_whole(frame, wire_len, queue)
        };
        match loaded {
            Loaded::All => self.counters.taken(&frame.hdr, frame.bytes.len()),
            Loaded::Full => self.counters.tx_full += 1,
            Loaded::Refused => self.refuse(wire_len),
        }
        loaded
    }

    /// Returns the number of chunks of so many bytes; `None` if the interface does not take that
    /// many for a frame.
    fn parts(&self, len: usize) -> Option<usize> {
        Some(len.div_ceil(self.chunk)).filter(|parts| (1..=self.parts_max).contains(parts))
    }

    fn load_whole(&mut self, frame: &FrameRef<'_>, wire_len: u32, queue: usize) -> Loaded {
        let len = frame.bytes.len();
        let Some(parts) = self.parts(len) else { return Loaded::Refused };
        if !self.card.has_room(queue, parts) || self.free.len() < parts {
            return Loaded::Full;
        }
        if parts > 1 {
            return self.load_long(frame, wire_len, queue);
        }
        let Some(mut chunk) = self.free.pop() else { return Loaded::Full };
        let bytes = &mut chunk.bytes_mut()[..len];
        bytes.copy_from_slice(frame.bytes);
        if complete_checksum(&mut frame.hdr.clone(), bytes).is_err() {
            self.free.push(chunk);
            return Loaded::Refused;
        }
        if let Err(chunk) = self.put(queue, chunk, len, (wire_len, false)) {
            self.free.push(chunk);
            return Loaded::Full;
        }
        Loaded::All
    }

    /// Copies a frame into several chunks, for which there is room.
    fn load_long(&mut self, frame: &FrameRef<'_>, wire_len: u32, queue: usize) -> Loaded {
        // The sum is completed ahead of the chunks.
        let mut whole = std::mem::take(&mut self.whole);
        let mut loaded = Loaded::Refused;
        if let Some(bytes) = whole.get_mut(..frame.bytes.len()) {
            bytes.copy_from_slice(frame.bytes);
            if complete_checksum(&mut frame.hdr.clone(), bytes).is_ok() {
                self.spread(bytes, wire_len, queue);
                loaded = Loaded::All;
            }
        }
        self.whole = whole;
        loaded
    }

    fn load_segments(&mut self, frame: &FrameRef<'_>, wire_len: u32, queue: usize) -> Loaded {
        let Ok(mut cut) = Segmenter::new(&frame.hdr, frame.bytes) else { return Loaded::Refused };
        let Some(parts) = self.parts(cut.longest()) else { return Loaded::Refused };
        let segments = cut.segments();
        let chunks = segments * parts;
        if chunks > self.ends.len() / 2 / self.card.queues() {
            return Loaded::Refused;
        }
        if !self.card.has_room(queue, chunks) || self.free.len() < chunks {
            return Loaded::Full;
        }
        let mut whole = std::mem::take(&mut self.whole);
        for at in 1..=segments {
            let ends = if at == segments { wire_len } else { MIDDLE };
            // The segmenter has checked the frame, there is room for its longest segment, and the
            // ring has room for all.
            if parts > 1 {
                if let Ok(Some(len)) = cut.next_into(frame.bytes, &mut whole) {
                    self.spread(&whole[..len], ends, queue);
                }
                continue;
            }
            let Some(mut chunk) = self.free.pop() else { break };
            let put = match cut.next_into(frame.bytes, chunk.bytes_mut()) {
                Ok(Some(len)) => self.put(queue, chunk, len, (ends, false)),
                Ok(None) | Err(_) => Err(chunk),
            };
            if let Err(chunk) = put {
                self.free.push(chunk);
            }
        }
        self.whole = whole;
        Loaded::All
    }

    /// Copies the bytes of a frame into as many chunks as they take, for which there is room.
    fn spread(&mut self, bytes: &[u8], ends: u32, queue: usize) {
        let parts = bytes.len().div_ceil(self.chunk);
        for (at, part) in (1..).zip(bytes.chunks(self.chunk)) {
            let Some(mut chunk) = self.free.pop() else { break };
            chunk.bytes_mut()[..part.len()].copy_from_slice(part);
            let ends = if at == parts { (ends, false) } else { (MIDDLE, true) };
            if let Err(chunk) = self.put(queue, chunk, part.len(), ends) {
                self.free.push(chunk);
            }
        }
    }

    /// Counts a frame that is lost here.
    pub(super) fn lose(&mut self, wire_len: u32) {
        self.finished.add(wire_len, false);
    }
    /// Counts a frame that the interface cannot carry.
    pub(super) fn refuse(&mut self, wire_len: u32) {
        self.counters.tx_lost_refused += 1;
        self.lose(wire_len);
    }

    /// Lets the kernel send the frames that were loaded.
    ///
    /// # Errors
    /// The interface is gone.
    pub(super) fn ring(&mut self) -> Result<(), Errno> {
        self.stuck = false;
        for queue in 0..self.transmit_queues {
            if self.news[queue] {
                self.news[queue] = self.ring_one(queue)?;
                self.stuck |= self.news[queue];
            }
        }
        Ok(())
    }

    /// Lets the kernel send the frames of a queue. Returns true if it waits for another call.
    fn ring_one(&mut self, queue: usize) -> Result<bool, Errno> {
        let mut before = u32::MAX;
        loop {
            self.counters.tx_calls += 1;
            let (waiting, sent) = self.card.ring(queue);
            match sent {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                // The peer, or the memory of the socket, has no room; or the interface is down.
                Err(Errno::BUSY | Errno::NOBUFS | Errno::NETDOWN) => {}
                Err(errno) => return Err(errno),
            }
            // The loop is bounded: each round takes at least one frame off the ring.
            if waiting == 0 || waiting >= before {
                let stuck = waiting > 0 && self.card.needs_call(queue);
                self.counters.tx_full += u64::from(stuck);
                return Ok(stuck);
            }
            before = waiting;
        }
    }

    /// Takes the chunks of frames that were sent.
    pub(super) fn collect(&mut self) {
        let before = self.under_way;
        for queue in 0..if before > 0 { self.transmit_queues } else { 0 } {
            while let Some(chunk) = self.card.complete(queue) {
                self.under_way = self.under_way.saturating_sub(1);
                match std::mem::replace(&mut self.ends[chunk.index()], NOTHING) {
                    NOTHING | MIDDLE => {}
                    ABANDONED => self.abandoned = self.abandoned.saturating_sub(1),
                    wire_len => self.finished.add(wire_len, true),
                }
                self.free.push(chunk);
            }
            self.card.settle_complete(queue);
        }
        self.in_vain = if self.under_way < before { 0 } else { self.in_vain.saturating_add(1) };
    }

    /// Reports the frames that were sent.
    pub(super) fn reap<F>(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        self.collect();
        self.finished.reap(sink);
    }

    pub(super) fn take_fates(&mut self) -> Fates {
        self.finished.take_fates()
    }

    /// Loses the frames under way. Their chunks are the kernel's until it reports them, if it ever
    /// does; such a report ends no frame.
    pub(super) fn abandon(&mut self) {
        for ends in self.ends.iter_mut().filter(|ends| **ends != NOTHING) {
            let wire_len = std::mem::replace(ends, ABANDONED);
            if wire_len < ABANDONED {
                self.finished.add(wire_len, false);
            }
        }
        (self.abandoned, self.stuck) = (self.under_way, false);
    }

    /// Copies the next frame that came in into `room`.
    ///
    /// # Errors
    /// `ENODEV`: the interface is gone.
    pub(super) fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        for _ in 0..self.receive_queues {
            let queue = self.turn;
            for _ in 0..SKIP_MAX {
                let Some(len) = self.take(queue, room) else { break };
                let fits = len <= room.len();
                if fits {
                    let undone = self.completes.then(|| left_undone(&room[..len])).flatten();
                    let hdr = undone.unwrap_or_default();
                    self.quiet = false;
                    self.counters.received(&hdr, len);
                    return Ok(Some((hdr, len)));
                }
                self.counters.rx_oversize += 1;
            }
            self.settle(queue);
            self.turn = (queue + 1) % self.receive_queues.max(1);
        }
        // An interface that is ready and has no frame may have an error to tell.
        if std::mem::replace(&mut self.quiet, true) && sockopt::socket_error(&self.watch)?.is_err() {
            self.control.name_of(self.index)?;
        }
        Ok(None)
    }

    /// Copies the parts of the next frame of a queue to the front of `room`, as far as they fit,
    /// and offers the kernel their chunks again. Returns the length of the frame; `None` if there
    /// is none.
    fn take(&mut self, queue: usize, room: &mut [u8]) -> Option<usize> {
        let mut len = 0;
        // Bound: the parts of a frame, of which the ring has no more than its slots.
        while let Some(Part { chunk, place, more }) = self.card.receive(queue) {
            let bytes = &chunk.bytes()[place];
            if let Some(room) = room.get_mut(len..).and_then(|room| room.get_mut(..bytes.len())) {
                room.copy_from_slice(bytes);
            }
            len += bytes.len();
            if let Err(chunk) = self.card.offer(queue, chunk) {
                self.free.push(chunk);
            }
            self.unsettled[queue] += 1;
            if self.unsettled[queue] >= SETTLE_AFTER {
                self.settle(queue);
            }
            if !more {
                return Some(len);
            }
        }
        None
    }

    /// Gives the chunks of received frames back to the kernel.
    fn settle(&mut self, queue: usize) {
        if std::mem::take(&mut self.unsettled[queue]) > 0 {
            self.card.settle_receive(queue);
        }
    }

    pub(super) const fn name(&self) -> &IfName {
        &self.name
    }

    /// Returns the tallies, with the frames that the kernel dropped ahead of the sockets.
    pub(super) fn counters(&mut self) -> Counters {
        let all = self.card.statistics();
        let missed = all.iter().map(|s| s.rx_dropped + s.rx_ring_full.unwrap_or(0)).sum();
        self.counters.rx_missed = missed;
        self.counters.rx_seen = self.counters.rx_frames + self.counters.rx_lost();
        self.counters
    }
    pub(super) fn is_up(&self) -> io::Result<bool> {
        Ok(self.control.is_up(&self.control.name_of(self.index)?)?)
    }
    pub(super) fn mtu(&self) -> io::Result<usize> {
        Ok(self.control.mtu(&self.control.name_of(self.index)?)?)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

/// Opens the sockets of a card and offers the kernel chunks for frames that come in. Returns the
/// other chunks.
fn opened(config: &CardConfig) -> Result<(Card, Vec<Chunk>), OpenCause> {
    let memory = config.chunks as usize * config.chunk as usize;
    let (mut card, mut free) = Card::open(config).map_err(|failed| match failed {
        (_, Errno::NOBUFS) => OpenCause::XdpMemory(memory),
        failed => refused(failed),
    })?;
    for queue in 0..card.queues() {
        for _ in 0..config.ring {
            if let Some(Err(chunk)) = free.pop().map(|chunk| card.offer(queue, chunk)) {
                free.push(chunk);
            }
        }
        card.settle_receive(queue);
    }
    Ok((card, free))
}

/// True for the error of a kernel or a driver that does not know a request.
fn is_unknown(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP))
}

/// Returns the reason for which a step was refused.
fn refused((what, errno): (&'static str, Errno)) -> OpenCause {
    match errno {
        Errno::PERM | Errno::ACCESS => OpenCause::XdpDenied,
        // The program's place is taken, or a queue has another socket.
        Errno::BUSY => OpenCause::XdpBusy,
        Errno::AFNOSUPPORT => OpenCause::NoXdp,
        errno => OpenCause::system(what, errno),
    }
}

/// Makes the interface receive frames for any address while the descriptor is open, and watches it.
fn watch(index: u32) -> Result<OwnedFd, (&'static str, Errno)> {
    /// A reserved Ethernet type (IEEE 802), which no frame has: the socket receives nothing.
    const RESERVED: u16 = 0xffff;
    let failed = |errno| ("receive all frames of", errno);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(failed)?;
    sys::packet_bind(fd.as_fd(), index, RESERVED).map_err(failed)?;
    sys::packet_promiscuous(fd.as_fd(), index).map_err(failed)?;
    Ok(fd)
}

/// Returns a descriptor that is readable when any socket of the card is, or the watch has an error.
fn gathered(card: &Card, watch: &OwnedFd) -> Result<OwnedFd, Errno> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, watch, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::ERR)?;
    for (at, socket) in (0u64..).zip(card.sockets()) {
        epoll::add(&poll, socket, epoll::EventData::new_u64(at), epoll::EventFlags::IN)?;
    }
    Ok(poll)
}
