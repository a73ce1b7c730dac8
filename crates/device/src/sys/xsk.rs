//! AF_XDP sockets (Documentation/networking/af_xdp.rst): an area of memory that is shared with the
//! kernel, cut into chunks, and the four rings of a socket.
//!
//! A [`Chunk`] is to its piece of the area as a `Box<[u8]>` is to its memory: one value for each
//! piece, and no copies. A chunk that the kernel has is inside its [`Card`], where no reference to
//! its bytes can be taken, until the kernel names it again. So safe code never reads bytes that the
//! kernel writes.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpOptionsFlags,
    XdpRingOffset, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with, sockopt};

/// `XDP_MAX_TX_SKB_BUDGET` (linux/if_xdp.h, since 6.18): most descriptors that a call sends.
const TX_BUDGET: libc::c_int = 9;

/// Memory that is mapped into this process.
#[derive(Debug)]
struct Map {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a map is an address and a length; its bytes are reached only by the chunks and rings that
// own parts of it, under their own rules.
unsafe impl Send for Map {}
// SAFETY: as above; a shared map gives no access to its bytes.
unsafe impl Sync for Map {}

impl Map {
    /// Maps zeroed memory.
    fn anonymous(len: usize) -> Result<Self, Errno> {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        Self::of(unsafe { mmap_anonymous(ptr::null_mut(), len, rights, flags) }?, len)
    }

    /// Maps a ring of a socket.
    fn ring(fd: BorrowedFd<'_>, len: usize, offset: u64) -> Result<Self, Errno> {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        Self::of(unsafe { mmap(ptr::null_mut(), len, rights, flags, fd, offset) }?, len)
    }

