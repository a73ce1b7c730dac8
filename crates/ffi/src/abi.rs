//! The functions that C calls. `cargo xtask header` makes `include/txweir.h` of this file, with its
//! comments.
//!
//! A null handle, and a handle in which a fault was found, does nothing. A function that returns a
//! result answers it by an error; for the others nothing waits, and nothing finds room. Each
//! function looks at the memory of its arguments only during the call.

#![allow(non_camel_case_types, reason = "the names are those of C")]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use txweir_core::{
    Admitted, DqlConfig, DropReason, Ecn, Env, Handle, Instant, Meta, PathConfig, Rate, Role, Wake,
};

use crate::queue::{Frame, Queue};

/// A transmit queue.
pub struct txweir {
    queue: Queue,
    /// True once a fault was found: nothing is promised about the queue from then on.
    broken: bool,
}

/// Success.
pub const TXWEIR_OK: i32 = 0;
/// An argument other than the queue is null, or out of its range.
pub const TXWEIR_INVALID: i32 = -1;
/// The policy was refused; the queue is as it was.
pub const TXWEIR_REFUSED: i32 = -2;
/// The queue is null, or a fault was found in it: only txweir_free may still be called.
pub const TXWEIR_BROKEN: i32 = -3;

/// A queue that is full gives a packet back, and txweir_take_wake tells when to try again.
pub const TXWEIR_ORIGIN: u8 = 0;
/// A queue that is full drops a packet: cake, fq_codel and sfq from the longest flow.
pub const TXWEIR_FORWARDER: u8 = 1;

/// Fate of a packet: it waits.
pub const TXWEIR_QUEUED: u8 = 0;
/// It was dropped, and the discard function has its frame.
pub const TXWEIR_DROPPED: u8 = 1;
/// There is no room (TXWEIR_ORIGIN): the frame is still the program's.
pub const TXWEIR_FULL: u8 = 2;
/// It is larger than a shaper's bucket: the frame is still the program's, to cut or to drop.
pub const TXWEIR_TOO_LARGE: u8 = 3;

/// The packet is a TCP segment with control and no data: SYN, SYN-ACK, pure ACK.
pub const TXWEIR_TCP_CONTROL: u8 = 1;
/// Out: an AQM has marked the packet: set CE in its IP header.
pub const TXWEIR_MARK: u8 = 2;
/// Out: clear the DSCP in its IP header.
pub const TXWEIR_WASH: u8 = 4;

/// Nothing waits.
pub const TXWEIR_IDLE: u8 = 0;
/// Packets wait, and may leave when the device has finished something (txweir_completed).
pub const TXWEIR_DEVICE: u8 = 1;
/// Packets wait, and nothing may leave before the given time.
pub const TXWEIR_AT: u8 = 2;
/// Packets wait that may leave now: the pull took as many as it was asked for.
pub const TXWEIR_MORE: u8 = 3;

/// The properties of a queue. txweir_config_default fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct txweir_config {
    /// Most packets that wait at once.
    pub packets: u32,
    /// Largest network-layer packet of the device, bytes.
    pub mtu: u32,
    /// Bytes of the link-layer header in front of it.
    pub link_header: u32,
    /// The length of the device's queue, packets: the default limit of several kinds.
    pub queue_length: u32,
    /// Speed of the device, bytes per second; 0 if it is not known.
    pub link_rate: u64,
    /// Most bytes of tables that the qdiscs have together.
    pub memory: u64,
    /// Start of all that is drawn: the hash of flows, and the chances of qdiscs.
    pub seed: u64,
    /// TXWEIR_ORIGIN or TXWEIR_FORWARDER.
    pub role: u8,
    /// True if a byte limit learns how much the device needs in flight (Linux: BQL). Then the
    /// program tells each packet that its device has finished, by txweir_completed.
    pub byte_limit: bool,
}

/// A packet. Zeros are good for all but frame and length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct txweir_packet {
    /// The program's pointer; the library never looks behind it.
    pub frame: *mut c_void,
    /// The time before which it must not leave, ns; 0 if it has none (fq, etf).
    pub launch_ns: u64,
    /// Bytes of the frame, link header included.
    pub length: u32,
    /// Flow hash: 32 well mixed bits. txweir_read gives one, and txweir_flow mixes a number.
    pub flow: u32,
    /// Priority (tc-prio(8)); a value whose upper half is a qdisc's handle names one of its
    /// classes.
    pub priority: u32,
    /// Firewall mark.
    pub mark: u32,
    /// Class chosen ahead, major number in the upper half; 0 for none.
    pub class_id: u32,
    /// Payload bytes of a segment; 0 if it is not a super-packet.
    pub gso_size: u16,
    /// Bytes of headers that each segment repeats.
    pub header_length: u16,
    /// Ethertype, in the machine's byte order.
    pub protocol: u16,
    /// DS field with the ECN bits (TOS, traffic class).
    pub tos: u8,
    /// TXWEIR_TCP_CONTROL; from txweir_pull TXWEIR_MARK and TXWEIR_WASH too.
    pub flags: u8,
}

