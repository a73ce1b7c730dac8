//! Tasks that wait for room, bursts over several queues, and the end of a queue.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant as Clock};

use crate::common::{RingQueue, clock, over_a_ring, own_time, path};
use txweir_core::classify::packet::NoOutlet;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Handle, Meta, Nanos, PathConfig};
use txweir_handoff::*;

const META: Meta = Meta::new(100);

/// A task's waker that counts its calls, and unparks the thread that runs the task.
struct Told(AtomicU64, Thread);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.unpark();
    }
}

fn told() -> Arc<Told> {
    Arc::new(Told(AtomicU64::new(0), thread::current()))
}

fn calls(told: &Told) -> u64 {
    told.0.load(Ordering::Relaxed)
}

/// An executor of one task.
fn run<T>(task: impl Future<Output = T>) -> T {
    let (mut task, waker) = (pin!(task), Waker::from(told()));
    let until = Clock::now() + Duration::from_secs(60);
    loop {
        if let Poll::Ready(t) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return t;
        }
        assert!(Clock::now() < until, "the task was not woken");
        thread::park_timeout(Duration::from_secs(60));
    }
}

type Device = VecDevice<u64>;

/// Returns a queue with one packet in the device and `limit` in the qdisc; there is no room.
fn full(limit: u64) -> Queue<Device> {
    let qdisc = path(false, "pfifo", &["limit", &limit.to_string()]);
    let queue = Queue::new(qdisc, VecDevice::with_slots(1), QueueConfig::new(clock), Bell::new().wakeup());
    for n in 0..=limit {
        let Handed::Done(Admitted::Sent | Admitted::Queued) = queue.send(n, META) else { panic!("no room") };
    }
    queue
}

fn poll<D: txweir_core::TxQueue>(sending: &mut Sending<'_, D>, told: &Arc<Told>) -> Poll<Handed<D::Frame>> {
    Pin::new(sending).poll(&mut Context::from_waker(&Waker::from(Arc::clone(told))))
}

fn finish_one(queue: &Queue<Device>) {
    queue.control().post(|owned| owned.dev.finish(1));
    queue.kick();
}

const QUEUED: Poll<Handed<u64>> = Poll::Ready(Handed::Done(Admitted::Queued));

#[test]
fn a_task_is_woken_once_there_is_room_and_leaves_no_request() {
    let (queue, told) = (full(3), told());
    let mut sending = queue.send_async(9, META);
    assert!(poll(&mut sending, &told).is_pending() && poll(&mut sending, &told).is_pending());
    assert_eq!(calls(&told), 0);
    finish_one(&queue);
    assert_eq!((calls(&told), poll(&mut sending, &told)), (1, QUEUED));
    assert!(poll(&mut sending, &told).is_pending(), "it has ended");
    assert_eq!(sending.into_packet(), None);
    for _ in 0..5 {
        finish_one(&queue);
    }
    assert_eq!((calls(&told), Arc::strong_count(&told)), (1, 1));
}

#[test]
fn a_dropped_future_gives_its_packet_back_and_leaves_no_request() {
    let (queue, gone, stays) = (full(3), told(), told());
    let mut first = queue.send_async(8, META);
    let mut second = queue.send_async(9, META);
    assert!(poll(&mut first, &gone).is_pending() && poll(&mut second, &stays).is_pending());
    assert_eq!(Arc::strong_count(&gone), 2);
    assert_eq!(first.into_packet(), Some((8, META)));
    assert_eq!(Arc::strong_count(&gone), 1, "a waker is left in the queue");
    // The place of the first one is that of the second now.
    finish_one(&queue);
    assert_eq!((calls(&gone), calls(&stays)), (0, 1));
    assert_eq!(poll(&mut second, &stays), QUEUED);
    // One that was never polled has sent nothing: the others have tried twice at their first poll.
    drop(queue.send_async(10, META));
    assert_eq!((queue.status().counts().path.full, queue.status().counts().path.queued), (4, 4));
}