    fn of(at: *mut libc::c_void, len: usize) -> Result<Self, Errno> {
        Ok(Self { at: NonNull::new(at.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// Returns the address of a `T` inside; `None` if it would not lie wholly inside, or is not
    /// aligned.
    fn inside<T>(&self, offset: u64, count: usize) -> Option<NonNull<T>> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(size_of::<T>().checked_mul(count)?)?;
        // SAFETY: offset is at most the length of the map.
        let at = (end <= self.len).then(|| unsafe { self.at.add(offset) })?;
        at.cast::<T>().is_aligned().then(|| at.cast())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value, whose owners are gone. The call fails only
        // for a wrong range.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// A piece of an area, which this value alone owns.
#[derive(Debug)]
pub struct Chunk {
    area: Arc<Map>,
    index: u32,
    size: u32,
}

impl Chunk {
    /// Returns its number in the area.
    pub(crate) const fn index(&self) -> usize {
        self.index as usize
    }
    fn start(&self) -> usize {
        self.index as usize * self.size as usize
    }
    /// Returns its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `Card::open` makes one chunk for each piece, wholly inside the area, which lives
        // as long as the chunk. The memory is initialised (zero, or written since), the kernel does
        // not have the piece, and the borrow of `self` covers it.
        unsafe { std::slice::from_raw_parts(self.area.at.add(self.start()).as_ptr(), self.size as usize) }
    }
    /// Returns its bytes, to change them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.area.at.add(self.start()).as_ptr(), self.size as usize) }
    }
}

/// A ring of values of the kernel's type `T`, of which this process is either the producer or the
/// consumer.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    slots: NonNull<T>,
    size: u32,
    /// Index up to which this process has written or read.
    own: u32,
    /// Index of the other side, as it was last read.
    other: u32,
    /// Keeps the memory of the pointers above.
    _map: Map,
}

// SAFETY: the pointers lead into the ring's own map. The ring is used by one thread at a time, and
// exchanges its indices with the kernel by atomic operations.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `size` slots, a power of two.
    fn new(fd: BorrowedFd<'_>, size: u32, place: &XdpRingOffset, page: u64) -> Result<Self, Errno> {
        let len = usize::try_from(place.desc).map_err(|_| Errno::INVAL)? + size as usize * size_of::<T>();
        let map = Map::ring(fd, len, page)?;
        let flags = place.flags.ok_or(Errno::OPNOTSUPP)?;
        let word = |offset| map.inside::<AtomicU32>(offset, 1).ok_or(Errno::INVAL);
        Ok(Self {
            producer: word(place.producer)?,
            consumer: word(place.consumer)?,
            flags: word(flags)?,
            slots: map.inside(place.desc, size as usize).ok_or(Errno::INVAL)?,
            size,
            own: 0,
            other: 0,
            _map: map,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the ring's map, and both sides use it by atomic operations only.
        unsafe { self.producer.as_ref() }
    }
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }
    /// True if the kernel sleeps until a system call wakes it.
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
    fn slot(&self) -> NonNull<T> {
        // SAFETY: the index is below the size of the ring, whose slots lie in its map.
        unsafe { self.slots.add((self.own & (self.size - 1)) as usize) }
    }

    /// As the producer: returns how many slots are free. A ring that looks more than half full, or
    /// to have less room than is wanted, is looked at again.
    fn room(&mut self, want: u32) -> u32 {
        let taken = self.own.wrapping_sub(self.other);
        if taken > self.size / 2 || self.size.saturating_sub(taken) < want {
            self.other = self.consumer().load(Ordering::Acquire);
        }
        self.size.saturating_sub(self.own.wrapping_sub(self.other))
    }
    /// As the producer: writes a value. Returns false without a free slot.
    fn put(&mut self, value: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: the slot is free, so that the kernel does not read it until it is published.
        unsafe { self.slot().write(value) };
        self.own = self.own.wrapping_add(1);
        true
    }
    /// As the producer: shows the kernel all values.
    fn publish(&self) {
        self.producer().store(self.own, Ordering::Release);
    }
    /// As the producer: returns how many values the kernel has not taken.
    fn waiting(&self) -> u32 {
        self.own.wrapping_sub(self.consumer().load(Ordering::Acquire))
    }
    /// As the consumer: reads the next value.
    fn get(&mut self) -> Option<T> {
        if self.own == self.other {
            self.other = self.producer().load(Ordering::Acquire);
            if self.own == self.other {
                return None;
            }
        }
        // SAFETY: the kernel has published the slot, and does not write it until it is released.
        // Any bytes are a value of the kernel's types.
        let value = unsafe { self.slot().read() };
        self.own = self.own.wrapping_add(1);
        Some(value)
    }
    /// As the consumer: gives the slots that were read back to the kernel.
    fn release(&self) {
        self.consumer().store(self.own, Ordering::Release);
    }
}

/// A socket that is bound to one queue of an interface.
#[derive(Debug)]
struct Lane {
    fill: Ring<u64>,
    received: Ring<XdpDesc>,
    transmit: Ring<XdpDesc>,
    complete: Ring<u64>,
    socket: OwnedFd,
}

/// The way in which the kernel and the interface exchange frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// Without copies where the driver can, with copies otherwise.
    #[default]
    Auto,
    /// The kernel copies each frame. Every driver can.
    Copy,
    /// The card reads and writes the area itself.
    ZeroCopy,
}

/// The sizes of a card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardConfig {
    /// Index of the interface.
    pub(crate) interface: u32,
    /// The first of its queues, and the distance from one to the next.
    pub(crate) first: u32,
    pub(crate) step: u32,
    /// Number of its queues.
    pub(crate) queues: u32,
    /// Number of chunks.
    pub(crate) chunks: u32,
    /// Bytes of a chunk: 2048 or 4096.
    pub(crate) chunk: u32,
    /// Slots of each ring, a power of two.
    pub(crate) ring: u32,
    pub(crate) mode: XdpMode,
    /// True if a frame may lie in several chunks (`XDP_USE_SG`, since Linux 6.6).
    pub(crate) spread: bool,
}

/// A part of a frame that came in.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) chunk: Chunk,
    /// The place of its bytes in the chunk.
    pub(crate) place: Range<usize>,
    /// True if another part of the same frame follows.
    pub(crate) more: bool,
}