/// The time of the next pull.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct txweir_next {
    /// TXWEIR_IDLE, TXWEIR_DEVICE, TXWEIR_AT or TXWEIR_MORE.
    pub kind: u8,
    /// The time of TXWEIR_AT, ns.
    pub at_ns: u64,
}

/// Counters of a queue. `submitted = sent + dropped + waiting`, at every instant, as long as no
/// policy duplicates.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct txweir_stats {
    /// Packets that entered or were dropped on the way in: all that did not stay the program's.
    pub submitted: u64,
    /// Packets that a pull has taken.
    pub sent: u64,
    /// Their bytes on the wire.
    pub sent_bytes: u64,
    /// Packets dropped, under earlier policies too.
    pub dropped: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Times that a sender found no room.
    pub full: u64,
    /// Times that the byte limit held packets back.
    pub held_by_limit: u64,
    /// The byte limit, bytes; 0 without one.
    pub limit: u64,
    /// Bytes that the program's device has not finished, as the byte limit counts them.
    pub in_flight: u64,
}

/// A function that takes back the frame of a dropped packet; `reason` is the number of
/// txweir_reason. It must not call the queue.
pub type txweir_discard = Option<unsafe extern "C" fn(context: *mut c_void, frame: *mut c_void, reason: u8)>;

/// Runs `f` on a queue; a panic in it makes the queue a broken one.
fn on<R>(queue: *mut txweir, broken: R, f: impl FnOnce(&mut Queue) -> R) -> R {
    // SAFETY: the caller passes null or a handle of `txweir_new` that no other thread uses now.
    let Some(all) = (unsafe { queue.as_mut() }).filter(|all| !all.broken) else { return broken };
    let done = catch_unwind(AssertUnwindSafe(|| f(&mut all.queue)));
    all.broken = done.is_err();
    done.unwrap_or(broken)
}

/// Returns the elements that a pointer and a number name.
///
/// # Safety
/// As [`std::slice::from_raw_parts`]; null is good with any number, and names none.
unsafe fn slice<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if at.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(at, count) }
}

/// Writes text with a final zero where the program wants it, as much as fits. Returns the bytes of
/// the whole text, as snprintf does.
fn write(text: &str, to: *mut c_char, room: usize) -> usize {
    let fits = text.len().min(room.saturating_sub(1));
    if !to.is_null() && room > 0 {
        // SAFETY: the program gives `room` bytes at `to`; at most `room - 1` and a zero are
        // written.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, fits);
            *to.add(fits) = 0;
        }
    }
    text.len()
}

fn meta_of(p: &txweir_packet) -> Meta {
    let mut meta = Meta::new(p.length)
        .hash(p.flow)
        .priority(p.priority)
        .txtime(Instant(p.launch_ns))
        .ecn(Ecn::from_ds(p.tos))
        .gso(p.header_length, p.gso_size);
    meta.mark = p.mark;
    meta.class = Handle::new((p.class_id >> 16) as u16, p.class_id as u16);
    meta.protocol = p.protocol;
    meta.ds = p.tos;
    meta.tcp_control = p.flags & TXWEIR_TCP_CONTROL != 0;
    meta
}

fn packet_of(Frame(frame): Frame, m: &Meta) -> txweir_packet {
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    txweir_packet {
        frame,
        launch_ns: m.txtime.0,
        length: m.len,
        flow: m.hash,
        priority: m.priority,
        mark: m.mark,
        class_id: u32::from(m.class.major()) << 16 | u32::from(m.class.minor()),
        gso_size: m.gso_size,
        header_length: m.header_len,
        protocol: m.protocol,
        tos: m.ds,
        flags: flag(m.tcp_control, TXWEIR_TCP_CONTROL)
            | flag(m.marked, TXWEIR_MARK)
            | flag(m.washed, TXWEIR_WASH),
    }
}

