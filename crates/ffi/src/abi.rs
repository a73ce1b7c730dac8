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
/// A queue that is full drops a packet: kinds that keep flows apart drop from the longest one.
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
        let queue = unsafe { Box::from_raw(queue) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(queue)));
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
    on(queue, (), |queue| {
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
    });
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
mod tests {
    use super::*;

    fn packet(number: usize, length: u32) -> txweir_packet {
        txweir_packet {
            frame: number as *mut c_void,
            launch_ns: 0,
            length,
            flow: txweir_flow(number as u64),
            priority: 0,
            mark: 0,
            class_id: 0,
            gso_size: 0,
            header_length: 0,
            protocol: 0x0800,
            tos: 0,
            flags: 0,
        }
    }

    fn apply(queue: *mut txweir, text: &str) {
        // SAFETY: the arguments are as the function wants them.
        let done =
            unsafe { txweir_apply(queue, 0, text.as_ptr().cast(), text.len(), std::ptr::null_mut(), 0) };
        assert_eq!(done, TXWEIR_OK, "{text}");
    }

    /// Makes a queue with this policy.
    fn queue_with(config: txweir_config, text: &str) -> *mut txweir {
        // SAFETY: the argument is as the function wants it.
        let queue = unsafe { txweir_new(&raw const config) };
        apply(queue, text);
        queue
    }

    /// Makes the discard function of a queue fail.
    fn break_discard(queue: *mut txweir) {
        let fault: crate::queue::Discard = Box::new(|_, _: &Meta, _| panic!("a fault"));
        on(queue, (), |queue| queue.set_discard(Some(fault)));
    }

    /// Submits packets of these numbers, 1000 bytes each. Returns the result.
    fn submit(queue: *mut txweir, numbers: std::ops::RangeInclusive<usize>) -> usize {
        let packets: Vec<txweir_packet> = numbers.map(|n| packet(n, 1000)).collect();
        // SAFETY: the arguments are as the function wants them.
        unsafe { txweir_submit(queue, 0, packets.as_ptr(), packets.len(), std::ptr::null_mut()) }
    }

    /// Returns the numbers of submitted, sent, dropped and waiting packets, which have to agree.
    fn counts(queue: *mut txweir) -> [u64; 4] {
        let mut stats = txweir_stats::default();
        // SAFETY: the arguments are as the function wants them.
        assert_eq!(unsafe { txweir_get_stats(queue, &raw mut stats) }, TXWEIR_OK);
        assert_eq!(stats.submitted, stats.sent + stats.dropped + stats.waiting, "{stats:?}");
        [stats.submitted, stats.sent, stats.dropped, stats.waiting]
    }

    #[test]
    fn a_fault_stays_behind_the_border_and_ends_the_queue() {
        // SAFETY: null is good.
        let queue = unsafe { txweir_new(std::ptr::null()) };
        assert_eq!(on(queue, 7, |_| -> i32 { panic!("a fault") }), 7);
        let one = [packet(1, 100)];
        // SAFETY: the arguments are as the functions want them.
        unsafe {
            assert_eq!(txweir_submit(queue, 0, one.as_ptr(), 1, std::ptr::null_mut()), 0);
            assert_eq!(txweir_apply(queue, 0, c"".as_ptr(), 0, std::ptr::null_mut(), 0), TXWEIR_BROKEN);
            txweir_free(queue);
        }
    }

