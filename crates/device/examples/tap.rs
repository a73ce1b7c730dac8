//! Processor time of a frame through a TAP device, by one `writev` or `readv` each, as `Tap` does,
//! and by io_uring in batches, in turn, in a network namespace that the program makes and removes.
//! The time includes the kernel's receive path, which ends at a frame of no known protocol. Needs
//! root. `cargo run --release -p txweir-device --example tap [rounds]`
//!
//! Its outcome is the reason why a TAP device is read and written frame by frame: docs/results.md.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use rustix::time::{ClockId, clock_gettime};
use txweir_device::testnet::{NetNs, skip_reason};
use txweir_device::{BATCH_MAX, Calls, FrameRef, Packet, PacketOptions, Tap, TapOptions, VnetHdr};

/// Bytes of the vnet header in front of a frame.
const HEADER: usize = 12;
/// Frames of a round, which the device's queue holds.
const FRAMES: usize = 512;
const BATCH: usize = BATCH_MAX;
const NAME: &str = "tap0";

/// Processor time of this process, ns: that of the kernel's workers for its ring included.
fn spent() -> i64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Returns the processor time of a frame, ns.
fn timed(f: impl FnOnce()) -> f64 {
    let start = spent();
    f();
    (spent() - start) as f64 / FRAMES as f64
}

/// Hands a batch of requests to the kernel, and waits for all. Each has to move `len` bytes.
fn submit(ring: &mut IoUring, batch: &[Entry], len: usize) {
    for entry in batch {
        // SAFETY: the buffers of all callers live until the wait below has seen every completion.
        unsafe { ring.submission().push(entry) }.expect("the ring has room for a batch");
    }
    ring.submit_and_wait(batch.len()).expect("io_uring");
    let (mut done, mut wrong) = (0, None);
    for one in ring.completion() {
        done += 1;
        wrong = wrong.or((one.result() != len as i32).then_some(one.result()));
    }
    assert!(done == batch.len() && wrong.is_none(), "{done} of {}, {wrong:?}", batch.len());
}

/// Writes the frames of a round: by calls, by the ring.
fn written(tap: &Tap, ring: &mut IoUring, frame: &[u8]) -> [f64; 2] {
    let (header, len) = ([0; HEADER], HEADER + frame.len());
    let parts = [IoSlice::new(&header), IoSlice::new(frame)];
    let calls = timed(|| {
        for _ in 0..FRAMES {
            assert_eq!(rustix::io::writev(tap, &parts), Ok(len));
        }
    });
    let fd: RawFd = tap.as_fd().as_raw_fd();
    let entry = opcode::Writev::new(types::Fd(fd), parts.as_ptr().cast(), 2).build();
    let batch = vec![entry; BATCH];
    let rings = timed(|| (0..FRAMES / BATCH).for_each(|_| submit(ring, &batch, len)));
    [calls, rings]
}

/// Reads the frames of a round, which a packet socket sends through the interface first.
fn read(tap: &Tap, packet: &mut Packet, ring: &mut IoUring, frame: &[u8]) -> [f64; 2] {
    let len = HEADER + frame.len();
    let mut fill = || {
        let all = [FrameRef { hdr: VnetHdr::default(), bytes: frame }; BATCH];
        for _ in 0..FRAMES / BATCH {
            assert_eq!(packet.send_batch(&all).taken, BATCH, "the device's queue has room");
        }
    };
    let mut headers = [[0; HEADER]; BATCH];
    let mut frames = vec![vec![0; 1 << 16]; BATCH];
    let mut parts: Vec<[IoSliceMut<'_>; 2]> = headers
        .iter_mut()
        .zip(&mut frames)
        .map(|(header, frame)| [IoSliceMut::new(header), IoSliceMut::new(frame)])
        .collect();
    fill();
    let calls = timed(|| {
        for at in 0..FRAMES {
            assert_eq!(rustix::io::readv(tap, &mut parts[at % BATCH]), Ok(len));
        }
    });
    fill();
    let fd: RawFd = tap.as_fd().as_raw_fd();
    let read =
        |parts: &[IoSliceMut<'_>; 2]| opcode::Readv::new(types::Fd(fd), parts.as_ptr().cast(), 2).build();
    let batch: Vec<Entry> = parts.iter().map(read).collect();
    let rings = timed(|| (0..FRAMES / BATCH).for_each(|_| submit(ring, &batch, len)));
    [calls, rings]
}

/// Returns the median, the least and the most.
fn spread(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [all[all.len() / 2], all[0], all[all.len() - 1]]
}

fn show(what: &str, pairs: &[[f64; 2]]) {
    let [calls, ring] = [0, 1].map(|at| spread(pairs.iter().map(|pair| pair[at]).collect()));
    let ratio = spread(pairs.iter().map(|[calls, ring]| ring / calls).collect());
    let ns = |[median, low, high]: [f64; 3]| format!("{median:.0} [{low:.0}-{high:.0}] ns");
    let [median, low, high] = ratio;
    println!("{what:18}{:>26}{:>26}{median:8.2} [{low:.2}-{high:.2}]", ns(calls), ns(ring));
}

fn main() {
    if let Some(reason) = skip_reason() {
        println!("not measured, because {reason}");
        return;
    }
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(31);
    let mut ring = match IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(256) {
        Ok(ring) => ring,
        Err(error) => return println!("not measured, because this kernel has no such io_uring: {error}"),
    };
    let ns = NetNs::new("uring");
    let name = NAME.parse().expect("a name");
    let options = TapOptions { create: true, ..TapOptions::default() };
    let tap = ns.enter(|| Tap::open(&name, &options)).unwrap_or_else(|e| panic!("{e}"));
    // No frames of the namespace itself.
    ns.run(&["sysctl", "-qw", &format!("net.ipv6.conf.{NAME}.disable_ipv6=1")]);
    ns.run(&["ip", "link", "set", "dev", NAME, "up", "txqueuelen", &(2 * FRAMES).to_string()]);
    let opened = ns.enter(|| Packet::open(&name, &PacketOptions::default()));
    let mut packet = opened.unwrap_or_else(|e| panic!("{e}"));
    println!("processor time a frame; {rounds} rounds of {FRAMES} frames in turn, batches of {BATCH}");
    println!("{:18}{:>26}{:>26}{:>8}", "", "a call a frame", "io_uring", "ratio");
    for len in [60, 1514] {
        let mut frame = vec![0; len];
        frame[..6].fill(0xff);
        frame[6] = 2;
        // An EtherType for experiments (IEEE 802), which no protocol here takes.
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        let mut pairs = [const { Vec::new() }; 2];
        for round in 0..=rounds {
            let now = [written(&tap, &mut ring, &frame), read(&tap, &mut packet, &mut ring, &frame)];
            // The first round warms up.
            if round > 0 {
                pairs.iter_mut().zip(now).for_each(|(all, now)| all.push(now));
            }
        }
        let [written, read] = pairs;
        show(&format!("write, {len} bytes"), &written);
        show(&format!("read, {len} bytes"), &read);
    }
}