/// A step that failed, as a verb that the interface's name completes, and the system's error.
pub(crate) type Failed = (&'static str, Errno);

/// A socket for each queue of an interface, or for a part of them, over one area. Queues are
/// counted from 0 here, whatever their numbers at the interface.
#[derive(Debug)]
pub(crate) struct Card {
    /// The sockets close before the area is given back.
    lanes: Vec<Lane>,
    area: Arc<Map>,
    chunk: u32,
    /// The chunks that the kernel has, by their numbers.
    held: Box<[Option<Chunk>]>,
    zero_copy: bool,
}

impl Card {
    /// Opens the sockets, and returns them with all chunks of the area.
    pub(crate) fn open(config: &CardConfig) -> Result<(Self, Vec<Chunk>), Failed> {
        let failed = |what| move |errno| (what, errno);
        let len = config.chunks as usize * config.chunk as usize;
        let area = Arc::new(Map::anonymous(len).map_err(failed("map the frames of"))?);
        let mut lanes: Vec<Lane> = Vec::new();
        for queue in 0..config.queues {
            let first = lanes.first().map(|lane| lane.socket.as_fd());
            let lane = Lane::open(config, config.first + queue * config.step, &area, first)?;
            lanes.push(lane);
        }
        let chunks = (0..config.chunks).rev();
        let chunks =
            chunks.map(|index| Chunk { area: Arc::clone(&area), index, size: config.chunk }).collect();
        let zero_copy = lanes.first().is_some_and(|lane| {
            sockopt::xdp_options(&lane.socket)
                .is_ok_and(|o| o.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
        });
        let held = (0..config.chunks).map(|_| None).collect();
        Ok((Self { lanes, area, chunk: config.chunk, held, zero_copy }, chunks))
    }

    /// True if the card reads and writes the area itself.
    pub(crate) const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }
    /// Returns the socket of each queue.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes.iter().map(|lane| lane.socket.as_fd())
    }
    /// Returns the number of queues.
    pub(crate) const fn queues(&self) -> usize {
        self.lanes.len()
    }

    /// True if a chunk is one of this card's area.
    pub(crate) fn owns(&self, chunk: &Chunk) -> bool {
        Arc::ptr_eq(&chunk.area, &self.area)
    }
    /// Remembers a chunk that the kernel gets. Gives back one of another area.
    fn hold(&mut self, chunk: Chunk) -> Result<u64, Chunk> {
        if !self.owns(&chunk) {
            return Err(chunk);
        }
        let (index, address) = (chunk.index(), chunk.start() as u64);
        self.held[index] = Some(chunk);
        Ok(address)
    }
    /// Returns the chunk in which an address lies, which the kernel gives back.
    fn returned(&mut self, address: u64) -> Option<Chunk> {
        let index = usize::try_from(address / u64::from(self.chunk)).ok()?;
        self.held.get_mut(index)?.take()
    }

    /// Offers the kernel a chunk for a frame that comes in by a queue. Gives it back if there is no
    /// room.
    pub(crate) fn offer(&mut self, queue: usize, chunk: Chunk) -> Result<(), Chunk> {
        if self.lanes.get_mut(queue).is_none_or(|lane| lane.fill.room(1) == 0) {
            return Err(chunk);
        }
        let address = self.hold(chunk)?;
        self.lanes[queue].fill.put(address);
        Ok(())
    }
    /// Returns the next part of a frame that came in by a queue. The kernel publishes all parts of
    /// a frame together.
    pub(crate) fn receive(&mut self, queue: usize) -> Option<Part> {
        let desc = self.lanes.get_mut(queue)?.received.get()?;
        let chunk = self.returned(desc.addr)?;
        let from = (desc.addr % u64::from(self.chunk)) as usize; // below the chunk's size
        let end = from.saturating_add(desc.len as usize).min(self.chunk as usize);
        Some(Part { chunk, place: from..end, more: desc.options.contains(XdpDescOptions::XDP_PKT_CONTD) })
    }
    /// Shows the kernel the chunks that were offered, and gives back the slots of frames that were
    /// received.
    pub(crate) fn settle_receive(&mut self, queue: usize) {
        let Some(lane) = self.lanes.get(queue) else { return };
        lane.received.release();
        lane.fill.publish();
        if lane.fill.needs_wakeup() {
            // The call asks the driver to look at the ring; it has nothing else to tell.
            let _ = rustix::net::recv(&lane.socket, &mut [0; 0], rustix::net::RecvFlags::DONTWAIT);
        }
    }

    /// True if the transmit ring of a queue has room for so many chunks.
    pub(crate) fn has_room(&mut self, queue: usize, chunks: usize) -> bool {
        let want = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.lanes.get_mut(queue).is_some_and(|lane| lane.transmit.room(want) >= want)
    }
    /// Puts the first `len` bytes of a chunk into the transmit ring of a queue; `more`: the next
    /// chunk has the next part of the same frame. Gives the chunk back if there is no room.
    pub(crate) fn transmit(
        &mut self,
        queue: usize,
        chunk: Chunk,
        len: usize,
        more: bool,
    ) -> Result<(), Chunk> {
        if !self.has_room(queue, 1) || len > self.chunk as usize {
            return Err(chunk);
        }
        let len = len as u32; // at most the bytes of a chunk
        let addr = self.hold(chunk)?;
        let options = if more { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
        self.lanes[queue].transmit.put(XdpDesc { addr, len, options });
        Ok(())
    }
    /// Shows the kernel the transmit ring of a queue, and lets it send. Returns how many frames it
    /// has not taken; an error means that it takes none now.
    pub(crate) fn ring(&mut self, queue: usize) -> (u32, Result<(), Errno>) {
        let Some(lane) = self.lanes.get(queue) else { return (0, Ok(())) };
        lane.transmit.publish();
        let sent = if lane.transmit.needs_wakeup() {
            send(&lane.socket, &[], SendFlags::DONTWAIT).map(drop)
        } else {
            Ok(())
        };
        (lane.transmit.waiting(), sent)
    }
    /// True if the kernel sends the frames of a queue only when it is called.
    pub(crate) fn needs_call(&self, queue: usize) -> bool {
        self.lanes.get(queue).is_some_and(|lane| lane.transmit.needs_wakeup())
    }
    /// Returns the next chunk of a queue that was sent.
    pub(crate) fn complete(&mut self, queue: usize) -> Option<Chunk> {
        // The loop is bounded: each round takes an address off the ring.
        while let Some(address) = self.lanes.get_mut(queue)?.complete.get() {
            if let Some(chunk) = self.returned(address) {
                return Some(chunk);
            }
        }
        None
    }
    /// Gives back the slots of completions that were read.
    pub(crate) fn settle_complete(&mut self, queue: usize) {
        if let Some(lane) = self.lanes.get(queue) {
            lane.complete.release();
        }
    }

    /// Returns the kernel's counters, in sum over the queues.
    pub(crate) fn statistics(&self) -> Vec<XdpStatistics> {
        self.lanes.iter().filter_map(|lane| sockopt::xdp_statistics(&lane.socket).ok()).collect()
    }
}

impl Lane {
    /// Opens a socket for a queue. `first` is a socket that has the area already.
    fn open(
        config: &CardConfig,
        queue: u32,
        area: &Map,
        first: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Failed> {
        let failed = |what| move |errno| (what, errno);
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
            .map_err(failed("open an XDP socket for"))?;
        if first.is_none() {
            let area = XdpUmemReg {
                addr: area.at.as_ptr() as u64,
                len: area.len as u64,
                chunk_size: config.chunk,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            };
            sockopt::set_xdp_umem_reg(&socket, area).map_err(failed("register the frames of"))?;
        }
        let sized = failed("size the rings of");
        sockopt::set_xdp_umem_fill_ring_size(&socket, config.ring).map_err(sized)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, config.ring).map_err(sized)?;
        sockopt::set_xdp_rx_ring_size(&socket, config.ring).map_err(sized)?;
        sockopt::set_xdp_tx_ring_size(&socket, config.ring).map_err(sized)?;
        // Kernels before 6.18 do not know the option, and send 32 frames a call.
        let _ = set_tx_budget(socket.as_fd(), config.ring);
        let mapped = failed("map the rings of");
        let at = sockopt::xdp_mmap_offsets(&socket).map_err(mapped)?;
        let (fd, size) = (socket.as_fd(), config.ring);
        let fill = Ring::new(fd, size, &at.fr, XDP_UMEM_PGOFF_FILL_RING).map_err(mapped)?;
        let complete = Ring::new(fd, size, &at.cr, XDP_UMEM_PGOFF_COMPLETION_RING).map_err(mapped)?;
        let received = Ring::new(fd, size, &at.rx, XDP_PGOFF_RX_RING).map_err(mapped)?;
        let transmit = Ring::new(fd, size, &at.tx, XDP_PGOFF_TX_RING).map_err(mapped)?;
        bind_patiently(socket.as_fd(), config, queue, first).map_err(failed("bind an XDP socket to"))?;
        Ok(Self { fill, received, transmit, complete, socket })
    }
}

/// Binds a socket to a queue. The kernel needs some 10 to 20 ms to let go of a queue whose last
/// socket was closed, and answers `EBUSY` meanwhile: this function tries for half a second.
fn bind_patiently(
    socket: BorrowedFd<'_>,
    config: &CardConfig,
    queue: u32,
    first: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mode = match config.mode {
        XdpMode::Auto => SocketAddrXdpFlags::empty(),
        XdpMode::Copy => SocketAddrXdpFlags::XDP_COPY,
        XdpMode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    let spread = if config.spread { SocketAddrXdpFlags::XDP_USE_SG } else { SocketAddrXdpFlags::empty() };
    // A socket that shares an area takes over the mode of the first one.
    let flags = match first {
        None => mode | spread | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP,
        Some(_) => SocketAddrXdpFlags::XDP_SHARED_UMEM,
    };
    let addr = SocketAddrXdp::new(flags, config.interface, queue);
    for _ in 0..100 {
        let bound = match first {
            None => bind(socket, &addr),
            Some(fd) => bind(socket, &SocketAddrXdpWithSharedUmem { addr: addr.clone(), shared_umem_fd: fd }),
        };
        match bound {
            Err(Errno::BUSY) => std::thread::sleep(std::time::Duration::from_millis(5)),
            bound => return bound,
        }
    }
    Err(Errno::BUSY)
}

/// Sets the most frames that a call sends.
fn set_tx_budget(socket: BorrowedFd<'_>, frames: u32) -> Result<(), Errno> {
    let len = size_of::<u32>() as libc::socklen_t; // 4
    let value: *const libc::c_void = ptr::from_ref(&frames).cast();
    // SAFETY: pointer and length describe `frames`, which the kernel reads.
    super::check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, TX_BUDGET, value, len) })
        .map(drop)
}