/// Returns the properties of an Ethernet device: 16384 packets, role TXWEIR_ORIGIN, a byte limit.
#[unsafe(no_mangle)]
pub extern "C" fn txweir_config_default() -> txweir_config {
    let PathConfig { env, pool, bql, .. } = PathConfig::default();
    txweir_config {
        packets: u32::try_from(pool).unwrap_or(u32::MAX),
        mtu: env.mtu,
        link_header: env.link_header,
        queue_length: env.tx_queue_len,
        link_rate: env.link_rate.map_or(0, |rate| rate.0),
        memory: env.memory,
        seed: env.seed,
        role: TXWEIR_ORIGIN,
        byte_limit: bql.is_some(),
    }
}

/// Makes a queue with pfifo_fast; null stands for the default properties. Returns null if a number
/// is out of its range. The queue takes all memory for packets here, some 200 bytes for each that
/// may wait, and a qdisc takes all of its own when a policy is applied: a program that the system
/// gives no more memory ends there, and nowhere else.
///
/// # Safety
/// `config` is null or points to a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_new(config: *const txweir_config) -> *mut txweir {
    // SAFETY: the caller's.
    let config = unsafe { config.as_ref() }.copied().unwrap_or_else(|| txweir_config_default());
    let role = match config.role {
        TXWEIR_ORIGIN => Role::Origin,
        TXWEIR_FORWARDER => Role::Forwarder,
        _ => return std::ptr::null_mut(),
    };
    if config.packets == 0 || config.packets > 1 << 24 || config.mtu == 0 {
        return std::ptr::null_mut();
    }
    let env = Env {
        mtu: config.mtu,
        link_header: config.link_header,
        tx_queue_len: config.queue_length,
        link_rate: Some(Rate(config.link_rate)).filter(|rate| rate.0 > 0),
        memory: config.memory,
        seed: config.seed,
        ..Env::default()
    };
    let bql = config.byte_limit.then(DqlConfig::default);
    let config = PathConfig { env, pool: config.packets as usize, role, bql, ..PathConfig::default() };
    let made = catch_unwind(|| Queue::new(config).ok());
    let made = made.ok().flatten().map(|queue| Box::new(txweir { queue, broken: false }));
    made.map_or(std::ptr::null_mut(), Box::into_raw)
}

/// Ends a queue: the discard function gets the frames that wait. Null is good.
///
/// # Safety
/// `queue` is null or comes from `txweir_new`, and is used by nobody from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_free(queue: *mut txweir) {
    on(queue, (), |queue| queue.purge(Instant::ZERO));
    if !queue.is_null() {
        // SAFETY: the caller's.
        let mut all = unsafe { Box::from_raw(queue) };
        if all.broken {
            let _ = catch_unwind(AssertUnwindSafe(|| all.queue.abandon()));
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(all)));
    }
}

/// Sets the function that takes back the frames of dropped packets; null for none. Without one, the
/// frame of a packet that is dropped while it waits is forgotten.
///
/// # Safety
/// The function may be called with `context` until the queue ends or another one is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_set_discard(
    queue: *mut txweir,
    discard: txweir_discard,
    context: *mut c_void,
) -> i32 {
    on(queue, TXWEIR_BROKEN, |queue| {
        queue.set_discard(discard.map(|discard| -> crate::queue::Discard {
            Box::new(move |Frame(frame), _: &Meta, reason| {
                // SAFETY: the program has given this function for this.
                unsafe { discard(context, frame, reason as u8) };
            })
        }));
        TXWEIR_OK
    })
}

/// Applies lines of tc, all or none: `qdisc replace root fq_codel`. Packets that wait are kept. On
/// TXWEIR_REFUSED `error` (of `room` bytes, or null) gets the reason, with the place in the text.
/// Filters are refused: the program sets class_id or priority, or txweir_read does.
///
/// # Safety
/// `text` points to `length` bytes; `error` is null or points to `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_apply(
    queue: *mut txweir,
    now_ns: u64,
    text: *const c_char,
    length: usize,
    error: *mut c_char,
    room: usize,
) -> i32 {
    // SAFETY: the caller's.
    let Ok(text) = std::str::from_utf8(unsafe { slice(text.cast::<u8>(), length) }) else {
        write("the policy is not UTF-8", error, room);
        return TXWEIR_INVALID;
    };
    on(queue, TXWEIR_BROKEN, |queue| match queue.apply(Instant(now_ns), text, "policy") {
        Ok(()) => TXWEIR_OK,
        Err(refused) => {
            write(&refused, error, room);
            TXWEIR_REFUSED
        }
    })
}

