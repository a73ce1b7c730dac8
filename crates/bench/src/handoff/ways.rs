//! The compared ways of a packet from its sender to the driver.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Instant, Meta, Nanos, PathConfig, TxPath};
use txweir_device::clock;
use txweir_handoff::{Bell, Handed, Monitor, Owner, Queue, QueueConfig, Service};

use super::line::Shown;
use crate::common::lock;

/// Bytes of a UDP packet without payload: Ethernet, IPv4, UDP.
pub(super) const FRAME_LEN: usize = 42;

/// A packet: its bytes lie elsewhere, as an mbuf's do.
pub(super) type Frame = &'static [u8; FRAME_LEN];

/// Packets of a burst.
const BURST: u64 = 32;

/// Frames that a sender has ready.
const READY: usize = 256;

/// Sends a number of packets as the sender of a number: `(sender, packets)`.
type Sending = Box<dyn Fn(usize, u64) + Send + Sync>;

/// Describes the state of a queue.
type Stating = Box<dyn Fn() -> String + Send + Sync>;

/// A way, ready to be used.
pub(super) struct Way {
    pub key: &'static str,
    pub about: &'static str,
    pub send: Sending,
    /// Describes its queue, for an error message.
    pub state: Stating,
    /// The frames that its devices were shown; none for a way that sends none.
    pub shown: Vec<Shown>,
}

/// Devices of one kind.
pub(super) struct Devices<'a, D> {
    /// Makes a device, and its visible state.
    pub make: &'a dyn Fn() -> Result<(D, Shown), String>,
    /// Time after which a device is to be asked for completions; `None`: a shown packet is
    /// finished.
    pub poll: Option<Nanos>,
}

/// Returns frames with all their headers, each with an identification of its own.
fn frames() -> &'static [[u8; FRAME_LEN]; READY] {
    let mut frames = Box::new([[0; FRAME_LEN]; READY]);
    for (id, frame) in (0u16..).zip(frames.iter_mut()) {
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum =
            frame[14..34].chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes()); // ten words: one carry
        frame[34..42].copy_from_slice(&[0x30, 0x39, 0, 9, 0, 8, 0, 0]);
    }
    Box::leak(frames)
}

fn now() -> Instant {
    Instant(clock::now_ns())
}

fn path(kind: &str, direct: bool) -> TxPath<Frame> {
    let config = PathConfig { pool: 4096, bql: None, ..PathConfig::default() };
    let made = TxPath::new(config).map_err(|e| e.to_string());
    let made = made.and_then(|p| p.with_qdisc(kind, &[]).map_err(|e| e.to_string()));
    let mut path = made.unwrap_or_else(|e| unreachable!("a measurement's own options are right: {e}"));
    path.tx_mut().set_direct(direct);
    path
}

/// The interface queue and the driver of 2006, each with its lock. The ring is never full, so that
/// "output active" is never set.
struct Old<D> {
    queue: Mutex<VecDeque<Frame>>,
    /// Number of packets in the queue, which is read without the lock.
    waiting: AtomicUsize,
    driver: Mutex<D>,
}

impl<D: TxQueue<Frame = Frame>> Old<D> {
    #[inline]
    fn send(&self, frame: Frame, meta: Meta) {
        {
            let mut queue = lock(&self.queue);
            queue.push_back(frame);
            self.waiting.store(queue.len(), Ordering::Relaxed);
        }
        let mut driver = lock(&self.driver);
        while self.waiting.load(Ordering::Relaxed) > 0 {
            let next = {
                let mut queue = lock(&self.queue);
                let next = queue.pop_front();
                self.waiting.store(queue.len(), Ordering::Relaxed);
                next
            };
            let Some(frame) = next else { break };
            put(&mut *driver, frame, meta);
        }
    }
}

/// Gives a driver a packet, once it has room.
#[inline]
fn put<D: TxQueue<Frame = Frame>>(driver: &mut D, frame: Frame, meta: Meta) {
    while driver.reserve(1) == 0 {
        driver.reap(&mut |_| {});
    }
    driver.push(frame, &meta);
    // An error of a device shows as frames that it was not shown.
    let _ = driver.commit();
}

/// Sends one packet after the other by `send`, which returns true if it takes the packet and false
/// to try again.
#[inline(always)]
fn each(frames: &'static [[u8; FRAME_LEN]; READY], n: u64, mut send: impl FnMut(Frame, Meta) -> bool) {
    for i in 0..n {
        let frame = &frames[i as usize & (READY - 1)];
        while !send(frame, Meta::new(FRAME_LEN as u32).hash(i as u32)) {
            std::thread::yield_now();
        }
    }
}