/// Two futures of one task are one receiver: the end of the one leaves the other's request.
#[test]
fn futures_of_one_task_do_not_take_each_others_requests() {
    let (queue, told) = (full(3), told());
    let mut first = queue.send_async(8, META);
    let mut second = queue.send_async(9, META);
    assert!(poll(&mut first, &told).is_pending() && poll(&mut second, &told).is_pending());
    // The second poll asks again, which is no request more.
    assert!(poll(&mut first, &told).is_pending());
    drop(first);
    finish_one(&queue);
    assert_eq!((calls(&told), poll(&mut second, &told)), (1, QUEUED));
    drop(second);
    assert_eq!(Arc::strong_count(&told), 1);
    // A future that has moved to another task is told there.
    let [before, after] = [(); 2].map(|()| self::told());
    let mut moved = queue.send_async(10, META);
    assert!(poll(&mut moved, &before).is_pending() && poll(&mut moved, &after).is_pending());
    assert_eq!((Arc::strong_count(&before), Arc::strong_count(&after)), (1, 2));
    finish_one(&queue);
    assert_eq!((calls(&before), calls(&after), poll(&mut moved, &after)), (0, 1, QUEUED));
}

/// Threads with a task each, through a ring of four slots and a queue of four places.
#[test]
fn tasks_of_several_threads_lose_nothing_and_keep_their_order() {
    const EACH: u64 = 2000;
    let (queue, mut receiver): (RingQueue, _) = over_a_ring(
        path(false, "pfifo", &["limit", "4"]),
        4,
        QueueConfig { list: 4, ..QueueConfig::new(clock) },
        Bell::new().wakeup(),
        Bell::new().wakeup(),
    );
    let bell = Bell::new();
    let service = Service::spawn("tx", &bell, vec![Arc::clone(&queue)], Monitor::default(), |_| {}).unwrap();
    let over = Arc::new(AtomicU64::new(0));
    let got = thread::scope(|s| {
        for who in 0..3 {
            let (queue, over) = (Arc::clone(&queue), Arc::clone(&over));
            s.spawn(move || {
                run(async {
                    for n in 0..EACH {
                        let handed = queue.send_async(who << 32 | n, META).await;
                        assert!(!matches!(handed, Handed::Done(Admitted::Full(_))));
                    }
                });
                over.fetch_add(1, Ordering::Release);
            });
        }
        let got = received(&mut receiver, 3 * EACH as usize);
        assert_eq!(got.len(), 3 * EACH as usize, "{} senders ended", over.load(Ordering::Relaxed));
        got
    });
    service.stop();
    for who in 0..3 {
        let own = got.iter().filter(|frame| **frame >> 32 == who).map(|frame| frame & 0xffff_ffff);
        assert!(own.eq(0..EACH), "sender {who}");
    }
    assert!(queue.status().counts().path.full > 0, "no task had to wait");
}

/// Returns the packets that come out of a ring, up to this number or a minute.
fn received(receiver: &mut RingReceiver<u64>, count: usize) -> Vec<u64> {
    let (mut got, until) = (Vec::new(), Clock::now() + Duration::from_secs(60));
    while got.len() < count && Clock::now() < until {
        match receiver.pop() {
            Some((frame, _)) => {
                got.push(frame);
                receiver.finish(1);
            }
            None => thread::yield_now(),
        }
    }
    got
}

/// The queues of a port of `n`, each with a device of 20 slots and a qdisc of `limit` packets.
fn port(n: usize, limit: &str, poll: Option<Nanos>) -> Arc<SharedPort<Device>> {
    let queue = |_| {
        let qdisc = path(false, "pfifo", &["limit", limit]);
        let config = QueueConfig { poll, ..QueueConfig::new(clock) };
        Arc::new(Queue::new(qdisc, VecDevice::with_slots(20), config, Bell::new().wakeup()))
    };
    SharedPort::new((0..n).map(queue).collect(), 1)
}

/// Returns the frames that each device of a port was sent, with their queues.
fn sent(port: &SharedPort<Device>) -> Vec<Vec<(u64, u16)>> {
    let of = |queue: &Arc<Queue<Device>>| {
        let of = |o: &mut Owned<Device>| {
            o.dev.sent().iter().copied().zip(o.dev.metas().iter().map(|m| m.queue)).collect::<Vec<_>>()
        };
        queue.control().try_with(of).expect("no thread has it")
    };
    port.queues().iter().map(of).collect()
}