    /// The program knows which packets are its own after a fault in the midst of a call.
    #[test]
    fn a_fault_leaves_the_count_of_the_packets_before_it() {
        let config = txweir_config { role: TXWEIR_FORWARDER, byte_limit: false, ..txweir_config_default() };
        let queue = queue_with(config, "qdisc replace root pfifo limit 2");
        break_discard(queue);
        let packets: Vec<txweir_packet> = (1..=5).map(|n| packet(n, 100)).collect();
        let mut fates = [9; 5];
        // SAFETY: the arguments are as the functions want them.
        unsafe {
            // The third one is dropped.
            assert_eq!(txweir_submit(queue, 0, packets.as_ptr(), 5, fates.as_mut_ptr()), 2);
            assert_eq!(fates, [TXWEIR_QUEUED, TXWEIR_QUEUED, TXWEIR_FULL, 9, 9]);
            assert_eq!(txweir_completed(queue, 0, 0, 0), TXWEIR_BROKEN);
            fates = [9; 5];
            assert_eq!(txweir_submit(queue, 0, packets.as_ptr(), 5, fates.as_mut_ptr()), 0);
            assert_eq!(fates, [TXWEIR_FULL, 9, 9, 9, 9]);
            txweir_free(queue);
        }
        let queue = queue_with(config, "qdisc replace root codel");
        assert_eq!(submit(queue, 1..=10), 10);
        break_discard(queue);
        let mut out = [packet(0, 0); 4];
        let mut next = txweir_next { kind: 9, at_ns: 9 };
        // SAFETY: the arguments are as the functions want them.
        unsafe {
            assert_eq!(txweir_pull(queue, 1_000_000_000, out.as_mut_ptr(), 1, &raw mut next), 1);
            assert_eq!((next.kind, next.at_ns), (TXWEIR_MORE, 0));
            // codel drops the second packet and gives the third one.
            assert_eq!(txweir_pull(queue, 2_000_000_000, out.as_mut_ptr(), 4, &raw mut next), 1);
            assert_eq!((out[0].frame as usize, out[1].frame as usize), (3, 0));
            assert_eq!((next.kind, next.at_ns), (TXWEIR_IDLE, 0));
            assert_eq!(txweir_completed(queue, 0, 0, 0), TXWEIR_BROKEN);
            next.kind = 9;
            assert_eq!(txweir_pull(queue, 2_000_000_000, out.as_mut_ptr(), 4, &raw mut next), 0);
            assert_eq!((next.kind, next.at_ns), (TXWEIR_IDLE, 0));
            txweir_free(queue);
        }
    }

    /// The counters have drops under an earlier policy and in a full pool, and packets that a new
    /// policy takes only in pieces.
    #[test]
    fn the_counters_agree_whatever_drops_a_packet() {
        let config = txweir_config {
            packets: 8,
            role: TXWEIR_FORWARDER,
            byte_limit: false,
            ..txweir_config_default()
        };
        let queue = queue_with(config, "qdisc replace root pfifo limit 4");
        assert_eq!(submit(queue, 1..=6), 6);
        assert_eq!(counts(queue), [6, 0, 2, 4]);
        apply(queue, "qdisc replace root bfifo limit 100000");
        assert_eq!(counts(queue), [6, 0, 2, 4]);
        assert_eq!(submit(queue, 7..=12), 6);
        assert_eq!(counts(queue), [12, 0, 4, 8]);
        let mut out = [packet(0, 0); 8];
        let mut large = packet(13, 9000);
        (large.header_length, large.gso_size) = (54, 1000);
        let (keep, mut fate) = (std::ptr::null_mut(), 9);
        // SAFETY: the arguments are as the functions want them.
        unsafe {
            assert_eq!(txweir_pull(queue, 0, out.as_mut_ptr(), 8, std::ptr::null_mut()), 8);
            assert_eq!(txweir_submit(queue, 0, &raw const large, 1, keep), 1);
            assert_eq!(counts(queue), [13, 8, 4, 1]);
            apply(queue, "qdisc replace root tbf rate 1mbit burst 2000 limit 20000");
            assert_eq!(counts(queue), [13, 8, 5, 0]);
            // The program keeps such a packet where it asks for the fate.
            assert_eq!(txweir_submit(queue, 0, &raw const large, 1, &raw mut fate), 1);
            assert_eq!((fate, counts(queue)), (TXWEIR_TOO_LARGE, [13, 8, 5, 0]));
            assert_eq!(txweir_submit(queue, 0, &raw const large, 1, keep), 1);
            assert_eq!(counts(queue), [14, 8, 6, 0]);
            txweir_free(queue);
        }
    }