/// Returns a burst.
fn burst(frames: &'static [[u8; FRAME_LEN]; READY]) -> impl ExactSizeIterator<Item = (Frame, Meta)> {
    (0..BURST as usize).map(move |i| (&frames[i], Meta::new(FRAME_LEN as u32).hash(i as u32)))
}

#[inline(always)]
fn is_in<F>(handed: &Handed<F>) -> bool {
    !matches!(handed, Handed::Done(Admitted::Full(_)))
}

/// A queue and its service.
struct Served<D: TxQueue<Frame = Frame> + Send + 'static> {
    queue: Arc<Queue<D>>,
    _service: Service,
}

impl<D: TxQueue<Frame = Frame> + Send + 'static> Served<D> {
    fn new(path: TxPath<Frame>, dev: D, poll: Option<Nanos>) -> Result<Self, String> {
        let bell = Bell::new();
        let config = QueueConfig { poll, ..QueueConfig::new(now) };
        let queue = Arc::new(Queue::new(path, dev, config, bell.wakeup()));
        let said = |report| eprintln!("{report}");
        let service = Service::spawn("service", &bell, vec![Arc::clone(&queue)], Monitor::default(), said);
        Ok(Self { queue, _service: service.map_err(|e| format!("a thread for the service: {e}"))? })
    }

    /// Returns the queue by a call, so that a closure that uses it captures the service as well.
    const fn queue(&self) -> &Arc<Queue<D>> {
        &self.queue
    }

    /// Describes its numbers and flags, and its last events where no other thread has it.
    fn state(&self) -> Stating {
        let queue = Arc::clone(&self.queue);
        Box::new(move || {
            let events = queue.control().try_with(|owned| {
                let text: Vec<String> = owned.log().events().map(|(_, event)| event.to_string()).collect();
                text.join(", ")
            });
            let events = events.unwrap_or_else(|| "not to be had".to_owned());
            format!("; {:?}, {queue:?}; last events: {events}", queue.status().counts())
        })
    }
}