/// Submits packets in their order. `fates` is null, or gets the fate of each packet that was looked
/// at: those before the result, and the one at it, which is TXWEIR_FULL. Returns the number of
/// packets before the first one without room, or `count`. Without `fates` the discard function gets
/// a packet that is too large. Calls of 8 to 64 packets are cheapest.
///
/// A fault ends the call: the result is the number of packets before it. A queue that is null, or
/// in which a fault was found, has no room.
///
/// # Safety
/// `packets` points to `count` packets; `fates` is null or points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_submit(
    queue: *mut txweir,
    now_ns: u64,
    packets: *const txweir_packet,
    count: usize,
    fates: *mut u8,
) -> usize {
    // SAFETY: the caller's.
    let packets = unsafe { slice(packets, count) };
    // The number is right also where a fault ends the call.
    let (mut taken, mut too_large) = (0, Vec::new());
    let mut begun = false;
    let done = on(queue, false, |queue| {
        begun = true;
        // Metadata is made for a burst at a time: no memory is allocated for it.
        for burst in packets.chunks(BURST) {
            let metas: [Meta; BURST] =
                std::array::from_fn(|at| burst.get(at).map_or(const { Meta::new(0) }, meta_of));
            let fate = |m: &Meta, admitted: Admitted<Frame>| {
                if !fates.is_null() {
                    // SAFETY: `fates` has a byte for each packet, and this is one more of them.
                    unsafe { *fates.add(taken) = fate_of(&admitted) };
                } else if let Admitted::Cut(frame, _) = admitted {
                    too_large.push((frame, *m));
                }
                taken += usize::from(!matches!(admitted, Admitted::Full(_)));
            };
            let frames = &mut burst.iter().map(|packet| Frame(packet.frame));
            let n = queue.submit(Instant(now_ns), &metas[..burst.len()], frames, fate);
            if n < burst.len() {
                break;
            }
        }
        too_large.iter().for_each(|(frame, m)| queue.discard(*frame, m, DropReason::Oversize));
        true
    });
    // SAFETY: as in `on`.
    let faulty = if begun && !done { unsafe { queue.as_mut() } } else { None };
    if let (Some(all), Some(packet)) = (faulty, packets.get(taken)) {
        all.queue.keep(Frame(packet.frame));
    }
    if taken < packets.len() && !fates.is_null() {
        // A queue that does nothing has given the packet no fate.
        // SAFETY: `fates` has a byte for each packet, and this is one of them.
        unsafe { *fates.add(taken) = TXWEIR_FULL };
    }
    taken
}

/// Packets whose metadata is made at once.
const BURST: usize = 32;

fn fate_of(admitted: &Admitted<Frame>) -> u8 {
    match admitted {
        Admitted::Sent | Admitted::Queued => TXWEIR_QUEUED,
        Admitted::Dropped(_) => TXWEIR_DROPPED,
        Admitted::Full(_) => TXWEIR_FULL,
        Admitted::Cut(..) => TXWEIR_TOO_LARGE,
    }
}

/// Takes up to `most` packets that may leave now, in their order. Returns their number; `next` is
/// null, or gets the time of the next call.
///
/// A fault ends the call: the result is the number of packets before it. For a queue that is null,
/// or in which a fault was found, `next` is TXWEIR_IDLE, as where `packets` is null.
///
/// # Safety
/// `packets` points to room for `most` packets; `next` is null or points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_pull(
    queue: *mut txweir,
    now_ns: u64,
    packets: *mut txweir_packet,
    most: usize,
    next: *mut txweir_next,
) -> usize {
    if !next.is_null() {
        // SAFETY: the caller's.
        unsafe { next.write(txweir_next { kind: TXWEIR_IDLE, at_ns: 0 }) };
    }
    if packets.is_null() {
        return 0;
    }
    // The number is right also where a fault ends the call.
    let mut taken = 0;
    on(queue, (), |queue| {
        let wake = queue.pull(Instant(now_ns), u32::try_from(most).unwrap_or(u32::MAX), |frame, m| {
            // SAFETY: a pull gives at most `most` packets, for which there is room.
            unsafe { packets.add(taken).write(packet_of(frame, m)) };
            taken += 1;
        });
        let (kind, at_ns) = match wake {
            Wake::Idle => (TXWEIR_IDLE, 0),
            // The room of a pull is its device.
            Wake::Device if taken == most => (TXWEIR_MORE, 0),
            Wake::Device => (TXWEIR_DEVICE, 0),
            Wake::At(at, _) => (TXWEIR_AT, at.0),
            Wake::More => (TXWEIR_MORE, 0),
        };
        if !next.is_null() {
            // SAFETY: the caller's.
            unsafe { next.write(txweir_next { kind, at_ns }) };
        }
    });
    taken
}