    #[test]
    fn null_and_numbers_out_of_range_are_answered() {
        let null = std::ptr::null_mut();
        let (mut out, mut fate) = (packet(1, 100), 9);
        let mut next = txweir_next { kind: 9, at_ns: 9 };
        // SAFETY: null is good.
        unsafe {
            assert_eq!(txweir_submit(null, 0, &raw const out, 1, &raw mut fate), 0);
            assert_eq!(fate, TXWEIR_FULL);
            assert_eq!(txweir_pull(null, 0, &raw mut out, 1, &raw mut next), 0);
            assert_eq!((next.kind, next.at_ns), (TXWEIR_IDLE, 0));
            assert_eq!(txweir_submit(null, 0, std::ptr::null(), 5, std::ptr::null_mut()), 0);
            assert_eq!(txweir_pull(null, 0, std::ptr::null_mut(), 5, std::ptr::null_mut()), 0);
            assert_eq!(txweir_apply(null, 0, std::ptr::null(), 5, std::ptr::null_mut(), 0), TXWEIR_BROKEN);
            assert_eq!(txweir_show(null, true, std::ptr::null_mut(), 5), 0);
            txweir_free(null);
            for config in [
                txweir_config { packets: 0, ..txweir_config_default() },
                txweir_config { role: 9, ..txweir_config_default() },
                txweir_config { mtu: 0, ..txweir_config_default() },
            ] {
                assert!(txweir_new(&raw const config).is_null(), "{config:?}");
            }
        }
        assert!(!txweir_take_wake(null));
    }

    /// A burst is cut at the first packet without room, and the fates say what happened to each.
    #[test]
    fn a_full_queue_gives_packets_back_in_their_order() {
        // SAFETY: the arguments are as the functions want them.
        unsafe {
            let queue = txweir_new(std::ptr::null());
            let text = "qdisc replace root pfifo limit 40";
            let done = txweir_apply(queue, 0, text.as_ptr().cast(), text.len(), std::ptr::null_mut(), 0);
            assert_eq!(done, TXWEIR_OK);
            let packets: Vec<txweir_packet> = (1..=100).map(|n| packet(n, 1000)).collect();
            let mut fates = [9; 100];
            assert_eq!(txweir_submit(queue, 0, packets.as_ptr(), 100, fates.as_mut_ptr()), 40);
            assert!(fates[..40].iter().all(|fate| *fate == TXWEIR_QUEUED));
            assert_eq!((fates[40], fates[41]), (TXWEIR_FULL, 9));
            let mut out = [packet(0, 0); 64];
            let mut next = txweir_next { kind: 9, at_ns: 0 };
            let (mut taken, mut first) = (0, 1);
            while taken < 40 {
                let n = txweir_pull(queue, 0, out.as_mut_ptr(), 64, &raw mut next);
                for packet in &out[..n] {
                    assert_eq!(packet.frame as usize, first);
                    first += 1;
                }
                taken += n;
                assert!(n > 0, "{next:?}");
                assert_eq!(txweir_completed(queue, 0, n as u32, n as u32 * 1000), TXWEIR_OK);
            }
            assert_eq!(next.kind, TXWEIR_IDLE);
            assert!(txweir_take_wake(queue) && !txweir_take_wake(queue));
            txweir_free(queue);
        }
    }

    /// A program that does not ask for fates gets a packet that can never leave by its discard
    /// function; one that asks keeps it.
    #[test]
    fn a_packet_that_is_too_large_stays_or_is_given_back() {
        unsafe extern "C" fn count(context: *mut c_void, _frame: *mut c_void, reason: u8) {
            assert_eq!(reason, DropReason::Oversize as u8);
            // SAFETY: the test passes a number.
            unsafe { *context.cast::<u32>() += 1 };
        }
        let mut given_back = 0_u32;
        // SAFETY: the arguments are as the functions want them.
        unsafe {
            let queue = txweir_new(std::ptr::null());
            assert_eq!(txweir_set_discard(queue, Some(count), (&raw mut given_back).cast()), TXWEIR_OK);
            let text = "qdisc replace root tbf rate 1mbit burst 2000 limit 20000";
            assert_eq!(
                txweir_apply(queue, 0, text.as_ptr().cast(), text.len(), std::ptr::null_mut(), 0),
                TXWEIR_OK
            );
            let mut super_packet = packet(1, 9000);
            (super_packet.header_length, super_packet.gso_size) = (54, 1000);
            let mut fate = 9;
            assert_eq!(txweir_submit(queue, 0, &raw const super_packet, 1, &raw mut fate), 1);
            assert_eq!((fate, given_back), (TXWEIR_TOO_LARGE, 0));
            assert_eq!(txweir_submit(queue, 0, &raw const super_packet, 1, std::ptr::null_mut()), 1);
            assert_eq!(given_back, 1);
            txweir_free(queue);
        }
        assert_eq!(given_back, 1);
    }
}