/// Returns all ways over devices of one kind.
pub(super) fn ways<D>(devices: &Devices<'_, D>, senders: usize) -> Result<Vec<Way>, String>
where
    D: TxQueue<Frame = Frame> + Send + 'static,
{
    let mut all = locked(devices)?;
    for (key, about, kind, direct) in [
        ("direct", "Queue::send, pfifo_fast: past the queue", "pfifo_fast", true),
        ("direct off", "the same, switched off: through the queue", "pfifo_fast", false),
        ("scheduler", "prio is installed, so that nothing goes directly", "prio", true),
    ] {
        let (dev, shown) = (devices.make)()?;
        let (served, frames) = (Served::new(path(kind, direct), dev, devices.poll)?, frames());
        let state = served.state();
        let send = move |_, n| each(frames, n, |frame, meta| is_in(&served.queue().send(frame, meta)));
        all.push(Way { key, about, send: Box::new(send), state, shown: vec![shown] });
    }
    all.push(bursts(devices)?);
    all.extend(owner(devices)?);
    all.extend(to_completion(devices, senders)?);
    Ok(all)
}

/// Returns the old way and the proposed one.
fn locked<D>(devices: &Devices<'_, D>) -> Result<Vec<Way>, String>
where
    D: TxQueue<Frame = Frame> + Send + 'static,
{
    let frames = frames();
    let (dev, shown) = (devices.make)()?;
    let queue = Mutex::new(VecDeque::with_capacity(1024));
    let old = Old { queue, waiting: AtomicUsize::new(0), driver: Mutex::new(dev) };
    let send = move |_, n| {
        each(frames, n, |frame, meta| {
            old.send(frame, meta);
            true
        });
    };
    let before = Way {
        key: "locks",
        about: "before: into the queue and out of it under its lock, to the driver under the driver's",
        send: Box::new(send),
        state: Box::new(String::new),
        shown: vec![shown],
    };
    let (dev, shown) = (devices.make)()?;
    let driver = Mutex::new(dev);
    let send = move |_, n| {
        each(frames, n, |frame, meta| {
            put(&mut *lock(&driver), frame, meta);
            true
        });
    };
    let after = Way {
        key: "one lock",
        about: "as proposed: to the driver, under its lock",
        send: Box::new(send),
        state: Box::new(String::new),
        shown: vec![shown],
    };
    Ok(vec![before, after])
}

fn bursts<D>(devices: &Devices<'_, D>) -> Result<Way, String>
where
    D: TxQueue<Frame = Frame> + Send + 'static,
{
    let (dev, shown) = (devices.make)()?;
    let (served, frames) = (Served::new(path("pfifo_fast", true), dev, devices.poll)?, frames());
    let state = served.state();
    let send = move |_, n| {
        for _ in 0..n / BURST {
            let mut packets = burst(frames);
            let mut refused = served.queue().send_burst(&mut packets).1;
            while let Some(packet) = refused {
                std::thread::yield_now();
                refused = served.queue().send_burst(&mut std::iter::once(packet).chain(&mut packets)).1;
            }
        }
    };
    let about = "Queue::send_burst, 32 at a time";
    Ok(Way { key: "bursts", about, send: Box::new(send), state, shown: vec![shown] })
}

/// Returns the ways in which the first sender owns the queue and the others send as every thread
/// does.
fn owner<D>(devices: &Devices<'_, D>) -> Result<Vec<Way>, String>
where
    D: TxQueue<Frame = Frame> + Send + 'static,
{
    let mut both = Vec::new();
    for (key, about, by_burst) in [
        ("owner", "Owner::send: the queue is biased to the first sender", false),
        ("owner, bursts", "Owner::send_burst, 32 at a time", true),
    ] {
        let (dev, shown) = (devices.make)()?;
        let (served, frames) = (Served::new(path("pfifo_fast", true), dev, devices.poll)?, frames());
        let state = served.state();
        let send = move |who, n| {
            let owner = if who == 0 { Owner::new(Arc::clone(served.queue())) } else { None };
            let Some(mut owner) = owner else {
                return each(frames, n, |frame, meta| is_in(&served.queue().send(frame, meta)));
            };
            if !by_burst {
                return each(frames, n, |frame, meta| is_in(&owner.send(frame, meta)));
            }
            for _ in 0..n / BURST {
                let mut packets = burst(frames);
                let mut refused = owner.send_burst(&mut packets).1;
                while let Some(packet) = refused {
                    std::thread::yield_now();
                    refused = owner.send_burst(&mut std::iter::once(packet).chain(&mut packets)).1;
                }
            }
        };
        both.push(Way { key, about, send: Box::new(send), state, shown: vec![shown] });
    }
    Ok(both)
}

/// Returns the ways in which each sender has a path and a device of its own.
fn to_completion<D>(devices: &Devices<'_, D>, senders: usize) -> Result<Vec<Way>, String>
where
    D: TxQueue<Frame = Frame> + Send + 'static,
{
    let frames = frames();
    let mut both = Vec::new();
    for (key, about, by_burst) in [
        ("own path", "run to completion: each sender has a TxPath and a device of its own", false),
        ("own path, bursts", "the same, 32 to a doorbell", true),
    ] {
        let made = (0..senders).map(|_| (devices.make)()).collect::<Result<Vec<_>, _>>()?;
        let (devs, shown): (Vec<D>, Vec<_>) = made.into_iter().unzip();
        let paths: Vec<_> = devs.into_iter().map(|dev| Mutex::new((path("pfifo_fast", true), dev))).collect();
        let send = move |who: usize, n| {
            let (path, dev) = &mut *lock(&paths[who]);
            let each_to = if by_burst { BURST } else { 1 };
            let mut pushed = 0;
            each(frames, n, |frame, meta| {
                if path.send_direct(frame, &meta, dev).is_err() {
                    dev.reap(&mut |_| {});
                    return false;
                }
                pushed += 1;
                if pushed == each_to {
                    pushed = 0;
                    path.doorbell(dev);
                }
                true
            });
        };
        both.push(Way { key, about, send: Box::new(send), state: Box::new(String::new), shown });
    }
    Ok(both)
}

/// Returns the operations between threads alone, without another thread.
pub(super) fn yardsticks() -> Vec<Way> {
    let word = AtomicU32::new(0);
    let swaps = move |_, n| {
        for _ in 0..n {
            let _ = black_box(word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed));
            let _ = black_box(word.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed));
        }
    };
    let mutex = Mutex::new(0u64);
    let locks = move |_, n| {
        for _ in 0..n {
            *lock(&mutex) += 1;
        }
    };
    vec![
        Way {
            key: "two swaps",
            about: "yardstick: two compare-and-swaps on one word",
            send: Box::new(swaps),
            state: Box::new(String::new),
            shown: Vec::new(),
        },
        Way {
            key: "a mutex",
            about: "yardstick: std's Mutex, taken and let go",
            send: Box::new(locks),
            state: Box::new(String::new),
            shown: Vec::new(),
        },
    ]
}