/// Tells the byte limit that the device has finished packets that a pull gave: their number, and
/// the sum of their bytes, with the headers that the segments of super-packets repeat.
#[unsafe(no_mangle)]
pub extern "C" fn txweir_completed(queue: *mut txweir, now_ns: u64, packets: u32, bytes: u32) -> i32 {
    on(queue, TXWEIR_BROKEN, |queue| {
        queue.completed(Instant(now_ns), packets, bytes);
        TXWEIR_OK
    })
}

/// True once after TXWEIR_FULL, when there is room again.
#[unsafe(no_mangle)]
pub extern "C" fn txweir_take_wake(queue: *mut txweir) -> bool {
    on(queue, false, Queue::take_wake)
}

/// Fills in the facts about a packet that an Ethernet frame's headers tell: flow, priority,
/// protocol, tos, flags; and its length. All others stay as they are. `length` is the length of the
/// whole frame, of which the first `given` bytes are at `bytes`; 128 are enough for most headers.
///
/// # Safety
/// `bytes` points to `given` bytes, `packet` to a packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_read(
    queue: *mut txweir,
    bytes: *const u8,
    given: usize,
    length: u32,
    packet: *mut txweir_packet,
) -> i32 {
    // SAFETY: the caller's.
    let (bytes, Some(packet)) = (unsafe { slice(bytes, given) }, unsafe { packet.as_mut() }) else {
        return TXWEIR_INVALID;
    };
    on(queue, TXWEIR_BROKEN, |queue| {
        let read = packet_of(Frame(packet.frame), &queue.read(bytes, length));
        let txweir_packet { length, flow, priority, protocol, tos, flags, .. } = read;
        *packet = txweir_packet { length, flow, priority, protocol, tos, flags, ..*packet };
        TXWEIR_OK
    })
}

/// Returns a flow hash for a number of a flow: a connection's, a subscriber's, an index.
#[unsafe(no_mangle)]
pub extern "C" fn txweir_flow(number: u64) -> u32 {
    Meta::new(0).flow(number).hash
}

/// Reads the counters.
///
/// # Safety
/// `stats` points to room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_get_stats(queue: *mut txweir, stats: *mut txweir_stats) -> i32 {
    // SAFETY: the caller's.
    let Some(stats) = (unsafe { stats.as_mut() }) else { return TXWEIR_INVALID };
    on(queue, TXWEIR_BROKEN, |queue| {
        let path = queue.path();
        let (counts, waiting) = (path.stats(), path.backlog());
        let limit = path.tx().limit();
        *stats = txweir_stats {
            submitted: queue.submitted(),
            sent: counts.tx_packets,
            sent_bytes: counts.tx_bytes,
            dropped: queue.dropped(),
            waiting: waiting.packets,
            waiting_bytes: waiting.bytes,
            full: counts.full,
            held_by_limit: counts.stop_stack,
            limit: limit.map_or(0, |dql| u64::from(dql.limit())),
            in_flight: limit.map_or(0, |dql| u64::from(dql.inflight())),
        };
        TXWEIR_OK
    })
}

/// Writes the qdiscs with their counters as `tc -s qdisc show` prints them, or as `tc -s -j`.
/// Returns the bytes of the whole text, without the final zero, as snprintf does.
///
/// # Safety
/// `text` is null or points to `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_show(
    queue: *mut txweir,
    json: bool,
    text: *mut c_char,
    room: usize,
) -> usize {
    on(queue, 0, |queue| write(&queue.show(json), text, room))
}

/// Writes the name of a reason of drops, such as `overlimit`. Returns its bytes, as snprintf does;
/// 0 for a number that is none.
///
/// # Safety
/// `text` is null or points to `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn txweir_reason(reason: u8, text: *mut c_char, room: usize) -> usize {
    DropReason::ALL.get(usize::from(reason)).map_or(0, |reason| write(reason.name(), text, room))
}

/// Returns the version: `major.minor.patch`.
#[unsafe(no_mangle)]
pub extern "C" fn txweir_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests;
