//! Workers that share a queue and send with different eagerness: with turns each gets the same
//! share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Bell2, clock, path};
use txweir_core::model::testing::VecDevice;
use txweir_core::{Admitted, Meta};
use txweir_handoff::*;

/// Returns Jain's index of fairness (DEC-TR-301).
fn jain(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|s| s * s).sum();
    (sum * sum) as f64 / (shares.len() as u64 * squares) as f64
}

fn full_size() -> Meta {
    Meta::new(1514)
}

/// Rounds on one thread: the first worker tries ten times, the others once, and the device sends
/// one packet. Returns the packets of each worker.
fn rounds(workers: usize, quota: u32) -> Vec<u64> {
    let turns = Turns::new(quota);
    let senders: Vec<Worker> = (0..workers).map(|_| turns.worker()).collect();
    let device = FairDevice { inner: VecDevice::with_slots(2) };
    let queue = Queue::new(
        path(false, "pfifo", &["limit", "64"]),
        device,
        QueueConfig::new(clock),
        Wakeup::calling(|| {}),
    );
    let got = Arc::new(std::sync::Mutex::new(vec![0; workers]));
    for _ in 0..4000 {
        for (who, worker) in senders.iter().enumerate() {
            for _ in 0..if who == 0 { 10 } else { 1 } {
                let _ = worker.send(&queue, who as u64, full_size());
                assert!(quota == 0 || worker.waiting() <= quota);
            }
        }
        queue.control().post(|owned| owned.dev.inner.finish(1));
        queue.kick();
    }
    let counted = Arc::clone(&got);
    queue.control().post(move |owned| {
        owned.dev.inner.sent().iter().for_each(|who| counted.lock().unwrap()[*who as usize] += 1);
    });
    let got = got.lock().unwrap().clone();
    assert_eq!(got.iter().sum::<u64>(), 4002, "the device was never idle");
    got
}

#[test]
fn an_eager_worker_gets_no_more_than_the_others() {
    for workers in 2..=8 {
        let (on, off) = (rounds(workers, 4), rounds(workers, 0));
        assert!(jain(&on) > 0.99, "{workers}: {on:?}");
        assert!(jain(&off) < 0.7, "{workers}: {off:?}");
    }
}

#[test]
fn what_was_counted_comes_back_whatever_happens() {
    let turns = Turns::new(3);
    let worker = turns.worker();
    let device = FairDevice { inner: VecDevice::with_slots(1) };
    let queue = Queue::new(
        path(false, "pfifo", &["limit", "1"]),
        device,
        QueueConfig::new(clock),
        Wakeup::calling(|| {}),
    );
    let send = || worker.send(&queue, 1u64, full_size());
    assert_eq!((send(), worker.waiting()), (Taken::Handed(Handed::Done(Admitted::Sent)), 0));
    assert_eq!((send(), worker.waiting()), (Taken::Handed(Handed::Done(Admitted::Queued)), 1));
    // A refused packet comes back, and so does its charge.
    assert_eq!((send(), worker.waiting()), (Taken::Handed(Handed::Done(Admitted::Full(1))), 1));
    turns.set_quota(1);
    assert_eq!((send(), turns.quota()), (Taken::Wait(1), 1));
    // The worker is told once there is room in its turn, and at once if there is room already.
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    let wakeup = Wakeup::calling(move || tell.store(true, Ordering::Release));
    worker.when_turn(wakeup.clone());
    assert!(!told.load(Ordering::Acquire));
    queue.control().post(|owned| owned.dev.inner.finish(1));
    queue.kick();
    assert!(told.swap(false, Ordering::AcqRel) && worker.waiting() == 0);
    worker.when_turn(wakeup.clone());
    assert!(told.swap(false, Ordering::AcqRel));
    // A greater quota tells as well; an acknowledgement never waits.
    assert_eq!(send(), Taken::Handed(Handed::Done(Admitted::Queued)));
    worker.when_turn(wakeup);
    assert!(!told.load(Ordering::Acquire));
    let mut ack = full_size();
    ack.tcp_control = true;
    assert_eq!(worker.send(&queue, 2, ack), Taken::Handed(Handed::Done(Admitted::Full(2))));
    turns.set_quota(2);
    assert!(told.load(Ordering::Acquire));
    drop(queue);
    assert_eq!(worker.waiting(), 0);
}

/// The waker of a worker is called with no lock held.
#[test]
fn a_worker_that_is_told_may_use_the_turns() {
    let turns = Arc::new(Turns::new(1));
    let worker = turns.worker();
    let queue = Queue::new(
        path(false, "pfifo", &["limit", "9"]),
        FairDevice { inner: VecDevice::with_slots(0) },
        QueueConfig::new(clock),
        Wakeup::calling(|| {}),
    );
    let first = worker.send(&queue, 1u64, full_size());
    assert_eq!(first, Taken::Handed(Handed::Done(Admitted::Queued)));
    assert_eq!(worker.send(&queue, 2, full_size()), Taken::Wait(2));
    let (mine, told) = (Arc::clone(&turns), Arc::new(AtomicBool::new(false)));
    let tell = Arc::clone(&told);
    worker.when_turn(Wakeup::calling(move || {
        assert_eq!(mine.worker().waiting(), 0);
        tell.store(true, Ordering::Release);
    }));
    assert!(!told.load(Ordering::Acquire));
    turns.set_quota(2);
    assert!(told.load(Ordering::Acquire));
}

/// Runs real threads over a ring whose other end takes a packet each 100 us.
fn threads(workers: usize, quota: u32) -> Vec<u64> {
    let (bell, door) = (Bell::new(), Bell2::default());
    let (device, mut from) = ring::<u64>(2, door.wakeup());
    let queue = Queue::new(
        path(false, "pfifo", &["limit", "64"]),
        FairDevice { inner: device },
        QueueConfig::new(clock),
        bell.wakeup(),
    );
    let queue = Arc::new(queue);
    let kicked = Arc::downgrade(&queue);
    from.on_finished(Wakeup::calling(move || {
        if let Some(queue) = kicked.upgrade() {
            queue.kick();
        }
    }));
    let service =
        Service::spawn("service", &bell, vec![Arc::clone(&queue)], Monitor::default(), |_| {}).unwrap();
    let turns = Turns::new(quota);
    let stop = AtomicBool::new(false);
    let mut got = vec![0; workers];
    thread::scope(|s| {
        for who in 0..workers {
            let (worker, queue, stop) = (turns.worker(), &queue, &stop);
            s.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    for _ in 0..if who == 0 { 10 } else { 1 } {
                        if let Taken::Wait(_) = worker.send(queue, who as u64, full_size()) {
                            worker.when_turn(Wakeup::this_thread());
                            thread::park_timeout(Duration::from_millis(10));
                        }
                    }
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        for _ in 0..6000 {
            if let Some((who, _)) = from.pop() {
                got[who as usize] += 1;
                from.finish(1);
            }
            thread::sleep(Duration::from_micros(100));
        }
        stop.store(true, Ordering::Release);
    });
    service.stop();
    got
}

#[test]
fn eager_threads_share_with_the_others() {
    for workers in [2, 4, 8] {
        let got = threads(workers, 4);
        assert!(got.iter().sum::<u64>() > 1000 && jain(&got) >= 0.95, "{workers}: {got:?}");
    }
}