#[test]
fn a_burst_over_several_queues_is_its_packets_one_by_one() {
    let packet = |n: u64| (n, META.flow(n / 3 * 7 % 11));
    // A polled queue asks for more packets after the last.
    let poll = Some(Nanos::from_millis(1));
    for (queues, poll) in [(1, None), (2, None), (4, None), (1, poll), (2, poll), (4, poll)] {
        let [whole, single] = [(); 2].map(|()| port(queues, "100", poll));
        let mut sender = whole.sender();
        assert_eq!(sender.send_burst(&mut (0..50).map(packet)), (50, None));
        let mut sender = single.sender();
        for (frame, meta) in (0..50).map(packet) {
            let _ = sender.send(frame, meta);
        }
        assert_eq!(sent(&whole), sent(&single));
        let shares: Vec<usize> = sent(&whole).iter().map(Vec::len).collect();
        assert!(shares.iter().all(|n| *n > 0), "{shares:?}");
    }
}

#[test]
fn a_burst_ends_at_the_first_packet_without_room() {
    let port = port(2, "5", None);
    let mut sender = port.sender();
    let mut packets = (0..200).map(|n| (n, META.flow(n)));
    let (went, back) = sender.send_burst(&mut packets);
    let (frame, meta) = back.expect("50 places, 200 packets");
    assert_eq!((frame, packets.next().map(|(n, _)| n)), (went, Some(went + 1)));
    assert!(meta.queue < 2 && (26..50).contains(&went), "{went}");
    assert_eq!(sender.send(frame, meta), (meta.queue, Handed::Done(Admitted::Full(frame))));
    let none = SharedPort::<Device>::new(Vec::new(), 1);
    assert_eq!(none.sender().send_burst(&mut [(1, META)].into_iter()), (0, Some((1, META))));
}

#[test]
fn a_closed_queue_sends_the_rest_as_the_device_takes_it() {
    let (sender, mut receiver) = ring::<u64>(2, Bell::new().wakeup());
    let queue = Queue::new(path(true, "pfifo", &[]), sender, QueueConfig::new(clock), Bell::new().wakeup());
    for n in 0..300 {
        let _ = queue.send(n, META);
    }
    let left = thread::scope(|s| {
        let device = s.spawn(move || received(&mut receiver, 300));
        let left = queue.close(Duration::from_secs(60));
        assert!(device.join().expect("it ran").into_iter().eq(0..300));
        left
    });
    assert_eq!(left, []);
}

#[test]
fn a_close_ends_in_time_and_gives_the_rest_back_and_what_the_device_has_finished() {
    let back = Arc::new(Mutex::new(Vec::new()));
    let mine = Arc::clone(&back);
    let config = QueueConfig {
        done: Box::new(move |frame| mine.lock().unwrap().push(frame)),
        ..QueueConfig::new(own_time::clock)
    };
    // A shaper of one packet a second, by a clock that stands still.
    let shaper = path(false, "tbf", &["rate", "800bit", "burst", "100", "limit", "10kb"]);
    let dev = Returning { sent: Vec::new() };
    let queue = Arc::new(Queue::new(shaper, dev, config, Bell::new().wakeup()));
    for n in 0..6 {
        let _ = queue.send(n, META);
    }
    let queue = Arc::into_inner(queue).expect("no sender is left");
    let began = Clock::now();
    let left = queue.close(Duration::from_millis(50));
    assert!((50..10_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert!(left.iter().map(|(frame, _)| *frame).eq(1..6), "{left:?}");
    assert_eq!(*back.lock().unwrap(), [0]);
}

#[test]
fn a_close_gives_listed_packets_back_behind_those_of_the_qdiscs() {
    let config = QueueConfig { drain: Drain::Worker, list: 32, ..QueueConfig::new(own_time::clock) };
    let queue = Queue::new(
        path(false, "pfifo", &["limit", "4"]),
        VecDevice::with_slots(1),
        config,
        Bell::new().wakeup(),
    );
    for n in 0..10 {
        assert_eq!(queue.send(n, META), Handed::Listed);
    }
    let left: Vec<u64> = queue.close(Duration::ZERO).into_iter().map(|(frame, _)| frame).collect();
    assert!(left.into_iter().eq(1..10));
}

/// A device of endless room that has finished each packet by the next `reap`, and returns it.
struct Returning {
    sent: Vec<u64>,
}

impl txweir_core::TxQueue for Returning {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: u64, _: &Meta) {
        self.sent.push(frame);
    }
    fn commit(&mut self) -> Result<(), txweir_core::DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(txweir_core::Completed<u64>)) {
        for frame in self.sent.drain(..) {
            sink(txweir_core::Completed { packets: 1, bytes: 100, frame: Some(frame) });
        }
    }
}

/// The queue's parts go on with one thread: nothing that waits is lost, and what the device has is
/// known.
#[test]
fn a_queue_gives_its_parts_back() {
    let queue = full(3);
    // Another thread's packet, as the list has it.
    queue.control().with(|_| assert_eq!(queue.send(7, META), Handed::Listed));
    let QueueParts { mut path, mut device, listed } = queue.into_parts();
    assert_eq!((path.backlog().packets, device.in_flight()), (3, 1));
    assert_eq!(listed, [(7, META)]);
    for _ in 0..4 {
        device.finish(1);
        path.reap(clock(), &mut device, |_| {});
        let _ = path.drain(clock(), 64, &mut device);
    }
    assert_eq!((device.sent(), device.discarded().len()), ([0, 1, 2, 3].as_slice(), 0));
    assert!(path.tree().kinds().get("pfifo").is_some());
}

/// The end of a queue without `into_parts` gives the frames to the device.
#[test]
fn a_queue_that_ends_discards_what_waits() {
    struct Back(VecDevice<u64>, Arc<Mutex<Vec<u64>>>);
    impl TxQueue for Back {
        type Frame = u64;
        fn reserve(&mut self, want: u32) -> u32 {
            self.0.reserve(want)
        }
        fn push(&mut self, frame: u64, m: &Meta) {
            self.0.push(frame, m);
        }
        fn commit(&mut self) -> Result<(), DeviceError> {
            self.0.commit()
        }
        fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
            self.0.reap(sink);
        }
        fn discard(&mut self, frame: u64, _: &Meta, _: DropReason) {
            self.1.lock().unwrap().push(frame);
        }
    }
    let back = Arc::default();
    let device = Back(VecDevice::with_slots(1), Arc::clone(&back));
    let queue = Queue::new(path(false, "pfifo", &[]), device, QueueConfig::new(clock), Bell::new().wakeup());
    for n in 0..3 {
        let _ = queue.send(n, META);
    }
    queue.control().with(|_| assert_eq!(queue.send(3, META), Handed::Listed));
    drop(queue);
    assert_eq!(*back.lock().unwrap(), [1, 2, 3]);
}

/// A frame that filters have seen waits with what they have made of it, and goes as it is.
#[test]
fn a_prepared_frame_waits_with_its_details() {
    let rules = |_| QueueConfig::new(clock);
    let config = PathConfig { bql: None, ..PathConfig::default() };
    let device = vec![VecDevice::<Vec<u8>>::with_slots(1)];
    let mut control = SharedControl::new(config, device, rules, 1, Wakeup::calling(|| {})).unwrap();
    let words = &mut Words::new(&["limit", "1"]);
    control.gather().control().configure(|q| q.replace(Handle::ROOT, None, "pfifo", words)).unwrap();
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    let mut sender = control.port().sender();
    let mut send = || sender.send_frame(frame.clone(), |m| m.mark += 1, &mut NoOutlet);
    assert!(matches!((send(), send()), (Passed::Handed(..), Passed::Handed(..))));
    let Passed::Full(prepared) = send() else { panic!("there is no room") };
    assert_eq!(prepared.meta.mark, 1);
    let sender = control.port().sender();
    let mut waiting = sender.resend_async(prepared);
    let waker = Waker::from(told());
    let poll = |waiting: &mut Resending<'_, _>| Pin::new(waiting).poll(&mut Context::from_waker(&waker));
    assert!(poll(&mut waiting).is_pending());
    // It is taken back, and waits again.
    let prepared = waiting.into_prepared().expect("it has not gone");
    assert_eq!((prepared.frame.len(), prepared.meta.mark), (60, 1));
    let mut waiting = sender.resend_async(prepared);
    assert!(poll(&mut waiting).is_pending());
    let queue = &control.port().queues()[0];
    queue.control().with(|o| o.dev.devices()[0].finish(1));
    queue.kick();
    assert!(matches!(poll(&mut waiting), Poll::Ready(Passed::Handed(0, Handed::Done(Admitted::Queued)))));
    assert!(waiting.into_prepared().is_none());
}
